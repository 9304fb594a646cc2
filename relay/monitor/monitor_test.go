package monitor_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/edgeward/edgeward/relay/attempt"
	"github.com/edgeward/edgeward/relay/check"
	"github.com/edgeward/edgeward/relay/health"
	"github.com/edgeward/edgeward/relay/monitor"
	"github.com/edgeward/edgeward/relay/pool"
	"github.com/edgeward/edgeward/relay/session"
)

// targets answers checks: by address, what they find. An address that is not
// there never answers.
type targets struct {
	mu      sync.Mutex
	results map[string]check.Result
	asked   map[string]int
	under   int
	most    int
}

var (
	good    = check.Result{OK: true, Level: health.Connect}
	refused = check.Result{Firm: true, Err: errors.New("connection refused"), Detail: "connection refused"}
)

func newTargets() *targets {
	return &targets{results: map[string]check.Result{}, asked: map[string]int{}}
}

func (t *targets) set(address string, r check.Result) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.results[address] = r
}

func (t *targets) silence(address string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.results, address)
}

func (t *targets) count(address string) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.asked[address]
}

func (t *targets) run(ctx context.Context, _ check.Spec, address string) check.Result {
	t.mu.Lock()
	t.asked[address]++
	t.under++
	t.most = max(t.most, t.under)
	r, ok := t.results[address]
	t.mu.Unlock()
	defer func() {
		t.mu.Lock()
		t.under--
		t.mu.Unlock()
	}()
	wait := time.Millisecond
	if !ok {
		wait = 1500 * time.Millisecond
		r = check.Result{Err: context.DeadlineExceeded, Detail: "timed out"}
	}
	select {
	case <-time.After(wait):
		return r
	case <-ctx.Done():
		return check.Result{Unknown: true, Err: ctx.Err()}
	}
}

const nuc, nas = "10.0.0.1:443", "10.0.0.2:443"

// two is two gateways in one failover pool.
func two() monitor.Config {
	return monitor.Config{
		Gateways: []monitor.Gateway{{Name: "nuc", Dial: nuc}, {Name: "nas", Dial: nas}},
		Pools: []session.PoolSettings{{Settings: pool.Settings{
			Name: "home", Members: []pool.Member{{Gateway: "nuc"}, {Gateway: "nas"}}, Failback: time.Minute,
		}}},
	}
}

// inBubble runs a test of a monitor in simulated time.
func inBubble(t *testing.T, o monitor.Options, f func(t *testing.T, m *monitor.Monitor, checks *targets)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		checks := newTargets()
		checks.set(nuc, good)
		checks.set(nas, good)
		o.Check, o.Log = checks.run, slog.New(slog.NewTextHandler(t.Output(), nil))
		m := monitor.New(o)
		defer m.Close()
		f(t, m, checks)
	})
}

func serving(m *monitor.Monitor) string {
	for _, p := range m.Snapshot().Pools {
		for _, member := range p.Serving() {
			return member.Gateway
		}
	}
	return ""
}

func phase(m *monitor.Monitor, name string) health.Phase {
	for _, g := range m.Snapshot().Gateways {
		if g.Name == name {
			return g.Phase
		}
	}
	return 255
}

// until waits in simulated time and tells how long it took.
func until(t *testing.T, limit time.Duration, what string, ok func() bool) time.Duration {
	t.Helper()
	start := time.Now()
	for !ok() {
		if time.Since(start) > limit {
			t.Fatalf("%s: not within %s", what, limit)
		}
		<-time.After(10 * time.Millisecond)
	}
	return time.Since(start)
}

func TestNewGatewaysServeBeforeEvidence(t *testing.T) {
	inBubble(t, monitor.Options{}, func(t *testing.T, m *monitor.Monitor, _ *targets) {
		pools := m.Apply(two())
		seat := pools["home"].Seat(netip.MustParseAddr("192.0.2.1"), session.Now())
		if i, ok := seat.Pick(0, false); !ok || seat.Gateway(i).Name != "nuc" {
			t.Errorf("nobody serves while nothing is known")
		}
		took := until(t, time.Second, "first check", func() bool { return phase(m, "nuc") == health.Alive && phase(m, "nas") == health.Alive })
		t.Logf("both known after %s", took)
	})
}

