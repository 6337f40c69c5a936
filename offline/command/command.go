// Package command is what the commands of "offline" share beyond package cli:
// ranges of seeds, progress, the flag of a world, and files that are replaced whole
// or not at all.
//
// Inputs: words of the command line, a world's file, what a command writes. Outputs:
// seeds that its command may use, a checked world, lines of progress, files. The
// packages of offline that have a command call it.
package command

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ParseSeeds parses "A:B", B excluded, or "N" for 0:N, and checks every seed's range
// with allowed, a function of package seeds.
func ParseSeeds(text string, allowed func(uint64) error) ([]uint64, error) {
	first, end, pair := strings.Cut(text, ":")
	if !pair {
		first, end = "0", text
	}
	a, errA := strconv.ParseUint(first, 10, 62)
	b, errB := strconv.ParseUint(end, 10, 62)
	if errA != nil || errB != nil || b <= a || b-a > 1e6 {
		return nil, fmt.Errorf("seeds %q, want A:B with A below B, or N for 0:N", text)
	}
	list := make([]uint64, 0, b-a)
	for seed := a; seed < b; seed++ {
		if err := allowed(seed); err != nil {
			return nil, err
		}
		list = append(list, seed)
	}
	return list, nil
}

// Words are those of a list, as in a,b.
func Words(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' })
}

// CheckNames refuses the first of some names, given by a flag, that is not known.
func CheckNames(flag string, names, known []string) error {
	for _, name := range names {
		if !slices.Contains(known, name) {
			return fmt.Errorf("%s has %q, want of %q", flag, name, known)
		}
	}
	return nil
}

// Progress returns a function that prints, at most every two seconds and at
// the end, how much of a work is done and about how long the rest takes.
func Progress(w io.Writer, what string, total int) func(done int) {
	started, last := time.Now(), time.Now()
	return func(done int) {
		if done < total && time.Since(last) < 2*time.Second {
			return
		}
		last = time.Now()
		left := time.Duration(float64(time.Since(started)) / float64(max(done, 1)) * float64(total-done))
		fmt.Fprintf(w, "%s %d/%d  left %s\n", what, done, total, left.Round(time.Second))
	}
}

// CheckWritable makes a folder and finds out, before the work whose results go
// there, whether files can be written to it.
func CheckWritable(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, ".tmp-*")
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// Hash names a value by all that is in it: SHA-256 of its JSON. Its numbers must be finite.
func Hash(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return fmt.Sprintf("%x", sha256.Sum256(raw))
}

// maxJSON bounds a file that ReadJSON reads, in bytes.
const maxJSON = 1 << 30

// ReadJSON reads a JSON file.
func ReadJSON(path string, v any) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxJSON+1))
	if err == nil && len(raw) > maxJSON {
		err = fmt.Errorf("larger than %d bytes", maxJSON)
	}
	if err != nil {
		return err
	}
	return json.Unmarshal(raw, v)
}

// ReplaceJSON writes a value as a JSON file, as ReplaceFile does.
func ReplaceJSON(path, indent string, v any) error {
	return ReplaceFile(path, func(w io.Writer) error {
		e := json.NewEncoder(w)
		e.SetIndent("", indent)
		return e.Encode(v)
	})
}

// ReplaceFile writes a file durably: temporary file, sync, rename, directory sync.
// An interruption leaves the old one.
func ReplaceFile(path string, write func(io.Writer) error) (err error) {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, ".tmp-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			os.Remove(f.Name())
		}
	}()
	if err = write(f); err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err = os.Chmod(f.Name(), 0o644); err != nil {
		return err
	}
	if err = os.Rename(f.Name(), path); err != nil {
		return err
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
