package peer

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/edgeward/edgeward/internal/homecert"
)

// Source returns what a side of a connection shows and whom it believes: Certificates (or
// GetCertificate and GetClientCertificate), ClientCAs for the homes that ask, RootCAs for
// those that are asked. It is called for each handshake, so what it returns may change.
// All the rest is set here.
type Source func() (*tls.Config, error)

// serverTLS is what the server does at each handshake.
func serverTLS(source Source) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			c, err := base(source)
			if err != nil {
				return nil, err
			}
			if c.ClientCAs == nil { // the system's would be anybody
				return nil, errors.New("no authority is configured for homes that ask")
			}
			c.ClientAuth = tls.RequireAndVerifyClientCert
			return c, nil
		},
	}
}

// clientTLS is what a client does at its next handshake: the other side must be that home.
func clientTLS(source Source, home string) (*tls.Config, error) {
	c, err := base(source)
	if err != nil {
		return nil, err
	}
	if c.RootCAs == nil {
		return nil, errors.New("no authority is configured for homes that are asked")
	}
	roots := c.RootCAs
	c.ServerName = ""
	// A home is known by its id and not by an address: verified below, with the chain.
	c.InsecureSkipVerify = true
	c.VerifyConnection = func(s tls.ConnectionState) error { return verify(s, roots, home) }
	return c, nil
}

// base takes from the source what is the source's to say.
func base(source Source) (*tls.Config, error) {
	from, err := source()
	if err != nil {
		return nil, fmt.Errorf("certificates: %w", err)
	}
	return &tls.Config{
		MinVersion:           tls.VersionTLS13,
		NextProtos:           []string{"http/1.1"},
		Certificates:         from.Certificates,
		GetCertificate:       from.GetCertificate,
		GetClientCertificate: from.GetClientCertificate,
		ClientCAs:            from.ClientCAs,
		RootCAs:              from.RootCAs,
		Time:                 from.Time,
		// A resumed session would outlive a change of certificates.
		SessionTicketsDisabled: true,
	}, nil
}

func verify(s tls.ConnectionState, roots *x509.CertPool, home string) error {
	if len(s.PeerCertificates) == 0 {
		return errors.New("the other side shows no certificate")
	}
	intermediates := x509.NewCertPool()
	for _, c := range s.PeerCertificates[1:] {
		intermediates.AddCert(c)
	}
	_, err := s.PeerCertificates[0].Verify(x509.VerifyOptions{
		Roots: roots, Intermediates: intermediates, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	if err != nil {
		return err
	}
	id, err := homecert.Home(s.PeerCertificates[0], validName)
	if err == nil && id != home {
		err = fmt.Errorf("home %s answers where %s should be", id, home)
	}
	return err
}

// Files returns a Source that reads PEM files, and reads them again when they change. New
// ones that can't be used, for one of the three is not there yet, don't replace old ones.
func Files(cert, key, ca string, log *slog.Logger) Source {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	f := &files{names: [3]string{cert, key, ca}, log: log}
	return f.config
}

type files struct {
	names [3]string
	log   *slog.Logger

	mu      sync.Mutex
	stamps  [3]stamp
	current *tls.Config
	err     error // of the last change
}

// stamp says whether a file is another one.
type stamp struct {
	size int64
	at   time.Time
}

func (f *files) config() (*tls.Config, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if stamps := f.look(); f.current == nil || stamps != f.stamps {
		next, err := f.read()
		switch {
		case err == nil:
			f.current = next
		case f.err == nil || f.err.Error() != err.Error():
			f.log.Warn("the changed certificates can't be used yet", "error", err)
		}
		f.stamps, f.err = stamps, err
	}
	if f.current == nil {
		return nil, f.err
	}
	return f.current, nil
}

func (f *files) look() (list [3]stamp) {
	for i, name := range f.names {
		if info, err := os.Stat(name); err == nil {
			list[i] = stamp{info.Size(), info.ModTime()}
		}
	}
	return list
}

func (f *files) read() (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(f.names[0], f.names[1])
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(f.names[2])
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s holds no certificate", f.names[2])
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: pool, RootCAs: pool}, nil
}
