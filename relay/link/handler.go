package link

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"path"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/edgeward/edgeward/relay/limit"
)

// Handler serves agents. It goes by the last part of the path, so it works below
// any prefix, stripped or not. Use NewHandler.
type Handler struct {
	// Log takes faults of the relay. Default: nowhere. Set it before use.
	Log *slog.Logger
	// Source tells who asks, for the limit on tries at pairing, where a trusted
	// proxy stands before the relay. Default: who has connected. Set it before use.
	Source func(*http.Request) netip.Addr

	relay Relay
	begun time.Time
	tries *limit.Table
	over  context.Context // ends polls
	end   context.CancelFunc

	mu    sync.Mutex
	polls map[string]int // by gateway
}

const (
	// pairTries in pairWindow are allowed from one source.
	pairTries  = 10
	pairWindow = 5 * time.Minute
	// maxPolls of one gateway may wait at once: one that is in use, and those of
	// connections that broke without a word.
	maxPolls = 16
	// grace is what an answer may take besides the waiting.
	grace = 30 * time.Second
	// worthZipping is the size from which compressing a table pays. Uncalibrated.
	worthZipping = 4 << 10
)

// NewHandler serves what relay can do.
func NewHandler(relay Relay) *Handler {
	tries, err := limit.New(limit.Settings{Rate: pairTries / pairWindow.Seconds(), Burst: pairTries, Table: 4096})
	if err != nil {
		panic(err) // constants
	}
	h := &Handler{
		Log: slog.New(slog.DiscardHandler), Source: peer,
		relay: relay, begun: time.Now(), tries: tries, polls: map[string]int{},
	}
	h.over, h.end = context.WithCancel(context.Background())
	return h
}

// Close ends the requests that wait for a table: they are answered at once, with
// what there is. Call it when the server is about to shut down.
func (h *Handler) Close() { h.end() }

// peer is who has connected.
func peer(r *http.Request) netip.Addr {
	ap, _ := netip.ParseAddrPort(r.RemoteAddr)
	return ap.Addr().Unmap()
}

// endpoint is one thing that an agent can ask for.
type endpoint struct {
	method string
	open   bool // without a token
	serve  func(h *Handler, w http.ResponseWriter, r *http.Request, gateway string) error
}

var endpoints = map[string]endpoint{
	"pair":      {http.MethodPost, true, (*Handler).pair},
	"heartbeat": {http.MethodPost, false, (*Handler).heartbeat},
	"table":     {http.MethodGet, false, (*Handler).table},
	"applied":   {http.MethodPost, false, (*Handler).applied},
	"rotate":    {http.MethodPost, false, (*Handler).rotate},
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name := path.Base(r.URL.Path)
	defer h.contain(w, name)
	err := h.serve(w, r, name)
	if err == nil {
		return
	}
	p, ours := toProblem(err)
	if ours && r.Context().Err() == nil {
		h.Log.Error("answering an agent", "request", name, "error", err)
	}
	p.write(w)
}

// contain keeps a fault in one request from ending the process.
func (h *Handler) contain(w http.ResponseWriter, name string) {
	fault := recover()
	if fault == nil {
		return
	}
	if fault == http.ErrAbortHandler {
		panic(fault)
	}
	h.Log.Error("a fault in answering an agent", "request", name, "fault", fault, "stack", string(debug.Stack()))
	p, _ := toProblem(errors.New("fault"))
	p.write(w)
}

func (h *Handler) serve(w http.ResponseWriter, r *http.Request, name string) error {
	e, found := endpoints[name]
	if !found {
		return newProblem(http.StatusNotFound, "not_found", "want pair, heartbeat, table, applied or rotate")
	}
	if r.Method != e.method {
		w.Header().Set("Allow", e.method)
		return newProblem(http.StatusMethodNotAllowed, "method_not_allowed", "want %s", e.method)
	}
	if e.open {
		return e.serve(h, w, r, "")
	}
	// Nothing is read from somebody whom nobody knows.
	gateway, err := h.authenticate(r)
	if err != nil {
		return err
	}
	return e.serve(h, w, r, gateway)
}

func (h *Handler) authenticate(r *http.Request) (gateway string, err error) {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	token = strings.TrimSpace(token)
	if !strings.EqualFold(scheme, "Bearer") || token == "" {
		return "", fmt.Errorf("%w: want Authorization: Bearer <token>", ErrNoToken)
	}
	return h.relay.Authenticate(token)
}

func (h *Handler) pair(w http.ResponseWriter, r *http.Request, _ string) error {
	from := h.Source(r)
	if err := h.try(from); err != nil {
		return err
	}
	var req PairRequest
	if err := read(w, r, MaxPairBody, &req); err != nil {
		return err
	}
	if req.Code == "" {
		return fmt.Errorf("%w: code is missing", ErrNoToken)
	}
	code := NormalizeCode(req.Code)
	if code == "" {
		return fmt.Errorf("%w: that is no pairing code: want XXXX-XXXX-XXXX-XXXX", ErrForbidden)
	}
	answer, err := h.relay.Pair(r.Context(), code, from)
	if err != nil {
		return err
	}
	return write(w, answer)
}

