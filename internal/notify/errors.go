package notify

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"syscall"
	"time"
)

// PermanentError says that sending the same again would not help.
type PermanentError struct {
	// Reason holds no secret.
	Reason string
	// Channel: the other side refuses the channel (a wrong token, a webhook that was
	// deleted), not this message. Settings must change; the message is kept.
	Channel bool
}

// Error implements error.
func (e *PermanentError) Error() string {
	if e.Channel {
		return "refused for good, check the URL of the channel: " + e.Reason
	}
	return "message refused for good: " + e.Reason
}

// RetryError says that the other side wants to be left alone for a time.
type RetryError struct {
	After  time.Duration
	Reason string
}

// Error implements error.
func (e *RetryError) Error() string {
	return fmt.Sprintf("%s: asked to wait for %s", e.Reason, e.After.Round(time.Second))
}

// plain says an error in words that hold no URL, no reply and no address but those
// of our own resolver: what is not known here is named by its type only.
func plain(err error) string {
	if ue, ok := errors.AsType[*url.Error](err); ok {
		err = ue.Err
	}
	ne, isNet := errors.AsType[net.Error](err)
	_, isDNS := errors.AsType[*net.DNSError](err)
	switch {
	case errors.Is(err, context.Canceled):
		return "cancelled"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return "timed out"
	case isDNS:
		return "the name of the host could not be looked up"
	case isNet && ne.Timeout():
		return "timed out"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return "connection closed by the other side"
	case errors.Is(err, syscall.ENETUNREACH), errors.Is(err, syscall.EHOSTUNREACH):
		return "no route to the host"
	}
	return certificate(err)
}

func certificate(err error) string {
	_, unknown := errors.AsType[x509.UnknownAuthorityError](err)
	_, invalid := errors.AsType[x509.CertificateInvalidError](err)
	_, host := errors.AsType[x509.HostnameError](err)
	switch {
	case unknown:
		return "the certificate is signed by an unknown authority"
	case invalid:
		return "the certificate is not valid"
	case host:
		return "the certificate is for another host"
	}
	for inner := errors.Unwrap(err); inner != nil; inner = errors.Unwrap(err) {
		err = inner
	}
	return fmt.Sprintf("not delivered (%T)", err)
}
