package experiment

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"prefdt/configs/cli"
	"prefdt/offline/baseline"
	"prefdt/offline/command"
	"prefdt/offline/methods"
	"prefdt/offline/offlinetest"
	"prefdt/offline/pareto"
	"prefdt/offline/rollout"
	"prefdt/offline/seeds"
	"prefdt/simbridge/world"
)

// counting returns a set of arms of which each notes in a list that it was measured, and flies the even pacer.
func counting(dir string, done *[]string, log io.Writer) *Set {
	var arms []Arm
	for _, x := range []struct {
		name, run string
		costS     int
		optional  bool
	}{{"a", "one", 5, false}, {"b", "", 3, false}, {"c", "one", 1, false}, {"d", "", 4, false}, {"e", "two", 9, true}} {
		arms = append(arms, Arm{
			Name: x.name, Description: "counts", TrainingRun: x.run, CoreS: x.costS, Optional: x.optional,
			Key: func() string { return "key of " + x.name },
			Policy: func(ctx context.Context) (*Policy, error) {
				*done = append(*done, x.name)
				return ready(evenPacer), ctx.Err()
			},
			Protocols: func(p *Policy) []Protocol {
				return []Protocol{{Name: Nominal, Settings: p.Settings, Request: Target, Seeds: seeds.List(seeds.CalibrationFirst, 1)}}
			},
		})
	}
	return NewSet("count", "study", dir, map[string]int{"seeds": 3}, arms, log)
}

// ready is a policy that flies one total.
func ready(newPolicy func(*world.Config) rollout.Policy) *Policy {
	return &Policy{World: world.Standard(), Settings: []float64{33e3}, Runner: func(c world.Config, l rollout.ReportLink) (*rollout.Runner,
		error) {
		return rollout.NewWithPolicy(newPolicy(&c), (&methods.Run{World: c}).GoalConstants(), c, l)
	}}
}

func evenPacer(c *world.Config) rollout.Policy { return baseline.NewEven(&c.Physics) }

func noReport(context.Context, bool) error { return nil }

// A set ended in the middle goes on with the arms that are missing, and measures none twice.
func TestRunContinues(t *testing.T) {
	dir := t.TempDir()
	var done []string
	ctx, stop := context.WithCancel(t.Context())
	s := counting(dir, &done, &offlinetest.Log{Text: " b: ", Stop: stop})
	err := s.Run(ctx, Part{}, noReport)
	call := cli.NewCall("offline count", nil, io.Discard, io.Discard)
	if status := call.Exit(err); status != cli.ExitResumable ||
		err.Error() != "interrupted in arm b; the same command with -resume continues" {
		t.Fatalf("status %d, %v", status, err)
	}
	reported := false
	if err := counting(dir, &done, io.Discard).Run(t.Context(), Part{},
		func(context.Context, bool) error { reported = true; return nil }); err != nil || !reported {
		t.Fatalf("%v, reported %v", err, reported)
	}
	if want := []string{"a", "b", "b", "c", "d"}; !slices.Equal(done, want) {
		t.Errorf("measured %v, want %v", done, want)
	}
	if err := counting(dir, &done, io.Discard).Run(t.Context(), Part{Only: []string{"e"}}, noReport); err != nil || len(done) != 6 {
		t.Errorf("an optional arm by its name: %v, %v", err, done)
	}
}

// The dearest run goes first, to the shard that has the least; a run's arms stay together.
func TestSelect(t *testing.T) {
	s := counting("", new([]string), nil)
	for i, want := range []string{"a c", "b d"} { // 6 and 7 s
		arms, err := Select(s.Arms, Part{Shard: command.Shard{I: i, N: 2}})
		var names []string
		for _, a := range arms {
			names = append(names, a.Name)
		}
		if got := strings.Join(names, " "); err != nil || got != want {
			t.Errorf("shard %d has %q, %v, want %q", i, got, err, want)
		}
	}
	if _, err := Select(s.Arms, Part{Only: []string{"a", "z"}}); err == nil || !strings.Contains(err.Error(), `"z"`) {
		t.Errorf("an arm that is not there: %v", err)
	}
}

