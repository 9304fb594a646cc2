package check_test

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server is a backend on loopback. It notes what its handler returned for each
// connection: an error here is a line in a real backend's log.
type server struct {
	addr   string
	handle func(net.Conn) error
	l      net.Listener
	wg     sync.WaitGroup
	ended  chan error // closed connections, in order
}

func serve(t *testing.T, handle func(net.Conn) error) *server {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &server{addr: l.Addr().String(), handle: handle, l: l, ended: make(chan error, 100)}
	s.wg.Go(s.accept)
	t.Cleanup(func() {
		l.Close()
		s.wg.Wait()
	})
	return s
}

func (s *server) accept() {
	for {
		c, err := s.l.Accept()
		if err != nil {
			return
		}
		s.wg.Go(func() {
			defer c.Close()
			_ = c.SetDeadline(time.Now().Add(10 * time.Second))
			s.ended <- s.handle(c)
		})
	}
}

// overTLS finishes a handshake, says what handle says, and wants a clean end.
func overTLS(cfg *tls.Config, handle func(*tls.Conn) error) func(net.Conn) error {
	return func(c net.Conn) error {
		conn := tls.Server(c, cfg)
		if err := conn.Handshake(); err != nil {
			return fmt.Errorf("handshake: %w", err)
		}
		if handle != nil {
			if err := handle(conn); err != nil {
				return err
			}
		}
		return untilEOF(conn)
	}
}

// untilEOF reads until a close_notify, or a FIN on a bare connection; all else
// is an error, and so is data.
func untilEOF(c net.Conn) error {
	switch n, err := c.Read(make([]byte, 1)); {
	case n > 0:
		return errors.New("data after the end")
	case !errors.Is(err, io.EOF):
		return fmt.Errorf("unclean end: %w", err)
	}
	return c.Close()
}

// answer reads one request, hands it to see, and writes text.
func answer(text string, see func(*http.Request)) func(*tls.Conn) error {
	return func(c *tls.Conn) error {
		req, err := http.ReadRequest(bufio.NewReader(c))
		if err != nil {
			return fmt.Errorf("request: %w", err)
		}
		if see != nil {
			see(req)
		}
		_, err = io.WriteString(c, text)
		return err
	}
}

// hold keeps a connection open and silent until the other side ends it.
func hold(c net.Conn) error {
	_, err := io.Copy(io.Discard, c)
	return err
}

// reset ends a connection the rude way, once the hello begins.
func reset(c net.Conn) error {
	if _, err := c.Read(make([]byte, 5)); err != nil {
		return err
	}
	return c.(*net.TCPConn).SetLinger(0) // and the caller closes
}
