package address

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/edgeward/edgeward/internal/publicaddr"
)

// Answer is what one server said of a name.
type Answer struct {
	Addrs []netip.Addr
	Err   error
}

// Verdict is what answers mean for a name.
type Verdict struct {
	// Addr is where the name leads; invalid if the answers say nothing. It may be
	// the one that is known.
	Addr netip.Addr
	// Why is one phrase for people, for an Addr that is invalid.
	Why string
}

// Decide compares answers, of all servers that were asked, with what is known, which
// may be invalid. Of several servers, two must answer, and all that answer must agree.
func Decide(known netip.Addr, answers []Answer, allow []netip.Prefix) Verdict {
	var common []netip.Addr
	answered, refused := 0, error(nil)
	for _, a := range answers {
		if a.Err != nil || len(a.Addrs) == 0 {
			continue
		}
		var good []netip.Addr
		for _, addr := range a.Addrs {
			if addr = addr.Unmap(); !slices.Contains(good, addr) {
				if err := permit(addr, allow); err != nil {
					refused = err
					continue
				}
				good = append(good, addr)
			}
		}
		if answered++; answered == 1 {
			common = good
		} else {
			common = slices.DeleteFunc(common, func(addr netip.Addr) bool { return !slices.Contains(good, addr) })
		}
	}
	switch {
	case answered == 0:
		return Verdict{Why: silence(answers)}
	case len(answers) > 1 && answered < 2:
		return Verdict{Why: fmt.Sprintf("only one of %d servers answers", len(answers))}
	case len(common) == 0 && refused != nil:
		return Verdict{Why: refused.Error()}
	case len(common) == 0:
		return Verdict{Why: "the servers do not agree"}
	case slices.Contains(common, known):
		return Verdict{Addr: known}
	}
	for _, addr := range common {
		if known.IsValid() && addr.Is4() == known.Is4() {
			return Verdict{Addr: addr}
		}
	}
	return Verdict{Addr: common[0]}
}

func silence(answers []Answer) string {
	for _, a := range answers {
		if a.Err != nil {
			return a.Err.Error()
		}
	}
	return "the answer is empty"
}

// permit refuses what no home has, unless it is allowed.
func permit(addr netip.Addr, allow []netip.Prefix) error {
	if addr.IsValid() && addr.Zone() == "" && slices.ContainsFunc(allow, func(p netip.Prefix) bool { return p.Contains(addr) }) {
		return nil
	}
	if err := publicaddr.Check(addr); err != nil {
		return fmt.Errorf("%w; addresses.allow could allow it", err)
	}
	return nil
}
