package e2e_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestReload: a hundred new configs under load refuse, reset and cut nothing,
// and neither they nor the death of another member end what was open before. Every
// tenth one cannot be put in force, and that changes nothing either.
func TestReload(t *testing.T) {
	p := newPair(t, "", "limit total 5000")
	session, download := p.echo(t), p.download(t, 350)
	if session.gateway != "nuc" {
		t.Fatalf("the session is with %s, want nuc", session.gateway)
	}
	taken := tcpServer(t, freeAddr(t, "127.0.0.1"), echoes)
	crowd := p.send(t, 0, 300)
	began := time.Now()
	for i := range 100 {
		if i%10 == 9 {
			more := fmt.Sprintf("\n}\nlisten %s {\nroute pool home", taken.Addr())
			if err := p.load(p.write(p.global("", more), "")); err == nil {
				t.Error("a config that listens where another process does is taken")
			}
		} else if err := p.load(p.write(p.global("", fmt.Sprintf("limit total %d", 5000+i)), "")); err != nil {
			t.Fatal(err)
		}
		if i == 50 {
			p.nas.kill()
		}
		if err := session.say(fmt.Sprint("reload ", i)); err != nil {
			t.Fatalf("the session broke at reload %d: %v", i, err)
		}
		crowd.await(t, 8*(i+1))
	}
	took := time.Since(began)
	all := crowd.end(true)
	all.noneFailed(t)
	t.Logf("100 reloads in %s with %d visitors, %s", took.Round(time.Millisecond), len(all), all.latency())
	select {
	case err := <-download:
		if err != nil {
			t.Errorf("the download broke: %v", err)
		}
	case <-time.After(30 * time.Second):
		t.Error("the download does not end")
	}
	if err := session.say("after all"); err != nil {
		t.Error(err)
	}
}

// TestReloadLayer4: for a route in caddy-l4, open sessions live through reloads. A
// visitor who waits in the listener's queue at that very moment may be reset: Caddy
// itself closes that socket, with or without edge_pool, and only the relay's own
// listeners (listen) promise more. So a few such resets are no failure here.
func TestReloadLayer4(t *testing.T) {
	p := newPair(t, "", "")
	p.visitor.addr = freeAddr(t, "127.0.0.1")
	text := p.write(p.layer4(), "")
	if err := p.load(text); err != nil {
		t.Fatal(err)
	}
	session := p.echo(t)
	crowd := p.send(t, 0, 200)
	for i := range 50 {
		next := strings.Replace(text, "matching_timeout 1s", fmt.Sprintf("matching_timeout %dms", 1000+i), 1)
		if err := p.load(next); err != nil {
			t.Fatal(err)
		}
		if err := session.say(fmt.Sprint("reload ", i)); err != nil {
			t.Fatalf("the session broke at reload %d: %v", i, err)
		}
		crowd.await(t, 6*(i+1))
	}
	all := crowd.end(true)
	reset := all.where(func(v visit) bool { return errors.Is(v.err, syscall.ECONNRESET) })
	all.where(func(v visit) bool { return !errors.Is(v.err, syscall.ECONNRESET) }).noneFailed(t)
	t.Logf("50 reloads with %d visitors, %d reset in Caddy's queue, %s", len(all), len(reset), all.latency())
	if most := len(all) / 10; len(reset) > most {
		t.Errorf("%d visitors were reset, want at most %d", len(reset), most)
	}
}

// TestTakenOut: what a new config does not mention takes no new visitors, and
// those who are there stay: a member, a listener, and the whole app.
func TestTakenOut(t *testing.T) {
	t.Parallel()
	p := newPair(t, "", "")
	session, download := p.echo(t), p.download(t, 150)
	text := p.global("", "")
	for _, step := range []struct{ name, global string }{
		{"a member", strings.Replace(text, "members nuc nas", "members nas", 1)},
		{"a gateway", strings.Replace(strings.Replace(text, "members nuc nas", "members nas", 1), "gateway nuc", "gateway other", 1)},
		{"the listener", strings.Replace(text, p.addr, freeAddr(t, "127.0.0.1"), 1)},
	} {
		if err := p.load(p.write(step.global, "")); err != nil {
			t.Fatal(err)
		}
		if err := session.say(step.name); err != nil {
			t.Fatalf("taking out %s broke the session: %v", step.name, err)
		}
		one := p.visit(t.Context())
		if step.name == "the listener" && one.err == nil || step.name != "the listener" && one.gateway != "nas" {
			t.Errorf("after %s: a visitor came to %q, %v", step.name, one.gateway, one.err)
		}
	}
	if err := p.load(p.write("", "")); err != nil {
		t.Fatal(err)
	}
	if err := session.say("the app"); err != nil {
		t.Errorf("taking out the app broke the session: %v", err)
	}
	if err := <-download; err != nil {
		t.Errorf("taking out the app broke the download: %v", err)
	}
	if err := p.load(p.write(text, "")); err != nil {
		t.Fatal(err)
	}
	// The app comes back knowing nothing: nas is served by until nuc is seen alive too.
	eventually(t, patience, "nuc has the visitors again", func() bool { return p.mustGet(t, "/") == "nuc" })
}

// TestWatch: whoever watches the snapshot delays neither a reload nor the end.
func TestWatch(t *testing.T) {
	t.Parallel()
	p := newPair(t, "", "")
	watch := func() {
		// The admin server before the reload may take the connection with it.
		eventually(t, patience, "somebody watches", func() bool {
			conn := must(net.Dial("tcp", p.admin))(t)
			t.Cleanup(func() { _ = conn.Close() })
			_ = conn.SetDeadline(time.Now().Add(patience))
			resp, _, err := request(conn, p.admin, "/edge/snapshot?watch")
			return err == nil && resp.StatusCode == 200
		})
	}
	watch()
	for i := range 3 {
		began := time.Now()
		if err := p.load(p.write(p.global("", fmt.Sprintf("limit total %d", 100+i)), "")); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("a reload with a watcher took %s", took)
		}
		watch()
	}
	took := p.stop()
	t.Logf("stopped after %s", took.Round(time.Millisecond))
	if took > 4*time.Second {
		t.Errorf("stopping with a watcher took %s", took)
	}
}

// download begins one of so many thousand bytes, which takes 20 ms for each, and
// sends how it ended.
func (v visitor) download(t testing.TB, parts int) <-chan error {
	t.Helper()
	conn := must(v.connect(t.Context()))(t)
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	t.Cleanup(func() { _ = conn.Close() })
	resp, _, err := request(conn, v.sni(), fmt.Sprintf("/slow?parts=%d", parts))
	if err != nil {
		t.Fatal(err)
	}
	over := make(chan error, 1)
	go func() {
		n, err := io.Copy(io.Discard, resp.Body)
		if err == nil && n != int64(parts)*1000 {
			err = fmt.Errorf("got %d bytes of %d", n, parts*1000)
		}
		over <- err
	}()
	return over
}
