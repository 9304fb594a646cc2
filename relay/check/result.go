package check

import (
	"context"
	"errors"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/edgeward/edgeward/relay/health"
)

// Result is what one check found.
type Result struct {
	OK bool
	// Unknown says that the check tells nothing of the target: it was cancelled,
	// or failed for want of something on our own side. OK is false then.
	Unknown bool
	// Level is the deepest level that worked. Zero: not even TCP connected.
	Level health.Level
	// Firm marks a refusal, a reset, a wrong answer or a bad certificate, as
	// opposed to a timeout.
	Firm bool
	Err  error
	// Detail is one phrase for people, with the setting to change if one would help.
	Detail string
	// Latency is the time to the finding; closing politely is not part of it.
	Latency time.Duration
	// CertExpiry, CertSubject and CertNames describe the certificate shown, also
	// one that was refused. Zero if none was seen.
	CertExpiry  time.Time
	CertSubject string
	CertNames   []string
	// Status is the HTTP status. Zero if none was seen.
	Status int
}

// Evidence turns the result into what package health takes in: good at the
// level reached, or bad at the one above it.
func (r Result) Evidence() health.Evidence {
	e := health.Evidence{Source: health.Check, Detail: r.Detail}
	switch {
	case r.OK:
		e.Value, e.Level = health.Good, r.Level
	case !r.Unknown:
		e.Value, e.Level, e.Firm = health.Bad, min(r.Level+1, health.Content), r.Firm
		if !r.Firm {
			e.Span = r.Latency
		}
	}
	return e
}

// fail notes an error. Detail defaults to the error's text.
func (r *Result) fail(err error, detail string) {
	r.Err, r.Detail = err, detail
	if detail == "" {
		r.Detail = plain(err)
	}
	r.Unknown = ours(err)
	r.Firm = !r.Unknown && !timedOut(err)
}

// plain says the usual errors in words.
func plain(err error) string {
	switch {
	case timedOut(err):
		return "timed out"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused"
	case hungUp(err):
		return "connection closed by the other side"
	}
	return err.Error()
}

// hungUp reports whether the other side closed or reset the connection.
func hungUp(err error) bool {
	return isEOF(err) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

func timedOut(err error) bool {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) {
		return true
	}
	ne, ok := errors.AsType[net.Error](err)
	return ok && ne.Timeout()
}

// ours reports whether an error is of our own making: it says nothing of the
// other side. No route from here is one; a host that its router calls
// unreachable is not.
func ours(err error) bool {
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		return true
	}
	for _, e := range []syscall.Errno{
		syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM,
		syscall.EADDRNOTAVAIL, syscall.ENETUNREACH, syscall.ENETDOWN, syscall.EPERM, syscall.EACCES,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return errors.Is(err, context.Canceled)
}
