package fakecloudflare

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// prefix is the path of the API's version.
const prefix = "/client/v4"

// maxBody is how much of a request is read.
const maxBody = 8 << 20

// Call is a kind of request.
type Call string

// The calls.
const (
	ListZones    Call = "list zones"
	GetZone      Call = "get zone"
	ListRecords  Call = "list records"
	GetRecord    Call = "get record"
	CreateRecord Call = "create record"
	PatchRecord  Call = "patch record"
	PutRecord    Call = "put record"
	DeleteRecord Call = "delete record"
	Batch        Call = "batch"
	VerifyToken  Call = "verify token"
	ListIPs      Call = "list ips"
	// Other is what the API has no route for.
	Other Call = "other"
)

// Writes reports whether the call changes records.
func (c Call) Writes() bool {
	switch c {
	case CreateRecord, PatchRecord, PutRecord, DeleteRecord, Batch:
		return true
	}
	return false
}

// Request is one that reached the API.
type Request struct {
	At     time.Time
	Call   Call
	Method string
	Path   string
	Query  url.Values
	Body   []byte

	token string // in its header
}

// Stage of a request that the hook sees.
type Stage string

// The stages. A request that a fault or a rule refuses has no After.
const (
	Before Stage = "before commit"
	After  Stage = "after commit"
)

// OnRequest sets a function that is called for each request, before it takes
// effect and once it has, before the reply is sent. It may call the Server, and it
// may wait: the request waits with it. Nil removes it.
func (s *Server) OnRequest(hook func(Request, Stage)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hook = hook
}

// Requests returns the log, oldest first.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Request(nil), s.log...)
}

// Count returns how many requests of these kinds there were since the start or
// ResetLog; without kinds, of all.
func (s *Server) Count(calls ...Call) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for call, count := range s.counts {
		if len(calls) == 0 {
			n += count
		}
		for _, c := range calls {
			if c == call {
				n += count
			}
		}
	}
	return n
}

// ResetLog forgets the requests so far.
func (s *Server) ResetLog() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log = nil
	clear(s.counts)
}

func (s *Server) note(r Request) func(Request, Stage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.log) >= s.cfg.LogLimit {
		s.log = append(s.log[:0], s.log[len(s.log)-s.cfg.LogLimit/2:]...)
	}
	s.log = append(s.log, r)
	s.counts[r.Call]++
	if s.hook == nil {
		return func(Request, Stage) {}
	}
	return s.hook
}

// reply is an answer, or the lack of one.
type reply struct {
	status int
	header http.Header
	body   []byte
	broken bool // no answer: the connection breaks
}

// envelope is the form of all answers.
type envelope struct {
	Success    bool        `json:"success"`
	Errors     []any       `json:"errors"`
	Messages   []any       `json:"messages"`
	Result     any         `json:"result"`
	ResultInfo *resultInfo `json:"result_info,omitempty"`
}

type resultInfo struct {
	Page       int `json:"page"`
	PerPage    int `json:"per_page"`
	Count      int `json:"count"`
	TotalCount int `json:"total_count"`
	TotalPages int `json:"total_pages"`
}

// apiError is a refusal in the form of the API.
type apiError struct {
	status  int
	code    int
	message string
	chain   []apiError
}

// Error returns code and message.
func (e *apiError) Error() string { return fmt.Sprintf("%s (code %d)", e.message, e.code) }

// chained is how the API wraps what its validation finds.
func chained(code int, message string) error {
	return &apiError{status: 400, code: 1004, message: "DNS Validation Error", chain: []apiError{{code: code, message: message}}}
}

func (e *apiError) json() map[string]any {
	m := map[string]any{"code": e.code, "message": e.message}
	if len(e.chain) > 0 {
		var chain []any
		for _, inner := range e.chain {
			chain = append(chain, inner.json())
		}
		m["error_chain"] = chain
	}
	return m
}

func refusal(err error) reply {
	refused, ok := errors.AsType[*apiError](err)
	if !ok {
		refused = &apiError{status: 500, code: 10001, message: "Internal error"}
	}
	return answer(refused.status, envelope{Errors: []any{refused.json()}})
}

func answer(status int, e envelope) reply {
	if e.Errors == nil {
		e.Errors = []any{}
	}
	e.Messages = []any{}
	body, err := json.Marshal(e)
	if err != nil {
		body, status = []byte("{}"), 500
	}
	return reply{status: status, body: body, header: http.Header{
		"Content-Type": {"application/json"}, "Server": {"cloudflare"}, "Cf-Cache-Status": {"DYNAMIC"},
	}}
}

func done(result any) reply { return answer(200, envelope{Success: true, Result: result}) }

// Handler returns the API.
func (s *Server) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.handle(r.Context(), r).write(w) })
}

// Transport returns the API as a RoundTripper that opens no sockets. It takes
// requests for any host.
func (s *Server) Transport() http.RoundTripper {
	return roundTripper(s.handle)
}

