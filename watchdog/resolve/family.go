package resolve

import (
	"fmt"
	"net/netip"

	"golang.org/x/net/dns/dnsmessage"
)

// Family is a kind of address.
type Family uint8

// The families. The zero value is IPv4.
const (
	IPv4 Family = iota // A records
	IPv6               // AAAA records
)

// FamilyOf returns the family of an address.
func FamilyOf(addr netip.Addr) Family {
	if addr.Unmap().Is4() {
		return IPv4
	}
	return IPv6
}

// String returns ipv4 or ipv6.
func (f Family) String() string {
	switch f {
	case IPv4:
		return "ipv4"
	case IPv6:
		return "ipv6"
	}
	return fmt.Sprintf("family(%d)", uint8(f))
}

// MarshalText implements encoding.TextMarshaler.
func (f Family) MarshalText() ([]byte, error) { return []byte(f.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (f *Family) UnmarshalText(text []byte) error {
	switch string(text) {
	case "ipv4":
		*f = IPv4
	case "ipv6":
		*f = IPv6
	default:
		return fmt.Errorf("family %q: want ipv4 or ipv6", text)
	}
	return nil
}

// record is the type of DNS record that holds such an address.
func (f Family) record() dnsmessage.Type {
	if f == IPv4 {
		return dnsmessage.TypeA
	}
	return dnsmessage.TypeAAAA
}
