package pool

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Policy is how a member is chosen among those of the best tier. The zero
// value is Failover.
type Policy uint8

// The policies.
const (
	Failover   Policy = iota // the first in order
	RoundRobin               // in turns, by weight, evenly interleaved
	LeastConn                // the fewest open connections for its weight
	IPHash                   // the same client to the same member
)

var policyNames = []string{"failover", "round_robin", "least_conn", "ip_hash"}

// ParsePolicy reads "failover", "round_robin", "least_conn" or "ip_hash".
func ParsePolicy(s string) (Policy, error) {
	i := slices.Index(policyNames, s)
	if i < 0 {
		return 0, fmt.Errorf("reading policy %q: want one of %s", s, strings.Join(policyNames, ", "))
	}
	return Policy(i), nil
}

// String returns what [ParsePolicy] reads.
func (p Policy) String() string { return name(policyNames, p) }

// MarshalText implements encoding.TextMarshaler.
func (p Policy) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (p *Policy) UnmarshalText(b []byte) (err error) {
	*p, err = ParsePolicy(string(b))
	return err
}

// OnDown is what becomes of the open sessions of a member that went down.
type OnDown uint8

// What to do with sessions of a member that went down.
const (
	Keep  OnDown = iota // leave them to their own timeouts
	Close               // close them at once, so clients connect again
)

var onDownNames = []string{"keep", "close"}

// String returns "keep" or "close".
func (o OnDown) String() string { return name(onDownNames, o) }

// MarshalText implements encoding.TextMarshaler.
func (o OnDown) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (o *OnDown) UnmarshalText(b []byte) error {
	i := slices.Index(onDownNames, string(b))
	if i < 0 {
		return fmt.Errorf("reading on_down %q: want keep or close", b)
	}
	*o = OnDown(i)
	return nil
}

func name[T ~uint8](names []string, v T) string {
	if int(v) < len(names) {
		return names[v]
	}
	return fmt.Sprintf("invalid(%d)", uint8(v))
}

// Presets are names for how long a gateway of some kind takes to be truly back
// after its port answers again. They are careful guesses, not measurements.
var Presets = map[string]time.Duration{
	"container":  60 * time.Second,
	"vm":         180 * time.Second,
	"hypervisor": 600 * time.Second,
	"nas":        900 * time.Second,
	"windows":    1800 * time.Second,
	"slow":       3600 * time.Second,
}

// ParseFailback reads one of [Presets], or a Go duration of zero or more. It
// returns a negative duration for zero, which means at once in [Settings].
func ParseFailback(s string) (time.Duration, error) {
	if d, ok := Presets[s]; ok {
		return d, nil
	}
	d, err := time.ParseDuration(s)
	switch {
	case err != nil:
		return 0, fmt.Errorf("reading failback %q: want a duration like 90s, or one of %s",
			s, strings.Join(slices.Sorted(maps.Keys(Presets)), ", "))
	case d < 0:
		return 0, fmt.Errorf("reading failback %q: want 0 or more", s)
	case d == 0:
		return -1, nil
	}
	return d, nil
}

// Limits of a pool.
const (
	MaxMembers = 64 // members are kept in a 64-bit set
	MaxWeight  = 256
)

// Member is one gateway in a pool.
type Member struct {
	Gateway string `json:"gateway"`
	// Weight is its share among the members of its tier, 1 to 256. Default: 1.
	// The failover policy ignores it.
	Weight int `json:"weight,omitzero"`
}

// Settings are a pool as configured.
type Settings struct {
	Name   string `json:"name"`
	Policy Policy `json:"policy"`
	// Members in order of priority, 1 to 64.
	Members []Member `json:"members"`
	// Failback is the cooldown: how long a member that came back stays behind
	// those that were there all along. Default: 60s. Negative: none.
	Failback time.Duration `json:"failback,omitzero"`
	// SlowStart is how long a member takes, after its cooldown, to get its full
	// share. Only for round_robin and least_conn. Default: 10s. Negative: off.
	SlowStart time.Duration `json:"slow_start,omitzero"`
	// OnDown says what becomes of the sessions of a member that goes down.
	// Default: keep.
	OnDown OnDown `json:"on_down,omitzero"`
	// ReturnAfter is how long sessions at the other members are kept once a member
	// that came back has its visitors again: then they are closed, so that those
	// visitors come back too. Only for failover. Default, or negative: kept.
	ReturnAfter time.Duration `json:"return_after,omitzero"`
}

// WithDefaults returns s with zero fields replaced by their defaults. It does
// not change the members of s.
func (s Settings) WithDefaults() Settings {
	s.Failback = cmp.Or(s.Failback, 60*time.Second)
	if s.ramps() {
		s.SlowStart = cmp.Or(s.SlowStart, 10*time.Second)
	}
	s.Members = slices.Clone(s.Members)
	for i := range s.Members {
		s.Members[i].Weight = cmp.Or(s.Members[i].Weight, 1)
	}
	return s
}

// Validate reports everything that cannot work, naming the pool and the setting.
func (s Settings) Validate() error {
	var errs []error
	bad := func(setting, format string, args ...any) {
		errs = append(errs, fmt.Errorf("pool %q: %s: %s", s.Name, setting, fmt.Sprintf(format, args...)))
	}
	if s.Name == "" {
		bad("name", "is empty")
	}
	if int(s.Policy) >= len(policyNames) {
		bad("policy", "want one of %s", strings.Join(policyNames, ", "))
	}
	if int(s.OnDown) >= len(onDownNames) {
		bad("on_down", "want keep or close")
	}
	if s.SlowStart > 0 && !s.ramps() {
		bad("slow_start", "works with round_robin and least_conn only, not with %s", s.Policy)
	}
	if s.ReturnAfter > 0 && s.Policy != Failover {
		bad("return_after", "works with failover only, not with %s", s.Policy)
	}
	if n := len(s.Members); n < 1 || n > MaxMembers {
		bad("members", "there are %d: want 1 to %d", n, MaxMembers)
	}
	seen := make(map[string]bool, len(s.Members))
	for i, m := range s.Members {
		switch {
		case m.Gateway == "":
			bad("members", "number %d names no gateway", i+1)
		case seen[m.Gateway]:
			bad("members", "gateway %q is listed twice", m.Gateway)
		}
		seen[m.Gateway] = true
		if m.Weight < 0 || m.Weight > MaxWeight {
			bad("weight", "of %q is %d: want 1 to %d", m.Gateway, m.Weight, MaxWeight)
		}
	}
	return errors.Join(errs...)
}

// longestCooldown is what relapses can make of a shorter one.
const longestCooldown = time.Hour

// cooldown is Failback, doubled with each relapse from the second on: a member that
// comes and goes is not to take its visitors along each time.
func (s Settings) cooldown(relapses int) time.Duration {
	d := max(s.Failback, 0)
	for ; relapses > 1 && d < longestCooldown; relapses-- {
		d = min(2*d, longestCooldown)
	}
	return d
}

// ramps reports whether the policy knows slow start.
func (s Settings) ramps() bool { return s.Policy == RoundRobin || s.Policy == LeastConn }
