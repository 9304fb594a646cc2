package pool_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/edgeward/edgeward/relay/health"
	"github.com/edgeward/edgeward/relay/pool"
)

func drawState(t *rapid.T) pool.GatewayState {
	g := pool.GatewayState{
		Phase:   health.Phase(rapid.IntRange(0, 2).Draw(t, "phase")),
		Op:      pool.Operator(rapid.SampledFrom([]int{0, 0, 0, 0, 0, 1, 2, 3}).Draw(t, "op")),
		HeldAs:  health.Phase(rapid.IntRange(0, 2).Draw(t, "held as")),
		WasDown: rapid.Bool().Draw(t, "was down"),
	}
	if rapid.Bool().Draw(t, "recovered") {
		g.RecoveredAt = noon.Add(-time.Duration(rapid.IntRange(0, 100).Draw(t, "ago")) * time.Second)
	}
	return g
}

func drawPool(t *rapid.T) (pool.Settings, states) {
	s := pool.Settings{Name: "home", Policy: pool.Policy(rapid.IntRange(0, 3).Draw(t, "policy"))}
	st := states{}
	for i := range rapid.OneOf(rapid.IntRange(1, 5), rapid.IntRange(1, 64)).Draw(t, "members") {
		m := pool.Member{Gateway: fmt.Sprint("g", i), Weight: rapid.IntRange(0, 8).Draw(t, "weight")}
		s.Members = append(s.Members, m)
		st[m.Gateway] = drawState(t)
	}
	return s, st
}

// TestPickProperties: as dials fail, Pick goes through all members that may be
// picked, each once, never from a worse tier while a better one has some left.
func TestPickProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, st := drawPool(t)
		v := derive(s, st)
		q := pool.Query{
			Key: rapid.Uint64().Draw(t, "key"), Turn: rapid.Uint64().Draw(t, "turn"),
			Now: noon.Add(time.Duration(rapid.IntRange(-5, 15).Draw(t, "later")) * time.Second),
		}
		if rapid.Bool().Draw(t, "loads") {
			q.Load = func(m int) int64 { return int64(m*7919) % 13 }
		}
		tier, picks, want := int8(0), 0, 0
		for _, g := range st {
			if g.Op != pool.Drain && g.Op != pool.Disabled {
				want++
			}
		}
		for {
			i, ok := v.Pick(q)
			if !ok {
				break
			}
			again, _ := v.Pick(q)
			m := v.Members[i]
			switch op := st[m.Gateway].Op; {
			case again != i:
				t.Fatalf("the same query gave %d, then %d", i, again)
			case q.Tried>>i&1 == 1:
				t.Fatalf("%s was tried", m.Gateway)
			case op == pool.Drain || op == pool.Disabled:
				t.Fatalf("%s is %s", m.Gateway, op)
			case m.Tier < tier:
				t.Fatalf("%s of tier %d came after tier %d", m.Gateway, m.Tier, tier)
			}
			tier = m.Tier
			q.Tried |= 1 << i
			picks++
		}
		if picks != want {
			t.Fatalf("picked %d, want %d", picks, want)
		}
	})
}

// TestRolesAgreeWithPick: who is said to be serving is who is picked.
func TestRolesAgreeWithPick(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, st := drawPool(t)
		v := derive(s, st)
		i, ok := v.Pick(pool.Query{Turn: rapid.Uint64().Draw(t, "turn"), Key: rapid.Uint64().Draw(t, "key")})
		if !ok {
			return
		}
		m := v.Members[i]
		if m.Role != pool.RoleServing && m.Role != pool.RoleDown {
			t.Fatalf("picked %s, which is %s: %s", m.Gateway, m.Role, m.Reason)
		}
		for _, o := range v.Members {
			if o.Role == pool.RoleServing && o.Tier != m.Tier {
				t.Fatalf("%s of tier %d is serving, and %s of tier %d is picked", o.Gateway, o.Tier, m.Gateway, m.Tier)
			}
			if o.Reason == "" {
				t.Fatalf("%s has no reason", o.Gateway)
			}
		}
	})
}

