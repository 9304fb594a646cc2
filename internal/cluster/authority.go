package cluster

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net/url"
	"time"

	"github.com/edgeward/edgeward/internal/homecert"
)

// authority signs the members' certificates. Every member has it: any one may be the
// one that is lost, and whoever votes can do all that a certificate allows anyway.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

const (
	// serverName is in every certificate: members are known by the authority that
	// signed them, not by where they are, which may change.
	serverName = "member.edgeward.internal"

	authorityYears = 30
	memberYears    = 2
	// grace is for clocks that are behind.
	grace = 24 * time.Hour
)

func newAuthority(now time.Time) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: serial(), Subject: pkix.Name{CommonName: "Edgeward cluster"},
		NotBefore: now.Add(-grace), NotAfter: now.AddDate(authorityYears, 0, 0),
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature, BasicConstraintsValid: true, IsCA: true, MaxPathLenZero: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("making the cluster's authority: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	return &authority{cert, key}, err
}

// issue signs a member's key. The certificate is both a server's and a client's.
func (a *authority) issue(name string, public any, now time.Time) ([]byte, error) {
	end := now.AddDate(memberYears, 0, 0)
	if end.After(a.cert.NotAfter) {
		end = a.cert.NotAfter
	}
	template := &x509.Certificate{
		SerialNumber: serial(), Subject: pkix.Name{CommonName: name}, DNSNames: []string{serverName}, URIs: []*url.URL{homecert.URI(name)},
		NotBefore: now.Add(-grace), NotAfter: end, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, public, a.key)
	if err != nil {
		return nil, fmt.Errorf("issuing the certificate of %s: %w", name, err)
	}
	return der, nil
}

func serial() *big.Int {
	b := make([]byte, 16)
	_, _ = rand.Read(b)
	return new(big.Int).SetBytes(b)
}

func newKey() (*ecdsa.PrivateKey, error) { return ecdsa.GenerateKey(elliptic.P256(), rand.Reader) }

// The PEM types of what is kept and sent.
const (
	pemCert    = "CERTIFICATE"
	pemKey     = "PRIVATE KEY"
	pemRequest = "CERTIFICATE REQUEST"
)

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	return encode(pemKey, der), err
}

func decode(kind string, text []byte) ([]byte, error) {
	block, _ := pem.Decode(text)
	if block == nil || block.Type != kind {
		return nil, fmt.Errorf("want a PEM block %s", kind)
	}
	return block.Bytes, nil
}

func parseCert(text []byte) (*x509.Certificate, error) {
	der, err := decode(pemCert, text)
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}

func parseKey(text []byte) (*ecdsa.PrivateKey, error) {
	der, err := decode(pemKey, text)
	if err != nil {
		return nil, err
	}
	any, err := x509.ParsePKCS8PrivateKey(der)
	if err != nil {
		return nil, err
	}
	key, ok := any.(*ecdsa.PrivateKey)
	if !ok {
		return nil, errors.New("want an ECDSA key")
	}
	return key, nil
}

// parseAuthority takes what was sent or kept. The two must belong together.
func parseAuthority(cert, key []byte) (*authority, error) {
	c, err := parseCert(cert)
	if err != nil {
		return nil, fmt.Errorf("reading the authority's certificate: %w", err)
	}
	k, err := parseKey(key)
	if err != nil {
		return nil, fmt.Errorf("reading the authority's key: %w", err)
	}
	if !c.IsCA || !k.PublicKey.Equal(c.PublicKey) {
		return nil, errors.New("the authority's key is not that of its certificate")
	}
	return &authority{c, k}, nil
}

// requested reads a request to sign a key, which its sender must have.
func requested(text []byte) (public any, err error) {
	der, err := decode(pemRequest, text)
	if err != nil {
		return nil, err
	}
	req, err := x509.ParseCertificateRequest(der)
	if err != nil {
		return nil, err
	}
	if err := req.CheckSignature(); err != nil {
		return nil, err
	}
	key, ok := req.PublicKey.(*ecdsa.PublicKey)
	if !ok {
		return nil, errors.New("want an ECDSA key")
	}
	return key, nil
}

func request(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	return encode(pemRequest, der), err
}