// Folders of a set's shards make, merged, the folder of one run. Another set's, and results that
// are damaged, of another version or different, are refused before a file is written.
func TestMerge(t *testing.T) {
	whole, merged := t.TempDir(), filepath.Join(t.TempDir(), "merged")
	var done []string
	shards := []string{t.TempDir(), t.TempDir()}
	offlinetest.NoError(t, counting(whole, &done, io.Discard).Run(t.Context(), Part{}, noReport))
	for i, dir := range shards {
		offlinetest.NoError(t, counting(dir, &done, io.Discard).Run(t.Context(), Part{Shard: command.Shard{I: i, N: 2}}, noReport))
	}
	merge := func(out string, folders ...string) error {
		return counting(out, &done, io.Discard).Merge(t.Context(), folders, Part{}, noReport)
	}
	if err := merge(filepath.Join(t.TempDir(), "half"), shards[0]); err == nil ||
		err.Error() != "2 of 4 arms are not measured yet, and the report is without them: b, d" {
		t.Errorf("half of it: %v", err)
	}
	offlinetest.NoError(t, merge(merged, shards...))
	for _, name := range []string{"study.json", "a/result.json", "d/result.json"} {
		x, errX := os.ReadFile(filepath.Join(whole, name))
		y, errY := os.ReadFile(filepath.Join(merged, name))
		if errX != nil || errY != nil || !bytes.Equal(WithoutRecord(x), WithoutRecord(y)) {
			t.Errorf("%s differs: %v, %v", name, errX, errY)
		}
	}
	for name, bad := range map[string]struct{ file, text, want string }{
		"another set's": {"study.json", "{}", "another configuration"},
		"half of a key": {"study.json", `{"seeds":`, "is damaged"},
		"another kind":  {"comparison.json", "{}", "holds a comparison, not a study"},
		"not a result": {"c/result.json", `{"key":"key of c","record":{"version":"version before"}}`,
			"is damaged (\"nominal\" is missing)"},
		"of no record": {"c/result.json", `{"key":"key of c"}`, "is damaged (it has no record of how it was measured)"},
		"half a record": {"c/result.json", `{"key":"key of c","record":{"version":"1"}}`,
			"its record is without a version, world, seeds or time"},
		"damaged":         {"a/result.json", `{"key":"ke`, "is damaged"},
		"another version": {"a/result.json", `{"key":"old"}`, "another version"},
		"another outcome": {"a/result.json", `{"key":"key of a","record":{"version":"version before"},"sweeps":[{"name":"nominal",` +
			`"settings":[1],"outcomes":[[{"delay_s":1,"energy_j":2}]],"speed_mps":[3]}]}`, "differ"},
	} {
		dir := filepath.Join(t.TempDir(), "bad")
		offlinetest.NoError(t, os.CopyFS(dir, os.DirFS(shards[0])))
		offlinetest.Write(t, bad.text, dir, bad.file)
		err := merge(merged, dir)
		call := cli.NewCall("offline count", nil, io.Discard, io.Discard)
		if status := call.Exit(err); status != cli.ExitUsage || !strings.Contains(err.Error(), bad.want) {
			t.Errorf("%s: status %d, %v, want %q", name, status, err, bad.want)
		}
	}
}

// A result says what it was measured with: the version, the world, the seeds of each sweep, what its policy is made of, and what it took.
func TestRecord(t *testing.T) {
	dir := t.TempDir()
	offlinetest.Write(t, "trained", dir, "train", "one", "state")
	manifest := offlinetest.Write(t, "{}", t.TempDir(), "manifest.json")
	s := counting(dir, new([]string), io.Discard)
	a := &s.Arms[0]
	a.Needs = []Need{{Path: "train/one"}}
	a.Policy = func(context.Context) (*Policy, error) {
		p := ready(evenPacer)
		p.Files = []string{manifest}
		return p, nil
	}
	offlinetest.NoError(t, s.ensureMeasured(t.Context(), a, ""))
	r := offlinetest.Must(s.Read(dir, a))(t)
	standard := world.Standard()
	x := r.Record
	if x.Version == "" || x.World != Key(&standard) || x.Seeds[Nominal] != "100000:100001" || x.Ended == "" ||
		x.Kernel == "" || x.WallS < 0 || len(x.Command) == 0 {
		t.Errorf("%+v", x)
	}
	for path, want := range map[string]string{
		manifest:    "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a",
		"train/one": fmt.Sprintf("%x", sha256.Sum256([]byte(fmt.Sprintf("%x  state\n", sha256.Sum256([]byte("trained")))))),
	} {
		if x.Made[path] != want {
			t.Errorf("%s has the hash %s, want %s", path, x.Made[path], want)
		}
	}
	a.Needs[0].Path = "train/none"
	if err := s.record(a, ready(evenPacer), &Result{}); err == nil {
		t.Error("what an arm rests on is not there, and nobody noticed")
	}
}

