package prefdttrain

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"prefdt/configs/cli"
	"prefdt/inference"
	"prefdt/inference/checkpoint"
	"prefdt/inference/goal"
	"prefdt/inference/model"
	"prefdt/inference/prefdt"
	"prefdt/inference/slot"
	"prefdt/offline/command"
	"prefdt/offline/corpus"
	"prefdt/offline/export"
	"prefdt/offline/nn"
	"prefdt/offline/nn/nntest"
	"prefdt/offline/offlinetest"
	"prefdt/offline/ort"
	"prefdt/offline/pareto"
	"prefdt/offline/rollout"
	"prefdt/offline/search"
	"prefdt/offline/seeds"
	"prefdt/offline/teacher"
	"prefdt/simbridge/world"
)

// testConfig is a run of a tiny network.
func testConfig() Config {
	c := Default()
	c.Form.Arch = model.Arch{Width: 16, PairWidth: 8, Layers: 2, Heads: 2, Context: 6}
	c.Flights, c.Episodes, c.Batch = 400, 3, 8
	c.Schedule.Rate, c.Schedule.WarmUpSteps = 3e-3, 5
	return c
}

// builtCorpus is of rules that offload less and less; tests do not change it.
var builtCorpus = sync.OnceValues(func() (*Corpus, error) {
	found := search.Archive{Config: search.Default()}
	for k := range 12 {
		scale := 1 - float64(k)/11
		found.Members = append(found.Members, search.Member{Genes: []float64{3, scale, 800, 0, 8.4, 1, 0.3, 8.4, 1, 0.3}})
	}
	c := testConfig()
	a, err := corpus.FlownRules(context.Background(), &found, c.Episodes, 2)
	if err != nil {
		return nil, err
	}
	return Build(context.Background(), c, world.Standard(), a, 2, nil)
})

// The corpus follows its recipe, with corner emphasis and without, and is the same on any number of cores.
func TestCorpus(t *testing.T) {
	m := offlinetest.Must(builtCorpus())(t)
	low, high := m.Accepted()
	if c := m.GoalConstants().Conditioner; c.Omegas[0] != low || math.Abs(c.Omegas[len(c.Omegas)-1]-high) > 1e-12 {
		t.Errorf("the conditioner is of %v to %v, flights are stored under %v to %v", c.Omegas[0], c.Omegas[len(c.Omegas)-1], low, high)
	}
	heuristics, corner, uniformCorner, beyond := 0, 0, 0, 0
	window, uniform := m.Shares[min(4, len(m.Shares))-1], *m
	uniform.Uniform = true
	least, most := m.Flights[0].Point, m.Flights[0].Point
	for i := range m.Flights {
		f := &m.Flights[i]
		least.DelayS, least.EnergyJ = min(least.DelayS, f.DelayS), min(least.EnergyJ, f.EnergyJ)
		most.DelayS, most.EnergyJ = max(most.DelayS, f.DelayS), max(most.EnergyJ, f.EnergyJ)
		if f.Heuristic {
			heuristics++
		} else if m.Shares[f.Member] != m.Shares[pareto.Nearest(m.Shares, f.Omega)] {
			t.Errorf("flight %d of share %v is flown by the member of share %v", i, f.Omega, m.Shares[f.Member])
		}
		if f.Omega <= window {
			corner++
		}
		if even := offlinetest.Must(uniform.draw(uint64(i)))(t); even.Omega <= window {
			uniformCorner++
		}
		if f.Omega < low || f.Omega > high || f.Seed >= validationFirst {
			beyond++
		}
	}
	n := float64(len(m.Flights))
	if beyond > 0 || math.Abs(float64(heuristics)/n-heuristicShare) > 0.04 {
		t.Errorf("%d of %v flights are beyond the band, %d heuristic", beyond, n, heuristics)
	}
	if share := float64(corner-uniformCorner) / n; math.Abs(share-cornerFraction) > 0.06 || uniformCorner == 0 {
		t.Errorf("in the corner %d with emphasis, %d without", corner, uniformCorner)
	}
	if m.Etas.DelayS != most.DelayS-least.DelayS || m.Etas.EnergyJ != most.EnergyJ-least.EnergyJ {
		t.Errorf("eta is %+v, the flights' spans are %v and %v", m.Etas, most.DelayS-least.DelayS, most.EnergyJ-least.EnergyJ)
	}
	if f := m.Fit; f.R2DelayS < gateR2 || f.R2EnergyJ < gateR2 || f.Reversal > gateReversal {
		t.Errorf("the gates read %+v", f)
	}
	c := testConfig()
	again, err := Build(context.Background(), c, m.World, m.Archive, 1, nil)
	if err != nil || again.Hash() != m.Hash() {
		t.Errorf("on one core it is another corpus: %v", err)
	}
}

