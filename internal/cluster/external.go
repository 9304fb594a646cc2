package cluster

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"net/url"
	"os"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// External is an etcd that others run.
type External struct {
	// Endpoints are URLs: https, or http on this machine.
	Endpoints []string
	// CA, Cert and Key are PEM files. CA: default the system's.
	CA, Cert, Key string
	// User and Password, if that etcd wants them.
	User, Password string
	Log            *slog.Logger
}

// Check says what is wrong, without asking anybody.
func (x External) Check() error {
	if len(x.Endpoints) == 0 {
		return errors.New("endpoints: want at least one")
	}
	for _, e := range x.Endpoints {
		u, err := url.Parse(e)
		switch {
		case err != nil || u.Hostname() == "" || u.Port() == "" || u.Path != "" || u.RawQuery != "" || u.User != nil:
			return errors.New("endpoints: want URLs like https://10.0.0.1:2379")
		case u.Scheme == "https":
		case u.Scheme != "http" || !local(u.Hostname()):
			return fmt.Errorf("endpoints: %s: want https: others could take the lease", e)
		}
	}
	if (x.Cert == "") != (x.Key == "") {
		return errors.New("cert and key belong together")
	}
	if (x.User == "") != (x.Password == "") {
		return errors.New("user and password belong together")
	}
	_, err := x.tls()
	return err
}

func local(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

func (x External) tls() (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if x.CA != "" {
		text, err := os.ReadFile(x.CA)
		if err != nil {
			return nil, fmt.Errorf("ca: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("ca: %s holds no certificate", x.CA)
		}
	}
	if x.Cert != "" {
		pair, err := tls.LoadX509KeyPair(x.Cert, x.Key)
		if err != nil {
			return nil, fmt.Errorf("cert and key: %w", err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

// Open returns a client. It connects by itself, whenever it can; close it.
func (x External) Open() (*clientv3.Client, error) {
	if err := x.Check(); err != nil {
		return nil, err
	}
	c, err := x.tls()
	if err != nil {
		return nil, err
	}
	log := x.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	client, err := clientv3.New(clientv3.Config{
		Endpoints: x.Endpoints, TLS: c, Username: x.User, Password: x.Password,
		DialTimeout: 5 * time.Second, DialKeepAliveTime: 10 * time.Second, DialKeepAliveTimeout: 3 * time.Second,
		Logger: newLogger(log, func(string) {}),
	})
	if err != nil {
		return nil, fmt.Errorf("opening etcd: %w", err)
	}
	return client, nil
}
