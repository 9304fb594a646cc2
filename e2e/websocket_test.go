package e2e_test

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/websocket"
)

// beat is how often each end of a WebSocket says something.
const beat = 50 * time.Millisecond

// TestWebSockets: WebSockets live through reloads, through the loss and return of
// the member that does not serve them, and through drains, of their own member
// too. Each end says numbered messages all the while: none is lost, none comes out
// of turn, and no session is opened anew.
func TestWebSockets(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		front   func(t testing.TB, cert tls.Certificate, backend string) (addr string) // nil: the gateway itself
		clients int                                                                    // in Go
		pages   int                                                                    // in Chromium
	}{
		{"go", nil, 8, 0},
		{"nginx", nginxFront, 8, 0},
		{"caddy", caddyFront, 8, 0},
		{"chromium", nginxFront, 0, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := newFronted(t, c.front)
			hall, other := newHall(p.nuc), newHall(p.nas)
			talks := p.enter(t, c.clients, c.pages)
			hall.await(t, c.clients+c.pages, 5)
			p.disturb(t, hall)
			talks = append(talks, hall.end()...)
			if n := len(talks) - c.clients; n != c.clients+c.pages {
				t.Errorf("the server had %d sessions of %d visitors", n, c.clients+c.pages)
			}
			if n := len(other.end()); n > 0 {
				t.Errorf("%d sessions came to the other member", n)
			}
			var said, heard int64
			for _, one := range talks {
				if err := one.ended(t); err != nil {
					t.Error(err)
				}
				said, heard = said+one.said.Load(), heard+one.heard.Load()
			}
			t.Logf("%d ends said %d messages and heard %d", len(talks), said, heard)
			p.cutNobody(t)
		})
	}
}

// TestWebSocketsMove: on_down close ends the WebSockets of a member that is down,
// though they are well themselves, so that a page can open its own anew elsewhere.
func TestWebSocketsMove(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name           string
		clients, pages int
	}{
		{"go", 8, 0},
		{"chromium", 0, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := newPair(t, "on_down close", "")
			hall, other := newHall(p.nuc), newHall(p.nas)
			talks := p.enter(t, c.clients, c.pages)
			hall.await(t, c.clients+c.pages, 5)
			p.nuc.refuse()
			p.awaitPhase("nuc", "down", 10*time.Second)
			for _, one := range append(talks, hall.all()...) {
				if err := one.ended(t); err == nil {
					t.Error("a session ended in good order, and it was to be cut")
				}
			}
			if n := p.ended("gateway_down"); n < c.clients+c.pages {
				t.Errorf("gateway_down is counted %d times, want %d", n, c.clients+c.pages)
			}
			other.await(t, c.pages, 5)
			for _, one := range other.end() {
				if err := one.ended(t); err != nil {
					t.Errorf("at the other member: %v", err)
				}
			}
		})
	}
}

// disturb does all that must not be felt: twenty reloads and, between them, what
// happens to members. After each step everyone must have heard more.
func (p *pair) disturb(t *testing.T, hall *hall) {
	t.Helper()
	comes := func(want string) {
		t.Helper()
		if got := p.mustGet(t, "/"); got != want {
			t.Errorf("a new visitor came to %s, want %s", got, want)
		}
	}
	act := func(gateway, what string) { p.call(http.MethodPost, "/edge/gateways/"+gateway+"/"+what, nil) }
	for i := range 20 {
		switch i {
		case 2:
			p.nas.kill()
		case 4:
			p.awaitPhase("nas", "down", 10*time.Second)
			comes("nuc")
		case 6:
			p.nas.revive()
			p.awaitPhase("nas", "alive", 10*time.Second)
		case 8:
			act("nas", "drain")
		case 10:
			act("nas", "undrain")
		case 12:
			act("nuc", "drain")
			comes("nas")
		case 15:
			act("nuc", "undrain")
			comes("nuc")
		case 17:
			p.nas.blackhole()
			p.awaitPhase("nas", "down", 10*time.Second)
		}
		if err := p.load(p.write(p.global("", fmt.Sprintf("limit total %d", 1000+i)), "")); err != nil {
			t.Fatal(err)
		}
		hall.hearMore(t, 3)
	}
}

