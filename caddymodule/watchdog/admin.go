package watchdog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/edgeward/edgeward/internal/journal"
	"github.com/edgeward/edgeward/watchdog"
)

func init() {
	caddy.RegisterModule(Admin{})
}

// Admin serves the watchdog's part of Caddy's admin API, under /watchdog/:
//
//	GET  /watchdog/status                      sites, zones and notices
//	GET  /watchdog/sites/<site>                one site
//	GET  /watchdog/sites/<site>/explain        why it is where it is, and what would move it
//	GET  /watchdog/sites/<site>/plan           what it would take to bring it to each path
//	GET  /watchdog/history                     what was decided, newest first
//	POST /watchdog/sites/<site>/probe          run all probes now
//	POST /watchdog/sites/<site>/switch?path=   move it; the rules hold afterwards
//	POST /watchdog/sites/<site>/pin?path=      move it, and keep it there until unpin
//	POST /watchdog/sites/<site>/unpin          let the rules decide again
//	POST /watchdog/sites/<site>/adopt          mark its records as ours
//	POST /watchdog/sites/<site>/drill          rehearse a failover; ?move=&stay= moves it there and back
//	POST /watchdog/sites/<site>/drill/end      go back now
//	POST /watchdog/pause?site=&for=&why=       no writes for a site, or for all
//	POST /watchdog/resume?site=                writes again
//	POST /watchdog/notify/test                 send a test message to every channel
//
// Durations are in seconds. An unknown name is 404, what is refused as things are 409,
// trouble with the provider 502, and 503 says that no watchdog runs.
type Admin struct{}

// CaddyModule returns the Caddy module information.
func (Admin) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "admin.api.edge_watchdog", New: func() caddy.Module { return new(Admin) }}
}

type handler func(*live, *http.Request) (any, error)

