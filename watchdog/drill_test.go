package watchdog_test

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/edgeward/edgeward/internal/fakecloudflare"
	"github.com/edgeward/edgeward/internal/notify"
	"github.com/edgeward/edgeward/internal/secret"
	"github.com/edgeward/edgeward/watchdog"
	"github.com/edgeward/edgeward/watchdog/decide"
)

// TestDrill: a drill shows what would happen, with what is true now, and writes nothing.
func TestDrill(t *testing.T) {
	for _, tc := range []struct {
		name     string
		change   func(*world, *watchdog.Config)
		before   func(*world)
		token    string
		decision string
		problems []string // a part of each
	}{
		{"all is well", nil, nil, "yes", "cloudflare", nil},
		{"the standby is dead", nil, func(w *world) { w.set(func() { w.canary.down = true }) }, "yes", "", []string{"path cloudflare", "nothing would be decided"}},
		{"the standby is silent", nil, func(w *world) { w.set(func() { w.canary.silent = true }) }, "yes", "cloudflare", []string{"path cloudflare: it did not answer within"}},
		{"the home is dead", nil, func(w *world) { w.set(func() { w.home.down = true }) }, "yes", "", []string{"path relay", "path cloudflare", "nothing would be decided"}},
		{"the token may only read", nil, func(w *world) { w.cloud.SetToken(fakecloudflare.Token{Status: "active", NoDNSEdit: true}) }, "no", "cloudflare", []string{"the token may not write"}},
		{"the provider is slow to write", nil, func(w *world) {
			w.cloud.Inject(fakecloudflare.Fault{On: fakecloudflare.Batch, Do: fakecloudflare.Page})
		}, "unknown", "cloudflare", []string{"could not learn whether the token may write"}},
		{"a record is not ours", nil, func(w *world) {
			for _, r := range w.cloud.Records(zoneName) {
				if r.Name == "*.example.com" {
					r.Comment = nil
					w.cloud.Put(zoneName, r)
				}
			}
		}, "yes", "cloudflare", []string{"the plan leaves out *.example.com"}},
		{"a dry run", func(_ *world, c *watchdog.Config) { c.Apply = false }, nil, "unknown", "cloudflare", nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			play(t, tc.change, func(t *testing.T, w *world, dog *watchdog.Watchdog) {
				if tc.before != nil {
					tc.before(w)
					pause(5 * time.Second)
				}
				before, writes := string(w.cloud.Dump()), w.cloud.Count(fakecloudflare.Batch)
				d, err := dog.Drill(t.Context(), "home", watchdog.DrillOptions{By: "ann"})
				if err != nil {
					t.Fatal(err)
				}
				if d.Token.May != tc.token || d.Decision != tc.decision || d.Ready != (len(tc.problems) == 0) {
					t.Errorf("token %+v, decision %q, ready %t", d.Token, d.Decision, d.Ready)
				}
				for i, part := range tc.problems {
					if len(d.Problems) != len(tc.problems) || !strings.Contains(d.Problems[i], part) {
						t.Errorf("problems are %q, want %q", d.Problems, tc.problems)
						break
					}
				}
				if string(w.cloud.Dump()) != before {
					t.Error("a drill has changed records")
				}
				asked := w.cloud.Count(fakecloudflare.Batch) - writes
				if want := map[string]int{"unknown": 0, "yes": 1, "no": 1}[tc.token]; asked != want && tc.name != "the provider is slow to write" {
					t.Errorf("it asked for %d changes, want %d", asked, want)
				}
				if tc.decision != "" && tc.problems == nil && (len(d.Plan) != 2 || len(d.Expected) != 5) {
					t.Errorf("plan %q, expected %+v", d.Plan, d.Expected)
				}
				if told := history(t, dog, `"kind":"drill"`); len(told) != 1 && tc.name != "a dry run" {
					t.Errorf("the history has %+v", told)
				}
				if st := site(t, dog); st.On != "relay" {
					t.Errorf("the site is on %q", st.On)
				}
			})
		})
	}
}

