package peer

import (
	"bufio"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
)

// maxChunk is most of one chunk. A stream is chunks, each with its length (32 bits, big
// endian) before it, and an empty one at its end: crypto/tls takes a connection that
// breaks off between two records for one that has ended.
const maxChunk = 64 << 10

// Conn is a stream. It is a net.Conn whose directions end one by one, each by CloseWrite;
// Close without it cuts the stream off.
type Conn struct {
	*tls.Conn
	reader *bufio.Reader // may hold bytes that came with the header

	once  sync.Once
	begin func() error // nil, or what must be said before anything else
	err   error        // of begin

	reading sync.Mutex
	left    int // of the chunk that is being read
	over    bool

	writing sync.Mutex
	buf     []byte
	closed  bool // our direction
}

func newConn(conn *tls.Conn, reader *bufio.Reader, begin func() error) *Conn {
	return &Conn{Conn: conn, reader: reader, begin: begin}
}

// ready says yes to a stream, once.
func (c *Conn) ready() error {
	c.once.Do(func() {
		if c.begin != nil {
			c.err = c.begin()
		}
	})
	return c.err
}

// begun returns false if nobody has said yes, and keeps it so.
func (c *Conn) begun() bool {
	never := false
	c.once.Do(func() { never, c.err = true, net.ErrClosed })
	return !never
}

// Read implements net.Conn. io.EOF: the other side has ended its direction. A stream that
// was cut off is another error.
func (c *Conn) Read(p []byte) (int, error) {
	if err := c.ready(); err != nil {
		return 0, err
	}
	c.reading.Lock()
	defer c.reading.Unlock()
	if len(p) == 0 {
		return 0, nil
	}
	if c.left == 0 && !c.over {
		if err := c.nextChunk(); err != nil {
			return 0, err
		}
	}
	if c.over {
		return 0, io.EOF
	}
	n, err := c.reader.Read(p[:min(len(p), c.left)])
	c.left -= n
	return n, unexpected(err)
}

// nextChunk reads a chunk's length. What of it has come before a deadline stays in the
// reader, so that a read with another deadline goes on there.
func (c *Conn) nextChunk() error {
	head, err := c.reader.Peek(4)
	if err != nil {
		return unexpected(err)
	}
	n := binary.BigEndian.Uint32(head)
	if n > maxChunk {
		return errors.New("the stream is no peer's: a chunk is too long")
	}
	_, err = c.reader.Discard(4)
	c.left, c.over = int(n), n == 0
	return err
}

func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// Write implements net.Conn.
func (c *Conn) Write(p []byte) (n int, err error) {
	if err := c.ready(); err != nil {
		return 0, err
	}
	c.writing.Lock()
	defer c.writing.Unlock()
	if c.closed {
		return 0, io.ErrClosedPipe
	}
	for len(p) > 0 {
		chunk := p[:min(len(p), maxChunk)]
		c.buf = append(binary.BigEndian.AppendUint32(c.buf[:0], uint32(len(chunk))), chunk...)
		if _, err := c.Conn.Write(c.buf); err != nil {
			return n, err
		}
		n, p = n+len(chunk), p[len(chunk):]
	}
	return n, nil
}

// CloseWrite ends this side's direction. The other one goes on.
func (c *Conn) CloseWrite() error {
	if err := c.ready(); err != nil {
		return err
	}
	c.writing.Lock()
	defer c.writing.Unlock()
	if c.closed {
		return nil
	}
	c.closed = true
	if _, err := c.Conn.Write(make([]byte, 4)); err != nil {
		return err
	}
	return c.Conn.CloseWrite()
}

// Abort cuts the stream off at once, whoever reads or writes.
func (c *Conn) Abort() error { return c.NetConn().Close() }
