package e2e_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/edgeward/edgeward/internal/fakecloudflare"
)

// TestWatchdogKilled: killed between the intent and its confirmation, wherever that
// is, the watchdog goes on by itself when it is started again.
func TestWatchdogKilled(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		hang    func(*cloud) (hangs func() bool)
		written string // what the records hold then
	}{
		{"before it has read", hangNext(fakecloudflare.ListRecords, fakecloudflare.Hang), onRelay},
		{"before the write takes effect", hangNext(fakecloudflare.Batch, fakecloudflare.Hang), onRelay},
		{"before the answer comes", hangNext(fakecloudflare.Batch, fakecloudflare.HangAfter), onHome},
		{"before it has read back", hangReadBack, onHome},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := newCloud(t)
			relay := newGatewayAt(t, "relay", c.relay)
			serveHealth(relay)
			w := c.startWatchdog("read_interval 1h", fast) // it reads for the move alone
			hangs := tc.hang(c)
			relay.kill()
			eventually(t, 15*time.Second, "the provider is asked, and does not answer", func() bool { return hangs() && c.on() == tc.written })
			w.kill()
			intent := must(readFile(filepath.Join(w.state(), "site-example_2etest.json")))(t)
			if !strings.Contains(intent, `"move":{"from":"relay","to":"cloudflare"`) {
				t.Errorf("the provider is asked, and the intent is not on disk: %s", intent)
			}
			c.OnRequest(nil)
			c.Heal()
			writes := c.Count(fakecloudflare.Batch)
			w.run()
			w.await("steady", "cloudflare", 15*time.Second)
			if c.on() != onHome {
				t.Errorf("the records hold %s", c.on())
			}
			again := c.Count(fakecloudflare.Batch) - writes
			if want := map[string]int{onRelay: 1, onHome: 0}[tc.written]; again != want {
				t.Errorf("after the restart it wrote %d times, want %d", again, want)
			}
		})
	}
}

// hangNext keeps the next request of a kind without an answer, and says whether it
// has come.
func hangNext(call fakecloudflare.Call, how fakecloudflare.Do) func(*cloud) func() bool {
	return func(c *cloud) func() bool {
		before := c.Count(call)
		c.Inject(fakecloudflare.Fault{On: call, Do: how, Times: 1})
		return func() bool { return c.Count(call) > before }
	}
}

// hangReadBack does that to the first request after a write.
func hangReadBack(c *cloud) func() bool {
	var hangs atomic.Pointer[func() bool]
	c.OnRequest(func(r fakecloudflare.Request, at fakecloudflare.Stage) {
		if r.Call == fakecloudflare.Batch && at == fakecloudflare.After {
			hangs.Store(new(hangNext(fakecloudflare.ListRecords, fakecloudflare.Hang)(c)))
		}
	})
	return func() bool {
		hang := hangs.Load()
		return hang != nil && (*hang)()
	}
}

// TestWatchdogTwice: a second watchdog on the same state is refused, and the place is
// free as soon as the first one is dead.
func TestWatchdogTwice(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	c.startRelay()
	first := c.startWatchdog("", fast)
	second := c.newWatchdog("", first.sites...)
	second.write(strings.ReplaceAll(second.config("apply"), second.state(), first.state()))
	refused := fmt.Sprintf("state_dir %s is in use", first.state())
	holder := fmt.Sprintf("process %d", first.pid())
	for _, args := range [][]string{{"check"}, {"once", "--apply"}, {"run", "--adapter", "caddyfile"}} {
		began := time.Now()
		out, code := second.do(append(args, "--config", second.caddyfile())...)
		if code != 2 || !strings.Contains(out, refused) || !strings.Contains(out, holder) {
			t.Errorf("%q: exit code %d, want 2, with %q and %q in\n%s", args, code, refused, holder, out)
		}
		if took := time.Since(began); took > 20*time.Second {
			t.Errorf("%q: refused after %s", args, took)
		}
	}
	third := c.newWatchdog("", first.sites...)
	third.run()
	if err := third.load(strings.ReplaceAll(third.config("apply"), third.state(), first.state())); err == nil || !strings.Contains(err.Error(), refused) {
		t.Errorf("a reload onto a state directory in use: %v", err)
	}
	third.await("steady", "relay", 10*time.Second) // and goes on
	third.stop()
	if on := c.on(); on != onRelay {
		t.Errorf("the records hold %s", on)
	}
	first.kill()
	second.run()
	second.await("steady", "relay", 10*time.Second)
}

// TestWatchdogReload: reloads in the midst of a failure do not make it forget what it
// has counted. If they did, it would count to twenty for ever.
func TestWatchdogReload(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	relay := newGatewayAt(t, "relay", c.relay)
	serveHealth(relay)
	w := c.startWatchdog("", "interval 200ms\nstandby_interval 200ms\nburst off\nfailures 20\nproof 5s\nslow off")
	relay.kill()
	reloads := 0
	eventually(t, time.Minute, "the records have moved", func() bool {
		w.app = fmt.Sprintf("remind %dh", 1+reloads) // else there is nothing to reload
		w.write(w.config("apply"))
		if out, code := w.do("reload", "--config", filepath.Base(w.caddyfile())); code != 0 {
			t.Fatalf("reload: exit code %d\n%s", code, out)
		}
		reloads++
		pause(t, 500*time.Millisecond)
		return c.on() == onHome
	})
	if reloads < 4 {
		t.Errorf("it took %d reloads: too few to say anything", reloads)
	}
	t.Logf("moved in the midst of %d reloads", reloads)
	if n := strings.Count(w.log(), `"event":"startup"`); n != reloads+1 {
		t.Errorf("%d configs came into force, want %d", n, reloads+1)
	}
}