// Results without the networks that they rest on are merged where the report needs no more.
func TestMergeResultsAlone(t *testing.T) {
	from := t.TempDir()
	offlinetest.NoError(t, counting(from, new([]string), io.Discard).Run(t.Context(), Part{}, noReport))
	for _, alone := range []bool{false, true} {
		set := func(dir string) *Set {
			s := counting(dir, new([]string), io.Discard)
			s.OnlyResults = alone
			for i := range s.Arms {
				s.Arms[i].Needs = []Need{{Path: "train/one"}}
			}
			return s
		}
		out := filepath.Join(t.TempDir(), "out")
		err := set(out).Merge(t.Context(), []string{from}, Part{}, noReport)
		if alone && err != nil || !alone && (err == nil || !strings.Contains(err.Error(), "without what it rests on")) {
			t.Errorf("results alone suffice: %v, %v", alone, err)
		}
	}
}

// What an arm keeps while it is measured is removed after its result is stored.
func TestPartialIsKeptUntilTheResultIs(t *testing.T) {
	dir := t.TempDir()
	s := counting(dir, new([]string), io.Discard)
	path := offlinetest.Write(t, `{"key":"key of a"}`, dir, s.Arms[0].partialPath())
	policy := s.Arms[0].Policy
	s.Arms[0].Policy = func(ctx context.Context) (*Policy, error) {
		offlinetest.NoError(t, os.MkdirAll(filepath.Join(dir, s.Arms[0].resultPath(), "in the way"), 0o755))
		return policy(ctx)
	}
	if err := s.ensureMeasured(t.Context(), &s.Arms[0], ""); err == nil {
		t.Fatal("a result was stored where it cannot be")
	}
	if _, err := os.Stat(path); err != nil {
		t.Errorf("what was flown is gone without a result: %v", err)
	}
	os.RemoveAll(filepath.Join(dir, s.Arms[0].resultPath()))
	s.Arms[0].Policy = policy
	offlinetest.NoError(t, s.ensureMeasured(t.Context(), &s.Arms[0], ""))
	if _, err := os.Stat(path); err == nil {
		t.Error("what was flown is kept beside the result")
	}
}

// countedPolicy counts its flights, and stops a set in one of them.
type countedPolicy struct {
	rollout.Policy
	flights *int
	stopIn  int
	stop    func()
}

func (p *countedPolicy) Reset() {
	if *p.flights++; *p.flights == p.stopIn {
		p.stop()
	}
	p.Policy.Reset()
}

// A sweep that was ended in the middle goes on with the seeds that it has not flown, and ends as one that was not ended.
func TestSweepGoesOn(t *testing.T) {
	fly := func(dir string, stopIn int) (flights int, r *Result, err error) {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		s := counting(dir, new([]string), io.Discard)
		s.Workers = 1
		s.Arms[0].Policy = func(context.Context) (*Policy, error) {
			return ready(func(c *world.Config) rollout.Policy { return &countedPolicy{evenPacer(c), &flights, stopIn, stop} }), nil
		}
		s.Arms[0].Protocols = func(p *Policy) []Protocol {
			return []Protocol{{Name: Nominal, Settings: p.Settings, Request: Target, Seeds: seeds.List(seeds.CalibrationFirst, 5)}}
		}
		r, err = s.Fly(ctx, &s.Arms[0])
		return flights, r, err
	}
	dir := t.TempDir()
	_, want, err := fly(t.TempDir(), 0)
	offlinetest.NoError(t, err)
	if n, _, err := fly(dir, 3); n != 3 || !errors.Is(err, context.Canceled) {
		t.Fatalf("ended in flight %d: %v", n, err)
	}
	n, r, err := fly(dir, 0)
	if err != nil || n != 3 || !reflect.DeepEqual(r.Sweeps, want.Sweeps) {
		t.Errorf("continued with %d flights, want 3: %v, %+v, want %+v", n, err, r, want)
	}
	for _, damage := range []string{`"settings":[1],"outcomes":[]`, `"settings":[1],"outcomes":[[{"delay_s":1,"energy_j":1}]]`,
		`"settings":[1,2],"speed_mps":[1,2],"outcomes":[[],[{"delay_s":1,"energy_j":1}]]`} {
		offlinetest.Write(t, `{"key":"key of a","sweeps":[{"name":"nominal",`+damage+`}]}`, dir, "a", "partial.json")
		if _, _, err := fly(dir, 0); err == nil || !strings.Contains(err.Error(), "is damaged") {
			t.Errorf("%s: %v", damage, err)
		}
	}
}

