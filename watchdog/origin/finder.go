package origin

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/edgeward/edgeward/watchdog/resolve"
)

// MinOperators is how many operators must say the same, in one round.
const MinOperators = 2

// Finder finds the home's addresses by asking from where it is seen.
type Finder struct {
	// Sources to ask. Default: those of [Sources].
	Sources []Source
	// Interface, if set, is the name of the network interface whose public IPv6
	// addresses count as one more source.
	Interface string
	// Resolvers look the sources up. Default: the first two of [resolve.Defaults].
	Resolvers *resolve.Set
	// Families to look for. Default: both.
	Families []resolve.Family
	Rules    Rules
	// Timeout is for the whole round. Default: 10s; a ctx that ends earlier wins.
	Timeout time.Duration
	// Roots are the authorities to trust. Default: the system's.
	Roots *x509.CertPool
	// Dial opens a connection to a source, over tcp4 or tcp6. It must end with its
	// ctx. Default: a plain net.Dialer.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Addrs lists the addresses of a network interface. Default: the system's.
	Addrs func(name string) ([]netip.Addr, error)
}

const defaultTimeout = 10 * time.Second

func (f *Finder) sources() []Source {
	if len(f.Sources) == 0 {
		return Sources()
	}
	return f.Sources
}

func (f *Finder) set() *resolve.Set { return cmp.Or(f.Resolvers, new(resolve.Set)) }

func (f *Finder) dial() func(ctx context.Context, network, address string) (net.Conn, error) {
	if f.Dial == nil {
		return new(net.Dialer).DialContext
	}
	return f.Dial
}

// Validate reports every setting that cannot work, and sources that are too few to
// ever agree.
func (f *Finder) Validate() error {
	var errs []error
	operators := map[string]bool{}
	for _, s := range f.sources() {
		errs = append(errs, s.Validate())
		operators[s.operator()] = true
	}
	if f.Interface != "" {
		operators["interface"] = true
	}
	if len(operators) < MinOperators {
		errs = append(errs, fmt.Errorf("the sources have %d operator, want at least %d: one alone is not believed", len(operators), MinOperators))
	}
	return errors.Join(errs...)
}

// Look makes one round: it asks all sources at the same time, over both families,
// and waits for all of them, since one that disagrees counts. It costs two lookups
// and one request for each.
func (f *Finder) Look(ctx context.Context) Observation {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(max(f.Timeout, 0), defaultTimeout))
	defer cancel()
	return look(f.Families, func(family resolve.Family) Reading { return agree(f.askAll(ctx, family)) })
}

// look reads families at the same time.
func look(families []resolve.Family, read func(resolve.Family) Reading) Observation {
	o := Observation{V4: unknown("not asked for"), V6: unknown("not asked for")}
	var wg sync.WaitGroup
	for family, to := range map[resolve.Family]*Reading{resolve.IPv4: &o.V4, resolve.IPv6: &o.V6} {
		if len(families) == 0 || slices.Contains(families, family) {
			wg.Go(func() { *to = read(family) })
		}
	}
	wg.Wait()
	return o
}

// vote is what one source says.
type vote struct {
	Said
	operator string
	refused  bool // it says an address that cannot be the home's
}

func (f *Finder) askAll(ctx context.Context, family resolve.Family) []vote {
	sources := f.sources()
	votes := make([]vote, len(sources))
	var wg sync.WaitGroup
	for i, s := range sources {
		wg.Go(func() { votes[i] = f.vote(ctx, s, family) })
	}
	wg.Wait()
	if f.Interface != "" && family == resolve.IPv6 {
		votes = append(votes, f.own())
	}
	return votes
}

func (f *Finder) vote(ctx context.Context, s Source, family resolve.Family) vote {
	v := vote{Said: Said{Source: s.URL}, operator: s.operator()}
	addr, err := f.ask(ctx, s, family)
	if err != nil {
		v.Err = err.Error()
		return v
	}
	v.Addrs = []netip.Addr{addr}
	if err := f.Rules.Check(addr, family); err != nil {
		v.refused, v.Err = true, err.Error()
	}
	return v
}

// own is the vote of the interface: for any of its public addresses, since it cannot
// know which of them the rest of the world sees. Others are no dissent; each
// interface has some.
func (f *Finder) own() vote {
	name := "interface " + f.Interface
	v := vote{Said: Said{Source: name}, operator: name}
	list := f.Addrs
	if list == nil {
		list = interfaceAddrs
	}
	addrs, err := list(f.Interface)
	if err != nil {
		v.Err = err.Error()
		return v
	}
	for _, a := range addrs {
		if f.Rules.Check(a, resolve.IPv6) == nil {
			v.Addrs = append(v.Addrs, a)
		}
	}
	if len(v.Addrs) == 0 {
		v.Err = "it has no public IPv6 address"
	}
	return v
}

func interfaceAddrs(name string) ([]netip.Addr, error) {
	i, err := net.InterfaceByName(name)
	if err != nil {
		return nil, err
	}
	addrs, err := i.Addrs()
	if err != nil {
		return nil, fmt.Errorf("listing the addresses: %w", err)
	}
	var list []netip.Addr
	for _, a := range addrs {
		if prefix, err := netip.ParsePrefix(a.String()); err == nil {
			list = append(list, prefix.Addr())
		}
	}
	return list, nil
}

// agree makes a reading of votes: the one address that all name that name any, if
// they have enough operators.
func agree(votes []vote) Reading {
	var r Reading
	var common []netip.Addr
	asked := 0
	for _, v := range votes {
		r.Said = append(r.Said, v.Said)
		if v.refused {
			r.Reason = fmt.Sprintf("%s says what cannot be: %s", v.Source, v.Err)
		}
		if len(v.Addrs) == 0 {
			continue
		}
		if asked++; asked == 1 {
			common = slices.Clone(v.Addrs)
		}
		common = slices.DeleteFunc(common, func(a netip.Addr) bool { return !slices.Contains(v.Addrs, a) })
		if !slices.Contains(r.By, v.operator) {
			r.By = append(r.By, v.operator)
		}
	}
	switch {
	case r.Reason != "":
	case asked == 0:
		r.Reason = "no source answered"
	case len(common) == 0:
		r.Reason = "the sources disagree: " + listed(votes)
	case len(r.By) < MinOperators:
		r.Reason = fmt.Sprintf("only %s answered, want %d operators", r.By[0], MinOperators)
	case len(common) > 1:
		r.Reason = "the sources leave open which: " + listed(votes)
	default:
		r.Addr = common[0]
		return r
	}
	r.By = nil
	return r
}

// listed is who says what.
func listed(votes []vote) string {
	var list []string
	for _, v := range votes {
		for _, a := range v.Addrs {
			list = append(list, fmt.Sprintf("%s by %s", a, v.Source))
		}
	}
	return strings.Join(list, ", ")
}