func TestDeathAndReturn(t *testing.T) {
	for name, die := range map[string]func(*targets){
		"refused": func(c *targets) { c.set(nuc, refused) },
		"silent":  func(c *targets) { c.silence(nuc) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, monitor.Options{}, func(t *testing.T, m *monitor.Monitor, checks *targets) {
				m.Apply(two())
				until(t, time.Second, "alive", func() bool { return phase(m, "nuc") == health.Alive })
				<-time.After(10 * time.Second)
				die(checks)
				took := until(t, 5*time.Second, "down", func() bool { return serving(m) == "nas" })
				t.Logf("%s: moved after %s by checks alone", name, took)
				checks.set(nuc, good)
				back := until(t, 90*time.Second, "back", func() bool { return serving(m) == "nuc" })
				if back < time.Minute || back > 70*time.Second {
					t.Errorf("came back after %s, want the failback of one minute and two good checks", back)
				}
			})
		})
	}
}

// With visitors about, their failures decide at once, and a check is hurried.
func TestTrafficDecides(t *testing.T) {
	inBubble(t, monitor.Options{}, func(t *testing.T, m *monitor.Monitor, checks *targets) {
		m.Apply(two())
		until(t, time.Second, "alive", func() bool { return phase(m, "nuc") == health.Alive })
		checks.set(nuc, refused)
		g := m.Gateway("nuc")
		took := until(t, 2*time.Second, "down", func() bool {
			g.Blame(attempt.Refused, 0)
			synctest.Wait()
			return serving(m) == "nas"
		})
		if took > time.Second {
			t.Errorf("took %s with visitors about", took)
		}
	})
}

// A false alarm of visitors is cleared by the check it hurries.
func TestCheckClearsFalseAlarm(t *testing.T) {
	inBubble(t, monitor.Options{}, func(t *testing.T, m *monitor.Monitor, checks *targets) {
		m.Apply(two())
		until(t, time.Second, "alive", func() bool { return phase(m, "nuc") == health.Alive })
		<-time.After(3 * time.Second)
		before := checks.count(nuc)
		g := m.Gateway("nuc")
		for range 10 {
			g.Blame(attempt.Refused, 0)
		}
		<-time.After(50 * time.Millisecond)
		if got := checks.count(nuc); got == before {
			t.Error("no check was hurried")
		}
		if phase(m, "nuc") != health.Alive {
			t.Error("one hiccup took a gateway down that answers its checks")
		}
	})
}

func TestAllDownServesTheFirstToReturn(t *testing.T) {
	inBubble(t, monitor.Options{}, func(t *testing.T, m *monitor.Monitor, checks *targets) {
		pools := m.Apply(two())
		checks.set(nuc, refused)
		checks.set(nas, refused)
		until(t, 10*time.Second, "down", func() bool { return phase(m, "nuc") == health.Down && phase(m, "nas") == health.Down })
		seat := pools["home"].Seat(netip.Addr{}, session.Now())
		if _, ok := seat.Pick(0, false); !ok {
			t.Error("the last member is not even tried")
		}
		checks.set(nas, good)
		took := until(t, 10*time.Second, "nas serves", func() bool { return serving(m) == "nas" })
		t.Logf("the first to return served after %s", took)
	})
}

func TestOperatorStates(t *testing.T) {
	inBubble(t, monitor.Options{}, func(t *testing.T, m *monitor.Monitor, checks *targets) {
		m.Apply(two())
		until(t, time.Second, "alive", func() bool { return phase(m, "nuc") == health.Alive && phase(m, "nas") == health.Alive })
		steps := []struct {
			name string
			do   func() error
			want string
		}{
			{"drain", func() error { return m.SetOperator("nuc", pool.Drain, "test") }, "nas"},
			{"ready", func() error { return m.SetOperator("nuc", pool.Ready, "test") }, "nuc"},
			{"failover", func() error { return m.FailOver("home", "test") }, "nas"},
			{"failback", func() error { return m.FailBack("home", "test") }, "nuc"},
			{"disable", func() error { return m.SetOperator("nuc", pool.Disabled, "test") }, "nas"},
			{"ready again", func() error { return m.SetOperator("nuc", pool.Ready, "test") }, "nuc"},
		}
		for _, s := range steps {
			if err := s.do(); err != nil {
				t.Fatalf("%s: %v", s.name, err)
			}
			if got := serving(m); got != s.want {
				t.Errorf("after %s %s serves, want %s", s.name, got, s.want)
			}
		}
		if err := m.SetOperator("nuc", pool.Hold, "test"); err != nil {
			t.Fatal(err)
		}
		checks.set(nuc, refused)
		<-time.After(20 * time.Second)
		if got := serving(m); got != "nuc" {
			t.Errorf("held, but %s serves", got)
		}
		checks.set(nuc, good)
		until(t, 10*time.Second, "alive beneath the hold", func() bool { return phase(m, "nuc") == health.Alive })
		if got := serving(m); got != "nuc" {
			t.Errorf("held, and back beneath that, but %s serves", got)
		}
		if err := m.SetOperator("nuc", pool.Ready, "test"); err != nil {
			t.Fatal(err)
		}
		if got := serving(m); got != "nas" {
			t.Errorf("held no more, just back, but %s serves", got)
		}
	})
}

