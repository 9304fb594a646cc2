package conformance_test

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"
)

// How long somebody waits who expects to be served or closed, and who expects that
// nothing happens: the latter for a few times what a ClientHello may take.
const (
	patience = 30 * time.Second
	watch    = 3 * time.Second
)

// visit comes to an address and returns what becomes of the visitor. Hello is the
// time that the listener gives a ClientHello.
func (v visitor) visit(address string, hello, wait time.Duration) verdict {
	got, c := v.come(address, hello, wait)
	if c == nil {
		return got
	}
	defer c.Close()
	if v.quiet || v.pokes {
		return got + verdict(v.wait(c))
	}
	if err := v.use(c); err != nil {
		return got + verdict(", and then: "+err.Error())
	}
	return got
}

// What becomes of who is served and says no more.
const (
	whenIdle = ", until nobody had said anything for a while"
	byReset  = ", and then: a reset"
	byEnd    = ", and then: an end"
)

// wait says nothing until the end, or a byte. The time counts from before the visitor
// came: how long his answer was on its way is not known.
func (v visitor) wait(c *served) string {
	switch {
	case v.shut:
		_ = c.Conn.(interface{ CloseWrite() error }).CloseWrite()
	case v.pokes:
		_, _ = c.Write([]byte{0})
	}
	_, err := c.r.ReadByte()
	switch took := time.Since(c.began); {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return ", and for ever"
	case v.pokes && errors.Is(err, io.EOF):
		return byEnd
	case v.pokes && errors.Is(err, syscall.ECONNRESET):
		return byReset
	case err != nil && took > 2900*time.Millisecond:
		return whenIdle
	}
	return fmt.Sprintf(", and then: %v", err)
}

// served is a connection that a gateway has answered.
type served struct {
	net.Conn               // TLS, if there is TLS
	r        *bufio.Reader // what is left of the answer
	began    time.Time     // when he came
}

// come does what visit does, and keeps the connection of who is served.
func (v visitor) come(address string, hello, wait time.Duration) (verdict, *served) {
	began := time.Now()
	c, err := v.dial(address)
	switch {
	case errors.Is(err, syscall.ECONNRESET): // he was closed before he knew that he had connected
		return closed, nil
	case errors.Is(err, syscall.ECONNREFUSED):
		return nobody, nil
	case err != nil:
		return verdict("no connection: " + err.Error()), nil
	}
	_ = c.SetDeadline(time.Now().Add(wait))
	s, sent := &served{Conn: c, r: bufio.NewReader(c)}, v.hello
	if v.tls != "" {
		s, sent, err = v.handshake(c)
		if err != nil {
			_ = c.Close()
			return verdict("no TLS: " + err.Error()), nil
		}
	} else {
		v.send(c)
	}
	line, err := s.r.ReadString('\n')
	if err == nil {
		s.began = began
		return v.read(line, sent, c), s
	}
	_ = c.Close()
	switch took := time.Since(began); {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return open, nil
	case line == "\x15\x03\x03\x00\x02\x02\x70":
		return alert, nil
	case line != "":
		return verdict(fmt.Sprintf("answered %q", line)), nil
	case took > hello-hello/10:
		return late, nil
	}
	return closed, nil
}

func (v visitor) dial(address string) (net.Conn, error) {
	d := net.Dialer{Timeout: patience}
	if v.from != "" {
		d.LocalAddr = &net.TCPAddr{IP: net.ParseIP(v.from)}
	}
	return d.Dial("tcp", address)
}

// send writes all there is to send. An error shows when the answer is read.
func (v visitor) send(c net.Conn) {
	for i, segment := range v.segments() {
		if i > 0 {
			<-time.After(3 * time.Millisecond) // or the kernel may join it with the one before
		}
		if _, err := c.Write(segment); err != nil {
			return
		}
	}
	if v.shut && !v.quiet {
		_ = c.(*net.TCPConn).CloseWrite()
	}
}

func (v visitor) segments() (list [][]byte) {
	all := slices.Concat([]byte(v.proxy), v.hello, v.after)
	if v.drip > 0 {
		return slices.Collect(slices.Chunk(all, v.drip))
	}
	from := 0
	for _, at := range append(slices.Clone(v.cuts), len(all)) {
		if at > from {
			list = append(list, all[from:at])
			from = at
		}
	}
	return list
}

// handshake finishes one, and returns the ClientHello that was sent.
func (v visitor) handshake(c net.Conn) (*served, []byte, error) {
	if _, err := io.WriteString(c, v.proxy); err != nil {
		return nil, nil, err
	}
	w := &tap{Conn: c, parts: v.parts}
	t := tls.Client(w, &tls.Config{ServerName: v.tls, RootCAs: trusted(), NextProtos: []string{wantsTLS}})
	if err := t.Handshake(); err != nil {
		return nil, nil, err
	}
	return &served{Conn: t, r: bufio.NewReader(t)}, w.first, nil
}

// tap cuts the first record that is written into several, and keeps them.
type tap struct {
	net.Conn
	parts []int
	first []byte
}

// Write implements io.Writer.
func (t *tap) Write(b []byte) (int, error) {
	if t.first != nil {
		return t.Conn.Write(b)
	}
	t.first = records(b, t.parts...)
	if _, err := t.Conn.Write(t.first); err != nil {
		return 0, err
	}
	return len(b), nil
}

// CloseWrite ends one direction.
func (t *tap) CloseWrite() error { return t.Conn.(*net.TCPConn).CloseWrite() }

// read makes a verdict of a gateway's answer.
func (v visitor) read(line string, sent []byte, c net.Conn) verdict {
	f := strings.Fields(line)
	if len(f) != 3 {
		return verdict(fmt.Sprintf("answered %q", line))
	}
	got := f[0]
	switch f[1] {
	case "-":
	case ends(c):
		got += " as himself"
	default:
		got += " as " + f[1]
	}
	if f[2] != fmt.Sprintf("%x", sha256.Sum256(sent)) {
		got += ", and his ClientHello has changed on the way"
	}
	return verdict(got)
}

// ends are both of a connection, as a PROXY header would tell them.
func ends(c net.Conn) string {
	local, remote := c.LocalAddr().(*net.TCPAddr).AddrPort(), c.RemoteAddr().(*net.TCPAddr).AddrPort()
	plain := func(a netip.AddrPort) string { return netip.AddrPortFrom(a.Addr().Unmap(), a.Port()).String() }
	return plain(local) + ">" + plain(remote)
}

// use sends something more, ends that direction, and wants all of it back.
func (v visitor) use(s *served) error {
	want := slices.Clone(v.after)
	if !v.shut {
		more := bytes.Repeat([]byte("conformance "), 3000)
		want = append(want, more...)
		if _, err := s.Write(more); err != nil {
			return fmt.Errorf("sending more: %w", err)
		}
		if err := s.Conn.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
			return fmt.Errorf("ending: %w", err)
		}
	}
	back, err := io.ReadAll(s.r)
	if err != nil {
		return fmt.Errorf("reading it back: %w", err)
	}
	if !bytes.Equal(back, want) {
		return fmt.Errorf("%d bytes came back, want %d", len(back), len(want))
	}
	return nil
}
