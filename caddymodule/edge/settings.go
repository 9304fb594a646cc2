package edge

import "github.com/caddyserver/caddy/v2"

// Gateway is a machine at home that the relay dials.
type Gateway struct {
	// Where to dial it: host:port, or unix/ and the path of a socket. A host
	// name is looked up every 10 seconds, so a home whose address changes needs
	// no reload. Required. Placeholders are replaced when the config loads.
	Dial string `json:"dial"`
	// The PROXY protocol header to send before the visitor's first byte, so that
	// the gateway learns the visitor's address: "v1" or "v2". The gateway must
	// expect it. Checks send it too. Default: none.
	ProxyProtocol string `json:"proxy_protocol,omitempty"`
	// The active check. Default: a TCP connect every 2 seconds.
	Check *Check `json:"check,omitempty"`
	// What the gateway's agent proves itself with, at least 16 characters, as
	// {env.NUC_TOKEN} or {file./etc/edgeward/nuc}. Default: none here; an agent
	// then enrols with a pairing code.
	Token string `json:"token,omitempty"`
	// Where the gateway's agent takes routes by HTTP host. Default: 8080.
	HTTPPort int `json:"http_port,omitempty"`
}

// Check is how the relay finds out whether a gateway works, besides what it sees
// of visitors' connections.
type Check struct {
	// What to do: "tcp" connects, "tls" finishes a handshake and verifies the
	// certificate, "https" asks for a page too, "off" leaves it to visitors'
	// connections. Default: "tcp".
	Kind string `json:"kind,omitempty"`
	// The server name to ask for, which the certificate must be good for.
	// Required for tls and https.
	ServerName string `json:"server_name,omitempty"`
	// A PEM file with the authorities to trust. Default: the system's.
	RootsFile string `json:"roots_file,omitempty"`
	// Accept any certificate. Not recommended: the check then passes although
	// visitors see a warning.
	Insecure bool `json:"insecure,omitempty"`
	// For https: the path and query. Default: "/".
	Path string `json:"path,omitempty"`
	// For https: the Host header. Default: the server name.
	Host string `json:"host,omitempty"`
	// For https: the status codes that are good, like "200", "2xx" or "200-204".
	// Default: "2xx".
	Status []string `json:"status,omitempty"`
	// For https: what the answer must be, byte for byte. Default: anything.
	Body string `json:"body,omitempty"`
	// How often to check, give or take a tenth. Default: 2s.
	Interval caddy.Duration `json:"interval,omitempty"`
	// How often to check while something is wrong that is not decided yet.
	// Default: 250ms.
	Fast caddy.Duration `json:"fast,omitempty"`
	// How long one check may take in all. Default: 1.5s.
	Timeout caddy.Duration `json:"timeout,omitempty"`
	// How many refusals or wrong answers in a row take the gateway down; a
	// timeout counts half. Default: 3.
	Fall int `json:"fall,omitempty"`
	// How many good checks in a row bring it back. Default: 2.
	Rise int `json:"rise,omitempty"`
	// How old evidence may be before the gateway counts as unknown. Unknown is
	// not down: it is used when nothing better is there. Default: 15s, or four
	// intervals where that is longer.
	Stale caddy.Duration `json:"stale,omitempty"`
}

// Pool is gateways that serve the same, and how one is chosen.
type Pool struct {
	// The gateways, in order of preference.
	Members []Member `json:"members"`
	// "failover" sends everyone to the first member that is well, "round_robin"
	// to each in turn by weight, "least_conn" to the one with the fewest open
	// connections for its weight, "ip_hash" the same visitor to the same member.
	// Default: "failover".
	Policy string `json:"policy,omitempty"`
	// How long a member that has come back waits before it serves again: a
	// duration, or a preset for its kind: container (60s), vm (180s), hypervisor
	// (600s), nas (900s), windows (1800s), slow (3600s). If no other member is
	// well it serves at once. Default: container.
	Failback string `json:"failback,omitempty"`
	// For round_robin and least_conn: how long a member that has come back gets
	// less than its share. Default: 10s. Negative: off.
	SlowStart caddy.Duration `json:"slow_start,omitempty"`
	// What becomes of open connections of a member that went down: "keep" leaves
	// them to their own timeouts, "close" closes them so that visitors connect
	// again elsewhere. Default: "keep".
	OnDown string `json:"on_down,omitempty"`
	// For failover: how long after a failback the connections that other members
	// took meanwhile are kept. Then they are closed, so that those visitors come
	// back too. Default: as long as they last. Negative: the same.
	ReturnAfter caddy.Duration `json:"return_after,omitempty"`
	// How long one dial may take while another member is left to try.
	// Default: 1s.
	DialTimeout caddy.Duration `json:"dial_timeout,omitempty"`
	// How long to wait for a dial before another member is dialled beside it.
	// Default: 250ms. Negative: never.
	Hedge caddy.Duration `json:"hedge,omitempty"`
	// How long a member may be silent after the ClientHello before another one
	// gets it. Default: 1s. Negative: wait for ever.
	FirstByte caddy.Duration `json:"first_byte,omitempty"`
	// How long all dials for one visitor may take together. Default: 5s.
	TotalTimeout caddy.Duration `json:"total_timeout,omitempty"`
	// How long a connection may be without a byte either way. Default: 1h.
	// Negative: for ever.
	Idle caddy.Duration `json:"idle,omitempty"`
	// How long a connection of which one side has finished may be without a byte
	// from the other. Default: 60s. Negative: as long as Idle.
	Linger caddy.Duration `json:"linger,omitempty"`
	// What HTTP visitors get when no member is alive.
	Outage *Outage `json:"outage,omitempty"`
}

