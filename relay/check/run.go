package check

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	proxyproto "github.com/pires/go-proxyproto"

	"github.com/edgeward/edgeward/relay/health"
)

// Dialer opens a connection; net.Dialer.DialContext is one.
type Dialer func(ctx context.Context, network, address string) (net.Conn, error)

// Run makes one check of address, a host:port or the path of a unix socket. A
// nil dial means a plain net.Dialer. A ctx that ends before the spec's timeout
// makes the result unknown. Run itself returns within the timeout, plus a
// fraction of a second to close politely.
func Run(ctx context.Context, spec Spec, address string, dial Dialer) Result {
	var r Result
	if err := spec.Validate(); err != nil {
		r.fail(fmt.Errorf("checking the settings: %w", err), "")
		r.Unknown, r.Firm = true, false
		return r
	}
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	spec = spec.withDefaults()
	start := time.Now()
	checkCtx, cancel := context.WithTimeout(ctx, spec.Timeout)
	defer cancel()
	p := probe{spec: spec, address: address, r: &r}
	p.run(checkCtx, dial)
	r.Latency = time.Since(start)
	if !r.OK && ctx.Err() != nil {
		r.fail(context.Cause(ctx), "cancelled")
		r.Unknown, r.Firm = true, false
	}
	p.hangUp()
	return r
}

// probe is one check on its way.
type probe struct {
	spec    Spec
	address string
	r       *Result
	conn    net.Conn  // the bare connection
	tls     *tls.Conn // on top of it, once its handshake is done
}

// run goes as deep as the kind says, or until something fails.
func (p *probe) run(ctx context.Context, dial Dialer) {
	conn, err := dial(ctx, network(p.address), p.address)
	if err != nil {
		p.r.fail(fmt.Errorf("connecting: %w", err), "")
		return
	}
	p.conn = conn
	p.r.Level = health.Connect
	stop := p.deadline(ctx)
	defer stop()
	for _, step := range []func() error{p.greet, p.handshake, p.request} {
		if err := step(); err != nil {
			return
		}
		if p.r.Level == p.spec.Kind.Level() {
			break
		}
	}
	p.r.OK = true
}

// deadline ends all reads and writes when ctx ends.
func (p *probe) deadline(ctx context.Context) (stop func() bool) {
	if d, ok := ctx.Deadline(); ok {
		_ = p.conn.SetDeadline(d) // fails on a closed connection only, as the next read will
	}
	conn := p.conn
	return context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
}

// greet sends the PROXY header, with our own addresses as a visitor's would be.
func (p *probe) greet() error {
	if p.spec.ProxyProtocol == 0 {
		return nil
	}
	h := proxyproto.HeaderProxyFromAddrs(byte(p.spec.ProxyProtocol), p.conn.LocalAddr(), p.conn.RemoteAddr())
	if _, err := h.WriteTo(p.conn); err != nil {
		p.r.fail(fmt.Errorf("sending the PROXY header: %w", err), "")
		return err
	}
	return nil
}

// Closing politely: uncalibrated; a backend close by answers a close_notify at
// once, and one that does not is not waited for.
const (
	hangUpTime  = 200 * time.Millisecond
	hangUpBytes = MaxBodyBytes
)

// hangUp says goodbye and takes in what is still on its way, because closing
// with unread bytes resets the connection and puts an error in the log of the
// other side. A check that failed by itself has nobody to be polite to.
func (p *probe) hangUp() {
	if p.conn == nil {
		return
	}
	defer p.conn.Close()
	if p.r.Err != nil && (p.tls == nil || p.r.Unknown || timedOut(p.r.Err) || hungUp(p.r.Err)) {
		return
	}
	_ = p.conn.SetDeadline(time.Now().Add(hangUpTime))
	if p.tls != nil {
		_ = p.tls.CloseWrite()
	}
	if half, ok := p.conn.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
	_, _ = io.CopyN(io.Discard, p.conn, hangUpBytes)
}

func network(address string) string {
	if strings.HasPrefix(address, "/") || strings.HasPrefix(address, "@") {
		return "unix"
	}
	return "tcp"
}

func isEOF(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) }
