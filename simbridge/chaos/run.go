package chaos

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"prefdt/inference/checkpoint"
	"prefdt/simbridge/judge"
)

// resultsFile, in a run's folder, has a line of JSON for each mission, see [Flown]. A run that is
// interrupted goes on from it.
const resultsFile = "results.jsonl"

// Flown is how one mission went.
type Flown struct {
	Mission   int    `json:"mission"`
	Seed      uint64 `json:"seed"`
	Kind      Kind   `json:"kind"`
	Slots     int    `json:"slots"`
	Aircraft  int    `json:"aircraft"`
	Processes bool   `json:"processes,omitempty"`
	Program   string `json:"program"` // digest of what flew it

	Plan       string         `json:"plan"`
	Faults     []FaultKind    `json:"faults"`
	First      coverageCell   `json:"first"`
	Met        []coverageCell `json:"met"`
	Broken     []string       `json:"broken"`      // rules, but for known findings
	KnownRules []string       `json:"known_rules"` // that were broken, and are known findings
	Known      []string       `json:"known"`       // with what was found
	Failure    string         `json:"failure"`     // empty: it did not fail
	Hung       bool           `json:"hung,omitempty"`
	Resumed    bool           `json:"resumed"`   // every aircraft was under the leader's command in the last slot
	TookS      float64        `json:"took_s"`    // of this machine
	MissionS   float64        `json:"mission_s"` // of its own time
	Report     judge.Report   `json:"report"`    // by the program that has it flown
}

// is whether it is a mission of a run.
func (f *Flown) is(c *Config, mission int, program string) bool {
	return f.Mission == mission && f.Seed == c.Seed && f.Kind == c.Kind && f.Slots == c.Slots && f.Aircraft == c.Aircraft &&
		f.Processes == c.Processes && f.Program == program
}

// wallLimit is how long a mission may take of this machine's time: what a slow one takes in virtual
// time many times over.
const wallLimit = 15 * time.Minute

// Run flies the missions and prints a line for each, in their order. With Resume those that an
// earlier run of the same program has in its results are not flown again.
func Run(ctx context.Context, c Config, progress io.Writer) (Result, error) {
	r := Result{Faults: map[FaultKind]int{}, FaultsByState: coverage{}, planned: coverage{}, Failures: []Failure{},
		Broken: map[string]int{}, Known: map[string]int{}, MinSeparationM: 1e9}
	if err := c.Check(); err != nil {
		return r, err
	}
	began := time.Now()
	program, err := c.digest()
	if err != nil {
		return r, err
	}
	frozen, err := checkpoint.Load(c.Checkpoint)
	if err != nil {
		return r, err
	}
	if err := os.MkdirAll(c.Out, 0o755); err != nil {
		return r, err
	}
	path := filepath.Join(c.Out, resultsFile)
	before, whole := []Flown(nil), int64(0)
	if c.Resume {
		before, whole = readResults(path)
	}
	results, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return r, err
	}
	defer results.Close()
	if err := results.Truncate(whole); err != nil { // what comes would be appended to a line that was cut off
		return r, err
	}
	over := make([]chan *Flown, c.Missions) // nil: it is not asked for
	next := make(chan int, c.Missions)
	for k := range over {
		if len(c.Only) > 0 && !slices.Contains(c.Only, k) {
			continue
		}
		over[k] = make(chan *Flown, 1)
		if i := slices.IndexFunc(before, func(f Flown) bool { return f.is(&c, k, program) }); i >= 0 {
			over[k] <- &before[i]
			continue
		}
		next <- k
	}
	close(next)
	var jobs sync.WaitGroup
	defer jobs.Wait() // an interrupted run leaves no program behind
	for range c.Jobs {
		jobs.Go(func() {
			for k := range next {
				if ctx.Err() != nil {
					over[k] <- nil
					continue
				}
				flown := c.start(ctx, k, program, frozen)
				if line, err := json.Marshal(flown); err == nil && ctx.Err() == nil {
					results.Write(append(line, '\n'))
				}
				over[k] <- flown
			}
		})
	}
	for _, flight := range over {
		if flight == nil {
			continue
		}
		flown := <-flight
		if ctx.Err() != nil {
			return r, fmt.Errorf("interrupted: %w; -resume goes on", ctx.Err())
		}
		r.add(flown)
		verdict := "ended safely"
		switch {
		case flown.Failure != "":
			verdict = "FAILED: " + flown.Failure
		case flown.Resumed:
			verdict = "resumed"
		}
		for _, finding := range flown.Known {
			verdict += "; known: " + finding
		}
		fmt.Fprintf(progress, "mission %3d  %4.0f s in %4.1f s  %-58s ledger off by %4.0f J  %s\n", flown.Mission, flown.MissionS,
			flown.TookS, flown.Plan, flown.Report.Figures.LedgerErrorJ, verdict)
	}
	r.WallS = time.Since(began).Seconds()
	r.Uncovered = r.planned.missingIn(r.FaultsByState)
	if r.Missions >= fullRunMissions {
		r.Uncovered = r.FaultsByState.uncovered(&c)
	}
	fmt.Fprintf(progress, "\n%s\n", r.RuleActivity())
	fmt.Fprintf(progress, "%s%d missions in %.0f s, %d at a time\n", r.FaultsByState, r.Missions, r.WallS, c.Jobs)
	return r, nil
}

