package health

import "time"

// Phase is what is believed of a gateway. The zero value is Unknown.
type Phase uint8

// The phases. There is no cooldown here: it is a pool's view of an alive gateway.
const (
	Unknown Phase = iota // no fresh evidence; not the same as down
	Alive
	Down
)

var phaseNames = []string{"unknown", "alive", "down"}

// String returns "unknown", "alive" or "down".
func (p Phase) String() string { return name(phaseNames, p) }

// MarshalText implements encoding.TextMarshaler.
func (p Phase) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (p *Phase) UnmarshalText(b []byte) error { return parse(phaseNames, "phase", b, p) }

// State is all that is known of one gateway. It is a plain value: copy it,
// publish it, store it. The zero value is a gateway never heard of. Only
// [Next] makes new ones.
type State struct {
	Phase Phase `json:"phase"`
	// Since is when Phase began.
	Since time.Time `json:"since,omitzero"`
	// Seen says that it has been alive. One that never was owes no cooldown: it is
	// new, and was only looked for before it was there.
	Seen bool `json:"seen,omitzero"`
	// RecoveredAt is when it last came back after having been down. Zero until
	// then.
	RecoveredAt time.Time `json:"recovered_at,omitzero"`
	// DownAt is when it last went down. Zero once it has come back, so a set
	// DownAt in phase unknown means: last known to be down.
	DownAt time.Time `json:"down_at,omitzero"`
	// DownLevel is the deepest level that took it down. Zero unless DownAt is set.
	DownLevel Level `json:"down_level,omitzero"`
	// Streaks holds the latest evidence and the bad points per level; Connect is
	// at index 0.
	Streaks [Content]Streak `json:"streaks,omitzero"`
	// Goods counts good observations in a row that count as recovery.
	Goods int `json:"goods,omitzero"`
	// Ejects counts ejections in a row at a level no check can see.
	Ejects int `json:"ejects,omitzero"`
	// EjectUntil is when shallower evidence begins to count as recovery. Zero: it
	// counts now.
	EjectUntil time.Time `json:"eject_until,omitzero"`
	// Relapses counts how often in a row it went down within 10 minutes of coming
	// back. Pools let it wait longer then.
	Relapses int       `json:"relapses,omitzero"`
	LastGood time.Time `json:"last_good,omitzero"`
	LastBad  time.Time `json:"last_bad,omitzero"`
	// LastEvidence is when it was last heard of, good or bad.
	LastEvidence time.Time `json:"last_evidence,omitzero"`
	// Reason is one sentence for people: why Phase is what it is.
	Reason string `json:"reason,omitzero"`
}

// Streak is what is known at one level.
type Streak struct {
	Last     Evidence  `json:"last,omitzero"`
	At       time.Time `json:"at,omitzero"` // when Last came
	Points   int       `json:"points,omitzero"`
	FirstBad time.Time `json:"first_bad,omitzero"` // zero when Points is zero
	LastBad  time.Time `json:"last_bad,omitzero"`  // zero when Points is zero
}

// WasDown reports whether it is down, or was when last heard of and has not
// come back since.
func (s State) WasDown() bool { return !s.DownAt.IsZero() }

// streak is the streak of level l, to be changed in place.
func (s *State) streak(l Level) *Streak { return &s.Streaks[l-1] }

// forgive drops the bad points of levels up to l.
func (s *State) forgive(l Level) {
	for i := range s.Streaks[:l] {
		s.Streaks[i].forgive()
	}
}

func (k *Streak) forgive() { k.Points, k.FirstBad, k.LastBad = 0, time.Time{}, time.Time{} }

// enter begins a phase.
func (s *State) enter(ph Phase, now time.Time, reason string) {
	s.Phase, s.Since, s.Reason = ph, now, reason
	s.Seen = s.Seen || ph == Alive
}

// clamp pulls times from the future back to now, so that a clock set backwards
// delays a decision by its own settings at most.
func (s *State) clamp(p Policy, now time.Time) {
	for _, t := range []*time.Time{
		&s.Since, &s.RecoveredAt, &s.DownAt, &s.LastGood, &s.LastBad, &s.LastEvidence,
	} {
		notAfter(t, now)
	}
	for i := range s.Streaks {
		k := &s.Streaks[i]
		notAfter(&k.At, now)
		notAfter(&k.FirstBad, now)
		notAfter(&k.LastBad, now)
	}
	notAfter(&s.EjectUntil, now.Add(p.ejection(s.Ejects)))
}

func notAfter(t *time.Time, limit time.Time) {
	if t.After(limit) {
		*t = limit
	}
}
