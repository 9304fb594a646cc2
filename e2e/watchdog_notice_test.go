package e2e_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/edgeward/edgeward/internal/fakecloudflare"
)

// receiver is where notices arrive.
type receiver struct {
	*httptest.Server
	mu    sync.Mutex
	list  []notice
	deaf  int           // so many are answered with 503
	state func() string // what is noted with each
}

// notice is one that has arrived.
type notice struct {
	path   string
	header http.Header
	body   string
	state  string
}

func newReceiver(t testing.TB, state func() string) *receiver {
	t.Helper()
	r := &receiver{state: state}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, _ := io.ReadAll(q.Body)
		now := r.state()
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.deaf > 0 {
			r.deaf--
			http.Error(w, "not now", http.StatusServiceUnavailable)
			return
		}
		r.list = append(r.list, notice{q.URL.Path, q.Header, string(body), now})
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) all() []notice {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.list)
}

// await waits for a notice on a path that holds a text.
func (r *receiver) await(t testing.TB, path, text string) (n notice) {
	t.Helper()
	eventually(t, 15*time.Second, "a notice at "+path+" that holds "+text, func() bool {
		all := r.all()
		i := slices.IndexFunc(all, func(n notice) bool { return n.path == path && strings.Contains(n.body, text) })
		if i >= 0 {
			n = all[i]
		}
		return i >= 0
	})
	return n
}

// TestWatchdogNotices: people are told once it is done, by signed webhooks and by
// Discord, whatever a receiver did with the first attempt.
func TestWatchdogNotices(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	relay := c.startRelay()
	r := newReceiver(t, c.on)
	w := c.startWatchdog(fmt.Sprintf(`notify %[1]s/hook {
			secret {file.%[2]s}
		}
		notify discord+%[1]s/api/webhooks/1/x`, r.URL, c.file("webhook")), fast)
	r.await(t, "/hook", `"kind":"started"`)
	c.OnRequest(func(q fakecloudflare.Request, at fakecloudflare.Stage) {
		if q.Call.Writes() && at == fakecloudflare.Before {
			pause(t, time.Second) // those who tell too early have the time to
		}
	})
	relay.kill()
	away := r.await(t, "/hook", `"kind":"switched"`)
	if away.state != onHome {
		t.Errorf("people were told while the records held %s", away.state)
	}
	w.await("steady", "cloudflare", 10*time.Second)
	told := r.await(t, "/api/webhooks/1/x", "moved from relay to cloudflare")
	if told.state != onHome || !strings.Contains(told.body, "🔴 relay") || !strings.Contains(told.body, "🟢 cloudflare") {
		t.Errorf("Discord is told, with the records on %s: %s", told.state, told.body)
	}
	r.mu.Lock()
	r.deaf = 2 // one attempt of each
	r.mu.Unlock()
	relay.run()
	if back := r.await(t, "/hook", `"kind":"returned"`); back.state != onRelay {
		t.Errorf("people were told of the return while the records held %s", back.state)
	}
	r.await(t, "/api/webhooks/1/x", "back on relay")
	if out, code := w.do("notify", "test", "--address", w.admin); code != 0 || !strings.Contains(out, "webhook, discord") {
		t.Errorf("notify test: exit code %d\n%s", code, out)
	}
	r.await(t, "/hook", `"kind":"test"`)
	seen := map[string]bool{}
	for _, n := range r.all() {
		if n.path != "/hook" {
			continue
		}
		if err := n.verify(webhookSecret); err != nil {
			t.Errorf("%v: %s", err, n.body)
		}
		if id := n.header.Get("X-Edge-Id"); id == "" || seen[id] {
			t.Errorf("the id %q came before: %s", id, n.body)
		} else {
			seen[id] = true
		}
	}
}

// verify does what the receiver of a webhook should.
func (n notice) verify(key string) error {
	stamp, signature, ok := strings.Cut(n.header.Get("X-Edge-Signature"), ",v1=")
	seconds, isTime := strings.CutPrefix(stamp, "t=")
	if !ok || !isTime {
		return fmt.Errorf("the signature is %q", n.header.Get("X-Edge-Signature"))
	}
	mac := hmac.New(sha256.New, []byte(key))
	mac.Write([]byte(seconds + "." + n.body))
	if hex.EncodeToString(mac.Sum(nil)) != signature {
		return fmt.Errorf("the signature %s is not that of the body", signature)
	}
	return nil
}

// TestWatchdogSystemd: it tells systemd that it is ready, that it lives, that it
// reloads and that it ends.
func TestWatchdogSystemd(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	c.startRelay()
	dir := must(os.MkdirTemp("", "edge"))(t) // the path of a socket is to be short
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket := must(net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(dir, "notify"), Net: "unixgram"}))(t)
	t.Cleanup(func() { _ = socket.Close() })
	said := make(chan string, 64)
	go func() {
		b := make([]byte, 4096)
		for {
			n, err := socket.Read(b)
			if err != nil {
				return
			}
			said <- string(b[:n])
		}
	}()
	hears := func(word string) {
		t.Helper()
		limit := time.After(20 * time.Second)
		for {
			select {
			case text := <-said:
				if slices.Contains(strings.Split(text, "\n"), word) {
					return
				}
			case <-limit:
				t.Fatal("systemd does not hear " + word)
			}
		}
	}
	w := c.newWatchdog("", c.site("example.test", relayAddr, c.relay, fast))
	w.start = func(cmd *exec.Cmd) {
		cmd.Env = append(cmd.Env, "NOTIFY_SOCKET="+socket.LocalAddr().String())
	}
	w.run()
	hears("READY=1")
	hears("WATCHDOG=1")
	if out, code := w.do("reload", "--force", "--config", "Caddyfile"); code != 0 {
		t.Errorf("reload: exit code %d\n%s", code, out)
	}
	hears("RELOADING=1")
	hears("READY=1")
	hears("WATCHDOG=1")
	_ = w.cmd.Process.Signal(syscall.SIGTERM)
	hears("STOPPING=1")
	<-w.over
}
