package e2e_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"hash"
	"io"
	"math/rand/v2"
	"net/http"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

const (
	longTransfer  = 70 * time.Second
	shortTransfer = 10 * time.Second // with -short

	// The server gives or takes so many bytes at every step.
	transferStep  = 100 * time.Millisecond
	transferBytes = 128 << 10
)

// TestLongTransfers: downloads and uploads of more than a minute live through a
// reload every two seconds and through a member that dies and returns all the
// while, and not a byte of them is lost or changed.
func TestLongTransfers(t *testing.T) {
	t.Parallel()
	length := longTransfer
	if testing.Short() {
		length = shortTransfer
	}
	p := newPair(t, "", "")
	all := []*transfer{
		{name: "download-http1.1", version: "1.1", upload: false},
		{name: "download-http2", version: "2", upload: false},
		{name: "upload-http1.1", version: "1.1", upload: true},
		{name: "upload-http2", version: "2", upload: true},
	}
	for i, one := range all {
		one.begin(t, p, int(length/transferStep)+1, byte(i))
	}
	reloads, losses := p.unsettle(t, all)
	for _, one := range all {
		one.check(t, length)
	}
	t.Logf("%d reloads and %d losses in %s", reloads, losses, length)
	if most := int(length / (2 * time.Second)); reloads < most/4 {
		t.Errorf("only %d reloads, want about %d", reloads, most)
	}
	if least := int(length / (20 * time.Second)); losses < max(least, 1) {
		t.Errorf("the other member died %d times only, want at least %d", losses, least)
	}
	p.cutNobody(t)
	eventually(t, 5*time.Second, "nuc has no open connections", func() bool { return p.gateway("nuc").Open == 0 })
}

// unsettle reloads every two seconds, and lets nas die and return as soon as the
// relay has seen the last of it, until all transfers are over.
func (p *pair) unsettle(t *testing.T, all []*transfer) (reloads, losses int) {
	t.Helper()
	tick := time.NewTicker(2 * time.Second)
	defer tick.Stop()
	dead := false
	for _, one := range all {
		for one.underWay() {
			if err := p.load(p.write(p.global("", fmt.Sprintf("limit total %d", 1000+reloads)), "")); err != nil {
				t.Fatal(err)
			}
			reloads++
			switch phase := p.gateway("nas").Phase; {
			case !dead && phase == "alive":
				p.nas.kill()
				dead, losses = true, losses+1
			case dead && phase == "down":
				p.nas.revive()
				dead = false
			}
			// Either may serve a new visitor: on a busy machine nuc can be slower than
			// first_byte, and that visitor is nas's.
			p.mustGet(t, "/")
			select {
			case <-tick.C:
			case <-one.over:
			}
		}
	}
	return reloads, losses
}

// transfer is one of many bytes in one direction, between curl and a gateway that
// sets the pace.
type transfer struct {
	name    string
	version string // of HTTP
	upload  bool

	steps   int
	source  io.Reader
	visitor tally // what curl read or wrote
	server  tally // what the gateway wrote or read
	asked   atomic.Int32
	served  chan error // how it went for the gateway
	began   time.Time
	took    time.Duration
	said    bytes.Buffer  // by curl about it
	over    chan struct{} // closed when curl has ended
	err     error         // of curl, once it is over
}

func (x *transfer) size() int64 { return int64(x.steps) * transferBytes }

