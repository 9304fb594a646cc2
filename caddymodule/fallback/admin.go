package fallback

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/edgeward/edgeward/internal/notify"
	"github.com/edgeward/edgeward/watchdog/fallback"
	"github.com/edgeward/edgeward/watchdog/fallback/control"
	"github.com/edgeward/edgeward/watchdog/fallback/peer"
	"github.com/edgeward/edgeward/watchdog/fallback/writeback"
)

func init() {
	caddy.RegisterModule(Admin{})
}

// Admin serves the fallback's part of Caddy's admin API, under /fallback/:
//
//	GET  /fallback/status                     all homes, as this one sees them
//	GET  /fallback/homes/<home>               one of them
//	GET  /fallback/homes/<home>/plan          what would be done next, in order
//	POST /fallback/homes/<home>/hold          no new covers, handbacks and tiers; ?for=&why=
//	POST /fallback/homes/<home>/resume        again
//	POST /fallback/homes/<home>/go            act now: skip what is waited for, not what is safe
//	POST /fallback/homes/<home>/handback      give it back now: skip the strikes, not the preflight
//	GET  /fallback/history                    what happened, newest first; ?home=&limit=
//	GET  /fallback/watch                      what happens, as server-sent events; ?home=
//	GET  /fallback/undo                       what writebacks have replaced here
//	POST /fallback/undo/<id>                  put it back
//	GET  /fallback/drill                      the drills there were, and the one under way
//	POST /fallback/drill                      drill, and say how it goes; ?home=&real=&confirm=
//	POST /fallback/notify/test                send a test message to every channel
//	POST /fallback/peer/<action>              what another home asks by ssh; ?from=
//
// Errors are {"code": ..., "error": ...}; the codes stay.
type Admin struct{}

// CaddyModule returns the Caddy module information.
func (Admin) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "admin.api.edge_fallback", New: func() caddy.Module { return new(Admin) }}
}

type handler func(*running, *http.Request) (any, error)

// Routes implements caddy.AdminRouter. Handlers look up what runs for each request:
// after a failed reload, what they had kept would be the wrong one.
func (Admin) Routes() []caddy.AdminRoute {
	routes := []struct {
		pattern string
		method  string
		serve   handler
	}{
		{"/fallback/status", http.MethodGet, serveStatus},
		{"/fallback/homes/{home}", http.MethodGet, serveHome},
		{"/fallback/homes/{home}/plan", http.MethodGet, servePlan},
		{"/fallback/homes/{home}/hold", http.MethodPost, hold},
		{"/fallback/homes/{home}/resume", http.MethodPost, say((*control.Control).Resume)},
		{"/fallback/homes/{home}/go", http.MethodPost, say((*control.Control).Go)},
		{"/fallback/homes/{home}/handback", http.MethodPost, say((*control.Control).Handback)},
		{"/fallback/history", http.MethodGet, serveHistory},
		{"/fallback/undo", http.MethodGet, serveUndos},
		{"/fallback/undo/{id}", http.MethodPost, restore},
		{"/fallback/notify/test", http.MethodPost, testNotice},
	}
	list := make([]caddy.AdminRoute, 0, len(routes)+3)
	for _, route := range routes {
		list = append(list, caddy.AdminRoute{Pattern: route.pattern, Handler: adminHandler(route.method, route.serve)})
	}
	return append(
		list,
		caddy.AdminRoute{Pattern: "/fallback/drill", Handler: caddy.AdminHandlerFunc(drills)},
		caddy.AdminRoute{Pattern: "/fallback/watch", Handler: raw(http.MethodGet, watch)},
		caddy.AdminRoute{Pattern: "/fallback/peer/{action}", Handler: raw(http.MethodPost, answerPeer)},
	)
}

// The codes of errors. They stay.
const (
	codeBadRequest = "bad_request"
	codeMethod     = "method_not_allowed"
	codeNoHome     = "home_unknown"
	codeNoUndo     = "undo_unknown"
	codeRefused    = "refused"
	codeNoChannel  = "no_channel"
	codeNotRunning = "not_running"
	codeInternal   = "internal"
)

// problem is an error with its status and code.
type problem struct {
	status int
	Code   string `json:"code"`
	Text   string `json:"error"`
}

func (p *problem) Error() string { return p.Text }

func newProblem(status int, code, format string, args ...any) *problem {
	return &problem{status, code, fmt.Sprintf(format, args...)}
}

