package chaos

import (
	"context"
	"path/filepath"
)

// BuildJump builds a leader whose wall clock jumps by a day forward and back every 700
// ms, by a changed time.Now in its copy of the standard library. There is no other way to
// give a Go process a wrong clock: Go reads it without a system call. The monotonic part
// of a time is unchanged.
func BuildJump(ctx context.Context, program string) error {
	const read = "sec, nsec, mono := runtimeNow()"
	return buildLeader(ctx, program, nil, change{
		file: filepath.Join("time", "time.go"), before: read,
		after: read + "\n\tif mono/700e6%2 == 1 {\n\t\tsec += 86400\n\t}",
	})
}
