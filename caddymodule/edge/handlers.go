package edge

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync/atomic"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/mholt/caddy-l4/layer4"
	"go.uber.org/zap"

	"github.com/edgeward/edgeward/relay"
	"github.com/edgeward/edgeward/relay/hello"
	"github.com/edgeward/edgeward/relay/limit"
	"github.com/edgeward/edgeward/relay/session"
)

func init() {
	caddy.RegisterModule(LimitHandler{})
	caddy.RegisterModule(PoolHandler{})
}

// LimitHandler bounds how many connections a source, and all sources together,
// may have open and open per second. A refused connection is closed; the reason
// is counted and logged. Put it first in a route without a matcher, and it
// decides before anything is read. Counts and rates live through config reloads.
type LimitHandler struct {
	// Handlers of one name share their counts. Default: handlers with the same
	// limits share them.
	Name string `json:"name,omitempty"`
	Limit

	table  *limit.Table
	broker *broker
	log    *zap.Logger
}

// CaddyModule returns the Caddy module information.
func (LimitHandler) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "layer4.handlers.edge_limit", New: func() caddy.Module { return new(LimitHandler) }}
}

// Provision finds the table that was there before the reload.
func (h *LimitHandler) Provision(ctx caddy.Context) error {
	h.log = ctx.Logger()
	settings, err := h.Limit.build()
	if err != nil {
		return fmt.Errorf("edge_limit: %w", err)
	}
	name := h.Name
	if name == "" {
		key, err := json.Marshal(h.Limit)
		if err != nil {
			return err
		}
		name = string(key)
	}
	app, err := appOf(ctx)
	if err != nil {
		return err
	}
	h.broker = app.broker
	h.table, err = h.broker.limitTable(name, settings)
	return err
}

// leaseVar is the connection variable with the limits' hold on a connection, for
// edge_pool to keep until the connection is over.
const leaseVar = "edge.lease"

// Handle takes the connection off the limits and passes it on, or closes it.
func (h *LimitHandler) Handle(cx *layer4.Connection, next layer4.Handler) error {
	lease, why := h.table.Acquire(remote(cx).Addr(), session.Now())
	if why != limit.OK {
		if r := h.broker.relay(); r != nil {
			r.Listener(layer4Name).Refused(why)
		}
		if c := h.log.Check(zap.InfoLevel, "connection refused"); c != nil {
			c.Write(zap.String("remote", cx.RemoteAddr().String()), zap.String("reason", string(why)),
				zap.String("setting", "edge_limit"))
		}
		return cx.Conn.Close()
	}
	held := &heldLease{lease: lease}
	cx.SetVar(leaseVar, held)
	err := next.Handle(cx)
	held.releaseWhenClosed(cx.Conn)
	return err
}

// UnmarshalCaddyfile sets up the handler from Caddyfile tokens. Syntax:
//
//	edge_limit [<name>] {
//		per_source <n>
//		rate       <n>/s
//		total      <n>
//		total_rate <n>/s
//		burst|total_burst|prefix_v4|prefix_v6|table <n>
//		allow|deny <network>...
//	}
func (h *LimitHandler) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	for d.Next() {
		if d.NextArg() {
			h.Name = d.Val()
		}
		if err := h.Limit.parse(d); err != nil {
			return err
		}
	}
	return nil
}

// PoolHandler sends a connection to a gateway of a pool. A gateway that cannot be
// reached is passed over, and the visitor does not notice. Where none can be
// reached the next handler of the route gets the connection as it came, or, if
// there is none, it is closed.
//
// Between bare TCP sockets the bytes never enter Caddy: the connection moves to
// the relay's own event loops, and this handler is done.
type PoolHandler struct {
	// The pool, as the edge app defines it.
	Pool string `json:"pool"`

	broker *broker
	rules  *session.Rules
	way    *atomic.Pointer[way]
}

// way is where the handler's connections go while the pool is the same.
type way struct {
	pool     *session.Pool
	listener *session.Listener
	route    *session.Route
}

// layer4Name stands for all layer4 servers in the relay's counters: it does not
// see their addresses.
const layer4Name = "layer4"