// cutNobody checks that no connection ended because the relay wanted it to.
func (p *pair) cutNobody(t *testing.T) {
	t.Helper()
	for _, reason := range []string{"idle", "half_closed", "gateway_down", "gateway_disabled", "stopped", "internal_error"} {
		if n := p.ended(reason); n > 0 {
			t.Errorf("the relay ended %d connections for %s", n, reason)
		}
	}
}

// newFronted is newPair with a web server in front of nuc.
func newFronted(t *testing.T, front func(testing.TB, tls.Certificate, string) string) *pair {
	t.Helper()
	if front == nil {
		return newPair(t, "", "")
	}
	p := &pair{nuc: newPlain(t, "nuc")}
	p.front = front(t, p.nuc.cert, p.nuc.addr)
	p.begin(t, "", "")
	return p
}

func nginxFront(t testing.TB, cert tls.Certificate, backend string) (addr string) {
	addr = freeAddr(t, "127.0.0.1")
	certFile, keyFile := files(t, cert)
	startNginx(t, addr, fmt.Sprintf(`	server {
		listen %s ssl http2;
		ssl_certificate %s;
		ssl_certificate_key %s;
		location / { proxy_pass http://%s; }
		location /ws {
			proxy_pass http://%[4]s;
			proxy_http_version 1.1;
			proxy_set_header Upgrade $http_upgrade;
			proxy_set_header Connection upgrade;
		}
	}`, addr, certFile, keyFile, backend))
	return addr
}

func caddyFront(t testing.TB, cert tls.Certificate, backend string) (addr string) {
	addr = freeAddr(t, "127.0.0.1")
	certFile, keyFile := files(t, cert)
	_, port, _ := net.SplitHostPort(addr)
	site := fmt.Sprintf("https://www.example.test:%s {\n\tbind 127.0.0.1\n\ttls %s %s\n\treverse_proxy %s\n}", port, certFile, keyFile, backend)
	startRelay(t, "\tauto_https disable_redirects\n\tedge {\n\t}", site)
	awaitListener(t, addr)
	return addr
}

// enter opens sessions, and returns the visitors' ends of those in Go.
func (v visitor) enter(t testing.TB, clients, pages int) (talks []*talk) {
	t.Helper()
	for range clients {
		talks = append(talks, v.talk(t))
	}
	for range pages {
		browse(t, v.addr, "/talk")
	}
	return talks
}

func (v visitor) talk(t testing.TB) *talk {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	conn := must(v.connect(ctx))(t)
	config := must(websocket.NewConfig("wss://"+v.sni()+"/ws", "https://"+v.sni()))(t)
	ws, err := websocket.NewClient(config, conn)
	if err != nil {
		_ = conn.Close()
		t.Fatal("opening a WebSocket:", err)
	}
	_ = conn.SetDeadline(time.Time{})
	one := &talk{name: "visitor " + conn.LocalAddr().String(), over: make(chan struct{})}
	go one.hold(ws, nil)
	t.Cleanup(func() {
		_ = conn.Close()
		<-one.over
	})
	return one
}

// page is the same visitor in a browser. When its session ends it opens another.
const page = `<!DOCTYPE html>
<script>
const message = n => (n + ":").repeat(n % 10 ? 1 : 5000) + "\n"
const enter = () => {
	const ws = new WebSocket("wss://" + location.host + "/ws")
	let said = 0, heard = 0, beat
	ws.onopen = () => { beat = setInterval(() => ws.send(message(said++)), 50) }
	ws.onmessage = ({data}) => {
		if (data === message(heard)) {
			heard++
			return
		}
		clearInterval(beat)
		ws.send(data === "bye " + heard + "\n" ? "bye " + said + "\n" : "heard " + data.slice(0, 40) + " for message " + heard + "\n")
	}
	ws.onclose = () => { clearInterval(beat); setTimeout(enter, 200) }
}
enter()
</script>
`

// hall is where a gateway holds its WebSockets.
type hall struct {
	leave chan struct{} // closed to end all of them in good order

	mu    sync.Mutex
	talks []*talk
}

func newHall(g *gateway) *hall {
	h := &hall{leave: make(chan struct{})}
	g.site.Handle("/ws", websocket.Server{Handler: func(ws *websocket.Conn) { h.enter(g.name).hold(ws, h.leave) }})
	g.site.HandleFunc("/talk", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, page)
	})
	return h
}