// Routes implements caddy.AdminRouter. Handlers look the watchdog up for each
// request: after a failed reload, one they had kept would be the wrong one.
func (Admin) Routes() []caddy.AdminRoute {
	routes := []struct {
		pattern string
		method  string
		serve   handler
	}{
		{"/watchdog/status", http.MethodGet, serveStatus},
		{"/watchdog/sites/{site}", http.MethodGet, serveSite},
		{"/watchdog/sites/{site}/explain", http.MethodGet, serveExplanation},
		{"/watchdog/sites/{site}/plan", http.MethodGet, servePlan},
		{"/watchdog/sites/{site}/probe", http.MethodPost, probeSite},
		{"/watchdog/sites/{site}/switch", http.MethodPost, switchSite},
		{"/watchdog/sites/{site}/pin", http.MethodPost, pinSite},
		{"/watchdog/sites/{site}/unpin", http.MethodPost, unpinSite},
		{"/watchdog/sites/{site}/adopt", http.MethodPost, adoptSite},
		{"/watchdog/sites/{site}/drill", http.MethodPost, drillSite},
		{"/watchdog/sites/{site}/drill/end", http.MethodPost, drillEnd},
		{"/watchdog/history", http.MethodGet, serveHistory},
		{"/watchdog/pause", http.MethodPost, pause},
		{"/watchdog/resume", http.MethodPost, resume},
		{"/watchdog/notify/test", http.MethodPost, testNotice},
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
		now := current()
		if now == nil {
			return apiError(http.StatusServiceUnavailable, errors.New("no edge_watchdog app is running"))
		}
		answer, err := serve(now, r)
		if err != nil {
			return explainError(now, err)
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		return json.NewEncoder(w).Encode(answer)
	}
}

func apiError(status int, err error) error { return caddy.APIError{HTTPStatus: status, Err: err} }

// explainError gives an error its status. What has none of its own is trouble with
// the provider: all else that can go wrong is checked before.
func explainError(now *live, err error) error {
	if _, ok := errors.AsType[caddy.APIError](err); ok {
		return err
	}
	switch {
	case errors.Is(err, watchdog.ErrNotFound):
		return apiError(http.StatusNotFound, err)
	case errors.Is(err, watchdog.ErrRefused), errors.Is(err, watchdog.ErrDry):
		return apiError(http.StatusConflict, err)
	case errors.Is(err, watchdog.ErrIdle), errors.Is(err, watchdog.ErrStopped):
		return apiError(http.StatusServiceUnavailable, err)
	case errors.Is(err, journal.ErrReadOnly):
		return apiError(http.StatusConflict, fmt.Errorf("%w: this is a dry run: set apply", err))
	}
	return apiError(http.StatusBadGateway, err)
}

func serveStatus(now *live, _ *http.Request) (any, error) { return now.Status() }

func serveSite(now *live, r *http.Request) (any, error) { return now.site(r.PathValue("site")) }

// site finds the status of a site by its name, or by one of its DNS names.
func (l *live) site(name string) (s watchdog.SiteStatus, err error) {
	st, err := l.Status()
	if err != nil {
		return s, err
	}
	for _, s := range st.Sites {
		if s.Site == name {
			return s, nil
		}
	}
	for _, s := range st.Sites {
		if slices.Contains(s.Names, name) {
			return s, nil
		}
	}
	return s, fmt.Errorf("site %q: %w", name, watchdog.ErrNotFound)
}

func serveExplanation(now *live, r *http.Request) (any, error) {
	s, err := now.site(r.PathValue("site"))
	if err != nil {
		return nil, err
	}
	return explain(s, now.policy(s.Site), time.Now()), nil
}

func servePlan(now *live, r *http.Request) (any, error) {
	return now.Plan(r.Context(), r.PathValue("site"))
}

func probeSite(now *live, r *http.Request) (any, error) {
	return now.ProbeNow(r.Context(), r.PathValue("site"))
}

func switchSite(now *live, r *http.Request) (any, error) { return now.move(r, now.Switch) }

func pinSite(now *live, r *http.Request) (any, error) { return now.move(r, now.Pin) }

type mover = func(ctx context.Context, site, path, by string) error

func (l *live) move(r *http.Request, do mover) (any, error) {
	path := r.URL.Query().Get("path")
	if path == "" {
		return nil, apiError(http.StatusBadRequest, errors.New("path is missing: want ?path=<name>"))
	}
	err := do(r.Context(), r.PathValue("site"), path, actor(r))
	if err != nil {
		return nil, l.dry(err)
	}
	return l.site(r.PathValue("site"))
}

// dry says that a move was looked at and not made: nothing is wrong with the provider.
func (l *live) dry(err error) error {
	if l.config.Apply || errors.Is(err, watchdog.ErrRefused) || errors.Is(err, watchdog.ErrNotFound) {
		return err
	}
	return apiError(http.StatusConflict, err)
}

func unpinSite(now *live, r *http.Request) (any, error) {
	if err := now.Unpin(r.Context(), r.PathValue("site"), actor(r)); err != nil {
		return nil, err
	}
	return now.site(r.PathValue("site"))
}

func adoptSite(now *live, r *http.Request) (any, error) {
	return now.Adopt(r.Context(), r.PathValue("site"))
}

func serveHistory(now *live, r *http.Request) (any, error) {
	f, err := historyFilter(r, time.Now())
	if err != nil {
		return nil, apiError(http.StatusBadRequest, err)
	}
	page, err := now.History(f)
	if err != nil {
		return nil, apiError(http.StatusInternalServerError, err)
	}
	return page, nil
}

func historyFilter(r *http.Request, now time.Time) (f journal.Filter, err error) {
	q := r.URL.Query()
	f.Site, f.Kind = q.Get("site"), q.Get("kind")
	if f.Since, err = moment(q.Get("since"), now); err != nil {
		return f, fmt.Errorf("since=%q: %w", q.Get("since"), err)
	}
	if f.Until, err = moment(q.Get("until"), now); err != nil {
		return f, fmt.Errorf("until=%q: %w", q.Get("until"), err)
	}
	if text := q.Get("limit"); text != "" {
		if f.Limit, err = strconv.Atoi(text); err != nil || f.Limit < 1 {
			return f, fmt.Errorf("limit=%q: want a number from 1 to 1000", text)
		}
	}
	if text := q.Get("before"); text != "" {
		if f.Before, err = strconv.ParseUint(text, 10, 64); err != nil {
			return f, fmt.Errorf("before=%q: want the next of a page", text)
		}
	}
	return f, nil
}

// moment reads a time, or a duration that says how long ago.
func moment(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if ago, err := caddy.ParseDuration(text); err == nil && ago >= 0 {
		return now.Add(-ago), nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return t, errors.New("want a time like 2026-01-31T12:00:00Z, or how long ago, like 2h")
	}
	return t, nil
}

// pauseAnswer says what is paused.
type pauseAnswer struct {
	// Site is empty if all are meant.
	Site string `json:"site"`
	// Paused: there are no writes, until Until if that is set.
	Paused bool      `json:"paused"`
	Until  time.Time `json:"until,omitzero"`
	Why    string    `json:"why,omitempty"`
}

func pause(now *live, r *http.Request) (any, error) {
	q := r.URL.Query()
	a := pauseAnswer{Site: q.Get("site"), Paused: true, Why: q.Get("why")}
	if text := q.Get("for"); text != "" {
		d, err := caddy.ParseDuration(text)
		if err != nil || d <= 0 {
			return nil, apiError(http.StatusBadRequest, fmt.Errorf("for=%q: want a duration like 2h or 1d", text))
		}
		a.Until = time.Now().Add(d).UTC().Truncate(time.Second)
	}
	if err := now.Pause(a.Site, a.Until, a.Why); err != nil {
		return nil, onDisk(err)
	}
	return a, nil
}

func resume(now *live, r *http.Request) (any, error) {
	site := r.URL.Query().Get("site")
	if err := now.Resume(site); err != nil {
		return nil, onDisk(err)
	}
	return pauseAnswer{Site: site}, nil
}

// onDisk is for what never asks the provider.
func onDisk(err error) error {
	for _, known := range []error{watchdog.ErrNotFound, watchdog.ErrIdle, journal.ErrReadOnly} {
		if errors.Is(err, known) {
			return err
		}
	}
	return apiError(http.StatusInternalServerError, err)
}

// testAnswer says whom a test message goes to.
type testAnswer struct {
	Channels []string `json:"channels"`
}

func testNotice(now *live, _ *http.Request) (any, error) {
	st, err := now.Status()
	if err != nil {
		return nil, err
	}
	a := testAnswer{Channels: []string{}}
	for _, c := range st.Notices.Channels {
		a.Channels = append(a.Channels, c.Name)
	}
	if len(a.Channels) == 0 {
		return nil, apiError(http.StatusConflict, errors.New("there is no channel: set notify"))
	}
	if err := now.TestNotice(); err != nil {
		return nil, onDisk(err)
	}
	return a, nil
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
