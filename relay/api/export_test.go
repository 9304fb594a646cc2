package api

import (
	"net/netip"
	"time"
)

// Failures is the table of those who guess.
type Failures struct{ failures }

// NewFailures returns an empty one.
func NewFailures() *Failures { return new(Failures) }

// Add counts a failure.
func (f *Failures) Add(a netip.Addr, now time.Time) { f.add(a, now) }

// Wait tells how long a source has to wait.
func (f *Failures) Wait(a netip.Addr, now time.Time) time.Duration { return f.wait(a, now) }

// Len is how many sources are known.
func (f *Failures) Len() int { return len(f.sources) }
