package drill_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/edgeward/edgeward/internal/evidence"
	"github.com/edgeward/edgeward/watchdog/fallback"
	"github.com/edgeward/edgeward/watchdog/fallback/control"
	"github.com/edgeward/edgeward/watchdog/fallback/drill"
	"github.com/edgeward/edgeward/watchdog/lease"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// pair is two homes whose real services run, as far as the drills can see. Streams
// between them are pipes.
type pair struct {
	t     *testing.T
	store lease.Store
	dir   string
	homes []fallback.Home
	cfgs  map[string]*drill.Config
	made  map[string]*drill.Drills

	ctx  context.Context // of the streams
	wg   sync.WaitGroup
	mu   sync.Mutex
	real map[string]control.HomeStatus // attic, as each home sees it
	open []net.Conn
}

func newPair(t *testing.T) *pair {
	t.Helper()
	store, err := lease.OpenSingle(t.TempDir(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	p := &pair{t: t, store: store, dir: t.TempDir(), cfgs: map[string]*drill.Config{}, made: map[string]*drill.Drills{}, real: map[string]control.HomeStatus{}}
	ctx, cancel := context.WithCancel(context.Background())
	p.ctx = ctx
	t.Cleanup(func() {
		cancel()
		p.wg.Wait()
	})
	p.homes = []fallback.Home{
		{ID: "attic", Peer: "attic:7443", CoveredBy: []string{"cellar"}, DNS: &fallback.DNS{Names: []string{"example.com"}, IPv4: true}, Tiers: []fallback.Tier{
			{Number: 1, Items: []fallback.Item{
				{Name: "db", Kind: fallback.KindContainer, Data: []fallback.Data{{Path: "/srv/db"}}, StopWithin: time.Second},
				{Name: "web", Kind: fallback.KindUnit, After: []string{"db", "proxy"}, StopWithin: time.Second},
			}},
			{Number: 2, After: time.Hour, Items: []fallback.Item{{Name: "wiki", Kind: fallback.KindCompose, StopWithin: time.Second}}},
		}, Warm: []fallback.Item{{Name: "proxy", Kind: fallback.KindContainer}}},
		{ID: "cellar", Peer: "cellar:7443", Tiers: []fallback.Tier{{Number: 1}}},
	}
	seat := fallback.Seat{Home: "attic", Phase: fallback.PhaseOwn, Holder: "attic", Epoch: 7}
	p.real["attic"] = control.HomeStatus{Home: "attic", Own: true, Stage: fallback.Serving, Holder: "attic", Epoch: 7, Seat: seat}
	p.real["cellar"] = control.HomeStatus{Home: "attic", Stage: fallback.Normal, Holder: "attic", Epoch: 7, Seat: seat}
	well := func(context.Context) evidence.Value { return evidence.Good }
	for _, id := range []string{"attic", "cellar"} {
		p.cfgs[id] = &drill.Config{
			ID: id, Homes: p.homes, Store: store, Dir: filepath.Join(p.dir, id), Version: "v1.0.0", Interval: 10 * time.Millisecond,
			Policy: fallback.Policy{
				Interval: 100 * time.Millisecond, Down: 2, Strikes: 2, TTL: 3 * time.Second, Fence: 1500 * time.Millisecond, Settle: 100 * time.Millisecond,
				Retry: 50 * time.Millisecond, Patience: 100 * time.Millisecond,
			},
			Show: func() control.Status { return p.show(id) },
			Peer: func(home string) control.Peer { return &real{p, home} },
			Dial: func(_ context.Context, home string, header map[string]string) (net.Conn, error) {
				return p.dial(id, home, header)
			},
			Witnesses: []func(context.Context) evidence.Value{well, well},
		}
	}
	return p
}

// make makes the drills of both homes.
func (p *pair) make() *drill.Drills {
	p.t.Helper()
	for id, cfg := range p.cfgs {
		d, err := drill.New(*cfg)
		if err != nil {
			p.t.Fatal(err)
		}
		p.made[id] = d
	}
	return p.made["cellar"]
}

func (p *pair) show(id string) control.Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	return control.Status{ID: id, Version: "v1.0.0", Config: "same", Homes: []control.HomeStatus{p.real[id]}}
}

func (p *pair) set(id string, f func(*control.HomeStatus)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	h := p.real[id]
	f(&h)
	p.real[id] = h
}

// dial opens a stream: the other home serves it, as that of who dials.
func (p *pair) dial(from, to string, header map[string]string) (net.Conn, error) {
	d := p.made[to]
	if d == nil {
		return nil, errors.New("nobody is there")
	}
	// Sockets, as pipes hold nothing of what is written.
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	defer ln.Close()
	near, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		return nil, err
	}
	conn, err := ln.Accept()
	if err != nil {
		return nil, errors.Join(err, near.Close())
	}
	p.mu.Lock()
	p.open = append(p.open, near)
	p.mu.Unlock()
	p.wg.Go(func() { _ = d.Serve(p.ctx, from, conn, header) })
	return near, nil
}