// TestRendezvous: when a member leaves, its keys move and no others; when it
// returns, they come back. Its share is that of its weight.
func TestRendezvous(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 8).Draw(t, "members")
		s := pool.Settings{Name: "home", Policy: pool.IPHash}
		st := states{}
		equal := rapid.Bool().Draw(t, "equal")
		total := 0
		for i := range n {
			m := pool.Member{Gateway: fmt.Sprint("g", i), Weight: 1}
			if !equal {
				m.Weight = rapid.IntRange(1, 9).Draw(t, "weight")
			}
			total += m.Weight
			s.Members = append(s.Members, m)
			st[m.Gateway] = alive()
		}
		gone := rapid.IntRange(0, n-1).Draw(t, "gone")
		before := derive(s, st)
		st[s.Members[gone].Gateway] = down("")
		after := derive(s, st)
		const keys = 4000
		moved := 0
		first := rapid.Uint64().Draw(t, "first key")
		for k := range uint64(keys) {
			was, _ := before.Pick(pool.Query{Key: first + k})
			is, _ := after.Pick(pool.Query{Key: first + k})
			if was != gone && is != was {
				t.Fatalf("key %d moved from %d to %d, and %d left", k, was, is, gone)
			}
			if was == gone {
				moved++
			}
		}
		share := float64(s.Members[gone].Weight) / float64(total)
		if slack := 6 * math.Sqrt(share*(1-share)*keys); math.Abs(float64(moved)-share*keys) > slack {
			t.Fatalf("%d of %d keys moved, want about %.0f", moved, keys, share*keys)
		}
	})
}

// TestWeightsHonoured over many turns, with connections that stay open.
func TestWeightsHonoured(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := pool.Settings{Name: "home", Policy: rapid.SampledFrom([]pool.Policy{pool.RoundRobin, pool.LeastConn}).Draw(t, "policy")}
		st := states{}
		total := 0
		for i := range rapid.IntRange(1, 6).Draw(t, "members") {
			m := pool.Member{Gateway: fmt.Sprint("g", i), Weight: rapid.IntRange(1, 256).Draw(t, "weight")}
			total += m.Weight
			s.Members = append(s.Members, m)
			st[m.Gateway] = alive()
		}
		const n = 6000
		for i, got := range shares(derive(s, st), pool.Query{Turn: rapid.Uint64Range(0, 1<<60).Draw(t, "turn")}, n) {
			want := float64(s.Members[i].Weight) / float64(total)
			if math.Abs(got-want)*n > 6 { // six connections of six thousand
				t.Fatalf("%d has %.4f, want %.4f", i, got, want)
			}
		}
	})
}

// TestOracle plays random histories through the health machine and compares
// failover's choice with the words of the rules.
func TestOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		policy := health.Policy{CheckLevel: health.Answer}
		s := settings(pool.Failover, "a", "b", "c", "d")
		s.Failback = 20 * time.Second
		hs := make(map[string]health.State)
		now := noon
		for range rapid.IntRange(1, 120).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.SampledFrom([]int{10, 250, 250, 2000, 7000}).Draw(t, "ms")) * time.Millisecond)
			g := s.Members[rapid.IntRange(0, 3).Draw(t, "gateway")].Gateway
			for name := range hs {
				hs[name], _ = health.Next(policy, hs[name], now, health.Tick{})
			}
			for range rapid.IntRange(1, 3).Draw(t, "times") {
				now = now.Add(300 * time.Millisecond)
				hs[g], _ = health.Next(policy, hs[g], now, health.Observed{Evidence: health.Evidence{
					Value: health.Value(rapid.IntRange(0, 2).Draw(t, "value")), Firm: true,
					Level: health.Level(rapid.IntRange(1, 2).Draw(t, "level")),
				}})
			}
			v, _ := pool.Derive(s, func(g string) pool.GatewayState { return pool.From(hs[g], pool.Ready, 0) }, pool.Marks{}, now)
			got, ok := v.Pick(pool.Query{})
			if want := oracle(s, hs, now); !ok || got != want {
				t.Fatalf("picked %d, the rules say %d: %+v", got, want, v.Members)
			}
		}
	})
}

// oracle says in other words what failover chooses.
func oracle(s pool.Settings, hs map[string]health.State, now time.Time) int {
	cooled := func(h health.State) bool {
		return h.RecoveredAt.IsZero() || now.Sub(h.RecoveredAt) >= s.Failback
	}
	for _, fit := range []func(health.State) bool{
		func(h health.State) bool { return h.Phase == health.Alive && cooled(h) },
		func(h health.State) bool { return h.Phase == health.Alive },
		func(h health.State) bool { return h.Phase == health.Unknown && h.DownAt.IsZero() },
		func(health.State) bool { return true },
	} {
		for i, m := range s.Members {
			if fit(hs[m.Gateway]) {
				return i
			}
		}
	}
	return -1
}

func TestHashAddrSpreads(t *testing.T) {
	v := derive(settings(pool.IPHash, "a", "b"), states{"a": alive(), "b": alive()})
	for bit := range 32 { // each bit of an address must matter
		diff := 0
		for i := range uint32(1000) {
			x := i * 2654435761
			diff += pickAddr(v, x) ^ pickAddr(v, x^1<<bit)
		}
		if diff < 400 || diff > 600 {
			t.Errorf("bit %d: %d of 1000 addresses moved", bit, diff)
		}
	}
}
