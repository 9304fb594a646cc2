package limit

import (
	"cmp"
	"math"
)

// rate is a bucket's size and speed, for the generic cell rate algorithm
// (ITU-T I.371, annex A): a bucket is one time, until which it is spoken for.
// The zero value never refuses.
type rate struct {
	every int64 // nanoseconds that one connection costs
	full  int64 // how far ahead of now the bucket may be spoken for
}

func newRate(perSecond float64, burst int) rate {
	if perSecond == 0 {
		return rate{}
	}
	// Rounding up keeps the limit a limit.
	every := int64(math.Ceil(1e9 / perSecond))
	size := cmp.Or(burst, int(math.Ceil(2*perSecond)))
	return rate{every: every, full: every * int64(max(size, 1))}
}

// take returns the bucket after one more connection, or, with false, the bucket
// to keep when there is no room for it. A bucket from the future, left by a
// larger burst or a clock that went back, counts as used up and no worse.
func (r rate) take(bucket, now int64) (int64, bool) {
	if r.every == 0 {
		return now, true
	}
	bucket = min(max(bucket, now), now+r.full)
	if bucket+r.every > now+r.full {
		return bucket, false
	}
	return bucket + r.every, true
}
