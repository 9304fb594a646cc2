package render

import (
	"cmp"
	"fmt"
	"net/netip"
	"time"

	"github.com/edgeward/edgeward/relay/catalog"
	"github.com/edgeward/edgeward/relay/limit"
)

// Config is all that is rendered.
type Config struct {
	// Catalog has the gateways, pools and routes. Its listeners must be those of
	// Listeners, by address: see [Doors].
	Catalog *catalog.Catalog
	// Listeners take TLS by server name.
	Listeners []Listener
	// Ports says how tcp routes listen.
	Ports    Ports
	Process  Process
	Timeouts Timeouts
	// Health says who finds out which gateway is up.
	Health Health
	// Stopped are members that get no visitors, by pool and gateway, as [Stopped]
	// reads them from a snapshot. They are rendered as disabled.
	Stopped map[string]map[string]bool
	// Addresses are what is known of gateways' host names. They stand in the config
	// in the names' place.
	Addresses map[string]netip.Addr
	// Follows says that whoever owns health follows the names' addresses too, and so
	// HAProxy does not.
	Follows bool
	// Agent is needed with health "agent".
	Agent Agent
}

// Health is who finds out which gateway is up. Never both: a state that is set from
// outside is undone by the next good check.
type Health string

// The owners of health.
const (
	ByHAProxy Health = "haproxy" // its own checks
	BySidecar Health = "sidecar" // whoever writes to its stats socket; no checks
	ByAgent   Health = "agent"   // whoever answers its agent checks
)

// Agent is who answers agent checks.
type Agent struct {
	Address  netip.AddrPort
	Interval time.Duration
}

// Listener is an address where visitors ask for TLS by server name.
type Listener struct {
	// Address is host:port; routes name it as it is written here. Without a host
	// it is both families.
	Address string `json:"address"`
	// OneLabel lets a wildcard cover a single label.
	OneLabel bool `json:"one_label,omitzero"`
	// HostNames refuses names that no host has: with an underscore, or a trailing
	// dot.
	HostNames bool `json:"host_names,omitzero"`
	// HelloBytes is the most that a ClientHello may have. Default: 16389, one TLS
	// record. Two buffers of that size are in use for each connection that moves
	// data.
	HelloBytes int `json:"hello_bytes,omitzero"`
	// HelloTime is how long it may take to come. Default: 5s.
	HelloTime catalog.Duration `json:"hello_time,omitzero"`
	Limits    Limits           `json:"limits,omitzero"`
	// TrustedProxies open with a PROXY header.
	TrustedProxies []netip.Prefix `json:"trusted_proxies,omitempty"`
}

// Ports says how tcp routes listen: each on its own port, at one address.
type Ports struct {
	// Host is an IP address. Default: all, of both families.
	Host string `json:"host,omitzero"`
	// Limits are for each port by itself.
	Limits Limits `json:"limits,omitzero"`
}

// Limits mean what relay/limit.Settings says. A rate is counted over a window that
// is as long as it takes to fill Burst; refused connections count too, so that a
// source that does not stop stays out.
type Limits struct {
	PerSource int     `json:"per_source,omitzero"`
	Rate      float64 `json:"rate,omitzero"`
	Burst     int     `json:"burst,omitzero"`
	Total     int     `json:"total,omitzero"`
	// TotalRate delays what is beyond it in the kernel's queue. To refuse it would
	// refuse everybody for as long as somebody keeps connecting.
	TotalRate float64 `json:"total_rate,omitzero"`
	// Wait leaves connections beyond Total in the kernel's queue. Default: refuse
	// them at once.
	Wait     bool           `json:"wait,omitzero"`
	PrefixV4 int            `json:"prefix_v4,omitzero"`
	PrefixV6 int            `json:"prefix_v6,omitzero"`
	Table    int            `json:"table,omitzero"`
	Allow    []netip.Prefix `json:"allow,omitempty"`
	Deny     []netip.Prefix `json:"deny,omitempty"`
}

// Timeouts are for pools that set none themselves. Zero is the relay's default.
type Timeouts struct {
	Dial   catalog.Duration `json:"dial,omitzero"`
	Idle   catalog.Duration `json:"idle,omitzero"`
	Linger catalog.Duration `json:"linger,omitzero"`
}

