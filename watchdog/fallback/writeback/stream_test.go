package writeback_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"math/big"
	"net"
	"net/url"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/edgeward/edgeward/internal/homecert"
	"github.com/edgeward/edgeward/watchdog/fallback/control"
	"github.com/edgeward/edgeward/watchdog/fallback/peer"
	"github.com/edgeward/edgeward/watchdog/fallback/writeback"
)

// stream is what a writeback's streams are called at a peer.
const stream = "rsync"

// authority signs certificates of homes.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "homes"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	must(t, err)
	cert, err := x509.ParseCertificate(der)
	must(t, err)
	return authority{cert, key}
}

func (a authority) home(t *testing.T, id string) peer.Source {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), URIs: []*url.URL{homecert.URI(id)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	must(t, err)
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return func() (*tls.Config, error) {
		return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, RootCAs: pool, ClientCAs: pool}, nil
	}
}

// service is a home that answers nothing.
type service struct{ control.Service }

// The streams that homes really have: mutual TLS, and an end that must be said.
func TestOverPeer(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ca := newAuthority(t)
	ended := make(chan error, 100)
	server, err := peer.NewServer(peer.ServerConfig{
		Self: "cellar", Homes: func(id string) bool { return id == "attic" }, Service: service{}, TLS: ca.home(t, "cellar"),
	})
	must(t, err)
	server.Stream(stream, func(ctx context.Context, from string, conn net.Conn, _ peer.Header) error {
		err := r.theServer().Serve(ctx, from, conn)
		ended <- err
		return err
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- server.Run(ctx, l) }()
	defer func() {
		cancel()
		<-done
	}()
	client, err := peer.NewClient(peer.ClientConfig{Self: "attic", Home: "cellar", Address: l.Addr().String(), TLS: ca.home(t, "attic")})
	must(t, err)
	defer client.Close()
	r.client.Dial = func(ctx context.Context, _ string) (net.Conn, error) { return client.Dial(ctx, stream, nil) }

	big := noise(300 << 10)
	plant(t, r.here, tree{"a": {"new", 5}, "big": {big, 5}, "c": {"ours", 1}})
	plant(t, r.there, tree{"a": {"old", -5}, "c": {"theirs", 2}})
	carried := r.must()
	want := map[string]string{"a": "new", "big": big, "c": "theirs", "c" + beside: "ours"}
	if diff := cmp.Diff(want, texts(t, r.there)); diff != "" {
		t.Error("something differs")
	}
	undone(t, carried.Undo, map[string]string{"files/a": "old"})

	r.mu.Lock()
	r.deny = errors.New("app is not proven stopped")
	r.mu.Unlock()
	if _, err := r.do(); !errors.Is(err, writeback.ErrRefused) {
		t.Errorf("got %v", err)
	}
	r.mu.Lock()
	streams := len(r.helloed)
	r.mu.Unlock()
	for n := range streams {
		if err := <-ended; err != nil && n < streams-1 {
			t.Errorf("stream %d ended with %v", n, err)
		}
	}
}
