package fallback_test

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/edgeward/edgeward/watchdog/fallback"
	"github.com/edgeward/edgeward/watchdog/fallback/control"
	"github.com/edgeward/edgeward/watchdog/fallback/peer"
	"github.com/edgeward/edgeward/watchdog/fallback/writeback"
)

// asker is another home, by its certificate.
func (r *rig) asker(t *testing.T, home, asks string) *peer.Client {
	t.Helper()
	file := func(name string) string { return filepath.Join(r.dir, home, name) }
	c, err := peer.NewClient(peer.ClientConfig{
		Self: home, Home: asks, Address: "127.0.0.1:" + r.env(asks)["EDGE_TEST_PORT"],
		TLS: peer.Files(file("cert.pem"), file("key.pem"), filepath.Join(r.dir, "ca.pem"), nil),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// TestNobodyWritesWhatRuns: the data of an item that runs here is written by nobody, and
// by nobody who acts by a seat that is over.
func TestNobodyWritesWhatRuns(t *testing.T) {
	if _, err := exec.LookPath("rsync"); err != nil && os.Getenv("CI") != "true" {
		t.Skip("there is no rsync")
	}
	r := newRig(t)
	with := settings{db: r.data(t)}
	cellar := r.start(t, "cellar", with) // else attic waits for a person
	r.at(t, "attic")
	start(t, r.caddyfile(with))
	in(t, "attic", fallback.Serving)
	cellar.sees(t, "attic", "serving", serves)
	epoch := seen(t, "attic").Epoch
	data := fallback.Data{Path: filepath.Dir(r.page("attic")), At: map[string]string{"cellar": filepath.Dir(r.page("cellar"))}}
	r.write(t, "cellar", "from another home")
	carry := func(from string, epoch uint64) error {
		client := r.asker(t, from, "attic")
		w, err := writeback.New(writeback.Config{
			ID: from, RSH: []string{os.Args[0], "fallback", "rsh"},
			Dial: func(ctx context.Context, _ string) (net.Conn, error) { return client.Dial(ctx, "writeback", nil) },
		})
		if err != nil {
			t.Fatal(err)
		}
		_, err = w.Carry(t.Context(), control.Carry{Home: "attic", Item: "db", Data: data, To: "attic", Since: time.Now(), Epoch: epoch}, func(control.Progress) {})
		return err
	}
	for _, c := range []struct {
		epoch uint64
		want  string
	}{
		{epoch, "item db is well here, not stopped"},
		{epoch + 10, "item db is well here, not stopped"},
		{epoch - 1, "is over, the seat is of"},
	} {
		if err := carry("cellar", c.epoch); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("by epoch %d: %v, want %s", c.epoch, err, c.want)
		}
	}
	if got := r.read(t, "attic"); got != "from the beginning" {
		t.Errorf("attic's data is %q", got)
	}
}

// TestStrangersAreNotAnswered: a home that is not in the config is refused, though its
// certificate is good.
func TestStrangersAreNotAnswered(t *testing.T) {
	r := newRig(t)
	r.at(t, "cellar")
	start(t, r.caddyfile(settings{}))
	if _, err := r.asker(t, "attic", "cellar").Status(t.Context()); err != nil {
		t.Errorf("attic is refused: %v", err)
	}
	r.issue(t, "shed", filepath.Join(r.dir, "shed"))
	st, err := r.asker(t, "shed", "cellar").Status(t.Context())
	if refused, ok := errors.AsType[*peer.Error](err); !ok || refused.Code != peer.CodeUnknownHome {
		t.Errorf("shed is answered %+v, %v", st, err)
	}
	eventually(t, "the refusal is counted", func() bool {
		_, body := ask(t, "GET", "/metrics")
		return strings.Contains(body, "edgeward_fallback_peer_refusals_total{")
	})
}