// begin starts curl. What is transferred depends on the seed.
func (x *transfer) begin(t *testing.T, p *pair, steps int, seed byte) {
	t.Helper()
	x.steps, x.source = steps, rand.NewChaCha8([32]byte{seed})
	x.visitor, x.server = tally{sum: sha256.New()}, tally{sum: sha256.New()}
	x.served, x.over = make(chan error, 1), make(chan struct{})
	p.nuc.site.HandleFunc("/"+x.name, x.serve)

	cmd := exec.CommandContext(t.Context(), tool(t, "curl"), "--http"+x.version, "--silent", "--show-error", "--fail", "--noproxy", "*",
		"--cacert", caFile(t), "--connect-to", "::"+p.addr, "--max-time", fmt.Sprint((longTransfer + time.Minute).Seconds()),
		// It gives up when nothing moves for so many seconds. An upload is in the
		// buffers of the kernel long before the gateway has read it.
		"--speed-limit", "1", "--speed-time", fmt.Sprint(longTransfer.Seconds()),
		"--write-out", "%{stderr}%{http_code} by HTTP/%{http_version} with %{num_connects} connection", "https://www.example.test/"+x.name)
	cmd.WaitDelay, cmd.Stderr, cmd.Stdout = time.Second, &x.said, &x.visitor
	if x.upload {
		cmd.Args = append(cmd.Args, "--upload-file", "-", "--header", "Expect:")
		cmd.Stdin, cmd.Stdout = io.TeeReader(io.LimitReader(x.source, x.size()), &x.visitor), nil
	}
	x.began = time.Now()
	go func() {
		x.err = cmd.Run()
		x.took = time.Since(x.began)
		close(x.over)
	}()
	t.Cleanup(func() { <-x.over })
}

func (x *transfer) underWay() bool {
	select {
	case <-x.over:
		return false
	default:
		return true
	}
}

// serve is the gateway's side.
func (x *transfer) serve(w http.ResponseWriter, r *http.Request) {
	if x.asked.Add(1) > 1 {
		return // check tells of it
	}
	if x.upload {
		x.served <- x.take(r.Body)
	} else {
		x.served <- x.give(w)
	}
}

func (x *transfer) give(w http.ResponseWriter) error {
	w.Header().Set("Content-Length", fmt.Sprint(x.size()))
	flush, out := http.NewResponseController(w), io.MultiWriter(w, &x.server)
	return x.pace(func() error {
		if _, err := io.CopyN(out, x.source, transferBytes); err != nil {
			return err
		}
		return flush.Flush()
	})
}

func (x *transfer) take(r io.Reader) error {
	err := x.pace(func() error {
		_, err := io.CopyN(&x.server, r, transferBytes)
		return err
	})
	if err != nil {
		return err
	}
	_, err = io.Copy(&x.server, r) // nothing but the end should come
	return err
}

func (x *transfer) pace(step func() error) error {
	tick := time.NewTicker(transferStep)
	defer tick.Stop()
	for range x.steps - 1 {
		if err := step(); err != nil {
			return err
		}
		<-tick.C
	}
	return step()
}

// check compares both ends, once it is over.
func (x *transfer) check(t *testing.T, atLeast time.Duration) {
	t.Helper()
	<-x.over
	if x.err != nil {
		t.Fatalf("%s: curl after %s and %d bytes: %v: %s", x.name, x.took, x.visitor.n, x.err, x.said.Bytes())
	}
	select {
	case err := <-x.served:
		if err != nil {
			t.Errorf("%s: the gateway: %v", x.name, err)
		}
	case <-time.After(patience):
		t.Fatalf("%s: the gateway has not ended", x.name)
	}
	if x.visitor.n != x.size() || x.server.n != x.size() {
		t.Errorf("%s: %d bytes at the visitor and %d at the gateway, want %d", x.name, x.visitor.n, x.server.n, x.size())
	}
	if a, b := x.visitor.String(), x.server.String(); a != b {
		t.Errorf("%s: the visitor has %s and the gateway %s", x.name, a, b)
	}
	if want := "200 by HTTP/" + x.version + " with 1 connection"; x.asked.Load() != 1 || strings.TrimSpace(x.said.String()) != want {
		t.Errorf("%s: asked %d times, %s, want once, %s", x.name, x.asked.Load(), x.said.Bytes(), want)
	}
	if x.took < atLeast {
		t.Errorf("%s took %s, and the gateway's pace makes that %s at least", x.name, x.took, atLeast)
	}
	t.Logf("%s: %d bytes in %s, %.16s", x.name, x.visitor.n, x.took.Round(time.Millisecond), x.visitor)
}

// tally counts what is written to it, and adds it up.
type tally struct {
	n   int64
	sum hash.Hash
}

func (a *tally) Write(b []byte) (int, error) {
	a.n += int64(len(b))
	return a.sum.Write(b)
}

func (a tally) String() string { return fmt.Sprintf("%x", a.sum.Sum(nil)) }
