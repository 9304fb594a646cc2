package e2e_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// authority is a certificate authority for tests.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
	pool *x509.CertPool
}

// ca is the one that visitors trust; stranger is one that they do not.
var (
	ca       = sync.OnceValue(func() *authority { return newAuthority("Test CA") })
	stranger = sync.OnceValue(func() *authority { return newAuthority("Stranger CA") })
)

func newAuthority(name string) *authority {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-48 * time.Hour), NotAfter: time.Now().Add(48 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		panic(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		panic(err)
	}
	a := &authority{cert: cert, key: key, pool: x509.NewCertPool()}
	a.pem = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	a.pool.AddCert(cert)
	return a
}

// leaf is a certificate for names, good until notAfter, whose subject tells whose
// it is.
func (a *authority) leaf(t testing.TB, owner string, notAfter time.Time, names ...string) tls.Certificate {
	t.Helper()
	key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	template := &x509.Certificate{
		SerialNumber: must(rand.Int(rand.Reader, big.NewInt(1<<62)))(t), Subject: pkix.Name{CommonName: owner},
		NotBefore: time.Now().Add(-24 * time.Hour), NotAfter: notAfter, DNSNames: names,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, KeyUsage: x509.KeyUsageDigitalSignature,
	}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		}
	}
	der := must(x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key))(t)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// good is a certificate that visitors of example.test accept.
func good(t testing.TB, owner string) tls.Certificate {
	t.Helper()
	return ca().leaf(t, owner, time.Now().Add(24*time.Hour), "example.test", "*.example.test")
}

// files writes a certificate and its key as PEM, and the CA beside them.
func files(t testing.TB, c tls.Certificate) (cert, key string) {
	t.Helper()
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	der := must(x509.MarshalPKCS8PrivateKey(c.PrivateKey))(t)
	for path, data := range map[string][]byte{
		cert: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Certificate[0]}),
		key:  pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}),
	} {
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}

// caFile is the CA's certificate on disk.
func caFile(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(path, bytes.Clone(ca().pem), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}
