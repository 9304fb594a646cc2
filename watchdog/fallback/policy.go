package fallback

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Policy is what a machine follows. Zero fields mean the default.
type Policy struct {
	// Self is the home this machine stands in, Home the one it is about.
	Self string
	Home Home
	// Single: there is no store that all homes share. Covering asks a person.
	Single bool

	// Interval between two looks. Default: 5s.
	Interval time.Duration
	// Down is how many looks in a row must be bad until a home is gone. Default: 3.
	Down int
	// Strikes is how many must be good until it is given back. Default: 5.
	Strikes int
	// CoverUnhealthy: a home that answers and is not healthy gives its seat up, if
	// somebody is ready to cover it. Unhealthy is how many looks that takes. Default: 6.
	CoverUnhealthy bool
	Unhealthy      int

	// TTL is how long a lease lasts without a word from its holder. Default: 45s.
	TTL time.Duration
	// Fence is how long before its end the holder stops all it runs. Default: 25s. It
	// must be longer than the items take to stop.
	Fence time.Duration
	// Settle is how long a DNS write of a former holder may be on its way. Default: 10s.
	Settle time.Duration
	// Stagger is how long each coverer waits for the one before it. Default: 30s.
	Stagger time.Duration
	// Grace is how long a home that answers may be without its lease. Default: 2m.
	Grace time.Duration
	// Reclaim is how long a coverer must be gone until the home takes its own seat
	// back by itself. Default: 10m.
	Reclaim time.Duration
	// Patience is how long a restarted process lets run what runs, until it has asked.
	// Default: 5s.
	Patience time.Duration

	// Tries is how often a step of a handback, or a start of tier 1 after one, may fail
	// until it is rolled back. Default: 3.
	Tries int
	// Retry is the first pause after something failed, RetryMost the longest. Defaults:
	// 5s and 5m.
	Retry, RetryMost time.Duration
	// Pause is how long to wait after a handback that failed, doubled each time up to
	// an hour. Default: 5m.
	Pause time.Duration
	// Limit is how long one small thing may take: a word to the store, a peer, the DNS
	// provider. Default: 20s. CarryLimit is for one writeback. Default: 12h.
	Limit, CarryLimit time.Duration
}

// WithDefaults returns the policy with all fields set.
func (p Policy) WithDefaults() Policy {
	set := func(d *time.Duration, to time.Duration) { *d = cmp.Or(*d, to) }
	p.Down, p.Strikes = cmp.Or(p.Down, 3), cmp.Or(p.Strikes, 5)
	p.Unhealthy, p.Tries = cmp.Or(p.Unhealthy, 6), cmp.Or(p.Tries, 3)
	set(&p.Interval, 5*time.Second)
	set(&p.TTL, 45*time.Second)
	set(&p.Fence, 25*time.Second)
	set(&p.Settle, 10*time.Second)
	set(&p.Stagger, 30*time.Second)
	set(&p.Grace, 2*time.Minute)
	set(&p.Reclaim, 10*time.Minute)
	set(&p.Patience, 5*time.Second)
	set(&p.Retry, 5*time.Second)
	set(&p.RetryMost, 5*time.Minute)
	set(&p.Pause, 5*time.Minute)
	set(&p.Limit, 20*time.Second)
	set(&p.CarryLimit, 12*time.Hour)
	return p
}

// Validate says what is wrong with a policy and its home, naming the setting.
func (p Policy) Validate() error {
	p = p.WithDefaults()
	err := p.Home.Validate()
	if p.Fence >= p.TTL {
		err = errors.Join(err, fmt.Errorf("fence %s must be shorter than ttl %s", p.Fence, p.TTL))
	}
	if p.TTL-p.Fence <= 2*p.Interval {
		err = errors.Join(err, fmt.Errorf("ttl %s less fence %s must be more than two intervals of %s", p.TTL, p.Fence, p.Interval))
	}
	if p.Self != p.Home.ID && !slices.Contains(p.Home.CoveredBy, p.Self) {
		err = errors.Join(err, fmt.Errorf("home %s is not covered by %s", p.Home.ID, p.Self))
	}
	for _, item := range p.Home.Items() {
		if item.StopWithin >= p.Fence {
			err = errors.Join(err, fmt.Errorf("item %s: stop_within %s must be shorter than fence %s", item.Name, item.StopWithin, p.Fence))
		}
	}
	return err
}

// backoff is how long to wait after that many failures.
func (p Policy) backoff(tries int) time.Duration {
	return min(p.Retry<<min(max(tries-1, 0), 10), p.RetryMost)
}

func (p Policy) owner() bool { return p.Self == p.Home.ID }

// rank is how many homes are asked to cover before this one.
func (p Policy) rank() time.Duration {
	return time.Duration(max(slices.Index(p.Home.CoveredBy, p.Self), 0))
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
