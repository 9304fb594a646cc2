package ddns_test

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/edgeward/edgeward/internal/fakecloudflare"
	"github.com/edgeward/edgeward/watchdog/fallback/ddns"
)

const (
	seven = "edgeward fallback home=cellar epoch=7"
	eight = "edgeward fallback home=cellar epoch=8 by=attic"
)

func TestTakeoverAndBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		cellar, attic := w.machine("cellar", cellar4, cellar6), w.machine("attic", attic4, attic6)
		cellar.mustOn(7)
		w.shows(both(cellar4, cellar6, seven)...)
		cellar.off()
		attic.mustOn(8)
		w.shows(both(attic4, attic6, eight)...)
		attic.off()
		cellar.mustOn(9)
		w.shows(both(cellar4, cellar6, "edgeward fallback home=cellar epoch=9")...)
		if s := cellar.Status("cellar"); !s.On || s.Epoch != 9 || s.A != "9.9.9.10" || s.AAAA != "2600::10" || s.Error != "" || s.Looked.IsZero() {
			t.Errorf("status is %+v", s)
		}
		cellar.off()
		if s := cellar.Status("cellar"); s.On {
			t.Error("it is on")
		}
		w.fake.ResetLog()
		time.Sleep(time.Hour)
		if n := w.fake.Count(); n > 0 {
			t.Errorf("%d requests while off", n)
		}
	})
}

