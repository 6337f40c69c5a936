// Package fulldisk simulates a full disk for a test, by the process's file size limit.
// It is imported by tests only.
package fulldisk

import (
	"os/signal"
	"syscall"
	"testing"
)

// The process would end otherwise. A signal can't be ignored first in a test in virtual time.
func init() { signal.Ignore(syscall.SIGXFSZ) }

// Fill lets no file grow, or be written beyond its first byte, until the function
// it returns is called. The limit is the whole process's, and go test writes files
// too: a test that fills the disk runs in a process of its own.
func Fill(t *testing.T) (release func()) {
	t.Helper()
	var was syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &was); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 1, Max: was.Max}); err != nil {
		t.Fatal(err)
	}
	release = func() { syscall.Setrlimit(syscall.RLIMIT_FSIZE, &was) }
	t.Cleanup(release)
	return release
}