// digest is of the programs that fly the missions.
func (c *Config) digest() (string, error) {
	programs := []string{c.Flyer}
	if c.Processes {
		programs = append(programs, c.Leader)
	}
	sum := sha256.New()
	for _, path := range programs {
		file, err := os.Open(path)
		if err != nil {
			return "", err
		}
		_, err = io.Copy(sum, file)
		file.Close()
		if err != nil {
			return "", err
		}
	}
	const digits = 16
	return hex.EncodeToString(sum.Sum(nil))[:digits], nil
}

// readResults reads the results of an earlier run, and how long its whole lines are: the last one
// may have been cut off.
func readResults(path string) (all []Flown, whole int64) {
	raw, _ := os.ReadFile(path) // none: there was no earlier run
	for line := range bytes.Lines(raw) {
		if line[len(line)-1] != '\n' {
			break
		}
		whole += int64(len(line))
		var f Flown
		if json.Unmarshal(line, &f) == nil {
			all = append(all, f)
		}
	}
	return all, whole
}

// order is what the program that flies a mission is told.
type order struct {
	Config  Config
	Mission int
}

const (
	orderFile  = "order.json"
	flownFile  = "flown.json"
	outputFile = "output.txt"
)

// start has a mission flown by a process of its own. Its folder is kept if it failed.
func (c *Config) start(ctx context.Context, mission int, program string, frozen *checkpoint.Checkpoint) *Flown {
	folder := c.folder(mission)
	began := time.Now()
	f, err := c.fly(ctx, mission, folder)
	if err == nil {
		err = c.judge(f, drawPlan(c, mission), folder, frozen)
	}
	if err != nil {
		p := drawPlan(c, mission)
		f = &Flown{Plan: p.String(), First: p.Faults[0].coverageCell, Failure: err.Error(), Hung: errors.Is(err, errHung)}
	}
	f.Mission, f.Program, f.Processes = mission, program, c.Processes
	f.Seed, f.Kind, f.Slots, f.Aircraft = c.Seed, c.Kind, c.Slots, c.Aircraft
	f.TookS = time.Since(began).Seconds()
	if f.Failure == "" && !c.Keep {
		os.RemoveAll(folder)
	}
	return f
}

func (c *Config) folder(mission int) string {
	return filepath.Join(c.Out, fmt.Sprintf("mission-%d", mission))
}

var errHung = errors.New("hung")

// fly flies a mission in a folder of its own.
func (c *Config) fly(ctx context.Context, mission int, folder string) (*Flown, error) {
	if err := cmp.Or(os.RemoveAll(folder), os.MkdirAll(folder, 0o755)); err != nil {
		return nil, err
	}
	raw, err := json.Marshal(order{*c, mission})
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(folder, orderFile), raw, 0o644); err != nil {
		return nil, err
	}
	output, err := os.Create(filepath.Join(folder, outputFile))
	if err != nil {
		return nil, err
	}
	defer output.Close()
	limited, cancel := context.WithTimeout(ctx, wallLimit)
	defer cancel()
	command := exec.CommandContext(limited, c.Flyer, MissionCommand, folder)
	command.Stdout, command.Stderr = output, output
	command.Cancel = func() error { return command.Process.Signal(syscall.SIGQUIT) } // Go prints the stacks of all goroutines
	command.WaitDelay = 5 * time.Second
	if !c.Processes { // one mission computes one thing after the other
		command.Env = append(os.Environ(), "GOMAXPROCS=1", "GOGC=400")
	}
	err = command.Run()
	raw, missing := os.ReadFile(filepath.Join(folder, flownFile))
	switch {
	case limited.Err() != nil && ctx.Err() == nil:
		return nil, fmt.Errorf("%w: not over within %v, see %s", errHung, wallLimit, output.Name())
	case missing != nil:
		return nil, fmt.Errorf("the program that flew it ended, %w: %s (see %s)", cmp.Or(err, missing), firstLine(output.Name()),
			output.Name())
	}
	var f Flown
	if err := json.Unmarshal(raw, &f); err != nil {
		return nil, err
	}
	return &f, nil
}

// judge judges the mission's record, which a program may have written that has a planted fault: this one has none.
func (c *Config) judge(f *Flown, p plan, folder string, frozen *checkpoint.Checkpoint) error {
	if f.Failure != "" {
		return nil
	}
	report, err := judge.Judge(filepath.Join(folder, recordFile), frozen)
	if err != nil {
		return err
	}
	f.Report = *report
	var reasons []string
	for _, x := range report.Findings {
		switch issue := p.knownIssue(x.Rule); {
		case x.Broken == 0 || c.Processes && judge.IsTimed(x.Rule):
		case issue != "":
			f.KnownRules = append(f.KnownRules, x.Rule)
			f.Known = append(f.Known, fmt.Sprintf("%s (%s): %s", x.Rule, issue, x.First))
		default:
			f.Broken = append(f.Broken, x.Rule)
			reasons = append(reasons, x.Rule+": "+x.First)
		}
	}
	f.Failure = strings.Join(reasons, "; ")
	return nil
}

// firstLine is the first line of a file that says something.
func firstLine(path string) string {
	raw, _ := os.ReadFile(path)
	for line := range strings.Lines(string(raw)) {
		if line = strings.TrimSpace(line); line != "" {
			return line
		}
	}
	return "without a word"
}
