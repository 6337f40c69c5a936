package bench

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// pin keeps the calling thread, which must be locked, on the last processor,
// so that what is timed does not move to one whose cache is cold. The function
// returned undoes it.
func pin() func() {
	var before, last unix.CPUSet
	if unix.SchedGetaffinity(0, &before) != nil {
		return func() {}
	}
	for cpu := range 8 * runtime.NumCPU() {
		if before.IsSet(cpu) {
			last.Zero()
			last.Set(cpu)
		}
	}
	if unix.SchedSetaffinity(0, &last) != nil {
		return func() {}
	}
	return func() { _ = unix.SchedSetaffinity(0, &before) }
}
