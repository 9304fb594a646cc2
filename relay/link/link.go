// Package link is what an agent at home and its relay say to each other: JSON over
// HTTPS, always asked by the agent, so that no port at home needs to be open for
// it. All paths are below the URL at which the relay's edge_heartbeat handler is
// served. Every request but the first carries "Authorization: Bearer <token>".
//
//	POST pair       PairRequest  -> PairAnswer     one-shot code instead of a token
//	POST heartbeat  Heartbeat    -> HeartbeatAnswer
//	GET  table?hash=<h>&wait=<seconds>  -> Table, or 304 while the hash is the same
//	POST applied    Applied      -> 204
//	POST rotate     (empty)      -> RotateAnswer   the old token is void at once
//
// Errors are RFC 9457 problem documents: 400 for a body that is not understood,
// 401 without a token or code, 403 for one that is wrong, revoked or used up, 413
// for a body over MaxBody, 429 for too many tries at pairing, 503 when the relay
// cannot answer now.
//
// A [Handler] is the relay's side, a [Client] the agent's. Neither decides anything:
// what a code, a token or a heartbeat means is behind the interface [Relay], and
// when to say what is up to package agent.
//
//	http.Handle("/agent/", link.NewHandler(fleet))
//	...
//	client, err := link.NewClient(link.ClientConfig{URL: "https://relay.example.com/agent", Token: token})
//	answer, err := client.Heartbeat(ctx, report)
package link

import (
	"net/netip"
	"time"
)

const (
	// MaxBody is how many bytes a request may have: some 10,000 routes that do not
	// work.
	MaxBody = 1 << 20
	// MaxPairBody is how many one that needs no token may have.
	MaxPairBody = 4 << 10
	// MaxTable is how many bytes an agent takes as a table: 100,000 routes.
	MaxTable = 64 << 20
	// Interval is how often an agent reports itself, give or take a tenth.
	Interval = 5 * time.Second
	// Retry is how soon it tries again when a heartbeat was not answered.
	Retry = 500 * time.Millisecond
	// LongestWait bounds how long the relay holds a request for a table.
	LongestWait = 55 * time.Second
	// TokenPrefix begins every gateway token, so that one is known when seen.
	TokenPrefix = "edge_gw_"
	// CodeTTL is how long a pairing code is good.
	CodeTTL = 10 * time.Minute
	// ReasonHeader tells, in answers to HTTP visitors, that the agent itself is
	// speaking, and why. What a server behind it says under this name is dropped.
	ReasonHeader = "Edgeward-Reason"
)

// PairRequest asks for a token.
type PairRequest struct {
	Code string `json:"code"` // XXXX-XXXX-XXXX-XXXX; case and dashes do not matter
}

// PairAnswer enrols the gateway.
type PairAnswer struct {
	Gateway string `json:"gateway"` // its name at the relay
	Token   string `json:"token"`
}

// RotateAnswer has the token that is good from now on.
type RotateAnswer struct {
	Token string `json:"token"`
}

// Heartbeat is an agent's report of itself. All but Seq may be missing: what the
// agent could not find out in time is left out, never waited for.
type Heartbeat struct {
	// Seq grows with every heartbeat of one run of the agent, so that the relay
	// can tell how many were lost.
	Seq uint64 `json:"seq"`
	// Interval is when to expect the next one, in seconds.
	Interval float64 `json:"interval"`
	Version  string  `json:"version,omitzero"`
	Hostname string  `json:"hostname,omitzero"`
	// LAN is its address in the home's network.
	LAN netip.Addr `json:"lan,omitzero"`
	// TunnelAge is how long ago the tunnel to the relay last shook hands, in
	// seconds; negative: not known.
	TunnelAge float64 `json:"tunnel_age,omitzero"`
	// Stopping says that it is about to stop: send nobody new.
	Stopping bool `json:"stopping,omitzero"`
	Applied
}

// Applied says which table is in force at the agent, and how each route does.
type Applied struct {
	// Boot tells runs of an agent apart.
	Boot string `json:"boot"`
	// Report grows with everything the agent says of itself in one run, in a
	// heartbeat or not: what comes late is older than what is known.
	Report uint64 `json:"report,omitzero"`
	// Hash is of the table that was applied; empty: none yet, or more routes do
	// not work than a message can hold.
	Hash string `json:"hash"`
	// Failed lists the routes that do not work, and why. Those not listed do.
	Failed []RouteFault `json:"failed,omitempty"`
}

// RouteFault is a route that an agent cannot serve.
type RouteFault struct {
	Route string `json:"route"`
	// Listener: it could not open what visitors come to. Otherwise the target
	// cannot be reached.
	Listener bool   `json:"listener,omitzero"`
	Reason   string `json:"reason"`
}

// HeartbeatAnswer tells the agent what it should have.
type HeartbeatAnswer struct {
	Hash string    `json:"hash"` // of the table it should have
	Time time.Time `json:"time"` // the relay's clock, for the log only
}

// Table is what one gateway's agent has to forward. Its hash is over its routes.
type Table struct {
	Gateway string  `json:"gateway"`
	Hash    string  `json:"hash"`
	Routes  []Entry `json:"routes"` // sorted by name
}

// Entry is one route in an agent's table.
type Entry struct {
	Route string   `json:"route"`
	Kind  string   `json:"kind"`            // tls, tcp, udp, http
	Hosts []string `json:"hosts,omitempty"` // tls, http
	Port  int      `json:"port,omitzero"`   // tcp, udp: where the agent listens
	// OneLabel: a wildcard covers a single label. Default: any depth.
	OneLabel bool `json:"one_label,omitzero"`
	// NoName, for tls: it takes visitors without a server name too.
	NoName bool `json:"no_name,omitzero"`
	// Target is host:port in the home's network.
	Target        string `json:"target"`
	TLS           bool   `json:"tls,omitzero"`      // http: speak HTTPS to the target
	Insecure      bool   `json:"insecure,omitzero"` // and accept any certificate
	ProxyProtocol string `json:"proxy_protocol,omitzero"`
	// Down is why the entry must not be served (its target is another gateway's
	// loopback, and that one's LAN address is not known): fail closed.
	Down string `json:"down,omitzero"`
}