// A corpus may be flown by the dispatch teacher: its flights are that teacher's at the member's
// price.
func TestDispatchFlights(t *testing.T) {
	c := world.Standard()
	a, err := corpus.DispatchArchive(t.Context(), &c, 5, 1, 1, nil) // of seed 0
	if err != nil {
		t.Fatal(err)
	}
	m := &Corpus{World: c, Archive: a}
	f := corpus.NewSimulator(&c, &m.Archive)
	for k, want := range a.Points {
		if got, err := m.simulate(f, &Episode{Member: k}, nil); err != nil || got != want {
			t.Errorf("member %d costs %v, %v, want %v", k, got, err, want)
		}
	}
	if _, err := m.simulate(f, &Episode{Member: len(a.Points)}, nil); err == nil {
		t.Error("a member that is not there flew")
	}
}

// A corpus that does not rise and fall with the preference is refused before any training.
func TestGates(t *testing.T) {
	m := offlinetest.Must(builtCorpus())(t)
	broken := *m
	broken.Flights = slices.Clone(m.Flights)
	for i := range broken.Flights {
		broken.Flights[i].DelayS = 500 - broken.Flights[i].DelayS
	}
	if _, err := broken.fitConditioner(); err == nil || !strings.Contains(err.Error(), "first gate") {
		t.Errorf("a falling delay gives %v", err)
	}
	low, high := m.band()
	for i := range broken.Flights {
		broken.Flights[i].DelayS = 100
		if m.Flights[i].Omega > low+0.9*(high-low) {
			broken.Flights[i].DelayS = 700
		}
	}
	if _, err := broken.fitConditioner(); err == nil || !strings.Contains(err.Error(), "second gate") {
		t.Errorf("a step in the delay gives %v", err)
	}
}

// testStores are the flights of the corpus and those kept for validation, read once.
var testStores = sync.OnceValues(func() ([2]*store, error) {
	m, err := builtCorpus()
	if err != nil {
		return [2]*store{}, err
	}
	t, err := startRun(context.Background(), testConfig(), m, nil)
	if err != nil {
		return [2]*store{}, err
	}
	return [2]*store{t.store, t.held}, nil
})

func testRun(t *testing.T, c Config) *run {
	stores := offlinetest.Must(testStores())(t)
	return offlinetest.Must(newRun(c, offlinetest.Must(builtCorpus())(t).Hash(), stores[0], stores[1]))(t)
}

