package agent

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"sync"
)

// webServer is one address and its connections, WebSockets among them: http.Server
// forgets those.
type webServer struct {
	address  string
	http     *http.Server
	listener *tracker
	wg       sync.WaitGroup
}

func newWebServer(address string, ln net.Listener, w *web) *webServer {
	s := &webServer{
		address: address, listener: &tracker{Listener: ln, conns: map[*tracked]struct{}{}, empty: make(chan struct{}, 1)},
		http: &http.Server{
			Handler: w, ReadHeaderTimeout: webHeadTime, IdleTimeout: webIdleTime,
			ErrorLog: slog.NewLogLogger(w.log.Handler(), slog.LevelDebug),
		},
	}
	s.wg.Go(func() { _ = s.http.Serve(s.listener) })
	return s
}

// end stops accepting, waits until all connections have ended or limit is closed, and
// closes what is left.
func (s *webServer) end(limit <-chan struct{}) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	s.wg.Go(func() {
		select {
		case <-limit:
			cancel()
		case <-ctx.Done():
		}
	})
	_ = s.http.Shutdown(ctx) // closes what is idle, and waits for requests
	s.listener.wait(ctx)     // and this for WebSockets
	cancel()
	_ = s.http.Close()
	s.listener.closeAll()
	s.wg.Wait()
}

// tracker knows the connections that it has accepted.
type tracker struct {
	net.Listener
	mu    sync.Mutex
	conns map[*tracked]struct{}
	empty chan struct{} // one slot: there may be none now
}

// Accept implements net.Listener.
func (t *tracker) Accept() (net.Conn, error) {
	conn, err := t.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &tracked{Conn: conn, tracker: t}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.conns[c] = struct{}{}
	return c, nil
}

func (t *tracker) open() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.conns)
}

func (t *tracker) wait(ctx context.Context) {
	for t.open() > 0 {
		select {
		case <-t.empty:
		case <-ctx.Done():
			return
		}
	}
}

func (t *tracker) closeAll() {
	t.mu.Lock()
	var list []*tracked
	for c := range t.conns {
		list = append(list, c)
	}
	t.mu.Unlock()
	for _, c := range list {
		_ = c.Close()
	}
}

// tracked tells its tracker when it is closed.
type tracked struct {
	net.Conn
	tracker *tracker
}

// Close implements net.Conn.
func (c *tracked) Close() error {
	t := c.tracker
	t.mu.Lock()
	delete(t.conns, c)
	t.mu.Unlock()
	select {
	case t.empty <- struct{}{}:
	default:
	}
	return c.Conn.Close()
}

// CloseWrite passes a half-close on.
func (c *tracked) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}
