package corpus

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/parquet-go/parquet-go"

	"prefdt/configs/cli"
	"prefdt/inference/goal"
	"prefdt/inference/model"
	"prefdt/inference/token"
	"prefdt/offline/command"
	"prefdt/offline/offlinetest"
	"prefdt/offline/pareto"
	"prefdt/offline/search"
	"prefdt/offline/teacher"
	"prefdt/simbridge/world"
)

// shortWorld has missions of a quarter of the standard world's.
func shortWorld() world.Config {
	c := world.Standard()
	c.Slots = 25
	return c
}

// sweepOnce makes a small sweep of the dispatch teacher.
var sweepOnce = sync.OnceValues(func() (Archive, error) {
	c := shortWorld()
	return DispatchArchive(context.Background(), &c, 24, 8, 2, nil)
})

// sharedFlights are enough to fit a conditioner to.
const sharedFlights = 400

// buildOnce makes a small corpus by the shipped recipe.
var buildOnce = sync.OnceValues(func() (*Manifest, error) {
	a, err := sweepOnce()
	if err != nil {
		return nil, err
	}
	return Build(context.Background(), shortWorld(), a, ShippedRecipe(), sharedFlights, 5, 2, nil)
})

func buildCorpus(t *testing.T, a Archive, r Recipe, flights, workers int) *Manifest {
	t.Helper()
	return offlinetest.Must(Build(context.Background(), shortWorld(), a, r, flights, 5, workers, nil))(t)
}

// A corpus does not depend on the number of workers, survives its file, and
// the world replays its flights exactly, every fourth of them.
func TestReplayIsExact(t *testing.T) {
	m := offlinetest.Must(buildOnce())(t) // by two workers
	if again := buildCorpus(t, offlinetest.Must(sweepOnce())(t), ShippedRecipe(), sharedFlights, 3); again.Hash() != m.Hash() {
		t.Error("another number of workers gave another corpus")
	}
	path := filepath.Join(t.TempDir(), "manifest.json")
	offlinetest.NoError(t, command.ReplaceFile(path, m.Write))
	back := offlinetest.Must(Read(path))(t)
	if back.Hash() != m.Hash() {
		t.Error("the corpus changed on its way through the file")
	}
	if err := back.Verify(len(back.Flights) / 4); err != nil {
		t.Error(err)
	}
	back.Flights[3].Price *= 1.5
	if err := back.Verify(len(back.Flights)); err == nil || !strings.Contains(err.Error(), "flight 3") {
		t.Errorf("a changed flight replayed as before: %v", err)
	}

	// What the trainer reads is replayed as exactly.
	var first, second Example
	elsewhere := slices.IndexFunc(m.Flights, func(f Episode) bool { return f.World > 0 })
	for _, i := range []int{0, 17, 300} {
		one, two := NewExampleReader(m, &m.Statistics), NewExampleReader(m, &m.Statistics)
		offlinetest.NoError(t, one.Read(&m.Flights[i], &first))
		two.Read(&m.Flights[elsewhere], &second) // a flight read before it, in another world, must not change it
		two.Read(&m.Flights[i], &second)
		a, _ := json.Marshal(first)
		b, _ := json.Marshal(second)
		if !bytes.Equal(a, b) {
			t.Errorf("flight %d reads differently the second time", i)
		}
	}
}

// The loss falls on what followed the last change, and on nothing before.
func TestContextBeforeAChange(t *testing.T) {
	m := offlinetest.Must(buildOnce())(t)
	r := NewExampleReader(m, &m.Statistics)
	var ex Example
	changed, shocked := 0, 0
	for i := range m.Flights[:200] {
		f := &m.Flights[i]
		offlinetest.NoError(t, r.Read(f, &ex))
		first := f.ChangeSlot
		if f.ShockFactor != 0 {
			first = max(first, f.ShockSlot+shockSettleSlots)
			shocked++
		}
		if f.ChangeSlot > 0 {
			changed++
		}
		if !f.PriceOnly && f.World == 0 {
			first = max(first, f.LostSlot)
		} else if f.World > 0 {
			continue // a battery may end there, and an aircraft with it
		}
		for s, w := range ex.Labels.SlotWeight {
			if want := s >= first; (w == 1) != want {
				t.Fatalf("flight %d, changed at %d, shocked at %d: slot %d weighs %v", i, f.ChangeSlot, f.ShockSlot, s, w)
			}
		}
	}
	if changed < 40 || shocked < 30 {
		t.Errorf("%d of 200 flights changed their price and %d met a shock, want about 80 and 60", changed, shocked)
	}
}

// A corpus of searched rules and heuristics flies, replays and reads.
func TestRulesAndHeuristics(t *testing.T) {
	rules := offlinetest.Must(searchedRules())(t)
	m := offlinetest.Must(Build(t.Context(), world.Standard(), rules, Recipe{Heuristic: 0.2}, 400, 5, 2, nil))(t)
	heuristics := 0
	for i := range m.Flights {
		if m.Flights[i].Teacher == heuristicTeacher {
			heuristics++
		}
	}
	if heuristics < 55 || heuristics > 105 {
		t.Errorf("%d of 400 flights are heuristics, want about 80", heuristics)
	}
	if err := m.Verify(50); err != nil {
		t.Error(err)
	}
	var ex Example
	if err := NewExampleReader(m, &m.Statistics).Read(&m.Flights[0], &ex); err != nil || ex.Slots != 100 {
		t.Errorf("flight 0 does not read: %v", err)
	}
}