// What is there in the beginning, and what becomes of it when attic takes over by
// epoch 8.
func TestRecords(t *testing.T) {
	tests := map[string]struct {
		there []fakecloudflare.Record
		set   func(*world, *ddns.Config)
		v6    netip.Addr
		want  []string // of www; empty: as it was
		err   error
		text  string
	}{
		"nothing": {v6: attic6, want: []string{"www A 9.9.9.20 " + eight, "www AAAA 2600::20 " + eight}},
		"cellar's": {
			there: []fakecloudflare.Record{rec("A", "9.9.9.10", "mine "+seven), rec("AAAA", "2600::10", seven)}, v6: attic6,
			want: []string{"www A 9.9.9.20 mine " + eight, "www AAAA 2600::20 " + eight},
		},
		"cellar's, and we have no IPv6": {
			there: []fakecloudflare.Record{rec("A", "9.9.9.10", seven), rec("AAAA", "2600::10", seven)},
			want:  []string{"www A 9.9.9.20 " + eight},
		},
		"our own, and IPv6 is not found": {
			there: []fakecloudflare.Record{rec("A", "9.9.9.20", "edgeward fallback home=cellar epoch=6 by=attic"), rec("AAAA", "2600::20", "edgeward fallback home=cellar epoch=6 by=attic")},
			want:  []string{"www A 9.9.9.20 " + eight, "www AAAA 2600::20 " + eight},
		},
		"marked, without a stamp": {
			there: []fakecloudflare.Record{rec("A", "9.9.9.99", "the site edgeward")}, v6: attic6,
			want: []string{"www A 9.9.9.20 the site " + eight, "www AAAA 2600::20 " + eight},
		},
		"a higher epoch": {there: []fakecloudflare.Record{rec("A", "9.9.9.10", "edgeward fallback home=cellar epoch=9")}, v6: attic6, err: ddns.ErrOvertaken, text: "9, and ours is 8"},
		"a higher epoch at one": {
			there: []fakecloudflare.Record{rec("A", "9.9.9.10", seven), rec("AAAA", "2600::10", "edgeward fallback home=cellar epoch=99")}, err: ddns.ErrOvertaken,
		},
		"foreign":        {there: []fakecloudflare.Record{rec("A", "9.9.9.99", "somebody's")}, v6: attic6, err: ddns.ErrForeign, text: "not_ours"},
		"foreign AAAA":   {there: []fakecloudflare.Record{rec("A", "9.9.9.10", seven), rec("AAAA", "2600::99", "")}, v6: attic6, err: ddns.ErrForeign, text: "foreign_aaaa"},
		"another home's": {there: []fakecloudflare.Record{rec("A", "9.9.9.99", "edgeward fallback home=roof epoch=1")}, v6: attic6, err: ddns.ErrForeign, text: "domain of home roof"},
		"a CNAME":        {there: []fakecloudflare.Record{rec("CNAME", "x.example.net", "edgeward")}, v6: attic6, err: ddns.ErrForeign, text: "foreign_type"},
		"adopted": {
			there: []fakecloudflare.Record{rec("A", "9.9.9.99", "somebody's")}, v6: attic6, set: func(_ *world, c *ddns.Config) { c.Adopt = true },
			want: []string{"www A 9.9.9.20 somebody's " + eight, "www AAAA 2600::20 " + eight},
		},
		"adopted, without room": {
			there: []fakecloudflare.Record{rec("A", "9.9.9.99", strings.Repeat("x", 60))}, v6: attic6, set: func(_ *world, c *ddns.Config) { c.Adopt = true },
			err: ddns.ErrForeign, text: "comment_full",
		},
		"ours, without room": {
			there: []fakecloudflare.Record{rec("A", "9.9.9.10", strings.Repeat("x", 60)+" "+seven)}, v6: attic6,
			want: []string{"www A 9.9.9.20 " + eight, "www AAAA 2600::20 " + eight},
		},
		"two of ours": {
			there: []fakecloudflare.Record{rec("A", "9.9.9.10", seven), rec("A", "9.9.9.20", "edgeward fallback home=cellar epoch=6")}, v6: attic6,
			want: []string{"www A 9.9.9.20 " + eight, "www AAAA 2600::20 " + eight},
		},
		"two, one of which was made by hand": {
			there: []fakecloudflare.Record{rec("A", "9.9.9.10", seven), rec("A", "9.9.9.30", "edgeward")}, v6: attic6, err: ddns.ErrForeign, text: "several_a",
		},
		"other types stay": {
			there: []fakecloudflare.Record{rec("TXT", "hello", ""), rec("A", "9.9.9.10", seven)}, v6: attic6,
			want: []string{"www A 9.9.9.20 " + eight, "www AAAA 2600::20 " + eight, "www TXT hello"},
		},
		"IPv4 alone": {
			there: []fakecloudflare.Record{rec("A", "9.9.9.10", seven), rec("AAAA", "2600::10", seven)}, v6: attic6,
			set:  func(w *world, _ *ddns.Config) { w.home.DNS.IPv6 = false },
			want: []string{"www A 9.9.9.20 " + eight},
		},
		"proxied": {
			there: []fakecloudflare.Record{rec("A", "9.9.9.10", seven)}, v6: attic6,
			set:  func(w *world, _ *ddns.Config) { w.home.DNS.Proxied = true },
			want: []string{"www A 9.9.9.20 proxied " + eight, "www AAAA 2600::20 proxied " + eight},
		},
		"fixed": {
			set: func(w *world, _ *ddns.Config) {
				w.home.DNS.Fixed = map[string][]netip.Addr{"attic": {netip.MustParseAddr("9.9.9.25")}, "cellar": {cellar4}}
			},
			v6:   attic6,
			want: []string{"www A 9.9.9.25 " + eight, "www AAAA 2600::20 " + eight},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, test.there...)
				before := w.records()
				attic := w.machine("attic", attic4, test.v6, func(c *ddns.Config) {
					if test.set != nil {
						test.set(w, c)
					}
				})
				w.home.DNS.Names = []string{"WWW.example.com.", "www.example.com"}
				err := attic.on(8)
				if !errors.Is(err, test.err) || err != nil && !strings.Contains(err.Error(), test.text) {
					t.Fatalf("got %v, want %v: %s", err, test.err, test.text)
				}
				if err != nil {
					test.want = before
				}
				w.shows(test.want...)
				if test.err == nil || errors.Is(test.err, ddns.ErrForeign) {
					attic.off()
				}
			})
		})
	}
}

