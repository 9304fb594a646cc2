package conformance_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/edgeward/edgeward/sidecar/haproxytest"
	"github.com/edgeward/edgeward/sidecar/render"
	"github.com/edgeward/edgeward/sidecar/settings"
)

// startHAProxy lets edge-sidecar write the config of the world, with what the relay
// knows of the gateways unless HAProxy finds out by itself, and runs HAProxy with it
// until the test ends. It returns the sidecar's own config.
func startHAProxy(t testing.TB, w *world, g ground, r *relay) (config string) {
	t.Helper()
	dir := t.TempDir()
	f := w.file(t, dir, g, r)
	snapshot := filepath.Join(dir, "snapshot.json")
	config = filepath.Join(dir, "sidecar.json")
	for path, data := range map[string][]byte{config: encode(t, f), snapshot: r.snapshot().raw, f.Process.Files + "/servers.state": []byte("1\n")} {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	text := filepath.Join(dir, "haproxy.cfg")
	cmd := exec.Command(edgeSidecar, "render", "--config", config, "--output", text)
	if !w.watched {
		cmd.Args = append(cmd.Args, "--snapshot", snapshot)
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("edge-sidecar render: %v: %s", err, out)
	}
	haproxytest.StartFile(t, text, f.Process.Socket.Path)
	return config
}

// file is the sidecar's config.
func (w *world) file(t testing.TB, dir string, g ground, r *relay) settings.File {
	t.Helper()
	user, group := haproxytest.Account(t)
	f := settings.File{
		Gateways: w.gateways, Pools: w.pools, Routes: w.settled(g), Ports: render.Ports{Host: g.host, Limits: barred}, Health: render.ByHAProxy, Timeouts: render.Timeouts{Dial: 10 * brief},
		Process: render.Process{
			Files: filepath.Join(dir, "files"), User: user, Group: group, Log: "stdout", Socket: render.Socket{Path: haproxytest.Socket(t)},
		},
	}
	for _, p := range w.listeners {
		l := p.Listener
		l.Address = g.at[p.name]
		f.Listeners = append(f.Listeners, l)
	}
	if !w.watched {
		f.Health = render.BySidecar
		f.Source = settings.Source{Kind: "snapshot", URL: "http://" + r.admin}
		f.Run.Dir = filepath.Dir(haproxytest.Socket(t))
	}
	return f
}
