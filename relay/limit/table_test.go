package limit_test

import (
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/edgeward/edgeward/relay/limit"
)

const second = int64(time.Second)

func newTable(tb testing.TB, s limit.Settings) *limit.Table {
	tb.Helper()
	table, err := limit.New(s)
	if err != nil {
		tb.Fatal(err)
	}
	return table
}

func addr(s string) netip.Addr { return netip.MustParseAddr(s) }

func TestAcquire(t *testing.T) {
	type ask struct {
		at   int64
		src  string
		want limit.Reason
	}
	for _, tc := range []struct {
		name     string
		settings limit.Settings
		asks     []ask // nothing is released
	}{
		{"no limits", limit.Settings{}, []ask{{0, "192.0.2.1", limit.OK}, {0, "192.0.2.1", limit.OK}}},
		{"per source", limit.Settings{PerSource: 1}, []ask{
			{0, "192.0.2.1", limit.OK}, {0, "192.0.2.1", limit.SourceConns}, {0, "192.0.2.2", limit.OK},
		}},
		{"mapped is IPv4", limit.Settings{PerSource: 1}, []ask{
			{0, "192.0.2.1", limit.OK}, {0, "::ffff:192.0.2.1", limit.SourceConns},
		}},
		{"IPv6 by /64", limit.Settings{PerSource: 1}, []ask{
			{0, "2001:db8::1", limit.OK}, {0, "2001:db8::ffff:2", limit.SourceConns}, {0, "2001:db8:0:1::1", limit.OK},
		}},
		{"zones are dropped", limit.Settings{PerSource: 1, PrefixV6: 128}, []ask{
			{0, "fe80::1%a", limit.OK}, {0, "fe80::1%b", limit.SourceConns}, {0, "fe80::2", limit.OK},
		}},
		{"IPv4 by /24", limit.Settings{PerSource: 1, PrefixV4: 24}, []ask{
			{0, "192.0.2.1", limit.OK}, {0, "192.0.2.9", limit.SourceConns}, {0, "192.0.3.1", limit.OK},
		}},
		{"total", limit.Settings{Total: 1}, []ask{{0, "192.0.2.1", limit.OK}, {0, "192.0.2.2", limit.TotalConns}}},
		{"rate with burst", limit.Settings{Rate: 1, Burst: 2}, []ask{
			{0, "192.0.2.1", limit.OK},
			{0, "192.0.2.1", limit.OK},
			{0, "192.0.2.1", limit.SourceRate},
			{second - 1, "192.0.2.1", limit.SourceRate},
			{second, "192.0.2.1", limit.OK},
			{second, "192.0.2.1", limit.SourceRate},
		}},
		{"burst is two seconds' worth", limit.Settings{Rate: 1}, []ask{
			{0, "192.0.2.1", limit.OK}, {0, "192.0.2.1", limit.OK}, {0, "192.0.2.1", limit.SourceRate},
		}},
		{"burst is at least one", limit.Settings{Rate: 0.1}, []ask{
			{0, "192.0.2.1", limit.OK}, {9 * second, "192.0.2.1", limit.SourceRate}, {10 * second, "192.0.2.1", limit.OK},
		}},
		{"total rate", limit.Settings{TotalRate: 1, TotalBurst: 1}, []ask{
			{0, "192.0.2.1", limit.OK}, {0, "192.0.2.2", limit.TotalRate}, {second, "192.0.2.2", limit.OK},
		}},
		{"refused by the source, total untouched", limit.Settings{PerSource: 1, TotalRate: 1, TotalBurst: 2}, []ask{
			{0, "192.0.2.1", limit.OK}, {0, "192.0.2.1", limit.SourceConns}, {0, "192.0.2.2", limit.OK},
		}},
		{"refused by the total, source untouched", limit.Settings{Rate: 1, Burst: 2, TotalRate: 100, TotalBurst: 1}, []ask{
			{0, "192.0.2.1", limit.OK}, {0, "192.0.2.1", limit.TotalRate}, {second / 100, "192.0.2.1", limit.OK},
		}},
		{"clock going back", limit.Settings{Rate: 1, Burst: 1}, []ask{
			{900 * second, "192.0.2.1", limit.OK}, {0, "192.0.2.1", limit.SourceRate}, {second, "192.0.2.1", limit.OK},
		}},
		{"allowed", limit.Settings{PerSource: 1, Total: 3, Allow: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}, []ask{
			{0, "10.1.1.1", limit.OK}, {0, "10.1.1.1", limit.OK}, {0, "::ffff:10.1.1.1", limit.OK}, {0, "10.1.1.1", limit.TotalConns},
		}},
		{"denied", limit.Settings{
			Allow: []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0")},
			Deny:  []netip.Prefix{netip.MustParsePrefix("::ffff:10.0.0.0/104"), netip.MustParsePrefix("2001:db8::/32")},
		}, []ask{
			{0, "10.1.1.1", limit.Denied}, {0, "11.1.1.1", limit.OK}, {0, "2001:db8:1::", limit.Denied}, {0, "2001:db9::", limit.OK},
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			table := newTable(t, tc.settings)
			for i, a := range tc.asks {
				if _, got := table.Acquire(addr(a.src), a.at); got != a.want {
					t.Errorf("ask %d, %s: %q, want %q", i, a.src, got, a.want)
				}
			}
		})
	}
}

