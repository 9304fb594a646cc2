package e2e_test

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

var discard = log.New(io.Discard, "", 0)

// visitor is somebody who comes to the relay.
type visitor struct {
	addr string
	name string // the server name; default www.example.test
	from string // source address; default: the kernel's choice
	// whom it trusts; default: the CA of the gateways
	roots *x509.CertPool
}

func (v visitor) sni() string {
	if v.name == "" {
		return "www.example.test"
	}
	return v.name
}

// patience is how long a visitor waits for everything together.
const patience = 15 * time.Second

func (v visitor) dial(ctx context.Context) (net.Conn, error) {
	var d net.Dialer
	if v.from != "" {
		d.LocalAddr = &net.TCPAddr{IP: net.ParseIP(v.from)}
	}
	return d.DialContext(ctx, "tcp", v.addr)
}

// connect finishes a TLS handshake.
func (v visitor) connect(ctx context.Context) (*tls.Conn, error) {
	raw, err := v.dial(ctx)
	if err != nil {
		return nil, err
	}
	deadline, _ := ctx.Deadline()
	_ = raw.SetDeadline(deadline)
	conn := tls.Client(raw, &tls.Config{ServerName: v.sni(), RootCAs: cmp.Or(v.roots, ca().pool)})
	if err := conn.HandshakeContext(ctx); err != nil {
		_ = raw.Close()
		return nil, err
	}
	return conn, nil
}

// get asks for a page over a connection of its own and returns the body.
func (v visitor) get(ctx context.Context, path string) (body string, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	conn, err := v.connect(ctx)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	resp, _, err := request(conn, v.sni(), path)
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", path, resp.Status)
	}
	return string(text), err
}

func request(conn net.Conn, host, path string) (*http.Response, *bufio.Reader, error) {
	if _, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: %s\r\n\r\n", path, host); err != nil {
		return nil, nil, err
	}
	r := bufio.NewReader(conn)
	resp, err := http.ReadResponse(r, nil)
	return resp, r, err
}

// mustGet is get for a visitor who has to be served.
func (v visitor) mustGet(t testing.TB, path string) string {
	t.Helper()
	return must(v.get(t.Context(), path))(t)
}

// echo is an open session that gives back what is written, as a WebSocket does.
type echo struct {
	conn    net.Conn
	r       *bufio.Reader
	gateway string
}

func (v visitor) echo(t testing.TB) *echo {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	conn := must(v.connect(ctx))(t)
	_ = conn.SetDeadline(time.Time{})
	t.Cleanup(func() { _ = conn.Close() })
	resp, r, err := request(conn, v.sni(), "/echo")
	if err != nil {
		t.Fatal(err)
	}
	return &echo{conn, r, resp.Header.Get("X-Gateway")}
}

// say writes a line and wants it back.
func (e *echo) say(line string) error {
	_ = e.conn.SetDeadline(time.Now().Add(5 * time.Second))
	if _, err := fmt.Fprintln(e.conn, line); err != nil {
		return err
	}
	back, err := e.r.ReadString('\n')
	if err != nil {
		return err
	}
	if strings.TrimSpace(back) != line {
		return fmt.Errorf("said %q, heard %q", line, back)
	}
	return nil
}

// closed waits for the other side to end the session.
func (e *echo) closed(limit time.Duration) bool {
	_ = e.conn.SetDeadline(time.Now().Add(limit))
	_, err := e.r.ReadByte()
	timeout, ok := err.(net.Error)
	return err != nil && !(ok && timeout.Timeout())
}

// visit is how it went for one visitor.
type visit struct {
	began   time.Time
	took    time.Duration
	gateway string
	err     error
}

func (v visitor) visit(ctx context.Context) visit {
	began := time.Now()
	by, err := v.get(ctx, "/")
	return visit{began, time.Since(began), by, err}
}

