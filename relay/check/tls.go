package check

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/edgeward/edgeward/relay/health"
)

// handshake finishes a TLS handshake and then judges the certificate. Judging
// afterwards, not within, shows the other side a clean end in either case.
func (p *probe) handshake() error {
	if p.spec.Kind == TCP {
		return nil
	}
	c := tls.Client(p.conn, &tls.Config{
		ServerName:         p.spec.ServerName,
		NextProtos:         p.spec.ALPN,
		InsecureSkipVerify: true, // verified by verify, once the handshake is done
	})
	if err := c.Handshake(); err != nil {
		p.r.fail(fmt.Errorf("finishing the TLS handshake: %w", err), p.explainTLS(err))
		return err
	}
	p.tls = c
	leaf := c.ConnectionState().PeerCertificates[0]
	p.r.CertExpiry, p.r.CertSubject, p.r.CertNames = leaf.NotAfter, leaf.Subject.String(), names(leaf)
	if err := p.verify(c.ConnectionState().PeerCertificates); err != nil {
		p.r.fail(fmt.Errorf("verifying the certificate: %w", err), explainCert(err, leaf, p.spec.ServerName))
		return err
	}
	p.r.Level = health.Answer
	return nil
}

// verify does what crypto/tls would have done.
func (p *probe) verify(chain []*x509.Certificate) error {
	if p.spec.Insecure {
		return nil
	}
	opts := x509.VerifyOptions{DNSName: p.spec.ServerName, Intermediates: x509.NewCertPool()}
	if len(p.spec.RootsPEM) > 0 {
		opts.Roots = x509.NewCertPool()
		opts.Roots.AppendCertsFromPEM(p.spec.RootsPEM)
	}
	for _, c := range chain[1:] {
		opts.Intermediates.AddCert(c)
	}
	_, err := chain[0].Verify(opts)
	return err
}

// explainTLS says why a handshake failed. The commonest reason is a PROXY
// header that one side sends and the other does not expect.
func (p *probe) explainTLS(err error) string {
	if timedOut(err) {
		return "timed out in the TLS handshake"
	}
	what := "TLS handshake failed: " + err.Error()
	_, notTLS := errors.AsType[tls.RecordHeaderError](err)
	alert, isAlert := alertFrom(err)
	switch {
	case hungUp(err):
		what = "connection closed during the TLS handshake"
	case notTLS:
		what = "the answer is not TLS"
	case isAlert:
		what = "TLS handshake refused: " + alert
	}
	switch {
	case p.spec.ProxyProtocol > 0 && (hungUp(err) || notTLS || isAlert):
		return what + "; if the gateway does not expect the PROXY protocol, remove proxy_protocol"
	case hungUp(err):
		return what + "; if the gateway expects the PROXY protocol, set proxy_protocol"
	case isAlert:
		return what + "; does the gateway have a certificate for " + p.spec.ServerName + "?"
	}
	return what
}

// alertFrom returns the alert the other side sent, if it did. crypto/tls marks
// those as the operation "remote error" and does not export their type.
func alertFrom(err error) (alert string, ok bool) {
	op, ok := errors.AsType[*net.OpError](err)
	if !ok || op.Op != "remote error" {
		return "", false
	}
	return op.Err.Error(), true
}

// explainCert names what is wrong with a certificate.
func explainCert(err error, leaf *x509.Certificate, want string) string {
	if _, ok := errors.AsType[x509.HostnameError](err); ok {
		return fmt.Sprintf("certificate is not for %s, but for %s", want, listed(names(leaf)))
	}
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return fmt.Sprintf("certificate is by an unknown authority, %q: set roots if it is yours", leaf.Issuer)
	}
	invalid, ok := errors.AsType[x509.CertificateInvalidError](err)
	if !ok || invalid.Reason != x509.Expired || invalid.Cert == nil {
		return "certificate is not valid: " + err.Error()
	}
	who := "certificate"
	if !invalid.Cert.Equal(leaf) {
		who = fmt.Sprintf("certificate of the authority %q", invalid.Cert.Subject)
	}
	if time.Now().Before(invalid.Cert.NotBefore) {
		return who + " is not valid before " + stamp(invalid.Cert.NotBefore)
	}
	return who + " expired on " + stamp(invalid.Cert.NotAfter)
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 UTC") }

// names lists what a certificate is good for.
func names(c *x509.Certificate) []string {
	all := slices.Clone(c.DNSNames)
	for _, ip := range c.IPAddresses {
		all = append(all, ip.String())
	}
	return all
}

// listed joins names, but not hundreds of them.
func listed(all []string) string {
	const most = 5
	switch {
	case len(all) == 0:
		return "no name"
	case len(all) > most:
		return fmt.Sprintf("%s and %d more", strings.Join(all[:most], ", "), len(all)-most)
	}
	return strings.Join(all, ", ")
}
