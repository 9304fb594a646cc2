package probe

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/netip"
	"time"
)

// run makes the probe and says what came of it.
func (h *HTTPS) run(b budget, r *Result) {
	p := &peer{
		addr: h.Addr, name: h.Name, roots: h.Roots, shape: h.Shape, records: h.SplitRecords, dial: h.Dial, r: r,
	}
	defer p.close()
	f := p.connect(b)
	if f == nil {
		f = (&exchange{HTTPS: h, budget: b, r: r}).run(p.tls)
	}
	if f == nil {
		f = &fault{reason: OK}
	}
	r.conclude(f.reason, f.detail)
	r.Took = time.Since(r.Started)
	if f.reason == OK {
		p.goodbye()
	}
}

// peer is the other side of one connection.
type peer struct {
	addr    netip.AddrPort
	name    string
	roots   *x509.CertPool
	shape   Shape
	records bool
	dial    func(ctx context.Context, network, address string) (net.Conn, error)

	r    *Result // where the phases and the certificate are noted
	wire *wire
	tls  *tls.Conn
	stop func() bool
}

// connect dials and makes a handshake.
func (p *peer) connect(b budget) *fault {
	start := time.Now()
	conn, err := p.open(b)
	if err != nil {
		return b.judge(err, "connecting", Unreachable)
	}
	p.r.Connect = time.Since(start)
	p.wire, p.stop = newWire(b, conn)
	p.wire.split, p.wire.records = p.shape == Split, p.records
	start = time.Now()
	p.tls = tls.Client(p.wire, p.config())
	if err := p.tls.Handshake(); err != nil {
		return b.judge(err, "in the TLS handshake", BadTLS)
	}
	p.r.Handshake = time.Since(start)
	return nil
}

func (p *peer) open(ctx context.Context) (net.Conn, error) {
	if p.dial != nil {
		return p.dial(ctx, "tcp", p.addr.String())
	}
	dialer := net.Dialer{KeepAlive: -1} // it lives for seconds
	conn, err := dialer.DialTCP(ctx, "tcp", netip.AddrPort{}, p.addr)
	if err != nil {
		return nil, err // not a nil *net.TCPConn
	}
	return conn, nil
}

// Without CurvePreferences each probe would make a post-quantum key, half of what a
// handshake costs us.
var (
	ordinaryCurves    = []tls.CurveID{tls.X25519, tls.CurveP256, tls.CurveP384, tls.CurveP521}
	postQuantumCurves = []tls.CurveID{tls.X25519MLKEM768, tls.X25519, tls.CurveP256, tls.CurveP384, tls.CurveP521}
	alpn              = []string{"http/1.1"}
)

// config has no session cache: a resumed session would hide a changed certificate.
func (p *peer) config() *tls.Config {
	c := &tls.Config{
		ServerName:         p.name,
		MinVersion:         tls.VersionTLS12,
		NextProtos:         alpn,
		CurvePreferences:   ordinaryCurves,
		InsecureSkipVerify: true, // VerifyConnection does it
		VerifyConnection: func(s tls.ConnectionState) (err error) {
			p.r.Certificate, err = known.verify(s.PeerCertificates, p.name, p.roots, time.Now())
			return err
		},
	}
	if p.shape == PostQuantum {
		c.CurvePreferences = postQuantumCurves
	}
	return c
}

// Closing politely. Uncalibrated; a server close by closes at once.
const (
	goodbyeTime  = 200 * time.Millisecond
	goodbyeBytes = 64 << 10
)

// goodbye lets the server, which was asked to, end a good connection, and takes in
// what is still on its way: closing over it would be a reset, and a line in the
// server's log.
func (p *peer) goodbye() {
	end := time.Now().Add(goodbyeTime)
	if end.After(p.wire.limit) {
		end = p.wire.limit
	}
	if p.wire.ctx.Err() == nil && p.wire.SetReadDeadline(end) == nil {
		_, _ = io.CopyN(io.Discard, p.wire.Conn, goodbyeBytes)
	}
}

func (p *peer) close() {
	if p.wire == nil {
		return
	}
	_ = p.wire.flush() // an alert, if there is one
	p.stop()
	_ = p.wire.Conn.Close()
}

// String says which probe it is, without its headers.
func (h *HTTPS) String() string {
	return fmt.Sprintf("https://%s%s at %s", h.Name, h.Path, h.Addr)
}
