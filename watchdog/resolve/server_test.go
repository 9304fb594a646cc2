package resolve_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"io"
	"log"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/net/dns/dnsmessage"

	"github.com/edgeward/edgeward/watchdog/resolve"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	host = "dns.example.com"
	name = "edge-health.example.com"
)

// newCertificate makes a self-signed one that is its own authority.
func newCertificate(t *testing.T, dnsName string, expires time.Time) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, DNSNames: []string{dnsName},
		NotBefore: time.Now().Add(-48 * time.Hour), NotAfter: expires,
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(leaf)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool
}

// fake is a DNS-over-HTTPS server on loopback.
type fake struct {
	handle  http.HandlerFunc
	http1   bool      // speak nothing newer
	wrong   string    // the certificate's name, if it is another
	expires time.Time // of the certificate
}

func (f fake) start(t *testing.T) *resolve.Resolver {
	t.Helper()
	dnsName, expires := host, time.Now().Add(time.Hour)
	if f.wrong != "" {
		dnsName = f.wrong
	}
	if !f.expires.IsZero() {
		expires = f.expires
	}
	certificate, roots := newCertificate(t, dnsName, expires)
	s := httptest.NewUnstartedServer(f.handle)
	s.EnableHTTP2 = !f.http1
	s.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}}
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	return &resolve.Resolver{
		URL:             "https://" + host + "/dns-query",
		Addr:            netip.MustParseAddrPort(s.Listener.Addr().String()),
		Roots:           roots,
		AllowAnyAddress: true,
	}
}

// reply answers each question with what change makes of an empty answer to it.
func reply(change func(m *dnsmessage.Message)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var m dnsmessage.Message
		if err := m.Unpack(body); err != nil || r.Method != http.MethodPost || r.Host != host || r.URL.Path != "/dns-query" ||
			r.Header.Get("Content-Type") != "application/dns-message" || r.Header.Get("Accept") != "application/dns-message" {
			http.Error(w, "bad request", http.StatusBadRequest)
			return
		}
		m.Response, m.RecursionAvailable = true, true
		change(&m)
		message, err := m.Pack()
		if err != nil {
			panic(err)
		}
		w.Header().Set("Content-Type", "application/dns-message")
		_, _ = w.Write(message)
	}
}

// addresses answers with records of the asked name.
func addresses(list ...string) http.HandlerFunc {
	return reply(func(m *dnsmessage.Message) {
		for _, a := range list {
			m.Answers = append(m.Answers, record(m.Questions[0].Name.String(), a, 60))
		}
	})
}

func failing(code dnsmessage.RCode) http.HandlerFunc {
	return reply(func(m *dnsmessage.Message) { m.RCode = code })
}

// hold answers nothing while the client waits.
func hold(_ http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	<-r.Context().Done()
}

// record makes an A or AAAA record, or an alias if value is no address.
func record(owner, value string, ttl uint32) dnsmessage.Resource {
	res := dnsmessage.Resource{Header: dnsmessage.ResourceHeader{Name: fqdn(owner), Class: dnsmessage.ClassINET, TTL: ttl}}
	addr, err := netip.ParseAddr(value)
	switch {
	case err != nil:
		res.Body = &dnsmessage.CNAMEResource{CNAME: fqdn(value)}
	case addr.Is4():
		res.Body = &dnsmessage.AResource{A: addr.As4()}
	default:
		res.Body = &dnsmessage.AAAAResource{AAAA: addr.As16()}
	}
	return res
}

func fqdn(s string) dnsmessage.Name {
	return dnsmessage.MustNewName(strings.TrimSuffix(s, ".") + ".")
}
