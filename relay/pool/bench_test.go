package pool_test

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/edgeward/edgeward/relay/pool"
)

func pickAddr(v *pool.View, ipv4 uint32) int {
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], ipv4)
	i, _ := v.Pick(pool.Query{Key: pool.HashAddr(netip.AddrFrom4(b))})
	return i
}

func sized(p pool.Policy, n int, weight func(i int) int) (pool.Settings, states) {
	s, st := pool.Settings{Name: "home", Policy: p}, states{}
	for i := range n {
		m := pool.Member{Gateway: fmt.Sprint("gateway-", i), Weight: weight(i)}
		s.Members = append(s.Members, m)
		st[m.Gateway] = alive()
	}
	return s, st
}

func equalWeights(int) int { return 1 }

// TestPickDoesNotAllocate, in slow start neither.
func TestPickDoesNotAllocate(t *testing.T) {
	for policy := range pool.IPHash + 1 {
		s, st := sized(policy, 50, func(i int) int { return i%5 + 1 })
		st["gateway-3"] = back(time.Minute)
		v := derive(s, st)
		q := pool.Query{Now: noon, Load: func(m int) int64 { return int64(m) }}
		if n := testing.AllocsPerRun(1000, func() { q.Turn++; q.Key++; v.Pick(q) }); n > 0 {
			t.Errorf("%s allocates %v times", policy, n)
		}
	}
}

func BenchmarkPick(b *testing.B) {
	for policy := range pool.IPHash + 1 {
		for _, n := range []int{2, 50} {
			b.Run(fmt.Sprintf("%s/%d", policy, n), func(b *testing.B) { benchmarkPick(b, policy, n, equalWeights) })
		}
	}
	b.Run("ip_hash_weighted/50", func(b *testing.B) {
		benchmarkPick(b, pool.IPHash, 50, func(i int) int { return i + 1 })
	})
}

func benchmarkPick(b *testing.B, policy pool.Policy, n int, weight func(int) int) {
	s, st := sized(policy, n, weight)
	v := derive(s, st)
	loads := make([]int64, n)
	q := pool.Query{Now: noon, Load: func(m int) int64 { return loads[m] }}
	b.ReportAllocs()
	for b.Loop() {
		q.Turn++
		q.Key++
		if _, ok := v.Pick(q); !ok {
			b.Fatal("nothing picked")
		}
	}
}

func BenchmarkDerive(b *testing.B) {
	for _, n := range []int{2, 50} {
		b.Run(fmt.Sprint(n), func(b *testing.B) { benchmarkDerive(b, n, equalWeights) })
	}
	b.Run("50_weighted", func(b *testing.B) {
		benchmarkDerive(b, 50, func(i int) int { return 256 - i })
	})
}

func benchmarkDerive(b *testing.B, n int, weight func(int) int) {
	s, st := sized(pool.RoundRobin, n, weight)
	b.ReportAllocs()
	for b.Loop() {
		pool.Derive(s, st.of, pool.Marks{}, noon)
	}
}