func TestOperatorErrors(t *testing.T) {
	inBubble(t, monitor.Options{}, func(t *testing.T, m *monitor.Monitor, checks *targets) {
		m.Apply(two())
		checks.set(nas, refused)
		until(t, 10*time.Second, "down", func() bool { return phase(m, "nas") == health.Down })
		if err := m.SetOperator("tape", pool.Drain, "test"); !errors.Is(err, monitor.ErrNotFound) {
			t.Errorf("unknown gateway: %v", err)
		}
		if err := m.FailBack("work", "test"); !errors.Is(err, monitor.ErrNotFound) {
			t.Errorf("unknown pool: %v", err)
		}
		if err := m.FailOver("home", "test"); !errors.Is(err, monitor.ErrConflict) {
			t.Errorf("failover to nobody: %v", err)
		}
	})
}

func TestRestartKeepsWhatItMust(t *testing.T) {
	file := filepath.Join(t.TempDir(), "edge", "health.json")
	inBubble(t, monitor.Options{File: file}, func(t *testing.T, m *monitor.Monitor, checks *targets) {
		m.Apply(two())
		checks.set(nuc, refused)
		until(t, 10*time.Second, "down", func() bool { return phase(m, "nuc") == health.Down })
		if err := m.SetOperator("nas", pool.Drain, "test"); err != nil {
			t.Fatal(err)
		}
	})
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm()&0o077 != 0 {
		t.Fatalf("health file: %v, %v", info, err)
	}
	inBubble(t, monitor.Options{File: file}, func(t *testing.T, m *monitor.Monitor, _ *targets) {
		m.Apply(two())
		for _, g := range m.Snapshot().Gateways {
			switch {
			case g.Name == "nas" && g.Operator != pool.Drain:
				t.Errorf("nas is %s after the restart", g.Operator)
			case g.Name == "nuc" && (g.Phase != health.Unknown || !g.WasDown()):
				t.Errorf("nuc is %s, was down %v: want unknown, with its past", g.Phase, g.WasDown())
			}
		}
	})
	// A gateway whose address changed is another machine.
	inBubble(t, monitor.Options{File: file}, func(t *testing.T, m *monitor.Monitor, _ *targets) {
		c := two()
		c.Gateways[0].Dial = "10.0.0.9:443"
		m.Apply(c)
		for _, g := range m.Snapshot().Gateways {
			if g.Name == "nuc" && g.WasDown() {
				t.Error("a new address inherited the old one's health")
			}
		}
	})
}

// TestForget: who is gone for good leaves nothing to one of its name, also not in
// the file. Who only is not in the config does.
func TestForget(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		forget bool
		want   pool.Operator
	}{{"forgotten", true, pool.Ready}, {"left out", false, pool.Disabled}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, monitor.Options{File: filepath.Join(t.TempDir(), "health.json")}, func(t *testing.T, m *monitor.Monitor, _ *targets) {
				m.Apply(two())
				if err := errors.Join(m.SetOperator("nuc", pool.Disabled, "test"), m.FailOver("home", "test")); err != nil {
					t.Log(err)
				}
				time.Sleep(5 * time.Second) // it is saved
				m.Apply(monitor.Config{})
				if c.forget {
					m.Forget([]string{"nuc", "unknown"}, []string{"home"})
				}
				m.Apply(two())
				for _, g := range m.Snapshot().Gateways {
					if g.Name == "nuc" && g.Operator != c.want {
						t.Errorf("nuc is %s, want %s", g.Operator, c.want)
					}
				}
				m.Forget([]string{"nuc"}, []string{"home"}) // they are there: nothing happens
				time.Sleep(5 * time.Second)
				if got := m.Snapshot().Gateways[0].Name; got == "" {
					t.Error("a gateway of the config is gone")
				}
			})
		})
	}
}

