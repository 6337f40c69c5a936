package experiment

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"prefdt/configs/cli"
	"prefdt/offline/command"
)

// takeOver copies what the folders have measured. Nothing is written before all of it is known
// to fit.
func (s *Set) takeOver(folders []string) error {
	folders = slices.Clone(folders)
	for i := range folders {
		dir, done, err := OpenFolder(folders[i])
		if err != nil {
			return cli.BadInput(err)
		}
		defer done()
		folders[i] = dir
	}
	found, err := s.collect(folders)
	if err == nil {
		err = command.CheckWritable(s.Dir)
	}
	if err != nil {
		return cli.BadInput(err)
	}
	if err := s.claim(); err != nil {
		return err
	}
	for _, f := range found {
		if err := f.copyTo(s.Dir); err != nil {
			return fmt.Errorf("merge %s: %w", f.dir, err)
		}
		s.Logf("%s: %d files from %s", f.arm.Name, len(f.paths), f.dir)
	}
	return nil
}

// missing is an error if some of the arms have not been measured: the report is of the
// others.
func (s *Set) missing(arms []Arm) error {
	var names []string
	for i := range arms {
		if !arms[i].has(s.Dir) {
			names = append(names, arms[i].Name)
		}
	}
	if len(names) > 0 {
		return fmt.Errorf("%d of %d arms are not measured yet, and the report is without them: %s", len(names), len(arms),
			strings.Join(names, ", "))
	}
	return nil
}

// foundArm is an arm's files in another folder, relative to it; the result comes last.
type foundArm struct {
	arm   *Arm
	dir   string
	paths []string
}

// collect finds every measured arm in the folders. It writes nothing, and refuses folders
// that are not of this set, and results that are damaged or differ.
func (s *Set) collect(folders []string) (found []foundArm, err error) {
	for _, dir := range append([]string{s.Dir}, folders...) {
		err := s.check(dir, s.Arms)
		if errors.Is(err, os.ErrNotExist) && dir == s.Dir && len(folders) > 0 {
			continue // it is begun here
		} else if errors.Is(err, os.ErrNotExist) {
			return nil, holdsNone(dir, s.Kind)
		} else if err != nil {
			return nil, err
		}
	}
	results := map[string]string{} // by arm, the first folder that has it
	for i := range s.Arms {
		a := &s.Arms[i]
		if a.has(s.Dir) {
			results[a.Name] = s.Dir
		}
		for _, dir := range folders {
			if !a.has(dir) {
				continue
			}
			if first, twice := results[a.Name]; twice {
				if err := checkSame(filepath.Join(first, a.resultPath()), filepath.Join(dir, a.resultPath())); err != nil {
					return nil, err
				}
				continue
			}
			results[a.Name] = dir
			f := foundArm{arm: a, dir: dir}
			for _, n := range append(a.Needs[:len(a.Needs):len(a.Needs)], Need{Path: a.resultPath()}) {
				if err := f.add(n.Path); s.OnlyResults && errors.Is(err, os.ErrNotExist) {
					continue
				} else if err != nil {
					return nil, fmt.Errorf("%s has a result of arm %s without what it rests on: %w", dir, a.Name, err)
				}
			}
			found = append(found, f)
		}
	}
	return found, nil
}

// holdsNone is the error of a folder without a set of a kind.
func holdsNone(dir, kind string) error {
	return fmt.Errorf("%s holds no %s: it has no %s", dir, kind, keyFile(kind))
}

// add adds a file, or all files below a folder.
func (f *foundArm) add(path string) error {
	return filepath.WalkDir(filepath.Join(f.dir, path), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasPrefix(d.Name(), ".") { // a temporary file of command.ReplaceFile
			return err
		}
		name, err := filepath.Rel(f.dir, path)
		f.paths = append(f.paths, name)
		return err
	})
}

// copyTo copies the files that the folder out does not have.
func (f *foundArm) copyTo(out string) error {
	for _, path := range f.paths {
		to := filepath.Join(out, path)
		if _, err := os.Stat(to); err == nil && path != f.arm.resultPath() {
			continue
		}
		in, err := os.Open(filepath.Join(f.dir, path))
		if err != nil {
			return err
		}
		err = command.ReplaceFile(to, func(w io.Writer) error { _, err := io.Copy(w, in); return err })
		if err := errors.Join(err, in.Close()); err != nil {
			return err
		}
	}
	return nil
}

// checkSame refuses two results of one arm that differ in more than the record of how they were measured.
func checkSame(a, b string) error {
	var outcomes [2]string
	for i, path := range []string{a, b} {
		raw, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		outcomes[i] = string(WithoutRecord(raw))
	}
	var err error
	if outcomes[0] != outcomes[1] {
		err = fmt.Errorf("%s and %s differ: remove one (training on another kind of processor sums in another order)", a, b)
	}
	return err
}
