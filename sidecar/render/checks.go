package render

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/edgeward/edgeward/relay/catalog"
	"github.com/edgeward/edgeward/relay/check"
	"github.com/edgeward/edgeward/relay/session"
)

// maxCheckBody bounds the body that a check compares: it stands in one line of the
// config, of 2 kB.
const maxCheckBody = 400

// kindOf returns "tcp", "tls", "https" or "off".
func kindOf(g catalog.Gateway) string {
	if g.Check == nil {
		return "tcp"
	}
	return cmp.Or(g.Check.Kind, "tcp")
}

// checks writes what the checks of a pool have in common. HAProxy asks one page of
// all servers of a backend, so gateways that ask for different ones cannot be in
// one pool.
func (w *writer) checks(p session.PoolSettings) error {
	longest := time.Duration(0)
	var first *catalog.Gateway
	for _, m := range p.Members {
		g := w.Catalog.Gateways[m.Gateway]
		if kindOf(g) == "off" {
			continue
		}
		if g.Check != nil {
			longest = max(longest, time.Duration(g.Check.Timeout))
		}
		if first == nil {
			first = &g
		} else if page(*first) != page(g) {
			return fmt.Errorf("pool %s: gateways %s and %s: HAProxy asks the same page of all members of a pool: give both the same check, or set health \"sidecar\"", p.Name, first.Name, g.Name)
		}
	}
	if first == nil {
		return nil
	}
	w.t.line("timeout check %s", span(cmp.Or(longest, 1500*time.Millisecond)))
	if kindOf(*first) != "https" {
		return nil
	}
	return w.page(*first)
}

// page is what an https check asks and expects, to compare; empty for other kinds.
func page(g catalog.Gateway) string {
	if kindOf(g) != "https" {
		return ""
	}
	c := g.Check
	return fmt.Sprintf("%q %q %q %q", cmp.Or(c.Path, "/"), cmp.Or(c.Host, c.ServerName), c.Status, c.Body)
}

func (w *writer) page(g catalog.Gateway) error {
	c, t := g.Check, &w.t
	host, path := cmp.Or(c.Host, c.ServerName), cmp.Or(c.Path, "/")
	if len(path) > maxCheckBody || len(host) > maxCheckBody || len(c.Body) > maxCheckBody || strings.ContainsRune(path+host+c.Body, 0) {
		return fmt.Errorf("gateway %s: check: path, host and body must fit into a line of HAProxy's: at most %d bytes each, without NUL", g.Name, maxCheckBody)
	}
	t.line("option httpchk")
	t.line("http-check send meth GET uri %s ver HTTP/1.1 hdr Host %s hdr Connection close", escape(path), literal(host))
	codes := []string{"200-299"}
	if len(c.Status) > 0 {
		codes = nil
		for _, text := range c.Status {
			r, err := check.ParseStatus(text)
			if err != nil {
				return fmt.Errorf("gateway %s: check.status: %w", g.Name, err)
			}
			codes = append(codes, fmt.Sprintf("%d-%d", r.From, r.To))
		}
	}
	if len(codes) > 50 {
		return fmt.Errorf("gateway %s: check.status: there are %d ranges: want at most 50", g.Name, len(codes))
	}
	t.line("http-check expect status %s", strings.Join(codes, ","))
	if c.Body != "" {
		t.line("http-check expect rstring %s", escape("^"+quoteMeta(c.Body)+"$"))
	}
	return nil
}

// literal escapes text that HAProxy reads as a log format.
func literal(s string) string { return escape(strings.ReplaceAll(s, "%", "%%")) }

// quoteMeta makes a regular expression that matches s alone.
func quoteMeta(s string) string {
	var b strings.Builder
	for i := range len(s) {
		if strings.IndexByte(`\.+*?()|[]{}^$`, s[i]) >= 0 {
			b.WriteByte('\\')
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// checkWords are those of a server line. With others to go to, the first dial that
// fails marks a server down, so that the visitor's own connection moves on.
func (w *writer) checkWords(g catalog.Gateway, port int, elsewhere, others bool) ([]string, error) {
	kind := kindOf(g)
	if kind == "off" {
		return nil, nil
	}
	c := catalog.Check{}
	if g.Check != nil {
		c = *g.Check
	}
	inter := time.Duration(cmp.Or(c.Interval, catalog.Duration(2*time.Second)))
	fast := min(time.Duration(cmp.Or(max(c.Fast, 0), catalog.Duration(250*time.Millisecond))), inter)
	words := []string{"check", "inter " + span(inter), "fastinter " + span(fast), fmt.Sprintf("fall %d rise %d", max(cmp.Or(c.Fall, 3), 1), max(cmp.Or(c.Rise, 2), 1))}
	if elsewhere {
		words = append(words, fmt.Sprintf("port %d", port))
		if g.ProxyProtocol != "" {
			words = append(words, "check-send-proxy")
		}
	}
	if kind != "tcp" {
		tls, err := w.checkTLS(g, c)
		if err != nil {
			return nil, err
		}
		words = append(words, tls...)
	}
	if others {
		words = append(words, "observe layer4 error-limit 1 on-error mark-down")
	}
	return words, nil
}

func (w *writer) checkTLS(g catalog.Gateway, c catalog.Check) ([]string, error) {
	if !hostForm(strings.ToLower(c.ServerName)) || len(c.ServerName) > 253 {
		return nil, fmt.Errorf("gateway %s: check.server_name %.80q: want a host name", g.Name, c.ServerName)
	}
	words := []string{"check-ssl", "check-sni " + c.ServerName, "check-alpn http/1.1"}
	if c.Insecure {
		return append(words, "verify none"), nil
	}
	roots := "@system-ca"
	if c.Roots != "" {
		if !strings.Contains(c.Roots, "BEGIN CERTIFICATE") || strings.Contains(c.Roots, "PRIVATE KEY") {
			return nil, fmt.Errorf("gateway %s: check.roots: want certificates and nothing else", g.Name)
		}
		roots = w.file(g.Name+".roots", ".pem", c.Roots)
	}
	return append(words, "verify required verifyhost "+c.ServerName, "ca-file "+roots), nil
}
