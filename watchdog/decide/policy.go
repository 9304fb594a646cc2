package decide

import (
	"cmp"
	"errors"
	"fmt"
	"time"
)

// Policy is how a site is judged. Zero fields mean the defaults of [Fast].
type Policy struct {
	// Paths in order of preference.
	Paths []Path
	// Local: there is a probe of the site inside the home. Paths with NeedsLocal
	// are written only while it is good.
	Local bool
	// Witness4 and Witness6: there are witnesses of our own IPv4 and IPv6
	// connection. Without, a dead uplink looks like dead paths.
	Witness4, Witness6 bool

	// Interval is how often the serving path is probed when all is well.
	// Default: 3s.
	Interval time.Duration
	// Standby is how often everything else is. Default: 30s.
	Standby time.Duration
	// Burst is how far apart probes of a suspicious path start; they overlap.
	// Default: 250ms. Negative: no burst, Interval goes on.
	Burst time.Duration
	// BurstFor bounds a burst; then trouble is watched at Interval. Default: 1m.
	BurstFor time.Duration
	// Failures of the last Window probes make a path failed, if the last one was
	// among them. Default: 7 of 9. A Window of zero with Failures set means all in
	// a row.
	Failures, Window int
	// Tolerance is how many failures among the last Window probes do not break
	// continuous health. Default: 3, or one less than Failures. Negative: none.
	Tolerance int
	// Proof is how long ago a good probe may have begun to justify a write.
	// Default: 5s.
	Proof time.Duration
	// Recovery is how long a better path must be healthy before the way back.
	// Default: 2m. Negative: one good probe.
	Recovery time.Duration
	// Dwell is the least time between a move and a move back. Default: 5m.
	// Negative: none.
	Dwell time.Duration
	// Budget is how many moves of the last hour close the way back. Leaving a dead
	// path does not ask it. Default: 6. Negative: no limit.
	Budget int
	// Gap is how long nothing may be heard before what was counted is forgotten; for
	// probes of one kind it is twice Standby, if that is more. Default: twice
	// Interval.
	Gap time.Duration
	// WithdrawAAAA: in a total outage the AAAA records are taken out, so that
	// visitors do not wait for both families. They come back with the path.
	WithdrawAAAA bool
	// Council: several watchdogs watch the site, and this one writes only when it is
	// [Elected].
	Council bool
}

// Path is one way visitors reach the site.
type Path struct {
	Name string
	// V4 and V6: the families that are probed. At least one.
	V4, V6 bool
	// NeedsLocal: the path leads home, so it is worth nothing while the local
	// probe fails. A mirror elsewhere does not need it.
	NeedsLocal bool
}

// Fast returns the default settings: a dead path is left within 10 seconds, and
// one probe in twenty may get lost without a false alarm in months.
func Fast() Policy {
	return Policy{
		Interval: 3 * time.Second, Standby: 30 * time.Second,
		Burst: 250 * time.Millisecond, BurstFor: time.Minute,
		Failures: 8, Window: 12, Tolerance: 3, Proof: 5 * time.Second,
		Recovery: 2 * time.Minute, Dwell: 5 * time.Minute, Budget: 6,
	}
}

// Careful returns settings for those who would rather wait a minute: a probe each
// 15 seconds, four failures in a row, five minutes of health without one failure
// and ten minutes of dwell.
func Careful() Policy {
	return Policy{
		Interval: 15 * time.Second, Standby: 15 * time.Second, Burst: -1,
		Failures: 4, Window: 4, Tolerance: -1, Proof: 14 * time.Second,
		Recovery: 5 * time.Minute, Dwell: 10 * time.Minute, Budget: 6,
	}
}

// WithDefaults returns p with zero fields replaced by their defaults. [Next]
// calls it; calling it again changes nothing.
func (p Policy) WithDefaults() Policy {
	d := Fast()
	if p.Window == 0 && p.Failures > 0 {
		p.Window = p.Failures
	}
	p.Interval = cmp.Or(p.Interval, d.Interval)
	p.Standby = cmp.Or(p.Standby, max(d.Standby, p.Interval))
	p.Burst = cmp.Or(p.Burst, d.Burst)
	p.BurstFor = cmp.Or(p.BurstFor, d.BurstFor)
	p.Failures = cmp.Or(p.Failures, d.Failures)
	p.Window = cmp.Or(p.Window, d.Window)
	p.Tolerance = cmp.Or(p.Tolerance, min(d.Tolerance, max(p.Failures-1, 1)))
	p.Proof = cmp.Or(p.Proof, d.Proof)
	p.Recovery = cmp.Or(p.Recovery, d.Recovery)
	p.Dwell = cmp.Or(p.Dwell, d.Dwell)
	p.Budget = cmp.Or(p.Budget, d.Budget)
	p.Gap = cmp.Or(p.Gap, 2*p.Interval)
	return p
}

// ring is how many probe results are remembered.
const ring = 32

// Validate reports every setting that cannot work, by name.
func (p Policy) Validate() error {
	p = p.WithDefaults()
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	check(len(p.Paths) > 0, "there is no path")
	seen := map[string]bool{}
	for _, path := range p.Paths {
		check(path.Name != "" && !seen[path.Name], "path %q: want a name of its own", path.Name)
		check(path.V4 || path.V6, "path %q is probed by neither family", path.Name)
		seen[path.Name] = true
	}
	check(p.Interval >= 100*time.Millisecond, "interval is %s: want at least 100ms", p.Interval)
	check(p.Standby >= p.Interval, "standby_interval is %s: want at least interval, which is %s", p.Standby, p.Interval)
	check(p.Burst < 0 || p.Burst >= 50*time.Millisecond, "burst is %s: want at least 50ms, or off", p.Burst)
	check(p.Burst < p.Interval, "burst is %s: want less than interval, which is %s", p.Burst, p.Interval)
	check(p.Failures >= 2, "failures is %d: want at least 2, for one lost packet is not an outage", p.Failures)
	check(p.Window >= p.Failures && p.Window <= ring, "window is %d: want failures (%d) to %d", p.Window, p.Failures, ring)
	check(p.Tolerance < p.Failures, "tolerance is %d: want less than failures, which is %d", p.Tolerance, p.Failures)
	check(p.Proof >= p.Interval/2, "proof is %s: want at least half of interval, which is %s", p.Proof, p.Interval)
	check(p.Gap > p.Interval, "gap is %s: want more than interval, which is %s", p.Gap, p.Interval)
	return errors.Join(errs...)
}

// quiet is how long nothing may be heard from one kind of probe.
func (p *Policy) quiet() time.Duration { return max(p.Gap, 2*p.Standby) }

// at least zero: a negative setting means none.
func none[T ~int | ~int64](v T) T { return max(v, 0) }
