package mutants

import (
	"context"
	_ "embed" // caught.csv
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"prefdt/simbridge/chaos"
)

// Config is a run.
type Config struct {
	Root       string   // of the repository
	Checkpoint string   // folder of the policy
	Out        string   // folder for programs, logs and results
	Only       []string // ids; none: all
	Sample     int      // so many, spread over those that their first mission caught before; 0: all
	Jobs       int      // faults at once
	Seed       uint64   // of the missions
	Most       int      // missions for one fault
	Tests      bool     // also run the unit tests where the missions are silent
}

const (
	drawnMissions = 1200 // of which those that fit a fault are flown
	slots         = 40
	aircraft      = 2
)

// missions is the configuration of the missions of a kind.
func (c *Config) missions(kind chaos.Kind, leader, folder string) chaos.Config {
	return chaos.Config{
		Missions: drawnMissions, Seed: c.Seed, Kind: kind, Slots: slots, Speed: 1, Aircraft: aircraft, Jobs: 1,
		Flyer: leader, Checkpoint: c.Checkpoint, Out: folder,
	}
}

// Caught is what became of one fault.
type Caught struct {
	ID      string
	Rule    string // of the judge that caught it; empty: none
	Kind    string // of the missions in which it did
	Mission int    // of those; -1: none
	Flown   int    // missions until then
	Test    string // that caught it; empty: none, or none was run
}

func (c Caught) record() []string {
	return []string{c.ID, c.Rule, c.Kind, strconv.Itoa(c.Mission), strconv.Itoa(c.Flown), c.Test}
}

var header = []string{"fault", "rule", "kind", "mission", "missions_flown", "test"}

// String says what caught it.
func (c Caught) String() string {
	switch {
	case c.Rule != "":
		return fmt.Sprintf("%s, in %s mission %d, the %d. tried", c.Rule, c.Kind, c.Mission, c.Flown)
	case c.Test != "":
		return fmt.Sprintf("%s, after %d missions in silence", c.Test, c.Flown)
	}
	return fmt.Sprintf("NOT CAUGHT in %d missions", c.Flown)
}

// runner is a run in progress.
type runner struct {
	Config
	baseline baseline
	plans    map[chaos.Kind]chaos.Plans
	mutex    sync.Mutex // of results and progress
	testing  sync.Mutex // one suite at a time: they fly, too
	results  []Caught
	progress io.Writer
}