func TestReleaseOnce(t *testing.T) {
	table := newTable(t, limit.Settings{PerSource: 2, Total: 2})
	a, _ := table.Acquire(addr("192.0.2.1"), 0)
	b, _ := table.Acquire(addr("192.0.2.1"), 0)
	refused, reason := table.Acquire(addr("192.0.2.1"), 0)
	if reason != limit.SourceConns {
		t.Error(reason)
	}
	for range 2 {
		a.Release()
		refused.Release()
	}
	if got := table.Stats().Open; got != 1 {
		t.Errorf("%d open, want 1", got)
	}
	b.Release()
	if got := table.Top(9); len(got) != 1 || got[0].Open != 0 || got[0].Refused != 1 {
		t.Errorf("top %v", got)
	}
}

func TestAddSource(t *testing.T) {
	src := addr("192.0.2.1")
	table := newTable(t, limit.Settings{PerSource: 1, Total: 3})
	first, _ := table.AcquireTotal(0)
	second, _ := table.AcquireTotal(0)
	third, _ := table.AcquireTotal(0)
	if _, reason := table.AcquireTotal(0); reason != limit.TotalConns {
		t.Errorf("fourth: %q", reason)
	}
	for range 2 { // the second time changes nothing
		if reason := table.AddSource(&first, src, 0); reason != limit.OK {
			t.Errorf("first: %q", reason)
		}
	}
	if reason := table.AddSource(&second, src, 0); reason != limit.SourceConns {
		t.Errorf("second: %q", reason)
	}
	if reason := table.AddSource(&third, netip.Addr{}, 0); reason != limit.OK {
		t.Errorf("without address: %q", reason)
	}
	first.Release()
	if reason := table.AddSource(&second, src, 0); reason != limit.OK {
		t.Errorf("second, later: %q", reason)
	}
	second.Release()
	third.Release()
	if got := table.Stats(); got.Open != 0 || got.Untracked != 1 {
		t.Errorf("stats %+v", got)
	}
}

func TestEviction(t *testing.T) {
	table := newTable(t, limit.Settings{Table: 2, Rate: 1, Burst: 1})
	a, _ := table.Acquire(addr("192.0.2.1"), 0)
	b, _ := table.Acquire(addr("192.0.2.2"), 0)
	untracked, reason := table.Acquire(addr("192.0.2.3"), 0)
	if got := table.Stats(); reason != limit.OK || got.Untracked != 1 || got.Evictions != 0 || got.Sources != 2 {
		t.Errorf("full of open connections: %q, %+v", reason, got)
	}
	a.Release()
	b.Release()
	untracked.Release()
	if _, reason := table.Acquire(addr("192.0.2.1"), 0); reason != limit.SourceRate {
		t.Errorf("remembered source: %q", reason)
	}
	table.Acquire(addr("192.0.2.4"), 0) // takes the place of .2: .1 was just refused
	if _, reason := table.Acquire(addr("192.0.2.1"), 0); reason != limit.SourceRate {
		t.Errorf("source kept: %q", reason)
	}
	if _, reason := table.Acquire(addr("192.0.2.2"), 0); reason != limit.OK {
		t.Errorf("source forgotten: %q", reason)
	}
	if got := table.Stats(); got.Evictions != 2 || got.Sources != 2 {
		t.Errorf("%+v", got)
	}
}