// enter makes room for one more. None may enter when the end has begun.
func (h *hall) enter(name string) *talk {
	h.mu.Lock()
	defer h.mu.Unlock()
	one := &talk{name: fmt.Sprintf("session %d at %s", len(h.talks), name), over: make(chan struct{})}
	select {
	case <-h.leave:
	default:
		h.talks = append(h.talks, one)
	}
	return one
}

func (h *hall) all() []*talk {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.talks)
}

// end says good-bye to everyone, and returns who was there.
func (h *hall) end() []*talk {
	h.mu.Lock()
	defer h.mu.Unlock()
	close(h.leave)
	return slices.Clone(h.talks)
}

// await waits for so many sessions that each have heard so many messages.
func (h *hall) await(t testing.TB, sessions int, messages int64) {
	t.Helper()
	eventually(t, 30*time.Second, fmt.Sprintf("%d sessions with %d messages", sessions, messages), func() bool {
		n := 0
		for _, one := range h.all() {
			if one.heard.Load() >= messages {
				n++
			}
		}
		return n >= sessions
	})
}

// hearMore waits until every session has heard so many more messages. None may
// end meanwhile.
func (h *hall) hearMore(t testing.TB, messages int64) {
	t.Helper()
	want := map[*talk]int64{}
	for _, one := range h.all() {
		want[one] = one.heard.Load() + messages
	}
	for one, n := range want {
		eventually(t, patience, fmt.Sprintf("%s has heard %d messages", one.name, n), func() bool {
			select {
			case <-one.over:
				t.Fatal(cmp.Or(one.err, errors.New("a session ended before its time")))
			default:
			}
			return one.heard.Load() >= n
		})
	}
}

// talk is one end of a WebSocket: it says numbered messages, and wants the other
// end's in turn. The last one says how many there were, so that none can be missing.
type talk struct {
	name        string
	said, heard atomic.Int64
	over        chan struct{}
	err         error // how it ended, once over is closed; nil if both have said good-bye
}

func (k *talk) hold(ws *websocket.Conn, leave <-chan struct{}) {
	defer close(k.over)
	heard := make(chan error, 1)
	go func() { heard <- k.listen(ws) }()
	err := k.speak(ws, leave, heard)
	_ = ws.Close()
	if err != nil {
		k.err = fmt.Errorf("%s, having said %d messages and heard %d: %w", k.name, k.said.Load(), k.heard.Load(), err)
	}
}

// speak says something at every beat, until it is time to leave or the other end
// has said good-bye.
func (k *talk) speak(ws *websocket.Conn, leave <-chan struct{}, heard <-chan error) error {
	tick := time.NewTicker(beat)
	defer tick.Stop()
	for {
		select {
		case <-leave:
			if err := say(ws, goodbye(k.said.Load())); err != nil {
				return err
			}
			return <-heard
		case err := <-heard:
			if err != nil {
				return err
			}
			return say(ws, goodbye(k.said.Load()))
		case <-tick.C:
			if err := say(ws, message(k.said.Load())); err != nil {
				return err
			}
			k.said.Add(1)
		}
	}
}

func say(ws *websocket.Conn, text string) error {
	_ = ws.SetWriteDeadline(time.Now().Add(patience))
	_, err := io.WriteString(ws, text)
	return err
}

// listen returns nil after the other end's good-bye.
func (k *talk) listen(ws *websocket.Conn) error {
	// Line by line: a browser may cut a message into several frames.
	for r := bufio.NewReader(ws); ; {
		_ = ws.SetReadDeadline(time.Now().Add(patience))
		line, err := r.ReadString('\n')
		if err != nil {
			return err
		}
		switch n := k.heard.Load(); line {
		case message(n):
			k.heard.Add(1)
		case goodbye(n):
			return nil
		default:
			return fmt.Errorf("heard %.60q instead of message %d", line, n)
		}
	}
}

// message is the nth one. Every tenth is too long for a segment or a TLS record.
func message(n int64) string {
	times := 1
	if n%10 == 0 {
		times = 5000
	}
	return strings.Repeat(fmt.Sprintf("%d:", n), times) + "\n"
}

func goodbye(said int64) string { return fmt.Sprintf("bye %d\n", said) }

// ended waits for the end and returns how it was.
func (k *talk) ended(t testing.TB) error {
	t.Helper()
	select {
	case <-k.over:
	case <-time.After(patience):
		t.Fatalf("%s does not end", k.name)
	}
	return k.err
}
