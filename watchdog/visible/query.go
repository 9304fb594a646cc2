package visible

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/miekg/dns"

	"github.com/edgeward/edgeward/watchdog/resolve"
)

// errTruncated asks for TCP.
var errTruncated = errors.New("the answer is truncated")

// query asks a name server over UDP, and over TCP if the answer does not fit. It ends
// with ctx.
func (c Config) query(ctx context.Context, at netip.AddrPort, q question) (answer, error) {
	a, err := c.exchange(ctx, "udp", at, q)
	if errors.Is(err, errTruncated) {
		a, err = c.exchange(ctx, "tcp", at, q)
	}
	return a, err
}

func (c Config) exchange(ctx context.Context, network string, at netip.AddrPort, q question) (answer, error) {
	m := q.message()
	packed, err := m.Pack()
	if err != nil {
		return answer{}, fmt.Errorf("making the question: %w", err)
	}
	conn, err := c.Dial(ctx, network, at.String())
	if err != nil {
		return answer{}, fmt.Errorf("connecting: %w", reason(ctx, err))
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if network == "tcp" {
		return stream(ctx, conn, m, packed)
	}
	return datagrams(ctx, conn, m, packed)
}

// message is the question as it is sent: not recursive, with a random ID.
func (q question) message() *dns.Msg {
	kind := dns.TypeA
	if q.family == resolve.IPv6 {
		kind = dns.TypeAAAA
	}
	m := new(dns.Msg).SetQuestion(q.asked, kind)
	m.RecursionDesired = false
	return m
}

// Without EDNS, which we do not send, an answer over UDP has 512 bytes at most (RFC
// 1035, section 4.2.1). What is no answer to our question may come from anybody and
// is skipped, up to a number that only a flood reaches.
const (
	maxDatagram = 4096
	maxStrays   = 100
)

func datagrams(ctx context.Context, conn net.Conn, m *dns.Msg, packed []byte) (answer, error) {
	if _, err := conn.Write(packed); err != nil {
		return answer{}, fmt.Errorf("asking: %w", reason(ctx, err))
	}
	buf := make([]byte, maxDatagram)
	var stray error
	for range maxStrays {
		n, err := conn.Read(buf)
		if err != nil {
			err = fmt.Errorf("waiting for the answer: %w", reason(ctx, err))
			if stray != nil {
				err = fmt.Errorf("%w (there was another message: %w)", err, stray)
			}
			return answer{}, err
		}
		reply, err := ours(m, buf[:n])
		if err != nil {
			stray = err
			continue
		}
		return read(m, reply)
	}
	return answer{}, fmt.Errorf("%d messages, and none is an answer: %w", maxStrays, stray)
}

func stream(ctx context.Context, conn net.Conn, m *dns.Msg, packed []byte) (answer, error) {
	framed := append(binary.BigEndian.AppendUint16(nil, uint16(len(packed))), packed...)
	if _, err := conn.Write(framed); err != nil {
		return answer{}, fmt.Errorf("asking over TCP: %w", reason(ctx, err))
	}
	var size [2]byte
	if _, err := io.ReadFull(conn, size[:]); err != nil {
		return answer{}, fmt.Errorf("waiting for the answer over TCP: %w", reason(ctx, err))
	}
	buf := make([]byte, binary.BigEndian.Uint16(size[:]))
	if _, err := io.ReadFull(conn, buf); err != nil {
		return answer{}, fmt.Errorf("reading the answer over TCP: %w", reason(ctx, err))
	}
	reply, err := ours(m, buf)
	if err != nil {
		return answer{}, err
	}
	a, err := read(m, reply)
	if errors.Is(err, errTruncated) {
		return answer{}, errors.New("the answer is truncated over TCP as well")
	}
	return a, err
}

// reason says that it was the timeout, where the error of a socket has it in other
// words.
func reason(ctx context.Context, err error) error {
	if e, ok := errors.AsType[net.Error](err); ctx.Err() != nil || ok && e.Timeout() {
		return errors.New("no answer in time")
	}
	return err
}

// ours returns the message in b, if it is an answer to m.
func ours(m *dns.Msg, b []byte) (*dns.Msg, error) {
	reply := new(dns.Msg)
	if err := reply.Unpack(b); err != nil {
		// A message that is cut off may still say so in its head.
		if reply.Id != m.Id || !reply.Response || !reply.Truncated {
			return nil, errors.New("it cannot be read")
		}
		reply.Question = m.Question
	}
	switch {
	case reply.Id != m.Id:
		return nil, errors.New("it has another ID")
	case !reply.Response || reply.Opcode != dns.OpcodeQuery:
		return nil, errors.New("it is no answer to a query")
	case len(reply.Question) != 1 || !same(reply.Question[0], m.Question[0]):
		return nil, errors.New("it is to another question")
	}
	return reply, nil
}

func same(a, b dns.Question) bool {
	return strings.EqualFold(a.Name, b.Name) && a.Qtype == b.Qtype && a.Qclass == b.Qclass
}

// read takes out of an answer what the server itself serves.
func read(m, reply *dns.Msg) (answer, error) {
	switch {
	case reply.Truncated:
		return answer{}, errTruncated
	case reply.Rcode != dns.RcodeSuccess && reply.Rcode != dns.RcodeNameError:
		return answer{}, fmt.Errorf("the server failed: %s", rcode(reply.Rcode))
	case !reply.Authoritative:
		return answer{}, errors.New("the server does not answer for the zone (the AA bit is missing)")
	}
	var a answer
	for _, rr := range reply.Answer {
		h := rr.Header()
		if h.Class != dns.ClassINET || !strings.EqualFold(h.Name, m.Question[0].Name) {
			continue
		}
		if alias, ok := rr.(*dns.CNAME); ok {
			a.alias = alias.Target
		} else if addr, ok := address(rr); ok && h.Rrtype == m.Question[0].Qtype {
			a.addrs = append(a.addrs, addr)
		}
	}
	if reply.Rcode == dns.RcodeNameError && len(a.addrs) > 0 {
		return answer{}, errors.New("the answer has addresses, and says that there is no such name")
	}
	slices.SortFunc(a.addrs, netip.Addr.Compare)
	a.addrs = slices.Compact(a.addrs)
	return a, nil
}

func rcode(code int) string {
	if text, ok := dns.RcodeToString[code]; ok {
		return text
	}
	return fmt.Sprintf("code %d", code)
}

// address returns the address of an A or AAAA record.
func address(rr dns.RR) (netip.Addr, bool) {
	switch rr := rr.(type) {
	case *dns.A:
		return netip.AddrFromSlice(rr.A)
	case *dns.AAAA:
		return netip.AddrFromSlice(rr.AAAA)
	}
	return netip.Addr{}, false
}