// TestDrillMoves: there, and back, with both read back; it takes no move from the budget,
// and people hear of it as of nothing bad.
func TestDrillMoves(t *testing.T) {
	told := new(notes)
	notices := func(_ *world, c *watchdog.Config) { c.Notices.Channels = []notify.Config{told.channel()} }
	play(t, notices, func(t *testing.T, w *world, dog *watchdog.Watchdog) {
		budget := site(t, dog).BudgetLeft
		before := string(undated(w.cloud.Dump()))
		there := make(chan string, 1)
		go func() {
			pause(time.Minute)
			there <- w.on()
		}()
		d, err := dog.Drill(t.Context(), "home", watchdog.DrillOptions{Move: "cloudflare", Stay: 10 * time.Minute, By: "ann"})
		if err != nil || !d.Ready {
			t.Fatalf("%v, %+v", err, d.Problems)
		}
		if on := <-there; on != "cloudflare" {
			t.Errorf("after a minute the records are on %s", on)
		}
		var steps []string
		for _, s := range d.Steps {
			steps = append(steps, s.Step)
			if s.Step == "stayed" && s.Took != 600 {
				t.Errorf("it stayed for %vs", s.Took)
			}
		}
		want := []string{"records read", "paths probed", "token asked", "moved to cloudflare", "stayed", "moved back to relay", "relay visible in DNS"}
		if !slices.Equal(steps, want) {
			t.Errorf("steps are %q", steps)
		}
		if last := d.Steps[len(d.Steps)-1]; last.Took < 2 || last.Took > 4 || last.Detail != "" {
			t.Errorf("the way back was visible so: %+v", last)
		}
		if after := string(undated(w.cloud.Dump())); after != before {
			t.Errorf("there and back changed more than it should:\n%s\n%s", before, after)
		}
		st := site(t, dog)
		if st.On != "relay" || st.Drill != nil || st.BudgetLeft != budget {
			t.Errorf("after the drill: on %s, %+v, budget %d of %d", st.On, st.Drill, st.BudgetLeft, budget)
		}
		pause(time.Minute)
		if open := told.open(); len(open) > 0 || len(told.of(notify.Switched)) != 2 {
			t.Errorf("open: %v; told %+v", open, told.of(notify.Switched))
		}
	})
}

// TestDrillRefuses: what would be unsafe is refused, and nothing is written.
func TestDrillRefuses(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*world, *watchdog.Config)
		before func(*testing.T, *world, *watchdog.Watchdog)
		o      watchdog.DrillOptions
		want   error
	}{
		{"a dry run", func(_ *world, c *watchdog.Config) { c.Apply = false }, nil, watchdog.DrillOptions{Move: "cloudflare"}, watchdog.ErrDry},
		{"no such path", nil, nil, watchdog.DrillOptions{Move: "moon"}, watchdog.ErrNotFound},
		{"where it is", nil, nil, watchdog.DrillOptions{Move: "relay"}, watchdog.ErrRefused},
		{"for too long", nil, nil, watchdog.DrillOptions{Move: "cloudflare", Stay: time.Hour}, watchdog.ErrRefused},
		{"a dead path", nil, func(_ *testing.T, w *world, _ *watchdog.Watchdog) { w.set(func() { w.canary.down = true }) }, watchdog.DrillOptions{Move: "cloudflare"}, watchdog.ErrRefused},
		{"pinned", nil, func(t *testing.T, _ *world, dog *watchdog.Watchdog) {
			if err := dog.Pin(t.Context(), "home", "relay", "bob"); err != nil {
				t.Fatal(err)
			}
		}, watchdog.DrillOptions{Move: "cloudflare"}, watchdog.ErrRefused},
		{"paused", nil, func(t *testing.T, _ *world, dog *watchdog.Watchdog) {
			if err := dog.Pause("", time.Time{}, ""); err != nil {
				t.Fatal(err)
			}
			pause(10 * time.Second)
		}, watchdog.DrillOptions{Move: "cloudflare"}, watchdog.ErrRefused},
	} {
		t.Run(tc.name, func(t *testing.T) {
			play(t, tc.change, func(t *testing.T, w *world, dog *watchdog.Watchdog) {
				if tc.before != nil {
					tc.before(t, w, dog)
				}
				before := string(w.cloud.Dump())
				d, err := dog.Drill(t.Context(), "home", tc.o)
				if !errors.Is(err, tc.want) {
					t.Errorf("got %v, want %v; %+v", err, tc.want, d)
				}
				pause(time.Minute)
				if string(w.cloud.Dump()) != before {
					t.Error("something was written")
				}
			})
		})
	}
}

