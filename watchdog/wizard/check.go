package wizard

import (
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"

	"github.com/edgeward/edgeward/internal/publicaddr"
	"github.com/edgeward/edgeward/internal/secret"
	"github.com/edgeward/edgeward/watchdog/cloudflare"
)

// maxNames is how many names a site may have.
const maxNames = 100

func (a *Answers) setDomain(text string) (err error) {
	a.Domain, err = hostname(text)
	return err
}

func (a *Answers) setRelay(text string) error {
	addr, err := public(text, netip.Addr.Is4, "IPv4")
	a.Relay = addr
	return err
}

func (a *Answers) setRelay6(text string) error {
	addr, err := public(text, netip.Addr.Is6, "IPv6")
	a.Relay6 = addr
	return err
}

func (a *Answers) setHome(text string) error {
	addr, err := public(text, netip.Addr.Is4, "IPv4")
	if err == nil && addr == a.Relay {
		return fmt.Errorf("%s is the relay: want the address of the home", addr)
	}
	a.Home = addr
	return err
}

// public reads an address that visitors, or Cloudflare, can reach.
func public(text string, family func(netip.Addr) bool, name string) (string, error) {
	addr, err := netip.ParseAddr(text)
	if err != nil || !family(addr) {
		return "", fmt.Errorf("%q: want an %s address alone", text, name)
	}
	if err := publicaddr.Check(addr); err != nil {
		return "", err
	}
	if publicaddr.Cloudflare(addr) {
		return "", fmt.Errorf("%s is Cloudflare's own: want the address behind it", addr)
	}
	return addr.String(), nil
}

func (a *Answers) setNames(text string) error {
	list := strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r <= ' ' })
	if len(list) == 0 || len(list) > maxNames {
		return fmt.Errorf("there are %d: want 1 to %d", len(list), maxNames)
	}
	var names []string
	for _, entry := range list {
		rest, wild := strings.CutPrefix(entry, "*.")
		name, err := hostname(rest)
		if err == nil {
			err = a.inside(name)
		}
		if wild {
			name = "*." + name
		}
		switch {
		case err != nil:
			return err
		case len(name) > maxName:
			return fmt.Errorf("%.40q...: want at most %d characters", name, maxName)
		case slices.Contains(names, name):
			return fmt.Errorf("%s is there twice", name)
		}
		names = append(names, name)
	}
	a.Names = names
	return nil
}

// inside refuses what the zone cannot hold.
func (a *Answers) inside(name string) error {
	if a.Domain == "" || within(name, a.Domain) {
		return nil
	}
	return fmt.Errorf("%s is not in the domain %s", name, a.Domain)
}

func within(name, domain string) bool { return name == domain || strings.HasSuffix(name, "."+domain) }

func (a *Answers) setHealthHost(text string) error {
	name, err := hostname(text)
	if err == nil {
		err = a.inside(name)
	}
	if err == nil {
		a.HealthHost = name
	}
	return err
}

func (a *Answers) setCanary(text string) error {
	name, err := hostname(text)
	if err == nil {
		err = a.inside(name)
	}
	switch {
	case err != nil:
		return err
	case slices.Contains(a.Names, name):
		return fmt.Errorf("%s is one of the names that move: want a proxied name that always stays on the path through Cloudflare", name)
	}
	a.Canary = name
	return nil
}

func (a *Answers) setZone(text string) error {
	if lower := strings.ToLower(text); isID(lower) {
		a.Zone = lower
		return nil
	}
	name, err := hostname(text)
	switch {
	case err != nil:
		return fmt.Errorf("want an id of 32 hexadecimal digits, or a name: %w", err)
	case a.Domain != "" && !within(a.Domain, name):
		return fmt.Errorf("the domain %s is not in the zone %s", a.Domain, name)
	}
	a.Zone = name
	return nil
}

func isID(s string) bool { return len(s) == 32 && strings.Trim(s, "0123456789abcdef") == "" }

// setLocal takes an address with or without a port. A public one would make the
// local probe a second probe of a path.
func (a *Answers) setLocal(text string) error {
	local, err := netip.ParseAddrPort(text)
	if err != nil {
		addr, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(text, "["), "]"))
		if err != nil {
			return fmt.Errorf("%q: want an address in the local network, like 192.168.1.10 or 192.168.1.10:443", text)
		}
		local = netip.AddrPortFrom(addr, 443)
	}
	switch addr := local.Addr(); {
	case local.Port() == 0:
		return errors.New("port 0: want the one that the TLS server listens on")
	case addr.Zone() != "" || addr.Is4In6() || !addr.IsPrivate():
		return fmt.Errorf("%s is not private: want an address of RFC 1918 (10/8, 172.16/12, 192.168/16) or fc00::/7", addr)
	}
	a.Local = local.String()
	return nil
}

func (a *Answers) setStateDir(text string) error {
	if err := plainPath(text); err != nil {
		return err
	}
	a.StateDir = filepath.Clean(text)
	return nil
}

// plainPath refuses what a Caddyfile would read as something else.
func plainPath(path string) error {
	switch {
	case !filepath.IsAbs(path):
		return fmt.Errorf("%q: want an absolute path", path)
	case strings.ContainsFunc(path, func(r rune) bool { return r < ' ' || r == 0x7f }) || strings.ContainsAny(path, "{}\"`\\"):
		return fmt.Errorf("%q: a Caddyfile cannot hold that path", path)
	}
	return nil
}

func (a *Answers) setPreset(text string) error {
	if text != "fast" && text != "careful" {
		return fmt.Errorf("%q: want fast or careful", text)
	}
	a.Preset = text
	return nil
}

func (a *Answers) setAPI(text string) error {
	if strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }) || strings.ContainsAny(text, "{}\"`\\#") {
		return fmt.Errorf("%q: want a base URL like %s", text, cloudflare.DefaultBaseURL)
	}
	c, err := cloudflare.New(cloudflare.Config{Token: secret.New("none"), BaseURL: text})
	if err != nil {
		return err
	}
	c.Close()
	a.API = text
	return nil
}

// checkToken says whether a token can be one. It never repeats it.
func checkToken(token secret.String) error {
	c, err := cloudflare.New(cloudflare.Config{Token: token})
	if err != nil {
		return err
	}
	c.Close()
	return nil
}