// searchedRules is the archive of a short search.
func searchedRules() (Archive, error) {
	c := search.Default()
	c.Population, c.Generations = 24, 8
	var state search.State
	if err := search.Run(context.Background(), c, &state, 2, func(*search.State) error { return nil }); err != nil {
		return Archive{}, err
	}
	found := state.Archive(c)
	return RuleArchive(&found, 0)
}

func TestParquet(t *testing.T) {
	m := offlinetest.Must(buildOnce())(t)
	var raw bytes.Buffer
	offlinetest.NoError(t, m.WriteParquet(&raw))
	rows, err := parquet.Read[Episode](bytes.NewReader(raw.Bytes()), int64(raw.Len()))
	if err != nil || !slices.Equal(rows, m.Flights) {
		t.Errorf("%d rows read back, %v", len(rows), err)
	}
}

func TestRefusals(t *testing.T) {
	a := offlinetest.Must(sweepOnce())(t)
	dir := t.TempDir()
	m := offlinetest.Must(buildOnce())(t)
	write := func(name string, spoil func(*Manifest)) string {
		c := *m
		c.Flights = slices.Clone(m.Flights)
		spoil(&c)
		path := filepath.Join(dir, name)
		offlinetest.NoError(t, command.ReplaceFile(path, c.Write))
		return path
	}
	for name, c := range map[string]struct {
		spoil func(*Manifest)
		want  string
	}{
		"evaluation seed": {func(m *Manifest) { m.Flights[7].Seed = 1_000_000 }, "seed 1000000"},
		"version":         {func(m *Manifest) { m.Version = 99 }, "version is 99"},
		"no flights":      {func(m *Manifest) { m.Flights = nil }, "no flights"},
		"archive":         {func(m *Manifest) { m.Archive.Points = m.Archive.Points[:1] }, "archive"},
	} {
		if _, err := Read(write(name, c.spoil)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Build(context.Background(), world.Standard(), a, Recipe{Shock: 2}, 10, 0, 1, nil); err == nil {
		t.Error("a recipe of two shocks a flight was accepted")
	}
	var out bytes.Buffer
	folder := filepath.Join(dir, "made")
	short := offlinetest.Write(t, "slots: 12\n", dir, "world.yaml") // missions of an eighth of the standard world's
	args := []string{"-config", short, "-flights", "400", "-prices", "24", "-episodes", "5", "-out", folder}
	offlinetest.NoError(t, Command(t.Context(), cli.NewCall("offline corpus", args, &out, &out)))
	if err := Command(t.Context(), cli.NewCall("offline corpus", append(args, "-seed", "1"), &out, &out)); err == nil ||
		!strings.Contains(err.Error(), "another corpus") {
		t.Errorf("another corpus, and what was fitted on it, was replaced unasked: %v", err)
	}
	if err := Command(t.Context(), cli.NewCall("offline corpus", args, &out, &out)); err != nil {
		t.Errorf("the same corpus was not made again: %v", err)
	}
	for _, x := range []struct {
		args []string
		want string
	}{
		{append(args, "-resume"), "made before"},
		{append(slices.Clone(args[:4]), "-prices", "25", "-episodes", "5", "-out", folder, "-resume"), "another corpus"},
		{append(args, "-archive", "rules.json", "-merge", "rules.json"), "exclude each other"},
	} {
		out.Reset()
		err := Command(t.Context(), cli.NewCall("offline corpus", x.args, &out, &out))
		if said := fmt.Sprint(&out, err); !strings.Contains(said, x.want) {
			t.Errorf("%q says %q, want %q", x.args, said, x.want)
		}
	}
}

// Rules behind the teacher's front, or a joule beyond its end, add next to
// nothing; a rule that would be worth a teacher of its own stops the build.
func TestRulesAddLittle(t *testing.T) {
	a := offlinetest.Must(sweepOnce())(t)
	end := a.Points[len(a.Points)-1]
	for name, c := range map[string]struct {
		rule pareto.Point
		stop bool
	}{
		"behind":         {pareto.Point{DelayS: end.DelayS, EnergyJ: end.EnergyJ + 500}, false},
		"a joule beyond": {pareto.Point{DelayS: end.DelayS + 1, EnergyJ: end.EnergyJ - 1}, false},
		"a better one":   {pareto.Point{DelayS: a.Points[0].DelayS - 5, EnergyJ: end.EnergyJ}, true},
	} {
		rules := search.State{Population: []search.Member{{Genes: []float64{1, 1, 300, 0, 10, 0, 0, 10, 0, 0}, Point: c.rule}}}
		found, standard := rules.Archive(search.Default()), world.Standard()
		if err := checkRulesAddLittle(&standard, &a, &found, "rules.json", io.Discard); (err != nil) != c.stop {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A map that is out of order, or that the regression does not explain, stops a
// corpus before anything is trained on it.
func TestConditionerGates(t *testing.T) {
	m := offlinetest.Must(buildOnce())(t)
	for name, spoil := range map[string]func(i int, f *Episode){
		"not monotone":  func(_ int, f *Episode) { f.DelayS = 500 * math.Abs(f.Omega-0.5) },
		"not explained": func(i int, f *Episode) { f.EnergyJ = 30e3 + 5e3*float64(i%2) },
	} {
		c := *m
		c.Flights = slices.Clone(m.Flights)
		for i := range c.Flights {
			spoil(i, &c.Flights[i])
		}
		if _, err := fitConditioner(&c); err == nil || !strings.Contains(err.Error(), "gate") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if y := isotonic([]float64{1, 3, 2, 4}, []float64{1, 1, 1, 1}); !slices.Equal(y, []float64{1, 2.5, 2.5, 4}) {
		t.Errorf("isotonic gives %v", y)
	}
	for _, c := range []struct{ x, y, want []float64 }{
		{[]float64{0, 1, 2, 3}, []float64{1, 2.5, 2.5, 4}, []float64{1, 2, 3, 4}}, // 2.5 stands at 1.5
		{[]float64{0, 1, 2}, []float64{5.5, 5.5, 2}, []float64{5.5, 3.75, 2}},
		{[]float64{0, 1}, []float64{3, 3}, []float64{3, 3}},
	} {
		if y := strictlyMonotone(c.x, c.y); !slices.Equal(y, c.want) {
			t.Errorf("%v becomes %v, want %v", c.y, y, c.want)
		}
	}
}

func TestDelayShareAndFrontPosition(t *testing.T) {
	a := Archive{Points: []pareto.Point{{DelayS: 100, EnergyJ: 40e3}, {DelayS: 200, EnergyJ: 30e3}, {DelayS: 700, EnergyJ: 27e3}},
		Prices: []float64{0, 0.1, 1}}
	// Delay 100/600 above the ideal, energy 3/13 of its span.
	want := (100.0 / 600) / (100.0/600 + 3.0/13)
	if w := a.DelayShare(a.Points[1]); math.Abs(w-want) > 1e-12 {
		t.Errorf("share %v, want %v", w, want)
	}
	if y := a.FrontPosition(a.Points[1]); math.Abs(y-(100.0/1200+10.0/26)) > 1e-12 {
		t.Errorf("front position %v", y)
	}
	if lo, hi := a.OmegaBand(); lo != 0 || hi != 1 {
		t.Errorf("band %v to %v", lo, hi)
	}
}

// After its last change, a flight's rows read the delay and the joules that the
// flight still costs, slot for slot; budget-only flights drop the preference.
func TestRowsReadWhatRemains(t *testing.T) {
	m := offlinetest.Must(buildOnce())(t)
	identity := token.IdentityStatistics()
	reader, runner := NewExampleReader(m, &identity), newReplayer(m)
	column := func(name string) int { return slices.Index(token.Features().Return, name) }
	_, etaJ := m.Archive.ReturnScales()
	var ex Example
	checked, budgets := 0, 0
	for i := range m.Flights[:150] {
		f := &m.Flights[i]
		if f.World > 0 || f.PriceOnly || f.LostSlot > 0 {
			continue
		}
		offlinetest.NoError(t, reader.Read(f, &ex))
		var slots []goal.Settlement
		remaining, err := runner.fly(f, func(s teacher.SettledSlot) {
			slots = append(slots, teacher.Settlement(runner.World, s.Outcome))
		})
		if err != nil || len(slots) != ex.Slots {
			t.Fatalf("flight %d of %d slots reads as %d: %v", i, len(slots), ex.Slots, err)
		}
		for s := range slots {
			row := ex.Return[s*model.ReturnFeatures:][:model.ReturnFeatures]
			if f.BudgetOnly != (row[column("dropped")] == 1) {
				t.Fatalf("flight %d, budget only %v: dropped is %v", i, f.BudgetOnly, row[column("dropped")])
			}
			if f.BudgetOnly {
				budgets++
			} else if s >= f.ChangeSlot {
				delayS := float64(row[column("delay per slot")]) * float64(len(slots)-s)
				energyJ := -float64(row[column("energy to go")]) * etaJ
				wantJ := remaining.EnergyJ * (1 - float64(row[column("omega delay")]))
				wantS := min(remaining.DelayS, 8*float64(len(slots)-s)) // rows are clipped
				if math.Abs(delayS-wantS) > 1e-3 || math.Abs(energyJ-wantJ) > 0.1 {
					t.Fatalf("flight %d, slot %d: reads %v s and %v J, remaining are %v and %v", i, s, delayS, energyJ, wantS, wantJ)
				}
				checked++
			}
			remaining.DelayS -= slots[s].DelayS
			remaining.EnergyJ -= slots[s].EnergyJ
		}
	}
	if checked < 750 || budgets < 750 {
		t.Errorf("%d slots were checked and %d of budgets, the test would be empty", checked, budgets)
	}
}
