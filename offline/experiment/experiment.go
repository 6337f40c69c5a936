// Package experiment measures arms, each once, into a folder: the rows of a comparison
// that is too long for one sitting, or for one machine.
//
// Inputs: arms, each with what it needs, a rough cost, and a function that measures it; a
// folder. Outputs: one JSON file for each arm. The study and the paper's tables are such
// sets, and write their reports from these files alone.
//
// A set that was interrupted continues where it was, and one more arm costs that arm. Arms
// are independent but for the training runs that they share: shards of them may be
// measured by several processes, in one folder or in one each, and Merge brings them
// together.
package experiment

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"prefdt/configs/cli"
	"prefdt/offline/command"
)

// Need is a file or folder, relative to the set's folder, that is made before an arm is
// measured. Arms share it.
type Need struct {
	Path  string `json:"path"`
	CoreS int    `json:"core_s"` // rough seconds of one core to make it
}

// Arm is one row of a comparison.
type Arm struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	// TrainingRun names what arms share and one process makes; "": nothing.
	TrainingRun string `json:"run,omitempty"`
	Needs       []Need `json:"needs"`  // in the order in which they are made
	CoreS       int    `json:"core_s"` // rough seconds of one core to measure it
	// Optional arms are measured where they are named or asked for.
	Optional bool `json:"optional,omitempty"`
	// Spends is what is declared to be spent on learning, in words.
	Spends string `json:"spends,omitempty"`

	// Key returns a hash of all that the result depends on.
	Key func() string `json:"-"`
	// New returns an empty result, that a stored one is read into.
	New func() Result `json:"-"`
	// Check, if set, returns what is wrong with a stored result of that key: files are damaged, or edited.
	Check func(Result) error `json:"-"`
	// Measure returns the result.
	Measure func(context.Context) (Result, error) `json:"-"`
}

// Result is what an arm measures. It is stored as JSON.
type Result interface {
	ResultKey() string // of all that it depends on, as the arm's
}

// ResultPath is where an arm's result is in a set's folder.
func (a *Arm) ResultPath() string { return filepath.Join(a.Name, "result.json") }

// PartialPath is where an arm may keep what it has measured so far. It is removed once the result is stored.
func (a *Arm) PartialPath() string { return filepath.Join(a.Name, "partial.json") }

// Set is a comparison in a folder.
type Set struct {
	Command string // of offline that measures it
	Kind    string // what it is, one of kinds; also the name of the file that has the key
	Dir     string
	Key     string // its configuration, which all of its folders have in common
	Arms    []Arm
	Log     io.Writer
	// OnlyResults is whether a report needs no more than the results: merged folders may be without what
	// these rest on.
	OnlyResults bool

	started time.Time
}

// kinds of sets: each refuses the folders of the others, where an arm may have the same name.
var kinds = []string{"study", "comparison"}

// NewSet returns a set, whose log begins now.
func NewSet(command, kind, dir string, config any, arms []Arm, log io.Writer) *Set {
	raw, err := json.MarshalIndent(config, "", "  ")
	if err != nil {
		panic(err) // a checked configuration
	}
	return &Set{Command: command, Kind: kind, Dir: dir, Key: string(raw), Arms: arms, Log: log, started: time.Now()}
}

// KeyFile holds the key, in every folder of a set.
func (s *Set) KeyFile() string { return s.Kind + ".json" }

// Logf prints a line with the time since the set was opened.
func (s *Set) Logf(format string, a ...any) {
	fmt.Fprintf(s.Log, "[%s] %s\n", time.Since(s.started).Round(time.Second), fmt.Sprintf(format, a...))
}