// A name that is not ours does not keep the others from being led here.
func TestForeignNameAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, rec("A", "9.9.9.99", "somebody's"))
		attic := w.machine("attic", attic4, netip.Addr{})
		if err := attic.on(8); !errors.Is(err, ddns.ErrForeign) {
			t.Errorf("got %v", err)
		}
		w.shows("* A 9.9.9.20 "+eight, "www A 9.9.9.99 somebody's")
		if !attic.Status("cellar").On {
			t.Error("the other name is not kept")
		}
		attic.off()
	})
}

// The write of a former holder lands after the new one's: it is written over at the
// next look, and how long it stood is known.
func TestDelayedWrite(t *testing.T) {
	for name, after := range map[string]time.Duration{"within settle": 5 * time.Second, "much later": 10 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				cellar, attic := w.machine("cellar", cellar4, cellar6), w.machine("attic", attic4, attic6)
				cellar.mustOn(7)

				// cellar has a new address, and its write hangs on the way.
				held, release := make(chan struct{}), make(chan struct{})
				first := true
				w.fake.OnRequest(func(r fakecloudflare.Request, s fakecloudflare.Stage) {
					if r.Call == fakecloudflare.Batch && s == fakecloudflare.Before && first {
						first = false
						close(held)
						<-release
					}
				})
				cellar.moves(netip.MustParseAddr("9.9.9.11"), cellar6)
				<-held
				cellar.epoch.Store(0) // it has lost the lease

				attic.mustOn(8)
				w.shows(both(attic4, attic6, eight)...)
				time.Sleep(after)
				close(release)
				synctest.Wait()
				w.shows("* A 9.9.9.11 "+seven, "* AAAA 2600::20 "+eight, "www A 9.9.9.11 "+seven, "www AAAA 2600::20 "+eight)
				landed := time.Now()
				for attic.Status("cellar").Stale == 0 {
					time.Sleep(100 * time.Millisecond)
				}
				w.shows(both(attic4, attic6, eight)...)
				if stood := time.Since(landed); stood > 70*time.Second || after < time.Minute && stood > 6*time.Second {
					t.Errorf("it stood for %s", stood)
				}
				cellar.off()
				attic.off()
			})
		})
	}
}

// may is asked twice for a write: before the read, and after it.
func TestLeaseLostBetweenReadAndWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, lost := range map[string]uint64{"lost": 0, "taken anew": 9} {
			w := newWorld(t)
			attic := w.machine("attic", attic4, attic6)
			w.fake.OnRequest(func(r fakecloudflare.Request, _ fakecloudflare.Stage) {
				if r.Call == fakecloudflare.ListRecords {
					attic.epoch.Store(lost)
				}
			})
			if err := attic.on(8); !errors.Is(err, ddns.ErrNotAllowed) {
				t.Errorf("%s: got %v", name, err)
			}
			w.shows()
			if w.fake.Count(fakecloudflare.Batch) > 0 {
				t.Error("it was written")
			}
		}
	})
}

func TestNotAllowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		attic := w.machine("attic", attic4, attic6)
		if err := attic.on(0); !errors.Is(err, ddns.ErrNotAllowed) {
			t.Errorf("got %v", err)
		}
		if w.fake.Count() > 0 {
			t.Error("something was asked")
		}
		attic.mustOn(8) // and once it was, the lease is lost
		attic.epoch.Store(0)
		attic.moves(netip.MustParseAddr("9.9.9.21"), attic6)
		time.Sleep(time.Hour)
		w.shows(both(attic4, attic6, eight)...)
		attic.off()
	})
}

// Off returns when what is under way has landed, or cannot any more.
func TestOffWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		attic := w.machine("attic", attic4, attic6)
		attic.mustOn(8)
		w.fake.Inject(fakecloudflare.Fault{On: fakecloudflare.Batch, Do: fakecloudflare.Hang})
		attic.moves(netip.MustParseAddr("9.9.9.21"), attic6)
		for w.fake.Count(fakecloudflare.Batch) < 2 {
			time.Sleep(10 * time.Millisecond)
		}
		sent := time.Now()
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := attic.Off(short, "cellar"); !errors.Is(err, ddns.ErrInFlight) {
			t.Errorf("got %v", err)
		}
		attic.off()
		if took := time.Since(sent); took < 9*time.Second || took > 11*time.Second {
			t.Errorf("off after %s", took)
		}
		n := w.fake.Count()
		time.Sleep(time.Hour)
		if w.fake.Count() > n {
			t.Error("it goes on")
		}
	})
}

