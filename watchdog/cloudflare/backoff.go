package cloudflare

import "time"

// The waiting times: the first failure costs firstWait, each further one twice as
// much, up to longest; what a repetition can hardly mend begins with firstFlat.
const (
	firstWait = 5 * time.Second
	firstFlat = 30 * time.Second
	longest   = 300 * time.Second
	maxJitter = 2 * time.Second
)

// Backoff is for how long not to ask again. The zero value is ready. It is a
// value: its methods return the next one.
type Backoff struct {
	failures int
	until    time.Time
}

// Failure is what Backoff has to know of a failed request.
type Failure struct {
	// Flat: asking again will hardly help, so the wait begins long. It does not begin
	// with the longest: a refusal can be spurious, and a failover may be waiting.
	Flat bool
	// What the provider asked for. It binds if it is longer.
	RetryAfter time.Duration
	// At most two seconds, so that several hosts do not ask at once.
	Jitter time.Duration
}

// Failed returns the Backoff after a failure.
func (b Backoff) Failed(now time.Time, f Failure) Backoff {
	wait := firstWait << min(b.failures, 6)
	if f.Flat {
		wait = firstFlat << min(b.failures, 4)
	}
	wait = min(wait, longest) + f.Jitter
	return Backoff{failures: b.failures + 1, until: later(b.until, now.Add(max(wait, f.RetryAfter)))}
}

// Ready reports whether it is time to ask again, and when it is.
func (b Backoff) Ready(now time.Time) (bool, time.Time) { return !now.Before(b.until), b.until }

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