// A run that is stopped and resumed, in its cool-down too, ends with the parameters of one
// that is not; with more tokens it goes on from where its cool-down began.
func TestResumeEqualsUninterrupted(t *testing.T) {
	c := testConfig()
	tokens := 20 * c.tokensPerStep() // 16 steps and 4
	whole, parts := t.TempDir(), t.TempDir()
	train := func(dir string, tokens float64, stop int) *run {
		run := testRun(t, c)
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		err := run.run(ctx, dir, tokens, c.tokensPerStep(), func(context.Context, io.Writer) error {
			if run.Step == stop {
				cancel()
			}
			return nil
		}, io.Discard)
		if stopped := err != nil; stopped != (stop > 0) || stopped && !command.Ended(ctx, err) {
			t.Fatalf("stopping at %d: %v", stop, err)
		}
		return run
	}
	want := train(whole, tokens, 0)
	train(parts, tokens, 7)
	train(parts, tokens, 18)
	got := train(parts, tokens, 0)
	if got.Step != 20 || want.Step != 20 || !slices.Equal(got.Params.Data, want.Params.Data) || got.progress != want.progress {
		t.Errorf("in parts it ends at step %d with other parameters, whole at %d", got.Step, want.Step)
	}
	longer, direct := train(parts, 1.5*tokens, 0), train(t.TempDir(), 1.5*tokens, 0)
	if longer.Step != 30 || !slices.Equal(longer.Params.Data, direct.Params.Data) {
		t.Errorf("with more tokens it ends at step %d, not with the parameters of a run of as many", longer.Step)
	}
	if head, err := readHeader(filepath.Join(parts, "cooldown-16.bin")); err != nil || head.Step != 20 {
		t.Errorf("what was cooled down before is kept at step %d, %v", head.Step, err)
	}
	if log, err := os.ReadFile(filepath.Join(parts, "cooldown-log.csv")); err != nil || strings.Contains(string(log), "\n19,") ||
		!strings.Contains(string(log), "\n29,") {
		t.Errorf("the cool-down's log has the lines of another: %s, %v", log, err)
	}
	other := testRun(t, testConfig())
	other.Config.Seed++
	if err := other.Load(filepath.Join(whole, stateFile)); err == nil || !strings.Contains(err.Error(), "it was trained with") {
		t.Errorf("a state of another configuration gives %v", err)
	}
}

func TestLossFalls(t *testing.T) {
	c := testConfig()
	run := testRun(t, c)
	before := run.validate().Total()
	for range 60 {
		offlinetest.Must(run.Next())(t)
	}
	if after := run.validate().Total(); after > 0.6*before {
		t.Errorf("the validation's loss is %v after 60 steps, %v before", after, before)
	}
}

// A run whose state is gone but whose result is there is not begun anew over it.
func TestRunIsNotOverwritten(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, coolDownFile)
	offlinetest.NoError(t, os.WriteFile(path, []byte("hours of training"), 0o644))
	var stderr bytes.Buffer
	p := cli.Program{Name: "offline", Commands: []cli.Command{{Name: "train-prefdt", Run: Command}}}
	status := p.Run(t.Context(), []string{"train-prefdt", "-out", dir}, io.Discard, &stderr)
	if raw, err := os.ReadFile(path); status != cli.ExitUsage || !strings.Contains(stderr.String(), "add -resume") || err != nil ||
		string(raw) != "hours of training" {
		t.Errorf("status %d, %s%s, %v", status, stderr.String(), raw, err)
	}
}

const shippedFolder = "../../configs/paper"

func shipped(t *testing.T) *checkpoint.Checkpoint {
	t.Helper()
	return offlinetest.Must(checkpoint.Load(shippedFolder))(t)
}

// sweep flies a checkpoint and returns its results by request, then by seed.
func sweep(t *testing.T, ck *checkpoint.Checkpoint, c world.Config, list []uint64, requests ...rollout.Request) [][]rollout.Result {
	t.Helper()
	return offlinetest.Must(rollout.Sweep(t.Context(), ck, inference.DecoderHeads, c, rollout.ReportLink{}, list, requests, 2, nil))(t)
}

