package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/edgeward/edgeward/internal/secret"
	"github.com/edgeward/edgeward/relay/agent"
	"github.com/edgeward/edgeward/relay/link"
)

// bubble runs a test in simulated time.
func bubble(t *testing.T, name string, f func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
}

func settle(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func TestHeartbeats(t *testing.T) {
	bubble(t, "regular", func(t *testing.T) {
		r := newRig(t, func(c *agent.Config) {
			c.LAN = func(context.Context) netip.Addr { return netip.MustParseAddr("192.168.1.2") }
			c.TunnelAge = func(context.Context) time.Duration { return 42 * time.Second }
		})
		r.run()
		settle(10 * time.Minute)
		beats, _ := r.relay.seen()
		at := r.relay.now().beatAt
		if n := len(beats); n < 118 || n > 124 {
			t.Errorf("%d heartbeats in 10 minutes", n)
		}
		for i, hb := range beats {
			if hb.Seq != uint64(i+1) || hb.Boot != beats[0].Boot || hb.Boot == "" || hb.Interval != 5 {
				t.Fatalf("heartbeat %d is %+v", i+1, hb)
			}
			if hb.LAN.String() != "192.168.1.2" || hb.TunnelAge != 42 || hb.Version != "v1" || hb.Hostname == "" {
				t.Fatalf("heartbeat %d is %+v", i+1, hb)
			}
			if i == 0 {
				continue
			}
			if hb.Report <= beats[i-1].Report {
				t.Fatalf("report %d after %d", hb.Report, beats[i-1].Report)
			}
			if gap := at[i].Sub(at[i-1]); gap < 4500*time.Millisecond || gap > 5500*time.Millisecond {
				t.Fatalf("%s between two heartbeats", gap)
			}
		}
		if s := r.agent.Status(); s.State != agent.Connected || s.Gateway != "nuc" || s.Sent != uint64(len(beats)) || s.Repeated != 0 {
			t.Errorf("status %+v", s)
		}
		if r.relay.now().dials > 3 {
			t.Errorf("%d connections were made for all that", r.relay.now().dials)
		}
	})
	bubble(t, "the first comes at once", func(t *testing.T) {
		r := newRig(t)
		r.run()
		settle(time.Millisecond)
		if beats, _ := r.relay.seen(); len(beats) != 1 {
			t.Errorf("%d heartbeats", len(beats))
		}
	})
	bubble(t, "a hung collector delays none", func(t *testing.T) {
		r := newRig(t, func(c *agent.Config) {
			c.LAN = func(ctx context.Context) netip.Addr { <-ctx.Done(); return netip.Addr{} }
			c.TunnelAge = func(context.Context) time.Duration { time.Sleep(time.Hour); return 0 }
		})
		r.run()
		settle(time.Minute)
		beats, _ := r.relay.seen()
		if len(beats) < 10 || beats[5].TunnelAge >= 0 || beats[5].LAN.IsValid() {
			t.Errorf("%d heartbeats: %+v", len(beats), beats[5])
		}
		began := time.Now()
		r.stop(agent.ErrReplaced)
		if took := time.Since(began); took > 7*time.Second {
			t.Errorf("stopping took %s", took)
		}
		time.Sleep(time.Hour) // the collector, which cannot be ended
	})
}

// TestSilence: the relay, or something on the way to it, says nothing for a while. What
// is asked again is asked on new connections, soon, and not by too many at once.
func TestSilence(t *testing.T) {
	bubble(t, "a dead connection is left within a second", func(t *testing.T) {
		r := newRig(t)
		r.relay.dead = true
		r.run()
		settle(1900 * time.Millisecond)
		if r.relay.now().dials < 3 || r.relay.now().open > 8 {
			t.Errorf("%d connections were made, %d are open", r.relay.now().dials, r.relay.now().open)
		}
		r.relay.set(func() { r.relay.dead = false })
		settle(time.Second)
		if beats, _ := r.relay.seen(); len(beats) == 0 {
			t.Fatal("no heartbeat within a second of the relay's return")
		}
		settle(10 * time.Second)
		if _, applied := r.relay.seen(); len(applied) == 0 || r.plane.Hash() != "h1" {
			t.Errorf("the table does not come: its request hangs on a dead connection")
		}
		if r.relay.now().open > 3 {
			t.Errorf("%d connections are still open", r.relay.now().open)
		}
	})
	bubble(t, "connections that say nothing do not pile up", func(t *testing.T) {
		r := newRig(t)
		r.relay.dead = true
		r.run()
		settle(15 * time.Second)
		if now := r.relay.now(); now.dials < 25 || now.open > 8 {
			t.Errorf("%d connections were made, %d are open", now.dials, now.open)
		}
	})
	bubble(t, "connections die in mid-life", func(t *testing.T) {
		r := newRig(t)
		r.run()
		settle(20 * time.Second)
		first, _ := r.relay.seen()
		before := len(first)
		r.relay.set(func() { r.relay.delay = time.Hour }) // what is connected answers no more
		settle(8 * time.Second)
		r.relay.set(func() { r.relay.delay = 0 })
		settle(2 * time.Second)
		if beats, _ := r.relay.seen(); len(beats) <= before+3 {
			t.Errorf("%d heartbeats after %d", len(beats), before)
		}
		if s := r.agent.Status(); s.State != agent.Connected || s.Repeated == 0 {
			t.Errorf("status %+v", s)
		}
	})
	bubble(t, "a slow line is no silent one", func(t *testing.T) {
		r := newRig(t)
		r.relay.delay = 900 * time.Millisecond
		r.run()
		settle(time.Minute)
		if s := r.agent.Status(); s.State != agent.Connected {
			t.Errorf("status %+v", s)
		}
	})
	bubble(t, "a relay that is away for long is asked every five seconds", func(t *testing.T) {
		r := newRig(t)
		r.relay.gone = true
		r.run()
		settle(10 * time.Minute)
		before := r.relay.now().dials
		settle(10 * time.Minute)
		if n := r.relay.now().dials - before; n < 100 || n > 250 {
			t.Errorf("%d connections in 10 minutes", n)
		}
		if s := r.agent.Status(); s.State != agent.Disconnected || !strings.Contains(s.Error, "no way to the relay") {
			t.Errorf("status %+v", s)
		}
		if r.plane.now().retries < 200 {
			t.Errorf("%d retries of what could not be opened: they need no network", r.plane.now().retries)
		}
		r.relay.set(func() { r.relay.gone = false })
		settle(6 * time.Second)
		if s := r.agent.Status(); s.State != agent.Connected || s.Hash != "h1" {
			t.Errorf("status %+v after its return", s)
		}
	})
}

func TestTables(t *testing.T) {
	bubble(t, "a change is applied and acknowledged at once", func(t *testing.T) {
		r := newRig(t)
		r.run()
		settle(7 * time.Second)
		began := time.Now()
		r.relay.set(func() { r.relay.table.Hash = "h2" })
		synctest.Wait()
		_, applied := r.relay.seen()
		if took := time.Since(began); len(applied) == 0 || applied[len(applied)-1].Hash != "h2" || took > time.Second {
			t.Errorf("after %s: %+v", took, applied)
		}
	})
	bubble(t, "many changes", func(t *testing.T) {
		r := newRig(t)
		r.run()
		for i := range 200 {
			r.relay.set(func() { r.relay.table.Hash = "v" + string(rune('a'+i%26)) + string(rune('a'+i/26)) })
			time.Sleep(50 * time.Millisecond)
		}
		settle(2 * time.Second)
		if want := r.relay.now().hash; r.plane.Hash() != want {
			t.Errorf("%s is in force, want %s", r.plane.Hash(), want)
		}
	})
	bubble(t, "a relay that does not wait is not asked in a circle", func(t *testing.T) {
		r := newRig(t)
		r.relay.hasty = true
		r.run()
		settle(time.Minute)
		if r.relay.now().tables > 125 {
			t.Errorf("%d requests for a table in a minute", r.relay.now().tables)
		}
	})
	bubble(t, "one that cannot be applied", func(t *testing.T) {
		r := newRig(t)
		r.plane.refuse = errors.New("no")
		r.run()
		settle(time.Minute)
		if n := r.plane.now().applies; n < 3 || n > 40 {
			t.Errorf("%d tries in a minute", n)
		}
		beats, _ := r.relay.seen()
		if last := beats[len(beats)-1]; last.Hash != "" {
			t.Errorf("it is acknowledged: %+v", last)
		}
	})
	bubble(t, "what does not work is told at once", func(t *testing.T) {
		r := newRig(t)
		r.run()
		settle(7 * time.Second)
		r.plane.setFaults(link.RouteFault{Route: "a", Reason: "refused"})
		synctest.Wait()
		_, applied := r.relay.seen()
		if last := applied[len(applied)-1]; len(last.Failed) != 1 || last.Failed[0].Route != "a" || last.Hash != "h1" {
			t.Errorf("told: %+v", applied)
		}
		settle(6 * time.Second)
		beats, _ := r.relay.seen()
		if last := beats[len(beats)-1]; len(last.Failed) != 1 {
			t.Errorf("the heartbeat says %+v", last)
		}
	})
}

func TestDisk(t *testing.T) {
	bubble(t, "starts with the last table and no network", func(t *testing.T) {
		r := newRig(t)
		r.run()
		settle(time.Second)
		r.stop(agent.ErrReplaced)
		info, err := os.Stat(r.file)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Fatalf("%v, %v", info, err)
		}
		next := newRig(t, func(c *agent.Config) { c.File = r.file })
		next.relay.gone = true
		next.run()
		synctest.Wait()
		if s := next.agent.Status(); s.Hash != "h1" || !s.FromDisk || s.Gateway != "nuc" {
			t.Errorf("status %+v", s)
		}
	})
	bubble(t, "a table in force is not replaced by an older one", func(t *testing.T) {
		r := newRig(t)
		r.plane.table = link.Table{Hash: "h9"}
		if err := os.WriteFile(r.file, []byte("{"), 0o600); err != nil {
			t.Fatal(err)
		}
		r.relay.gone = true
		r.run()
		synctest.Wait()
		if r.plane.now().applies > 0 {
			t.Error("it is")
		}
	})
	for name, spoil := range map[string]func([]byte) []byte{
		"cut":         func(b []byte) []byte { return b[:len(b)/2] },
		"one letter":  func(b []byte) []byte { return []byte(strings.Replace(string(b), "h1", "h7", 1)) },
		"empty":       func([]byte) []byte { return nil },
		"another one": func([]byte) []byte { return []byte(`{"table":{"hash":"h1"}}`) },
	} {
		bubble(t, "spoilt: "+name, func(t *testing.T) {
			r := newRig(t)
			r.run()
			settle(time.Second)
			r.stop(agent.ErrReplaced)
			text, err := os.ReadFile(r.file)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(r.file, spoil(text), 0o600); err != nil {
				t.Fatal(err)
			}
			next := newRig(t, func(c *agent.Config) { c.File = r.file })
			next.relay.gone = true
			next.run()
			synctest.Wait()
			if next.plane.now().applies > 0 {
				t.Error("it was applied")
			}
			if _, err := os.Stat(r.file + ".bad"); err != nil {
				t.Error("it was not set aside:", err)
			}
		})
	}
}

