package peer

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"log"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/edgeward/edgeward/internal/homecert"
	"github.com/edgeward/edgeward/watchdog/fallback/control"
)

// Bounds of what others may do to the server.
const (
	headTime       = 10 * time.Second // handshake, and header of a request
	bodyTime       = 10 * time.Second
	idleTime       = 2 * time.Minute
	maxHeaderBytes = 16 << 10
	// drainTime is how long requests may go on once the server ends.
	drainTime = 2 * time.Second
)

// ServerConfig is what a Server needs.
type ServerConfig struct {
	// Self is this home.
	Self string
	// Homes says whether another home may ask. Usually: it is in the config.
	Homes   func(id string) bool
	Service control.Service
	TLS     Source
	// PerSource and Total are how many connections one address (IPv6: one /64) and all
	// together may have. Defaults: 16 and 128.
	PerSource, Total int
	// Refused is told of each refusal, for metrics. May be nil.
	Refused func(Code)
	Log     *slog.Logger
}

// Server lets other homes ask. Use NewServer.
type Server struct {
	c ServerConfig

	mu      sync.Mutex
	streams map[string]Handler
}

// NewServer returns a server that does not listen yet.
func NewServer(c ServerConfig) (*Server, error) {
	switch {
	case !validName(c.Self):
		return nil, errors.New("the server needs the id of its home")
	case c.Homes == nil, c.Service == nil, c.TLS == nil:
		return nil, errors.New("the server needs homes, a service and certificates")
	}
	c.PerSource, c.Total = cmp.Or(c.PerSource, 16), cmp.Or(c.Total, 128)
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return &Server{c: c, streams: map[string]Handler{}}, nil
}

// Run serves on ln, which it closes, until ctx ends, and returns when nobody is served
// any more. It returns nil then, and the listener's error otherwise.
func (s *Server) Run(ctx context.Context, ln net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	h := &handler{Server: s, ctx: ctx}
	server := &http.Server{
		Handler: h, ReadHeaderTimeout: headTime, IdleTimeout: idleTime, MaxHeaderBytes: maxHeaderBytes,
		ErrorLog:    log.New(&rare{log: s.c.Log, text: "a connection of a peer failed"}, "", 0),
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	var ending sync.WaitGroup
	ending.Go(func() {
		<-ctx.Done()
		patient, done := context.WithTimeout(context.WithoutCancel(ctx), drainTime)
		defer done()
		if server.Shutdown(patient) != nil {
			_ = server.Close()
		}
	})
	crowd := &rare{log: s.c.Log, text: "closed a connection: there are too many"}
	limited := newLimitListener(ln, s.c.PerSource, s.c.Total, func(source string) {
		s.count(CodeBusy)
		crowd.say("code", CodeBusy, "source", source)
	})
	err := server.Serve(tls.NewListener(limited, serverTLS(s.c.TLS)))
	ended := ctx.Err() != nil
	cancel()
	ending.Wait()
	h.close()
	if ended && errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// refused writes down that somebody did not get what they asked for.
func (s *Server) refused(e *Error, from, source, what string) {
	s.count(e.Code)
	s.c.Log.Warn("refused a peer", "code", e.Code, "reason", e.Reason, "from", from, "source", source, "asked", what)
}

func (s *Server) count(code Code) {
	if s.c.Refused != nil {
		s.c.Refused(code)
	}
}

// handler serves while one Run goes on.
type handler struct {
	*Server
	ctx context.Context // of Run

	door   sync.Mutex
	closed bool
	inside sync.WaitGroup // requests and streams; grows only with the door held, and open
}

// enter returns false if the server has ended.
func (h *handler) enter() bool {
	h.door.Lock()
	defer h.door.Unlock()
	if !h.closed {
		h.inside.Add(1)
	}
	return !h.closed
}

// close lets nobody in any more and waits until all are out.
func (h *handler) close() {
	h.door.Lock()
	h.closed = true
	h.door.Unlock()
	h.inside.Wait()
}

// ServeHTTP implements http.Handler.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !h.enter() {
		return
	}
	defer h.inside.Done()
	from, err := h.who(r)
	if err != nil {
		h.answer(w, r, from, nil, err)
		return
	}
	if name, ok := streamName(r); ok {
		h.serveStream(w, r, from, name)
		return
	}
	action, err := actionOf(r)
	if err != nil {
		h.answer(w, r, from, nil, err)
		return
	}
	rc := http.NewResponseController(w)
	_ = rc.SetReadDeadline(time.Now().Add(bodyTime))
	body, err := readRequest(r.Body)
	// What reads on is only there to notice that the asking home is gone.
	_ = rc.SetReadDeadline(time.Time{})
	var result any
	if err == nil {
		result, err = perform(r.Context(), h.c.Service, from, action, body)
	}
	_ = rc.SetWriteDeadline(time.Now().Add(bodyTime))
	h.answer(w, r, from, result, err)
}

// who returns the home that asks.
func (h *handler) who(r *http.Request) (string, error) {
	if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 {
		return "", refuse(CodeNoHome, "no certificate was shown")
	}
	from, err := homecert.Home(r.TLS.VerifiedChains[0][0], validName)
	if err != nil {
		return "", refuse(CodeNoHome, "%v", err)
	}
	if from == h.c.Self || !h.c.Homes(from) {
		return from, refuse(CodeUnknownHome, "home %s is none of the other homes in the config of %s", from, h.c.Self)
	}
	return from, nil
}

const actionPath = "/v1/"

// actionOf returns what is asked.
func actionOf(r *http.Request) (Action, error) {
	if r.Method != http.MethodPost || len(r.URL.Path) <= len(actionPath) || r.URL.Path[:len(actionPath)] != actionPath {
		return "", refuse(CodeUnknownAction, "there is nothing at %.10s %.100q", r.Method, r.URL.Path)
	}
	action := Action(r.URL.Path[len(actionPath):])
	if _, ok := rules[action]; !ok {
		return "", refuse(CodeUnknownAction, "there is no action %.100q", action)
	}
	return action, nil
}

func (h *handler) answer(w http.ResponseWriter, r *http.Request, from string, result any, err error) {
	text, e := encode(result, err)
	status := http.StatusOK
	if e != nil {
		status = e.status()
		h.tell(e, err, from, r)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(text)
}

// tell writes an error down: what was refused, and what went wrong.
func (h *handler) tell(e *Error, err error, from string, r *http.Request) {
	if e.refusal() {
		h.refused(e, from, r.RemoteAddr, r.URL.Path)
		return
	}
	h.c.Log.Warn("could not do what a peer asked", "code", e.Code, "error", err, "from", from, "asked", r.URL.Path)
}
