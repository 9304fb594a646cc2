package ddns

import (
	"context"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/edgeward/edgeward/watchdog/fallback"
	"github.com/edgeward/edgeward/watchdog/resolve"
)

// verifyNames asks resolvers where the names lead that the user's own updater keeps. It
// may publish one family of the two: what it publishes has to lead here.
func (d *DNS) verifyNames(ctx context.Context, home fallback.Home) error {
	v4, v6 := d.addrs.here()
	if !v4.IsValid() && !v6.IsValid() {
		return fmt.Errorf("%w, so it cannot be said whether the names lead here", ErrNoAddress)
	}
	for _, name := range home.Names {
		a, err := d.leads(ctx, name, resolve.IPv4, v4)
		if err != nil {
			return err
		}
		aaaa, err := d.leads(ctx, name, resolve.IPv6, v6)
		if err != nil {
			return err
		}
		if !a && !aaaa {
			return fmt.Errorf("%w: %s has no address that is known to be ours", ErrElsewhere, name)
		}
	}
	return nil
}

// leads reports whether a name leads to addr. False: it has no address of that family, or
// it is not known what it should be.
func (d *DNS) leads(ctx context.Context, name string, family resolve.Family, addr netip.Addr) (bool, error) {
	if !addr.IsValid() {
		return false, nil
	}
	found, err := d.cfg.Lookup(ctx, anyBelow(name), family)
	if err != nil && resolve.Answered(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("looking up %s: %w", name, err)
	}
	for _, got := range found.Addrs {
		if !sameHome(got, addr) {
			return false, fmt.Errorf("%w: %s has the address %s, want %s", ErrElsewhere, name, got, addr)
		}
	}
	if found.Disagree {
		return false, fmt.Errorf("%w: the resolvers do not agree on %s yet", ErrElsewhere, name)
	}
	return len(found.Addrs) > 0, nil
}

// sameHome: of IPv6 the updater may publish another machine in the same network.
func sameHome(got, addr netip.Addr) bool {
	if got == addr {
		return true
	}
	prefix, err := addr.Prefix(64)
	return err == nil && addr.Is6() && prefix.Contains(got)
}

// anyBelow is a name that stands for a wildcard, another one each time.
func anyBelow(name string) string {
	if base, wild := strings.CutPrefix(name, "*."); wild {
		return "edge-" + strconv.FormatInt(time.Now().UnixNano(), 36) + "." + base
	}
	return name
}

// here returns this home's addresses as they were found. An invalid one is not known.
func (a *addresses) here() (v4, v6 netip.Addr) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.state.V4.Current, a.state.V6.Current
}