func TestTokens(t *testing.T) {
	bubble(t, "unpaired, then paired", func(t *testing.T) {
		r := newRig(t)
		p := agent.Pairing{Dir: filepath.Join(t.TempDir(), "gateway")}
		r.token = func() secret.String { s, _ := p.Token(); return s }
		r.run()
		settle(time.Minute)
		if s := r.agent.Status(); s.State != agent.Unpaired || r.relay.now().dials > 0 {
			t.Errorf("status %+v, %d connections", s, r.relay.now().dials)
		}
		name, err := p.Pair(t.Context(), r.client, link.NewCode())
		if err != nil || name != "nuc" {
			t.Fatal(name, err)
		}
		r.agent.Wake()
		settle(time.Second)
		if s := r.agent.Status(); s.State != agent.Connected || s.Hash != "h1" {
			t.Errorf("status %+v", s)
		}
		if err := p.Rotate(t.Context(), r.client); err != nil {
			t.Fatal(err)
		}
		settle(10 * time.Second)
		if s := r.agent.Status(); s.State != agent.Connected || r.relay.now().token != link.TokenPrefix+"two" {
			t.Errorf("after rotating: %+v", s)
		}
		info, err := os.Stat(p.TokenFile())
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("the token's file: %v, %v", info.Mode(), err)
		}
		if url, err := p.Relay(); url != "http://127.0.0.1/agent" || err != nil {
			t.Errorf("the relay is %q, %v", url, err)
		}
		text, err := json.Marshal(r.agent.Status())
		if err != nil || strings.Contains(string(text), link.TokenPrefix) {
			t.Errorf("the status holds a token: %s, %v", text, err)
		}
		if err := p.Remove(); err != nil {
			t.Error(err)
		}
		if left, _ := filepath.Glob(filepath.Join(p.Dir, "*")); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
	})
	bubble(t, "revoked", func(t *testing.T) {
		r := newRig(t)
		r.run()
		settle(20 * time.Second)
		r.relay.set(func() { r.relay.token = "another" })
		settle(10 * time.Second)
		before := r.relay.now().dials
		settle(10 * time.Minute)
		s := r.agent.Status()
		if s.State != agent.Refused || s.Hash != "h1" || s.Repeated > 0 {
			t.Errorf("status %+v", s)
		}
		if n := r.relay.now().dials - before; n > 5 {
			t.Errorf("%d connections in ten minutes", n)
		}
		r.relay.set(func() { r.relay.token = link.TokenPrefix + "one" })
		settle(6 * time.Second)
		if s := r.agent.Status(); s.State != agent.Connected {
			t.Errorf("status %+v once it is good again", s)
		}
	})
}

