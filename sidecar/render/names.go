package render

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/edgeward/edgeward/relay/catalog"
)

// table is what names lead to at one listener: names of backends.
type table struct {
	exact    map[string]string
	wild     map[string]string // by what follows "*."
	fallback string            // of "*"
	noName   string            // of visitors without a name
	routes   int
}

// table finds the routes of a listener. Catalogs hold no name twice.
func (w *writer) table(l *Listener) table {
	t := table{exact: map[string]string{}, wild: map[string]string{}}
	for _, r := range sortedRoutes(w.Catalog) {
		if r.Kind != catalog.TLS || r.Disabled || r.Listener != "" && r.Listener != l.Address {
			continue
		}
		to := w.backendOf(r)
		t.routes++
		if r.NoName {
			t.noName = to
		}
		for _, host := range r.Hosts {
			suffix, wild := strings.CutPrefix(host, "*.")
			switch {
			case host == "*":
				t.fallback = to
			case wild:
				t.wild[suffix] = to
			default:
				t.exact[host] = to
			}
		}
	}
	return t
}

// depths returns how many labels the wildcards' suffixes have, longest first.
func (t table) depths() []int {
	seen := map[int]bool{}
	for suffix := range t.wild {
		seen[strings.Count(suffix, ".")+1] = true
	}
	list := slices.Sorted(maps.Keys(seen))
	slices.Reverse(list)
	return list
}

// mapOf writes a map file.
func mapOf(of map[string]string) string {
	var b strings.Builder
	for _, key := range slices.Sorted(maps.Keys(of)) {
		fmt.Fprintf(&b, "%s %s\n", key, of[key])
	}
	return b.String()
}

// route writes how a hello finds its backend.
func (w *writer) route(f *front) {
	t, n := &w.t, f.names
	const unset = "if !{ var(sess.edge_to) -m found }"
	t.comment("The most specific name wins: exact, then the longest wildcard, then all.")
	if len(n.exact) > 0 {
		t.line("tcp-request content set-var(sess.edge_to) var(sess.edge_name),map_str(%s)", w.file(f.name+".names", ".map", mapOf(n.exact)))
	}
	if len(n.wild) > 0 {
		path := w.file(f.name+".wild", ".map", mapOf(n.wild))
		t.comment("A wildcard stands for at least one label: look at the name behind its first.")
		t.line("tcp-request content set-var(sess.edge_rest) var(sess.edge_name),field(2,.,0) %s", unset)
		if f.tls.OneLabel {
			t.line("tcp-request content set-var(sess.edge_to) var(sess.edge_rest),map_str(%s) %s", path, unset)
		} else {
			for _, labels := range n.depths() {
				t.line("tcp-request content set-var(sess.edge_to) var(sess.edge_rest),field(-1,.,%d),map_str(%s) %s", labels, path, unset)
			}
		}
	}
	if n.fallback != "" {
		t.line("tcp-request content set-var(sess.edge_to) str(%s) if { var(sess.edge_name) -m found } !{ var(sess.edge_to) -m found }", n.fallback)
	}
	if n.noName != "" {
		t.line("tcp-request content set-var(sess.edge_to) str(%s) if !{ var(sess.edge_name) -m found }", n.noName)
	}
	t.line("tcp-request content set-var(sess.edge_why) str(no_name) if !{ var(sess.edge_to) -m found } !{ var(sess.edge_name) -m found }")
	t.line("tcp-request content set-var(sess.edge_why) str(unknown_name) if !{ var(sess.edge_to) -m found } { var(sess.edge_name) -m found }")
	t.line("tcp-request content reject %s", unset)
	t.line("use_backend %%[var(sess.edge_to)]")
}
