package limit_test

import (
	"encoding/binary"
	"net/netip"
	"runtime"
	"testing"

	"github.com/edgeward/edgeward/relay/limit"
)

// nth returns a different source for every n.
func nth(n int) netip.Addr {
	var b [16]byte
	b[0] = 0x20
	binary.BigEndian.PutUint32(b[4:], uint32(n))
	return netip.AddrFrom16(b)
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func TestFloodStaysWithinBounds(t *testing.T) {
	const flood, size = 1_000_000, 65536
	before := heap()
	table := newTable(t, limit.Settings{PerSource: 10, Rate: 1, Total: 1000})
	stays, _ := table.Acquire(addr("192.0.2.1"), 0)
	for i := range flood {
		lease, reason := table.Acquire(nth(i), int64(i))
		if reason != limit.OK {
			t.Fatalf("source %d: %q", i, reason)
		}
		lease.Release()
	}
	got := table.Stats()
	if got.Sources != size || got.Evictions != flood+1-size || got.Untracked != 0 {
		t.Errorf("%+v", got)
	}
	if grown := int64(heap()) - int64(before); grown > 5<<20 {
		t.Errorf("the table takes %d bytes", grown)
	}
	if top := table.Top(1); len(top) != 1 || top[0].Prefix.Addr() != addr("192.0.2.1") {
		t.Errorf("the source with a connection: %v", top)
	}
	stays.Release()
}

func TestSteadyStateAllocatesNothing(t *testing.T) {
	table := newTable(t, limit.Settings{
		PerSource: 10, Rate: 100, Total: 100, TotalRate: 1e6,
		Allow: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")},
	})
	sources := []netip.Addr{addr("192.0.2.1"), addr("2001:db8::1"), addr("10.0.0.1")}
	now := int64(0)
	got := testing.AllocsPerRun(1000, func() {
		for _, src := range sources {
			now += second
			lease, _ := table.Acquire(src, now)
			lease.Release()
			late, _ := table.AcquireTotal(now)
			table.AddSource(&late, src, now)
			late.Release()
		}
	})
	if got > 0 {
		t.Errorf("%v allocations", got)
	}
}

func BenchmarkAcquireRelease(b *testing.B) {
	settings := limit.Settings{PerSource: 100, Rate: 1e6, Total: 2048, TotalRate: 1e9}
	for name, sources := range map[string]int{"hot": 16, "remembered": 50_000, "flood": 1 << 30} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			table := newTable(b, settings)
			for n := range 200_000 { // reach the steady state
				lease, _ := table.Acquire(nth(n%sources), int64(n)*1000)
				lease.Release()
			}
			n := 200_000
			for b.Loop() {
				n++
				lease, _ := table.Acquire(nth(n%sources), int64(n)*1000)
				lease.Release()
			}
		})
	}
	b.Run("refused", func(b *testing.B) {
		b.ReportAllocs()
		table := newTable(b, limit.Settings{PerSource: 1})
		table.Acquire(nth(1), 0)
		for b.Loop() {
			table.Acquire(nth(1), 0)
		}
	})
	b.Run("parallel", func(b *testing.B) {
		b.ReportAllocs()
		table := newTable(b, settings)
		b.RunParallel(func(pb *testing.PB) {
			for n := 0; pb.Next(); n++ {
				lease, _ := table.Acquire(nth(n%16), int64(n)*1000)
				lease.Release()
			}
		})
	})
}
