package records

import (
	"cmp"
	"net/netip"
	"strings"
	"time"
)

// The types of record that this package knows by name.
const (
	A     = "A"
	AAAA  = "AAAA"
	CNAME = "CNAME"
	HTTPS = "HTTPS"
	SVCB  = "SVCB"
)

// AutoTTL is the TTL of every proxied record; Cloudflare takes no other.
const AutoTTL = 1

// Record is one DNS record as the provider has it.
type Record struct {
	ID       string
	Name     string // lower case, no trailing dot, punycode
	Type     string
	Content  string
	TTL      int // seconds; AutoTTL lets the provider choose
	Proxied  bool
	Comment  string
	Modified time.Time
}

// Owned reports whether the record carries our marker.
func (r Record) Owned() bool {
	_, ok := ParseMark(r.Comment)
	return ok
}

// Address returns the address of an A or AAAA record, and false if the content
// is none of that family.
func (r Record) Address() (netip.Addr, bool) {
	addr, err := netip.ParseAddr(r.Content)
	fits := err == nil && addr.Zone() == "" && (r.Type == A && addr.Is4() || r.Type == AAAA && addr.Is6())
	return addr, fits
}

// Value is the part of a record that we write: always the three of them
// together, so that a write means the same whatever it meets.
type Value struct {
	Content string
	Proxied bool
	TTL     int
}

// Target is what each name of a site holds while the site is on one path.
type Target struct {
	// The addresses. An invalid one means that the path has none of that family.
	A, AAAA netip.Addr
	// Former are addresses that A and AAAA held before: a record that holds one is an
	// old one of this path, and no stranger.
	Former []netip.Addr
	// Whether Cloudflare answers with its own addresses.
	Proxied bool
	// Seconds, of a DNS-only record; a proxied one always has AutoTTL. Default: 60.
	TTL int
}

// value returns what a record of that type is to hold.
func (t Target) value(kind string) (Value, bool) {
	addr := t.address(kind)
	v := Value{Content: addr.String(), Proxied: t.Proxied, TTL: cmp.Or(t.TTL, 60)}
	if t.Proxied {
		v.TTL = AutoTTL
	}
	return v, addr.IsValid()
}

func (t Target) address(kind string) netip.Addr {
	if kind == AAAA {
		return t.AAAA
	}
	return t.A
}

// Name returns a DNS name as records carry it: lower case, without the trailing
// dot.
func Name(name string) string { return strings.ToLower(strings.TrimSuffix(name, ".")) }
