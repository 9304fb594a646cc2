package edge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/edgeward/edgeward/relay"
	"github.com/edgeward/edgeward/relay/monitor"
	"github.com/edgeward/edgeward/relay/pool"
)

func init() {
	caddy.RegisterModule(Admin{})
}

// Admin serves the relay's part of Caddy's admin API, under /edge/:
//
//	GET  /edge/snapshot                    gateways and pools, with a version
//	GET  /edge/snapshot?after=<version>    the same, once it is newer; up to 60s
//	GET  /edge/snapshot?watch              each new one, as server-sent events
//	GET  /edge/gateways[/<name>]           health, reasons and counts
//	GET  /edge/pools[/<name>]              roles, reasons and counts
//	GET  /edge/connections[?most=<n>]      counts by listener, and open connections
//	GET  /edge/limits                      what limits hold, and the busiest sources
//	POST /edge/gateways/<name>/drain       no new connections, open ones go on
//	POST /edge/gateways/<name>/disable     none, and open ones are closed
//	POST /edge/gateways/<name>/hold        keep its role whatever its health
//	POST /edge/gateways/<name>/ready       health decides again (also: undrain)
//	POST /edge/pools/<name>/failover       away from who serves now
//	POST /edge/pools/<name>/failback       back to who should serve, now
//
// Durations are in seconds. An unknown name is 404, what cannot be done as things
// are 409, and 503 says that no edge app runs.
type Admin struct{}

// CaddyModule returns the Caddy module information.
func (Admin) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "admin.api.edge", New: func() caddy.Module { return new(Admin) }}
}

// Routes implements caddy.AdminRouter. Handlers look the relay up for each
// request: after a failed reload, one they had kept would be the wrong one.
func (Admin) Routes() []caddy.AdminRoute {
	routes := []struct {
		pattern string
		method  string
		serve   func(*relay.Relay, http.ResponseWriter, *http.Request) error
	}{
		{"/edge/snapshot", http.MethodGet, serveSnapshot},
		{"/edge/gateways", http.MethodGet, serveGateways},
		{"/edge/gateways/{name}", http.MethodGet, serveGateway},
		{"/edge/gateways/{name}/{action}", http.MethodPost, actOnGateway},
		{"/edge/pools", http.MethodGet, servePools},
		{"/edge/pools/{name}", http.MethodGet, servePool},
		{"/edge/pools/{name}/{action}", http.MethodPost, actOnPool},
		{"/edge/connections", http.MethodGet, serveConnections},
		{"/edge/limits", http.MethodGet, serveLimits},
	}
	list := make([]caddy.AdminRoute, len(routes))
	for i, route := range routes {
		list[i] = caddy.AdminRoute{Pattern: route.pattern, Handler: caddy.AdminHandlerFunc(
			func(w http.ResponseWriter, r *http.Request) error {
				if r.Method != route.method {
					w.Header().Set("Allow", route.method)
					return apiError(http.StatusMethodNotAllowed, fmt.Errorf("want %s", route.method))
				}
				live := current()
				if live == nil || live.Monitor.Snapshot().Version == 0 { // it has no config yet
					return apiError(http.StatusServiceUnavailable, errors.New("no edge app is running"))
				}
				return route.serve(live, w, r)
			})}
	}
	return list
}

func apiError(status int, err error) error { return caddy.APIError{HTTPStatus: status, Err: err} }

// operatorError gives an error of the monitor its status.
func operatorError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, monitor.ErrNotFound):
		return apiError(http.StatusNotFound, err)
	case errors.Is(err, monitor.ErrConflict):
		return apiError(http.StatusConflict, err)
	}
	return apiError(http.StatusServiceUnavailable, err)
}

func writeJSON(w http.ResponseWriter, v any) error {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	return json.NewEncoder(w).Encode(v)
}

// longestWait bounds a request that waits for news: shorter than the timeouts of
// most proxies and clients.
const longestWait = 60 * time.Second