// A write that is answered late is waited for, and no longer.
func TestOffWaitsForTheAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		attic := w.machine("attic", attic4, attic6)
		attic.mustOn(8)
		w.fake.Inject(fakecloudflare.Fault{On: fakecloudflare.Batch, Do: fakecloudflare.Slow, Delay: 3 * time.Second})
		attic.moves(netip.MustParseAddr("9.9.9.21"), attic6)
		for w.fake.Count(fakecloudflare.Batch) < 2 {
			time.Sleep(10 * time.Millisecond)
		}
		sent := time.Now()
		attic.off()
		if took := time.Since(sent); took < 2*time.Second || took > 4*time.Second {
			t.Errorf("off after %s", took)
		}
	})
}

// What the provider has taken is believed when it shows it.
func TestOnWaitsForTheProof(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, rec("A", "9.9.9.10", seven))
		attic := w.machine("attic", attic4, attic6)
		w.fake.Inject(fakecloudflare.Fault{On: fakecloudflare.ListRecords, Do: fakecloudflare.Stale, For: 20 * time.Second})
		start := time.Now()
		attic.mustOn(8)
		if took := time.Since(start); took < 20*time.Second {
			t.Errorf("on after %s", took)
		}
		attic.off()
	})
}

func TestOffIsQuick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		attic := w.machine("attic", attic4, attic6)
		attic.mustOn(8)
		start := time.Now()
		attic.off()
		attic.off()
		if took := time.Since(start); took > 0 {
			t.Errorf("off after %s", took)
		}
	})
}

// Off ends an On that still tries.
func TestOffEndsOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		attic := w.machine("attic", attic4, attic6)
		w.fake.Inject(fakecloudflare.Fault{Do: fakecloudflare.Page})
		began := make(chan error, 1)
		go func() { began <- attic.on(8) }()
		time.Sleep(3 * time.Second)
		attic.off()
		if err := <-began; !errors.Is(err, ddns.ErrOff) {
			t.Errorf("got %v", err)
		}
	})
}

// What goes wrong at the provider, and what has come of it in the end.
func TestProviderFails(t *testing.T) {
	type fault = fakecloudflare.Fault
	tests := map[string]fault{
		"refuses":        {On: fakecloudflare.Batch, Do: fakecloudflare.Refuse, Times: 2},
		"loses answers":  {On: fakecloudflare.Batch, Do: fakecloudflare.Lose, Times: 2},
		"hangs":          {On: fakecloudflare.Batch, Do: fakecloudflare.Hang, Times: 1},
		"hangs after":    {On: fakecloudflare.Batch, Do: fakecloudflare.HangAfter, Times: 1},
		"throttles":      {Do: fakecloudflare.Throttle, RetryAfter: "20", Times: 1},
		"is down":        {Do: fakecloudflare.Page, For: 30 * time.Second},
		"truncates":      {Do: fakecloudflare.Truncate, Times: 3},
		"shows old ones": {On: fakecloudflare.ListRecords, Do: fakecloudflare.Stale, For: 20 * time.Second},
	}
	for name, f := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, rec("A", "9.9.9.10", seven))
				attic := w.machine("attic", attic4, attic6)
				w.fake.Inject(f)
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
				defer cancel()
				attic.epoch.Store(8)
				if err := attic.On(ctx, w.home, attic.may); err != nil {
					t.Fatal(err)
				}
				for range 3 { // what was made twice, because old records were shown, is gone
					time.Sleep(time.Minute)
				}
				w.shows(both(attic4, attic6, eight)...)
				attic.off()
			})
		})
	}
}

// On gives up with its ctx, and leaves nothing on.
func TestOnGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		attic := w.machine("attic", netip.Addr{}, attic6)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		attic.epoch.Store(8)
		err := attic.On(ctx, w.home, attic.may)
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, ddns.ErrNoAddress) {
			t.Errorf("got %v", err)
		}
		if attic.Status("cellar").On || len(w.records()) > 0 {
			t.Error("something is on")
		}
	})
}

