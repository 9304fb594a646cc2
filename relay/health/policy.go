package health

import (
	"cmp"
	"errors"
	"fmt"
	"time"
)

// Policy is how evidence is judged. The zero value is the default policy
// without an active check.
type Policy struct {
	// Fall is how many firm bad observations in a row, at one level, take a
	// gateway down. A firm one counts 2 points, a timeout 1; it is down at
	// 2*Fall points. Default: 3. Negative: the first point is enough.
	Fall int `json:"fall,omitzero"`
	// Rise is how many good observations in a row bring it back. Default: 2.
	// Negative: one is enough.
	Rise int `json:"rise,omitzero"`
	// Confirm is the time bad observations must span before it is down, so that
	// one hiccup seen by many connections at once stays one hiccup. Twice that
	// without a good one is enough too, where an active check could have seen it.
	// Default: 500ms. Negative: no span needed.
	Confirm time.Duration `json:"confirm,omitzero"`
	// Stale is the age at which evidence no longer counts: without newer
	// evidence the phase is unknown. Keep it well above the check interval.
	// Default: 15s. Negative: evidence never ages.
	Stale time.Duration `json:"stale,omitzero"`
	// CheckLevel is the highest level active checks reach. Default: none, which
	// means that no active check runs.
	CheckLevel Level `json:"check_level,omitzero"`
	// Eject is how long a gateway stays down before shallower evidence counts
	// as recovery, when it failed at a level no check can see: a TCP check, and
	// a server that accepts and stays silent. It doubles with each such
	// ejection within 10 minutes of coming back. Default: 10s. Negative: off,
	// shallower evidence counts at once.
	Eject time.Duration `json:"eject,omitzero"`
	// EjectMax caps Eject as it doubles. Default: 2m. Negative: Eject never
	// doubles.
	EjectMax time.Duration `json:"eject_max,omitzero"`
}

// relapse is how soon after coming back going down again counts as the same
// trouble: another ejection doubles Eject, and pools wait longer.
// Uncalibrated: long enough to see a few visitors on a quiet relay.
const relapse = 10 * time.Minute

// WithDefaults returns p with zero fields replaced by their defaults. [Next]
// calls it; calling it again changes nothing.
func (p Policy) WithDefaults() Policy {
	p.Fall = cmp.Or(p.Fall, 3)
	p.Rise = cmp.Or(p.Rise, 2)
	p.Confirm = cmp.Or(p.Confirm, 500*time.Millisecond)
	p.Stale = cmp.Or(p.Stale, 15*time.Second)
	p.Eject = cmp.Or(p.Eject, 10*time.Second)
	p.EjectMax = cmp.Or(p.EjectMax, 2*time.Minute)
	return p
}

// Validate reports every setting that cannot work, by name.
func (p Policy) Validate() error {
	p = p.WithDefaults()
	var errs []error
	if p.Fall > 1000 {
		errs = append(errs, fmt.Errorf("fall is %d: want at most 1000", p.Fall))
	}
	if p.Rise > 1000 {
		errs = append(errs, fmt.Errorf("rise is %d: want at most 1000", p.Rise))
	}
	if p.CheckLevel > Content {
		errs = append(errs, fmt.Errorf("check_level is %s: want none, connect, answer or content", p.CheckLevel))
	}
	if p.Stale > 0 && p.Confirm >= p.Stale {
		errs = append(errs, fmt.Errorf("confirm is %s: want less than stale, which is %s", p.Confirm, p.Stale))
	}
	if p.EjectMax > 0 && p.Eject > p.EjectMax {
		errs = append(errs, fmt.Errorf("eject is %s: want at most eject_max, which is %s", p.Eject, p.EjectMax))
	}
	return errors.Join(errs...)
}

// points is the sum at which a level takes the gateway down.
func (p Policy) points() int {
	if p.Fall < 0 {
		return 1
	}
	return 2 * p.Fall
}

// blind reports whether no active check can see level l.
func (p Policy) blind(l Level) bool { return l > p.CheckLevel }

// ejection is how long the nth ejection in a row lasts; n counts from 1.
func (p Policy) ejection(n int) time.Duration {
	if p.Eject < 0 {
		return 0
	}
	d := p.Eject
	for ; n > 1 && d < p.EjectMax; n-- {
		d *= 2
	}
	return max(p.Eject, min(d, p.EjectMax))
}