func TestConfigure(t *testing.T) {
	src, v6 := addr("192.0.2.1"), addr("2001:db8::1")
	table := newTable(t, limit.Settings{PerSource: 2, Rate: 1, Burst: 5})
	var leases []limit.Lease
	for _, a := range []netip.Addr{src, src, v6} {
		lease, _ := table.Acquire(a, 0)
		leases = append(leases, lease)
	}
	configure := func(s limit.Settings) {
		t.Helper()
		if err := table.Configure(s); err != nil {
			t.Fatal(err)
		}
	}
	configure(limit.Settings{PerSource: 3, Rate: 1, Burst: 2, Table: 1})
	if _, reason := table.Acquire(src, 0); reason != limit.SourceRate {
		t.Errorf("bucket kept: %q", reason)
	}
	configure(limit.Settings{PerSource: 1, Table: 100_000})
	if _, reason := table.Acquire(src, 0); reason != limit.SourceConns {
		t.Errorf("open connections kept: %q", reason)
	}
	configure(limit.Settings{PerSource: 1, Table: 1, PrefixV4: 24})
	want := []limit.Source{{Prefix: netip.MustParsePrefix("2001:db8::/64"), Open: 1}}
	if diff := cmp.Diff(want, table.Top(9), cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })); diff != "" {
		t.Errorf("top after a new prefix (-want +got):\n%s", diff)
	}
	for i := range leases {
		leases[i].Release()
	}
	lease, reason := table.Acquire(addr("192.0.2.77"), 0)
	if got := table.Stats(); reason != limit.OK || got.Open != 1 || got.Sources != 1 {
		t.Errorf("%q, %+v", reason, got)
	}
	lease.Release()
	if err := table.Configure(limit.Settings{Total: -1}); err == nil {
		t.Error("bad settings accepted")
	}
}

func TestValidate(t *testing.T) {
	for name, s := range map[string]limit.Settings{
		"per_source -1":  {PerSource: -1},
		"rate -1":        {Rate: -1},
		"rate 1e-08":     {Rate: 1e-8},
		"burst 3":        {Burst: 3},
		"burst -1":       {Rate: 1, Burst: -1},
		"total -1":       {Total: -1},
		"total_rate":     {TotalRate: 1e10},
		"total_burst -2": {TotalRate: 1, TotalBurst: -2},
		"prefix_v4 33":   {PrefixV4: 33},
		"prefix_v6 129":  {PrefixV6: 129},
		"table -1":       {Table: -1},
		"allow":          {Allow: []netip.Prefix{{}}},
		"deny":           {Deny: []netip.Prefix{{}}},
	} {
		_, err := limit.New(s)
		if err == nil || !strings.HasPrefix(err.Error(), name) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

func TestConcurrent(t *testing.T) {
	settings := limit.Settings{PerSource: 3, Rate: 1e6, Total: 20, Table: 8}
	table := newTable(t, settings)
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 2000 {
				lease, _ := table.Acquire(netip.AddrFrom4([4]byte{10, 0, 0, byte(i * g)}), int64(i))
				late, _ := table.AcquireTotal(int64(i))
				table.AddSource(&late, netip.AddrFrom4([4]byte{10, 0, 0, byte(i)}), int64(i))
				if i%500 == 0 {
					changed := settings
					changed.Table, changed.PrefixV4 = 4+g, 24+g
					if err := table.Configure(changed); err != nil {
						t.Error(err)
					}
					table.Top(3)
				}
				lease.Release()
				late.Release()
			}
		})
	}
	wg.Wait()
	for _, s := range table.Top(100) {
		if s.Open != 0 {
			t.Errorf("%v left open", s)
		}
	}
	if got := table.Stats(); got.Open != 0 {
		t.Errorf("%+v", got)
	}
}
