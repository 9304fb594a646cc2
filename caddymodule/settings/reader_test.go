package settings_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/edgeward/edgeward/caddymodule/settings"
)

// TestTwice reads the same settings on paper and on the machine.
func TestTwice(t *testing.T) {
	dir := t.TempDir()
	token := filepath.Join(dir, "token")
	if err := os.WriteFile(token, []byte("sesame\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("EDGE_WHERE", "10.8.0.2:7443")
	read := func(r *settings.Reader) (at, key string) {
		r.In("home attic", func() {
			at = r.NeedAddrPort("at", "{env.EDGE_WHERE}").String()
			key = r.Secret("token", "", token, "", "").Reveal()
		})
		return at, key
	}
	paper := settings.New(settings.OnPaper)
	if read(paper); paper.Err() != nil || !paper.Later() {
		t.Errorf("on paper: %v, later %v", paper.Err(), paper.Later())
	}
	here := settings.New(settings.ThisMachine)
	if at, key := read(here); here.Err() != nil || here.Later() || at != "10.8.0.2:7443" || key != "sesame" {
		t.Errorf("here: %s %s %v", at, key, here.Err())
	}
	if seen := here.Seen(); !slices.Contains(seen, "10.8.0.2:7443") || !slices.Contains(seen, "sesame") {
		t.Errorf("another value would be the same config: %q", seen)
	}
}

// TestMistakes: all are said, each with its place, and no secret is.
func TestMistakes(t *testing.T) {
	t.Setenv("EDGE_BAD", "nowhere")
	r := settings.New(settings.ThisMachine)
	r.In("home attic", func() {
		r.Need("id", "")
		r.In("peer", func() { r.NeedAddr("at", "{env.EDGE_BAD}") })
		r.Path("file", "srv")
	})
	r.Secret("token", "a", "b", "", "")
	r.API("http://api.example.com/")
	r.Roots("/nowhere/roots.pem")
	const want = `home attic: id: it is missing
home attic: peer: at: "nowhere": want an address
home attic: file: "srv": want an absolute path
token: token, token_file and credential: want one of them
api: "http://api.example.com/": want https, for the token goes there
roots: stat /nowhere/roots.pem: no such file or directory`
	if err := r.Err(); err == nil || err.Error() != want {
		t.Errorf("\n got %v\nwant %s", err, want)
	}
	if !errors.Is(r.Err(), fs.ErrNotExist) {
		t.Error("the cause is lost")
	}
}
