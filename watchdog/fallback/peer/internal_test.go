package peer

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestSourceOf(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{"192.0.2.7:1", "192.0.2.7/32"},
		{"[::ffff:192.0.2.7]:1", "192.0.2.7/32"},
		{"[2001:db8:1:2:3::4]:1", "2001:db8:1:2::/64"},
		{"[fe80::1%eth0]:1", "fe80::/64"},
	} {
		addr := net.TCPAddrFromAddrPort(netip.MustParseAddrPort(tt.in))
		if got := sourceOf(addr).String(); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.in, got, tt.want)
		}
	}
}

// TestNoAuthority: without one, those of the system would let anybody in.
func TestNoAuthority(t *testing.T) {
	c := serverTLS(func() (*tls.Config, error) { return &tls.Config{}, nil })
	if _, err := c.GetConfigForClient(nil); err == nil {
		t.Error("a server without an authority lets somebody in")
	}
	if _, err := clientTLS(func() (*tls.Config, error) { return &tls.Config{}, nil }, "b"); err == nil {
		t.Error("a client without an authority believes somebody")
	}
}

func TestLongChunk(t *testing.T) {
	c := newConn(&tls.Conn{}, bufio.NewReader(bytes.NewReader([]byte("HTTP/1.1 200 OK"))), nil)
	if n, err := c.Read(make([]byte, 10)); n > 0 || errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("%d bytes and %v of what is no stream", n, err)
	}
}

// TestRare: outsiders do not fill the log, and what is left out is counted.
func TestRare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		r := &rare{log: slog.New(slog.NewTextHandler(&out, nil)), text: "x"}
		for range 1000 {
			fmt.Fprintln(r, "handshake")
		}
		time.Sleep(rareTime)
		fmt.Fprintln(r, "handshake")
		if lines := strings.Count(out.String(), "\n"); lines != 2 || !strings.Contains(out.String(), "also=999") {
			t.Errorf("%d lines: %s", lines, out.String())
		}
	})
}

// FuzzRequest: what is taken names a home and an item that are names.
func FuzzRequest(f *testing.F) {
	f.Add([]byte(`{"home":"a","item":"web","epoch":3}`))
	f.Add([]byte(`{"home":"a/../b","item":""}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		r, err := decodeRequest(body, rules[ActionStart])
		if err == nil && (!validName(r.Home) || !validName(r.Item)) {
			t.Errorf("%q gives %+v", body, r)
		}
	})
}

// FuzzStream: whatever comes, no more than it is read, and no end that was not said.
func FuzzStream(f *testing.F) {
	f.Add([]byte{0, 0, 0, 2, 'h', 'i', 0, 0, 0, 0})
	f.Add([]byte{0, 0, 0, 2, 'h'})
	f.Add([]byte{255, 255, 255, 255, 'h'})
	f.Fuzz(func(t *testing.T, in []byte) {
		c := newConn(&tls.Conn{}, bufio.NewReader(bytes.NewReader(in)), nil)
		got, err := io.ReadAll(c)
		if len(got) > len(in) {
			t.Errorf("%d bytes from %d", len(got), len(in))
		}
		if err == nil && !bytes.Contains(in, []byte{0, 0, 0, 0}) {
			t.Errorf("an end that nobody said in %x", in)
		}
	})
}

func FuzzHeader(f *testing.F) {
	f.Add("eyJhIjoiYiJ9")
	f.Fuzz(func(t *testing.T, s string) {
		h, err := decodeHeader(s)
		if err == nil && h == nil {
			t.Errorf("%q gives nothing and no error", s)
		}
	})
}
