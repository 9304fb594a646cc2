package peer

import (
	"fmt"

	"github.com/edgeward/edgeward/watchdog/fallback/control"
)

// Code says what kind of error it is. Codes don't change.
type Code string

// The codes. Those of the first group are refusals: asking again won't help until
// something changes.
const (
	CodeBadRequest    Code = "bad_request"    // it can't be read
	CodeNoHome        Code = "no_home"        // the certificate is no home's
	CodeUnknownHome   Code = "unknown_home"   // of a home that is not configured here
	CodeUnknownAction Code = "unknown_action" // not on the list
	CodeTooLarge      Code = "too_large"      // a request with too many bytes
	CodeRefused       Code = "refused"        // by the service: the reason says why

	CodeFailed   Code = "failed"               // it was tried
	CodeDeadline Code = "deadline"             // it took too long
	CodeInternal Code = "internal"             // a fault of the program
	CodeBusy     Code = "too_many_connections" // from one address, or altogether
)

// Error is what another home answered instead of a result.
type Error struct {
	Code   Code   `json:"code"`
	Reason string `json:"reason"`
}

// Error implements error.
func (e *Error) Error() string { return fmt.Sprintf("%s (%s)", e.Reason, e.Code) }

// Is says that a refusal is [control.ErrRefused].
func (e *Error) Is(target error) bool { return target == control.ErrRefused && e.refusal() }

func (e *Error) refusal() bool {
	switch e.Code {
	case CodeBadRequest, CodeNoHome, CodeUnknownHome, CodeUnknownAction, CodeTooLarge, CodeRefused:
		return true
	}
	return false
}

func refuse(code Code, format string, args ...any) *Error {
	return &Error{code, fmt.Sprintf(format, args...)}
}

// status is the HTTP status of an error.
func (e *Error) status() int {
	switch e.Code {
	case CodeBadRequest:
		return 400
	case CodeNoHome, CodeUnknownHome:
		return 403
	case CodeUnknownAction:
		return 404
	case CodeRefused:
		return 409
	case CodeTooLarge:
		return 413
	case CodeBusy:
		return 503
	case CodeDeadline:
		return 504
	}
	return 500
}
