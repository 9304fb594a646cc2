package visible

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/miekg/dns"

	"github.com/edgeward/edgeward/watchdog/resolve"
)

// Config is whom to ask, and for how long.
type Config struct {
	// Servers are the zone's own name servers, each as a host name, which Resolvers
	// look up, or as an address with or without a port.
	Servers []string
	// Resolvers look the name servers up, and are asked one by one whether they see
	// the change. Default: the first two of [resolve.Defaults].
	Resolvers *resolve.Set
	// Interval is the time between two questions to the same source. It grows up to
	// MaxInterval. Default: 250ms.
	Interval time.Duration
	// MaxInterval is what Interval grows to. Default: 2s.
	MaxInterval time.Duration
	// Timeout is for one question. Default: 2s; resolvers, to which it takes a TLS
	// handshake, have twice that.
	Timeout time.Duration
	// Deadline is for the whole check. Default: 90s, a TTL of 60 s and some more; a
	// ctx that ends earlier wins.
	Deadline time.Duration
	// Dial opens a connection to a name server. It must end with its ctx. Default: a
	// plain net.Dialer.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// The defaults. The intervals are uncalibrated: Cloudflare publishes a change within
// seconds.
const (
	defaultInterval    = 250 * time.Millisecond
	defaultMaxInterval = 2 * time.Second
	defaultTimeout     = 2 * time.Second
	defaultDeadline    = 90 * time.Second
	dnsPort            = 53
)

func (c Config) withDefaults() Config {
	c.Interval = cmp.Or(max(c.Interval, 0), defaultInterval)
	c.MaxInterval = max(c.Interval, cmp.Or(max(c.MaxInterval, 0), defaultMaxInterval))
	c.Timeout = cmp.Or(max(c.Timeout, 0), defaultTimeout)
	c.Deadline = cmp.Or(max(c.Deadline, 0), defaultDeadline)
	if c.Resolvers == nil {
		c.Resolvers = new(resolve.Set)
	}
	if c.Dial == nil {
		c.Dial = new(net.Dialer).DialContext
	}
	return c
}

// Validate reports every name server that cannot be asked.
func (c Config) Validate() error {
	var errs []error
	if len(c.Servers) == 0 {
		errs = append(errs, errors.New("there is no name server"))
	}
	for _, s := range c.Servers {
		if _, ok := addrPort(s); !ok && !hostname(s) {
			errs = append(errs, fmt.Errorf("name server %q: want a host name, or an address with or without a port", s))
		}
	}
	return errors.Join(errs...)
}

// addrPort reads a name server that is given by address.
func addrPort(server string) (netip.AddrPort, bool) {
	if addr, err := netip.ParseAddr(server); err == nil {
		return netip.AddrPortFrom(addr, dnsPort), true
	}
	at, err := netip.ParseAddrPort(server)
	return at, err == nil && at.Port() != 0
}

func hostname(name string) bool {
	_, ok := dns.IsDomainName(name)
	return ok && name != "" && name != "." && !strings.ContainsAny(name, ":*\\ ")
}

// Want is what one name is to hold: exactly one address of each family, or none.
type Want struct {
	// Name may begin with "*.".
	Name string
	// A and AAAA are the addresses. An invalid one means that there is to be no such
	// record any more.
	A, AAAA netip.Addr
}

// Validate reports what cannot be asked for.
func (w Want) Validate() error {
	switch base := strings.TrimPrefix(w.Name, "*."); {
	case !hostname(base):
		return fmt.Errorf("%q is no name that can be asked for", w.Name)
	case w.A.IsValid() && !w.A.Is4():
		return fmt.Errorf("%s: %s is no address for an A record", w.Name, w.A)
	case w.AAAA.IsValid() && (!w.AAAA.Is6() || w.AAAA.Is4In6() || w.AAAA.Zone() != ""):
		return fmt.Errorf("%s: %s is no address for an AAAA record", w.Name, w.AAAA)
	}
	if _, ok := dns.IsDomainName(w.asked()); !ok {
		return fmt.Errorf("%s is too long to ask for a name below it", w.Name)
	}
	return nil
}

// asked is the name that stands for w in questions. It is another one each time for
// a wildcard, of which no cache can know.
func (w Want) asked() string {
	name := strings.ToLower(dns.Fqdn(w.Name))
	base, wild := strings.CutPrefix(name, "*.")
	if !wild {
		return name
	}
	var label [8]byte
	_, _ = rand.Read(label[:]) // never fails
	return "edge-" + hex.EncodeToString(label[:]) + "." + base
}
