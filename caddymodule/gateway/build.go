package gateway

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/edgeward/edgeward/internal/secret"
	"github.com/edgeward/edgeward/relay/agent"
	"github.com/edgeward/edgeward/relay/link"
)

const defaultDrain = 10 * time.Second

// entry is one config, ready to be put in force.
type entry struct {
	log      *slog.Logger
	pairing  agent.Pairing
	relay    string        // configured; "" for where the gateway was paired
	token    secret.String // configured
	roots    *x509.CertPool
	settings agent.Settings
	lan      func(context.Context) netip.Addr
	tunnel   func(context.Context) time.Duration
	interval time.Duration
	drain    time.Duration
	// key is the same for configs for which one control channel serves.
	key [sha256.Size]byte
}

// dataDir is where pairing and the table are kept.
func dataDir() string { return filepath.Join(caddy.AppDataDir(), "edge", "gateway") }

// build checks the config and makes an entry of it.
func (a *App) build() (*entry, error) {
	x := *a
	if err := x.expand(); err != nil {
		return nil, err
	}
	e := &entry{
		log: a.log, pairing: agent.Pairing{Dir: dataDir()}, relay: x.Relay, token: secret.New(x.Token),
		interval: cmp.Or(time.Duration(x.Interval), link.Interval), drain: cmp.Or(time.Duration(x.Drain), defaultDrain),
		settings: agent.Settings{Listen: x.Listen, HTTP: x.HTTP, Ports: x.Ports},
	}
	err := errors.Join(
		e.checkRelay(), e.readRoots(x.RootsFile), e.setNetworks(&x), e.setLAN(x.LAN), e.setTunnel(x.Tunnel),
		agent.CheckInterval(e.interval),
	)
	if err == nil {
		err = e.settings.Validate()
	}
	if err != nil {
		return nil, err
	}
	e.key, err = x.key()
	return e, err
}

// expand replaces placeholders in every text.
func (a *App) expand() (err error) {
	one := func(name string, s *string) {
		text, bad := expand(*s)
		if bad != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", name, bad))
		}
		*s = text
	}
	for name, s := range map[string]*string{
		"relay": &a.Relay, "token": &a.Token, "roots": &a.RootsFile, "listen": &a.Listen, "http": &a.HTTP,
		"ports": &a.Ports, "lan": &a.LAN, "tunnel": &a.Tunnel,
	} {
		one(name, s)
	}
	for name, list := range map[string]*[]string{"trusted_proxies": &a.TrustedProxies, "targets": &a.Targets} {
		*list = append([]string(nil), *list...) // the config keeps its placeholders
		for i := range *list {
			one(name, &(*list)[i])
		}
	}
	return err
}

// key tells apart what needs another control channel.
func (a *App) key() ([sha256.Size]byte, error) {
	roots := []byte{}
	if a.RootsFile != "" {
		var err error
		if roots, err = os.ReadFile(a.RootsFile); err != nil {
			return [sha256.Size]byte{}, fmt.Errorf("roots: %w", err)
		}
	}
	text, err := json.Marshal([]any{a.Relay, a.Token, roots, a.LAN, a.Tunnel, a.Interval, dataDir()})
	return sha256.Sum256(text), err
}

// shortestToken is the least that the relay takes: what can be guessed is none.
const shortestToken = 16

func (e *entry) checkRelay() error {
	if !e.token.IsZero() && len(e.token.Reveal()) < shortestToken {
		return fmt.Errorf("token is too short: want at least %d characters", shortestToken)
	}
	if e.relay == "" {
		if !e.token.IsZero() {
			return errors.New("relay: want the URL of the relay that the token is for")
		}
		return nil
	}
	c, err := link.NewClient(link.ClientConfig{URL: e.relay})
	if err == nil {
		c.Close()
	}
	return err
}

func (e *entry) readRoots(file string) (err error) {
	e.roots, err = readRoots(file)
	return err
}

// readRoots reads a PEM file. Without one the system's authorities are meant.
func readRoots(file string) (*x509.CertPool, error) {
	if file == "" {
		return nil, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("roots: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("roots: %s holds no certificate", file)
	}
	return roots, nil
}

func (e *entry) setNetworks(a *App) (err error) {
	if e.settings.TrustedProxies, err = networks("trusted_proxies", a.TrustedProxies); err != nil {
		return err
	}
	e.settings.Targets, err = networks("targets", a.Targets)
	return err
}

func networks(name string, list []string) (nets []netip.Prefix, err error) {
	for _, text := range list {
		p, err := netip.ParsePrefix(text)
		if addr, bad := netip.ParseAddr(text); bad == nil {
			p, err = netip.PrefixFrom(addr, addr.BitLen()), nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s %q: want a network like 10.8.0.0/24 or an address", name, text)
		}
		nets = append(nets, p.Masked())
	}
	return nets, nil
}

func (e *entry) setLAN(text string) error {
	switch text {
	case "", "auto":
		e.lan = agent.FindLAN
		return nil
	case "off":
		return nil
	}
	addr, err := netip.ParseAddr(text)
	if err != nil || addr.IsLoopback() || addr.IsUnspecified() || addr.IsMulticast() {
		return fmt.Errorf("lan %q: want this machine's address in the home's network, auto or off", text)
	}
	e.lan = func(context.Context) netip.Addr { return addr }
	return nil
}

func (e *entry) setTunnel(name string) error {
	if name == "" {
		return nil
	}
	if !agent.ValidInterface(name) {
		return fmt.Errorf("tunnel %q: want the name of a network interface", name)
	}
	e.tunnel = agent.TunnelAge(name)
	return nil
}

// url is where the relay is; "" if that is not known.
func (e *entry) url() (string, error) {
	if e.relay != "" {
		return e.relay, nil
	}
	return e.pairing.Relay()
}

// tokens returns what gives the token of now. What is wrong with the file is logged when
// it is new.
func (e *entry) tokens() func() secret.String {
	if !e.token.IsZero() {
		return func() secret.String { return e.token }
	}
	var mu sync.Mutex
	said := ""
	return func() secret.String {
		token, err := e.pairing.Token()
		mu.Lock()
		defer mu.Unlock()
		switch {
		case err == nil:
			said = ""
		case err.Error() != said:
			said = err.Error()
			e.log.Error("the gateway's token cannot be read", "error", err)
		}
		return token
	}
}