// Process is what concerns HAProxy as a whole.
type Process struct {
	// Files is the folder for maps and certificates. Default:
	// /etc/haproxy/edgeward.
	Files string `json:"files,omitzero"`
	// StateFile carries the servers' states over a reload. Default: servers.state
	// in Files.
	StateFile string `json:"state_file,omitzero"`
	// User and Group are who it becomes. Default: haproxy.
	User  string `json:"user,omitzero"`
	Group string `json:"group,omitzero"`
	// Chroot is where it locks itself in. Default: nowhere.
	Chroot string `json:"chroot,omitzero"`
	// Log is a socket's path, an address with a port, stdout, or off. Default:
	// /dev/log.
	Log string `json:"log,omitzero"`
	// Facility is syslog's. Default: local0.
	Facility string `json:"facility,omitzero"`
	Socket   Socket `json:"socket,omitzero"`
	// Drain is how long connections may go on in the worker that a reload
	// replaces. Default: 10m. Off: for ever, and old workers pile up.
	Drain catalog.Duration `json:"drain,omitzero"`
	// MaxConn is the most connections in all. Default: the sum of the totals, if
	// all listeners have one, or what HAProxy takes from its file limit.
	MaxConn int `json:"max_conn,omitzero"`
	// NoSplice copies in user space: the way out should splice misbehave.
	NoSplice bool `json:"no_splice,omitzero"`
	// Resolvers are DNS servers that gateways' host names are asked of again and
	// again. Default: none; a name is resolved when HAProxy starts.
	Resolvers []netip.AddrPort `json:"resolvers,omitempty"`
	// BufSize is tune.bufsize. Default: what the largest HelloBytes needs.
	BufSize int `json:"buf_size,omitzero"`
}

// Socket is the stats socket.
type Socket struct {
	// Path is where it is. Default: /run/haproxy/edgeward.sock.
	Path string `json:"path,omitzero"`
	// User and Group own it. Default: whoever starts HAProxy.
	User  string `json:"user,omitzero"`
	Group string `json:"group,omitzero"`
	// Mode is its mode in octal. Default: 600.
	Mode string `json:"mode,omitzero"`
}

const (
	defaultHelloBytes = 16389 // one TLS record: 5 bytes and 2^14, RFC 8446 section 5.1
	maxHelloBytes     = 256 << 10
	minBufSize        = 16384 // HAProxy's own default, and the least that is safe
	maxRewrite        = 1024  // of a buffer, kept free by HAProxy: tune.maxrewrite
	maxConn           = 4 << 20
	maxName           = 255                 // most bytes of a server name, as sent, that the relay takes
	maxDuration       = 24 * 24 * time.Hour // its timers have 31 bits of milliseconds
)

// withDefaults returns c with defaults filled in.
func (c Config) withDefaults() Config {
	p := &c.Process
	p.Files = cmp.Or(p.Files, "/etc/haproxy/edgeward")
	p.StateFile = cmp.Or(p.StateFile, p.Files+"/servers.state")
	p.User, p.Group = cmp.Or(p.User, "haproxy"), cmp.Or(p.Group, "haproxy")
	p.Log, p.Facility = cmp.Or(p.Log, "/dev/log"), cmp.Or(p.Facility, "local0")
	p.Drain = cmp.Or(p.Drain, catalog.Duration(10*time.Minute))
	p.Socket.Path, p.Socket.Mode = cmp.Or(p.Socket.Path, "/run/haproxy/edgeward.sock"), cmp.Or(p.Socket.Mode, "600")
	c.Health = cmp.Or(c.Health, ByHAProxy)
	list := make([]Listener, len(c.Listeners))
	hello := 0
	for i, l := range c.Listeners {
		l.HelloBytes = cmp.Or(l.HelloBytes, defaultHelloBytes)
		l.HelloTime = cmp.Or(l.HelloTime, catalog.Duration(5*time.Second))
		list[i] = l
		hello = max(hello, l.HelloBytes)
	}
	c.Listeners = list
	if p.BufSize == 0 {
		p.BufSize = max(minBufSize, (hello+maxRewrite+1023)/1024*1024)
	}
	return c
}

// settings are the limits as the relay knows them.
func (l Limits) settings() limit.Settings {
	return limit.Settings{
		PerSource: l.PerSource, Rate: l.Rate, Burst: l.Burst, Total: l.Total, TotalRate: l.TotalRate,
		PrefixV4: l.PrefixV4, PrefixV6: l.PrefixV6, Table: l.Table, Allow: l.Allow, Deny: l.Deny,
	}
}

// Doors returns listeners as a catalog knows them: it refuses tcp routes on their
// ports, and takes routes that name one.
func Doors(listeners []Listener) (list []catalog.Listener, err error) {
	for i, l := range listeners {
		b, err := parseBind(l.Address)
		if err != nil {
			return nil, fmt.Errorf("listeners[%d].address: %w", i, err)
		}
		list = append(list, catalog.Listener{Name: l.Address, Managed: true, Port: int(b.port), OneLabel: l.OneLabel})
	}
	return list, nil
}
