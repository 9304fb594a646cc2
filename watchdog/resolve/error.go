package resolve

import (
	"context"
	"errors"
	"net"
	"os"
)

// Kind is why a lookup gave no address.
type Kind string

// The kinds. The first two are answers; after the others nothing is known.
const (
	NoName    Kind = "no_name"    // NXDOMAIN
	NoAddress Kind = "no_address" // the name is there and has no address of this family
	Refused   Kind = "refused"    // an answer that may not be used: an address that is not public
	Failed    Kind = "failed"     // no answer, or none that can be read
	Timeout   Kind = "timeout"    // no answer in time
	Cancelled Kind = "cancelled"  // the caller gave up
)

// Error is why a lookup gave no address.
type Error struct {
	Kind     Kind
	Resolver string // its display name; empty if it speaks for a whole Set
	Err      error
}

// Error says which resolver, and what went wrong.
func (e *Error) Error() string {
	if e.Resolver == "" {
		return e.Err.Error()
	}
	return "asking " + e.Resolver + ": " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Answered reports whether an error is an answer: the resolver was reached, could
// prove who it is, and says that there is no such name or no such address. All
// other errors leave it unknown.
func Answered(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && (e.Kind == NoName || e.Kind == NoAddress)
}

// kindOf is the kind of an error of the network, of TLS or of HTTP.
func kindOf(ctx context.Context, err error) Kind {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Kind
	}
	if errors.Is(ctx.Err(), context.Canceled) && !errors.Is(context.Cause(ctx), errLate) {
		return Cancelled
	}
	ne, ok := errors.AsType[net.Error](err)
	if ctx.Err() != nil || errors.Is(err, os.ErrDeadlineExceeded) || ok && ne.Timeout() {
		return Timeout
	}
	return Failed
}
