package limit_test

import (
	"net/netip"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/edgeward/edgeward/relay/limit"
)

// model is the table written for the eye: a slice in order of use, and buckets
// that leak.
type model struct {
	s       limit.Settings
	open    int
	total   leaky
	sources []*modelSource // least recently used first
}

type modelSource struct {
	addr   netip.Addr
	open   int
	bucket leaky
}

// leaky holds level nanoseconds of debt since at.
type leaky struct{ level, at int64 }

func (b *leaky) leak(now int64) {
	b.level = max(0, b.level-(now-b.at))
	b.at = now
}

func (b *leaky) room(perSecond, burst int, now int64) bool {
	b.leak(now)
	return perSecond == 0 || b.level+second/int64(perSecond) <= int64(burst)*second/int64(perSecond)
}

func (b *leaky) fill(perSecond int) {
	if perSecond > 0 {
		b.level += second / int64(perSecond)
	}
}

func (m *model) find(a netip.Addr) *modelSource {
	i := slices.IndexFunc(m.sources, func(s *modelSource) bool { return s.addr == a })
	if i < 0 {
		return nil
	}
	m.use(m.sources[i])
	return m.sources[len(m.sources)-1]
}

func (m *model) use(s *modelSource) {
	i := slices.Index(m.sources, s)
	m.sources = append(slices.Delete(m.sources, i, i+1), s)
}

func (m *model) acquire(a netip.Addr, now int64) (*modelSource, limit.Reason) {
	s := m.find(a)
	switch {
	case s != nil && m.s.PerSource > 0 && s.open >= m.s.PerSource:
		return nil, limit.SourceConns
	case s != nil && !s.bucket.room(int(m.s.Rate), m.s.Burst, now):
		return nil, limit.SourceRate
	case m.s.Total > 0 && m.open >= m.s.Total:
		return nil, limit.TotalConns
	case !m.total.room(int(m.s.TotalRate), m.s.TotalBurst, now):
		return nil, limit.TotalRate
	}
	m.total.fill(int(m.s.TotalRate))
	m.open++
	if s == nil {
		if s = m.remember(a, now); s == nil {
			return nil, limit.OK
		}
	}
	s.bucket.fill(int(m.s.Rate))
	s.open++
	return s, limit.OK
}

func (m *model) remember(a netip.Addr, now int64) *modelSource {
	if len(m.sources) == m.s.Table {
		i := slices.IndexFunc(m.sources, func(s *modelSource) bool { return s.open == 0 })
		if i < 0 {
			return nil
		}
		m.sources = slices.Delete(m.sources, i, i+1)
	}
	s := &modelSource{addr: a, bucket: leaky{at: now}}
	m.sources = append(m.sources, s)
	return s
}

func (m *model) release(s *modelSource) {
	m.open--
	if s != nil {
		s.open--
		m.use(s)
	}
}

type held struct {
	lease  limit.Lease
	source *modelSource
}

func TestAgreesWithModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := model{s: drawSettings(t)}
		table, err := limit.New(m.s)
		if err != nil {
			t.Fatal(err)
		}
		var now int64
		var leases []held
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			if len(leases) > 0 && rapid.IntRange(0, 2).Draw(t, "release") == 0 {
				i := rapid.IntRange(0, len(leases)-1).Draw(t, "which")
				leases[i].lease.Release()
				m.release(leases[i].source)
				leases = slices.Delete(leases, i, i+1)
			} else {
				now += rapid.SampledFrom([]int64{0, 1, second / 10, second / 2, 3 * second}).Draw(t, "later")
				a := netip.AddrFrom4([4]byte{10, 0, 0, rapid.Byte().Draw(t, "source") % 6})
				lease, got := table.Acquire(a, now)
				source, want := m.acquire(a, now)
				if got != want {
					t.Fatalf("%v at %d: %q, model says %q", a, now, got, want)
				}
				if got == limit.OK {
					leases = append(leases, held{lease, source})
				}
			}
			compare(t, table, &m)
		}
	})
}

func drawSettings(t *rapid.T) limit.Settings {
	small := rapid.IntRange(0, 5)
	s := limit.Settings{
		PerSource: small.Draw(t, "per_source"),
		Rate:      float64(rapid.SampledFrom([]int{0, 1, 2, 5}).Draw(t, "rate")),
		Total:     2 * small.Draw(t, "total"),
		TotalRate: float64(rapid.SampledFrom([]int{0, 2, 10}).Draw(t, "total_rate")),
		Table:     1 + small.Draw(t, "table"),
	}
	if s.Rate > 0 {
		s.Burst = 1 + small.Draw(t, "burst")
	}
	if s.TotalRate > 0 {
		s.TotalBurst = 1 + small.Draw(t, "total_burst")
	}
	return s
}

func compare(t *rapid.T, table *limit.Table, m *model) {
	stats := table.Stats()
	if stats.Open != m.open || stats.Sources != len(m.sources) || stats.Sources > m.s.Table {
		t.Fatalf("%+v, model has %d open and %d sources", stats, m.open, len(m.sources))
	}
	sum := 0
	for _, s := range table.Top(100) {
		sum += s.Open
		i := slices.IndexFunc(m.sources, func(ms *modelSource) bool { return ms.addr == s.Prefix.Addr() })
		if i < 0 || m.sources[i].open != s.Open || s.Open < 0 {
			t.Fatalf("%+v is not what the model has", s)
		}
	}
	if sum > stats.Open || stats.Untracked == 0 && sum != stats.Open {
		t.Fatalf("sources have %d open, all together %d", sum, stats.Open)
	}
}
