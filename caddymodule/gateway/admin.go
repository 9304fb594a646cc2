package gateway

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/caddyserver/caddy/v2"

	"github.com/edgeward/edgeward/relay/agent"
	"github.com/edgeward/edgeward/relay/link"
)

func init() {
	caddy.RegisterModule(Admin{})
}

// Admin serves the gateway's part of Caddy's admin API, under /gateway/:
//
//	GET  /gateway/status   contact with the relay, the table, each route and its fault
//	POST /gateway/pair     {"relay": <url>, "code": <code>}: trade a code for a token
//	POST /gateway/rotate   trade the token for another one
//	POST /gateway/unpair   forget the token, the relay and the table
//
// No answer ever holds a token. What the config forbids is 409, trouble with the relay
// 502, and 503 says that no gateway runs.
type Admin struct{}

// CaddyModule returns the Caddy module information.
func (Admin) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "admin.api.edge_gateway", New: func() caddy.Module { return new(Admin) }}
}

type handler func(*broker, *live, *http.Request) (any, error)

// Routes implements caddy.AdminRouter.
func (Admin) Routes() []caddy.AdminRoute {
	routes := []struct {
		pattern string
		method  string
		serve   handler
	}{
		{"/gateway/status", http.MethodGet, serveStatus},
		{"/gateway/pair", http.MethodPost, pair},
		{"/gateway/rotate", http.MethodPost, rotate},
		{"/gateway/unpair", http.MethodPost, unpair},
	}
	list := make([]caddy.AdminRoute, len(routes))
	for i, route := range routes {
		list[i] = caddy.AdminRoute{Pattern: route.pattern, Handler: adminHandler(route.method, route.serve)}
	}
	return list
}

func adminHandler(method string, serve handler) caddy.AdminHandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) error {
		if r.Method != method {
			w.Header().Set("Allow", method)
			return apiError(http.StatusMethodNotAllowed, fmt.Errorf("want %s", method))
		}
		b, now := current()
		if now == nil {
			return apiError(http.StatusServiceUnavailable, errors.New("no edge_gateway app is running"))
		}
		answer, err := serve(b, now, r)
		if err != nil {
			return explain(err)
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		return json.NewEncoder(w).Encode(answer)
	}
}

func apiError(status int, err error) error { return caddy.APIError{HTTPStatus: status, Err: err} }

// explain gives an error its status. What has none of its own is trouble with the relay
// or the disk.
func explain(err error) error {
	if _, ok := errors.AsType[caddy.APIError](err); ok {
		return err
	}
	switch {
	case errors.Is(err, errWrong):
		return apiError(http.StatusBadRequest, err)
	case errors.Is(err, errPaired), errors.Is(err, errUnpaired), errors.Is(err, errElsewhere), errors.Is(err, link.ErrNoToken):
		return apiError(http.StatusConflict, err)
	}
	return apiError(http.StatusBadGateway, err)
}

// statusReport is how the gateway does.
type statusReport struct {
	agent.Status
	// Where visitors come in; empty for nowhere.
	Listen string        `json:"listen,omitzero"`
	HTTP   string        `json:"http,omitzero"`
	Routes []agent.Route `json:"routes"`
}

func serveStatus(_ *broker, now *live, _ *http.Request) (any, error) { return now.status(), nil }

func (l *live) status() statusReport {
	s := statusReport{
		Status: agent.Status{State: agent.Unpaired, TunnelAge: -1, Failed: []link.RouteFault{}},
		Listen: l.entry.settings.Listen, HTTP: l.entry.settings.HTTP, Routes: l.plane.Routes(),
	}
	if l.agent != nil {
		s.Status = l.agent.Status()
	}
	if s.Routes == nil {
		s.Routes = []agent.Route{}
	}
	return s
}

// pairRequest says what to trade where.
type pairRequest struct {
	Relay string `json:"relay"`
	Code  string `json:"code"`
}

// pairAnswer is the gateway's name at the relay.
type pairAnswer struct {
	Gateway string `json:"gateway"`
}

const maxPairRequest = 4 << 10

func pair(b *broker, now *live, r *http.Request) (any, error) {
	var req pairRequest
	if err := json.NewDecoder(io.LimitReader(r.Body, maxPairRequest)).Decode(&req); err != nil || req.Code == "" || req.Relay == "" {
		return nil, apiError(http.StatusBadRequest, errors.New(`want {"relay": <url>, "code": <code>}`))
	}
	name, err := b.pair(r.Context(), now.entry, req.Relay, req.Code)
	return pairAnswer{name}, err
}

// done is the answer to what has nothing to tell.
type done struct {
	OK bool `json:"ok"`
}

func rotate(_ *broker, now *live, r *http.Request) (any, error) {
	switch {
	case !now.entry.token.IsZero():
		return nil, errPaired
	case now.client == nil:
		return nil, errUnpaired
	}
	return done{true}, now.entry.pairing.Rotate(r.Context(), now.client)
}

func unpair(b *broker, now *live, _ *http.Request) (any, error) {
	return done{true}, b.unpair(now.entry)
}

// Interface guards.
var _ caddy.AdminRouter = (*Admin)(nil)
