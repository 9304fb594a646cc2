package probe_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/edgeward/edgeward/internal/evidence"
	"github.com/edgeward/edgeward/internal/secret"
	"github.com/edgeward/edgeward/watchdog/probe"
	"github.com/edgeward/edgeward/watchdog/semantic"
)

func TestRefused(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	h := usual(netip.MustParseAddrPort(l.Addr().String()), newAuthority(t))
	if r := h.Run(t.Context()); r.Reason != probe.Refused || r.Value != evidence.Bad {
		t.Errorf("%+v", r)
	}
}

// TestDialErrors: what our own machine lacks says nothing of the other side.
func TestDialErrors(t *testing.T) {
	for err, want := range map[error]probe.Reason{
		syscall.EMFILE:           probe.Local,
		syscall.ENFILE:           probe.Local,
		syscall.ENOBUFS:          probe.Local,
		syscall.ENOMEM:           probe.Local,
		syscall.EADDRNOTAVAIL:    probe.Local,
		syscall.EAFNOSUPPORT:     probe.Local,
		syscall.ENETUNREACH:      probe.Local,
		syscall.ENETDOWN:         probe.Local,
		syscall.EPERM:            probe.Local,
		syscall.EACCES:           probe.Local,
		syscall.EAGAIN:           probe.Local,
		syscall.EHOSTUNREACH:     probe.Unreachable,
		syscall.ECONNREFUSED:     probe.Refused,
		syscall.ECONNRESET:       probe.Reset,
		syscall.ETIMEDOUT:        probe.Timeout,
		context.DeadlineExceeded: probe.Timeout,
		errors.New("no tunnel"):  probe.Unreachable,
	} {
		h := usual(netip.MustParseAddrPort("192.0.2.1:443"), newAuthority(t))
		h.Dial = func(context.Context, string, string) (net.Conn, error) {
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", err)}
		}
		if r := h.Run(t.Context()); r.Reason != want || r.Value != valueOf(want) || r.Detail == "" {
			t.Errorf("%v: %s, %s, %q, want %s", err, r.Value, r.Reason, r.Detail, want)
		}
	}
}

func TestDialTimeout(t *testing.T) {
	h := usual(netip.MustParseAddrPort("192.0.2.1:443"), newAuthority(t))
	h.Timeout = short
	h.Dial = waitFor
	if r := h.Run(t.Context()); r.Reason != probe.Timeout || r.Value != evidence.Bad || r.Took > short+slack {
		t.Errorf("%+v", r)
	}
}

func waitFor(ctx context.Context, _, _ string) (net.Conn, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// TestCancelled: a caller that gives up, or gives less time than the probe is to
// have, learns nothing.
func TestCancelled(t *testing.T) {
	ca := newAuthority(t)
	t.Run("given up", func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		h := usual(serve(t, func(c net.Conn) {
			cancel(errors.New("the site was removed")) // in the middle of the handshake
			hold(c)
		}), ca)
		if r := h.Run(ctx); r.Reason != probe.Cancelled || r.Value != evidence.Unknown || r.Took > 5*time.Second {
			t.Errorf("%+v", r)
		}
	})
	t.Run("before it began", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		h := usual(serve(t, hold), ca)
		if r := h.Run(ctx); r.Reason != probe.Cancelled || r.Value != evidence.Unknown {
			t.Errorf("%+v", r)
		}
	})
	for name, dial := range map[string]func(context.Context, string, string) (net.Conn, error){"cut short": nil, "cut short in the dial": waitFor} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), short)
			defer cancel()
			h := usual(serve(t, hold), ca)
			h.Dial = dial
			if r := h.Run(ctx); r.Reason != probe.Cancelled || r.Value != evidence.Unknown || r.Took > short+slack {
				t.Errorf("%+v", r)
			}
		})
	}
}

