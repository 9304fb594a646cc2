package e2e_test

import (
	"bufio"
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestRelayNotices: people are told of a gateway that dies and returns, once each,
// signed, and although the first attempt was refused and the relay was reloaded. Whoever
// watches events does not hold up the end of the relay.
func TestRelayNotices(t *testing.T) {
	t.Parallel()
	hook := newReceiver(t, func() string { return "" })
	hook.mu.Lock()
	hook.deaf = 1
	hook.mu.Unlock()
	site := freeAddr(t, "127.0.0.1")
	p := newPair(t, "", "")
	global := p.global("", "") + "\n\tedge {\n\t\tnotify " + hook.URL + "/hook secret a-key-of-the-test\n\t}"
	rest := fmt.Sprintf("http://%s {\n\tedge_api {\n\t\ttoken test a-secret-of-24-characters read\n\t}\n}", site)
	if err := p.load(p.write(global, rest)); err != nil {
		t.Fatal(err)
	}
	req := must(http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+site+"/edge/events?watch", nil))(t)
	req.Header.Set("Authorization", "Bearer a-secret-of-24-characters")
	stream := must(http.DefaultClient.Do(req))(t)
	defer stream.Body.Close()
	if stream.StatusCode != http.StatusOK {
		t.Fatalf("watching events: %s", stream.Status)
	}
	told := make(chan string, 100)
	go func() {
		lines := bufio.NewScanner(stream.Body)
		for lines.Scan() {
			told <- lines.Text()
		}
		close(told)
	}()

	p.nuc.kill()
	n := hook.await(t, "/hook", `"gateway_state_change"`)
	if !strings.Contains(n.body, `"to":"down"`) || !strings.Contains(n.body, "gateway nuc") {
		t.Errorf("the notice is %s", n.body)
	}
	if err := n.verify("a-key-of-the-test"); err != nil {
		t.Error(err)
	}
	hook.await(t, "/hook", `"pool_failover_activated"`)
	if err := p.load(p.write(global, rest+"\n# again")); err != nil {
		t.Fatal(err)
	}
	p.nuc.revive()
	hook.await(t, "/hook", `"severity":"resolved"`)
	seen := map[string]int{}
	for _, n := range hook.all() {
		seen[n.header.Get("X-Edge-Id")]++
	}
	for id, times := range seen {
		if times > 1 {
			t.Errorf("notice %s came %d times", id, times)
		}
	}
	awaitLine(t, told, `"gateway_down"`)

	began := time.Now()
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	<-p.over
	if took := time.Since(began); took > 1500*time.Millisecond {
		t.Errorf("with somebody watching the relay took %s to end", took)
	}
}

// awaitLine waits for a line of a stream.
func awaitLine(t *testing.T, lines <-chan string, want string) {
	t.Helper()
	limit := time.After(5 * time.Second)
	for {
		select {
		case line, open := <-lines:
			if !open {
				t.Fatalf("the stream has ended without %q", want)
			}
			if strings.Contains(line, want) {
				return
			}
		case <-limit:
			t.Fatalf("the stream does not say %q", want)
		}
	}
}
