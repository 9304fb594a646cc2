package check_test

import (
	"bytes"
	"crypto/tls"
	"io"
	"net"
	"testing"

	"github.com/edgeward/edgeward/relay/check"
)

// TestCloseNotify: a TLS check ends with an alert, not with a bare FIN. Under
// TLS 1.2 the type of a record can be read from outside.
func TestCloseNotify(t *testing.T) {
	ca := newAuthority(t)
	cfg := &tls.Config{Certificates: []tls.Certificate{ca.issue(t, nil)}, MaxVersion: tls.VersionTLS12}
	var seen bytes.Buffer
	s := serve(t, func(c net.Conn) error { return overTLS(cfg, nil)(spied{c, io.TeeReader(c, &seen)}) })
	spec := check.Spec{Kind: check.TLS, ServerName: serverName, RootsPEM: ca.pem}
	if r := check.Run(t.Context(), spec, s.addr, nil); !r.OK {
		t.Fatalf("%+v", r)
	}
	if err := <-s.ended; err != nil {
		t.Fatal(err)
	}
	const alert = 21 // RFC 5246, section 6.2.1
	var last byte
	for b := seen.Bytes(); len(b) >= 5; {
		last = b[0]
		b = b[min(len(b), 5+int(b[3])<<8+int(b[4])):]
	}
	if last != alert {
		t.Errorf("the last record is of type %d, want an alert, %d", last, alert)
	}
}

// spied is a connection whose reads are copied.
type spied struct {
	net.Conn
	r io.Reader
}

func (s spied) Read(b []byte) (int, error) { return s.r.Read(b) }

// TestNoReset: what the server says is taken in before closing, also from one
// that is late to notice the end; closing over it would be a reset.
func TestNoReset(t *testing.T) {
	done := make(chan struct{})
	s := serve(t, func(c net.Conn) error {
		if _, err := io.WriteString(c, "220 ready\r\n"); err != nil {
			return err
		}
		<-done
		return untilEOF(c)
	})
	r := check.Run(t.Context(), check.Spec{}, s.addr, nil)
	close(done)
	if err := <-s.ended; err != nil || !r.OK {
		t.Errorf("the server logs: %v; %+v", err, r)
	}
}