func TestUnreadableFileIsSetAside(t *testing.T) {
	file := filepath.Join(t.TempDir(), "health.json")
	if err := os.WriteFile(file, []byte("{half"), 0o600); err != nil {
		t.Fatal(err)
	}
	inBubble(t, monitor.Options{File: file}, func(t *testing.T, m *monitor.Monitor, _ *targets) {
		m.Apply(two())
		until(t, time.Second, "alive", func() bool { return phase(m, "nuc") == health.Alive })
	})
	if _, err := os.Stat(file + ".bad"); err != nil {
		t.Errorf("the unreadable file is gone: %v", err)
	}
}

func TestReloadKeepsHealth(t *testing.T) {
	inBubble(t, monitor.Options{}, func(t *testing.T, m *monitor.Monitor, checks *targets) {
		m.Apply(two())
		checks.set(nuc, refused)
		until(t, 10*time.Second, "down", func() bool { return phase(m, "nuc") == health.Down })
		before := m.Gateway("nas")
		m.Apply(two())
		if phase(m, "nuc") != health.Down || serving(m) != "nas" {
			t.Error("a reload forgot that nuc is down")
		}
		if m.Gateway("nas") != before {
			t.Error("a reload made a new live gateway")
		}
		c := two()
		c.Gateways[0].Dial = "10.0.0.9:443"
		m.Apply(c)
		if phase(m, "nuc") != health.Unknown {
			t.Error("another address is still down")
		}
	})
}

func TestSharedTargetIsCheckedOnce(t *testing.T) {
	inBubble(t, monitor.Options{}, func(t *testing.T, m *monitor.Monitor, checks *targets) {
		c := two()
		c.Gateways[1].Dial = nuc
		m.Apply(c)
		<-time.After(20 * time.Second)
		if n := checks.count(nuc); n < 9 || n > 12 {
			t.Errorf("%d checks in 20 s of one target with an interval of 2 s", n)
		}
		if phase(m, "nas") != health.Alive {
			t.Error("the second gateway of the target learned nothing")
		}
	})
}

func TestBudget(t *testing.T) {
	inBubble(t, monitor.Options{Budget: 4}, func(t *testing.T, m *monitor.Monitor, checks *targets) {
		var c monitor.Config
		for i := range 40 {
			c.Gateways = append(c.Gateways, monitor.Gateway{Name: fmt.Sprint("g", i), Dial: fmt.Sprintf("10.1.0.%d:443", i)})
		}
		m.Apply(c) // none of them answers
		<-time.After(30 * time.Second)
		checks.mu.Lock()
		defer checks.mu.Unlock()
		if checks.most > 4 {
			t.Errorf("%d checks at once, budget 4", checks.most)
		}
		if m.Stats().Delayed == 0 {
			t.Error("no check was counted as delayed")
		}
	})
}

func TestHostNames(t *testing.T) {
	answers := make(chan []string, 1)
	answers <- []string{"10.0.0.1", "10.0.0.2"}
	lookup := func(context.Context, string) ([]netip.Addr, error) {
		list := <-answers
		answers <- list
		if len(list) == 0 {
			return nil, errors.New("no such host")
		}
		var addrs []netip.Addr
		for _, a := range list {
			addrs = append(addrs, netip.MustParseAddr(a))
		}
		return addrs, nil
	}
	change := func(to ...string) { <-answers; answers <- to }
	address := func(m *monitor.Monitor) string { return m.Snapshot().Gateways[0].Address }
	synctest.Test(t, func(t *testing.T) {
		<-answers
		answers = make(chan []string, 1)
		answers <- []string{"10.0.0.1", "10.0.0.2"}
		checks := newTargets()
		checks.set(nuc, good)
		checks.set(nas, good)
		m := monitor.New(monitor.Options{Check: checks.run, Lookup: lookup})
		defer m.Close()
		m.Apply(monitor.Config{Gateways: []monitor.Gateway{{Name: "home", Dial: "home.example.net:443"}}})
		until(t, time.Second, "resolved", func() bool { return address(m) == nuc })
		change("10.0.0.2", "10.0.0.1")
		<-time.After(15 * time.Second)
		if address(m) != nuc {
			t.Error("changed to another address although the one in use works and is still listed")
		}
		change()
		<-time.After(15 * time.Second)
		if address(m) != nuc {
			t.Error("a failed look-up took the address away")
		}
		change("10.0.0.2", "10.0.0.1")
		checks.set(nuc, refused)
		until(t, 30*time.Second, "next address", func() bool { return address(m) == nas })
		change("10.0.0.3")
		checks.set("10.0.0.3:443", good)
		until(t, 30*time.Second, "new home", func() bool { return address(m) == "10.0.0.3:443" })
	})
}