// measure measures arms, unless that has been done. What it finds wrong with the folder and with
// the results that it will read, before it begins, is bad input.
func (s *Set) measure(ctx context.Context, arms, read []Arm) error {
	if err := s.check(s.Dir, read); err != nil && !errors.Is(err, os.ErrNotExist) {
		return cli.BadInput(err)
	}
	if err := s.claim(); err != nil {
		return err
	}
	for i := range arms {
		a := &arms[i]
		err := s.ensureMeasured(ctx, a, fmt.Sprintf("%d/%d", i+1, len(arms)))
		if command.Ended(ctx, err) {
			return command.Interrupted(ctx, " in arm %s; the same command with -resume continues", a.Name)
		} else if err != nil {
			return fmt.Errorf("%s arm %s: %w", s.Kind, a.Name, err)
		}
	}
	return nil
}

// ensureMeasured measures one arm, unless that has been done.
func (s *Set) ensureMeasured(ctx context.Context, a *Arm, count string) error {
	if _, err := s.Read(s.Dir, a); err == nil {
		s.Logf("%s %s: done before", count, a.Name)
		return nil
	} else if !errors.Is(err, os.ErrNotExist) {
		return err
	}
	s.Logf("%s %s: %s", count, a.Name, a.Description)
	r, err := a.Measure(ctx)
	if err != nil {
		return err
	}
	if err := command.ReplaceJSON(filepath.Join(s.Dir, a.ResultPath()), "", r); err != nil {
		return err
	}
	if err := os.Remove(filepath.Join(s.Dir, a.PartialPath())); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// check returns what is wrong with a folder and with the arms' results in it:
// os.ErrNotExist if it holds no such set.
func (s *Set) check(dir string, arms []Arm) error {
	path := filepath.Join(dir, s.KeyFile())
	have, noKey := os.ReadFile(path)
	switch {
	case noKey == nil && !json.Valid(have):
		return fmt.Errorf("%s is damaged: write it anew from another folder of this %s, or give another -out", path, s.Kind)
	case noKey == nil && string(have) != s.Key:
		return fmt.Errorf("%s is a %s with another configuration: give that one, or another -out", path, s.Kind)
	}
	for _, kind := range kinds {
		if _, err := os.Stat(filepath.Join(dir, kind+".json")); err == nil && kind != s.Kind {
			return fmt.Errorf("%s holds a %s, not a %s: give another -out", dir, kind, s.Kind)
		}
	}
	for i := range arms {
		if _, err := s.Read(dir, &arms[i]); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return noKey
}

// claim keeps two sets from sharing a folder.
func (s *Set) claim() error {
	path := filepath.Join(s.Dir, s.KeyFile())
	return WriteOnce(path, s.Key, func(string) error { return fmt.Errorf("%s became another %s's", path, s.Kind) })
}

// WriteOnce writes a file that does not exist. Of one that exists it refuses another
// content, with the error of mismatch.
func WriteOnce(path, want string, mismatch func(have string) error) error {
	have, err := os.ReadFile(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return command.ReplaceFile(path, func(w io.Writer) error { _, err := io.WriteString(w, want); return err })
	case err != nil:
		return err
	case string(have) != want:
		return mismatch(string(have))
	}
	return nil
}

// Read returns an arm's result in a set's folder, os.ErrNotExist if there is none. One of another
// version, configuration or checkpoint is refused: it may have taken hours.
func (s *Set) Read(dir string, a *Arm) (Result, error) {
	path := filepath.Join(dir, a.ResultPath())
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	r := a.New()
	err = json.Unmarshal(raw, r)
	if key := r.ResultKey(); key != a.Key() && (err == nil || key != "") { // the fields of another version may have other types
		return nil, fmt.Errorf("%s was measured with other flags or another checkpoint than these, or by another version of the program: give the same ones, or remove it, and the arm is measured again", path)
	}
	if err == nil && a.Check != nil {
		err = a.Check(r)
	}
	if err != nil {
		return nil, fmt.Errorf("%s is damaged (%w): remove it, and the arm is measured again", path, err)
	}
	return r, nil
}

// has reports whether a folder that has been checked holds an arm's result.
func (a *Arm) has(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, a.ResultPath()))
	return err == nil
}
