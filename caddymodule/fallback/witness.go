package fallback

import (
	"context"
	"crypto/x509"
	"net"
	"time"

	"github.com/edgeward/edgeward/internal/evidence"
	"github.com/edgeward/edgeward/watchdog/probe"
)

// witnessTime is how long a witness may take.
const witnessTime = 3 * time.Second

// witness is one server that tests our own connection.
type witness struct {
	target  probe.Target
	timeout time.Duration
	roots   *x509.CertPool
}

// look asks once. A server without a name has only to take a connection.
func (w witness) look(ctx context.Context) evidence.Value {
	if w.target.Name != "" {
		p := probe.Witness{Targets: []probe.Target{w.target}, Need: 1, Timeout: w.timeout, Roots: w.roots}
		return p.Run(ctx).Value
	}
	limit, cancel := context.WithTimeout(ctx, w.timeout)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(limit, "tcp", w.target.Addr.String())
	switch {
	case err == nil:
		_ = conn.Close()
		return evidence.Good
	case ctx.Err() != nil:
		return evidence.Unknown // nobody waits any more
	}
	return evidence.Bad
}