// break breaks the stream by which the drill was agreed.
func (p *pair) tear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = p.open[0].Close()
}

// real is the real control of another home, which is asked whether it is ready.
type real struct {
	p    *pair
	home string
}

func (r *real) Status(context.Context) (control.PeerStatus, error) {
	return control.PeerStatus{ID: r.home, Version: "v1.0.0", Config: "same", Now: time.Now(), Healthy: true}, nil
}

func (r *real) Preflight(context.Context, string) ([]control.Finding, error) {
	if _, err := os.Stat(filepath.Join(r.p.dir, "bad")); err == nil {
		return []control.Finding{{Check: "mount", Item: "db", Detail: "/srv/db is empty"}}, nil
	}
	return []control.Finding{{Check: "mount", OK: true}}, nil
}

var errReal = errors.New("a drill must not ask a real home to do anything")

func (r *real) Prove(context.Context, string, string) (control.Seen, error) {
	r.p.t.Error(errReal)
	return control.Seen{}, errReal
}

func (r *real) StartItem(context.Context, string, string, uint64) error {
	r.p.t.Error(errReal)
	return errReal
}

func (r *real) StopItem(context.Context, string, string, uint64) error {
	r.p.t.Error(errReal)
	return errReal
}

// leave writes at a key what is no seat, and lets its lease run out.
func (p *pair) leave(key, holder string) error {
	g, err := p.store.Acquire(p.t.Context(), key, holder, time.Second)
	if err == nil {
		_, err = p.store.Write(p.t.Context(), g, []byte("{"), 0)
	}
	return err
}

// idle fails unless nothing is left of a drill: another one may begin, and no lease is
// touched but those of rehearsals.
func (p *pair) idle() {
	p.t.Helper()
	for id := range p.made {
		if _, err := os.Stat(filepath.Join(p.dir, id, "rehearsal")); !errors.Is(err, os.ErrNotExist) {
			p.t.Errorf("a rehearsal has left files at %s: %v", id, err)
		}
	}
	for _, home := range p.homes {
		v, err := p.store.Read(p.t.Context(), "fallback/"+home.ID)
		if err != nil || v.Rev != 0 || v.Epoch != 0 || v.Holder != "" {
			p.t.Errorf("the real lease of %s was touched: %+v, %v", home.ID, v, err)
		}
	}
	if n := sleepers(p.t); n > 0 {
		p.t.Errorf("%d stand-ins still run", n)
	}
}

// sleepers counts the children of this process that sleep.
func sleepers(t *testing.T) (n int) {
	t.Helper()
	files, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, _ := os.ReadFile(file)
		for pid := range strings.FieldsSeq(string(text)) {
			if name, _ := os.ReadFile("/proc/" + pid + "/comm"); strings.TrimSpace(string(name)) == "sleep" {
				n++
			}
		}
	}
	return n
}