// A reload that changes only what is said before the first byte does not take a
// host name's address away until the next look-up.
func TestReloadKeepsResolvedAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		lookup := func(ctx context.Context, _ string) ([]netip.Addr, error) {
			if asked++; asked > 1 {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return []netip.Addr{netip.MustParseAddr("10.0.0.1")}, nil
		}
		m := monitor.New(monitor.Options{Lookup: lookup})
		defer m.Close()
		g := monitor.Gateway{Name: "home", Dial: "home.example.net:443", NoCheck: true}
		m.Apply(monitor.Config{Gateways: []monitor.Gateway{g}})
		until(t, time.Second, "resolved", func() bool { return m.Snapshot().Gateways[0].Address == nuc })
		g.Proxy = 2
		m.Apply(monitor.Config{Gateways: []monitor.Gateway{g}})
		if a := m.Gateway("home").Address(); a == nil || a.String() != nuc || a.Proxy != 2 {
			t.Errorf("after the reload the address is %+v", a)
		}
	})
}

func TestSessionsCloseOnce(t *testing.T) {
	closed := make(chan string, 10)
	o := monitor.Options{Close: func(g *session.Gateway, pool string, why session.Reason) {
		closed <- g.Name + " " + pool + " " + why.String()
	}}
	// The channel is made outside the bubble, so it is only polled inside.
	inBubble(t, o, func(t *testing.T, m *monitor.Monitor, checks *targets) {
		c := two()
		c.Pools[0].OnDown = pool.Close
		m.Apply(c)
		until(t, time.Second, "alive", func() bool { return phase(m, "nuc") == health.Alive })
		checks.set(nuc, refused)
		until(t, 10*time.Second, "down", func() bool { return phase(m, "nuc") == health.Down })
		_ = m.SetOperator("nas", pool.Disabled, "test")
		<-time.After(10 * time.Second)
	})
	for _, want := range []string{"nuc home gateway_down", "nas home gateway_disabled"} {
		if got := <-closed; got != want {
			t.Errorf("closed %q, want %q", got, want)
		}
	}
	if len(closed) > 0 {
		t.Errorf("closed again: %q", <-closed)
	}
}

func TestWaitReturnsNews(t *testing.T) {
	inBubble(t, monitor.Options{}, func(t *testing.T, m *monitor.Monitor, checks *targets) {
		m.Apply(two())
		until(t, time.Second, "alive", func() bool { return phase(m, "nuc") == health.Alive && phase(m, "nas") == health.Alive })
		v := m.Snapshot().Version
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if s, err := m.Wait(ctx, v); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("news without a change: version %d after %d, %v", s.Version, v, err)
		}
		checks.set(nuc, refused)
		ctx, cancel = context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if s, err := m.Wait(ctx, v); err != nil || s.Version <= v {
			t.Errorf("no news of a death: %v", err)
		}
	})
}

// A day of lost checks takes nobody down, and a storm of observations neither
// blocks the engines nor the monitor.
func TestStormOfObservations(t *testing.T) {
	inBubble(t, monitor.Options{}, func(t *testing.T, m *monitor.Monitor, _ *targets) {
		m.Apply(two())
		for range 100_000 {
			m.Observe("nuc", health.Evidence{Value: health.Good, Level: health.Answer, Source: health.Traffic})
			m.Observe("nobody", health.Evidence{Value: health.Bad, Level: health.Connect, Source: health.Traffic, Firm: true})
		}
		<-time.After(time.Second)
		if phase(m, "nuc") != health.Alive {
			t.Errorf("nuc is %s", phase(m, "nuc"))
		}
	})
}

func TestValidate(t *testing.T) {
	tests := []struct {
		name string
		edit func(*monitor.Config)
		want string
	}{
		{"as it is", func(*monitor.Config) {}, ""},
		{"no port", func(c *monitor.Config) { c.Gateways[0].Dial = "10.0.0.1" }, `gateway nuc: dial "10.0.0.1": want host:port`},
		{"no member", func(c *monitor.Config) { c.Pools[0].Members[0].Gateway = "tape" }, "pool home: member tape is not a gateway"},
		{"twice", func(c *monitor.Config) { c.Gateways[1].Name = "nuc" }, "gateway nuc is there twice"},
		{"interval", func(c *monitor.Config) { c.Gateways[0].Interval = time.Millisecond }, "gateway nuc: interval is 1ms: want at least 100ms"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := two()
			tt.edit(&c)
			got := ""
			if err := c.Validate(); err != nil {
				got = err.Error()
			}
			if got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