// Run plants the faults and returns what became of each, in their order. Results stand
// in Out/caught.csv as they come, and those that stand there already are not sought anew.
func Run(ctx context.Context, c Config, progress io.Writer) ([]Caught, error) {
	faults, err := c.choose()
	if err != nil {
		return nil, err
	}
	for _, f := range faults { // before hours are spent
		if _, err := f.apply(c.Root); err != nil {
			return nil, err
		}
	}
	if err := os.MkdirAll(c.Out, 0o755); err != nil {
		return nil, err
	}
	r := &runner{Config: c, progress: progress, plans: map[chaos.Kind]chaos.Plans{}}
	for _, kind := range chaos.Kinds {
		conf := c.missions(kind, "leader", "")
		r.plans[kind] = chaos.NewPlans(&conf)
	}
	r.results, err = ReadCaught(filepath.Join(c.Out, "caught.csv"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	err = nil
	r.baseline = baseline{config: c, flown: map[flight]func() ([]string, error){}}
	if err := r.baseline.open(ctx); err != nil {
		return nil, err
	}
	left := slices.DeleteFunc(slices.Clone(faults), func(f Fault) bool {
		return slices.ContainsFunc(r.results, func(x Caught) bool { return x.ID == f.ID })
	})
	err = each(left, c.Jobs, func(f Fault) error { return r.seek(ctx, f) })
	var ordered []Caught
	for _, f := range faults {
		if k := slices.IndexFunc(r.results, func(x Caught) bool { return x.ID == f.ID }); k >= 0 {
			ordered = append(ordered, r.results[k])
		}
	}
	return ordered, err
}

// each calls f for all faults, so many at once, and returns the first error.
func each(faults []Fault, jobs int, f func(Fault) error) error {
	next, failed := make(chan Fault), make(chan error, jobs)
	var workers sync.WaitGroup
	for range jobs {
		workers.Go(func() {
			for x := range next {
				if err := f(x); err != nil {
					failed <- err
					return
				}
			}
		})
	}
	var err error
	for _, x := range faults {
		select {
		case next <- x:
		case err = <-failed:
		}
		if err != nil {
			break
		}
	}
	close(next)
	workers.Wait()
	select {
	case err = <-failed:
	default:
	}
	return err
}

// program is the leader with a fault.
func (r *runner) program(f Fault) (string, error) {
	return filepath.Abs(filepath.Join(r.Out, "leader-"+f.ID))
}

// build builds it.
func (r *runner) build(ctx context.Context, f Fault) error {
	mutated, err := f.apply(r.Root)
	if err != nil {
		return err
	}
	leader, err := r.program(f)
	if err != nil {
		return err
	}
	if err := chaos.BuildFlyer(ctx, leader, map[string][]byte{f.File: mutated}); err != nil {
		return fmt.Errorf("fault %s: %w", f.ID, err)
	}
	return nil
}

// choose returns the faults of the run.
func (c *Config) choose() (faults []Fault, err error) {
	all, err := Load()
	if err != nil {
		return nil, err
	}
	for _, id := range c.Only {
		k := slices.IndexFunc(all, func(f Fault) bool { return f.ID == id })
		if k < 0 {
			return nil, fmt.Errorf("there is no fault %q", id)
		}
		faults = append(faults, all[k])
	}
	if c.Sample == 0 && len(c.Only) == 0 {
		return all, nil
	}
	if c.Sample > 0 {
		var known []Caught
		if known, err = Committed(); err != nil {
			return nil, err
		}
		known = slices.DeleteFunc(known, func(x Caught) bool { return x.Rule == "" || x.Flown > 1 })
		for i := range min(c.Sample, len(known)) {
			x := known[i*len(known)/min(c.Sample, len(known))]
			if k := slices.IndexFunc(all, func(f Fault) bool { return f.ID == x.ID }); k >= 0 {
				faults = append(faults, all[k])
			}
		}
	}
	return faults, nil
}

// seek plants one fault and flies missions until one of them shows it.
func (r *runner) seek(ctx context.Context, f Fault) error {
	leader, err := r.program(f)
	if err != nil {
		return err
	}
	folder := filepath.Join(r.Out, f.ID)
	began, caught := time.Now(), Caught{ID: f.ID, Mission: -1}
	if len(f.kinds()) > 0 {
		if err := r.build(ctx, f); err != nil {
			return err
		}
	}
	for _, x := range r.fitting(f) {
		caught.Flown++
		conf := r.missions(x.kind, leader, folder)
		if caught.Rule, err = r.shown(ctx, conf, x); err != nil {
			return err
		}
		if caught.Rule != "" {
			caught.Kind, caught.Mission = string(x.kind), x.mission
			break
		}
	}
	if caught.Rule == "" && r.Tests {
		if caught.Test, err = r.runTests(ctx, f); err != nil {
			return err
		}
	}
	os.Remove(leader)
	os.RemoveAll(folder)
	return r.add(caught, time.Since(began))
}

// flight is a mission of a kind.
type flight struct {
	kind    chaos.Kind
	mission int
}

// fitting are the missions to fly with a fault, of its kinds in turn.
func (r *runner) fitting(f Fault) (all []flight) {
	perKind := map[chaos.Kind][]int{}
	for _, kind := range f.kinds() {
		situations := f.Missions
		if kind == chaos.Packs { // whatever a fault of the packs needs, these have
			situations = append(slices.Clone(situations), "any")
		}
		perKind[kind] = r.plans[kind].Fitting(situations, r.Most)
	}
	for k := 0; len(all) < r.Most && k < r.Most; k++ {
		for _, kind := range f.kinds() {
			if k < len(perKind[kind]) && len(all) < r.Most {
				all = append(all, flight{kind, perKind[kind][k]})
			}
		}
	}
	return all
}

// flyOne flies the one mission of a configuration. One that hangs is an error: that is the
// simulator's fault, whatever the leader does.
func flyOne(ctx context.Context, conf chaos.Config) (chaos.Result, error) {
	result, err := chaos.Run(ctx, conf, io.Discard)
	if err == nil && result.Outcomes[0].Hung != "" {
		err = fmt.Errorf("mission %d %s", result.Outcomes[0].Mission, result.Outcomes[0].Hung)
	}
	return result, err
}

// shown returns a rule that the leader of a configuration breaks in a mission, and the leader without
// a planted fault does not; empty: there is none.
func (r *runner) shown(ctx context.Context, conf chaos.Config, x flight) (rule string, err error) {
	conf.Only = []int{x.mission}
	result, err := flyOne(ctx, conf)
	if err != nil || len(result.Outcomes[0].Broken) == 0 {
		return "", err
	}
	usual, err := r.baseline.broken(ctx, x)
	if err != nil {
		return "", err
	}
	for _, rule := range result.Outcomes[0].Broken {
		if !slices.Contains(usual, rule) {
			return rule, nil
		}
	}
	return "", nil
}

func (r *runner) add(x Caught, took time.Duration) error {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.results = append(r.results, x)
	fmt.Fprintf(r.progress, "%-40s %5.0f s  %v\n", x.ID, took.Seconds(), x)
	return WriteCaught(filepath.Join(r.Out, "caught.csv"), r.results)
}

// runTests runs a fault's unit tests, and returns the package and the first test that
// failed; empty: none did.
func (r *runner) runTests(ctx context.Context, f Fault) (string, error) {
	r.testing.Lock()
	defer r.testing.Unlock()
	mutated, err := f.apply(r.Root)
	if err != nil {
		return "", err
	}
	folder, err := os.MkdirTemp("", "mutant")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(folder)
	root, err := filepath.Abs(r.Root)
	if err != nil {
		return "", err
	}
	overlay, err := chaos.WriteOverlay(folder, map[string][]byte{filepath.Join(root, f.File): mutated})
	if err != nil {
		return "", err
	}
	for _, pkg := range f.Tests {
		command := exec.CommandContext(ctx, "go", append([]string{"test", "-overlay", overlay}, strings.Fields(pkg)...)...)
		command.Dir = root
		command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // the test's program has no other end
		command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGKILL) }
		out, err := command.CombinedOutput()
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
		if err == nil {
			continue
		}
		if m := failedTest.FindSubmatch(out); m != nil {
			return strings.Fields(pkg)[0] + " " + string(m[1]), nil
		}
		return "", fmt.Errorf("fault %s: go test %s: %s", f.ID, pkg, lastLine(out))
	}
	return "", nil
}

