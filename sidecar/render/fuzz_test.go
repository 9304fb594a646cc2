package render_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/edgeward/edgeward/relay/catalog"
	"github.com/edgeward/edgeward/relay/pool"
	"github.com/edgeward/edgeward/sidecar/haproxytest"
	"github.com/edgeward/edgeward/sidecar/render"
)

// FuzzRender: whatever the catalog and the settings let in renders to what HAProxy
// takes, and no value is more than the one word that it stands for.
func FuzzRender(f *testing.F) {
	f.Add("nuc", "10.8.0.8:443", "a.example.com", "/up", "a.example", "ok\n", ":443", "haproxy", "/run/x.sock", uint8(0))
	f.Add("nuc", "nuc.example:443", "*.example.com", "/' # \\x20\"$HOME%{x}", "b_c", "\\E$^{}\x01\u00fc", "[::1]:8443", "root", "/a", uint8(1))
	f.Add("a\n", "[2001:db8::1]:1", "*", "/up\nserver x 1.2.3.4:5", "a b", "x", "1.2.3.4:5\n", "u\nv", "/run/x level admin", uint8(2))
	f.Add("a.b_c-d", "127.0.0.1:65535", "xn--bcher-kva.example", "/%[src]", "x", "%[env(HOME)]", "0.0.0.0:1", "_u", "/x/y", uint8(255))
	f.Add("a", "a.b.:1", "_a.b", "/;use_backend nobody", "a.", strings.Repeat("'", 300), ":1", "a", "/s", uint8(7))
	binary := haproxytest.Binary(f)
	f.Fuzz(func(t *testing.T, name, dial, host, path, server, body, address, user, socket string, bits uint8) {
		listeners := []render.Listener{{Address: address, OneLabel: bits&1 != 0, HostNames: bits&2 != 0}}
		doors, err := render.Doors(listeners)
		if err != nil {
			return
		}
		c := catalog.New()
		c.Listeners = doors
		g := catalog.Gateway{Name: name, Dial: dial, ProxyProtocol: []string{"", "v1", "v2"}[bits%3], Check: &catalog.Check{Kind: "https", ServerName: server, Path: path, Host: server, Body: body}}
		c, _, err = c.Restore(catalog.Backup{
			Version:  1,
			Gateways: []catalog.Gateway{g, {Name: "second", Dial: "10.0.0.1:443", Check: g.Check}},
			Pools:    []catalog.Pool{{Name: name, Members: []pool.Member{{Gateway: name, Weight: int(bits)}, {Gateway: "second"}}, Policy: pool.Policy(bits % 4), OnDown: pool.OnDown(bits & 1)}},
			Routes:   []catalog.Route{{Name: name, Hosts: []string{host}, Pool: name}, {Name: "pin", Hosts: []string{"pin.example"}, Gateway: name}, {Name: "tcp", Kind: catalog.TCP, Port: 22022, Gateway: "second"}},
		})
		if err != nil {
			return
		}
		dir, err := os.MkdirTemp("", "edge")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		account, group := haproxytest.Account(t)
		p := render.Process{User: user, Files: dir, Socket: render.Socket{Path: socket}, Log: "off"}
		out, err := render.Render(render.Config{Catalog: c, Listeners: listeners, Process: p})
		if err != nil {
			return
		}
		shape(t, out.Text)
		p.User, p.Group = account, group // those of the input need not be on this machine
		if out, err = render.Render(render.Config{Catalog: c, Listeners: listeners, Process: p}); err != nil {
			t.Fatal(err)
		}
		files := append(out.Files, render.File{Path: filepath.Join(dir, "haproxy.cfg"), Content: out.Text}, render.File{Path: out.StateFile, Content: "1\n"})
		for _, f := range files {
			if err := os.WriteFile(f.Path, []byte(f.Content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if said, err := exec.Command(binary, "-c", "-f", filepath.Join(dir, "haproxy.cfg")).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s\n%s", err, said, out.Text)
		}
	})
}

// shape fails if there are more lines of a kind than the config of the fuzz test has.
func shape(t *testing.T, text string) {
	t.Helper()
	want := map[string]int{"server": 6, "backend": 3, "frontend": 2, "bind": 2, "use_backend": 1, "default_backend": 1, "stats": 2, "user": 1, "group": 1, "defaults": 1, "global": 1}
	have := map[string]int{}
	for line := range strings.Lines(text) {
		if word, _, _ := strings.Cut(strings.TrimSpace(line), " "); word != "" {
			have[word]++
		}
		if strings.ContainsFunc(strings.TrimSuffix(line, "\n"), func(r rune) bool { return r < ' ' || r > '~' }) {
			t.Errorf("a line holds what is not plain text: %q", line)
		}
	}
	for word, n := range want {
		if have[word] != n {
			t.Errorf("%d lines begin with %s, want %d:\n%s", have[word], word, n, text)
		}
	}
}