// The checkpoint of the published form that is shipped flies what it is asked for, and ONNX
// Runtime computes what its step does.
func TestShipped(t *testing.T) {
	ck, c := shipped(t), Default()
	if !ck.Published.Form.Same(&c.Form) {
		t.Errorf("its form is %+v, configs/prefdt.yaml has %+v", ck.Published.Form, c.Form)
	}
	results := sweep(t, ck, world.Standard(), seeds.List(seeds.CalibrationFirst, 2),
		rollout.PreferenceRequests(rollout.CalibratedOmegas(&ck.GoalConstants.SettingMap, 3))...)
	for k, want := range [][2]pareto.Point{{{DelayS: 75, EnergyJ: 36e3}, {DelayS: 125, EnergyJ: 41e3}},
		{{DelayS: 250, EnergyJ: 28e3}, {DelayS: 450, EnergyJ: 34e3}}, {{DelayS: 650, EnergyJ: 26.5e3}, {DelayS: 780, EnergyJ: 28e3}}} {
		for _, x := range results[k] {
			if x.DelayS < want[0].DelayS || x.DelayS > want[1].DelayS || x.EnergyJ < want[0].EnergyJ || x.EnergyJ > want[1].EnergyJ {
				t.Errorf("setting %d of 3 costs %+v, want %+v to %+v", k, x.Point, want[0], want[1])
			}
		}
	}
	// Preferences past the ends of what flights are stored under are those ends.
	stored := ck.GoalConstants.Conditioner.Omegas
	results = sweep(t, ck, world.Standard(), seeds.List(seeds.CalibrationFirst, 1),
		rollout.PreferenceRequests([]float64{0, stored[0], stored[len(stored)-1], 1})...)
	if results[0][0].Point != results[1][0].Point || results[2][0].Point != results[3][0].Point {
		t.Errorf("past the ends: %+v", results)
	}
	t.Run("ONNX Runtime", func(t *testing.T) { compareWithORT(t, ck, filepath.Join(shippedFolder, checkpoint.GraphFile)) })
}

// A budget is kept where flight power rises in flight and where its total is revised; as the
// energy entry alone it is not.
func TestBudgetIsReplanned(t *testing.T) {
	ck, shock, short := shipped(t), world.Standard(), world.Standard()
	shock.Shock = world.Shock{FromSlot: 50, Factor: 1.5}
	short.Slots = 60
	for _, x := range []struct {
		name    string
		world   world.Config
		request rollout.Request
		totalJ  float64
	}{
		{"a short mission", short, rollout.Request{Mode: goal.Target, BudgetJ: 19.8e3}, 19.8e3},
		{"calm", world.Standard(), rollout.Request{Mode: goal.Target, BudgetJ: 33e3}, 33e3},
		{"a shock", shock, rollout.Request{Mode: goal.Target, BudgetJ: 42e3}, 42e3},
		{"a revision", world.Standard(), rollout.Request{Mode: goal.Target, BudgetJ: 36.5e3, ReviseSlot: 50, RevisedBudgetJ: 33e3}, 33e3},
	} {
		for _, asPublished := range []bool{false, true} {
			ck.Published.AsPublished = asPublished
			end, flown := 0.0, sweep(t, ck, x.world, seeds.List(seeds.CalibrationFirst, 2), x.request)[0]
			for _, r := range flown {
				end += r.EnergyJ/x.totalJ - 1
				if off := math.Abs(r.EnergyJ/x.totalJ - 1); !asPublished && off > 0.006 {
					t.Errorf("%s: a flight ends %.2f %% off its budget", x.name, 100*off)
				}
			}
			if mean := end / float64(len(flown)); asPublished && strings.HasPrefix(x.name, "a ") && x.world.Slots == 100 &&
				mean < 0.03 {
				t.Errorf("%s: as published it ends %.2f %% above: then nothing need be replanned", x.name, 100*mean)
			}
		}
	}
}

