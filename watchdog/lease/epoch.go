package lease

import "time"

// NextEpoch returns the epoch that follows last. It is the time in seconds where that
// is more, so that epochs go on growing after a store was lost and begun anew, or
// another one took its place: what was written elsewhere by the old ones must not be
// newer than everything that comes.
func NextEpoch(last uint64, now time.Time) uint64 {
	return max(last+1, uint64(max(now.Unix(), 0)))
}