// TestDrillGoesBack: whatever ends a drill, the site is back in the end.
func TestDrillGoesBack(t *testing.T) {
	for _, tc := range []struct {
		name string
		end  func(*testing.T, *world, *watchdog.Watchdog, context.CancelFunc)
		says string
	}{
		{"who asked is gone", func(_ *testing.T, _ *world, _ *watchdog.Watchdog, cancel context.CancelFunc) { cancel() }, "interrupted"},
		{"somebody ends it", func(t *testing.T, _ *world, dog *watchdog.Watchdog, _ context.CancelFunc) {
			if err := dog.EndDrill(t.Context(), "home", "bob"); err != nil {
				t.Error(err)
			}
		}, ""},
		{"the path that is tried dies", func(_ *testing.T, w *world, _ *watchdog.Watchdog, _ context.CancelFunc) {
			w.set(func() { w.canary.down = true })
		}, ""},
		{"the provider refuses the way back for a while", func(_ *testing.T, w *world, _ *watchdog.Watchdog, cancel context.CancelFunc) {
			w.cloud.Inject(fakecloudflare.Fault{On: fakecloudflare.Batch, Do: fakecloudflare.Page, For: 20 * time.Minute})
			cancel()
		}, "could not confirm the way back to relay"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			play(t, nil, func(t *testing.T, w *world, dog *watchdog.Watchdog) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				done := make(chan watchdog.Drill, 1)
				go func() {
					d, err := dog.Drill(ctx, "home", watchdog.DrillOptions{Move: "cloudflare", Stay: 30 * time.Minute, By: "ann"})
					if err != nil {
						t.Error(err)
					}
					done <- d
				}()
				w.untilOn("cloudflare", 30*time.Second)
				w.until(time.Minute, "the drill is in the status", func() bool { return site(t, dog).Drill != nil })
				tc.end(t, w, dog, cancel)
				w.untilOn("relay", 26*time.Minute) // the backoff is 5 minutes at most
				d := <-done
				if said := strings.Join(d.Problems, "; "); !strings.Contains(said, tc.says) || (said == "") != (tc.says == "") {
					t.Errorf("problems are %q, want %q", said, tc.says)
				}
				w.until(time.Minute, "at rest", func() bool {
					st := site(t, dog)
					return st.Drill == nil && st.On == "relay" && st.Phase == decide.Steady
				})
			})
		})
	}
}

// TestDrillAfterKill: a watchdog that is killed in a drill goes back when it is started
// again; and so does one that is reloaded.
func TestDrillAfterKill(t *testing.T) {
	for _, reload := range []bool{false, true} {
		play(t, nil, func(t *testing.T, w *world, dog *watchdog.Watchdog) {
			go func() {
				_, _ = dog.Drill(t.Context(), "home", watchdog.DrillOptions{Move: "cloudflare", Stay: 30 * time.Minute})
			}()
			w.untilOn("cloudflare", 30*time.Second)
			pause(5 * time.Second)
			next := w.config(w.dir)
			if reload {
				if err := dog.Start(next); err != nil {
					t.Fatal(err)
				}
			} else {
				_ = dog.Close()
				dog = w.start(next)
				defer dog.Close()
			}
			w.untilOn("relay", time.Minute)
		})
	}
}

// TestRefusedTarget: the provider will not take the records of one path, ever. The next
// one that works is taken, and people read why.
func TestRefusedTarget(t *testing.T) {
	private := netip.MustParseAddr("10.1.2.3")
	three := func(_ *world, c *watchdog.Config) {
		c.Sites[0].Paths[1].A, c.Sites[0].Paths[1].Probe = private, netip.MustParseAddrPort("9.10.11.12:443")
		c.Sites[0].Paths = append(c.Sites[0].Paths, watchdog.Path{Name: "mirror", A: away4, Away: true})
		c.Zones[0].Token = secret.New(token)
	}
	play(t, three, func(t *testing.T, w *world, dog *watchdog.Watchdog) {
		w.set(func() { w.relay.down = true })
		t.Logf("on the mirror after %s", w.untilOn("mirror", 90*time.Second))
		if why := history(t, dog, "and the provider refuses cloudflare: "); len(why) == 0 {
			t.Error("the history does not say why")
		}
		w.set(func() { w.relay.down = false })
		w.untilOn("relay", 30*time.Minute) // the path that is refused is not in its way
	})
}
