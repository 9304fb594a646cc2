package resolve

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/edgeward/edgeward/internal/publicaddr"
)

// question is what was asked. An answer must be to exactly this.
type question struct {
	dnsmessage.Question
	message []byte
}

// ask makes the DNS message that asks for a name.
func ask(name string, family Family) (question, error) {
	q := question{Question: dnsmessage.Question{Type: family.record(), Class: dnsmessage.ClassINET}}
	var err error
	if q.Name, err = dnsmessage.NewName(strings.TrimSuffix(name, ".") + "."); err != nil || len(q.Name.String()) < 2 {
		return q, fmt.Errorf("%q is no name that can be looked up", clip(name))
	}
	m := dnsmessage.Message{
		Header:    dnsmessage.Header{RecursionDesired: true}, // the ID is 0: RFC 8484, section 4.1
		Questions: []dnsmessage.Question{q.Question},
	}
	if q.message, err = m.Pack(); err != nil {
		return q, fmt.Errorf("%q is no name that can be looked up: %w", clip(name), err)
	}
	return q, nil
}

// Limits on what an answer may hold. A chain of names is rarely longer than three.
const (
	maxRecords = 200
	maxChain   = 16
)

// read returns the addresses in an answer.
func (q question) read(message []byte) (Answer, error) {
	var p dnsmessage.Parser
	header, err := p.Start(message)
	if err != nil {
		return Answer{}, fmt.Errorf("reading the answer: %w", err)
	}
	if err := q.accept(&p, header); err != nil {
		return Answer{}, err
	}
	if header.RCode == dnsmessage.RCodeNameError {
		return Answer{}, &Error{Kind: NoName, Err: errors.New("there is no such name (NXDOMAIN)")}
	}
	r := records{aliases: make(map[string]string), addrs: make(map[string][]netip.Addr), ttl: make(map[string]uint32)}
	if err := r.collect(&p, q.Type); err != nil {
		return Answer{}, err
	}
	return r.follow(lower(q.Name))
}

// accept refuses an answer that is not one to q, or not all of one.
func (q question) accept(p *dnsmessage.Parser, h dnsmessage.Header) error {
	switch {
	case !h.Response || h.ID != 0 || h.OpCode != 0:
		return errors.New("the message is no answer to a query")
	case h.Truncated:
		return errors.New("the answer is truncated")
	case h.RCode != dnsmessage.RCodeSuccess && h.RCode != dnsmessage.RCodeNameError:
		return fmt.Errorf("the resolver failed: %s", strings.TrimPrefix(h.RCode.String(), "RCode"))
	}
	asked, err := p.AllQuestions()
	if err != nil {
		return fmt.Errorf("reading the answer: %w", err)
	}
	if len(asked) != 1 || lower(asked[0].Name) != lower(q.Name) || asked[0].Type != q.Type || asked[0].Class != q.Class {
		return errors.New("the answer is to another question")
	}
	return nil
}

// records are the usable ones of an answer, by their owner.
type records struct {
	aliases map[string]string
	addrs   map[string][]netip.Addr
	ttl     map[string]uint32 // the shortest
}

func (r records) collect(p *dnsmessage.Parser, want dnsmessage.Type) error {
	for n := 0; ; n++ {
		h, err := p.AnswerHeader()
		if errors.Is(err, dnsmessage.ErrSectionDone) {
			return nil
		}
		if err == nil && n == maxRecords {
			err = fmt.Errorf("more than %d records", maxRecords)
		}
		if err == nil {
			err = r.add(p, h, want)
		}
		if err != nil {
			return fmt.Errorf("reading the answer: %w", err)
		}
	}
}

// add takes one record in. Others than those asked for, and aliases, are skipped.
func (r records) add(p *dnsmessage.Parser, h dnsmessage.ResourceHeader, want dnsmessage.Type) error {
	owner := lower(h.Name)
	switch {
	case h.Class != dnsmessage.ClassINET || h.Type != want && h.Type != dnsmessage.TypeCNAME:
		return p.SkipAnswer()
	case h.Type == dnsmessage.TypeCNAME:
		alias, err := p.CNAMEResource()
		if err != nil {
			return err
		}
		target := lower(alias.CNAME)
		if before, twice := r.aliases[owner]; twice && before != target {
			return fmt.Errorf("%s is an alias of two names", clip(owner))
		}
		r.aliases[owner] = target
	case want == dnsmessage.TypeA:
		a, err := p.AResource()
		if err != nil {
			return err
		}
		r.addrs[owner] = append(r.addrs[owner], netip.AddrFrom4(a.A))
	default:
		a, err := p.AAAAResource()
		if err != nil {
			return err
		}
		r.addrs[owner] = append(r.addrs[owner], netip.AddrFrom16(a.AAAA))
	}
	if ttl, seen := r.ttl[owner]; !seen || h.TTL < ttl {
		r.ttl[owner] = h.TTL
	}
	return nil
}

// follow goes from the name that was asked for, over aliases, to addresses. Those
// of other names do not count.
func (r records) follow(name string) (Answer, error) {
	ttl := r.ttl[name]
	for range maxChain {
		if next, alias := r.aliases[name]; alias {
			name = next
			if t, ok := r.ttl[name]; ok {
				ttl = min(ttl, t)
			}
			continue
		}
		addrs := slices.Clone(r.addrs[name])
		if len(addrs) == 0 {
			return Answer{}, &Error{Kind: NoAddress, Err: errors.New("there is no such address")}
		}
		slices.SortFunc(addrs, netip.Addr.Compare)
		return Answer{Addrs: slices.Compact(addrs), TTL: time.Duration(ttl) * time.Second}, nil
	}
	return Answer{}, errors.New("the answer has aliases without end")
}

// public refuses an answer with an address that nobody on the Internet can reach.
func public(addrs []netip.Addr) error {
	for _, addr := range addrs {
		if err := publicaddr.Check(addr); err != nil {
			return &Error{Kind: Refused, Err: fmt.Errorf("the answer is refused: %w", err)}
		}
	}
	return nil
}

// lower is a name with its ASCII letters in lower case. Unicode has more letters
// that fold into those, and none of them is the same in DNS.
func lower(name dnsmessage.Name) string {
	b := slices.Clone(name.Data[:name.Length])
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
	return string(b)
}

// clip is a name for a message.
func clip(name string) string {
	const most = 80
	name = strings.ToValidUTF8(name[:min(len(name), most)], "?")
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return '?'
		}
		return r
	}, name)
}
