package peer_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"log/slog"
	"math/big"
	"net"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/edgeward/edgeward/internal/homecert"
	"github.com/edgeward/edgeward/watchdog/fallback/control"
	"github.com/edgeward/edgeward/watchdog/fallback/peer"
)

// patience is for a machine that has other things to do.
const patience = 30 * time.Second

// authority signs certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// must returns v if there is no error.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func newAuthority(t testing.TB) *authority {
	key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	der := must(x509.CreateCertificate(rand.Reader, template, template, key.Public(), key))
	return &authority{must(x509.ParseCertificate(der)), key}
}

// sign returns a certificate with these URIs.
func (a *authority) sign(t testing.TB, uris ...string) tls.Certificate {
	key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "edgeward://home/a"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	for _, u := range uris {
		template.URIs = append(template.URIs, must(url.Parse(u)))
	}
	der := must(x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key))
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// source is that of a home that believes this authority.
func (a *authority) source(cert tls.Certificate) peer.Source {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return func() (*tls.Config, error) {
		return &tls.Config{Certificates: []tls.Certificate{cert}, ClientCAs: pool, RootCAs: pool}, nil
	}
}

func (a *authority) home(t testing.TB, id string) peer.Source {
	return a.source(a.sign(t, homecert.URI(id).String()))
}

// call is what the service was asked.
type call struct {
	action           peer.Action
	from, home, item string
	epoch            uint64
}

// service answers what it is told to.
type service struct {
	mu    sync.Mutex
	calls []call
	do    func(ctx context.Context, c call) error
	seen  control.Seen
	id    string
}

func (s *service) asked(ctx context.Context, c call) error {
	s.mu.Lock()
	s.calls = append(s.calls, c)
	s.mu.Unlock()
	if s.do != nil {
		return s.do(ctx, c)
	}
	return nil
}

func (s *service) last() call {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.calls) == 0 {
		return call{}
	}
	return s.calls[len(s.calls)-1]
}

func (s *service) Status(ctx context.Context, from string) (control.PeerStatus, error) {
	return control.PeerStatus{ID: s.id, Version: "v1.2.3", Healthy: true}, s.asked(ctx, call{peer.ActionStatus, from, "", "", 0})
}

func (s *service) Preflight(ctx context.Context, from, home string) ([]control.Finding, error) {
	return []control.Finding{{Check: "docker", OK: true, Detail: "up"}}, s.asked(ctx, call{peer.ActionPreflight, from, home, "", 0})
}

func (s *service) Prove(ctx context.Context, from, home, item string) (control.Seen, error) {
	return s.seen, s.asked(ctx, call{peer.ActionProve, from, home, item, 0})
}

func (s *service) StartItem(ctx context.Context, from, home, item string, epoch uint64) error {
	return s.asked(ctx, call{peer.ActionStart, from, home, item, epoch})
}

func (s *service) StopItem(ctx context.Context, from, home, item string, epoch uint64) error {
	return s.asked(ctx, call{peer.ActionStop, from, home, item, epoch})
}

// rig is home b, which lets home a ask.
type rig struct {
	ca      *authority
	service *service
	server  *peer.Server
	address string
	refused chan peer.Code
	cancel  context.CancelFunc
	ended   chan error
}

func newRig(t *testing.T, change func(*peer.ServerConfig)) *rig {
	t.Helper()
	r := &rig{ca: newAuthority(t), service: &service{id: "b", seen: control.Seen{Running: control.RunningStopped}}, refused: make(chan peer.Code, 100), ended: make(chan error, 1)}
	config := peer.ServerConfig{
		Self: "b", Homes: func(id string) bool { return id == "a" || id == "b" }, Service: r.service, TLS: r.ca.home(t, "b"),
		Refused: func(c peer.Code) {
			select {
			case r.refused <- c:
			default:
			}
		},
		Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	}
	if change != nil {
		change(&config)
	}
	r.server = must(peer.NewServer(config))
	ln := must(net.Listen("tcp", "127.0.0.1:0"))
	r.address = ln.Addr().String()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	r.cancel = cancel
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.ended <- r.server.Run(ctx, ln)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return r
}

// client is that of home a, which wants to ask home b.
func (r *rig) client(t *testing.T, source peer.Source) *peer.Client {
	t.Helper()
	if source == nil {
		source = r.ca.home(t, "a")
	}
	c := must(peer.NewClient(peer.ClientConfig{Self: "a", Home: "b", Address: r.address, TLS: source}))
	t.Cleanup(c.Close)
	return c
}

func (r *rig) wantRefused(t *testing.T, want peer.Code) {
	t.Helper()
	select {
	case got := <-r.refused:
		if got != want {
			t.Errorf("refused with %s, want %s", got, want)
		}
	case <-time.After(patience):
		t.Errorf("nobody was told of a refusal, want %s", want)
	}
}
