package visible_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"

	"github.com/edgeward/edgeward/internal/evidence"
	"github.com/edgeward/edgeward/internal/fakecloudflare"
	"github.com/edgeward/edgeward/watchdog/resolve"
	"github.com/edgeward/edgeward/watchdog/visible"
)

const ns1, ns2 = "192.0.2.1:53", "192.0.2.2:53"

func check(t *testing.T, ctx context.Context, c visible.Config, wants []visible.Want) visible.Report {
	t.Helper()
	r, err := visible.Check(ctx, c, wants)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func between(t *testing.T, what string, got, least, most time.Duration) {
	t.Helper()
	if got < least || got > most {
		t.Errorf("%s after %s, want %s to %s", what, got, least, most)
	}
}

// The name servers serve the change when it has propagated; a resolver when what it
// kept has expired.
func TestServersThenResolvers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(t, zone(home4))
		m.serve(ns1, nil)
		m.serve(ns2, nil)
		m.SetDNS(fakecloudflare.DNS{Propagation: 3 * time.Second})
		time.Sleep(time.Minute)
		for _, r := range m.set.Resolvers { // they keep the old answer from now on
			if _, err := r.Lookup(t.Context(), "example.com", resolve.IPv4); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(20 * time.Second)
		move(m.Server, relay4)
		r := check(t, t.Context(), m.config(ns1, ns2), both(relay4))
		if r.Value() != evidence.Good || len(r.Seen) != 4 || r.Cancelled {
			t.Fatalf("%s:\n%s", r.Value(), r)
		}
		apex := r.Seen[0]
		if s, k := apex.AtServers(), apex.AtResolvers(); s.Visible != 2 || s.Of != 2 || k.Visible != 2 || k.Of != 2 {
			t.Errorf("not everywhere: %s", apex)
		}
		between(t, "name servers", apex.AtServers().After, 3*time.Second, 5*time.Second)
		between(t, "resolvers", apex.AtResolvers().After, 40*time.Second, 43*time.Second)
		between(t, "the AAAA that never was", r.Seen[1].AtServers().After, 0, time.Second)
		// Nobody asked for the random name before it had propagated, but we did.
		between(t, "the wildcard", r.Seen[2].AtServers().After, 3*time.Second, 5*time.Second)
		between(t, "the end", r.Took, 40*time.Second, 66*time.Second)
		if want := "example.com A 198.51.100.7: visible at 2 of 2 name servers after "; !strings.HasPrefix(r.String(), want) {
			t.Errorf("got %q, want it to begin with %q", r, want)
		}
	})
}

// What never comes is bad at the deadline, and what the servers say is told.
func TestDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(t, zone(home4))
		m.serve(ns1, nil)
		r := check(t, t.Context(), m.config(ns1), []visible.Want{{Name: "example.com", A: relay4}})
		if r.Value() != evidence.Bad || r.Took != 90*time.Second || r.Cancelled {
			t.Errorf("%s after %s:\n%s", r.Value(), r.Took, r)
		}
		if said := r.Seen[0].Servers[0].Said; said != home4.String() {
			t.Errorf("the server said %q", said)
		}
		if n := m.asked[ns1]; n < 45 || n > 60 {
			t.Errorf("asked %d times in 90s: the interval does not grow to 2s", n)
		}
	})
}

// A caller that gives up gets what is known, at once, and no verdict.
func TestCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(t, zone(home4))
		m.serve(ns1, nil)
		m.serve(ns2, func(*dns.Msg) *dns.Msg { return nil })
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(10*time.Second, cancel)
		r := check(t, ctx, m.config(ns1, ns2), []visible.Want{{Name: "example.com", A: relay4}})
		if r.Value() != evidence.Unknown || !r.Cancelled || r.Took != 10*time.Second {
			t.Errorf("%s after %s, cancelled %t:\n%s", r.Value(), r.Took, r.Cancelled, r)
		}
	})
}

// Silence is waited for no longer than for the others, and is not bad.
func TestSilent(t *testing.T) {
	nobody := func(*dns.Msg) *dns.Msg { return nil }
	failing := func(m *dns.Msg) *dns.Msg { m.Rcode = dns.RcodeServerFailure; return m }
	lame := func(m *dns.Msg) *dns.Msg { m.Authoritative = false; return m }
	for name, change := range map[string]func(*dns.Msg) *dns.Msg{"nobody": nobody, "failing": failing, "lame": lame} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMemory(t, zone(relay4))
				m.serve(ns1, nil)
				m.serve(ns2, change)
				r := check(t, t.Context(), m.config(ns1, ns2), both(relay4))
				if r.Value() != evidence.Good {
					t.Errorf("%s:\n%s", r.Value(), r)
				}
				between(t, "the end", r.Took, 5*time.Second, 12*time.Second)
				for _, s := range r.Seen {
					if at := s.Servers[1]; at.Value != evidence.Unknown || at.Said == "" || at.Said == "not asked" {
						t.Errorf("%+v", at)
					}
				}
			})
		})
	}
}

// Port 53 is often closed. Then there is no verdict, but what the resolvers say.
func TestAllServersSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(t, zone(relay4))
		r := check(t, t.Context(), m.config(ns1, ns2), both(relay4))
		if r.Value() != evidence.Unknown || r.Seen[0].AtResolvers().Visible != 2 {
			t.Errorf("%s:\n%s", r.Value(), r)
		}
		between(t, "the end", r.Took, 5*time.Second, 12*time.Second)
	})
}

