// Package agentcheck answers HAProxy's agent checks: one port for all members. HAProxy
// says which one it means in the line that it sends, "pool/gateway", and takes the
// answer's words as the state of its server (manual of 2.6, section 5.2,
// "agent-check").
//
//	s := agentcheck.New(agentcheck.Options{Answer: answer})
//	go s.Serve(ctx, listener)
//
// Of what is unknown nothing is said: the connection is closed without a byte, and
// HAProxy keeps the state that it has.
package agentcheck

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Options of a Server. Answer is required.
type Options struct {
	Log *slog.Logger
	// Answer says what a member is, as one line without its end; empty if that is
	// unknown.
	Answer func(pool, gateway string) string
	// Allow are who may ask. Default: loopback addresses.
	Allow []netip.Prefix
	// Most is how many may ask at the same time. Default: 1024.
	Most int
	// Timeout is for one question and its answer. Default: 2s.
	Timeout time.Duration
}

// maxLine bounds a question: two names of 64 bytes, and what a pin adds.
const maxLine = 256

// Server answers.
type Server struct {
	o       Options
	open    atomic.Int64
	asked   atomic.Uint64
	unknown atomic.Uint64
	refused atomic.Uint64
}

// New returns a server that does not listen yet.
func New(o Options) *Server {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if len(o.Allow) == 0 {
		o.Allow = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}
	}
	o.Most, o.Timeout = cmp.Or(o.Most, 1024), cmp.Or(o.Timeout, 2*time.Second)
	return &Server{o: o}
}

// Counts since the beginning.
type Counts struct {
	Asked   uint64 `json:"asked"`   // and answered
	Unknown uint64 `json:"unknown"` // nothing was known, or of no such member
	Refused uint64 `json:"refused"` // who may not ask, or too many at once
}

// Counts returns them.
func (s *Server) Counts() Counts {
	return Counts{s.asked.Load(), s.unknown.Load(), s.refused.Load()}
}

// Serve answers at l until ctx ends, and waits for those that are being answered.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer stop()
	var asking sync.WaitGroup
	defer asking.Wait()
	for {
		c, err := l.Accept()
		if ctx.Err() != nil {
			if err == nil {
				_ = c.Close()
			}
			return nil
		}
		if errors.Is(err, net.ErrClosed) {
			return err
		}
		if err != nil { // like EMFILE: it may pass
			s.o.Log.Warn("taking an agent check", "error", err)
			select {
			case <-ctx.Done():
			case <-time.After(100 * time.Millisecond):
			}
			continue
		}
		if !s.may(c) {
			s.refused.Add(1)
			_ = c.Close()
			continue
		}
		asking.Go(func() {
			defer s.open.Add(-1)
			s.answer(c)
		})
	}
}

// may takes a place, to be given back.
func (s *Server) may(c net.Conn) bool {
	from, ok := c.RemoteAddr().(*net.TCPAddr)
	if !ok {
		return false
	}
	addr := from.AddrPort().Addr().Unmap().WithZone("")
	if !slices.ContainsFunc(s.o.Allow, func(p netip.Prefix) bool { return p.Contains(addr) }) {
		return false
	}
	if s.open.Add(1) > int64(s.o.Most) {
		s.open.Add(-1)
		return false
	}
	return true
}

func (s *Server) answer(c net.Conn) {
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(s.o.Timeout))
	line, err := bufio.NewReader(io.LimitReader(c, maxLine)).ReadString('\n')
	pool, gateway, ok := strings.Cut(strings.TrimRight(line, "\r\n"), "/")
	if err != nil || !ok {
		s.unknown.Add(1)
		return
	}
	said := s.o.Answer(pool, gateway)
	if said == "" {
		s.unknown.Add(1)
		return
	}
	s.asked.Add(1)
	_, _ = io.WriteString(c, said+"\n")
}
