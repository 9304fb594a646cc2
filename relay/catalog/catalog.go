package catalog

import (
	"net/netip"

	"github.com/edgeward/edgeward/relay/pool"
)

// Owner says where something is configured, and so who may change it.
type Owner uint8

// The owners.
const (
	API  Owner = iota // made through the admin API; kept in the database
	File              // declared in the Caddyfile; the API refuses to change it
)

// Catalog is all that is configured, by name. Treat it, and all that it holds, as
// immutable: edits share what they do not change, so an object that two catalogs
// have at the same revision is the same.
type Catalog struct {
	Gateways  map[string]Gateway
	Pools     map[string]Pool
	Routes    map[string]Route
	Listeners []Listener // of the file
}

// New returns a catalog with nothing in it.
func New() *Catalog {
	return &Catalog{Gateways: map[string]Gateway{}, Pools: map[string]Pool{}, Routes: map[string]Route{}}
}

// Gateway is a machine at home that the relay dials.
type Gateway struct {
	Name     string `json:"name"`
	Owner    Owner  `json:"owner"`
	Revision uint64 `json:"revision"` // grows with each change; the ETag
	// Dial is host:port for TLS by server name. TCP and UDP routes use its host
	// with their own port, HTTP routes its host with HTTPPort.
	Dial string `json:"dial"`
	// ProxyProtocol is the header sent before the visitor's first byte: "v1",
	// "v2". Default: none.
	ProxyProtocol string `json:"proxy_protocol,omitzero"`
	// HTTPPort is where its agent takes HTTP routes. Default: 8080.
	HTTPPort int `json:"http_port,omitzero"`
	// Check is the active check. Default: a TCP connect every 2 seconds.
	Check *Check `json:"check,omitempty"`
}

// Check is how a gateway's health is found out, besides heartbeats and visitors'
// connections. The fields mean what relay/check.Spec and relay/health.Policy say.
type Check struct {
	Kind       string   `json:"kind"` // tcp, tls, https, off
	ServerName string   `json:"server_name,omitzero"`
	Roots      string   `json:"roots,omitzero"` // PEM
	Insecure   bool     `json:"insecure,omitzero"`
	Path       string   `json:"path,omitzero"`
	Host       string   `json:"host,omitzero"`
	Status     []string `json:"status,omitempty"`
	Body       string   `json:"body,omitzero"`
	Interval   Duration `json:"interval,omitzero"`
	Fast       Duration `json:"fast,omitzero"`
	Timeout    Duration `json:"timeout,omitzero"`
	Stale      Duration `json:"stale,omitzero"`
	Fall       int      `json:"fall,omitzero"`
	Rise       int      `json:"rise,omitzero"`
}

// Pool is gateways that serve the same, and how one is chosen. What a field
// means and its default: relay/pool.Settings and relay/session.PoolSettings.
type Pool struct {
	Name         string        `json:"name"`
	Owner        Owner         `json:"owner"`
	Revision     uint64        `json:"revision"`
	Members      []pool.Member `json:"members"` // by priority, the first is the best
	Policy       pool.Policy   `json:"policy"`
	Failback     string        `json:"failback,omitzero"` // a duration or one of pool.Presets
	Disabled     bool          `json:"disabled,omitzero"`
	SlowStart    Duration      `json:"slow_start,omitzero"`
	OnDown       pool.OnDown   `json:"on_down,omitzero"`
	ReturnAfter  Duration      `json:"return_after,omitzero"`
	DialTimeout  Duration      `json:"dial_timeout,omitzero"`
	Hedge        Duration      `json:"hedge,omitzero"`
	FirstByte    Duration      `json:"first_byte,omitzero"`
	TotalTimeout Duration      `json:"total_timeout,omitzero"`
	Idle         Duration      `json:"idle,omitzero"`
	Linger       Duration      `json:"linger,omitzero"`
	Outage       *Outage       `json:"outage,omitempty"`
}

// Outage is what HTTP visitors get when no member can serve them.
type Outage struct {
	Status      int      `json:"status,omitzero"` // default 503
	Body        string   `json:"body,omitzero"`
	ContentType string   `json:"content_type,omitzero"`
	RetryAfter  Duration `json:"retry_after,omitzero"` // default 30s, negative: none
}

// Kind is what visitors of a route speak.
type Kind uint8

// The kinds.
const (
	TLS  Kind = iota // passed through by server name
	TCP              // a port of its own
	UDP              // a port of its own
	HTTP             // by host, where the relay itself terminates TLS
)

// Route is what visitors ask for and who answers. It has either a pin or a pool,
// never both. It has 128 bytes, the most that a map keeps in place: an edit copies
// the map of all routes.
type Route struct {
	Name     string `json:"name"`
	Owner    Owner  `json:"owner"`
	Kind     Kind   `json:"kind"` // default: tls
	Revision uint64 `json:"revision"`
	// Hosts are the names for tls and http: "example.com", "*.example.com", "*".
	Hosts []string `json:"hosts,omitempty"`
	// Port is where the relay listens for tcp and udp.
	Port int `json:"port,omitzero"`
	// Listener limits a tls route to one listener of the file, by its address as
	// written there. Default: all that take managed routes.
	Listener string `json:"listener,omitzero"`
	Gateway  string `json:"gateway,omitzero"` // the pin
	Pool     string `json:"pool,omitzero"`
	// Target is where the agent on the gateway forwards to. Default: nowhere;
	// the gateway's own server at Dial answers.
	Target   *Target `json:"target,omitempty"`
	Disabled bool    `json:"disabled,omitzero"`
	// NoName takes visitors without a server name too. Of the file only.
	NoName bool `json:"no_name,omitzero"`
}

// Target is a server in the home's network.
type Target struct {
	// Host is a name or an address as seen from the gateway. A loopback one
	// means the pinned gateway itself, or the first member of the pool; others
	// reach it at that gateway's LAN address, or not at all.
	Host string `json:"host"`
	Port int    `json:"port"`
	// TLS, for http routes: speak HTTPS to it.
	TLS bool `json:"tls,omitzero"`
	// Insecure, with TLS: accept any certificate.
	Insecure bool `json:"insecure,omitzero"`
	// ProxyProtocol is sent to the target: "v1", "v2". Default: none.
	ProxyProtocol string `json:"proxy_protocol,omitzero"`
}

// Listener is an address of the file that visitors come to.
type Listener struct {
	Name    string `json:"name"`    // as written in the file
	Packet  bool   `json:"packet"`  // UDP
	Managed bool   `json:"managed"` // takes tls routes of the database
	Port    int    `json:"port"`    // 0 if it has none
	// OneLabel says that a wildcard covers a single label there.
	OneLabel bool `json:"one_label,omitzero"`
}

// LAN tells what address a gateway has in its own network, as its agent
// reported; invalid if unknown. Nil knows none.
type LAN func(gateway string) netip.Addr
