package pool_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/edgeward/edgeward/relay/health"
	"github.com/edgeward/edgeward/relay/pool"
)

var noon = time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)

// states answers Derive from a map.
type states map[string]pool.GatewayState

func (s states) of(g string) pool.GatewayState { return s[g] }

func alive() pool.GatewayState {
	return pool.GatewayState{Phase: health.Alive, Since: noon.Add(-time.Hour)}
}

// back is alive since having recovered ago before noon.
func back(ago time.Duration) pool.GatewayState {
	return pool.GatewayState{Phase: health.Alive, Since: noon.Add(-ago), RecoveredAt: noon.Add(-ago)}
}

func down(why string) pool.GatewayState {
	return pool.GatewayState{Phase: health.Down, Since: noon.Add(-time.Minute), Reason: why}
}

func settings(p pool.Policy, gateways ...string) pool.Settings {
	s := pool.Settings{Name: "home", Policy: p}
	for _, g := range gateways {
		s.Members = append(s.Members, pool.Member{Gateway: g})
	}
	return s
}

func derive(s pool.Settings, st states) *pool.View {
	v, _ := pool.Derive(s, st.of, pool.Marks{}, noon)
	return &v
}

func TestParse(t *testing.T) {
	for _, want := range []string{"failover", "round_robin", "least_conn", "ip_hash"} {
		p, err := pool.ParsePolicy(want)
		if err != nil || p.String() != want {
			t.Errorf("%q: %s, %v", want, p, err)
		}
	}
	if _, err := pool.ParsePolicy("random"); err == nil || !strings.Contains(err.Error(), "ip_hash") {
		t.Errorf("random: %v", err)
	}
	for in, want := range map[string]time.Duration{
		"container": time.Minute, "vm": 3 * time.Minute, "hypervisor": 10 * time.Minute, "nas": 15 * time.Minute,
		"windows": 30 * time.Minute, "slow": time.Hour, "90s": 90 * time.Second, "0": -1, "0s": -1,
	} {
		if got, err := pool.ParseFailback(in); err != nil || got != want {
			t.Errorf("%q: %s, %v; want %s", in, got, err, want)
		}
	}
	for _, in := range []string{"", "-1s", "fridge", "10"} {
		if got, err := pool.ParseFailback(in); err == nil {
			t.Errorf("%q: %s", in, got)
		}
	}
}

func TestTextRoundTrip(t *testing.T) {
	for name, to := range map[string]interface {
		UnmarshalText([]byte) error
		MarshalText() ([]byte, error)
	}{
		"least_conn": new(pool.Policy), "close": new(pool.OnDown), "hold": new(pool.Operator), "cooldown": new(pool.Role),
	} {
		if err := to.UnmarshalText([]byte(name)); err != nil {
			t.Error(err)
		}
		if b, err := to.MarshalText(); err != nil || string(b) != name {
			t.Errorf("%q: %q, %v", name, b, err)
		}
		if err := to.UnmarshalText([]byte("purple")); err == nil {
			t.Errorf("%T took purple", to)
		}
	}
}

func TestValidate(t *testing.T) {
	many := make([]string, 65)
	for i := range many {
		many[i] = strings.Repeat("g", i+1)
	}
	weight := settings(pool.RoundRobin, "a")
	weight.Members[0].Weight = 257
	slow := settings(pool.IPHash, "a")
	slow.SlowStart = time.Second
	nameless := settings(pool.Failover, "a")
	nameless.Name = ""
	for _, tc := range []struct {
		name, want string
		s          pool.Settings
	}{
		{"good", "", settings(pool.IPHash, "a", "b")},
		{"no name", `pool "": name`, nameless},
		{"no members", `pool "home": members`, settings(pool.Failover)},
		{"too many", `pool "home": members`, settings(pool.Failover, many...)},
		{"twice", `"a" is listed twice`, settings(pool.Failover, "a", "a")},
		{"empty gateway", "number 2 names no gateway", settings(pool.Failover, "a", "")},
		{"weight", `pool "home": weight: of "a" is 257`, weight},
		{"slow start", `pool "home": slow_start`, slow},
		{"policy", `pool "home": policy`, settings(pool.Policy(9), "a")},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := tc.s.Validate()
			if tc.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error is %v, want %s", err, tc.want)
			}
		})
	}
}