// handle answers one request.
func (s *Server) handle(ctx context.Context, r *http.Request) reply {
	req, route := s.parse(r)
	hook := s.note(req)
	f := s.fault(req.Call)
	if !f.before(ctx, s) {
		return reply{broken: true}
	}
	if re, refused := f.refuse(); refused {
		return s.dress(re)
	}
	if re, refused := s.admit(req, r); refused {
		return s.dress(re)
	}
	hook(req, Before)
	re := s.commit(req, route, f)
	if re.status < 400 {
		hook(req, After)
	}
	if !f.after(ctx, s) {
		return reply{broken: true}
	}
	return s.dress(f.spoil(re))
}

// dress adds what all answers carry.
func (s *Server) dress(re reply) reply {
	if re.broken || re.header == nil {
		return re
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	re.header.Set("Cf-Ray", s.ray())
	if s.cfg.Limit > 0 {
		left, reset := s.meter.left(s.cfg)
		re.header.Set("Ratelimit", fmt.Sprintf(`"default";r=%d;t=%d`, left, reset))
		re.header.Set("Ratelimit-Policy", fmt.Sprintf(`"default";q=%d;w=%d`, s.cfg.Limit, int(s.cfg.Window.Seconds())))
	}
	return re
}

// ray is the next value of CF-Ray.
func (s *Server) ray() string {
	s.rays++
	return fmt.Sprintf("%016x-FRA", s.rays*0x9e3779b97f4a7c15)
}

// route is where a request goes.
type route struct {
	zone, record string
}

func (s *Server) parse(r *http.Request) (Request, route) {
	req := Request{At: time.Now(), Call: Other, Method: r.Method, Path: r.URL.Path, Query: r.URL.Query()}
	req.token, _ = strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if r.Body != nil {
		req.Body, _ = io.ReadAll(io.LimitReader(r.Body, maxBody))
		_ = r.Body.Close()
	}
	path, ok := strings.CutPrefix(r.URL.Path, prefix+"/")
	if !ok {
		return req, route{}
	}
	parts := strings.Split(strings.TrimSuffix(path, "/"), "/")
	var to route
	shape := make([]string, len(parts))
	for i, p := range parts {
		switch {
		case i == 1 && parts[0] == "zones":
			to.zone, shape[i] = p, "Z"
		case i == 3 && parts[0] == "zones" && p != "batch":
			to.record, shape[i] = p, "R"
		default:
			shape[i] = p
		}
	}
	if call, ok := routes[r.Method+" "+strings.Join(shape, "/")]; ok {
		req.Call = call
	}
	return req, to
}

var routes = map[string]Call{
	"GET zones":                      ListZones,
	"GET zones/Z":                    GetZone,
	"GET zones/Z/dns_records":        ListRecords,
	"POST zones/Z/dns_records":       CreateRecord,
	"POST zones/Z/dns_records/batch": Batch,
	"GET zones/Z/dns_records/R":      GetRecord,
	"PATCH zones/Z/dns_records/R":    PatchRecord,
	"PUT zones/Z/dns_records/R":      PutRecord,
	"DELETE zones/Z/dns_records/R":   DeleteRecord,
	"GET user/tokens/verify":         VerifyToken,
	"GET ips":                        ListIPs,
}

// admit checks the rate and the token.
func (s *Server) admit(req Request, r *http.Request) (reply, bool) {
	if req.Call == ListIPs {
		return reply{}, false // needs no token
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if wait, ok := s.meter.take(s.cfg); !ok {
		return tooMany(strconv.Itoa(int(math.Ceil(wait.Seconds())))), true
	}
	if err := s.authorise(req, r.Header.Get("Authorization")); err != nil {
		return refusal(err), true
	}
	return reply{}, false
}

func tooMany(retryAfter string) reply {
	re := refusal(&apiError{status: 429, code: 10100, message: "More than 1200 requests per 300 seconds reached. Please wait and consider throttling your request speed"})
	if retryAfter != "" {
		re.header.Set("Retry-After", retryAfter)
	}
	return re
}

// meter counts requests in windows.
type meter struct {
	start   time.Time
	used    int
	blocked time.Time
}

func (m *meter) take(c Config) (wait time.Duration, ok bool) {
	if c.Limit < 0 {
		return 0, true
	}
	now := time.Now()
	if now.Before(m.blocked) {
		return m.blocked.Sub(now), false
	}
	if now.Sub(m.start) >= c.Window {
		m.start, m.used = now, 0
	}
	if m.used >= c.Limit {
		m.blocked, m.start, m.used = now.Add(c.Window), time.Time{}, 0
		return c.Window, false
	}
	m.used++
	return 0, true
}

// left returns how many requests remain, and after how many seconds more will.
func (m *meter) left(c Config) (n, seconds int) {
	now := time.Now()
	if now.Before(m.blocked) {
		return 0, int(math.Ceil(m.blocked.Sub(now).Seconds()))
	}
	return c.Limit - m.used, int(math.Ceil(max(0, c.Window-now.Sub(m.start)).Seconds()))
}
