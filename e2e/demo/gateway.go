package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"sync"
	"time"
)

// site is the name that visitors ask for, canary the one that probes do.
const (
	site   = "www.example.test"
	canary = "edge-health.example.test"
)

// authority issues the gateways' certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pool *x509.CertPool
}

func newAuthority() (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "Demo CA"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	pool.AddCert(cert)
	return &authority{cert, key, pool}, nil
}

func (a *authority) pem() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
}

func (a *authority) issue(owner string) (c tls.Certificate, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return c, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: owner}, DNSNames: []string{site, canary},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
}

// gateway is a real TLS server that answers with its name, and that can die, come
// back on the same address, and hang.
type gateway struct {
	name string
	addr string
	cert tls.Certificate

	mu    sync.Mutex
	ln    net.Listener
	hangs bool
	conns map[net.Conn]bool
}

func newGateway(name string, ca *authority) (*gateway, error) {
	cert, err := ca.issue(name)
	if err != nil {
		return nil, fmt.Errorf("issuing a certificate: %w", err)
	}
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	g := &gateway{name: name, addr: addr, cert: cert, conns: map[net.Conn]bool{}}
	return g, g.revive()
}

// revive begins to listen and serve.
func (g *gateway) revive() error {
	ln, err := net.Listen("tcp", g.addr)
	if err != nil {
		return err
	}
	g.mu.Lock()
	g.ln, g.hangs = ln, false
	g.mu.Unlock()
	server := &http.Server{
		TLSConfig:         &tls.Config{Certificates: []tls.Certificate{g.cert}},
		ReadHeaderTimeout: time.Minute, ErrorLog: log.New(io.Discard, "", 0),
		Handler: http.HandlerFunc(g.serve),
	}
	go func() { _ = server.ServeTLS(&door{ln, g}, "", "") }()
	return nil
}

// serve answers with the gateway's name, and to probes with the health page.
func (g *gateway) serve(w http.ResponseWriter, r *http.Request) {
	if r.Host != canary {
		fmt.Fprint(w, g.name)
		return
	}
	w.Header().Set("Cache-Control", "no-store")
	fmt.Fprintln(w, "edge-ok-v1")
}

// kill is what kill -9 does to a server: the port is closed, and connections too.
func (g *gateway) kill() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ln != nil {
		_ = g.ln.Close()
		g.ln = nil
	}
	for conn := range g.conns {
		_ = conn.Close()
	}
	clear(g.conns)
}

// hang accepts from now on and says nothing.
func (g *gateway) hang() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.hangs = true
}

func (g *gateway) close() { g.kill() }

// door keeps those back who come while the gateway hangs.
type door struct {
	net.Listener
	g *gateway
}

func (d *door) Accept() (net.Conn, error) {
	for {
		conn, err := d.Listener.Accept()
		if err != nil {
			return nil, err
		}
		d.g.mu.Lock()
		d.g.conns[conn] = true
		hangs := d.g.hangs
		d.g.mu.Unlock()
		if !hangs {
			return &guest{conn, d.g}, nil
		}
	}
}

// guest is a connection that the gateway forgets when it is closed.
type guest struct {
	net.Conn
	g *gateway
}

func (c *guest) Close() error {
	c.g.mu.Lock()
	delete(c.g.conns, c.Conn)
	c.g.mu.Unlock()
	return c.Conn.Close()
}

// freeAddr finds a port below those that the kernel gives to clients, so that it
// stays free while its gateway is dead.
func freeAddr() (string, error) {
	var lc net.ListenConfig
	for range 100 {
		n, err := rand.Int(rand.Reader, big.NewInt(20_000))
		if err != nil {
			return "", err
		}
		addr := fmt.Sprintf("127.0.0.1:%d", 10_000+n.Int64())
		if ln, err := lc.Listen(context.Background(), "tcp", addr); err == nil {
			return addr, ln.Close()
		}
	}
	return "", fmt.Errorf("no free port on 127.0.0.1")
}
