package edge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"

	"github.com/edgeward/edgeward/caddymodule/options"
	"github.com/edgeward/edgeward/relay/attempt"
	"github.com/edgeward/edgeward/relay/catalog"
	"github.com/edgeward/edgeward/relay/fleet"
	"github.com/edgeward/edgeward/relay/health"
	"github.com/edgeward/edgeward/relay/session"
)

func init() {
	caddy.RegisterModule(Upstreams{})
	caddy.RegisterModule(OutageHandler{})
}

// Upstreams gives reverse_proxy the gateway of a pool that is to serve a request,
// by the pool's policy and health. A retry gets the next member, so set
// lb_retries to the number of members less one. ip_hash goes by the client's
// address as Caddy knows it (trusted_proxies), not by the TCP peer.
//
// Use it inside edge_proxy, or behind edge_outage, so that an outage is answered
// with the pool's page.
type Upstreams struct {
	// The pool, as the edge app defines it. Default: the one that the request's
	// host leads to, by the routes of kind http that are made through the admin
	// API; the gateway's http_port is dialled then.
	Pool string `json:"pool,omitempty"`
	// The port to dial in place of the gateway's own. Default: the gateway's.
	Port int `json:"port,omitempty"`

	broker *broker
}

// CaddyModule returns the Caddy module information.
func (Upstreams) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.reverse_proxy.upstreams.edge_pool", New: func() caddy.Module { return new(Upstreams) }}
}

// Provision checks that the pool is there.
func (u *Upstreams) Provision(ctx caddy.Context) (err error) {
	if u.Port < 0 || u.Port > 65535 {
		return fmt.Errorf("edge_pool: port %d: want 1 to 65535", u.Port)
	}
	u.broker, err = poolBroker(ctx, u.Pool)
	return err
}

func poolBroker(ctx caddy.Context, name string) (*broker, error) {
	app, err := appOf(ctx)
	if err != nil {
		return nil, err
	}
	if name != "" && app.Pools[name] == nil {
		return nil, fmt.Errorf("pool %q is not defined in the edge app", name)
	}
	return app.broker, nil
}

// visit is one request's way through a pool.
type visit struct {
	seat    session.Seat
	tried   uint64
	now     *session.Gateway // who has the request
	leave   func()           // takes the request off now
	guarded bool             // edge_outage sees to that
	route   *fleet.HTTPRoute // nil for a pool that is named
	outage  *catalog.Outage  // the route's page
}

func visitVar(pool string) string { return "edge.visit." + pool }

// errOutage says that no member is left.
var errOutage = errors.New("no member of the pool is alive")

// errUnknownHost says that no route has the request's host.
var errUnknownHost = errors.New("no route has this host")

// visitOf returns the request's way, which begins when it is first asked for.
func visitOf(b *broker, pool string, r *http.Request) (*visit, error) {
	if v, ok := caddyhttp.GetVar(r.Context(), visitVar(pool)).(*visit); ok {
		return v, nil
	}
	v, route := &visit{leave: func() {}}, &session.Route{}
	if pool == "" {
		f := b.fleet()
		if f == nil {
			return nil, errOutage
		}
		found, ok := f.HTTP(r.Host)
		if !ok {
			return nil, errUnknownHost
		}
		v.route, v.outage, pool = found, found.Outage, found.Pool
		route.Name, route.RouteStats, route.Behind = found.Name, found.Stats, true
	}
	if route.Pool = livePool(b, pool); route.Pool == nil {
		return v, errOutage
	}
	if route.RouteStats == nil {
		v.seat = route.Pool.Seat(clientAddr(r), session.Now())
	} else {
		v.seat = route.Seat(clientAddr(r), session.Now())
	}
	return v, nil
}

// GetUpstreams returns the one gateway that is to serve the request.
func (u *Upstreams) GetUpstreams(r *http.Request) ([]*reverseproxy.Upstream, error) {
	v, err := visitOf(u.broker, u.Pool, r)
	if err != nil {
		return nil, err
	}
	caddyhttp.SetVar(r.Context(), visitVar(u.Pool), v)
	if v.now != nil { // asked again: the one before could not be reached
		v.blame()
		v.leave()
		v.now = nil
	}
	for {
		i, ok := v.seat.PickUp(v.tried)
		if !ok {
			return nil, errOutage
		}
		v.tried |= 1 << uint(i)
		if dial := u.dial(v, v.seat.Gateway(i)); dial != "" {
			v.take(r, v.seat.Gateway(i))
			return []*reverseproxy.Upstream{{Dial: dial}}, nil
		}
	}
}

// take gives the request to a gateway, until leave.
func (v *visit) take(r *http.Request, g *session.Gateway) {
	g.Open.Add(1)
	v.now = g
	v.leave = sync.OnceFunc(func() { g.Open.Add(-1) })
	if !v.guarded {
		context.AfterFunc(r.Context(), v.leave)
	}
}

// blame notes that the gateway that has the request could not be reached. A route
// has a port of its own there, which says little about the gateway.
func (v *visit) blame() {
	if v.route != nil {
		v.now.Faults[attempt.Unreachable].Add(1)
		return
	}
	v.now.Blame(attempt.Unreachable, 0)
}

