// Package experiment measures arms, each once, into a folder: the rows of a comparison
// that is too long for one sitting, or for one machine.
//
// An arm is a policy and the protocols that it is flown through: worlds, links, requests and
// seeds. Inputs: arms, and a folder. Outputs: one JSON file for each arm. The study and the
// paper's tables are such sets, and write their reports from these files alone.
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
	"runtime"
	"slices"
	"time"

	"prefdt/configs/cli"
	"prefdt/offline/command"
	"prefdt/offline/pareto"
)

// Need is a file or folder, relative to the set's folder, that is made before an arm is
// measured. Arms share it.
type Need struct {
	Path  string `json:"path"`
	CoreS int    `json:"core_s"` // seconds of one core that it took; 0: not measured yet
}

// Arm is one row of a comparison: a policy, and what it is flown through.
type Arm struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	// TrainingRun names what arms share and one process makes; "": nothing.
	TrainingRun string `json:"run,omitempty"`
	Needs       []Need `json:"needs"`  // in the order in which they are made
	CoreS       int    `json:"core_s"` // seconds of one core that its flights took; 0: not measured yet
	// Optional arms are measured where they are named.
	Optional bool `json:"optional,omitempty"`
	// Spends is what is declared to be spent on learning, in words.
	Spends string `json:"spends,omitempty"`

	// Key returns a hash of all that the result depends on.
	Key func() string `json:"-"`
	// Policy makes the policy ready to fly: it trains, or searches, what that needs.
	Policy func(context.Context) (*Policy, error) `json:"-"`
	// Recalibrated is the number of settings that are to be even over the front it achieves; 0: as the policy has them.
	Recalibrated int `json:"-"`
	// Protocols are what the policy is flown through, each for a sweep.
	Protocols func(*Policy) []Protocol `json:"-"`
	// BudgetSeeds are those that totals in joules are flown on; none: it takes no totals.
	BudgetSeeds []uint64 `json:"-"`
}

func (a *Arm) resultPath() string { return filepath.Join(a.Name, "result.json") }

// partialPath is where an arm keeps what it has flown so far. It is removed once the result is stored.
func (a *Arm) partialPath() string { return filepath.Join(a.Name, "partial.json") }

// Set is a comparison in a folder.
type Set struct {
	Command string // of offline that measures it
	Kind    string // what it is, one of kinds; also the name of the file that has the key
	Dir     string
	Key     string // its configuration, which all of its folders have in common
	Arms    []Arm
	Log     io.Writer
	Workers int

	CalibrationSeeds int  // that settings are calibrated on
	Rounded          bool // outcomes, for files that are to be kept
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
	return &Set{Command: command, Kind: kind, Dir: dir, Key: string(raw), Arms: arms, Log: log, Workers: runtime.GOMAXPROCS(0),
		started: time.Now()}
}

// KeyFile holds the key, in every folder of a set.
func (s *Set) KeyFile() string { return keyFile(s.Kind) }

func keyFile(kind string) string { return kind + ".json" }

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
	r, err := s.Fly(ctx, a)
	if err != nil {
		return err
	}
	if err := command.ReplaceJSON(filepath.Join(s.Dir, a.resultPath()), "", r); err != nil {
		return err
	}
	s.Logf("%s %s: took %.0f s of a core", count, a.Name, r.Record.CPUS)
	if err := os.Remove(filepath.Join(s.Dir, a.partialPath())); !errors.Is(err, os.ErrNotExist) {
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
func (s *Set) Read(dir string, a *Arm) (*Result, error) {
	path := filepath.Join(dir, a.resultPath())
	r := &Result{}
	err := command.ReadJSON(path, r)
	if errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	if r.Key != a.Key() && (err == nil || r.Key != "") { // the fields of another version may have other types
		return nil, fmt.Errorf("%s was measured with other flags or another checkpoint than these, or by another version of the program: "+
			"give the same ones, or remove it, and the arm is measured again", path)
	}
	if err == nil {
		err = a.check(r)
	}
	if err != nil {
		return nil, fmt.Errorf("%s is damaged (%w): remove it, and the arm is measured again", path, err)
	}
	return r, nil
}

// ReadAny reads an arm's result in a folder of whatever configuration, for other reports to show beside their own.
func ReadAny(dir, arm string) (*Result, error) {
	path := filepath.Join(dir, arm, "result.json")
	r := &Result{}
	err := command.ReadJSON(path, r)
	if errors.Is(err, os.ErrNotExist) {
		return nil, err
	} else if err == nil {
		err = r.Record.check()
	}
	for _, x := range r.Sweeps {
		if err == nil {
			err = pareto.CheckOutcomes(x.Settings, x.Outcomes, x.flown())
		}
	}
	for _, b := range r.Budgets {
		if err == nil {
			err = pareto.CheckOutcomes([]float64{b.BudgetJ}, [][]pareto.Point{b.Outcomes}, max(len(b.Outcomes), 1))
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%s is damaged: %w", path, err)
	}
	return r, nil
}

// Results returns what has been measured, by arm.
func (s *Set) Results() (map[string]*Result, error) {
	all := map[string]*Result{}
	for i := range s.Arms {
		r, err := s.Read(s.Dir, &s.Arms[i])
		switch {
		case err == nil:
			all[s.Arms[i].Name] = r
		case !errors.Is(err, os.ErrNotExist):
			return nil, err
		}
	}
	return all, nil
}

// Arm returns an arm by name.
func (s *Set) Arm(name string) *Arm {
	return &s.Arms[slices.IndexFunc(s.Arms, func(a Arm) bool { return a.Name == name })]
}

// has reports whether a folder that has been checked holds an arm's result.
func (a *Arm) has(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, a.resultPath()))
	return err == nil
}

// Key is a hash of all that a result depends on.
func Key(parts ...any) string {
	return command.Hash(parts)
}

// Costs are seconds of one core that arms and their needs took, by name and path, as the log of a whole run has them.
// They deal arms to shards, and tell how long a job takes; no result depends on them.
type Costs map[string]int

// ReadCosts reads them, as JSON.
func ReadCosts(raw []byte) (c Costs) {
	if err := json.Unmarshal(raw, &c); err != nil {
		panic(err) // a file of the program's own
	}
	return c
}
