// Package proxyproto reads and writes the PROXY protocol header as the relay
// needs it: from a byte slice that may still grow, and to one. The format itself
// is left to github.com/pires/go-proxyproto.
package proxyproto

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/pires/go-proxyproto"
)

// Header is what a header says. Source is invalid for a connection that the
// proxy made on its own behalf (LOCAL, UNKNOWN) or over another protocol.
type Header struct {
	Source      netip.AddrPort
	Destination netip.AddrPort
}

// Sizes of the specification, version 2020-03-05, sections 2.1 and 2.2.
const (
	maxV1    = 107 // bytes with CRLF
	fixedV2  = 16  // bytes before the addresses
	maxBlock = 4 << 10
)

var (
	signatureV1 = []byte("PROXY ")
	signatureV2 = []byte("\r\n\r\n\x00\r\nQUIT\n")
)

// ErrNone says that the bytes are no PROXY header.
var ErrNone = errors.New("no PROXY header where a trusted proxy must send one")

// Parse reads the header at the start of b. n is its length, 0 while b is too
// short to tell.
func Parse(b []byte) (h Header, n int, err error) {
	switch n, err = length(b); {
	case err != nil || n == 0:
		return h, 0, err
	}
	if unspecified(b) {
		return h, n, nil
	}
	parsed, err := proxyproto.Read(bufio.NewReader(bytes.NewReader(b[:n])))
	if err != nil {
		return h, 0, fmt.Errorf("reading PROXY header: %w", err)
	}
	if src, dst, ok := parsed.TCPAddrs(); ok && parsed.Command.IsProxy() {
		h.Source, h.Destination = unmap(src), unmap(dst)
	}
	return h, n, nil
}

// unspecified tells whether a complete header is of version 2, proxied, of no
// family: the receiver takes the connection as it is (section 2.2, AF_UNSPEC).
func unspecified(b []byte) bool {
	return b[0] == signatureV2[0] && b[12] == 0x21 && b[13] == 0
}

func unmap(a *net.TCPAddr) netip.AddrPort {
	ap := a.AddrPort()
	return netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
}

// length tells how long the header is, 0 for unknown yet.
func length(b []byte) (int, error) {
	switch {
	case begins(b, signatureV2):
		if len(b) < fixedV2 {
			return 0, nil
		}
		n := fixedV2 + int(binary.BigEndian.Uint16(b[14:]))
		if n > maxBlock {
			return 0, fmt.Errorf("PROXY header of %d bytes", n)
		}
		if len(b) < n {
			return 0, nil
		}
		return n, nil
	case begins(b, signatureV1):
		if i := bytes.IndexByte(b, '\n'); i >= 0 && i < maxV1 {
			return i + 1, nil
		}
		if len(b) >= maxV1 {
			return 0, errors.New("PROXY header without an end")
		}
		return 0, nil
	}
	return 0, ErrNone
}

// begins tells whether b and signature agree as far as both go.
func begins(b, signature []byte) bool {
	n := min(len(b), len(signature))
	return bytes.Equal(b[:n], signature[:n])
}

// Append appends a header of the given version (1 or 2) for a connection from
// src to dst.
func Append(b []byte, version byte, src, dst netip.AddrPort) []byte {
	h := proxyproto.HeaderProxyFromAddrs(version, net.TCPAddrFromAddrPort(src), net.TCPAddrFromAddrPort(dst))
	text, err := h.Format()
	if err != nil {
		// Only addresses of mixed families or unknown versions: say nothing of
		// the source rather than something wrong.
		text, _ = (&proxyproto.Header{Version: version, Command: proxyproto.LOCAL, TransportProtocol: proxyproto.UNSPEC}).Format()
	}
	return append(b, text...)
}
