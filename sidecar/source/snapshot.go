package source

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/edgeward/edgeward/relay/monitor"
)

// SnapshotOptions are for a Snapshot.
type SnapshotOptions struct {
	Log *slog.Logger
	// URL is that of the relay's API, like https://relay.example.com:8443, or
	// http://127.0.0.1:2019. Without TLS it must be of this machine.
	URL string
	// TokenFile holds a token that may read. It is read anew for each connection.
	// Default: none.
	TokenFile string
	// RootsFile holds the authorities to trust, in PEM. Default: the system's.
	RootsFile string
	// Stale is how long the last picture is believed after the connection is gone.
	// Default: 30s.
	Stale time.Duration
	// Offer takes each picture, and nil when the last one is too old.
	Offer func(*Picture)
}

const (
	// silence is how long a relay says nothing: it sends a comment each minute.
	silence = 75 * time.Second
	// maxEvent bounds one picture: 10,000 gateways of 2 kB.
	maxEvent     = 32 << 20
	firstBackoff = 100 * time.Millisecond
	lastBackoff  = 10 * time.Second
)

// Snapshot follows a relay.
type Snapshot struct {
	o      SnapshotOptions
	cancel context.CancelFunc
	done   sync.WaitGroup

	mu    sync.Mutex
	err   error // why it is not connected; nil while it is
	heard time.Time

	version uint64    // of the last picture; owned by run
	at      time.Time // of the same
	fresh   bool      // a picture is offered that is believed; owned by run
	old     *time.Timer
}

// NewSnapshot starts to follow.
func NewSnapshot(o SnapshotOptions) (*Snapshot, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	o.Stale = cmp.Or(o.Stale, 30*time.Second)
	if _, err := ParseURL(o.URL); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	s := &Snapshot{o: o, cancel: cancel, err: errors.New("not connected yet")}
	s.done.Go(func() { s.run(ctx) })
	return s, nil
}

// Close ends it and waits.
func (s *Snapshot) Close() {
	s.cancel()
	s.done.Wait()
}

// State returns when the relay was last heard, and why it is not now.
func (s *Snapshot) State() (heard time.Time, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.heard, s.err
}

func (s *Snapshot) note(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err = err; err == nil {
		s.heard = time.Now()
	}
}

// ParseURL reads where a relay's API is. A token must not travel in the clear.
func ParseURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("url: %w", err)
	}
	host := u.Hostname()
	ip := net.ParseIP(host)
	switch {
	case host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return nil, fmt.Errorf("url %.80q: want https://host:port, and nothing behind it but a path", u.Redacted())
	case u.Scheme == "http" && (ip == nil || !ip.IsLoopback()):
		return nil, fmt.Errorf("url %.80q: without TLS only a loopback address will do", text)
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("url %.80q: want https", text)
	}
	u.Path = strings.TrimSuffix(strings.TrimSuffix(u.Path, "/"), "/edge/snapshot") + "/edge/snapshot"
	u.RawQuery = "watch"
	return u, nil
}

// run connects again and again. A picture is believed for some time without a
// connection, and then unknown.
func (s *Snapshot) run(ctx context.Context) {
	backoff := firstBackoff
	for ctx.Err() == nil {
		before := s.version
		err := s.follow(ctx)
		if ctx.Err() != nil {
			return
		}
		if s.version != before {
			backoff = firstBackoff
		}
		s.note(err)
		s.o.Log.Warn("the relay's snapshot cannot be followed", "url", s.o.URL, "error", err, "again_in", backoff)
		s.pause(ctx, backoff)
		backoff = min(2*backoff, lastBackoff)
	}
}

// pause waits, and lets what is known grow old.
func (s *Snapshot) pause(ctx context.Context, d time.Duration) {
	end := time.After(d)
	for {
		heard, _ := s.State()
		left := s.o.Stale - time.Since(heard)
		var old <-chan time.Time
		if s.fresh && left > 0 {
			old = time.After(left)
		} else if s.fresh {
			s.lapse()
		}
		select {
		case <-ctx.Done():
			return
		case <-end:
			return
		case <-old:
		}
	}
}

// lapse says that nothing is known any more.
func (s *Snapshot) lapse() {
	s.fresh = false
	s.o.Log.Warn("the relay was silent for too long: nothing is known of the gateways, and nothing is changed", "url", s.o.URL, "stale", s.o.Stale)
	s.o.Offer(nil)
}

