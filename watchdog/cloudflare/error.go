package cloudflare

import (
	"fmt"
	"strings"
	"time"
)

// Kind of an Error: what to think of it.
type Kind string

// The kinds.
const (
	// KindAuth: the token is wrong, expired or disabled.
	KindAuth Kind = "auth"
	// KindForbidden: the token lacks a permission, or the zone is not its own.
	KindForbidden Kind = "forbidden"
	// KindNotFound: there is no such zone or record.
	KindNotFound Kind = "not_found"
	// KindConflict: other records are in the way.
	KindConflict Kind = "conflict"
	// KindInvalid: the provider takes the request for wrong, or this package does
	// and has not sent it.
	KindInvalid Kind = "invalid"
	// KindRateLimited: the provider's limit is reached.
	KindRateLimited Kind = "rate_limited"
	// KindRefused: "success": false, for a reason that is none of the others.
	KindRefused Kind = "refused"
	// KindServer: the provider says that it is broken.
	KindServer Kind = "server"
	// KindNetwork: no connection, so that nothing was asked.
	KindNetwork Kind = "network"
	// KindTimeout: no answer in time, or the context ended.
	KindTimeout Kind = "timeout"
	// KindMalformed: the reply makes no sense.
	KindMalformed Kind = "malformed"
	// KindAmbiguous: a write may have taken effect. Error.Cause says why that is
	// not known.
	KindAmbiguous Kind = "ambiguous"
	// KindHeld: nothing was sent, because of the backoff or the budget. Error.Until
	// says for how long.
	KindHeld Kind = "held"
)

// flat reports whether a repetition cannot help.
func (k Kind) flat() bool {
	switch k {
	case KindAuth, KindForbidden, KindNotFound, KindConflict, KindInvalid:
		return true
	}
	return false
}

// Error is any failure of a Client. It never holds the token, nor any text that
// the provider sent: what is said about a code is our own wording.
type Error struct {
	Kind Kind
	// What was to be done, as "listing records".
	Op string
	// Of KindAmbiguous: what kind it would be, were it not a write.
	Cause Kind
	// The HTTP status; 0 without a reply.
	Status int
	// The provider's codes, those of a chain included.
	Codes []int
	// More about it, and the setting to change.
	Detail string
	// What the provider asked for, capped.
	RetryAfter time.Duration
	// Until when the Client will not send such a request.
	Until time.Time
	// The cause, of KindNetwork and KindTimeout.
	Err error

	unsent bool // it cannot have reached anybody
}

// Error implements error.
func (e *Error) Error() string {
	var b strings.Builder
	if e.Kind == KindAmbiguous {
		fmt.Fprintf(&b, "could not confirm %s: %s", e.Op, e.Cause)
	} else {
		fmt.Fprintf(&b, "%s: %s", e.Op, e.Kind)
	}
	if e.Status != 0 {
		fmt.Fprintf(&b, ", HTTP %d", e.Status)
	}
	for _, code := range e.Codes {
		fmt.Fprintf(&b, ", code %d", code)
		if text := meanings[code].text; text != "" {
			fmt.Fprintf(&b, " (%s)", text)
		}
	}
	if e.Detail != "" {
		b.WriteString(": " + e.Detail)
	}
	if !e.Until.IsZero() {
		fmt.Fprintf(&b, "; not asking again before %s", e.Until.UTC().Format(time.RFC3339))
	}
	if e.Err != nil {
		fmt.Fprintf(&b, ": %v", e.Err)
	}
	return b.String()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// OfRequest reports whether it is what was asked for that is refused, and not who
// asks: another change might be taken.
func (e *Error) OfRequest() bool {
	return e.Kind == KindConflict || e.Kind == KindInvalid || e.Kind == KindRefused
}

// Permanent reports whether the same request will fail again until somebody
// changes something.
func (e *Error) Permanent() bool { return e.Kind.flat() }
