package origin

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/edgeward/edgeward/internal/publicaddr"
	"github.com/edgeward/edgeward/watchdog/resolve"
)

// Observation is what one round says.
type Observation struct {
	V4, V6 Reading
}

// Reading is what one round says of one family.
type Reading struct {
	// Addr is the address. Invalid: unknown.
	Addr netip.Addr
	// By are the operators of the sources that agree, each once, or the resolvers
	// that have the record.
	By []string
	// Record is the DNS name it was read from. Empty: from sources.
	Record string
	// Reason is why it is unknown.
	Reason string
	// Said is what each source said.
	Said []Said
}

// Said is what one source said.
type Said struct {
	Source string
	Addrs  []netip.Addr // more than one only of an interface
	Err    string       // why there is no address, or why it is refused
}

// String returns the address, or why there is none.
func (r Reading) String() string {
	switch {
	case !r.Addr.IsValid():
		return "unknown: " + r.Reason
	case r.Record != "":
		return fmt.Sprintf("%s from the record %s", r.Addr, r.Record)
	}
	return fmt.Sprintf("%s by %s", r.Addr, strings.Join(r.By, ", "))
}

func unknown(format string, args ...any) Reading {
	return Reading{Reason: fmt.Sprintf(format, args...)}
}

// Rules say which addresses cannot be the home's.
type Rules struct {
	// NotHome are addresses that are known to be others', as the relay's: a home
	// behind a tunnel would find them.
	NotHome []netip.Addr
}

// Check returns nil if addr can be the home's address of that family.
func (r Rules) Check(addr netip.Addr, family resolve.Family) error {
	if err := publicaddr.Check(addr); err != nil {
		return err
	}
	isHome := func(not netip.Addr) bool { return not.WithZone("").Unmap() == addr }
	switch {
	case resolve.FamilyOf(addr) != family:
		return fmt.Errorf("%s is not %s", addr, family)
	case publicaddr.Cloudflare(addr):
		return fmt.Errorf("%s is Cloudflare's: the record is proxied, or we come through a tunnel", addr)
	case slices.ContainsFunc(r.NotHome, isHome):
		return fmt.Errorf("%s is another path's address, not the home's: do we come through a tunnel?", addr)
	}
	return nil
}
