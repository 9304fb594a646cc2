package daemon_test

import (
	"context"
	"encoding/pem"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/edgeward/edgeward/relay/api"
	"github.com/edgeward/edgeward/relay/catalog"
	"github.com/edgeward/edgeward/relay/health"
	"github.com/edgeward/edgeward/relay/monitor"
	"github.com/edgeward/edgeward/relay/pool"
	"github.com/edgeward/edgeward/relay/store"
	"github.com/edgeward/edgeward/sidecar/haproxytest"
)

// relay is as much of one as is asked for its snapshot, behind the API itself.
type relay struct {
	api.Fleet // the rest is not asked for
	m         *monitor.Monitor
}

func (r relay) Catalog() *catalog.Catalog                           { return catalog.New() }
func (r relay) APITokens(context.Context) ([]store.APIToken, error) { return nil, nil }

func (r relay) Snapshot() *monitor.Snapshot { return r.m.Snapshot() }
func (r relay) WaitSnapshot(ctx context.Context, after uint64) (*monitor.Snapshot, error) {
	return r.m.Wait(ctx, after)
}

// TestSnapshot: a relay elsewhere is followed, over TLS and with a token: what it hears
// of gateways, and what operators say there.
func TestSnapshot(t *testing.T) {
	t.Parallel()
	const secret = "a-secret-of-a-test-that-is-long-enough"
	r := newRig(t)
	token, err := api.NewStaticToken("sidecar", secret, api.ScopeRead)
	if err != nil {
		t.Fatal(err)
	}
	there := relay{m: monitor.New(monitor.Options{})}
	defer there.m.Close()
	server := httptest.NewTLSServer(api.New(api.Options{Fleet: func() api.Fleet { return there }, Auth: &api.Auth{Static: []api.StaticToken{token}}}))
	defer server.Close()
	defer server.CloseClientConnections()
	roots, tokenFile := filepath.Join(r.dir, "roots.pem"), filepath.Join(r.dir, "token")
	for path, text := range map[string]string{
		roots: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})), tokenFile: "wrong-" + secret,
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r.write(t, fmt.Sprintf(`, "source": {"kind": "snapshot", "url": %q, "roots_file": %q, "token_file": %q, "stale": "1s"}`, server.URL, roots, tokenFile))
	p, err := r.load()
	if err != nil {
		t.Fatal(err)
	}
	gateways, err := p.Render.Catalog.MonitorGateways()
	if err != nil {
		t.Fatal(err)
	}
	for i := range gateways {
		gateways[i].NoCheck = true // its agents' heartbeats are all there is
	}
	there.m.Apply(monitor.Config{Gateways: gateways, Pools: p.Render.Catalog.Settings()})
	r.start(t)
	r.run(t)
	haproxytest.Eventually(t, "a wrong token is refused", func() bool { s := r.status(t); return !s.Source.Known && strings.Contains(s.Source.Error, "401") })
	if err := os.WriteFile(tokenFile, []byte(secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	haproxytest.Eventually(t, "the relay is followed", func() bool { s := r.status(t); return s.Source.Known && s.Source.Error == "" })
	heard := func(gateway string, v health.Value) {
		there.m.Observe(gateway, health.Evidence{Value: v, Level: health.Content, Source: health.Heartbeat, Firm: true})
	}
	heard("a", health.Good)
	heard("b", health.Good)
	r.serves(t, "a.example.com", "a")
	if err := there.m.SetOperator("a", pool.Drain, "a test"); err != nil {
		t.Fatal(err)
	}
	haproxytest.Eventually(t, "a drains", func() bool { return states(r.status(t)) == "a=drain b=ready" })
	r.serves(t, "a.example.com", "b")

	// The relay is gone: nothing is known, and nothing changes, also in a new worker.
	server.CloseClientConnections()
	server.Listener.Close()
	haproxytest.Eventually(t, "it is too old", func() bool { return !r.status(t).Source.Known })
	if got := states(r.status(t)); got != "a=drain b=ready" {
		t.Errorf("a silent source has changed it to %s", got)
	}
	if got := r.visit(t, "a.example.com"); got != "b" {
		t.Errorf("%q serves", got)
	}
}

// TestApplyBeside: the config is applied by another process while the sidecar runs,
// and no visitor gets to a member that is down, in the old worker or the new one.
func TestApplyBeside(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.write(t, "")
	r.start(t)
	r.run(t)
	r.serves(t, "a.example.com", "a")
	r.home["a"].Stop()
	haproxytest.Eventually(t, "a is down", func() bool { return states(r.status(t)) == "a=maint b=ready" })
	for round := range 2 {
		name := fmt.Sprintf("*.wild%d.example.com", round)
		r.write(t, "", name)
		p, err := r.load()
		if err != nil {
			t.Fatal(err)
		}
		stop, failed := make(chan struct{}), make(chan int)
		go func() {
			bad := 0
			for {
				select {
				case <-stop:
					failed <- bad
					return
				default:
					if r.visit(t, "a.example.com") != "b" {
						bad++
					}
				}
			}
		}()
		before := r.status(t).HAProxy.Worker
		reapply(t, p)
		haproxytest.Eventually(t, "the new worker is followed", func() bool {
			s := r.status(t)
			return s.HAProxy.Worker != before && states(s) == "a=maint b=ready"
		})
		close(stop)
		if bad := <-failed; bad > 0 {
			t.Errorf("%d visitors were not served by b", bad)
		}
		r.serves(t, strings.Replace(name, "*", "x", 1), "b")
	}
}