// TestRehearsal goes through all phases.
func TestRehearsal(t *testing.T) {
	p := newPair(t)
	d := p.make()
	var heard []int
	// One that was killed has left something that nobody can read.
	if err := p.leave("rehearsal/attic", "cellar"); err != nil {
		t.Fatal(err)
	}
	r, err := d.Run(t.Context(), drill.Options{Home: "attic", Progress: func(ph drill.Phase) {
		heard = append(heard, ph.Number)
		if _, err := d.Run(t.Context(), drill.Options{Home: "attic"}); !errors.Is(err, control.ErrRefused) {
			t.Errorf("a second drill beside the first one: %v", err)
		}
		if ph.Number == 4 && sleepers(t) < 2 {
			t.Error("tier 1 is well, and its stand-ins do not run")
		}
	}})
	p.wg.Wait()
	if err != nil || !r.OK || r.Error != "" || r.Real || r.Home != "attic" || r.By != "cellar" || r.Version != "v1.0.0" {
		t.Fatalf("%+v, %v\n%s", r, err, r.Text())
	}
	if !slices.Equal(heard, []int{1, 2, 3, 4, 5, 6, 7}) {
		t.Errorf("the phases were %v", heard)
	}
	for _, ph := range r.Phases {
		if !ph.OK || ph.Began.IsZero() {
			t.Errorf("%+v", ph)
		}
	}
	if r.Phases[2].Seconds < 1 {
		t.Errorf("it was covered after %.1fs: its lease had not ended", r.Phases[2].Seconds)
	}
	p.idle()
	if reports, err := d.Reports(); err != nil || len(reports) != 1 || reports[0].ID != r.ID || !reports[0].Began.Equal(r.Began) {
		t.Errorf("reports: %+v, %v", reports, err)
	}
	for _, c := range []struct {
		home string
		now  time.Time
		age  time.Duration
		over bool
	}{
		{"attic", r.Began.Add(time.Hour), time.Hour, false},
		{"attic", r.Began.Add(36 * 24 * time.Hour), 36 * 24 * time.Hour, true},
		{"cellar", r.Began, -1, true},
	} {
		if age, over, err := d.Age(c.home, c.now); age != c.age || over != c.over || err != nil {
			t.Errorf("the last good one of %s is %s old, overdue %t, %v; want %s, %t", c.home, age, over, err, c.age, c.over)
		}
	}
}

// TestNotReady: a drill that cannot be good changes nothing.
func TestNotReady(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*pair)
		o      drill.Options
		want   string
	}{
		"no such home":      {nil, drill.Options{Home: "barn"}, `there is no home "barn"`},
		"not covered by us": {nil, drill.Options{Home: "cellar"}, "nothing to do with home cellar"},
		"it is gone":        {func(p *pair) { p.set("cellar", func(h *control.HomeStatus) { h.Stage = fallback.Fallback }) }, drill.Options{Home: "attic"}, "phase 1, both homes are ready: home attic is not serving itself"},
		"a hold": {func(p *pair) {
			p.set("cellar", func(h *control.HomeStatus) { h.Hold = &fallback.Hold{By: "ann", Why: "switch"} })
		}, drill.Options{Home: "attic"}, "held by ann: switch"},
		"a preflight": {func(p *pair) { _ = os.WriteFile(filepath.Join(p.dir, "bad"), nil, 0o600) }, drill.Options{Home: "attic"}, "mount db: /srv/db is empty"},
		"it does not agree": {func(p *pair) {
			p.set("attic", func(h *control.HomeStatus) { h.Stage = fallback.Yielding; h.Why = "ill" })
		}, drill.Options{Home: "attic"}, "phase 1, both homes are ready: the other home refuses: home attic is yielding, not serving: ill"},
		"no cluster":         {func(p *pair) { p.cfgs["cellar"].Store = nil }, drill.Options{Home: "attic"}, "there is no cluster"},
		"no cluster there":   {func(p *pair) { p.cfgs["attic"].Store = nil }, drill.Options{Home: "attic"}, "there is no cluster here"},
		"nobody there":       {func(p *pair) { p.cfgs["attic"].Dir = "" }, drill.Options{Home: "attic"}, "nobody is there"},
		"real, no window":    {nil, drill.Options{Home: "attic", Real: true, Confirm: "take attic down"}, "real drills are off at cellar: there is no maintenance window"},
		"real, other window": {func(p *pair) { p.cfgs["cellar"].Window = func() error { return errors.New("it begins on Sunday") } }, drill.Options{Home: "attic", Real: true, Confirm: "take attic down"}, "it begins on Sunday"},
		"real, unconfirmed":  {func(p *pair) { p.cfgs["cellar"].Window = func() error { return nil } }, drill.Options{Home: "attic", Real: true, Confirm: "yes"}, `type "take attic down"`},
		"real, not there":    {func(p *pair) { p.cfgs["cellar"].Window = func() error { return nil } }, drill.Options{Home: "attic", Real: true, Confirm: "take attic down"}, "real drills are off at attic"},
		"real, no wall": {func(p *pair) {
			for _, cfg := range p.cfgs {
				cfg.Window = func() error { return nil }
			}
		}, drill.Options{Home: "attic", Real: true, Confirm: "take attic down"}, "home attic does not know what to cut off"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPair(t)
			if c.change != nil {
				c.change(p)
			}
			for id, cfg := range p.cfgs {
				if cfg.Dir == "" {
					continue
				}
				d, err := drill.New(*cfg)
				if err != nil {
					t.Fatal(err)
				}
				p.made[id] = d
			}
			r, err := p.made["cellar"].Run(t.Context(), c.o)
			if err == nil || !strings.Contains(err.Error(), c.want) || r.OK {
				t.Errorf("%v, want %q; %+v", err, c.want, r)
			}
			p.wg.Wait()
			p.idle()
		})
	}
}