// crowd is a stream of visitors, each with a connection of its own.
type crowd struct {
	mu     sync.Mutex
	visits []visit
	stop   context.CancelFunc
	over   chan struct{}
}

// everyoneAtOnce bounds how many visitors of a crowd are under way together.
const everyoneAtOnce = 16

// send lets n visitors come, at most so many a second. With n 0 they come until
// the test says stop.
func (v visitor) send(t testing.TB, n int, perSecond float64) *crowd {
	return send(t, n, perSecond, v.visit)
}

func send(t testing.TB, n int, perSecond float64, visit func(context.Context) visit) *crowd {
	ctx, cancel := context.WithCancel(t.Context())
	c := &crowd{stop: cancel, over: make(chan struct{})}
	turns := make(chan struct{})
	var wg sync.WaitGroup
	for range everyoneAtOnce {
		wg.Go(func() {
			for range turns {
				one := visit(context.WithoutCancel(ctx))
				c.mu.Lock()
				c.visits = append(c.visits, one)
				c.mu.Unlock()
			}
		})
	}
	go func() {
		defer close(c.over)
		tick := time.NewTicker(time.Duration(float64(time.Second) / perSecond))
		defer tick.Stop()
		for i := 0; (n == 0 || i < n) && ctx.Err() == nil; i++ {
			select {
			case turns <- struct{}{}:
			case <-ctx.Done():
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
			}
		}
		close(turns)
		wg.Wait()
	}()
	t.Cleanup(func() {
		cancel()
		<-c.over
	})
	return c
}

// await waits until at least n visitors have been.
func (c *crowd) await(t testing.TB, n int) {
	t.Helper()
	eventually(t, time.Minute, fmt.Sprintf("%d visitors have been", n), func() bool { return c.count() >= n })
}

func (c *crowd) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.visits)
}

// end waits for the last visitor, or with halt sends no more, and returns all
// visits.
func (c *crowd) end(halt bool) visits {
	if halt {
		c.stop()
	}
	<-c.over
	return c.visits
}

type visits []visit

// since are the visits that began at or after a time, before those before it.
func (vs visits) since(at time.Time) visits {
	return vs.where(func(v visit) bool { return !v.began.Before(at) })
}

func (vs visits) before(at time.Time) visits {
	return vs.where(func(v visit) bool { return v.began.Before(at) })
}
func (vs visits) failed() visits { return vs.where(func(v visit) bool { return v.err != nil }) }

func (vs visits) where(ok func(visit) bool) (some visits) {
	for _, v := range vs {
		if ok(v) {
			some = append(some, v)
		}
	}
	return some
}

// by counts visits by the gateway that served them.
func (vs visits) by() map[string]int {
	m := map[string]int{}
	for _, v := range vs {
		if v.err == nil {
			m[v.gateway]++
		}
	}
	return m
}

// at is the latency that a share q of the visits kept within.
func (vs visits) at(q float64) time.Duration {
	if len(vs) == 0 {
		return 0
	}
	all := make([]time.Duration, len(vs))
	for i, v := range vs {
		all[i] = v.took
	}
	slices.Sort(all)
	return all[min(int(q*float64(len(all))), len(all)-1)]
}

func (vs visits) latency() string {
	const unit = 100 * time.Microsecond
	return fmt.Sprintf("p50 %s, p99 %s, worst %s", vs.at(.5).Round(unit), vs.at(.99).Round(unit), vs.at(1).Round(unit))
}

// noneFailed is the promise: it shows the first few failures if there are any.
func (vs visits) noneFailed(t testing.TB) {
	t.Helper()
	failed := vs.failed()
	for _, v := range failed[:min(len(failed), 5)] {
		t.Errorf("a visitor at %s failed after %s: %v", v.began.Format(time.TimeOnly+".000"), v.took, v.err)
	}
	if len(failed) > 0 {
		t.Errorf("%d of %d visitors failed", len(failed), len(vs))
	}
}
