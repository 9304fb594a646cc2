package lease

import (
	"errors"
	"fmt"
	"time"
)

// Moment is a time by this machine's clocks. Only differences mean something.
type Moment struct {
	// Boot goes on while the machine is suspended, and is set by nobody.
	Boot time.Duration
	// Wall is the clock that people set. It is no measure of time here: it only gives
	// away that Boot stood still, when whoever runs this machine had frozen it.
	Wall time.Duration
}

func (m Moment) ahead() time.Duration { return m.Wall - m.Boot }

// Rules are how a holder goes by its grant. Zero fields mean the defaults.
type Rules struct {
	// TTL is how long the store keeps a grant after the request. Default: 45s.
	TTL time.Duration
	// Fence is how long before the end the holder stops what only a holder may run:
	// it is the time that this may take. Default: 25s, or 5/9 of TTL if that is less.
	Fence time.Duration
	// Renew is how often the grant is renewed. Default: a fifth of what is left of
	// TTL without Fence, 4s.
	Renew time.Duration
	// Drift is by how much of the time that passes this clock may be slower than the
	// store's, in parts of a thousand. Default: 10, which is uncalibrated: quartz
	// clocks stay below 0.1, and time daemons slew by at most 0.5.
	Drift int
}

// The defaults of Rules.
const (
	DefaultTTL   = 45 * time.Second
	DefaultFence = 25 * time.Second
	defaultDrift = 10
)

// leap is how much more the wall clock may have moved than Boot before a renewal has
// to say that nothing was missed.
const leap = 2 * time.Second

// Complete fills in the defaults, and returns what cannot be.
func (r Rules) Complete() (Rules, error) {
	if r.TTL == 0 {
		r.TTL = DefaultTTL
	}
	if r.Fence == 0 {
		r.Fence = min(DefaultFence, r.TTL*5/9)
	}
	if r.Drift == 0 {
		r.Drift = defaultDrift
	}
	if r.Renew == 0 {
		r.Renew = (r.TTL - r.Fence) / 5
	}
	switch {
	case r.TTL < time.Second || r.TTL > time.Hour:
		return r, fmt.Errorf("the TTL is %v: want 1s to 1h", r.TTL)
	case r.Drift < 0 || r.Drift > 100:
		return r, fmt.Errorf("the drift is %d/1000: want 0 to 100", r.Drift)
	case r.Fence < 0 || r.Fence >= r.span():
		return r, fmt.Errorf("the fence is %v: want less than the TTL, %v", r.Fence, r.TTL)
	case r.Renew <= 0 || r.Renew > (r.TTL-r.Fence)/2:
		return r, errors.New("renew is too long: want at least two tries before the fence")
	}
	return r, nil
}

// span is how long the holder counts on a grant, by its own clock: as long as the
// store keeps it by the fastest clock that the store may have.
func (r Rules) span() time.Duration {
	return r.TTL - r.TTL*time.Duration(r.Drift)/1000
}

// State is what a holder may do.
type State string

// The states of a holder.
const (
	Free   State = "free"   // it holds nothing, or its time is over
	Held   State = "held"   // it may act
	Losing State = "losing" // it must have stopped before the end
)

// Holder says what a grant allows at a time. It is a value: methods return the next
// one. The zero value holds nothing.
type Holder struct {
	rules Rules
	held  bool
	asked Moment        // before the request was sent that the store confirmed last
	ahead time.Duration // least that Wall was ahead of Boot in what was seen since
	doubt bool          // Boot has stood still, and no renewal asked for later says that nothing was missed
	stood time.Duration // by Boot: when that was seen last
}

// Take returns the holder of a new grant, for which the store was asked at asked. The
// rules must be complete.
func Take(r Rules, asked Moment) Holder {
	return Holder{rules: r, held: true, asked: asked, ahead: asked.ahead()}
}

// Renewed takes note that the store confirmed a renewal asked for at asked. Answers may
// come in any order, and late: none brings back a grant that was over at now.
func (h Holder) Renewed(asked, now Moment) Holder {
	h = h.Seen(now)
	if h.State(now) == Free || asked.Boot <= h.asked.Boot {
		return h
	}
	if !h.doubt || asked.Boot >= h.stood && now.ahead()-asked.ahead() <= leap {
		h.ahead, h.doubt = now.ahead(), false
	}
	h.asked = asked
	return h
}

// Seen takes note of the clocks at now. Call it about every second, so that a clock that
// was set back does not hide what comes later.
func (h Holder) Seen(now Moment) Holder {
	if now.ahead()-h.ahead > leap {
		h.doubt, h.stood, h.ahead = true, now.Boot, now.ahead()
	}
	h.ahead = min(h.ahead, now.ahead())
	return h
}

// Drop returns a holder of nothing.
func (h Holder) Drop() Holder { return Holder{} }

// State says what may be done at now.
func (h Holder) State(now Moment) State {
	switch {
	case !h.held, now.Boot >= h.End(), now.Boot < h.asked.Boot:
		return Free
	case now.Boot >= h.FenceAt():
		return Losing
	}
	return Held
}

// MayAct reports whether something new may be begun at now.
func (h Holder) MayAct(now Moment) bool { return h.State(now) == Held && !h.Doubtful(now) }

// Doubtful reports whether time seems to have passed that Boot does not know of. The
// grant may be over: only a renewal tells.
func (h Holder) Doubtful(now Moment) bool {
	return h.held && (h.doubt || now.ahead()-h.ahead > leap)
}

// FenceAt and End are when Losing begins, and Free, by Moment.Boot.
func (h Holder) FenceAt() time.Duration { return h.End() - h.rules.Fence }

// End is when the grant is over, unless it is renewed.
func (h Holder) End() time.Duration { return h.asked.Boot + h.rules.span() }

// RenewAt is when the next renewal is due.
func (h Holder) RenewAt(now Moment) time.Duration {
	if h.Doubtful(now) {
		return now.Boot
	}
	return h.asked.Boot + h.rules.Renew
}