// TestBroken ends a drill in the middle: nothing is left, and the next one is good.
func TestBroken(t *testing.T) {
	for name, do := range map[string]func(p *pair, cancel func()){
		"a person interrupts it": func(_ *pair, cancel func()) { cancel() },
		"the stream breaks":      func(p *pair, _ func()) { p.tear() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPair(t)
			d := p.make()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			r, err := d.Run(ctx, drill.Options{Home: "attic", Progress: func(ph drill.Phase) {
				if ph.Number == 4 {
					do(p, cancel)
				}
			}})
			if err == nil || r.OK || r.Phases[4].OK || r.Phases[5].OK || !strings.Contains(r.Text(), "FAILED") || !strings.Contains(r.Text(), "not reached") {
				t.Errorf("%v\n%s", err, r.Text())
			}
			p.wg.Wait()
			if list, err := d.Reports(); err != nil || len(list) != 1 || list[0].OK {
				t.Errorf("%+v, %v", list, err)
			}
			// Its lease must end first.
			next, err := d.Run(t.Context(), drill.Options{Home: "attic"})
			if err != nil {
				t.Errorf("the next one: %v\n%s", err, next.Text())
			}
			if list, err := d.Reports(); err != nil || len(list) != 2 || list[0].ID != next.ID {
				t.Errorf("reports are not newest first: %+v, %v", list, err)
			}
		})
	}
}

// TestMoved: a rehearsal in which the real services moved is not good.
func TestMoved(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	r, err := p.make().Run(t.Context(), drill.Options{Home: "attic", Progress: func(ph drill.Phase) {
		if ph.Number == 6 {
			p.set("cellar", func(h *control.HomeStatus) { h.Epoch = 8 })
		}
	}})
	if err == nil || r.OK || !strings.Contains(err.Error(), "the real services of attic moved meanwhile") {
		t.Errorf("%v\n%s", err, r.Text())
	}
}

