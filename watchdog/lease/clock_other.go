//go:build !linux

package lease

import "time"

var began = time.Now()

// Clock reads this machine's clocks. Where none is known that goes on while the
// machine is suspended, the one that people set stands in for it when it is ahead: a
// grant may end too early, never too late.
func Clock() Moment {
	now := time.Now()
	wall := now.Round(0).Sub(began.Round(0))
	return Moment{Boot: max(now.Sub(began), wall), Wall: time.Duration(now.UnixNano())}
}