// raw finds what runs, and leaves the answer to serve.
func raw(method string, serve func(*running, http.ResponseWriter, *http.Request) error) caddy.AdminHandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) error {
		if r.Method != method {
			w.Header().Set("Allow", method)
			return refuse(w, newProblem(http.StatusMethodNotAllowed, codeMethod, "want %s", method))
		}
		now := current()
		if now == nil {
			return refuse(w, newProblem(http.StatusServiceUnavailable, codeNotRunning, "no edge_fallback app is running"))
		}
		if err := serve(now, w, r); err != nil {
			return refuse(w, explain(err))
		}
		return nil
	}
}

func adminHandler(method string, serve handler) caddy.AdminHandlerFunc {
	return raw(method, func(now *running, w http.ResponseWriter, r *http.Request) error {
		answer, err := serve(now, r)
		if err != nil {
			return err
		}
		return write(w, http.StatusOK, answer)
	})
}

func write(w http.ResponseWriter, status int, answer any) error {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	return json.NewEncoder(w).Encode(answer)
}

// refuse answers with an error. Caddy is not told: it would answer again.
func refuse(w http.ResponseWriter, p *problem) error {
	_ = write(w, p.status, p)
	return nil
}

// explain gives an error its status and code.
func explain(err error) *problem {
	if p, ok := errors.AsType[*problem](err); ok {
		return p
	}
	switch {
	case errors.Is(err, control.ErrNoHome):
		return newProblem(http.StatusNotFound, codeNoHome, "%s", err)
	case errors.Is(err, control.ErrRefused):
		return newProblem(http.StatusConflict, codeRefused, "%s", err)
	case errors.Is(err, control.ErrStopped), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return newProblem(http.StatusServiceUnavailable, codeNotRunning, "%s", err)
	}
	return newProblem(http.StatusInternalServerError, codeInternal, "%s", err)
}

func serveStatus(now *running, _ *http.Request) (any, error) { return now.control.Show(), nil }

func serveHome(now *running, r *http.Request) (any, error) { return now.home(r.PathValue("home")) }

func (r *running) home(name string) (control.HomeStatus, error) {
	for _, h := range r.control.Show().Homes {
		if h.Home == name {
			return h, nil
		}
	}
	return control.HomeStatus{}, fmt.Errorf("home %q: %w", name, control.ErrNoHome)
}

// planAnswer is what would be done next.
type planAnswer struct {
	Home  string             `json:"home"`
	Stage fallback.Stage     `json:"stage"`
	Why   string             `json:"why"`
	Steps []fallback.Planned `json:"steps"`
}

func servePlan(now *running, r *http.Request) (any, error) {
	h, err := now.home(r.PathValue("home"))
	if err != nil {
		return nil, err
	}
	steps, err := now.control.Plan(h.Home)
	if err != nil {
		return nil, err
	}
	return planAnswer{h.Home, h.Stage, h.Why, append([]fallback.Planned{}, steps...)}, nil
}

// hold takes a time, for a hold that is forgotten is worse than none.
func hold(now *running, r *http.Request) (any, error) {
	q := r.URL.Query()
	var until time.Time
	if text := q.Get("for"); text != "" {
		d, err := caddy.ParseDuration(text)
		if err != nil || d <= 0 {
			return nil, newProblem(http.StatusBadRequest, codeBadRequest, "for=%q: want a duration like 2h or 1d", text)
		}
		until = time.Now().Add(d).UTC().Truncate(time.Second)
	}
	home := r.PathValue("home")
	if err := now.control.Hold(r.Context(), home, until, q.Get("why"), actor(r)); err != nil {
		return nil, err
	}
	return now.home(home)
}

// say passes a person's word on.
func say(word func(c *control.Control, ctx context.Context, home, reason, by string) error) handler {
	return func(now *running, r *http.Request) (any, error) {
		home := r.PathValue("home")
		if err := word(now.control, r.Context(), home, r.URL.Query().Get("why"), actor(r)); err != nil {
			return nil, err
		}
		return now.home(home)
	}
}

// actor is who asks, as far as the admin API knows.
func actor(r *http.Request) string {
	if r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
		return r.TLS.PeerCertificates[0].Subject.String()
	}
	return "admin API " + r.RemoteAddr
}

// The number of records in an answer.
const (
	defaultRecords = 100
	mostRecords    = 1000
)

// historyAnswer is what happened.
type historyAnswer struct {
	Records []fallback.Record `json:"records"`
}