// Drift is repaired, and costs few requests.
func TestKeeps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		attic := w.machine("attic", attic4, attic6)
		attic.mustOn(8)
		time.Sleep(2 * time.Minute)
		w.fake.ResetLog()
		rounds := attic.rounds.Load()
		time.Sleep(time.Hour)
		if n := w.fake.Count(); n < 60 || n > 150 {
			t.Errorf("%d requests in an hour", n)
		}
		if n := attic.rounds.Load() - rounds; n < 50 || n > 80 {
			t.Errorf("%d rounds in an hour", n)
		}
		for _, r := range w.fake.Records(zoneName) {
			if r.Type == "A" {
				r.Content, r.Comment = "9.9.9.99", nil
				r.Comment = new(eight)
				w.fake.Put(zoneName, r)
			} else {
				w.fake.Remove(zoneName, r.ID)
			}
		}
		time.Sleep(90 * time.Second)
		w.shows(both(attic4, attic6, eight)...)
		if s := attic.Status("cellar"); s.Repairs != 1 || s.Stale != 0 {
			t.Errorf("status is %+v", s)
		}
		attic.off()
	})
}

// A new address is followed; IPv6 goes by evidence alone, and comes back.
func TestAddressChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		attic := w.machine("attic", attic4, attic6)
		attic.mustOn(8)
		moved := netip.MustParseAddr("9.9.9.21")
		attic.moves(moved, attic6)
		time.Sleep(3 * time.Minute)
		w.shows(both(moved, attic6, eight)...)

		attic.moves(netip.Addr{}, netip.Addr{}) // no uplink: that says nothing
		time.Sleep(time.Hour)
		w.shows(both(moved, attic6, eight)...)

		attic.moves(moved, netip.Addr{})
		time.Sleep(3 * time.Minute)
		w.shows(both(moved, attic6, eight)...)
		time.Sleep(7 * time.Minute)
		w.shows(both(moved, netip.Addr{}, eight)...)

		attic.moves(moved, attic6)
		time.Sleep(3 * time.Minute)
		w.shows(both(moved, attic6, eight)...)
		attic.off()
	})
}

// Addresses that are known already are not waited for.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		attic := w.machine("attic", attic4, attic6)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); attic.Run(ctx) }()
		time.Sleep(30 * time.Minute)
		if n := attic.rounds.Load(); n < 5 || n > 10 {
			t.Errorf("%d rounds in half an hour", n)
		}
		cancel()
		<-done
	})
}

func TestNew(t *testing.T) {
	for name, cfg := range map[string]ddns.Config{
		"no id":         {},
		"an odd id":     {ID: "a b"},
		"slow writes":   {ID: "a", WriteWithin: time.Minute},
		"an empty zone": {ID: "a", Zones: map[string]ddns.Zone{"x": {}}},
	} {
		if _, err := ddns.New(cfg); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
}

func TestCheck(t *testing.T) {
	w := newWorld(t)
	attic := w.machine("attic", attic4, attic6)
	good := *w.home.DNS
	for name, change := range map[string]func(){
		"no domain": func() { w.home.DNS = nil },
		"no names":  func() { w.home.DNS.Names = nil },
		"no family": func() { w.home.DNS.IPv4, w.home.DNS.IPv6 = false, false },
		"no zone":   func() { w.home.DNS.Zone = "example.net" },
		"two fixed": func() { w.home.DNS.Fixed = map[string][]netip.Addr{"attic": {attic4, cellar4}} },
		"odd fixed": func() { w.home.DNS.Fixed = map[string][]netip.Addr{"attic": {{}}} },
		"an odd id": func() { w.home.ID = "a=b" },
	} {
		dns := good
		w.home.ID, w.home.DNS = "cellar", &dns
		change()
		if err := attic.Check(w.home); err == nil {
			t.Errorf("%s is taken", name)
		}
		if err := attic.on(8); err == nil {
			t.Errorf("%s is published", name)
		}
	}
}
