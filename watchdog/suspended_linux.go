package watchdog

import (
	"time"

	"golang.org/x/sys/unix"
)

// suspended is how long the machine slept since it booted: CLOCK_BOOTTIME goes on
// then and CLOCK_MONOTONIC does not (clock_gettime(2)).
func suspended() time.Duration {
	var boot, mono unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot) != nil || unix.ClockGettime(unix.CLOCK_MONOTONIC, &mono) != nil {
		return 0
	}
	return time.Duration(boot.Nano() - mono.Nano())
}