// A trained network becomes a checkpoint that flies, and that refuses what it is not bound
// to. ONNX Runtime computes what its step does.
func TestCheckpoint(t *testing.T) {
	m := offlinetest.Must(builtCorpus())(t)
	c, dir, out := testConfig(), t.TempDir(), t.TempDir()
	run := testRun(t, c)
	offlinetest.NoError(t, run.run(t.Context(), dir, 200*c.tokensPerStep(), 0, nil, io.Discard))
	offlinetest.NoError(t, command.ReplaceJSON(filepath.Join(dir, corpusFile), "", m))
	offlinetest.Must(finish(t.Context(), m, filepath.Join(dir, coolDownFile), 2, 2, out, nil))(t)
	ck := offlinetest.Must(checkpoint.Load(out))(t)
	if !ck.Published.Form.Same(&c.Form) || ck.Training["steps"] != 200 {
		t.Errorf("it is of the form %+v, after %v steps", ck.Published.Form, ck.Training["steps"])
	}
	if compared, err := Trained(t.Context(), c, dir, 200*c.tokensPerStep(), io.Discard); err != nil || !compared.Published.AsPublished ||
		ck.Published.AsPublished {
		t.Errorf("a comparison is not with what is published, or the leader flies that: %v", err)
	}
	if _, err := Trained(t.Context(), c, dir, 100*c.tokensPerStep(), io.Discard); err == nil ||
		!strings.Contains(err.Error(), "has been trained for 160 steps") {
		t.Errorf("a run of more tokens stands in for one of fewer: %v", err)
	}
	for _, x := range []struct {
		aircraft, slots int
		want            string
	}{{2, 100, ""}, {2, 60, ""}, {3, 100, "the mission has 3 aircraft, this network of the published form is bound to 2"},
		{2, 101, "the mission has 101 slots, this network of the published form has embeddings for 100"}} {
		if err := ck.Fits(x.aircraft, x.slots); (err == nil) != (x.want == "") || err != nil && err.Error() != x.want {
			t.Errorf("%d aircraft and %d slots give %v", x.aircraft, x.slots, err)
		}
	}
	again := testRun(t, c)
	from, err := readStart(out, &c.Form)
	if err == nil {
		err = again.begin(from, m)
	}
	if err != nil || again.Step != run.Step || again.progress != run.progress {
		t.Fatalf("from its checkpoint a run begins at step %d with %d tokens, it ended at %d with %d: %v", again.Step,
			again.progress.Tokens, run.Step, run.progress.Tokens, err)
	}
	for i, x := range run.Params.Data {
		if math.Abs(float64(again.Params.Data[i]-x)) > 1e-3*math.Abs(float64(x))+1e-6 { // float16
			t.Fatalf("parameter %d is %v, it was %v", i, again.Params.Data[i], x)
		}
	}
	if was, is := run.validate().Total(), again.validate().Total(); math.Abs(is-was) > 0.01*was {
		t.Errorf("the loss is %v, it was %v", is, was)
	}
	other := c.Form
	other.Width *= 2
	if _, err := readStart(out, &other); err == nil || !strings.Contains(err.Error(), "not of the configuration's form") {
		t.Errorf("another form's checkpoint gives %v", err)
	}
	moved := *m
	moved.Rows.User.Mean = append([]float64{1}, m.Rows.User.Mean...)
	if err := again.begin(from, &moved); err == nil {
		t.Error("a run on another corpus goes on from it")
	}
	if _, err := inference.New(ck, inference.DecoderDispatch); err == nil || !strings.Contains(err.Error(), `flies by "heads" alone`) {
		t.Errorf("another decoder gives %v", err)
	}
	low, high := m.band()
	w := world.Standard()
	w.AircraftLosses = []world.AircraftLoss{{Aircraft: 0, Slot: 50}}
	for _, world := range []world.Config{world.Standard(), w} {
		results := sweep(t, ck, world, seeds.List(seeds.TrainingLast-1, 2),
			append(rollout.PreferenceRequests([]float64{low, high}), rollout.Request{Mode: goal.Target, BudgetJ: 32e3})...)
		for k, row := range results {
			for _, x := range row {
				if !(x.DelayS > 50 && x.DelayS < 3000 && x.EnergyJ > 5e3 && x.EnergyJ < 1e5) {
					t.Errorf("request %d costs %+v", k, x.Point)
				}
			}
		}
		if len(world.AircraftLosses) == 0 && !(results[0][0].DelayS < results[1][0].DelayS) {
			t.Errorf("the least delay is %v s, the least energy's %v s", results[0][0].DelayS, results[1][0].DelayS)
		}
	}
	t.Run("ONNX Runtime", func(t *testing.T) { compareWithORT(t, ck, filepath.Join(out, checkpoint.GraphFile)) })
}

