package render_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/edgeward/edgeward/sidecar/haproxy"
	"github.com/edgeward/edgeward/sidecar/haproxytest"
	"github.com/edgeward/edgeward/sidecar/render"
	"github.com/edgeward/edgeward/sidecar/settings"
)

// configure reads a config and puts its paths into a folder of the test.
func configure(t testing.TB, text string) render.Config {
	t.Helper()
	f, err := settings.Decode([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	plan, err := f.Plan()
	if err != nil {
		t.Fatal(err)
	}
	c := plan.Render
	c.Process.Files, c.Process.Socket.Path = t.TempDir(), haproxytest.Socket(t)
	c.Process.User, c.Process.Group = haproxytest.Account(t)
	c.Process.Log = "stdout"
	return c
}

// place renders a config and writes its files.
func place(t testing.TB, c render.Config) render.Output {
	t.Helper()
	out, err := render.Render(c)
	if err != nil {
		t.Fatal(err)
	}
	files := append(out.Files, render.File{Path: out.StateFile, Content: haproxy.EmptyStates})
	for _, f := range files {
		if err := os.WriteFile(f.Path, []byte(f.Content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// start runs a config.
func start(t testing.TB, c render.Config) *haproxytest.Process {
	t.Helper()
	out := place(t, c)
	return haproxytest.Start(t, out.Text, out.Socket)
}

// gatewayJSON is a gateway as it stands in a config, checked fast.
func gatewayJSON(g *haproxytest.Gateway, more string) string {
	return fmt.Sprintf(`{"name":%q,"dial":%q,"check":{"kind":"tcp","interval":"100ms","fast":"50ms","rise":1,"fall":2}%s}`, g.Name, g.Addr, more)
}