var failedTest = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)|^panic: test timed out.*running tests:\s+(\S+)`)

func lastLine(out []byte) string {
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	return lines[len(lines)-1]
}

// baseline is what the leader without a planted fault breaks in each mission.
type baseline struct {
	config Config
	leader string
	mutex  sync.Mutex
	flown  map[flight]func() ([]string, error) // each is flown once
}

func (b *baseline) open(ctx context.Context) (err error) {
	if b.leader, err = filepath.Abs(filepath.Join(b.config.Out, "leader")); err != nil {
		return err
	}
	return chaos.BuildFlyer(ctx, b.leader, nil)
}

// broken returns the rules that it breaks in a mission.
func (b *baseline) broken(ctx context.Context, x flight) ([]string, error) {
	b.mutex.Lock()
	flown := b.flown[x]
	if flown == nil {
		flown = sync.OnceValues(func() ([]string, error) {
			conf := b.config.missions(x.kind, b.leader, filepath.Join(b.config.Out, "unplanted"))
			conf.Only = []int{x.mission}
			result, err := flyOne(ctx, conf)
			if err != nil {
				return nil, err
			}
			return result.Outcomes[0].Broken, nil
		})
		b.flown[x] = flown
	}
	b.mutex.Unlock()
	return flown()
}

// WriteCaught writes results as CSV.
func WriteCaught(path string, results []Caught) error {
	rows := [][]string{header}
	for _, x := range results {
		rows = append(rows, x.record())
	}
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(csv.NewWriter(file).WriteAll(rows), file.Close())
}

// ReadCaught reads them.
func ReadCaught(path string) ([]Caught, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return decodeCaught(file)
}

func decodeCaught(from io.Reader) (results []Caught, err error) {
	rows, err := csv.NewReader(from).ReadAll()
	if err != nil || len(rows) == 0 || !slices.Equal(rows[0], header) {
		return nil, fmt.Errorf("results of planted faults: want a CSV file with the columns %v (%v)", header, err)
	}
	for _, row := range rows[1:] {
		x := Caught{ID: row[0], Rule: row[1], Kind: row[2], Test: row[5]}
		x.Mission, err = strconv.Atoi(row[3])
		if err == nil {
			x.Flown, err = strconv.Atoi(row[4])
		}
		if err != nil {
			return nil, fmt.Errorf("results of planted faults: %w", err)
		}
		results = append(results, x)
	}
	return results, nil
}

//go:embed caught.csv
var committed string

// Committed are the results that are kept in the repository.
func Committed() ([]Caught, error) { return decodeCaught(strings.NewReader(committed)) }
