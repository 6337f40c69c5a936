// Package offlinetest is for the tests of all packages below offline.
package offlinetest

import (
	"testing"

	"prefdt/inference/checkpoint"
)

// Must returns what gives the first of a function's two results, and ends the test where the second is an error:
// Must(os.ReadFile(path))(t).
func Must[T any](x T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		NoError(t, err)
		return x
	}
}

// NoError ends the test at an error.
func NoError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Shipped loads the shipped checkpoint, for a package two folders below the repository's root.
func Shipped(t testing.TB) *checkpoint.Checkpoint {
	t.Helper()
	return Must(checkpoint.Load("../../configs/checkpoint"))(t)
}
