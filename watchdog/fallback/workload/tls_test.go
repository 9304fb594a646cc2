package workload_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/edgeward/edgeward/watchdog/fallback"
	"github.com/edgeward/edgeward/watchdog/fallback/control"
	"github.com/edgeward/edgeward/watchdog/fallback/workload"
)

// pki writes a certificate that is its own authority, for 127.0.0.1 and for who asks.
func pki(t *testing.T, dir string) (*x509.CertPool, tls.Certificate) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage:    x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	must(t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	must(t, err)
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	must(t, os.WriteFile(dir+"/cert.pem", cert, 0o600))
	must(t, os.WriteFile(dir+"/key.pem", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o600))
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(cert)
	return pool, tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// TestDockerTLS: with certificates on both sides, read anew at each use.
func TestDockerTLS(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	pool, cert := pki(t, dir)
	pki(t, other)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	server := &http.Server{Handler: &engine{}, TLSConfig: &tls.Config{
		Certificates: []tls.Certificate{cert}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert,
	}}
	go server.ServeTLS(ln, "", "")
	defer server.Close()
	it := fallback.Item{Name: "web", Kind: fallback.KindContainer}
	for _, tt := range []struct{ name, ca, cert, key, fails string }{
		{"well", dir + "/cert.pem", dir + "/cert.pem", dir + "/key.pem", ""},
		{"who asks is nobody", dir + "/cert.pem", other + "/cert.pem", other + "/key.pem", "tls"},
		{"who answers is nobody", other + "/cert.pem", dir + "/cert.pem", dir + "/key.pem", "unknown authority"},
		{"half of it", dir + "/cert.pem", dir + "/cert.pem", "", "three files"},
		{"no file", dir + "/cert.pem", dir + "/none.pem", dir + "/key.pem", "none.pem"},
		{"no TLS", "", "", "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := open(t, t.TempDir(), workload.Config{Docker: &workload.Docker{
				Host: "tcp://" + ln.Addr().String(), CA: tt.ca, Cert: tt.cert, Key: tt.key,
			}})
			seen, err := w.Look(t.Context(), it)
			well := tt.name == "well"
			if well != (err == nil && seen.Running == control.RunningWell) || err != nil && !strings.Contains(err.Error(), tt.fails) {
				t.Errorf("%v, %v, want %q", seen, err, tt.fails)
			}
		})
	}
}