func TestStopping(t *testing.T) {
	for name, tc := range map[string]struct {
		cause error
		says  bool
	}{"for good": {nil, true}, "another takes over": {agent.ErrReplaced, false}} {
		bubble(t, name, func(t *testing.T) {
			r := newRig(t)
			r.run()
			settle(7 * time.Second)
			before, _ := r.relay.seen()
			r.stop(tc.cause)
			after, _ := r.relay.seen()
			last := after[len(after)-1]
			if last.Stopping != tc.says || tc.says != (len(after) == len(before)+1) {
				t.Errorf("%d heartbeats after %d, the last is %+v", len(after), len(before), last)
			}
		})
	}
	bubble(t, "with a relay that does not answer", func(t *testing.T) {
		r := newRig(t)
		r.relay.dead = true
		r.run()
		settle(7 * time.Second)
		began := time.Now()
		r.stop(nil)
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("it took %s", took)
		}
	})
}

func TestConfig(t *testing.T) {
	r := newRig(t)
	for _, c := range []agent.Config{
		{},
		{Client: r.client},
		{Plane: r.plane},
		{Client: r.client, Plane: r.plane, Interval: time.Millisecond},
		{Client: r.client, Plane: r.plane, Interval: time.Hour},
	} {
		if _, err := agent.New(c); err == nil {
			t.Errorf("%+v is taken", c)
		}
	}
}
