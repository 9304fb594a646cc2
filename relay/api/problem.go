package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/edgeward/edgeward/relay/catalog"
	"github.com/edgeward/edgeward/relay/fleet"
	"github.com/edgeward/edgeward/relay/monitor"
	"github.com/edgeward/edgeward/relay/store"
)

// Codes of refusals that are about the request, not about what is configured;
// those are in relay/catalog.
const (
	actionUnknown      catalog.Code = "action_unknown"
	bodyInvalid        catalog.Code = "body_invalid"
	bodyRequired       catalog.Code = "body_required"
	bodyTooLarge       catalog.Code = "body_too_large"
	conflict           catalog.Code = "conflict"
	crossSite          catalog.Code = "cross_site"
	fieldDuplicate     catalog.Code = "field_duplicate"
	fieldInvalid       catalog.Code = "field_invalid"
	fieldUnknown       catalog.Code = "field_unknown"
	internalError      catalog.Code = "internal_error"
	invalidExpiry      catalog.Code = "invalid_expiry"
	invalidPhase       catalog.Code = "invalid_phase"
	invalidScope       catalog.Code = "invalid_scope"
	invalidTTL         catalog.Code = "invalid_ttl"
	mediaType          catalog.Code = "media_type_unsupported"
	noDatabase         catalog.Code = "database_unavailable"
	methodNotAllowed   catalog.Code = "method_not_allowed"
	notFound           catalog.Code = "not_found"
	notRunning         catalog.Code = "not_running"
	parameterInvalid   catalog.Code = "parameter_invalid"
	pathNotFound       catalog.Code = "path_not_found"
	preconditionFailed catalog.Code = "precondition_failed"
	preconditionNeeded catalog.Code = "precondition_required"
	scopeInsufficient  catalog.Code = "scope_insufficient"
	timedOut           catalog.Code = "timed_out"
	tokenInvalid       catalog.Code = "token_invalid"
	tokenNotFound      catalog.Code = "token_not_found"
	tokenRequired      catalog.Code = "token_required"
	tooManyFailures    catalog.Code = "too_many_failures"
	tooManyWaiting     catalog.Code = "too_many_waiting"
)

// Problem is the body of every error, by RFC 9457. Type is always about:blank:
// Code tells problems apart, and is stable.
type Problem struct {
	Type   string       `json:"type"`
	Title  string       `json:"title"`
	Status int          `json:"status"`
	Detail string       `json:"detail"`
	Code   catalog.Code `json:"code"`
	// Field is the setting to change, like "members[1].gateway".
	Field string `json:"field,omitzero"`
	// Counts says how many of what stand in the way.
	Counts map[string]int `json:"counts,omitempty"`
	// Suggest is a free port.
	Suggest int `json:"suggest,omitzero"`
	// Message is Detail, under the name that Caddy's commands read.
	Message string `json:"error"`

	header map[string]string
}

func problem(status int, code catalog.Code, format string, args ...any) *Problem {
	detail := fmt.Sprintf(format, args...)
	return &Problem{
		Type: "about:blank", Title: http.StatusText(status), Status: status, Detail: detail, Code: code, Message: detail,
	}
}

func internal() *Problem {
	return problem(http.StatusInternalServerError, internalError, "something is wrong inside: see the log")
}

// Error implements error.
func (p *Problem) Error() string { return string(p.Code) + ": " + p.Detail }

// at names the field that is wrong.
func (p *Problem) at(field string) *Problem {
	p.Field = field
	return p
}

// with adds a header to the answer.
func (p *Problem) with(name, value string) *Problem {
	if p.header == nil {
		p.header = map[string]string{}
	}
	p.header[name] = value
	return p
}

func (p *Problem) write(w http.ResponseWriter) {
	body, err := json.Marshal(p)
	if err != nil {
		panic(err) // plain strings and numbers
	}
	head := w.Header()
	head.Del("ETag")
	head.Set("Content-Type", "application/problem+json")
	for name, value := range p.header {
		head.Set(name, value)
	}
	w.WriteHeader(p.Status)
	_, _ = w.Write(append(body, '\n'))
}

var classStatus = map[catalog.Class]int{
	catalog.Invalid: http.StatusBadRequest, catalog.NotFound: http.StatusNotFound, catalog.Conflict: http.StatusConflict,
}

// asProblem gives an error its status and code, or returns nil for one that is
// not the client's business.
func asProblem(err error) *Problem {
	if p, ok := errors.AsType[*Problem](err); ok {
		return p
	}
	if e, ok := errors.AsType[*catalog.Error](err); ok {
		p := problem(classStatus[e.Class], e.Code, "%s", e.Detail)
		p.Field, p.Counts, p.Suggest = e.Field, e.Counts, e.Suggest
		return p
	}
	switch {
	case errors.Is(err, monitor.ErrNotFound):
		return problem(http.StatusNotFound, notFound, "%s", err)
	case errors.Is(err, store.ErrNotFound): // its text names the file
		return problem(http.StatusNotFound, notFound, "not found")
	case errors.Is(err, store.ErrStale):
		return problem(http.StatusConflict, conflict, "something else was changed at the same time: try again")
	case errors.Is(err, fleet.ErrIdle):
		return problem(http.StatusServiceUnavailable, notRunning, "no edge app is running").with("Retry-After", "1")
	case errors.Is(err, fleet.ErrNoStore): // why, is in the log: it names the file
		return problem(http.StatusServiceUnavailable, noDatabase, "the database is not available: nothing can be changed here until it is, see the log")
	case errors.Is(err, monitor.ErrConflict):
		return problem(http.StatusConflict, conflict, "%s", err)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return problem(http.StatusServiceUnavailable, timedOut, "it took too long: whether it was done is not known")
	}
	return nil
}

// coded gives a problem of the layers below a more telling code.
func coded(err error, missing catalog.Code) error {
	p := asProblem(err)
	if p != nil && p.Code == notFound {
		p.Code = missing
		return p
	}
	return err
}
