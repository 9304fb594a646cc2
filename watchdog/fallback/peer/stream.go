package peer

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

const (
	streamPath   = "/v1/stream/"
	streamProto  = "edgeward-stream"
	streamHeader = "Edgeward-Stream"
	// maxStreamHeader is most of a Header, encoded.
	maxStreamHeader = 8 << 10
	// lingerTime is how long the other side may still talk to a handler that is done.
	lingerTime = 5 * time.Second
)

// Header says what a stream is about.
type Header map[string]string

// Handler serves a stream of the home from, until ctx ends. conn is a *Conn. An error
// that is returned before conn was read or written is told to the asking home as a
// refusal. After that it cuts the stream off, so that the other side does not take what
// it got for all there is. nil ends the stream in order.
type Handler func(ctx context.Context, from string, conn net.Conn, header Header) error

// Stream lets other homes open streams of that name. Call it before Run.
func (s *Server) Stream(name string, h Handler) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.streams[name] = h
}

func (s *Server) stream(name string) (Handler, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h, ok := s.streams[name]
	return h, ok
}

func streamName(r *http.Request) (string, bool) {
	name, ok := strings.CutPrefix(r.URL.Path, streamPath)
	return name, ok && r.Method == http.MethodGet
}

func (h *handler) serveStream(w http.ResponseWriter, r *http.Request, from, name string) {
	serve, known := h.stream(name)
	header, err := decodeHeader(r.Header.Get(streamHeader))
	switch {
	case !known:
		err = refuse(CodeUnknownAction, "there is no stream %.100q", name)
	case !strings.EqualFold(r.Header.Get("Upgrade"), streamProto):
		err = refuse(CodeBadRequest, "a stream is an upgrade to %s", streamProto)
	}
	if err != nil {
		h.answer(w, r, from, nil, err)
		return
	}
	raw, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		h.answer(w, r, from, nil, err)
		return
	}
	_ = raw.SetDeadline(time.Time{})
	conn, ok := raw.(*tls.Conn)
	if !ok {
		_ = raw.Close()
		return
	}
	c := newConn(conn, rw.Reader, func() error { return sayYes(conn) })
	stop := context.AfterFunc(h.ctx, func() { _ = c.Abort() })
	defer stop()
	h.end(c, from, r, h.contained(serve, from, c, header))
}

// contained keeps a panic of one stream from the others.
func (h *handler) contained(serve Handler, from string, c *Conn, header Header) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &panicError{p}
		}
	}()
	return serve(h.ctx, from, c, header)
}

// end ends a stream as its handler wants it.
func (h *handler) end(c *Conn, from string, r *http.Request, err error) {
	switch {
	case err == nil:
		linger(c)
		_ = c.Conn.Close()
		return
	case c.begun():
		_ = c.Abort()
		h.c.Log.Warn("a stream ended early", "error", err, "from", from, "asked", r.URL.Path)
		return
	}
	e := serviceError(err)
	if e.Code == CodeFailed { // it never began
		e.Code = CodeRefused
	}
	text, _ := encode(nil, e)
	h.tell(e, err, from, r)
	_ = c.SetDeadline(time.Now().Add(bodyTime))
	_, _ = fmt.Fprintf(c.Conn, "HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s",
		e.status(), http.StatusText(e.status()), len(text), text)
	_ = c.Conn.Close()
}

// linger ends our direction and waits for the other side's end: a close with bytes unread
// would be a reset, which takes with it what is still on its way.
func linger(c *Conn) {
	if c.CloseWrite() != nil {
		return
	}
	_ = c.SetReadDeadline(time.Now().Add(lingerTime))
	_, _ = io.Copy(io.Discard, io.LimitReader(c, 1<<20))
}

func sayYes(conn net.Conn) error {
	_, err := fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n", streamProto)
	return err
}

func encodeHeader(h Header) (string, error) {
	if h == nil {
		h = Header{}
	}
	text, err := json.Marshal(h)
	if err != nil {
		return "", err
	}
	s := base64.RawURLEncoding.EncodeToString(text)
	if len(s) > maxStreamHeader {
		return "", fmt.Errorf("a stream's header has %d bytes, more than %d", len(s), maxStreamHeader)
	}
	return s, nil
}

func decodeHeader(s string) (Header, error) {
	if len(s) > maxStreamHeader {
		return nil, refuse(CodeTooLarge, "a stream's header has more than %d bytes", maxStreamHeader)
	}
	text, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil {
		return nil, refuse(CodeBadRequest, "reading the stream's header: %v", err)
	}
	var h Header
	if err := decodeOne(text, &h); err != nil {
		return nil, refuse(CodeBadRequest, "reading the stream's header: %v", err)
	}
	return h, nil
}

// Dial opens a stream to the other home. The error is an *Error if it refuses.
func (c *Client) Dial(ctx context.Context, name string, header Header) (net.Conn, error) {
	conn, err := c.dialStream(ctx, name, header)
	if err != nil {
		return nil, fmt.Errorf("opening stream %s to home %s: %w", name, c.c.Home, err)
	}
	return conn, nil
}

func (c *Client) dialStream(ctx context.Context, name string, header Header) (*Conn, error) {
	text, err := encodeHeader(header)
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://home.invalid"+streamPath+name, http.NoBody)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Connection", "Upgrade")
	r.Header.Set("Upgrade", streamProto)
	r.Header.Set(streamHeader, text)
	ctx, cancel := context.WithTimeout(ctx, streamTime)
	defer cancel()
	conn, err := c.dial(ctx)
	if err != nil {
		return nil, err
	}
	upgraded, err := upgrade(ctx, conn, r)
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return upgraded, nil
}

// upgrade asks for the stream and reads the answer.
func upgrade(ctx context.Context, conn *tls.Conn, r *http.Request) (*Conn, error) {
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if err := r.Write(conn); err != nil {
		return nil, err
	}
	// A header is read through it, and what follows is the stream's.
	reader := bufio.NewReader(conn)
	answer, err := http.ReadResponse(reader, r)
	if err != nil {
		return nil, cmpCause(ctx, err)
	}
	if answer.StatusCode != http.StatusSwitchingProtocols || !strings.EqualFold(answer.Header.Get("Upgrade"), streamProto) {
		defer answer.Body.Close()
		return nil, decodeAnswer(answer, nil)
	}
	if !stop() {
		return nil, context.Cause(ctx)
	}
	return newConn(conn, reader, nil), nil
}

// cmpCause prefers to say that the time is over.
func cmpCause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return errors.Join(context.Cause(ctx), err)
	}
	return err
}