func serveHistory(now *running, r *http.Request) (any, error) {
	q, limit := r.URL.Query(), defaultRecords
	if text := q.Get("limit"); text != "" {
		var err error
		if limit, err = strconv.Atoi(text); err != nil || limit < 1 || limit > mostRecords {
			return nil, newProblem(http.StatusBadRequest, codeBadRequest, "limit=%q: want a number from 1 to %d", text, mostRecords)
		}
	}
	if home := q.Get("home"); home != "" {
		if _, err := now.home(home); err != nil {
			return nil, err
		}
	}
	list, err := now.control.History(q.Get("home"), limit)
	if err != nil {
		return nil, err
	}
	return historyAnswer{append([]fallback.Record{}, list...)}, nil
}

// beat is how often a watcher hears that the stream lives. So it ends, too, when the
// other side has gone.
const beat = 15 * time.Second

// watch sends records as server-sent events until the other side has enough, or the
// config is replaced.
func watch(now *running, w http.ResponseWriter, r *http.Request) error {
	home := r.URL.Query().Get("home")
	if home != "" {
		if _, err := now.home(home); err != nil {
			return err
		}
	}
	out := http.NewResponseController(w)
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusOK)
	ctx, cancel := now.during(r.Context())
	defer cancel()
	records := make(chan fallback.Record)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = now.control.Watch(ctx, func(rec fallback.Record) {
			select {
			case records <- rec:
			case <-ctx.Done():
			}
		})
	}()
	defer func() { cancel(); <-done }()
	alive := time.NewTicker(beat)
	defer alive.Stop()
	_, err := fmt.Fprint(w, ": watching\n\n")
	for err == nil {
		if out.Flush() != nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-alive.C:
			_, err = fmt.Fprint(w, ": still here\n\n")
		case rec := <-records:
			if home == "" || rec.Home == home {
				err = writeEvent(w, rec)
			}
		}
	}
	return nil // the other side has gone
}

func writeEvent(w http.ResponseWriter, rec fallback.Record) error {
	text, err := json.Marshal(rec)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "event: record\ndata: %s\n\n", text)
	return err
}

// during returns a context that ends with ctx and with what runs.
func (r *running) during(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(r.life, cancel)
	return ctx, func() { stop(); cancel() }
}

// undoAnswer is what can be put back.
type undoAnswer struct {
	Undos []writeback.Undo `json:"undos"`
}

func serveUndos(now *running, _ *http.Request) (any, error) {
	list, err := now.writes.Undos()
	if err != nil {
		return nil, err
	}
	return undoAnswer{append([]writeback.Undo{}, list...)}, nil
}

func restore(now *running, r *http.Request) (any, error) {
	list, err := now.writes.Undos()
	if err != nil {
		return nil, err
	}
	id := r.PathValue("id")
	for _, u := range list {
		if u.ID == id {
			ctx, cancel := now.during(r.Context())
			defer cancel()
			return now.writes.Restore(ctx, id)
		}
	}
	return nil, newProblem(http.StatusNotFound, codeNoUndo, "there is no undo copy %q", id)
}

// testAnswer says whom a test message goes to.
type testAnswer struct {
	Channels []string `json:"channels"`
}

func testNotice(now *running, _ *http.Request) (any, error) {
	a := testAnswer{Channels: channels(now.notices.outbox.Stats())}
	if len(a.Channels) == 0 {
		return nil, newProblem(http.StatusConflict, codeNoChannel, "there is no channel: set notify")
	}
	return a, now.notices.test()
}

func channels(s notify.Stats) []string {
	list := []string{}
	for _, c := range s.Channels {
		list = append(list, c.Name)
	}
	return list
}

// answerPeer answers what another home has asked with ssh, whose forced command says
// who that is.
func answerPeer(now *running, w http.ResponseWriter, r *http.Request) error {
	from := r.URL.Query().Get("from")
	if from == "" || from == now.id || !now.knows(from) {
		return newProblem(http.StatusBadRequest, codeBadRequest, "from=%q: want another home", from)
	}
	var body strings.Builder
	if err := peer.Answer(r.Context(), now.control, from, peer.Action(r.PathValue("action")), r.Body, &body); err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_, err := w.Write([]byte(body.String()))
	return err
}

func (s *setup) knows(home string) bool {
	for _, h := range s.homes {
		if h.ID == home {
			return true
		}
	}
	return false
}

// Interface guards.
var _ caddy.AdminRouter = (*Admin)(nil)
