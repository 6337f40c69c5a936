// Package command is what the subcommands of "offline" share: flags whose
// mistakes are one line, ranges of seeds, progress, and files that are replaced
// whole or not at all.
package command

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Flags returns a flag set whose mistakes are errors of one line.
func Flags(name string) *flag.FlagSet {
	f := flag.NewFlagSet("offline "+name, flag.ContinueOnError)
	f.SetOutput(io.Discard)
	return f
}

// Parse parses args. With -h it prints usage and the flags, and done is true.
func Parse(f *flag.FlagSet, usage string, args []string, stdout io.Writer) (done bool, err error) {
	err = f.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		fmt.Fprint(stdout, usage)
		f.SetOutput(stdout)
		f.PrintDefaults()
		return true, nil
	}
	if err == nil && f.NArg() > 0 {
		err = fmt.Errorf("unexpected argument %q", f.Arg(0))
	}
	if err != nil {
		return true, fmt.Errorf("%s: %w (-h shows the flags)", f.Name(), err)
	}
	return false, nil
}

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

// Progress returns a function that prints, at most every second or so and at
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