// compareWithORT flies 30 slots with the step and with the graph in ONNX Runtime, its tokens
// fed back, padded with a row that is no user's.
func compareWithORT(t *testing.T, ck *checkpoint.Checkpoint, graph string) {
	if ort.Folder() == "" {
		t.Skip("PREFDT_ORT names no folder with onnxruntime-node")
	}
	runtime := offlinetest.Must(ort.Start(ort.Folder()))(t)
	defer runtime.Close()
	f := &ck.Published.Form
	builder := prefdt.NewBuilder(f, &ck.Physics, &ck.Published.Statistics)
	memory := ck.Paper.NewMemory()
	var out prefdt.Outputs
	action := make([]float32, f.Aircraft*prefdt.ActionFeatures)
	c := world.Standard()
	c.Slots = 30
	past := f.PastTokens()
	var r teacher.Runner
	r.Fly(world.New(c, 5), func(s *slot.Snapshot, d *slot.Decision) {
		d.Resize(s)
		aircraft, users := builder.AppendSlot(nil, nil, s)
		in := prefdt.Inputs{Slot: s.Slot, Before: s.Slot - 1, NumUsers: len(s.Users), Omega: 0.2, Action: action,
			Aircraft: aircraft, Users: users, Return: prefdt.AppendReturn(nil, 0.2, 200, 3e4, 700, 17e3)}
		ck.Paper.Step(&in, memory, &out)
		oneHot := func(k int) ort.Tensor {
			row := make([]float32, f.Slots)
			if k >= 0 {
				row[k] = 1
			}
			return ort.Tensor{Dims: []int{1, f.Slots}, Data: row}
		}
		mask := make([]float32, past+1)
		for k := range min(3*s.Slot, past+1) { // the first slot has no action before it
			mask[past-k] = 1
		}
		padded := append(slices.Clone(in.Users), slices.Repeat([]float32{3}, f.UserWidth())...)
		feeds := map[string]ort.Tensor{
			"aircraft":  {Dims: []int{f.Aircraft, prefdt.AircraftFeatures}, Data: in.Aircraft},
			"users":     {Dims: []int{in.NumUsers + 1, f.UserWidth()}, Data: padded},
			"user_mask": {Dims: []int{in.NumUsers + 1}, Data: append(slices.Repeat([]float32{1}, in.NumUsers), 0)},
			"return":    {Dims: []int{1, 2}, Data: in.Return}, "omega": {Dims: []int{1, 1}, Data: []float32{in.Omega}},
			"slot":   oneHot(in.Slot),
			"action": {Dims: []int{1, len(action)}, Data: action}, "before": oneHot(in.Before),
			"past_mask": {Dims: []int{past + 1}, Data: mask},
		}
		if s.Slot == 0 {
			feeds["past"] = ort.Tensor{Dims: []int{past, f.Width}, Data: make([]float32, past*f.Width)}
		}
		response := offlinetest.Must(runtime.Run(&ort.Request{Model: graph, Feeds: feeds, Carry: map[string]string{"present": "past"}}))(t)
		for name, x := range map[string][]float32{"motion": out.Motion, "choice": out.Choice, "offload": out.Offload} {
			got := response.Outputs[name].Data
			for i, v := range x {
				if math.Abs(float64(v-got[i])) > 1e-3 {
					t.Fatalf("slot %d: %s %d is %v, in ONNX Runtime %v", s.Slot, name, i, v, got[i])
				}
			}
		}
		action = prefdt.AppendAction(nil, out.Motion, make([]int, in.NumUsers), nil)
		d.Evaluate(&ck.Physics, s)
	}, nil)
}

