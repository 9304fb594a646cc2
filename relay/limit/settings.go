package limit

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"net/netip"
)

// Defaults of Settings.
const (
	DefaultPrefixV4 = 32
	DefaultPrefixV6 = 64    // what one customer usually gets, RFC 6177
	DefaultTable    = 65536 // about 4 MiB
)

// maxTable keeps a typing error from taking all memory: 16 Mi sources, about 1 GiB.
const maxTable = 1 << 24

// maxRefill keeps times within 64 bits: how long a bucket may take to refill.
const maxRefill = 365 * 24 * 3600 // seconds

// Settings are the limits. The zero value limits nothing.
type Settings struct {
	// PerSource is how many connections one source may have open. Default: 0,
	// no limit.
	PerSource int
	// Rate is how many new connections per second one source may open in the
	// long run. Default: 0, no limit.
	Rate float64
	// Burst is how many connections a source may open at once after a pause.
	// Default: what Rate allows in two seconds, at least 1 (uncalibrated: a
	// browser opens about six at once). Means nothing without Rate.
	Burst int
	// Total is how many connections all sources together may have open.
	// Default: 0, no limit.
	Total int
	// TotalRate is Rate for all sources together. Default: 0, no limit.
	TotalRate float64
	// TotalBurst is Burst for all sources together, with the same default
	// from TotalRate.
	TotalBurst int
	// PrefixV4 is how many leading bits make an IPv4 source. Default: 32.
	PrefixV4 int
	// PrefixV6 is how many leading bits make an IPv6 source. Default: 64.
	// With more, one customer counts as many sources.
	PrefixV6 int
	// Table is how many sources are remembered. Default: 65536, about 4 MiB.
	// Choose it no smaller than Total.
	Table int
	// Allow lists sources that are never limited on their own; they still
	// count in the total. Default: none.
	Allow []netip.Prefix
	// Deny lists sources that are refused at once, even if Allow has them too.
	// Default: none.
	Deny []netip.Prefix
}

// Validate returns all that is wrong, naming each setting as in a Caddyfile.
func (s Settings) Validate() error {
	return errors.Join(
		checkRange("per_source", s.PerSource, math.MaxInt32),
		checkRange("total", s.Total, math.MaxInt32),
		checkRange("prefix_v4", s.PrefixV4, 32),
		checkRange("prefix_v6", s.PrefixV6, 128),
		checkRange("table", s.Table, maxTable),
		checkRate("rate", "burst", s.Rate, s.Burst),
		checkRate("total_rate", "total_burst", s.TotalRate, s.TotalBurst),
		checkPrefixes("allow", s.Allow),
		checkPrefixes("deny", s.Deny),
	)
}

func checkRange(name string, n, most int) error {
	if n < 0 || n > most {
		return fmt.Errorf("%s %d: must be from 0 to %d", name, n, most)
	}
	return nil
}

func checkRate(rateName, burstName string, rate float64, burst int) error {
	if !(rate >= 0 && rate <= 1e9) { // false for NaN
		return fmt.Errorf("%s %v: must be from 0 to 1e9 per second", rateName, rate)
	}
	if err := checkRange(burstName, burst, math.MaxInt32); err != nil {
		return err
	}
	if rate == 0 {
		if burst > 0 {
			return fmt.Errorf("%s %d: means nothing without %s", burstName, burst, rateName)
		}
		return nil
	}
	if float64(max(burst, 1))/rate > maxRefill {
		return fmt.Errorf("%s %v: %s takes more than a year to refill", rateName, rate, burstName)
	}
	return nil
}

func checkPrefixes(name string, prefixes []netip.Prefix) error {
	for _, p := range prefixes {
		if !p.IsValid() {
			return fmt.Errorf("%s: %v is not a valid prefix", name, p)
		}
	}
	return nil
}

// rules are settings made ready for use.
type rules struct {
	perSource, total int32 // MaxInt32 means no limit
	perSourceRate    rate
	totalRate        rate
	prefixV4         int
	prefixV6         int
	table            int
	allow, deny      prefixSet
}

func compile(s Settings) rules {
	noLimit := int32(math.MaxInt32)
	return rules{
		perSource:     cmp.Or(int32(s.PerSource), noLimit),
		total:         cmp.Or(int32(s.Total), noLimit),
		perSourceRate: newRate(s.Rate, s.Burst),
		totalRate:     newRate(s.TotalRate, s.TotalBurst),
		prefixV4:      cmp.Or(s.PrefixV4, DefaultPrefixV4),
		prefixV6:      cmp.Or(s.PrefixV6, DefaultPrefixV6),
		table:         cmp.Or(s.Table, DefaultTable),
		allow:         newPrefixSet(s.Allow),
		deny:          newPrefixSet(s.Deny),
	}
}