func TestValidate(t *testing.T) {
	good := usual(netip.MustParseAddrPort("192.0.2.1:443"), newAuthority(t))
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*probe.HTTPS){
		"addr is invalid":          func(h *probe.HTTPS) { h.Addr = netip.AddrPort{} },
		"addr is 192.0.2.1:0":      func(h *probe.HTTPS) { h.Addr = netip.MustParseAddrPort("192.0.2.1:0") },
		"name is \"\"":             func(h *probe.HTTPS) { h.Name = "" },
		"name is \"*.":             func(h *probe.HTTPS) { h.Name = "*.example.com" },
		"name is \"a..b":           func(h *probe.HTTPS) { h.Name = "a..b" },
		"name is \"example.com.":   func(h *probe.HTTPS) { h.Name = "example.com." },
		"name is \"a.b??x":         func(h *probe.HTTPS) { h.Name = "a.b\r\nx" },
		"name is \"aaa":            func(h *probe.HTTPS) { h.Name = strings.Repeat("a", 64) + ".example.com" },
		"path is \"x":              func(h *probe.HTTPS) { h.Path = "x" },
		"path is \"/a b":           func(h *probe.HTTPS) { h.Path = "/a b" },
		"path is \"/a#b":           func(h *probe.HTTPS) { h.Path = "/a#b" },
		"path is \"/??":            func(h *probe.HTTPS) { h.Path = "/\r\n" },
		"status is 99":             func(h *probe.HTTPS) { h.Status = 99 },
		"max_body is -1":           func(h *probe.HTTPS) { h.MaxBody = -1 },
		"max_body is 92":           func(h *probe.HTTPS) { h.MaxBody = math.MaxInt },
		"more than max_body":       func(h *probe.HTTPS) { h.MaxBody = 5 },
		"timeout is -1s":           func(h *probe.HTTPS) { h.Timeout = -time.Second },
		"no header to set":         func(h *probe.HTTPS) { h.Header = map[string]secret.String{"host": secret.New("x")} },
		"header \"a b\"":           func(h *probe.HTTPS) { h.Header = map[string]secret.String{"a b": secret.New("x")} },
		"the value holds":          func(h *probe.HTTPS) { h.Header = map[string]secret.String{"X": secret.New(hidden + "\r\nY: z")} },
		"node is":                  func(h *probe.HTTPS) { h.Node = "a b" },
		"shape is shape(9)":        func(h *probe.HTTPS) { h.Shape = 9 },
		"split_records needs":      func(h *probe.HTTPS) { h.SplitRecords = true },
		"allow_miss needs edge":    func(h *probe.HTTPS) { h.AllowMiss = true },
		"rules[0].type is \"x\": ": func(h *probe.HTTPS) { h.Rules = []semantic.Rule{{Type: "x"}} },
	} {
		h := good
		change(&h)
		err := h.Validate()
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), hidden) {
			t.Errorf("%v, want %q", err, want)
		}
		h.Dial = func(context.Context, string, string) (net.Conn, error) {
			t.Errorf("%s: dialed", want)
			return nil, syscall.ECONNREFUSED
		}
		if r := h.Run(t.Context()); r.Reason != probe.Local || r.Value != evidence.Unknown {
			t.Errorf("%s: %+v", want, r)
		}
	}
}

// TestSecret: in no way a probe or its secret can be printed is the secret seen.
func TestSecret(t *testing.T) {
	s := secret.New(hidden)
	if s.Reveal() != hidden || (secret.String{}).Reveal() != "" {
		t.Error("it is not what was hidden")
	}
	h := usual(netip.MustParseAddrPort("192.0.2.1:443"), newAuthority(t))
	inside := struct{ inner any }{h}
	deeper := struct{ inner struct{ s secret.String } }{struct{ s secret.String }{s}}
	var out strings.Builder
	for _, v := range []any{s, &s, h, &h, inside, deeper, &deeper, []secret.String{s}, h.Header, probe.Canary{HTTPS: h}} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d"} {
			fmt.Fprintf(&out, verb+"\n", v)
		}
	}
	for _, handler := range []slog.Handler{slog.NewJSONHandler(&out, nil), slog.NewTextHandler(&out, nil)} {
		log := slog.New(handler)
		log.Info("probe", "secret", s, "header", h.Header, "probe", h.String(), "deeper", deeper)
	}
	text, err := s.MarshalText()
	if err != nil {
		t.Fatal(err)
	}
	out.Write(text)
	for _, form := range []string{hidden, fmt.Sprintf("%x", hidden), fmt.Sprintf("%X", hidden), fmt.Sprint([]byte(hidden))} {
		if strings.Contains(out.String(), form) {
			t.Errorf("the secret is shown as %s in\n%s", form, out.String())
		}
	}
	if !strings.Contains(out.String(), "[redacted]") {
		t.Error("nothing was redacted")
	}
}