// Member is a gateway in a pool.
type Member struct {
	Gateway string `json:"gateway"`
	// Its share under round_robin, least_conn and ip_hash, 1 to 256. Default: 1.
	Weight int `json:"weight,omitempty"`
}

// Outage is the answer to HTTP visitors of a pool of which no member is alive.
// It is never cached (Cache-Control: no-store).
type Outage struct {
	// The status code. Default: 503.
	Status int `json:"status,omitempty"`
	// The body. Default: one sentence.
	Body string `json:"body,omitempty"`
	// The Content-Type. Default: text/plain, or text/html for a body that begins
	// with a tag.
	ContentType string `json:"content_type,omitempty"`
	// The Retry-After header. Default: 30s. Negative: none.
	RetryAfter caddy.Duration `json:"retry_after,omitempty"`
}

// Listener is an address, or several that do the same.
type Listener struct {
	// Where to listen: ":443", "192.0.2.1:443", "udp/:51820", "unix//run/x.sock",
	// "fd/3" for a socket that systemd passes. A port range is not possible.
	Listen []string `json:"listen"`
	// Who may connect how often. Default: no limits.
	Limit *Limit `json:"limit,omitempty"`
	// Where visitors go. A single route without names takes all that come,
	// whatever they speak; UDP needs such a one.
	Routes []Route `json:"routes"`
	// Leave out the routes by server name that are made through the admin API.
	// Default: a TCP listener takes them, unless it has a route without names.
	Unmanaged bool `json:"unmanaged,omitempty"`
	// What to do with a visitor whose name no route has: "close", or "alert",
	// which sends the TLS alert unrecognized_name first. Default: "close".
	Unknown string `json:"unknown,omitempty"`
	// How deep a wildcard reaches: with "any", *.example.com covers
	// a.b.example.com too, with "one" a single label as certificates have it.
	// Default: "any".
	Wildcard string `json:"wildcard,omitempty"`
	// How many bytes a ClientHello may take. Default: 65536.
	HelloMaxBytes int `json:"hello_max_bytes,omitempty"`
	// How long a ClientHello may take to arrive. Default: 5s.
	HelloTimeout caddy.Duration `json:"hello_timeout,omitempty"`
	// Proxies that open every connection with a PROXY protocol header, as
	// addresses or networks. The visitor is then who the header says.
	TrustedProxies []string `json:"trusted_proxies,omitempty"`
	// For UDP: how long a flow may be quiet. Default: 60s.
	UDPIdle caddy.Duration `json:"udp_idle,omitempty"`
	// Log one in so many ended connections. Default: every one. Negative: none.
	LogEvery int `json:"log_every,omitempty"`
}

// Route leads visitors to a pool.
type Route struct {
	// What visitors ask for: "example.com", "*.example.com", "*" for any name. An
	// exact name goes before a wildcard, the longest wildcard before a shorter.
	Names []string `json:"names,omitempty"`
	// Take visitors without a server name.
	NoName bool `json:"no_name,omitempty"`
	// The pool, or else the gateway.
	Pool string `json:"pool,omitempty"`
	// The gateway, or else the pool. While it is down, the other members of the
	// pools it is in take over, without being asked.
	Gateway string `json:"gateway,omitempty"`
	// The server in the home's network, host:port, that the gateway's agent
	// forwards to. A loopback address means the gateway itself; where another
	// gateway serves the route, it reaches it at its LAN address. Default: the
	// gateway's own server at its dial address answers.
	To string `json:"to,omitempty"`
	// The PROXY protocol header that the agent sends to it: "v1" or "v2".
	// Default: none.
	ToProxyProtocol string `json:"to_proxy_protocol,omitempty"`

	where string // for messages
}

// Ports is how routes by TCP or UDP port that are made through the admin API are
// listened for.
type Ports struct {
	// The address to listen on. Default: all.
	Host string `json:"host,omitempty"`
	// Who may connect how often, for each port. Default: no limits.
	Limit *Limit `json:"limit,omitempty"`
}

// Limit bounds connections, before anything is read from them. Zero is no limit.
type Limit struct {
	// Open connections of one source.
	PerSource int `json:"per_source,omitempty"`
	// New connections a second of one source, in the long run.
	Rate float64 `json:"rate,omitempty"`
	// How many of them at once after a pause. Default: two seconds' worth.
	Burst int `json:"burst,omitempty"`
	// Open connections of all sources together.
	Total int `json:"total,omitempty"`
	// New connections a second of all sources together.
	TotalRate float64 `json:"total_rate,omitempty"`
	// How many of them at once after a pause. Default: two seconds' worth.
	TotalBurst int `json:"total_burst,omitempty"`
	// How many leading bits of an address make a source. Defaults: 32 and 64,
	// for that is what one subscriber has.
	PrefixV4 int `json:"prefix_v4,omitempty"`
	PrefixV6 int `json:"prefix_v6,omitempty"`
	// How many sources are remembered. Default: 65536.
	Table int `json:"table,omitempty"`
	// Addresses or networks that are not limited as a source; they still count
	// in the total.
	Allow []string `json:"allow,omitempty"`
	// Addresses or networks that are refused.
	Deny []string `json:"deny,omitempty"`
}
