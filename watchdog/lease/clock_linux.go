package lease

import (
	"time"

	"golang.org/x/sys/unix"
)

// Clock reads this machine's clocks: CLOCK_BOOTTIME goes on while it is suspended, and
// CLOCK_MONOTONIC, by which Go measures, does not (clock_gettime(2)).
func Clock() Moment {
	var boot unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot); err != nil {
		panic("CLOCK_BOOTTIME, which Linux has had since 2.6.39: " + err.Error())
	}
	return Moment{Boot: time.Duration(boot.Nano()), Wall: time.Duration(time.Now().UnixNano())}
}
