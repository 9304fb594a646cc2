package fallback_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/edgeward/edgeward/internal/evidence"
	"github.com/edgeward/edgeward/watchdog/fallback"
)

// FuzzNext feeds events in any order, true or not: what is done without a right to is
// wrong, whatever came before.
func FuzzNext(f *testing.F) {
	f.Add(false, []byte("\x01\x12\x23\x34\x45\x56\x67\x78\x00\x11\x22\x33\x44\x55"))
	f.Add(true, []byte("\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x13\x15\x55\x75\x95"))
	f.Fuzz(func(t *testing.T, owner bool, script []byte) {
		p := fallback.Policy{Self: "b", Home: fallback.Home{
			ID: "a", CoveredBy: []string{"b", "c"}, DNS: &fallback.DNS{},
			Tiers: []fallback.Tier{
				{Number: 1, Items: []fallback.Item{{Name: "db", Data: []fallback.Data{{Path: "/db", MaxAge: time.Hour}}}, {Name: "web", After: []string{"db"}}}},
				{Number: 2, After: time.Minute, Items: []fallback.Item{{Name: "tv"}}},
			},
		}}
		if owner {
			p.Self = "a"
		}
		p = p.WithDefaults()
		z := &fuzzer{t: t, p: p, s: fallback.Restore(p, fallback.State{}, fallback.Boot{At: epoch}), now: epoch}
		for i, b := range script {
			z.now = z.now.Add(time.Duration(b>>4) * time.Second)
			z.feed(z.event(i, b))
		}
	})
}

type fuzzer struct {
	t     *testing.T
	p     fallback.Policy
	s     fallback.State
	now   time.Time
	asked []fallback.Action
	epoch uint64
}

func (z *fuzzer) event(i int, b byte) fallback.Event {
	homes := []string{"a", "b", "c", ""}
	phases := []fallback.Phase{fallback.PhaseOwn, fallback.PhaseCover, fallback.PhaseHandback, fallback.PhaseGranted, ""}
	pick := int(b)*7 + i
	switch b & 7 {
	case 0:
		return fallback.Tick{}
	case 1:
		w := []evidence.Value{evidence.Value(pick % 3), evidence.Value(pick / 3 % 3)}
		return fallback.Looked{Remote: evidence.Value(pick / 9 % 3), Witness: w, Health: evidence.Good}
	case 2:
		seat := fallback.Seat{Home: "a", Phase: phases[pick%5], Holder: homes[pick%3], Tiers: map[int]string{1: homes[pick/2%4], 2: homes[pick/3%4]}}
		return fallback.Seen{Began: z.now, Holder: homes[pick/5%4], Epoch: uint64(pick / 11), Seat: seat}
	case 3:
		return fallback.Command{Say: []fallback.Word{fallback.SayGo, fallback.SayHandback, fallback.SayHold, fallback.SayResume}[pick%4]}
	case 4:
		return fallback.Items{Began: z.now, Seen: map[string]fallback.Running{"db": fallback.RunningWell, "tv": fallback.RunningStopped, "web": fallback.RunningIll}}
	}
	if len(z.asked) == 0 {
		return fallback.Done{ID: uint64(pick)}
	}
	n := pick % len(z.asked)
	a := z.asked[n]
	z.asked = slices.Delete(z.asked, n, n+1)
	d := fallback.Done{ID: a.Asked().ID, Seen: fallback.RunningStopped}
	if pick%5 == 0 {
		d.Fault = []fallback.Fault{fallback.Failed, fallback.Lost, fallback.Taken, fallback.Stale}[pick%4]
		return d
	}
	d.Until = z.now.Add(z.p.TTL)
	if _, ok := a.(fallback.Acquire); ok {
		z.epoch += 1000
		d.Epoch = z.epoch
		d.Seat = fallback.Seat{Home: "a", Phase: phases[pick%5], Holder: homes[pick%3], Tiers: map[int]string{1: homes[pick/2%4], 2: homes[pick/3%4]}}
	}
	return d
}

func (z *fuzzer) feed(ev fallback.Event) {
	var actions []fallback.Action
	z.s, actions, _ = fallback.Next(z.p, z.s, z.now, ev)
	for _, a := range actions {
		z.judge(a)
		z.asked = append(z.asked, a)
	}
	if w := z.s.Wake; !w.IsZero() && !w.After(z.now) {
		z.t.Fatalf("it wants to be woken at %s, which is over", w)
	}
}

// judge looks whether an action may be taken in this state.
func (z *fuzzer) judge(a fallback.Action) {
	valid := z.s.Held != nil && z.now.Before(z.s.Held.Until.Add(-z.p.Fence))
	switch a := a.(type) {
	case fallback.TurnOn:
		if !valid {
			z.t.Fatalf("dns on without the lease: %+v", z.s)
		}
	case fallback.Start:
		_, tier, _ := z.p.Home.Item(a.Item.Name)
		given := z.p.Self == "a" && tier.Number > 1 && (z.s.Seat.Phase == fallback.PhaseHandback || z.s.Seat.Phase == fallback.PhaseGranted) &&
			z.now.Before(z.s.SeatAt.Add(z.p.TTL-z.p.Fence))
		if z.s.Seat.Tiers[tier.Number] != z.p.Self || !valid && !given {
			z.t.Fatalf("start %s without a right to: %+v", a.Item.Name, z.s)
		}
	case fallback.Carry:
		i := z.s.Items[a.Item]
		if i.Seen != fallback.RunningStopped || i.Doing != "" || !i.Proved {
			z.t.Fatalf("carry %s, which is not proven stopped: %+v", a.Item, i)
		}
	case fallback.WriteSeat:
		if !valid || a.Seat.Epoch != z.s.Held.Epoch {
			z.t.Fatalf("a seat is written without the lease: %+v", z.s)
		}
	}
}

// TestAge: data that was too old when the outage began is held for a person.
func TestAge(t *testing.T) {
	p, s := covering(t, false)
	p.Home.Tiers[0].Items[0].Data = []fallback.Data{{Path: "/web", MaxAge: time.Hour}}
	p.Home.DNS = nil
	now := epoch
	var said []string
	var feed func(ev fallback.Event)
	feed = func(ev fallback.Event) {
		var actions []fallback.Action
		s, actions, _ = fallback.Next(p, s, now, ev)
		for _, a := range actions {
			said = append(said, a.String())
			d := fallback.Done{ID: a.Asked().ID, Until: now.Add(time.Hour), Epoch: 8, Seat: s.Seat, Released: true}
			if c, ok := a.(fallback.CheckAge); ok {
				d.Fault, d.Detail = fallback.Stale, "two hours"
				if !c.Outage.Equal(s.Seat.Outage) {
					t.Errorf("the age is asked for %s", c.Outage)
				}
			}
			feed(d)
		}
	}
	for range 5 {
		now = now.Add(5 * time.Second)
		feed(fallback.Looked{Remote: evidence.Bad, Witness: []evidence.Value{evidence.Good, evidence.Good}})
	}
	text := strings.Join(said, ", ")
	if i := s.Items["web"]; !i.Held || !strings.Contains(text, "age web") || strings.Contains(text, "start web") {
		t.Fatalf("it did %s; %+v", text, i)
	}
	feed(fallback.Command{Say: fallback.SayGo})
	if i := s.Items["web"]; i.Seen != fallback.RunningWell {
		t.Errorf("after go it is %+v", i)
	}
}
