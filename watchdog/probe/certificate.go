package probe

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
)

// Certificate describes the one that was shown, also if it was refused.
type Certificate struct {
	NotBefore, NotAfter time.Time
	Subject, Issuer     string
	SHA256              string // of the whole certificate, in hex
	Verified            bool   // valid, by a trusted authority, and for the name
}

func describe(leaf *x509.Certificate) Certificate {
	sum := sha256.Sum256(leaf.Raw)
	return Certificate{
		NotBefore: leaf.NotBefore, NotAfter: leaf.NotAfter,
		Subject: clip(leaf.Subject.String()), Issuer: clip(leaf.Issuer.String()),
		SHA256: hex.EncodeToString(sum[:]),
	}
}

// chainKey is what a verdict on a chain depends on, besides the time. The pool is
// held by it, so its address cannot come to mean another.
type chainKey struct {
	roots *x509.CertPool
	name  string
	chain [sha256.Size]byte
}

// verdict is a chain that was found good.
type verdict struct {
	certificate Certificate
	from, until time.Time // when all of the chain is valid
	// parsed keeps crypto/tls from parsing the same bytes anew each time.
	parsed []*x509.Certificate
}

// maxVerdicts bounds the memory: a verdict is a few kB. More chains than that in
// turn are verified each time.
const maxVerdicts = 512

// verdicts remembers which chains were verified. Checking the signatures of a
// chain costs as much as the handshake around it, and a site shows the same chain
// in each probe. The handshake itself, with its proof that the server has the key,
// is a full one each time.
type verdicts struct {
	mu  sync.Mutex
	all map[chainKey]verdict
}

var known = verdicts{all: make(map[chainKey]verdict)}

// verify does what crypto/tls would have done, and describes the certificate.
func (v *verdicts) verify(chain []*x509.Certificate, name string, roots *x509.CertPool, now time.Time) (Certificate, error) {
	if len(chain) == 0 {
		return Certificate{}, &certificateError{detail: "no certificate was shown"}
	}
	key := chainKey{roots, name, digest(chain)}
	if seen, ok := v.get(key); ok && !now.Before(seen.from) && !now.After(seen.until) {
		return seen.certificate, nil
	}
	certificate := describe(chain[0])
	options := x509.VerifyOptions{DNSName: name, Roots: roots, Intermediates: x509.NewCertPool(), CurrentTime: now}
	for _, c := range chain[1:] {
		options.Intermediates.AddCert(c)
	}
	paths, err := chain[0].Verify(options)
	if err != nil {
		return certificate, &certificateError{explain(err, chain[0], name, now), err}
	}
	certificate.Verified = true
	from, until := validity(paths)
	v.put(key, verdict{certificate, from, until, chain})
	return certificate, nil
}

func (v *verdicts) get(key chainKey) (verdict, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	seen, ok := v.all[key]
	return seen, ok
}

func (v *verdicts) put(key chainKey, good verdict) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.all) >= maxVerdicts {
		for old := range v.all { // any
			delete(v.all, old)
			break
		}
	}
	v.all[key] = good
}

func digest(chain []*x509.Certificate) (sum [sha256.Size]byte) {
	h := sha256.New()
	for _, c := range chain {
		h.Write(c.Raw) // DER says its own length, so no two chains read the same
	}
	h.Sum(sum[:0])
	return sum
}

// validity is when all certificates of one path to a root are valid: of the path
// that lasts longest.
func validity(paths [][]*x509.Certificate) (from, until time.Time) {
	for _, path := range paths {
		first, last := path[0].NotBefore, path[0].NotAfter
		for _, c := range path[1:] {
			if c.NotBefore.After(first) {
				first = c.NotBefore
			}
			if c.NotAfter.Before(last) {
				last = c.NotAfter
			}
		}
		if last.After(until) {
			from, until = first, last
		}
	}
	return from, until
}

// certificateError is a certificate that was refused.
type certificateError struct {
	detail string
	cause  error
}

func (e *certificateError) Error() string { return e.detail }
func (e *certificateError) Unwrap() error { return e.cause }

// explain says what is wrong with a certificate.
func explain(err error, leaf *x509.Certificate, name string, now time.Time) string {
	if _, ok := errors.AsType[x509.HostnameError](err); ok {
		return fmt.Sprintf("certificate is not for %s, but for %s", name, namesOf(leaf))
	}
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return fmt.Sprintf("certificate is by an unknown authority, %s", leaf.Issuer)
	}
	invalid, ok := errors.AsType[x509.CertificateInvalidError](err)
	if !ok || invalid.Reason != x509.Expired || invalid.Cert == nil {
		return "certificate is not valid: " + err.Error()
	}
	who := "certificate"
	if !invalid.Cert.Equal(leaf) {
		who = fmt.Sprintf("certificate of the authority %s", invalid.Cert.Subject)
	}
	if now.Before(invalid.Cert.NotBefore) {
		return who + " is not valid before " + invalid.Cert.NotBefore.UTC().Format(time.RFC3339)
	}
	return who + " expired at " + invalid.Cert.NotAfter.UTC().Format(time.RFC3339)
}

func namesOf(c *x509.Certificate) string {
	const most = 3
	names := c.DNSNames
	for _, ip := range c.IPAddresses {
		names = append(names[:len(names):len(names)], ip.String())
	}
	if len(names) == 0 {
		return "no name"
	}
	if more := len(names) - most; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), more)
	}
	return strings.Join(names, ", ")
}
