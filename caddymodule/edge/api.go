package edge

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/edgeward/edgeward/caddymodule/options"
	"github.com/edgeward/edgeward/relay/api"
)

func init() {
	caddy.RegisterModule(APIHandler{})
	httpcaddyfile.RegisterHandlerDirective("edge_api", func(h httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
		handler := new(APIHandler)
		return handler, handler.UnmarshalCaddyfile(h.Dispenser)
	})
	httpcaddyfile.RegisterDirectiveOrder("edge_api", httpcaddyfile.Before, "respond")
}

// APIHandler serves the admin API of the relay, under /edge/, to whoever shows a
// token. Other paths go to the next handler. Serve it by HTTPS: a token is as good
// as a password.
//
// Tokens are those below, and those made with POST /edge/tokens or "edge-relay
// edge token add". A source that shows ten wrong ones within a minute waits for
// the rest of it. Behind another proxy, set trusted_proxies, or all visitors are
// one source.
type APIHandler struct {
	// Tokens that are good besides those made through the API.
	Tokens []APIToken `json:"tokens,omitempty"`
	// Whether the web page is served at /edge/ui/: on or off. Who opens it is
	// asked for a token. Default: on.
	UI string `json:"ui,omitempty"`
	// The URL at which agents reach edge_heartbeat, for the page to show.
	// Default: /agent at the address that the page is seen at.
	AgentURL string `json:"agent_url,omitempty"`

	handler http.Handler
	over    context.Context // ends when the server begins to shut down
}

// APIToken is a token of the config.
type APIToken struct {
	// What it is called in events and in the log.
	Name string `json:"name"`
	// What has to be shown: at least 24 characters. Write {env.NAME} or
	// {file./path} rather than the secret itself.
	Secret string `json:"secret"`
	// What may be done with it: read or write.
	Scope string `json:"scope"`
}

// CaddyModule returns the Caddy module information.
func (APIHandler) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.edge_api", New: func() caddy.Module { return new(APIHandler) }}
}

// Provision reads the tokens.
func (h *APIHandler) Provision(ctx caddy.Context) error {
	if _, err := appOf(ctx); err != nil {
		return err
	}
	log := ctx.Slogger()
	auth := &api.Auth{}
	auth.Refused = func(source netip.Addr, reason string) { logRefused(log, auth, source, reason) }
	for _, t := range h.Tokens {
		secret, err := expand(t.Secret)
		if err != nil {
			return fmt.Errorf("edge_api: token %s: %w", t.Name, err)
		}
		static, err := api.NewStaticToken(t.Name, strings.TrimSpace(secret), t.Scope)
		if err != nil {
			return fmt.Errorf("edge_api: %w", err)
		}
		if slices.ContainsFunc(auth.Static, func(other api.StaticToken) bool { return other.Name == t.Name }) {
			return fmt.Errorf("edge_api: there are two tokens %s", t.Name)
		}
		auth.Static = append(auth.Static, static)
	}
	var end func()
	h.over, end = context.WithCancel(context.Background())
	onShutdown(ctx, end) // streams would hold the server up
	h.handler = api.New(api.Options{Fleet: currentFleet, Auth: auth, Source: clientAddr, Log: log})
	switch h.UI {
	case "", "on":
		h.handler = withPage(h.handler, pageOf(pageKey{true, h.AgentURL}, log))
	case "off":
	default:
		return fmt.Errorf("edge_api: ui %q: want on or off", h.UI)
	}
	return nil
}

// logRefused logs who was turned away. A source that has been told to wait could
// fill the log.
func logRefused(log *slog.Logger, auth *api.Auth, source netip.Addr, reason string) {
	level := slog.LevelWarn
	if reason == api.RefusedTooMany {
		level = slog.LevelDebug
	}
	log.Log(context.Background(), level, "admin API request refused", "source", source.String(), "reason", reason, "refused_total", auth.Failures())
}

// ServeHTTP answers what is under /edge/.
func (h *APIHandler) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	if !strings.HasPrefix(r.URL.Path, "/edge/") {
		return next.ServeHTTP(w, r)
	}
	if r.Method == http.MethodGet {
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		defer context.AfterFunc(h.over, cancel)()
		r = r.WithContext(ctx)
	}
	h.handler.ServeHTTP(w, r)
	return nil
}

// UnmarshalCaddyfile sets up the handler from Caddyfile tokens. Syntax:
//
//	edge_api [<matcher>] {
//		token     <name> <secret> read|write
//		ui        on|off
//		agent_url <url>
//	}
func (h *APIHandler) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next()
	return options.Table{
		"token": func(d *caddyfile.Dispenser) error {
			var t APIToken
			if !d.Args(&t.Name, &t.Secret, &t.Scope) {
				return d.Err("want token <name> <secret> read|write")
			}
			h.Tokens = append(h.Tokens, t)
			return nil
		},
		"ui":        options.Word(&h.UI, "on", "off"),
		"agent_url": options.Text(&h.AgentURL),
	}.Block(d)
}

// Interface guards.
var (
	_ caddy.Provisioner           = (*APIHandler)(nil)
	_ caddyhttp.MiddlewareHandler = (*APIHandler)(nil)
	_ caddyfile.Unmarshaler       = (*APIHandler)(nil)
)
