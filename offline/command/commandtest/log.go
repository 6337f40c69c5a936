// Package commandtest is for the tests of commands.
package commandtest

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"prefdt/inference/checkpoint"
	"prefdt/simbridge/world"
)

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

// Checkpoint is the shipped one, for the tests of a package of offline.
func Checkpoint(t testing.TB) *checkpoint.Checkpoint {
	t.Helper()
	ck, err := checkpoint.Load("../../configs/checkpoint")
	if err != nil {
		t.Fatal(err)
	}
	return ck
}

// FieldWorld is a field world by name.
func FieldWorld(t testing.TB, name string) world.Config {
	t.Helper()
	c, err := world.Named(name)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Write writes a file, with the folders that it is in, and returns its path.
func Write(t testing.TB, text string, path ...string) string {
	t.Helper()
	file := filepath.Join(path...)
	err := os.MkdirAll(filepath.Dir(file), 0o755)
	if err == nil {
		err = os.WriteFile(file, []byte(text), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
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
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%x", sum.Sum(nil))
}
