package check_test

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/edgeward/edgeward/relay/check"
	"github.com/edgeward/edgeward/relay/health"
)

func TestRefused(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	r := check.Run(t.Context(), check.Spec{}, l.Addr().String(), nil)
	got := r.Evidence()
	want := health.Evidence{Value: health.Bad, Level: health.Connect, Firm: true, Detail: "connection refused"}
	if got != want || r.Level != 0 || !errors.Is(r.Err, syscall.ECONNREFUSED) {
		t.Errorf("%+v: %+v", got, r)
	}
}

func TestUnixSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if r := check.Run(t.Context(), check.Spec{ProxyProtocol: 1}, path, nil); !r.OK {
		t.Errorf("%+v", r)
	}
}

// TestDialer: errors of our own making say nothing of the other side.
func TestDialer(t *testing.T) {
	for _, tc := range []struct {
		err  error
		want health.Evidence
	}{
		{syscall.EMFILE, health.Evidence{}},
		{syscall.ENETUNREACH, health.Evidence{}},
		{&net.DNSError{Err: "no such host", IsNotFound: true}, health.Evidence{}},
		{syscall.EHOSTUNREACH, firm(health.Connect)},
		{syscall.ETIMEDOUT, slow(health.Connect)},
		{context.DeadlineExceeded, slow(health.Connect)},
	} {
		dial := func(context.Context, string, string) (net.Conn, error) {
			return nil, &net.OpError{Op: "dial", Err: tc.err}
		}
		r := check.Run(t.Context(), check.Spec{}, "192.0.2.1:443", dial)
		got := r.Evidence()
		if got.Detail, got.Span = "", 0; got != tc.want || r.Unknown != (tc.want.Value == health.ValueUnknown) {
			t.Errorf("%v: %+v, want %+v", tc.err, got, tc.want)
		}
	}
}

// TestDialTimeout: a dial that never ends is ended.
func TestDialTimeout(t *testing.T) {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	r := check.Run(t.Context(), check.Spec{Timeout: short}, "192.0.2.1:443", dial)
	if got := r.Evidence(); got.Value != health.Bad || got.Firm || got.Detail != "timed out" {
		t.Errorf("%+v", got)
	}
}

func TestCancelled(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("the target was removed")
	s := serve(t, func(c net.Conn) error {
		cancel(gone) // in the middle of a handshake
		return hold(c)
	})
	r := check.Run(ctx, check.Spec{Kind: check.TLS, ServerName: serverName}, s.addr, nil)
	if !r.Unknown || r.OK || r.Firm || !errors.Is(r.Err, gone) || r.Evidence().Value != health.ValueUnknown {
		t.Errorf("%+v", r)
	}
}

func TestBadSpecIsUnknown(t *testing.T) {
	r := check.Run(t.Context(), check.Spec{Kind: check.TLS}, "192.0.2.1:443", nil)
	if !r.Unknown || !strings.Contains(r.Detail, "server_name") {
		t.Errorf("%+v", r)
	}
}