// With nobody at all the deadline is waited for: our own connection may come back.
func TestNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(t, zone(relay4))
		for _, r := range m.set.Resolvers {
			r.Dial = nowhere().Resolvers[0].Dial
		}
		time.AfterFunc(30*time.Second, func() { m.serve(ns1, nil) })
		r := check(t, t.Context(), m.config(ns1), both(relay4))
		if r.Value() != evidence.Good || r.Seen[0].AtResolvers().Visible != 0 {
			t.Errorf("%s:\n%s", r.Value(), r)
		}
		between(t, "the end", r.Took, 30*time.Second, 35*time.Second)
	})
}

// A server that served the old address and then fell silent is unknown, not bad.
func TestFallsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(t, zone(relay4))
		m.serve(ns1, nil)
		start := time.Now()
		m.serve(ns2, func(a *dns.Msg) *dns.Msg {
			if time.Since(start) > 5*time.Second {
				return nil
			}
			return reply(&dns.Msg{MsgHdr: dns.MsgHdr{Id: a.Id}, Question: a.Question}, home4)
		})
		r := check(t, t.Context(), m.config(ns1, ns2), both(relay4))
		at := r.Seen[0].Servers[1]
		if at.Value != evidence.Unknown || !strings.Contains(at.Said, "before that: 203.0.113.5") || r.Value() != evidence.Good {
			t.Errorf("%+v, report:\n%s", at, r)
		}
		between(t, "the end", r.Took, 10*time.Second, 20*time.Second)
	})
}

// One name that a server is silent about does not hide the others.
func TestSilentAboutOneName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(t, zone(relay4))
		m.serve(ns1, func(a *dns.Msg) *dns.Msg {
			if a.Question[0].Name == "example.com." && a.Question[0].Qtype == dns.TypeA {
				return nil
			}
			return a
		})
		r := check(t, t.Context(), m.config(ns1), both(relay4))
		if r.Value() != evidence.Unknown || r.Seen[0].Value() != evidence.Unknown {
			t.Errorf("%s:\n%s", r.Value(), r)
		}
		for _, s := range r.Seen[1:] {
			if s.Value() != evidence.Good {
				t.Error(s)
			}
		}
	})
}

// Host names are looked up through the resolvers; addresses that cannot be reached
// do not count, as long as one can.
func TestHostNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := zone(relay4)
		cfg.Zones[0].Records = append(cfg.Zones[0].Records,
			fakecloudflare.Record{Name: "ns1.example.com", Type: "AAAA", Content: "2001:db8::53", TTL: 60},
			fakecloudflare.Record{Name: "ns2.example.com", Type: "AAAA", Content: "2001:db8::54", TTL: 60},
			fakecloudflare.Record{Name: "ns2.example.com", Type: "A", Content: "192.0.2.1", TTL: 60},
			fakecloudflare.Record{Name: "ns2.example.com", Type: "A", Content: "192.0.2.2", TTL: 60})
		m := newMemory(t, cfg)
		m.serve("[2001:db8::53]:53", nil)
		m.serve(ns2, nil)
		r := check(t, t.Context(), m.config("ns1.example.com", "NS2.example.com.", "ns3.example.net"), both(relay4)[:1])
		s := r.Seen[0]
		if got := s.AtServers(); got.Visible != 2 || got.Of != 3 || s.Servers[2].Value != evidence.Unknown {
			t.Error(r)
		}
		if m.asked["[2001:db8::54]:53"] == 0 || m.asked[ns1] == 0 {
			t.Errorf("asked %v", m.asked)
		}
		if said := s.Servers[2].Said; !strings.Contains(said, "looking up ns3.example.net") {
			t.Errorf("said %q", said)
		}
	})
}

// Every third question gets lost, and that is no silence.
func TestLossy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(t, zone(home4))
		var n atomic.Int64
		m.serve(ns1, func(a *dns.Msg) *dns.Msg {
			if n.Add(1)%3 == 0 {
				return nil
			}
			return a
		})
		r := check(t, t.Context(), m.config(ns1), []visible.Want{{Name: "example.com", A: relay4}})
		if r.Value() != evidence.Bad || r.Seen[1].Value() != evidence.Good || r.Took != 90*time.Second {
			t.Errorf("%s after %s:\n%s", r.Value(), r.Took, r)
		}
	})
}

// A wildcard is asked for by a name below it that nobody has asked for before.
func TestWildcard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(t, zone(relay4))
		asked := map[string]bool{}
		m.serve(ns1, func(a *dns.Msg) *dns.Msg {
			asked[a.Question[0].Name] = true
			return a
		})
		for range 2 {
			check(t, t.Context(), m.config(ns1), []visible.Want{{Name: "*.Example.com.", A: relay4}})
		}
		if len(asked) != 2 {
			t.Errorf("asked for %v", asked)
		}
		for name := range asked {
			if strings.HasPrefix(name, "*") || !strings.HasSuffix(name, ".example.com.") {
				t.Errorf("asked for %s", name)
			}
		}
	})
}