// TestReal cuts the home off, and waits for the real services.
func TestReal(t *testing.T) {
	p := newPair(t)
	var lifted, cutOff int
	open := true
	for _, cfg := range p.cfgs {
		cfg.Window = func() error {
			if !open {
				return errors.New("it is over")
			}
			return nil
		}
		cfg.Wall = func(context.Context) (drill.Wall, error) {
			return drill.Wall{Far: []netip.AddrPort{netip.MustParseAddrPort("10.8.0.3:7443")}}, nil
		}
		cfg.Block = func(_ context.Context, w drill.Wall) (func() error, error) {
			cutOff++
			if !w.Open.IsValid() || w.For <= 0 || len(w.Far) != 1 {
				t.Errorf("the wall is %+v", w)
			}
			p.set("cellar", func(h *control.HomeStatus) {
				h.Stage, h.DNS = fallback.Fallback, true
				h.Items = []control.ItemStatus{{Name: "db", Tier: 1, Seen: control.RunningWell}}
			})
			return func() error {
				lifted++
				p.set("cellar", func(h *control.HomeStatus) {
					h.Stage, h.DNS, h.Epoch = fallback.Normal, false, 9
					h.Items = []control.ItemStatus{{Name: "db", Tier: 1, Seen: control.RunningStopped}}
				})
				return nil
			}, nil
		}
	}
	d := p.make()
	r, err := d.Run(t.Context(), drill.Options{Home: "attic", Real: true, Confirm: drill.Confirmation("attic")})
	p.wg.Wait()
	if err != nil || !r.OK || !r.Real || cutOff != 1 || lifted != 1 {
		t.Errorf("cut off %d, lifted %d: %v\n%s", cutOff, lifted, err, r.Text())
	}
	// A process that dies in between has its stream broken.
	p.set("cellar", func(h *control.HomeStatus) { h.Epoch = 7 })
	ctx, cancel := context.WithCancel(t.Context())
	_, err = d.Run(ctx, drill.Options{Home: "attic", Real: true, Confirm: drill.Confirmation("attic"), Progress: func(ph drill.Phase) {
		if ph.Number == 3 {
			cancel()
		}
	}})
	p.wg.Wait()
	if err == nil || cutOff != 2 || lifted != 2 {
		t.Errorf("interrupted: cut off %d, lifted %d: %v", cutOff, lifted, err)
	}
	open = false
	_, err = d.Run(t.Context(), drill.Options{Home: "attic", Real: true, Confirm: drill.Confirmation("attic")})
	if err == nil || cutOff != 2 || !strings.Contains(err.Error(), "it is over") {
		t.Errorf("after the window: cut off %d, %v", cutOff, err)
	}
}

// TestStrangers: what is no question of a drill is refused, and nothing begins.
func TestStrangers(t *testing.T) {
	p := newPair(t)
	p.make()
	begin := func(plan string) string { return `{"do":"begin","plan":` + plan + `}` }
	good := `"id":"x","home":"attic","by":"cellar","config":"same"`
	for name, c := range map[string]struct {
		from, do, session, text, want string
	}{
		"no purpose":        {"cellar", "", "", `{}`, ""},
		"not JSON":          {"cellar", "begin", "", "GET / HTTP/1.1\r\n\r\n", ""},
		"no plan":           {"cellar", "begin", "", `{"do":"begin"}`, ""},
		"nobody's session":  {"cellar", "call", "x", `{"do":"start","home":"attic","item":"db"}`, ""},
		"endless":           {"cellar", "begin", "", `{"do":"` + strings.Repeat("x", 9<<20), ""},
		"another's name":    {"barn", "begin", "", begin(`{` + good + `,"most":1000000000}`), "the drill is of attic by cellar"},
		"another's home":    {"cellar", "begin", "", begin(`{"id":"x","home":"cellar","by":"cellar","config":"same","most":1000000000}`), "the drill is of cellar by cellar"},
		"who covers nobody": {"barn", "begin", "", begin(`{"id":"x","home":"attic","by":"barn","config":"same","most":1000000000}`), "home barn does not cover attic"},
		"for ever":          {"cellar", "begin", "", begin(`{` + good + `,"most":9000000000000000}`), "makes no sense"},
		"for no time":       {"cellar", "begin", "", begin(`{` + good + `,"most":-1}`), "makes no sense"},
		"another config":    {"cellar", "begin", "", begin(`{"id":"x","home":"attic","by":"cellar","config":"other","most":1000000000}`), "configs differ"},
		"real":              {"cellar", "begin", "", begin(`{` + good + `,"most":1000000000,"real":true}`), "real drills are off"},
	} {
		t.Run(name, func(t *testing.T) {
			conn, err := p.dial(c.from, "attic", map[string]string{"do": c.do, "session": c.session})
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			var said []byte
			p.wg.Go(func() { _, _ = conn.Write([]byte(c.text)) })
			_ = conn.SetReadDeadline(time.Now().Add(30 * time.Second))
			buf := make([]byte, 4096)
			n, _ := conn.Read(buf)
			said = buf[:n]
			if !strings.Contains(string(said), c.want) || c.want == "" && n > 0 && !strings.Contains(string(said), `"refused":true`) {
				t.Errorf("it says %q, want %q", said, c.want)
			}
		})
	}
	p.wg.Wait()
	p.idle()
}
