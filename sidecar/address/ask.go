package address

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/miekg/dns"
)

// Asker asks one server, or the system's resolver, for the addresses of a name.
type Asker func(ctx context.Context, host string) ([]netip.Addr, error)

// System asks the system's resolver.
func System(ctx context.Context, host string) ([]netip.Addr, error) {
	return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
}

// Server asks one DNS server, over UDP, and over TCP where the answer is too long.
func Server(at netip.AddrPort) Asker {
	return func(ctx context.Context, host string) (list []netip.Addr, err error) {
		var errs []error
		for _, kind := range []uint16{dns.TypeA, dns.TypeAAAA} {
			addrs, err := ask(ctx, at, host, kind)
			list, errs = append(list, addrs...), append(errs, err)
		}
		// Half an answer could make a home move to its other family.
		if err := errors.Join(errs...); err != nil {
			return nil, fmt.Errorf("asking %s: %w", at, err)
		}
		return list, nil
	}
}

func ask(ctx context.Context, at netip.AddrPort, host string, kind uint16) ([]netip.Addr, error) {
	q := new(dns.Msg).SetQuestion(dns.Fqdn(host), kind)
	q.SetEdns0(1232, false) // what fits everywhere: DNS flag day 2020
	var r *dns.Msg
	for _, network := range []string{"udp", "tcp"} {
		var err error
		c := dns.Client{Net: network}
		if r, _, err = c.ExchangeContext(ctx, q, at.String()); err != nil {
			return nil, err
		}
		if !r.Truncated {
			break
		}
	}
	switch {
	case r.Rcode != dns.RcodeSuccess:
		return nil, fmt.Errorf("%s: %s", host, dns.RcodeToString[r.Rcode])
	case r.Truncated || len(r.Question) != 1 || r.Question[0] != q.Question[0]:
		return nil, fmt.Errorf("%s: the answer is of another question, or cut short", host)
	}
	return read(r, q.Question[0].Name, kind)
}

// read takes the addresses at the end of the chain of aliases that begins with name.
func read(r *dns.Msg, name string, kind uint16) (list []netip.Addr, err error) {
	for range 16 {
		next := ""
		for _, rr := range r.Answer {
			if !dns.IsSubDomain(rr.Header().Name, name) || !dns.IsSubDomain(name, rr.Header().Name) {
				continue
			}
			switch rr := rr.(type) {
			case *dns.CNAME:
				next = rr.Target
			case *dns.A:
				if addr, ok := netip.AddrFromSlice(rr.A.To4()); ok && kind == dns.TypeA {
					list = append(list, addr)
				}
			case *dns.AAAA:
				if addr, ok := netip.AddrFromSlice(rr.AAAA.To16()); ok && kind == dns.TypeAAAA {
					list = append(list, addr)
				}
			}
		}
		if len(list) > 0 || next == "" {
			return list, nil
		}
		name = next
	}
	return nil, fmt.Errorf("%s: too many aliases", name)
}
