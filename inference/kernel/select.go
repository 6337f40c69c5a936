package kernel

import (
	"fmt"
	"os"
	"slices"
	"strings"
)

// level names a family of tuned float32 kernels.
type level = string

const (
	generic level = "generic" // the naive reference
	scalar  level = "scalar"  // tuned plain Go
	avx2    level = "avx2"    // with FMA and F16C
	avx512  level = "avx512"  // AVX-512F beside avx2
	neon    level = "neon"
)

// activeLevel is the family in use. It is written before main starts and by tests.
var activeLevel, selectError = selectLevel(os.Getenv("PREFDT_KERNEL"))

// Selected names the kernels in use: the best that this processor can run, or those
// requested by the environment variable PREFDT_KERNEL. If it cannot run those, the
// best are used and the error says so.
func Selected() (string, error) { return activeLevel, selectError }

// selectLevel returns the requested level, or the best if none is requested.
func selectLevel(requested string) (level, error) {
	have := supported() // worst first
	best := have[len(have)-1]
	switch {
	case requested == "":
		return best, nil
	case slices.Contains(have, requested):
		return requested, nil
	}
	return best, fmt.Errorf("PREFDT_KERNEL=%s: this processor runs %s", requested, strings.Join(have, ", "))
}
