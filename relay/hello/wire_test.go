package hello_test

import (
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/edgeward/edgeward/relay/hello"
)

// vec returns data behind its length in n bytes.
func vec(n int, data ...[]byte) []byte {
	all := slices.Concat(data...)
	var length [8]byte
	binary.BigEndian.PutUint64(length[:], uint64(len(all)))
	return append(slices.Clone(length[8-n:]), all...)
}

func extension(id uint16, data []byte) []byte {
	return append(binary.BigEndian.AppendUint16(nil, id), vec(2, data)...)
}

func hostName(name string) []byte { return append([]byte{0}, vec(2, []byte(name))...) }

func sni(name string) []byte { return extension(0, vec(2, hostName(name))) }

func alpn(names ...string) []byte {
	var list []byte
	for _, n := range names {
		list = append(list, vec(1, []byte(n))...)
	}
	return extension(16, vec(2, list))
}

// fixedPart is all of a body up to the extensions.
func fixedPart() []byte {
	return slices.Concat([]byte{3, 3}, make([]byte, 32), vec(1, make([]byte, 32)), vec(2, []byte{0x13, 1}), vec(1, []byte{0}))
}

func body(extensions ...[]byte) []byte { return append(fixedPart(), vec(2, extensions...)...) }

func message(body []byte) []byte { return append([]byte{1}, vec(3, body)...) }

func record(payload []byte) []byte { return append([]byte{22, 3, 1}, vec(2, payload)...) }

// records spreads a message over records of at most size bytes.
func records(message []byte, size int) []byte {
	var wire []byte
	for chunk := range slices.Chunk(message, size) {
		wire = append(wire, record(chunk)...)
	}
	return wire
}

// payload undoes records.
func payload(wire []byte) []byte {
	var out []byte
	for len(wire) >= 5 {
		n := min(len(wire), 5+int(binary.BigEndian.Uint16(wire[3:])))
		out = append(out, wire[5:n]...)
		wire = wire[n:]
	}
	return out
}

// parse gives a parser the wire in segments that end at the given offsets.
func parse(p *hello.Parser, wire []byte, ends ...int) (hello.Info, bool, error) {
	for _, end := range ends {
		if info, done, err := p.Parse(wire[:end:end]); done || err != nil {
			return info, done, err
		}
	}
	return p.Parse(wire)
}

// fakeConn plays what a peer said and keeps what it is told.
type fakeConn struct {
	in  bytes.Reader
	out bytes.Buffer
}

func (c *fakeConn) Read(b []byte) (int, error)       { return c.in.Read(b) }
func (c *fakeConn) Write(b []byte) (int, error)      { return c.out.Write(b) }
func (*fakeConn) Close() error                       { return nil }
func (*fakeConn) LocalAddr() net.Addr                { return &net.TCPAddr{} }
func (*fakeConn) RemoteAddr() net.Addr               { return &net.TCPAddr{} }
func (*fakeConn) SetDeadline(t time.Time) error      { return nil }
func (*fakeConn) SetReadDeadline(t time.Time) error  { return nil }
func (*fakeConn) SetWriteDeadline(t time.Time) error { return nil }

// capture returns the hello that crypto/tls sends.
func capture(tb testing.TB, config *tls.Config) []byte {
	tb.Helper()
	var conn fakeConn
	if err := tls.Client(&conn, config).Handshake(); !errors.Is(err, io.EOF) {
		tb.Fatalf("client handshake with nobody: %v", err)
	}
	return conn.out.Bytes()
}

// serverSees returns what crypto/tls reads from a hello.
func serverSees(wire []byte) (seen *tls.ClientHelloInfo) {
	var conn fakeConn
	conn.in.Reset(wire)
	tls.Server(&conn, &tls.Config{
		GetConfigForClient: func(info *tls.ClientHelloInfo) (*tls.Config, error) {
			seen = info
			return nil, errors.New("seen enough")
		},
	}).Handshake()
	return seen
}