// dial is the address of a gateway; empty if it is not known any more.
func (u *Upstreams) dial(v *visit, g *session.Gateway) string {
	a, port := g.Address(), u.Port
	if f := u.broker.fleet(); f != nil && v.route != nil && port == 0 {
		port = f.HTTPPort(g.Name)
	}
	switch {
	case a == nil:
		return ""
	case a.Path != "":
		return "unix/" + a.Path
	case port != 0:
		return net.JoinHostPort(a.Addr.Addr().String(), strconv.Itoa(port))
	}
	return a.Addr.String()
}

// UnmarshalCaddyfile sets up the source from Caddyfile tokens. Syntax:
//
//	dynamic edge_pool <pool> [{
//		port <port>
//	}]
func (u *Upstreams) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	for d.Next() {
		if !d.Args(&u.Pool) {
			return d.Err("edge_pool needs the name of a pool")
		}
		if err := (options.Table{"port": options.Number(&u.Port)}).Block(d); err != nil {
			return err
		}
	}
	return nil
}

func livePool(b *broker, name string) *session.Pool {
	if r := b.relay(); r != nil {
		return r.Pool(name)
	}
	return nil
}

func clientAddr(r *http.Request) netip.Addr {
	text, _ := caddyhttp.GetVar(r.Context(), caddyhttp.ClientIPVarKey).(string)
	if text == "" {
		text, _, _ = net.SplitHostPort(r.RemoteAddr)
	}
	addr, _ := netip.ParseAddr(text)
	return addr
}

// OutageHandler answers for a pool of which no member is alive: with the pool's
// own page, never cached, and with Retry-After. Put it before a reverse_proxy
// whose upstreams are the pool's; edge_proxy does that by itself.
//
// What an application answers, errors included, passes untouched.
type OutageHandler struct {
	// The pool, as the edge app defines it. Default: the one that the request's
	// host leads to; a host that no route has is answered with 404.
	Pool string `json:"pool,omitempty"`

	broker *broker
	outage Outage
}

// CaddyModule returns the Caddy module information.
func (OutageHandler) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.edge_outage", New: func() caddy.Module { return new(OutageHandler) }}
}

// Provision takes the pool's page.
func (h *OutageHandler) Provision(ctx caddy.Context) (err error) {
	if h.broker, err = poolBroker(ctx, h.Pool); err != nil {
		return fmt.Errorf("edge_outage: %w", err)
	}
	app, err := appOf(ctx)
	if err != nil {
		return err
	}
	if pool := app.Pools[h.Pool]; pool != nil && pool.Outage != nil {
		h.outage = *pool.Outage
	}
	return nil
}

// ServeHTTP passes the request on while a member may serve it.
func (h *OutageHandler) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	v, err := visitOf(h.broker, h.Pool, r)
	if errors.Is(err, errUnknownHost) {
		return caddyhttp.Error(http.StatusNotFound, err)
	}
	if err != nil || !v.hope() {
		return h.answer(w, v)
	}
	caddyhttp.SetVar(r.Context(), visitVar(h.Pool), v)
	if v.route != nil {
		v.route.Stats.Served.Add(1)
		v.route.Stats.Open.Add(1)
		defer v.route.Stats.Open.Add(-1)
	}
	v.guarded = true
	defer func() { v.leave() }() // also if what comes next panics, to cut an answer off
	return h.judge(w, v, next.ServeHTTP(w, r))
}

// hope tells whether a member is not known to be down.
func (v *visit) hope() bool {
	_, ok := v.seat.PickUp(0)
	return ok
}

// judge learns from how the request went, and answers when no member did.
func (h *OutageHandler) judge(w http.ResponseWriter, v *visit, err error) error {
	var failed reverseproxy.DialError
	switch {
	case err == nil:
		if v.now != nil {
			v.now.Good(health.Connect, session.Now())
		}
		return nil
	case errors.As(err, &failed):
		if v.now != nil {
			v.blame()
		}
		return h.answer(w, v)
	case errors.Is(err, errOutage) || strings.Contains(err.Error(), "no upstreams available"):
		return h.answer(w, v)
	}
	return err
}

func (h *OutageHandler) answer(w http.ResponseWriter, v *visit) error {
	o := h.outage
	if v != nil {
		if live := v.seat.Pool; live != nil {
			live.Outages.Add(1)
		}
		if v.outage != nil {
			o = Outage{
				Status: v.outage.Status, Body: v.outage.Body, ContentType: v.outage.ContentType,
				RetryAfter: caddy.Duration(v.outage.RetryAfter),
			}
		}
	}
	body := cmp.Or(o.Body, "The service is not reachable right now. Please try again shortly.\n")
	kind := "text/plain; charset=utf-8"
	if strings.HasPrefix(strings.TrimSpace(body), "<") {
		kind = "text/html; charset=utf-8"
	}
	head := w.Header()
	head.Set("Content-Type", cmp.Or(o.ContentType, kind))
	head.Set("Cache-Control", "no-store")
	if after := cmp.Or(time.Duration(o.RetryAfter), 30*time.Second); after > 0 {
		head.Set("Retry-After", strconv.Itoa(int(after.Seconds())))
	}
	w.WriteHeader(o.status())
	_, err := w.Write([]byte(body))
	return err
}

// Interface guards.
var (
	_ reverseproxy.UpstreamSource = (*Upstreams)(nil)
	_ caddy.Provisioner           = (*Upstreams)(nil)
	_ caddyfile.Unmarshaler       = (*Upstreams)(nil)
	_ caddyhttp.MiddlewareHandler = (*OutageHandler)(nil)
	_ caddy.Provisioner           = (*OutageHandler)(nil)
)
