package visible

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/edgeward/edgeward/watchdog/resolve"
)

// source is one whom to ask. An error of ask says why there is no usable answer.
type source struct {
	name string
	ask  func(context.Context, question) (answer, error)
}

func (c Config) sources() (servers, resolvers []source) {
	for _, name := range c.Servers {
		s := &server{c: c, name: name}
		servers = append(servers, source{name, s.ask})
	}
	list := c.Resolvers.Resolvers
	if len(list) == 0 {
		list = resolve.Defaults()[:2]
	}
	for _, r := range list {
		ask := func(ctx context.Context, q question) (answer, error) { return c.askResolver(ctx, r, q) }
		resolvers = append(resolvers, source{r.String(), ask})
	}
	return servers, resolvers
}

func (c Config) askResolver(ctx context.Context, r *resolve.Resolver, q question) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*c.Timeout)
	defer cancel()
	found, err := r.Lookup(ctx, q.asked, q.family)
	if err != nil && !resolve.Answered(err) {
		return answer{}, bare(err)
	}
	return answer{addrs: found.Addrs}, nil
}

// bare is an error without the name of the resolver, which stands beside it anyway.
func bare(err error) error {
	if e, ok := errors.AsType[*resolve.Error](err); ok && e.Resolver != "" {
		return e.Err
	}
	return err
}

// server is one name server, at one or several addresses. One goroutine uses it.
type server struct {
	c     Config
	name  string
	addrs []netip.AddrPort // those not tried since the last lookup
}

// ask asks one address of the server, and another one after a failure: a home
// without IPv6 must not take half of the addresses for silent.
func (s *server) ask(ctx context.Context, q question) (answer, error) {
	if err := s.locate(ctx); err != nil {
		return answer{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.c.Timeout)
	defer cancel()
	at := s.addrs[0]
	a, err := s.c.query(ctx, at, q)
	if err != nil {
		s.addrs = s.addrs[1:]
		return answer{}, fmt.Errorf("%s: %w", at, err)
	}
	return a, nil
}

// locate finds the addresses, unless there is one left to try.
func (s *server) locate(ctx context.Context) error {
	if len(s.addrs) > 0 {
		return nil
	}
	if at, ok := addrPort(s.name); ok {
		s.addrs = []netip.AddrPort{at}
		return nil
	}
	a, err := s.c.Resolvers.Lookup(ctx, s.name, resolve.IPv4)
	aaaa, err6 := s.c.Resolvers.Lookup(ctx, s.name, resolve.IPv6)
	for i := range max(len(a.Addrs), len(aaaa.Addrs)) { // the families take turns
		for _, list := range [][]netip.Addr{a.Addrs, aaaa.Addrs} {
			if i < len(list) {
				s.addrs = append(s.addrs, netip.AddrPortFrom(list[i], dnsPort))
			}
		}
	}
	if len(s.addrs) == 0 {
		return fmt.Errorf("looking up %s: %w", s.name, cmp.Or(err, err6))
	}
	return nil
}