func TestFailover(t *testing.T) {
	unsure := pool.GatewayState{}
	wasDown := pool.GatewayState{WasDown: true}
	drained := pool.GatewayState{Phase: health.Alive, Op: pool.Drain}
	disabled := pool.GatewayState{Phase: health.Alive, Op: pool.Disabled}
	heldAlive := pool.GatewayState{Phase: health.Down, Op: pool.Hold, HeldAs: health.Alive}
	heldDown := pool.GatewayState{Phase: health.Alive, Op: pool.Hold, HeldAs: health.Down}
	for _, tc := range []struct {
		name    string
		a, b, c pool.GatewayState
		order   string // as members are tried
	}{
		{"all alive", alive(), alive(), alive(), "abc"},
		{"first down", down(""), alive(), alive(), "bca"},
		{"first in cooldown", back(10 * time.Second), alive(), alive(), "bca"},
		{"first past its cooldown", back(time.Minute), alive(), alive(), "abc"},
		{"cooldown beats unknown and down", unsure, down(""), back(time.Second), "cab"},
		{"all down", down(""), down(""), down(""), "abc"},
		{"one returns to an all-down pool", down(""), down(""), back(0), "cab"},
		{"nothing known", unsure, unsure, unsure, "abc"},
		{"down at shutdown is not preferred", wasDown, unsure, unsure, "bca"},
		{"drained", drained, alive(), alive(), "bc"},
		{"disabled", disabled, down(""), drained, "b"},
		{"none", drained, disabled, drained, ""},
		{"held alive", heldAlive, alive(), alive(), "abc"},
		{"held down", heldDown, alive(), alive(), "bca"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			v := derive(settings(pool.Failover, "a", "b", "c"), states{"a": tc.a, "b": tc.b, "c": tc.c})
			if got := tryAll(v, pool.Query{}); got != tc.order {
				t.Errorf("order is %q, want %q", got, tc.order)
			}
		})
	}
}

// tryAll lets every dial fail and returns the members in the order tried.
func tryAll(v *pool.View, q pool.Query) string {
	var order strings.Builder
	for {
		i, ok := v.Pick(q)
		if !ok {
			return order.String()
		}
		order.WriteString(v.Members[i].Gateway)
		q.Tried |= 1 << i
	}
}

func TestMaxTier(t *testing.T) {
	v := derive(settings(pool.Failover, "a", "b", "c", "d"),
		states{"a": down(""), "b": {}, "c": back(0), "d": alive()})
	for max, want := range map[int8]string{-1: "d", 1: "dc", 2: "dcb", 3: "dcba", 0: "dcba", 100: "dcba"} {
		if got := tryAll(v, pool.Query{MaxTier: max}); got != want {
			t.Errorf("max tier %d: %q, want %q", max, got, want)
		}
	}
	if i, ok := new(pool.View).Pick(pool.Query{}); ok {
		t.Errorf("the zero view picked %d", i)
	}
}

func TestMarks(t *testing.T) {
	s := settings(pool.Failover, "a", "b")
	for _, tc := range []struct {
		name  string
		a     pool.GatewayState
		m     pool.Marks
		order string
		next  time.Time
	}{
		{"failed over for a while", alive(), sentAway(noon.Add(time.Minute)), "ba", noon.Add(time.Minute)},
		{"that while is over", alive(), sentAway(noon), "ab", time.Time{}},
		{"failed over until failback", alive(), sentAway(time.Time{}), "ba", time.Time{}},
		{"failed back ends a cooldown", back(10 * time.Second), pool.Marks{FailedBack: noon}, "ab", time.Time{}},
		{
			"failed back before it", back(10 * time.Second),
			pool.Marks{FailedBack: noon.Add(-11 * time.Second)},
			"ba", noon.Add(50 * time.Second),
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			v, next := pool.Derive(s, states{"a": tc.a, "b": alive()}.of, tc.m, noon)
			if got := tryAll(&v, pool.Query{}); got != tc.order {
				t.Errorf("order is %q, want %q", got, tc.order)
			}
			if !next.Equal(tc.next) {
				t.Errorf("next is %s, want %s", next, tc.next)
			}
		})
	}
}