func serveSnapshot(live *relay.Relay, w http.ResponseWriter, r *http.Request) error {
	query := r.URL.Query()
	if query.Has("watch") {
		return watchSnapshot(live, w, r)
	}
	if !query.Has("after") {
		return writeJSON(w, live.Monitor.Snapshot())
	}
	after, err := strconv.ParseUint(query.Get("after"), 10, 64)
	if err != nil {
		return apiError(http.StatusBadRequest, fmt.Errorf("after=%q: want a version", query.Get("after")))
	}
	ctx, cancel := waitContext(r)
	defer cancel()
	s, err := live.Monitor.Wait(ctx, after)
	if err != nil {
		s = live.Monitor.Snapshot() // nothing new: the one the client has
	}
	return writeJSON(w, s)
}

// watchSnapshot sends each new snapshot as a server-sent event, and a comment now
// and then, so that a dead client is noticed.
func watchSnapshot(live *relay.Relay, w http.ResponseWriter, r *http.Request) error {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	flush := http.NewResponseController(w)
	var seen uint64
	for {
		ctx, cancel := waitContext(r)
		s, err := live.Monitor.Wait(ctx, seen)
		cancel()
		switch {
		case r.Context().Err() != nil:
			return nil
		case err == nil:
			seen = s.Version
			data, err := json.Marshal(s)
			if err != nil {
				return err
			}
			_, _ = fmt.Fprintf(w, "id: %d\nevent: snapshot\ndata: %s\n\n", s.Version, data)
		case errors.Is(err, context.DeadlineExceeded):
			_, _ = fmt.Fprint(w, ": nothing new\n\n")
		default:
			return nil // the relay has stopped
		}
		if flush.Flush() != nil {
			return nil
		}
	}
}

func serveGateways(live *relay.Relay, w http.ResponseWriter, _ *http.Request) error {
	return writeJSON(w, gatewayReports(live.Monitor.Snapshot()))
}

func serveGateway(live *relay.Relay, w http.ResponseWriter, r *http.Request) error {
	for _, g := range gatewayReports(live.Monitor.Snapshot()) {
		if g.Name == r.PathValue("name") {
			return writeJSON(w, g)
		}
	}
	return apiError(http.StatusNotFound, fmt.Errorf("gateway %s: %w", r.PathValue("name"), monitor.ErrNotFound))
}

func servePools(live *relay.Relay, w http.ResponseWriter, _ *http.Request) error {
	return writeJSON(w, poolReports(live.Monitor.Snapshot()))
}

func servePool(live *relay.Relay, w http.ResponseWriter, r *http.Request) error {
	for _, p := range poolReports(live.Monitor.Snapshot()) {
		if p.Name == r.PathValue("name") {
			return writeJSON(w, p)
		}
	}
	return apiError(http.StatusNotFound, fmt.Errorf("pool %s: %w", r.PathValue("name"), monitor.ErrNotFound))
}

var gatewayActions = map[string]pool.Operator{
	"drain": pool.Drain, "disable": pool.Disabled, "hold": pool.Hold, "ready": pool.Ready, "undrain": pool.Ready,
}

func actOnGateway(live *relay.Relay, w http.ResponseWriter, r *http.Request) error {
	op, ok := gatewayActions[r.PathValue("action")]
	if !ok {
		return apiError(http.StatusNotFound, fmt.Errorf("action %q: want drain, undrain, disable, hold or ready", r.PathValue("action")))
	}
	if err := live.Monitor.SetOperator(r.PathValue("name"), op, actor(r)); err != nil {
		return operatorError(err)
	}
	return serveGateway(live, w, r)
}

func actOnPool(live *relay.Relay, w http.ResponseWriter, r *http.Request) (err error) {
	switch action := r.PathValue("action"); action {
	case "failover":
		err = live.Monitor.FailOver(r.PathValue("name"), actor(r))
	case "failback":
		err = live.Monitor.FailBack(r.PathValue("name"), actor(r))
	default:
		return apiError(http.StatusNotFound, fmt.Errorf("action %q: want failover or failback", action))
	}
	if err != nil {
		return operatorError(err)
	}
	return servePool(live, w, r)
}

// actor is who asks, as far as the admin API knows.
func actor(r *http.Request) string {
	if r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
		return r.TLS.PeerCertificates[0].Subject.String()
	}
	return "admin API " + r.RemoteAddr
}

// Interface guards.
var _ caddy.AdminRouter = (*Admin)(nil)
