package watchdog

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/edgeward/edgeward/internal/publicaddr"
	"github.com/edgeward/edgeward/watchdog/semantic"
)

// limits of what a site may ask for.
const (
	maxNames   = 100
	maxTimeout = 15 * time.Second
	maxBody    = 4096
)

func (s Site) validate() error {
	var errs []error
	add := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if len(s.Names) == 0 || len(s.Names) > maxNames {
		add("it has %d names: want 1 to %d", len(s.Names), maxNames)
	}
	for i, name := range s.Names {
		if err := hostname(name, true); err != nil {
			add("name %q: %w", name, err)
		}
		if slices.Contains(s.Names[:i], name) {
			add("name %s is there twice", name)
		}
	}
	if s.Timeout < 100*time.Millisecond || s.Timeout > maxTimeout {
		add("timeout is %s: want 100ms to %s", s.Timeout, maxTimeout)
	}
	if s.Local.IsValid() && (s.Local.Addr().IsUnspecified() || s.Local.Addr().IsMulticast() || s.Local.Port() == 0) {
		add("local %s: want an address and port inside the home", s.Local)
	}
	if len(s.Paths) < 2 {
		add("it has %d paths: want at least 2, or there is nothing to choose", len(s.Paths))
	}
	for i, p := range s.Paths {
		if err := p.validate(s, s.Paths[:i]); err != nil {
			add("path %s: %w", p.Name, err)
		}
	}
	if err := s.Policy.Validate(); err != nil {
		errs = append(errs, err)
	}
	if err := s.Health.validate(); err != nil {
		add("health: %w", err)
	}
	return errors.Join(errs...)
}

func (p Path) validate(s Site, before []Path) error {
	var errs []error
	add := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if !p.A.IsValid() && !p.AAAA.IsValid() && !p.Origin {
		add("it has no address: want a, aaaa or both")
	}
	if p.A.IsValid() && !p.A.Is4() {
		add("a %s: want an IPv4 address", p.A)
	}
	if p.AAAA.IsValid() && (!p.AAAA.Is6() || p.AAAA.Is4In6()) {
		add("aaaa %s: want an IPv6 address", p.AAAA)
	}
	if !p.Probe.IsValid() || p.Probe.Addr() == p.A { // else somebody has said where to look, as tests on one machine do
		errs = append(errs, public(p.A), public(p.AAAA))
	}
	switch {
	case p.Proxied && p.Canary == "":
		add("it is proxied and has no canary: its records do not show where visitors end")
	case !p.Proxied && p.Canary != "":
		add("canary %s: only a proxied path has one", p.Canary)
	case p.Canary != "":
		if err := hostname(p.Canary, false); err != nil {
			add("canary %q: %w", p.Canary, err)
		}
		if slices.Contains(s.Names, p.Canary) {
			add("canary %s moves with the site: it must stay on this path", p.Canary)
		}
	}
	if p.TTL < 30 || p.TTL > 86400 {
		add("ttl is %d: want 60 to 86400 seconds (30 with an Enterprise plan)", p.TTL)
	}
	for _, other := range before {
		if p.A.IsValid() && p.A == other.A && p.Proxied == other.Proxied {
			add("its address is that of path %s", other.Name)
		}
	}
	if p.A.IsValid() && s.Local.Addr() == p.A {
		add("its address is the local one")
	}
	if p.Health != nil {
		errs = append(errs, p.Health.validate())
	}
	return errors.Join(errs...)
}

func public(addr netip.Addr) error {
	if !addr.IsValid() {
		return nil
	}
	return publicaddr.Check(addr)
}

func (h Health) validate() error {
	switch {
	case h.Name == "":
		return errors.New("it has no host name")
	case !strings.HasPrefix(h.Path, "/") || strings.ContainsAny(h.Path, "?# \t\r\n"):
		return fmt.Errorf("path %q: want an absolute path without a query", h.Path)
	case len(h.Body) > maxBody:
		return fmt.Errorf("the body is %d bytes long: want at most %d", len(h.Body), maxBody)
	case h.Status != 0 && (h.Status < 200 || h.Status > 599):
		return fmt.Errorf("status is %d: want 200 to 599", h.Status)
	}
	if err := hostname(h.Name, false); err != nil {
		return fmt.Errorf("host %q: %w", h.Name, err)
	}
	return semantic.Validate(h.Rules)
}

// hostname checks a name by the rules of RFC 1123 section 2.1: letters, digits and
// hyphens, at least two labels. Where wildcard, its first label may be a star.
func hostname(name string, wildcard bool) error {
	labels := strings.Split(name, ".")
	if wildcard && len(labels) > 2 && labels[0] == "*" {
		labels = labels[1:]
	}
	if len(name) > 253 || len(labels) < 2 {
		return errors.New("want at least two labels and at most 253 characters")
	}
	for _, label := range labels {
		switch {
		case label == "" || len(label) > 63:
			return errors.New("want labels of 1 to 63 characters")
		case strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-") != "":
			return fmt.Errorf("%q holds more than letters, digits and hyphens: write an international name in its xn-- form", label)
		case label[0] == '-' || label[len(label)-1] == '-':
			return fmt.Errorf("%q begins or ends with a hyphen", label)
		}
	}
	if _, err := netip.ParseAddr(name); err == nil {
		return errors.New("want a name, not an address")
	}
	return nil
}
