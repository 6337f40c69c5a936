// Package offlinetest is for the tests of all packages below offline.
package offlinetest

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"prefdt/inference/checkpoint"
	"prefdt/simbridge/world"
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

// loadOnce loads the shipped checkpoint: the tests of a package ask for it hundreds of times.
var loadOnce = sync.OnceValues(func() (*checkpoint.Checkpoint, error) { return checkpoint.Load("../../configs/checkpoint") })

// Shipped returns the shipped checkpoint, for a package two folders below the repository's root. Its fields may be set to others,
// but what they point to is shared.
func Shipped(t testing.TB) *checkpoint.Checkpoint {
	t.Helper()
	own := *Must(loadOnce())(t)
	return &own
}

// FieldWorld is a field world by name.
func FieldWorld(t testing.TB, name string) world.Config {
	t.Helper()
	return Must(world.Named(name))(t)
}

// Write writes a file, with the folders that it is in, and returns its path.
func Write(t testing.TB, text string, path ...string) string {
	t.Helper()
	file := filepath.Join(path...)
	err := os.MkdirAll(filepath.Dir(file), 0o755)
	if err == nil {
		err = os.WriteFile(file, []byte(text), 0o644)
	}
	NoError(t, err)
	return file
}

// FolderHash is of the names of all files below a folder and of their contents, of each what part returns.
func FolderHash(t *testing.T, dir string, part func(content []byte) []byte) string {
	t.Helper()
	sum := sha256.New()
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasSuffix(d.Name(), "log.csv") { // which has tokens per second
			return err
		}
		name, _ := filepath.Rel(dir, path)
		raw, err := os.ReadFile(path)
		raw = part(raw)
		fmt.Fprintf(sum, "%s %d %s", name, len(raw), raw)
		return err
	})
	NoError(t, err)
	return fmt.Sprintf("%x", sum.Sum(nil))
}

// Log keeps what a command prints, and calls Stop when a text is printed: what is interrupted there
// is so on every machine.
type Log struct {
	bytes.Buffer
	Text string // "": none
	Stop func()
}

func (l *Log) Write(p []byte) (int, error) {
	if l.Text != "" && bytes.Contains(p, []byte(l.Text)) {
		l.Stop()
	}
	return l.Buffer.Write(p)
}