// A folder that holds what would be overwritten is refused as it is, before anything is measured.
func TestRunRefuses(t *testing.T) {
	dir := t.TempDir()
	var done []string
	offlinetest.Write(t, `{"key":"old"}`, dir, "b", "result.json")
	err := counting(dir, &done, io.Discard).Run(t.Context(), Part{Only: []string{"a", "b"}}, noReport)
	call := cli.NewCall("offline count", nil, io.Discard, io.Discard)
	if status := call.Exit(err); status != cli.ExitUsage || !strings.Contains(err.Error(), "another version") || len(done) > 0 {
		t.Errorf("status %d, %v, measured %v", status, err, done)
	}
	if _, err := os.Stat(filepath.Join(dir, "study.json")); err == nil {
		t.Error("the folder was claimed")
	}
	// A shard that does not have the arm goes on: the folder is others' as well.
	if err := counting(dir, &done, io.Discard).Run(t.Context(), Part{Shard: command.Shard{I: 0, N: 2}}, noReport); err != nil {
		t.Errorf("the other shard: %v", err)
	}
}

// A stored result that does not have what was flown is refused, not drawn or computed with.
func TestDamagedResults(t *testing.T) {
	arm := counting("", new([]string), io.Discard).Arms[0]
	whole := func() *Result {
		row := func() []pareto.Point { return []pareto.Point{{DelayS: 1, EnergyJ: 2}} }
		return &Result{Record: &Record{Version: Before},
			Sweeps: []Sweep{{Name: Nominal, Settings: []float64{0, 1}, SpeedMPS: []float64{8, 9},
				Outcomes: [][]pareto.Point{row(), row()}}}}
	}
	if err := arm.check(whole()); err != nil {
		t.Errorf("what is whole: %v", err)
	}
	for want, spoil := range map[string]func(*Result){
		`"nominal" is missing`:                  func(r *Result) { r.Sweeps = nil },
		"2 rows of outcomes for 0 settings":     func(r *Result) { r.Sweeps[0].Settings = nil },
		"0 rows of outcomes for 2 settings":     func(r *Result) { r.Sweeps[0].Outcomes = nil },
		"0 seeds at setting 1":                  func(r *Result) { r.Sweeps[0].Outcomes[1] = nil },
		"a mission of 1 s and 0 J at setting 1": func(r *Result) { r.Sweeps[0].Outcomes[1][0].EnergyJ = 0 },
		"a mission of 1 s and -5 J":             func(r *Result) { r.Sweeps[0].Outcomes[0][0].EnergyJ = -5 },
		"1 speeds for 2 settings":               func(r *Result) { r.Sweeps[0].SpeedMPS = []float64{1} },
	} {
		r := whole()
		spoil(r)
		if err := arm.check(r); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	arm.BudgetSeeds = seeds.List(seeds.CalibrationFirst, 1)
	if err := arm.check(&Result{Record: &Record{Version: Before}}); err == nil ||
		!strings.Contains(err.Error(), "the budget of 29000 J, calm, is missing") {
		t.Errorf("budgets without any: %v", err)
	}
}

// A record in a line names version, command, seeds and hashes.
func TestRecordLine(t *testing.T) {
	r := Record{Version: "v1", Command: []string{"evaluate", "-json"}, World: "0123456789abcdef", Seeds: map[string]string{"all": "5:9"},
		Made: map[string]string{"configs/checkpoint": "fedcba9876543210"}, CPU: "a CPU", Kernel: "avx2", CPUS: 12.4, Ended: "now"}
	if want := "v1; offline evaluate -json; world 0123456789ab; seeds 5:9; configs/checkpoint fedcba987654; a CPU avx2; 12 s of a core; " +
		"now"; r.String() != want {
		t.Errorf("%q, want %q", r.String(), want)
	}
	if text := (*Record)(nil).String(); text != "" {
		t.Errorf("no record is %q", text)
	}
}

// A cell is found by its column's name, and a figure that there is not is "-".
func TestTable(t *testing.T) {
	tables := offlinetest.Must(ReadTables([]byte("t:\n  title: T\n  intro: before\n  columns: [arm, \"end, % %+.1f\", n]\n")))(t)
	x := tables["t"]
	x.SetHead("n", "seeds")
	x.Add(Row{"n": 3, "arm": "a", "end, %": 0.25})
	x.Add(Row{"arm": "b", "end, %": math.NaN()})
	x.After = []string{"after"}
	var b strings.Builder
	if x.WriteMarkdown(&b); b.String() != "\n## T\n\nbefore\n\n| arm | end, % | seeds |\n|---|---|---|\n| a | +0.2 | 3 |\n| b | - |  "+
		"|\n\n- after\n" {
		t.Errorf("%q", b.String())
	}
	b.Reset()
	if err := x.WriteCSV(&b); err != nil || b.String() != "arm,\"end, %\",seeds\na,+0.2,3\nb,-,\n" {
		t.Errorf("%q, %v", b.String(), err)
	}
}
