package link

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// problem is an answer that is an error: RFC 9457, with a stable code and the field
// that is wrong.
type problem struct {
	Title  string `json:"title"`
	Status int    `json:"status"`
	Code   string `json:"code"`
	Detail string `json:"detail,omitzero"`
	Field  string `json:"field,omitzero"`

	retry time.Duration // when to try again
}

// Error implements error.
func (p *problem) Error() string { return p.Code + ": " + p.Detail }

func newProblem(status int, code, format string, args ...any) *problem {
	return &problem{Title: http.StatusText(status), Status: status, Code: code, Detail: fmt.Sprintf(format, args...)}
}

func (p *problem) write(w http.ResponseWriter) {
	h := w.Header()
	switch p.Status {
	case http.StatusUnauthorized:
		h.Set("WWW-Authenticate", "Bearer")
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		h.Set("Retry-After", strconv.Itoa(max(1, int(p.retry/time.Second))))
	}
	h.Set("Content-Type", "application/problem+json")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p)
}

// known are the errors of a Relay that are told to the agent.
var known = []struct {
	err    error
	status int
	code   string
}{
	{ErrNoToken, http.StatusUnauthorized, "no_token"},
	{ErrForbidden, http.StatusForbidden, "forbidden"},
	{ErrTooMany, http.StatusTooManyRequests, "too_many_tries"},
	{ErrBusy, http.StatusServiceUnavailable, "busy"},
}

// toProblem returns what to answer, and whether it is worth a line in the log.
func toProblem(err error) (p *problem, ours bool) {
	if p, ok := errors.AsType[*problem](err); ok {
		return p, false
	}
	for _, k := range known {
		if errors.Is(err, k.err) {
			return newProblem(k.status, k.code, "%s", err), false
		}
	}
	return newProblem(http.StatusInternalServerError, "internal", "the relay's log has the reason"), true
}
