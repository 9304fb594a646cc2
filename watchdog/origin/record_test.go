package origin_test

import (
	"net/netip"
	"testing"

	"github.com/edgeward/edgeward/internal/fakecloudflare"
	"github.com/edgeward/edgeward/watchdog/origin"
	"github.com/edgeward/edgeward/watchdog/records"
	"github.com/edgeward/edgeward/watchdog/resolve"
)

func TestFromRecord(t *testing.T) {
	a := func(content string) records.Record {
		return records.Record{Name: "home.example.com", Type: records.A, Content: content, TTL: 60}
	}
	elsewhere := a("9.9.9.11")
	elsewhere.Name = "www.example.com"
	proxied := a("9.9.9.10")
	proxied.Proxied = true
	alias := records.Record{Name: "home.example.com", Type: records.CNAME, Content: "router.example.net"}
	tests := map[string]struct {
		list []records.Record
		want string
	}{
		"one":        {[]records.Record{elsewhere, a("9.9.9.10")}, "9.9.9.10"},
		"none":       {[]records.Record{elsewhere}, "0 A records"},
		"two":        {[]records.Record{a("9.9.9.10"), a("9.9.9.11")}, "2 A records"},
		"proxied":    {[]records.Record{proxied}, "make it DNS only"},
		"alias":      {[]records.Record{alias}, "is an alias"},
		"private":    {[]records.Record{a("192.168.1.1")}, "private"},
		"Cloudflare": {[]records.Record{a("104.16.0.1")}, "Cloudflare's"},
		"the relay":  {[]records.Record{a("9.9.9.77")}, "another path's address"},
		"junk":       {[]records.Record{a("nine")}, "no such address"},
		"IPv6 in A":  {[]records.Record{a("2600::10")}, "no such address"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			o := origin.FromRecord(test.list, "HOME.example.com.", rules)
			judge(t, o.V4, test.want)
			if o.V4.Addr.IsValid() && o.V4.Record != "home.example.com" {
				t.Errorf("%+v", o.V4)
			}
		})
	}
	aaaa := records.Record{Name: "home.example.com", Type: records.AAAA, Content: "2600::10"}
	o := origin.FromRecord([]records.Record{a("9.9.9.10"), aaaa}, "home.example.com", rules)
	judge(t, o.V4, "9.9.9.10")
	judge(t, o.V6, "2600::10")
}

func TestFollower(t *testing.T) {
	lie := func(list ...netip.Addr) fakecloudflare.Resolution { return fakecloudflare.Resolution{Lie: list} }
	failing := fakecloudflare.Resolution{Rcode: 2}
	tests := map[string]struct {
		one, two fakecloudflare.Resolution
		want     string
	}{
		"both":        {lie(home4), lie(home4), "9.9.9.10"},
		"disagree":    {lie(home4), lie(other4), "disagree"},
		"one only":    {lie(home4), failing, "only resolver0 answered"},
		"none":        {failing, failing, "looking up home.example.com"},
		"no name":     {fakecloudflare.Resolution{Rcode: 3}, fakecloudflare.Resolution{Rcode: 3}, "looking up home.example.com"},
		"one has not": {lie(home4), fakecloudflare.Resolution{Rcode: 3}, "disagree"},
		"two":         {lie(home4, other4), lie(home4, other4), "2 A records"},
		"proxied":     {lie(netip.MustParseAddr("104.16.0.1")), lie(netip.MustParseAddr("104.16.0.1")), "Cloudflare's"},
		"the relay":   {lie(relay4), lie(relay4), "another path's address"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dns := fakecloudflare.New(t, fakecloudflare.Config{})
			dns.Resolver(0).Set(test.one)
			dns.Resolver(1).Set(test.two)
			f := &origin.Follower{Name: "home.example.com", Resolvers: resolvers(dns), Families: []resolve.Family{resolve.IPv4}, Rules: rules}
			o := f.Look(t.Context())
			judge(t, o.V4, test.want)
			if len(o.V4.Said) != 2 {
				t.Errorf("%+v", o.V4)
			}
		})
	}
}
