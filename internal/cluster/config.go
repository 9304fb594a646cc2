package cluster

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Config is what a Node goes by. Zero means the default, where there is one.
type Config struct {
	// Name of this member in the cluster: lower-case letters, digits and hyphens.
	Name string
	// Dir keeps the data, the keys and the copies.
	Dir string
	// Listen is where the other members connect to.
	Listen string
	// Advertise is where they do so from their side: host:port.
	Advertise string
	// Pair is where codes are taken, while there is one. Default: the host of Listen,
	// and its port and one.
	Pair string
	// Heartbeat is how often the leader says that it lives, and Election how long the
	// others wait for that: for links with a round trip of up to Heartbeat. All
	// members must have the same. Defaults: 500ms, 5s.
	Heartbeat, Election time.Duration
	// Quota is most bytes of data. Default: 64 MiB, a thousand times of what is used.
	Quota int64
	// Lead: this member leads while it is well. Set it at the one that all others reach, the
	// relay: where the link between two others is cut, a leader at its end is one that the
	// other end cannot hear, and that has no majority then.
	Lead bool
	// Snapshots is how many daily copies are kept. Default: 7. Negative: none.
	Snapshots int
	Log       *slog.Logger
}

// The defaults of Config.
const (
	DefaultHeartbeat = 500 * time.Millisecond
	DefaultElection  = 5 * time.Second
	DefaultQuota     = 64 << 20
	DefaultSnapshots = 7
)

var names = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?$`)

func (c *Config) complete() error {
	c.Heartbeat = cmp.Or(c.Heartbeat, DefaultHeartbeat)
	c.Election = cmp.Or(c.Election, DefaultElection)
	c.Quota = cmp.Or(c.Quota, DefaultQuota)
	c.Snapshots = cmp.Or(c.Snapshots, DefaultSnapshots)
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	var err error
	switch {
	case c.Dir == "":
		err = errors.New("the member has no directory")
	case c.Heartbeat < 10*time.Millisecond || c.Heartbeat > 10*time.Second:
		err = fmt.Errorf("heartbeat is %v: want 10ms to 10s", c.Heartbeat)
	case c.Election < 5*c.Heartbeat || c.Election > 50*time.Second:
		err = fmt.Errorf("election is %v: want at least five heartbeats, and at most 50s", c.Election)
	case c.Quota < 16<<20 || c.Quota > 2<<30:
		err = fmt.Errorf("quota is %d bytes: want 16 MiB to 2 GiB", c.Quota)
	}
	err = errors.Join(err, CheckName(c.Name), checkListen("listen", c.Listen), CheckAdvertise(c.Advertise))
	if err == nil && c.Pair == "" {
		c.Pair, err = nextPort(c.Listen)
	}
	if err == nil {
		err = checkListen("pair", c.Pair)
	}
	return err
}

// CheckName refuses what is no name of a member.
func CheckName(name string) error {
	if !names.MatchString(name) {
		return fmt.Errorf("name %q: want 1 to 32 lower-case letters, digits and hyphens", name)
	}
	return nil
}

// checkListen takes an address of this machine, or none for all of them.
func checkListen(what, address string) error {
	host, _, err := split(address)
	if err == nil && host != "" {
		if _, bad := netip.ParseAddr(host); bad != nil {
			err = errors.New("want an address of this machine, or none")
		}
	}
	if err != nil {
		return fmt.Errorf("%s %q: %w", what, address, err)
	}
	return nil
}

// CheckAdvertise refuses what nobody could dial.
func CheckAdvertise(address string) error {
	host, _, err := split(address)
	ip, bad := netip.ParseAddr(host)
	switch {
	case err != nil:
	case host == "", bad == nil && ip.IsUnspecified():
		err = errors.New("want the host as the other members dial it")
	case len(host) > 253 || strings.ContainsAny(host, "/,=?#@%\\ "):
		err = errors.New("want a host name or an address")
	}
	if err != nil {
		return fmt.Errorf("advertise %q: %w", address, err)
	}
	return nil
}

func split(address string) (host string, port int, err error) {
	host, text, err := net.SplitHostPort(address)
	if err != nil {
		return "", 0, errors.New("want host:port")
	}
	if port, err = strconv.Atoi(text); err != nil || port < 1 || port > 65535 {
		return "", 0, errors.New("want a port from 1 to 65535")
	}
	return host, port, nil
}

// nextPort is the address with the port after.
func nextPort(address string) (string, error) {
	host, port, err := split(address)
	if err == nil && port == 65535 {
		err = errors.New("want another port, or pair")
	}
	return net.JoinHostPort(host, strconv.Itoa(port+1)), err
}