// A checkpoint that is not what its manifest says is refused, both sides named.
func TestHostileCheckpoints(t *testing.T) {
	m := offlinetest.Must(builtCorpus())(t)
	c := testConfig()
	parameters := nntest.Random[float32](c.Form.Tensors(), 4).Data
	ck := offlinetest.Must(m.Checkpoint(&c.Form, parameters))(t)
	raw, graph, _, err := export.Encode(ck.Manifest, parameters, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		name, want string
		edit       func(published map[string]any, whole map[string]any)
	}{
		{"another fleet", "the published form is for 3 aircraft and 100 slots, its conditioner for 2 and 100",
			func(p, _ map[string]any) { p["form"].(map[string]any)["aircraft"] = 3 }},
		{"a longer mission", "the published form is for 2 aircraft and 200 slots",
			func(p, _ map[string]any) { p["form"].(map[string]any)["slots"] = 200 }},
		{"another width", "want", func(p, _ map[string]any) { p["form"].(map[string]any)["width"] = 32 }},
		{"another feature", `user feature 0 is "colour"`,
			func(p, _ map[string]any) { p["form"].(map[string]any)["user_features"].([]any)[0] = "colour" }},
		{"no deviation", "standardisation of user feature 1", func(p, _ map[string]any) {
			p["standard"].(map[string]any)["user"].(map[string]any)["std"].([]any)[1] = 0
		}},
		{"no user", "prior over users", func(p, _ map[string]any) { p["user_prior"].(map[string]any)["ActiveUsers"] = 0 }},
		{"both forms", "want one form", func(_, w map[string]any) {
			w["arch"] = map[string]any{"width": 8, "pair_width": 4, "layers": 1, "heads": 1, "context": 1}
		}},
		{"neither form", "architecture width is 0", func(_, w map[string]any) { delete(w, "published") }},
	} {
		t.Run(x.name, func(t *testing.T) {
			var whole map[string]any
			offlinetest.NoError(t, json.Unmarshal(raw, &whole))
			x.edit(whole["published"].(map[string]any), whole)
			edited := offlinetest.Must(json.Marshal(whole))(t)
			if _, err := checkpoint.Decode(edited, graph, nil); err == nil || !strings.Contains(err.Error(), x.want) ||
				strings.Contains(err.Error(), "\n") {
				t.Errorf("got %v, want %q", err, x.want)
			}
		})
	}
	if _, _, err := readTrained(filepath.Join(shippedFolder, checkpoint.GraphFile)); err == nil ||
		!strings.Contains(err.Error(), "it starts with") {
		t.Errorf("a graph read as a state gives %v", err)
	}
	if _, _, err := readTrained(filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no state gives %v", err)
	}
}

// The logs of a run in parts have each step once, and the best state is that of the largest
// hypervolume.
func TestLogs(t *testing.T) {
	c, dir := testConfig(), t.TempDir()
	c.Schedule.CoolDown = 0.5
	m := offlinetest.Must(builtCorpus())(t)
	var tokens = 4 * c.tokensPerStep()
	for _, stop := range []int{1, 3, 0} {
		run := testRun(t, c)
		run.flights, run.settings = 1, 4
		ctx, cancel := context.WithCancel(context.Background())
		err := run.run(ctx, dir, tokens, c.tokensPerStep(), func(_ context.Context, log io.Writer) error {
			err := run.check(t.Context(), m, log, io.Discard)
			if run.Step == stop {
				cancel()
			}
			return err
		}, io.Discard)
		cancel()
		if (err != nil) != (stop > 0) {
			t.Fatalf("stopping at %d: %v", stop, err)
		}
	}
	best, bestStep := 0.0, 0
	for name, want := range map[string][]string{"validation.csv": {"1", "2"}, "cooldown-validation.csv": {"3", "4"}, "log.csv": {"1"},
		"cooldown-log.csv": {"3"}} {
		raw := offlinetest.Must(os.ReadFile(filepath.Join(dir, name)))(t)
		var steps []string
		for _, line := range strings.Split(strings.TrimSpace(string(raw)), "\n")[1:] {
			fields := strings.Split(line, ",")
			if steps = append(steps, fields[0]); strings.Contains(name, "validation") {
				step, _ := strconv.Atoi(fields[0])
				if x, err := strconv.ParseFloat(fields[7], 64); err != nil {
					t.Error(err)
				} else if x > best || x == best && step < bestStep {
					best, bestStep = x, step
				}
			}
		}
		if !slices.Equal(steps, want) {
			t.Errorf("%s has the steps %q, want %q", name, steps, want)
		}
	}
	head, err := readHeader(filepath.Join(dir, nn.BestFile))
	if err != nil || head.Step != bestStep {
		t.Errorf("best.bin is of step %d, the largest hypervolume, %v, of step %d: %v", head.Step, best, bestStep, err)
	}
}