// client is made anew for each connection: certificates and tokens change.
func (s *Snapshot) client() (*http.Client, string, error) {
	t := &http.Transport{
		DialContext: (&net.Dialer{
			Timeout:         5 * time.Second,
			KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 5 * time.Second, Interval: 5 * time.Second, Count: 3},
		}).DialContext,
		TLSHandshakeTimeout: 5 * time.Second, ResponseHeaderTimeout: 10 * time.Second, DisableCompression: true,
		TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12}, MaxResponseHeaderBytes: 64 << 10,
	}
	if s.o.RootsFile != "" {
		pem, err := os.ReadFile(s.o.RootsFile)
		if err != nil {
			return nil, "", fmt.Errorf("reading the authorities: %w", err)
		}
		roots := x509.NewCertPool()
		if !roots.AppendCertsFromPEM(pem) {
			return nil, "", fmt.Errorf("%s holds no certificate", s.o.RootsFile)
		}
		t.TLSClientConfig.RootCAs = roots
	}
	token := ""
	if s.o.TokenFile != "" {
		data, err := os.ReadFile(s.o.TokenFile)
		if err != nil {
			return nil, "", fmt.Errorf("reading the token: %w", err)
		}
		token = strings.TrimSpace(string(data))
		if token == "" || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
			return nil, "", fmt.Errorf("%s does not hold a token", s.o.TokenFile)
		}
	}
	refuse := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &http.Client{Transport: t, CheckRedirect: refuse}, token, nil
}

// follow makes one connection and reads until it ends.
func (s *Snapshot) follow(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if s.fresh { // what is known must not outlive its time while a connection hangs
		heard, _ := s.State()
		s.old = time.AfterFunc(s.o.Stale-time.Since(heard), func() { cancel(errors.New("it does not answer")) })
		defer s.old.Stop()
	}
	client, token, err := s.client()
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	u, err := ParseURL(s.o.URL)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", "text/event-stream")
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	kind, _, _ := strings.Cut(resp.Header.Get("Content-Type"), ";")
	switch {
	case resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden:
		return fmt.Errorf("it answers %s: source.token_file must hold a token with the scope to read", resp.Status)
	case resp.StatusCode != http.StatusOK || kind != "text/event-stream":
		return fmt.Errorf("it answers %s with %.40q: want 200 and text/event-stream", resp.Status, kind)
	}
	// Time goes on while the relay says nothing: then the connection is not trusted.
	quiet := time.AfterFunc(silence, func() { cancel(fmt.Errorf("it said nothing for %s", silence)) })
	defer quiet.Stop()
	err = s.read(resp.Body, func() { quiet.Reset(silence) })
	return cmp.Or(context.Cause(ctx), err, io.ErrUnexpectedEOF)
}

// read takes server-sent events: "data:" lines of JSON, and comments.
func (s *Snapshot) read(body io.Reader, alive func()) error {
	first := true
	var data strings.Builder
	lines := bufio.NewScanner(body)
	lines.Buffer(make([]byte, 64<<10), maxEvent)
	for lines.Scan() {
		alive()
		line := lines.Text()
		value, isData := strings.CutPrefix(line, "data:")
		switch {
		case isData && data.Len()+len(value) > maxEvent:
			return fmt.Errorf("an event is longer than %d bytes", maxEvent)
		case isData:
			data.WriteString(strings.TrimPrefix(value, " "))
		case line == "" && data.Len() > 0:
			if err := s.take(data.String(), first); err != nil {
				return err
			}
			data.Reset()
			first = false
		case line == "" && !first:
			s.note(nil)
		}
	}
	return lines.Err()
}

// take offers a picture. Versions grow; a relay that started anew begins again, in a
// new connection and at a later time.
func (s *Snapshot) take(text string, first bool) error {
	var m monitor.Snapshot
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		return fmt.Errorf("reading the snapshot: %w", err)
	}
	if m.Version == 0 || m.At.IsZero() || m.Pools == nil || m.Gateways == nil {
		return errors.New("reading the snapshot: it has no version, no time, no pools or no gateways")
	}
	for _, p := range m.Pools {
		for _, member := range p.Members {
			if member.Tier < 0 || member.Tier > 4 || p.Name == "" || member.Gateway == "" {
				return fmt.Errorf("reading the snapshot: pool %.60q has a member of another form", p.Name)
			}
		}
	}
	same := m.Version == s.version && m.At.Equal(s.at)
	switch {
	case m.Version <= s.version && !first && !same, m.Version <= s.version && first && !same && !m.At.After(s.at):
		return fmt.Errorf("version %d of %s comes after %d of %s: it is an old one", m.Version, m.At.Format(time.RFC3339), s.version, s.at.Format(time.RFC3339))
	}
	s.version, s.at, s.fresh = m.Version, m.At, true
	if s.old != nil {
		s.old.Stop()
	}
	s.note(nil)
	s.o.Offer(pictureOf(&m, time.Now()))
	return nil
}

// URL returns where the relay is.
func (s *Snapshot) URL() string { return s.o.URL }
