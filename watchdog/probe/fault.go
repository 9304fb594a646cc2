package probe

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"syscall"
)

// fault is an error with its reason.
type fault struct {
	reason Reason
	detail string
}

func (f *fault) Error() string { return f.detail }

// ours are errors of our own machine: it has no descriptor, port or memory left, is
// not allowed to, or has no route. That a router far away calls a host unreachable
// is another one, EHOSTUNREACH.
var ours = []syscall.Errno{
	syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM,
	syscall.EADDRNOTAVAIL, syscall.EADDRINUSE, syscall.EAFNOSUPPORT, syscall.EPROTONOSUPPORT,
	syscall.ENETUNREACH, syscall.ENETDOWN, syscall.EPERM, syscall.EACCES, syscall.EINVAL, syscall.EAGAIN,
}

// classify says what an error of the network or of TLS means; phase is what was
// being done.
func classify(err error, phase string) *fault {
	if f, ok := errors.AsType[*fault](err); ok {
		return f
	}
	if c, ok := errors.AsType[*certificateError](err); ok {
		return &fault{BadCertificate, c.detail}
	}
	switch {
	case slices.ContainsFunc(ours, func(e syscall.Errno) bool { return errors.Is(err, e) }):
		return &fault{Local, "our own machine, " + phase + ": " + errno(err)}
	case timedOut(err): // after ours: EAGAIN calls itself a timeout
		return &fault{Timeout, "timed out " + phase}
	case errors.Is(err, syscall.ECONNREFUSED):
		return &fault{Refused, "connection refused"}
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.EHOSTDOWN):
		return &fault{Unreachable, "no route to the host"}
	case hungUp(err):
		return &fault{Reset, "the other side ended the connection " + phase}
	}
	if what := ofTLS(err); what != "" {
		return &fault{BadTLS, what + " " + phase}
	}
	return nil
}

func timedOut(err error) bool {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) {
		return true
	}
	ne, ok := errors.AsType[net.Error](err)
	return ok && ne.Timeout()
}

func hungUp(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.ErrClosedPipe) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNABORTED)
}

// errno is the system's own text, without the addresses around it.
func errno(err error) string {
	if e, ok := errors.AsType[syscall.Errno](err); ok {
		return e.Error()
	}
	return err.Error()
}

// ofTLS says what an error of crypto/tls is. Alerts of the other side come as the
// operation "remote error", and their type is not exported.
func ofTLS(err error) string {
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return "the answer is not TLS"
	}
	op, ok := errors.AsType[*net.OpError](err)
	if ok && (op.Op == "remote error" || op.Op == "local error") {
		return "TLS failed: " + op.Op + ": " + op.Err.Error()
	}
	return ""
}
