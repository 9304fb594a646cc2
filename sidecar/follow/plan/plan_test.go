package plan_test

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/edgeward/edgeward/sidecar/follow/plan"
)

var (
	here  = netip.MustParseAddrPort("192.0.2.1:443")
	there = netip.MustParseAddrPort("192.0.2.2:443")
)

func key(name string) plan.Key { return plan.Key{Backend: "pool:home", Server: name} }

func TestNext(t *testing.T) {
	ready, drain, maint := plan.Seen{Weight: 1, Addr: here}, plan.Seen{State: plan.Drain, Weight: 1, Addr: here}, plan.Seen{State: plan.Maint, Weight: 1, Addr: here}
	serve, rest, stop := plan.Want{Role: plan.Serve}, plan.Want{Role: plan.Rest}, plan.Want{Role: plan.Stop}
	for _, tc := range []struct {
		name string
		want map[string]plan.Want
		seen map[string]plan.Seen
		out  []string
	}{
		{"as it should be", map[string]plan.Want{"a": serve, "b": rest}, map[string]plan.Seen{"a": ready, "b": drain}, nil},
		{"a failover", map[string]plan.Want{"a": stop, "b": serve}, map[string]plan.Seen{"a": ready, "b": ready}, []string{"a state maint"}},
		{"the other first", map[string]plan.Want{"a": stop, "b": serve}, map[string]plan.Seen{"a": ready, "b": drain}, []string{"b state ready"}},
		{"nothing is known", map[string]plan.Want{}, map[string]plan.Seen{"a": ready, "b": drain}, nil},
		{"nothing is known of one", map[string]plan.Want{"a": stop}, map[string]plan.Seen{"a": ready, "b": ready}, []string{"a state maint"}},
		{"who is unknown does not serve", map[string]plan.Want{"a": stop}, map[string]plan.Seen{"a": ready, "b": drain}, nil},
		{"all are to be drained", map[string]plan.Want{"a": rest, "b": rest}, map[string]plan.Seen{"a": ready, "b": ready}, []string{"a state drain", "b state drain"}},
		{"rest leaves maintenance alone", map[string]plan.Want{"a": serve, "b": rest}, map[string]plan.Seen{"a": ready, "b": maint}, nil},
		{"stop from drain", map[string]plan.Want{"a": serve, "b": stop}, map[string]plan.Seen{"a": ready, "b": drain}, []string{"b state maint"}},
		{"close", map[string]plan.Want{"a": serve, "b": {Role: plan.Stop, Close: true}}, map[string]plan.Seen{"a": ready, "b": ready}, []string{"b state maint", "b shutdown sessions"}},
		{"no address", map[string]plan.Want{"a": stop, "b": serve}, map[string]plan.Seen{"a": ready, "b": {State: plan.Maint, Weight: 1}}, nil},
		{"no address, and one is known", map[string]plan.Want{"b": {Role: plan.Serve, Addr: there}}, map[string]plan.Seen{"b": {State: plan.Maint, Weight: 1}}, nil},
		{"ready without an address serves nobody", map[string]plan.Want{"a": stop, "b": serve}, map[string]plan.Seen{"a": ready, "b": {Weight: 1}}, nil},
		{"address and weight before the state", map[string]plan.Want{"a": {Role: plan.Serve, Addr: there, Weight: 7}}, map[string]plan.Seen{"a": maint}, []string{"a addr " + there.String(), "a weight 7", "a state ready"}},
		{"weight zero does not serve", map[string]plan.Want{"a": stop, "b": serve}, map[string]plan.Seen{"a": ready, "b": {Addr: here}}, nil},
		{"not in HAProxy", map[string]plan.Want{"a": stop, "b": serve}, map[string]plan.Seen{"a": ready}, nil},
		{"who is nowhere does not serve", map[string]plan.Want{"a": stop, "b": serve}, map[string]plan.Seen{"a": ready, "b": {Weight: 1, Addr: here, Nowhere: true}}, nil},
		{"address of one that rests", map[string]plan.Want{"a": {Role: plan.Rest, Addr: there}}, map[string]plan.Seen{"a": drain}, []string{"a addr " + there.String()}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			want, seen := map[plan.Key]plan.Want{}, map[plan.Key]plan.Seen{}
			for name, w := range tc.want {
				want[key(name)] = w
			}
			for name, s := range tc.seen {
				seen[key(name)] = s
			}
			var out []string
			for _, w := range plan.Next(want, seen) {
				out = append(out, w.String()[len("pool:home/"):])
			}
			if diff := cmp.Diff(tc.out, out); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// apply does to seen what HAProxy would.
func apply(seen map[plan.Key]plan.Seen, w plan.Write) {
	s := seen[w.Key]
	switch w.Kind {
	case plan.SetAddr:
		s.Addr, s.Nowhere = w.Addr, false
	case plan.SetWeight:
		s.Weight = w.Weight
	case plan.SetState:
		s.State = w.State
	}
	seen[w.Key] = s
}

func serving(seen map[plan.Key]plan.Seen, backend string) bool {
	for k, s := range seen {
		if k.Backend == backend && s.Serves() {
			return true
		}
	}
	return false
}

var (
	anyAddr = rapid.SampledFrom([]netip.AddrPort{here, there, here, {}})
	anySeen = rapid.Custom(func(t *rapid.T) plan.Seen {
		return plan.Seen{State: rapid.SampledFrom([]plan.State{plan.Ready, plan.Drain, plan.Maint}).Draw(t, "state"), Weight: rapid.SampledFrom([]int{1, 1, 5, 0}).Draw(t, "weight"), Addr: anyAddr.Draw(t, "addr"), Nowhere: rapid.IntRange(0, 5).Draw(t, "nowhere") == 0}
	})
	anyWant = rapid.Custom(func(t *rapid.T) plan.Want {
		return plan.Want{
			Role:   rapid.SampledFrom([]plan.Role{plan.Leave, plan.Serve, plan.Rest, plan.Stop}).Draw(t, "role"),
			Weight: rapid.SampledFrom([]int{0, 1, 5}).Draw(t, "weight"), Addr: anyAddr.Draw(t, "addr"), Close: rapid.Bool().Draw(t, "close"),
		}
	})
)

// TestAnyState: from anything, the batches lead to what is wanted where that can be,
// they end, and no backend is without a server on the way that had one and keeps one.
// Some writes have no effect.
func TestAnyState(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want, seen := map[plan.Key]plan.Want{}, map[plan.Key]plan.Seen{}
		for _, backend := range []string{"x", "y"} {
			for i := range rapid.IntRange(1, 4).Draw(t, "servers") {
				k := plan.Key{Backend: backend, Server: fmt.Sprint(i)}
				seen[k] = anySeen.Draw(t, k.String())
				if rapid.Bool().Draw(t, "wanted") {
					want[k] = anyWant.Draw(t, k.String())
				}
			}
		}
		broken := map[plan.Key]bool{}
		for k := range seen {
			broken[k] = rapid.IntRange(0, 5).Draw(t, "broken") == 0
		}
		before := map[string]bool{"x": serving(seen, "x"), "y": serving(seen, "y")}
		none := map[string]bool{"x": true, "y": true} // nobody is to serve
		for k := range seen {
			if w, ok := want[k]; !ok || w.Role < plan.Rest {
				none[k.Backend] = false
			}
		}
		var batch []plan.Write
		for range 4 {
			batch = plan.Next(want, seen)
			for _, w := range batch {
				if !broken[w.Key] {
					apply(seen, w)
				}
				for _, backend := range []string{"x", "y"} {
					if before[backend] && !none[backend] && !serving(seen, backend) {
						t.Fatalf("%s: nobody serves %s", w, backend)
					}
				}
				if s := seen[w.Key]; w.Kind == plan.SetState && w.State == plan.Ready && !s.Addr.IsValid() {
					t.Fatalf("%s: visitors would go nowhere", w)
				}
			}
		}
		for _, w := range batch {
			if !broken[w.Key] {
				t.Fatalf("%s is written for ever", w)
			}
		}
		for k, w := range want {
			s := seen[k]
			if broken[k] || plan.Done(w, s) || !s.Addr.IsValid() {
				continue
			}
			if w.Role < plan.Rest || none[k.Backend] {
				t.Fatalf("%s is %+v, want %+v", k, s, w)
			}
			for other, s := range seen {
				if other.Backend == k.Backend && s.Serves() && want[other].Role < plan.Rest {
					t.Fatalf("%s is %+v, want %+v: %s serves", k, seen[k], w, other)
				}
			}
		}
		for k, s := range seen {
			if _, ok := want[k]; ok || broken[k] {
				continue
			}
			for _, w := range plan.Next(want, map[plan.Key]plan.Seen{k: s}) {
				t.Fatalf("%s: nothing is wanted of it", w)
			}
		}
	})
}
