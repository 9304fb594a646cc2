package settings

import (
	"crypto/x509"
	"net/netip"
	"net/url"
	"path/filepath"

	"github.com/caddyserver/caddy/v2"

	"github.com/edgeward/edgeward/internal/notify"
	"github.com/edgeward/edgeward/watchdog/resolve"
)

// CloudflareCredential is the systemd credential with the token of a zone that has none
// in its settings.
const CloudflareCredential = "cf_token"

// StateDir is where the state of an app is kept, in one spelling.
func (r *Reader) StateDir(dir, app string) string {
	out := r.Text("state_dir", dir)
	if out == "" {
		out = filepath.Join(caddy.AppDataDir(), app)
	}
	out, err := filepath.Abs(out)
	if err != nil {
		r.Fail("state_dir", err)
	}
	return out
}

// Roots are the system's authorities and those of a file. Nil: the system's alone.
func (r *Reader) Roots(file string) *x509.CertPool {
	path := r.Text("roots", file)
	if path == "" {
		return nil
	}
	data, err := r.File(path)
	if err != nil {
		r.Fail("roots", err)
		return nil
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool() // a machine without authorities has a private one all the same
	}
	if !pool.AppendCertsFromPEM(data) {
		r.Failf("roots", "%s holds no certificate in PEM form", path)
	}
	return pool
}

// API is the base URL of a provider's API, to which a token goes.
func (r *Reader) API(s string) string {
	base := r.Text("api", s)
	if base == "" {
		return ""
	}
	u, err := url.Parse(base)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || u.RawQuery != "" || u.User != nil:
		r.Failf("api", "%q: want a base URL like https://api.example.com/client/v4", base)
	case u.Scheme == "http" && !loopback(u.Hostname()):
		r.Failf("api", "%q: want https, for the token goes there", base)
	}
	return base
}

func loopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.IsLoopback()
}

// Resolver is a DNS server that is asked over HTTPS.
func (r *Reader) Resolver(address, at string, any bool, roots *x509.CertPool) *resolve.Resolver {
	made := &resolve.Resolver{URL: r.Need("url", address), Addr: r.NeedAddrPort("address", at), Roots: roots, AllowAnyAddress: any}
	if err := made.Validate(); err != nil && made.URL != "" && made.Addr.IsValid() {
		r.Fail("resolver", err)
	}
	return made
}

// Channels reads where people are told. It makes every channel once to see whether that
// is possible, which sends nothing.
type Channels struct {
	*Reader
	taken map[string]bool
}

// Channels begins with none.
func (r *Reader) Channels() Channels { return Channels{r, map[string]bool{}} }

// Read reads one.
func (l Channels) Read(name, address, key string, timeout caddy.Duration) notify.Config {
	c := notify.Config{Name: l.Text("name", name), URL: l.Hidden("url", address), Timeout: l.Duration("timeout", timeout)}
	if address == "" {
		l.Failf("url", "it is missing")
	}
	if key != "" {
		c.Secret = l.Hidden("secret", key)
	}
	if address != "" && timeout >= 0 && l.Known(address) {
		l.try(c)
	}
	return c
}

func (l Channels) try(c notify.Config) {
	ch, err := notify.New(c)
	if err != nil {
		l.Fail("url", err)
		return
	}
	defer ch.Close()
	if l.taken[ch.Name()] {
		l.Failf("name", "channel %s is there twice: give each a name of its own", ch.Name())
	}
	l.taken[ch.Name()] = true
}
