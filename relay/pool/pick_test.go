package pool_test

import (
	"math"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/edgeward/edgeward/relay/pool"
)

func TestRoundRobinInterleaves(t *testing.T) {
	s := settings(pool.RoundRobin, "a", "b", "c")
	s.Members[0].Weight, s.Members[1].Weight, s.Members[2].Weight = 20, 4, 4
	v := derive(s, states{"a": alive(), "b": alive(), "c": alive()})
	var got strings.Builder
	for turn := range uint64(14) {
		i, _ := v.Pick(pool.Query{Turn: turn})
		got.WriteString(v.Members[i].Gateway)
	}
	if want := "aabacaaaabacaa"; got.String() != want {
		t.Errorf("turns are %s, want %s", got.String(), want)
	}
}

func TestSlowStart(t *testing.T) {
	for _, policy := range []pool.Policy{pool.RoundRobin, pool.LeastConn} {
		t.Run(policy.String(), func(t *testing.T) {
			st := states{"a": back(time.Minute), "b": alive()} // a's cooldown ends at noon
			v := derive(settings(policy, "a", "b"), st)
			for _, tc := range []struct {
				into  time.Duration
				share float64 // of all connections, if b has a share of 1
			}{
				{0, 0.1 / 1.1},
				{5 * time.Second, 0.5 / 1.5},
				{10 * time.Second, 0.5},
			} {
				got := shares(v, pool.Query{Now: noon.Add(tc.into)}, 20_000)[0]
				want := tc.share
				if policy == pool.RoundRobin { // what a passes on, b takes: r/2
					want = max(0.1, float64(tc.into)/float64(10*time.Second)) / 2
				}
				if math.Abs(got-want) > 0.02 {
					t.Errorf("after %s a has %.3f, want %.3f", tc.into, got, want)
				}
			}
			if got := tryAll(v, pool.Query{Now: noon}); len(got) != 2 {
				t.Errorf("tried %q: a ramp must not hide a member", got)
			}
		})
	}
}

// TestSlowStartOfAll: members that all pass their turns on are still tried
// once each, whatever the dice say.
func TestSlowStartOfAll(t *testing.T) {
	a := back(time.Minute)
	v := derive(settings(pool.RoundRobin, "a", "b", "c"), states{"a": a, "b": a, "c": a})
	for turn := range uint64(100) {
		q := pool.Query{Turn: turn, Now: noon}
		for range 3 {
			i, ok := v.Pick(q)
			if !ok || q.Tried>>i&1 == 1 {
				t.Fatalf("turn %d: picked %d, %t, with %b tried", turn, i, ok, q.Tried)
			}
			q.Tried |= 1 << i
		}
	}
}

// shares opens n connections that stay open and returns each member's part.
func shares(v *pool.View, q pool.Query, n int) []float64 {
	counts := make([]int64, len(v.Members))
	q.Load = func(m int) int64 { return counts[m] }
	for range n {
		q.Turn++
		i, _ := v.Pick(q)
		counts[i]++
	}
	parts := make([]float64, len(counts))
	for i, c := range counts {
		parts[i] = float64(c) / float64(n)
	}
	return parts
}

func TestHashAddr(t *testing.T) {
	same := [][2]string{
		{"192.0.2.1", "::ffff:192.0.2.1"},
		{"2001:db8:1:2::1", "2001:db8:1:2:ffff:ffff:ffff:ffff"},
		{"fe80::1%eth0", "fe80::1"},
	}
	for _, p := range same {
		if pool.HashAddr(netip.MustParseAddr(p[0])) != pool.HashAddr(netip.MustParseAddr(p[1])) {
			t.Errorf("%s and %s differ", p[0], p[1])
		}
	}
	seen := map[uint64]string{}
	for _, a := range []string{"192.0.2.1", "192.0.2.2", "1.192.0.2", "2001:db8:1:2::1", "2001:db8:1:3::1", "::1", "0.0.0.1"} {
		h := pool.HashAddr(netip.MustParseAddr(a))
		if seen[h] != "" {
			t.Errorf("%s and %s collide", a, seen[h])
		}
		seen[h] = a
	}
	pool.HashAddr(netip.Addr{}) // any value will do
}
