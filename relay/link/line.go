package link

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// line is one set of connections to the relay. It can be cut as a whole: a transport
// alone keeps a connection for as long as a request waits on it, dead or not.
type line struct {
	transport *http.Transport
	begun     time.Time
	heard     atomic.Int64 // when something came last, since begun

	mu    sync.Mutex
	conns map[*lineConn]struct{} // nil once it is cut
}

// Timeouts of a line. A connection of HTTP/2 carries everything, so it is asked now
// and then whether it lives.
const (
	dialTimeout = 5 * time.Second
	askAfter    = 5 * time.Second
	askTimeout  = 3 * time.Second
	idleTimeout = 90 * time.Second
	// quietAfter is how long a line that carries an answer may pause.
	quietAfter = 2 * time.Second
	maxHead    = 64 << 10
)

type dialer = func(ctx context.Context, network, address string) (net.Conn, error)

func newLine(dial dialer, trust *tls.Config) *line {
	l := &line{begun: time.Now(), conns: map[*lineConn]struct{}{}}
	l.transport = &http.Transport{
		// No proxy, whatever the environment says.
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			ctx, cancel := context.WithTimeout(ctx, dialTimeout)
			defer cancel()
			conn, err := dial(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return l.keep(conn)
		},
		TLSClientConfig: trust, TLSHandshakeTimeout: dialTimeout, ForceAttemptHTTP2: true,
		HTTP2:           &http.HTTP2Config{SendPingTimeout: askAfter, PingTimeout: askTimeout},
		IdleConnTimeout: idleTimeout, MaxResponseHeaderBytes: maxHead,
	}
	return l
}

// keep notes a connection, unless the line has been cut while it was dialled.
func (l *line) keep(conn net.Conn) (net.Conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conns == nil {
		_ = conn.Close()
		return nil, net.ErrClosed
	}
	c := &lineConn{conn, l}
	l.conns[c] = struct{}{}
	return c, nil
}

// cut ends every request on the line, and what is idle.
func (l *line) cut() {
	l.mu.Lock()
	conns := l.conns
	l.conns = nil
	l.mu.Unlock()
	for c := range conns {
		_ = c.Conn.Close()
	}
	l.transport.CloseIdleConnections()
}

func (l *line) isCut() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.conns == nil
}

// quiet tells whether nothing has come for a while.
func (l *line) quiet() bool { return time.Since(l.begun)-time.Duration(l.heard.Load()) >= quietAfter }

// lineConn tells its line what becomes of it.
type lineConn struct {
	net.Conn
	line *line
}

// Read implements net.Conn.
func (c *lineConn) Read(b []byte) (n int, err error) {
	n, err = c.Conn.Read(b)
	if n > 0 {
		c.line.heard.Store(int64(time.Since(c.line.begun)))
	}
	return n, err
}

// Close implements net.Conn.
func (c *lineConn) Close() error {
	c.line.mu.Lock()
	delete(c.line.conns, c)
	c.line.mu.Unlock()
	return c.Conn.Close()
}