func (h *PoolHandler) wayTo(r *relay.Relay, p *session.Pool) *way {
	if w := h.way.Load(); w != nil && w.pool == p {
		return w
	}
	name := layer4Name + " " + h.Pool
	w := &way{p, r.Listener(layer4Name), &session.Route{Name: name, Pool: p, RouteStats: r.RouteStats(name)}}
	h.way.Store(w)
	return w
}

// CaddyModule returns the Caddy module information.
func (PoolHandler) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "layer4.handlers.edge_pool", New: func() caddy.Module { return new(PoolHandler) }}
}

// Provision checks that the pool is there.
func (h *PoolHandler) Provision(ctx caddy.Context) error {
	app, err := appOf(ctx)
	if err != nil {
		return err
	}
	if app.Pools[h.Pool] == nil {
		return fmt.Errorf("edge_pool: pool %q is not defined in the edge app", h.Pool)
	}
	h.broker = app.broker
	h.rules = &session.Rules{}
	h.way = new(atomic.Pointer[way])
	return nil
}

// Handle sends the connection to a gateway.
func (h *PoolHandler) Handle(cx *layer4.Connection, next layer4.Handler) error {
	r := h.broker.relay()
	if r == nil {
		return errors.New("edge_pool: the edge app is not running")
	}
	p := r.Pool(h.Pool)
	if p == nil {
		return next.Handle(cx)
	}
	if _, udp := cx.RemoteAddr().(*net.UDPAddr); udp {
		return errors.New("edge_pool: UDP needs a listener of the edge app: listen udp/<port>")
	}
	head, conn := unread(cx)
	if _, isTCP := conn.(*net.TCPConn); !isTCP {
		head = slices.Clone(head) // its engine may write it for longer than the buffer is ours
	}
	w := h.wayTo(r, p)
	v := session.Visitor{
		Source: remote(cx), Local: addrPort(cx.LocalAddr()), Listener: w.listener, Rules: h.rules, Route: w.route,
		Head: head, Hello: headHello(cx, head),
	}
	held, _ := cx.GetVar(leaseVar).(*heldLease)
	v.Lease = held.take()
	v.Listener.Accepted.Add(1)
	out := r.Serve(conn, v)
	if !out.Served {
		held.giveBack(v.Lease)
	}
	if out.Reason == session.Outage {
		return next.Handle(cx)
	}
	return nil
}

// headHello is the ClientHello that the head holds, if it does.
func headHello(cx *layer4.Connection, head []byte) hello.Info {
	if known, ok := cx.GetVar(helloVar).(*readHello); ok && known.err == nil {
		return known.Info
	}
	var parser hello.Parser
	parser.Reset(0)
	if info, done, err := parser.Parse(head); done && err == nil {
		return info
	}
	return hello.Info{}
}

// UnmarshalCaddyfile sets up the handler from Caddyfile tokens. Syntax:
//
//	edge_pool <pool>
func (h *PoolHandler) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	for d.Next() {
		if !d.Args(&h.Pool) {
			return d.Err("edge_pool needs the name of a pool")
		}
		if d.NextArg() || d.NextBlock(d.Nesting()) {
			return d.Err("edge_pool takes one name and no block")
		}
	}
	return nil
}

// appOf returns the configured edge app.
func appOf(ctx caddy.Context) (*App, error) {
	app, err := ctx.AppIfConfigured("edge")
	if err != nil {
		return nil, fmt.Errorf("this needs the edge app (the edge global option): %w", err)
	}
	return app.(*App), nil
}

func remote(cx *layer4.Connection) netip.AddrPort { return addrPort(cx.RemoteAddr()) }

// addrPort is the address of a TCP or UDP connection, or invalid.
func addrPort(a net.Addr) (ap netip.AddrPort) {
	switch a := a.(type) {
	case *net.TCPAddr:
		ap = a.AddrPort()
	case *net.UDPAddr:
		ap = a.AddrPort()
	}
	return netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
}

// Interface guards.
var (
	_ layer4.NextHandler    = (*LimitHandler)(nil)
	_ caddy.Provisioner     = (*LimitHandler)(nil)
	_ caddyfile.Unmarshaler = (*LimitHandler)(nil)
	_ layer4.NextHandler    = (*PoolHandler)(nil)
	_ caddy.Provisioner     = (*PoolHandler)(nil)
	_ caddyfile.Unmarshaler = (*PoolHandler)(nil)
)
