package clock

import (
	"time"

	"golang.org/x/sys/unix"
)

// suspended is for how long the host was suspended since it booted: CLOCK_BOOTTIME counts that, CLOCK_MONOTONIC does not.
func suspended() time.Duration {
	var monotonic, boot unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &monotonic) != nil || unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot) != nil {
		return 0
	}
	return time.Duration(boot.Nano() - monotonic.Nano())
}
