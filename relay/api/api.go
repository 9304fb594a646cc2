package api

import (
	"context"
	"log/slog"
	"maps"
	"net/http"
	"net/netip"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/edgeward/edgeward/relay"
	"github.com/edgeward/edgeward/relay/catalog"
	"github.com/edgeward/edgeward/relay/event"
	"github.com/edgeward/edgeward/relay/fleet"
	"github.com/edgeward/edgeward/relay/monitor"
	"github.com/edgeward/edgeward/relay/pool"
	"github.com/edgeward/edgeward/relay/store"
)

// Change is an edit of the catalog: it returns the next one and what happened, or
// a refusal and nothing changed. It may be called more than once.
type Change = func(*catalog.Catalog) (*catalog.Catalog, []event.Event, error)

// Fleet is what the API shows and steers. A method that takes a context returns
// its error when it is over before there is an answer.
type Fleet interface {
	// Catalog returns what is configured, in the file and through the API.
	Catalog() *catalog.Catalog
	// Edit commits a change, puts it in force and returns the catalog after it.
	Edit(ctx context.Context, actor string, change Change) (*catalog.Catalog, error)

	// Snapshot returns the latest picture of health; version 0 if there is none.
	Snapshot() *monitor.Snapshot
	WaitSnapshot(ctx context.Context, after uint64) (*monitor.Snapshot, error)
	// Serving tells who serves each route, sorted by route.
	Serving() []fleet.RouteStatus
	// Agents tells what is known of each gateway's agent, sorted by gateway.
	Agents() []fleet.AgentStatus

	// The operator's hand: monitor.ErrNotFound, monitor.ErrConflict.
	SetOperator(ctx context.Context, gateway string, op pool.Operator, actor string) error
	FailOver(ctx context.Context, pool, actor string) error
	FailBack(ctx context.Context, pool, actor string) error

	Events(ctx context.Context, q store.EventQuery) ([]event.Event, error)
	// WaitEvents returns the events after an ID, at least one.
	WaitEvents(ctx context.Context, after uint64) ([]event.Event, error)

	// Credentials of gateways. Codes and tokens are shown once and stored hashed.
	MakeCode(ctx context.Context, gateway, actor string) (code string, expires time.Time, err error)
	RotateToken(ctx context.Context, gateway, actor string) (token string, err error)
	RevokeToken(ctx context.Context, gateway, actor string) error

	// External takes what a health source outside of Edgeward says. It is
	// believed for ttl.
	External(ctx context.Context, source string, states []fleet.External, ttl time.Duration) error

	// Tokens of this API.
	APITokens(ctx context.Context) ([]store.APIToken, error)
	AddAPIToken(ctx context.Context, t store.APIToken) error
	DeleteAPIToken(ctx context.Context, name string) error

	// Relay is the data plane, for its counters.
	Relay() *relay.Relay
}

// Options of the handler.
type Options struct {
	// Fleet returns what runs now, or nil: then nearly everything is 503. It is
	// asked for each request.
	Fleet func() Fleet
	// Actor says who makes a request that carries no token. Default: its address.
	Actor func(*http.Request) string
	// Source is the client's address, for limits. Default: the TCP peer's.
	Source func(*http.Request) netip.Addr
	// Auth asks for a token. Nil: who can reach the handler may do all, so it is
	// for a socket whose access is guarded otherwise.
	Auth *Auth
	// RequireMatch refuses changes without If-Match.
	RequireMatch bool
	// Log takes what is this program's own fault. Default: nothing is logged.
	Log *slog.Logger
}

// api is the handler that New returns.
type api struct {
	o        Options
	mux      *http.ServeMux
	cross    *http.CrossOriginProtection
	document []byte
	waiting  atomic.Int64 // requests that wait for news
	configs  configCache
}

// New returns the handler of everything under /edge/.
func New(o Options) http.Handler {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Source == nil {
		o.Source = peer
	}
	if o.Actor == nil {
		o.Actor = func(r *http.Request) string { return r.RemoteAddr }
	}
	a := &api{o: o, mux: http.NewServeMux(), cross: http.NewCrossOriginProtection(), document: document()}
	paths := byPath(operations)
	for path, methods := range paths {
		res := &resource{api: a, methods: methods}
		if path == "/edge/routes/relocate" { // a route may be called so
			res.name = "relocate"
			res.methods = maps.Clone(paths["/edge/routes/{name}"])
			maps.Copy(res.methods, methods)
		}
		a.mux.Handle(path, res)
	}
	a.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		problem(http.StatusNotFound, pathNotFound, "nothing is served at %s", r.URL.Path).write(w)
	})
	return a
}

// ServeHTTP lets in who may come in, and finds what is asked for.
func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	out := &writer{ResponseWriter: w}
	defer a.contain(out, r)
	head := w.Header()
	head.Set("Cache-Control", "no-store")
	head.Set("X-Content-Type-Options", "nosniff")
	if a.cross.Check(r) != nil {
		problem(http.StatusForbidden, crossSite, "a page of another site may not change anything here").write(out)
		return
	}
	if a.o.Auth != nil {
		who, err := a.admit(r)
		if err != nil {
			asProblem(err).write(out)
			return
		}
		r = r.WithContext(context.WithValue(r.Context(), identityKey{}, who))
	}
	a.mux.ServeHTTP(out, r)
}

// contain turns a panic into an error of this one request.
func (a *api) contain(w *writer, r *http.Request) {
	cause := recover()
	switch {
	case cause == nil:
		return
	case cause != http.ErrAbortHandler:
		a.o.Log.Error("panic in the admin API", "method", r.Method, "path", r.URL.Path, "cause", cause, "stack", string(debug.Stack()))
	}
	if w.begun {
		panic(http.ErrAbortHandler) // half an answer must not look like a whole one
	}
	internal().write(w)
}

// writer knows whether an answer has begun.
type writer struct {
	http.ResponseWriter
	begun bool
}

// WriteHeader implements http.ResponseWriter.
func (w *writer) WriteHeader(status int) {
	w.begun = true
	w.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (w *writer) Write(b []byte) (int, error) {
	w.begun = true
	return w.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// peer is the address of the TCP peer; invalid for a socket file.
func peer(r *http.Request) netip.Addr {
	ap, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	return ap.Addr().Unmap().WithZone("")
}

// Interface guards.
var _ Fleet = (*fleet.Fleet)(nil)
