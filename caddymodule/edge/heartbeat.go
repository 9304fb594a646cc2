package edge

import (
	"context"
	"net/http"
	"net/netip"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/edgeward/edgeward/relay/link"
)

func init() {
	caddy.RegisterModule(HeartbeatHandler{})
	httpcaddyfile.RegisterHandlerDirective("edge_heartbeat", func(h httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
		handler := new(HeartbeatHandler)
		return handler, handler.UnmarshalCaddyfile(h.Dispenser)
	})
	httpcaddyfile.RegisterDirectiveOrder("edge_heartbeat", httpcaddyfile.Before, "respond")
}

// HeartbeatHandler is where the agents of gateways report themselves, fetch what
// they have to forward, and enrol with a pairing code. Serve it by HTTPS at a path
// of its own, like /edge-agent/*: the URL up to there is what agents are told.
//
// It asks for each gateway's own token, and for nothing else: it needs no other
// authentication before it, and none must be there that agents could not pass.
type HeartbeatHandler struct {
	handler *link.Handler
}

// CaddyModule returns the Caddy module information.
func (HeartbeatHandler) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.edge_heartbeat", New: func() caddy.Module { return new(HeartbeatHandler) }}
}

// Provision sets the handler up.
func (h *HeartbeatHandler) Provision(ctx caddy.Context) error {
	app, err := appOf(ctx)
	if err != nil {
		return err
	}
	h.handler = link.NewHandler(agents{app.broker})
	h.handler.Log, h.handler.Source = ctx.Slogger(), clientAddr
	onShutdown(ctx, h.handler.Close)
	return nil
}

// onShutdown has f called when the server that a handler is provisioned for begins
// to shut down: requests that wait for news would hold it up.
func onShutdown(ctx caddy.Context, f func()) {
	if server, ok := ctx.Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server); ok {
		server.RegisterOnShutdown(f)
	}
}

// Cleanup ends the requests that wait.
func (h *HeartbeatHandler) Cleanup() error {
	if h.handler != nil {
		h.handler.Close()
	}
	return nil
}

// ServeHTTP answers an agent.
func (h *HeartbeatHandler) ServeHTTP(w http.ResponseWriter, r *http.Request, _ caddyhttp.Handler) error {
	h.handler.ServeHTTP(w, r)
	return nil
}

// UnmarshalCaddyfile sets up the handler from Caddyfile tokens. Syntax:
//
//	edge_heartbeat [<matcher>]
func (h *HeartbeatHandler) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next()
	if d.NextArg() {
		return d.ArgErr()
	}
	if d.NextBlock(0) {
		return d.Err("edge_heartbeat has no options")
	}
	return nil
}

// agents serves agents by whatever fleet is there when they ask: the handler may be
// older or younger than it.
type agents struct{ broker *broker }

func (a agents) relay() (link.Relay, error) {
	if f := a.broker.fleet(); f != nil {
		return f, nil
	}
	return nil, link.ErrBusy
}

// Pair implements link.Relay.
func (a agents) Pair(ctx context.Context, code string, from netip.Addr) (answer link.PairAnswer, err error) {
	relay, err := a.relay()
	if err != nil {
		return answer, err
	}
	return relay.Pair(ctx, code, from)
}

// Authenticate implements link.Relay.
func (a agents) Authenticate(token string) (gateway string, err error) {
	relay, err := a.relay()
	if err != nil {
		return "", err
	}
	return relay.Authenticate(token)
}

// Heartbeat implements link.Relay.
func (a agents) Heartbeat(ctx context.Context, gateway string, hb link.Heartbeat) (answer link.HeartbeatAnswer, err error) {
	relay, err := a.relay()
	if err != nil {
		return answer, err
	}
	return relay.Heartbeat(ctx, gateway, hb)
}

// Applied implements link.Relay.
func (a agents) Applied(ctx context.Context, gateway string, ap link.Applied) error {
	relay, err := a.relay()
	if err != nil {
		return err
	}
	return relay.Applied(ctx, gateway, ap)
}

// Table implements link.Relay.
func (a agents) Table(ctx context.Context, gateway, hash string, wait time.Duration) (*link.Table, error) {
	relay, err := a.relay()
	if err != nil {
		return nil, err
	}
	return relay.Table(ctx, gateway, hash, wait)
}

// Rotate implements link.Relay.
func (a agents) Rotate(ctx context.Context, gateway string) (answer link.RotateAnswer, err error) {
	relay, err := a.relay()
	if err != nil {
		return answer, err
	}
	return relay.Rotate(ctx, gateway)
}

// Interface guards.
var (
	_ caddyhttp.MiddlewareHandler = (*HeartbeatHandler)(nil)
	_ caddy.Provisioner           = (*HeartbeatHandler)(nil)
	_ caddy.CleanerUpper          = (*HeartbeatHandler)(nil)
	_ caddyfile.Unmarshaler       = (*HeartbeatHandler)(nil)
	_ link.Relay                  = agents{}
)