func sentAway(until time.Time) pool.Marks {
	return pool.Marks{FailedOver: map[string]time.Time{"a": until}}
}

// TestNextIsWhenItChanges: nothing changes before next, something does then.
func TestNextIsWhenItChanges(t *testing.T) {
	s := settings(pool.RoundRobin, "a", "b", "c")
	st := states{"a": back(5 * time.Second), "b": back(65 * time.Second), "c": alive()}
	var at []time.Duration
	for now := noon; ; {
		v, next := pool.Derive(s, st.of, pool.Marks{}, now)
		if next.IsZero() {
			break
		}
		at = append(at, next.Sub(noon))
		before, _ := pool.Derive(s, st.of, pool.Marks{}, next.Add(-time.Millisecond))
		after, _ := pool.Derive(s, st.of, pool.Marks{}, next)
		if diff := cmp.Diff(v.Members, before.Members); diff != "" {
			t.Errorf("changed before %s:\n%s", next, diff)
		}
		if cmp.Equal(v.Members, after.Members) {
			t.Errorf("nothing changed at %s", next)
		}
		now = next
	}
	want := []time.Duration{5 * time.Second, 55 * time.Second, 65 * time.Second}
	if diff := cmp.Diff(want, at); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
}

func TestCloseSessions(t *testing.T) {
	s := settings(pool.Failover, "a", "b", "c")
	st := states{"a": down(""), "b": {Phase: health.Alive, Op: pool.Disabled}, "c": {Phase: health.Alive, Op: pool.Drain}}
	for onDown, want := range map[pool.OnDown][]bool{pool.Keep: {false, true, false}, pool.Close: {true, true, false}} {
		s.OnDown = onDown
		var got []bool
		for _, m := range derive(s, st).Members {
			got = append(got, m.CloseSessions)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", onDown, diff)
		}
	}
}

// TestReturnAfter: what stand-ins took is closed when the member that came back has
// had its visitors again for that long, and never where nobody came back.
func TestReturnAfter(t *testing.T) {
	s := settings(pool.Failover, "nuc", "nas")
	s.Failback, s.ReturnAfter = time.Minute, 10*time.Minute
	for name, c := range map[string]struct {
		nuc    pool.GatewayState
		closes bool
		next   time.Time
	}{
		"nobody was away":           {alive(), false, time.Time{}},
		"in cooldown":               {back(30 * time.Second), false, noon.Add(30 * time.Second)},
		"the cooldown is just over": {back(time.Minute), false, noon.Add(10 * time.Minute)},
		"a moment before":           {back(11*time.Minute - 1), false, noon.Add(1)},
		"it is time":                {back(11 * time.Minute), true, time.Time{}},
		"it is away again":          {down("check"), false, time.Time{}},
	} {
		v, next := pool.Derive(s, states{"nuc": c.nuc, "nas": alive()}.of, pool.Marks{}, noon)
		if v.Members[0].CloseSessions || v.Members[1].CloseSessions != c.closes || !next.Equal(c.next) {
			t.Errorf("%s: closes %t and next %s, want %t and %s", name, v.Members[1].CloseSessions, next, c.closes, c.next)
		}
	}
	s.ReturnAfter = 0
	if v, _ := pool.Derive(s, states{"nuc": back(time.Hour), "nas": alive()}.of, pool.Marks{}, noon); v.Members[1].CloseSessions {
		t.Error("sessions are closed though nobody asked for that")
	}
	s.Policy, s.ReturnAfter = pool.IPHash, time.Minute
	if err := s.Validate(); err == nil || !strings.Contains(err.Error(), "return_after") {
		t.Errorf("with ip_hash: %v", err)
	}
}

func TestServing(t *testing.T) {
	v := derive(settings(pool.RoundRobin, "a", "b", "c"), states{"a": alive(), "b": down(""), "c": alive()})
	var got []string
	for i, m := range v.Serving() {
		if v.Index(m.Gateway) != i {
			t.Errorf("index of %s is %d, want %d", m.Gateway, v.Index(m.Gateway), i)
		}
		got = append(got, m.Gateway)
	}
	if diff := cmp.Diff([]string{"a", "c"}, got); diff != "" {
		t.Error(diff)
	}
	if v.Index("z") != -1 {
		t.Error("found z")
	}
}
