package origin

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strings"

	"golang.org/x/net/publicsuffix"

	"github.com/edgeward/edgeward/watchdog/resolve"
)

// Format is how a source writes the address.
type Format string

// The formats.
const (
	Text  Format = "text"  // the address and nothing else; the default
	Trace Format = "trace" // lines of key=value, one of which is ip=
)

// Source is a page that says which address it is asked from.
type Source struct {
	// URL to ask, with https.
	URL string
	// Format of the answer. Default: text.
	Format Format
	// Operator is who runs it. Sources of one operator count as one. Default: the
	// registered domain of the host.
	Operator string
}

// Sources returns those that are asked unless others are set. They have three
// operators; Amazon's has no IPv6.
func Sources() []Source {
	return []Source{
		{URL: "https://cloudflare.com/cdn-cgi/trace", Format: Trace, Operator: "Cloudflare"},
		{URL: "https://icanhazip.com", Operator: "Cloudflare"}, // since 2021
		{URL: "https://api64.ipify.org", Operator: "ipify"},    // api.ipify.org has no IPv6
		{URL: "https://checkip.amazonaws.com", Operator: "Amazon"},
	}
}

// Validate reports a setting that cannot work.
func (s Source) Validate() error {
	u, err := url.Parse(s.URL)
	if err != nil || u.Scheme != "https" || u.Hostname() == "" || u.User != nil || u.Fragment != "" {
		return fmt.Errorf("source %q: want a URL like https://ip.example.com/path", s.URL)
	}
	if _, err := netip.ParseAddr(u.Hostname()); err == nil {
		return fmt.Errorf("source %q: want a host name, so that both families can be asked", s.URL)
	}
	if f := s.format(); f != Text && f != Trace {
		return fmt.Errorf("source %s: format is %q, want text or trace", s.URL, s.Format)
	}
	return nil
}

func (s Source) format() Format { return cmp.Or(s.Format, Text) }

// operator is who runs the source, in a form that can be compared.
func (s Source) operator() string {
	if s.Operator != "" {
		return strings.ToLower(strings.TrimSpace(s.Operator))
	}
	u, err := url.Parse(s.URL)
	if err != nil {
		return s.URL
	}
	host := strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
	if domain, err := publicsuffix.EffectiveTLDPlusOne(host); err == nil {
		return domain
	}
	return host
}

// parse reads the answer of a source: exactly one address, of the family we asked
// over.
func (s Source) parse(body []byte, family resolve.Family) (netip.Addr, error) {
	text := strings.TrimSpace(string(body))
	if s.format() == Trace {
		var err error
		if text, err = traced(text); err != nil {
			return netip.Addr{}, err
		}
	}
	addr, err := netip.ParseAddr(text)
	switch {
	case err != nil:
		return netip.Addr{}, errors.New("the answer is no address")
	case addr.Zone() != "" || addr.Is4In6() || resolve.FamilyOf(addr) != family:
		return netip.Addr{}, fmt.Errorf("the answer is %s, which is no %s address", addr.WithZone(""), family)
	}
	return addr, nil
}

// traced returns the value of the one line that begins with ip=.
func traced(text string) (string, error) {
	value, found := "", 0
	for line := range strings.Lines(text) {
		if v, ok := strings.CutPrefix(strings.TrimRight(line, "\r\n"), "ip="); ok {
			value = v
			found++
		}
	}
	if found != 1 {
		return "", fmt.Errorf("the answer has %d lines with ip=, want one", found)
	}
	return value, nil
}