// try counts a try at pairing.
func (h *Handler) try(from netip.Addr) error {
	lease, why := h.tries.Acquire(from, int64(time.Since(h.begun)))
	lease.Release()
	if why == limit.OK {
		return nil
	}
	p := newProblem(http.StatusTooManyRequests, "too_many_tries", "at most %d tries at pairing in %s: wait, and ask for a new code", pairTries, pairWindow)
	p.retry = pairWindow / pairTries
	return p
}

func (h *Handler) heartbeat(w http.ResponseWriter, r *http.Request, gateway string) error {
	var hb Heartbeat
	if err := read(w, r, MaxBody, &hb); err != nil {
		return err
	}
	if err := hb.check(); err != nil {
		return err
	}
	answer, err := h.relay.Heartbeat(r.Context(), gateway, hb)
	if err != nil {
		return err
	}
	return write(w, answer)
}

func (h *Handler) applied(w http.ResponseWriter, r *http.Request, gateway string) error {
	var a Applied
	if err := read(w, r, MaxBody, &a); err != nil {
		return err
	}
	if err := a.check(); err != nil {
		return err
	}
	if err := h.relay.Applied(r.Context(), gateway, a); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (h *Handler) rotate(w http.ResponseWriter, r *http.Request, gateway string) error {
	answer, err := h.relay.Rotate(r.Context(), gateway)
	if err != nil {
		return err
	}
	return write(w, answer)
}

func (h *Handler) table(w http.ResponseWriter, r *http.Request, gateway string) error {
	hash, wait, err := tableQuery(r)
	if err != nil {
		return err
	}
	if !h.beginPoll(gateway) {
		return fmt.Errorf("%w: %d requests of this gateway wait for a table", ErrBusy, maxPolls)
	}
	defer h.endPoll(gateway)
	// The server's own timeout is for answers that do not wait. What cannot be set
	// has none.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(wait + grace))
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(h.over, cancel)()
	t, err := h.relay.Table(ctx, gateway, hash, wait)
	if err != nil && ctx.Err() != nil && r.Context().Err() == nil {
		t, err = nil, nil // the server is about to stop: nothing new
	}
	if err != nil {
		return err
	}
	if t == nil || t.Hash == hash {
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	// The token may have been revoked in the meantime.
	if again, err := h.authenticate(r); err != nil || again != gateway {
		return errors.Join(ErrForbidden, err)
	}
	return writeTable(w, r, t)
}

func tableQuery(r *http.Request) (hash string, wait time.Duration, err error) {
	q := r.URL.Query()
	if hash = q.Get("hash"); len(hash) > maxHash {
		return "", 0, badField("hash", "is longer than %d bytes", maxHash)
	}
	if text := q.Get("wait"); text != "" {
		n, err := strconv.ParseUint(text, 10, 31)
		if err != nil {
			return "", 0, badField("wait", "want whole seconds")
		}
		wait = min(time.Duration(n)*time.Second, LongestWait)
	}
	return hash, wait, nil
}

func (h *Handler) beginPoll(gateway string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.polls[gateway] >= maxPolls {
		return false
	}
	h.polls[gateway]++
	return true
}

func (h *Handler) endPoll(gateway string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.polls[gateway]--; h.polls[gateway] <= 0 {
		delete(h.polls, gateway)
	}
}

func write(w http.ResponseWriter, v any) error {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_ = json.NewEncoder(w).Encode(v) // the other side has gone, then
	return nil
}

func writeTable(w http.ResponseWriter, r *http.Request, t *Table) error {
	text, err := json.Marshal(t)
	if err != nil {
		return fmt.Errorf("writing the table: %w", err)
	}
	head := w.Header()
	head.Set("Content-Type", "application/json")
	head.Set("Cache-Control", "no-store")
	head.Set("Vary", "Accept-Encoding")
	if len(text) < worthZipping || !acceptsGzip(r) {
		_, _ = w.Write(text)
		return nil
	}
	head.Set("Content-Encoding", "gzip")
	zip := gzip.NewWriter(w)
	_, _ = zip.Write(text)
	_ = zip.Close()
	return nil
}

// acceptsGzip is as much of RFC 9110, section 12.5.3, as matters here.
func acceptsGzip(r *http.Request) bool {
	for coding := range strings.SplitSeq(strings.Join(r.Header.Values("Accept-Encoding"), ","), ",") {
		name, params, _ := strings.Cut(coding, ";")
		if !strings.EqualFold(strings.TrimSpace(name), "gzip") {
			continue
		}
		text, weighed := strings.CutPrefix(strings.TrimSpace(params), "q=")
		weight, err := strconv.ParseFloat(text, 64)
		return !weighed || err == nil && weight > 0
	}
	return false
}

// Interface guard.
var _ http.Handler = (*Handler)(nil)
