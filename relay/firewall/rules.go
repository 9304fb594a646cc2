package firewall

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Rules says who may reach this machine. What it does not name is dropped.
type Rules struct {
	// Networks that may reach SSH. At least one; see [ParseAdmin].
	Admin []netip.Prefix
	// TCP ports that are open to everybody. Default: 443.
	TCP []uint16
	// UDP ports that are open to everybody. Default: none.
	UDP []uint16
	// Port of SSH. Default: 22.
	SSH uint16
}

// The widest networks that can be an administrator's: what a whole company has.
const (
	widestV4 = 8
	widestV6 = 16
)

// ParseAdmin reads a network like 192.0.2.0/24 or 2001:db8::/48, or one address.
// It refuses one that is too wide to be an administrator's, and one with bits set
// behind its length, which could be meant in two ways.
func ParseAdmin(s string) (netip.Prefix, error) {
	if addr, err := netip.ParseAddr(s); err == nil {
		addr = addr.Unmap().WithZone("")
		return netip.PrefixFrom(addr, addr.BitLen()), nil
	}
	p, err := netip.ParsePrefix(s)
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("admin %q: want an address or a network like 192.0.2.0/24", s)
	}
	return p, checkAdmin(p)
}

func checkAdmin(p netip.Prefix) error {
	switch {
	case !p.IsValid():
		return errors.New("admin: not a network")
	case p.Addr().Is4In6():
		return fmt.Errorf("admin %s: write it as an IPv4 network", p)
	case p.Masked() != p:
		return fmt.Errorf("admin %s: has bits set behind its length; say %s or %s/%d", p, p.Masked(), p.Addr(), p.Addr().BitLen())
	case p.Addr().Is4() && p.Bits() < widestV4, p.Addr().Is6() && p.Bits() < widestV6:
		return fmt.Errorf("admin %s: that is most of the Internet and nobody's own; at most /%d, or /%d for IPv6", p, widestV4, widestV6)
	}
	return nil
}

// withDefaults returns r with defaults, sorted and without repetition, as nft lists
// it. nft refuses a set of networks that overlap.
func (r Rules) withDefaults() Rules {
	r.SSH = cmp.Or(r.SSH, 22)
	if len(r.TCP) == 0 {
		r.TCP = []uint16{443}
	}
	r.TCP, r.UDP = distinct(r.TCP), distinct(r.UDP)
	var admin []netip.Prefix
	for _, p := range r.Admin {
		covered := func(o netip.Prefix) bool { return o != p && o.Bits() <= p.Bits() && o.Contains(p.Addr()) }
		if !slices.ContainsFunc(r.Admin, covered) && !slices.Contains(admin, p) {
			admin = append(admin, p)
		}
	}
	slices.SortFunc(admin, netip.Prefix.Compare)
	r.Admin = admin
	return r
}

func distinct(ports []uint16) []uint16 {
	list := slices.Sorted(slices.Values(ports))
	return slices.Compact(list)
}

// Validate says what is wrong with the rules, naming the setting.
func (r Rules) Validate() error {
	if len(r.Admin) == 0 {
		return errors.New("admin: say who may reach SSH, like --admin 192.0.2.7; without it nobody could")
	}
	for _, p := range r.Admin {
		if err := checkAdmin(p); err != nil {
			return err
		}
	}
	r = r.withDefaults()
	switch {
	case slices.Contains(r.TCP, 0), slices.Contains(r.UDP, 0):
		return errors.New("port 0: want 1 to 65535")
	case slices.Contains(r.TCP, r.SSH):
		return fmt.Errorf("port %d: is the port of SSH, which would be open to everybody; leave it out of --port, or say another --ssh-port", r.SSH)
	}
	return nil
}

// Admits says why a session could not be opened anew under these rules, or nil.
func (r Rules) Admits(s Session) error {
	r = r.withDefaults()
	inside := func(p netip.Prefix) bool { return p.Contains(s.Source) }
	switch {
	case s.Port != r.SSH:
		return fmt.Errorf("you are logged in through port %d and --ssh-port is %d: you would lock yourself out; say --ssh-port %d, or --console if you sit at the console", s.Port, r.SSH, s.Port)
	case !slices.ContainsFunc(r.Admin, inside):
		return fmt.Errorf("you are logged in from %s, which is in no --admin network: you would lock yourself out; add --admin %s, or say --console if you sit at the console", s.Source, s.Source)
	}
	return nil
}

// admins returns the networks of one family, in nft's words.
func (r Rules) admins(v6 bool) (list []string) {
	for _, p := range r.Admin {
		if p.Addr().Is6() != v6 {
			continue
		}
		list = append(list, strings.TrimSuffix(p.String(), fmt.Sprintf("/%d", p.Addr().BitLen())))
	}
	return list
}
