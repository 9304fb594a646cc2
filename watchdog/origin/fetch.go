package origin

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"time"

	"github.com/edgeward/edgeward/watchdog/resolve"
)

// MaxBodyBytes is the most that a source may answer.
const MaxBodyBytes = 4 << 10

// Limits on the rest: the head of the answer and its framing, and how many addresses
// of a source are tried.
const (
	maxHeadBytes = 16 << 10
	maxTries     = 2
)

// ask asks one source over one family, on a connection that does not outlive it.
func (f *Finder) ask(ctx context.Context, s Source, family resolve.Family) (netip.Addr, error) {
	if err := s.Validate(); err != nil {
		return netip.Addr{}, err
	}
	u, err := url.Parse(s.URL)
	if err != nil {
		return netip.Addr{}, err
	}
	found, err := f.set().Lookup(ctx, u.Hostname(), family)
	if err != nil {
		return netip.Addr{}, fmt.Errorf("looking up %s: %w", u.Hostname(), err)
	}
	for _, addr := range found.Addrs[:min(len(found.Addrs), maxTries)] {
		var body []byte
		if body, err = f.fetch(ctx, u, addr); err == nil {
			return s.parse(body, family)
		}
	}
	return netip.Addr{}, err
}

// fetch gets a page from the server at addr. It speaks HTTP/1.1 itself, which leaves
// no pool, no redirect, no cookie and no proxy to think of.
func (f *Finder) fetch(ctx context.Context, u *url.URL, addr netip.Addr) ([]byte, error) {
	network := "tcp4"
	if addr.Is6() {
		network = "tcp6"
	}
	bare, err := f.dial()(ctx, network, net.JoinHostPort(addr.String(), cmp.Or(u.Port(), "443")))
	if err != nil {
		return nil, fmt.Errorf("connecting: %w", err)
	}
	defer bare.Close()
	stop := context.AfterFunc(ctx, func() { _ = bare.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	conn := tls.Client(bare, &tls.Config{
		ServerName: u.Hostname(), RootCAs: f.Roots, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"},
	})
	if err := conn.HandshakeContext(ctx); err != nil {
		return nil, fmt.Errorf("finishing the TLS handshake: %w", err)
	}
	return get(ctx, conn, u)
}

func get(ctx context.Context, conn net.Conn, u *url.URL) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	request.Header = http.Header{
		"User-Agent": {"edgeward-watchdog"}, "Accept": {"text/plain"}, "Accept-Encoding": {"identity"}, "Cache-Control": {"no-cache"},
	}
	request.Close = true
	if err := request.Write(conn); err != nil {
		return nil, fmt.Errorf("asking: %w", err)
	}
	in := bufio.NewReader(io.LimitReader(conn, maxHeadBytes+MaxBodyBytes))
	response, err := http.ReadResponse(in, request)
	if err != nil {
		return nil, fmt.Errorf("reading the head of the answer: %w", err)
	}
	// The body is never closed: that would read all of it.
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("HTTP status is %d, want 200", response.StatusCode)
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, MaxBodyBytes+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("reading the answer: %w", err)
	case len(body) > MaxBodyBytes:
		return nil, fmt.Errorf("the answer is longer than %d bytes", MaxBodyBytes)
	}
	return body, nil
}
