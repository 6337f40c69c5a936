package evaluate

import (
	"encoding/json"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"prefdt/inference"
	"prefdt/inference/belief"
	"prefdt/inference/belief/learned"
	"prefdt/inference/goal"
	"prefdt/offline/command"
	"prefdt/offline/experiment"
	"prefdt/offline/offlinetest"
	"prefdt/offline/pareto"
	"prefdt/offline/rollout"
)

// A share is a ratio of mean differences, and delays are compared at equal joules.
func TestFieldArm(t *testing.T) {
	front := func(delayS ...float64) (seeds [][]pareto.Point) {
		for _, d := range delayS {
			seeds = append(seeds, []pareto.Point{{DelayS: d, EnergyJ: 200}, {DelayS: 2 * d, EnergyJ: 100}})
		}
		return seeds
	}
	memoryless, hidden, arm := &FieldArm{fronts: front(100, 120)}, &FieldArm{fronts: front(50, 60)}, &FieldArm{fronts: front(75, 90)}
	references := [2]pareto.Point{{DelayS: 1000, EnergyJ: 300}, {DelayS: 400, EnergyJ: 300}}
	for _, x := range []struct {
		arm          *FieldArm
		share, delta float64
	}{{memoryless, 0, 0}, {hidden, 1, -0.5}, {arm, 0.5, -0.25}} {
		x.arm.compare(memoryless, hidden, references)
		if a := x.arm; math.Abs(*a.Share-x.share) > 1e-12 || math.Abs(*a.HypervolumeShare-x.share) > 1e-12 ||
			math.Abs(a.DeltaDelay.Mean-x.delta) > 1e-12 ||
			a.Interval[0] > x.share+1e-12 || a.Interval[1] < x.share-1e-12 {
			t.Errorf("share %v in %v, delay %+v; want %v, %+v", *a.Share, a.Interval, a.DeltaDelay.Mean, x.share, x.delta)
		}
	}
}

// Where nothing is hidden there is no share, and the report can be encoded.
func TestFieldArmWithoutAShare(t *testing.T) {
	a := &FieldArm{fronts: [][]pareto.Point{{{DelayS: 100, EnergyJ: 200}, {DelayS: 200, EnergyJ: 100}}}}
	a.compare(a, a, [2]pareto.Point{{DelayS: 1000, EnergyJ: 300}, {DelayS: 400, EnergyJ: 300}})
	if a.Share != nil || a.HypervolumeShare != nil {
		t.Errorf("shares %v and %v", a.Share, a.HypervolumeShare)
	}
	if _, err := json.Marshal(&FieldReport{FieldArm: a}); err != nil {
		t.Error(err)
	}
}

// A field world is measured by all arms, on evaluation seeds alone: the policy with its
// estimator, with less memory, and the schedulers that it is measured against.
func TestMeasureField(t *testing.T) {
	ck := offlinetest.Shipped(t)
	five := &learned.Parameters{Window: 5, Data: slices.Clone(ck.Beliefs.Data)}
	c := Config{
		Seeds: []uint64{1_000_000, 1_000_001}, Settings: 3, TeacherPrices: 4, Decoder: inference.DecoderDispatch, Workers: 2,
		Progress:  io.Discard,
		Estimator: ck.Beliefs, Contexts: []*learned.Parameters{five}, World: offlinetest.FieldWorld(t, "phones"),
	}
	r := offlinetest.Must(measureField(t.Context(), ck, c))(t)
	if names := slices.Sorted(maps.Keys(r.Arms)); !slices.Equal(names, []string{"context1", "context5", "filter", "hidden", "learned",
		"memoryless", "settings"}) {
		t.Errorf("arms %q", names)
	}
	if r.Arms[hiddenArm].Hypervolume.Mean <= r.Arms[memorylessArm].Hypervolume.Mean || !(r.Hypervolume.Mean > 0) || r.Hypervolume.N != 2 ||
		r.Window != 40 {
		t.Errorf("%+v, hidden %+v, memoryless %+v", r.FieldArm, r.Arms[hiddenArm], r.Arms[memorylessArm])
	}
	if r.HypervolumeTight.Mean <= r.Arms["context1"].HypervolumeTight.Mean {
		t.Errorf("with 40 slots of memory %+v, with one %+v", r.HypervolumeTight, r.Arms["context1"].HypervolumeTight)
	}
	if m := r.Memory; len(m) != 2 || m[0].Window != 1 || m[0].Trained || m[1].Window != 5 || !m[1].Trained ||
		m[0].P == nil || !(*m[0].P > 0 && *m[0].P <= 1) || m[1].P != nil || // of two that are trained apart there is no test
		math.Abs(m[0].Difference.Mean-(r.HypervolumeTight.Mean-r.Arms["context1"].HypervolumeTight.Mean)) > 1e-6 {
		t.Errorf("tests of memory: %+v", m)
	}
	var text strings.Builder
	if err := command.PrintText(&text, fieldText, r); err != nil ||
		!strings.Contains(text.String(), "a memory of 40 slots against 1, cut to it") ||
		!strings.Contains(text.String(), "against 5, trained to it") {
		t.Errorf("%v\n%s", err, &text)
	}
	without := *ck
	without.Beliefs, c.Estimator, c.Contexts = nil, nil, nil
	if r, err := measureField(t.Context(), &without, c); err != nil || len(r.Arms) != 4 || r.Window != 0 {
		t.Errorf("without an estimator: %d arms, %v", len(r.Arms), err)
	}
	c.Seeds = []uint64{5}
	if _, err := measureField(t.Context(), ck, c); err == nil {
		t.Error("a training seed was accepted")
	}
}

// A budget in a wind is kept by arms that believe in it, at less delay than by one that takes the air for calm, and
// that one passes what is tight.
func TestMeasureFieldBudgets(t *testing.T) {
	ck := offlinetest.Shipped(t)
	c := Config{Seeds: []uint64{1_000_000, 1_000_001}, Decoder: inference.DecoderDispatch, Workers: 2, Progress: io.Discard,
		Estimator: ck.Beliefs, World: offlinetest.FieldWorld(t, "wind")}
	rows := offlinetest.Must(measureFieldBudgets(t.Context(), ck, c))(t)
	if len(rows) != 2*len(budgetFloors) {
		t.Fatalf("%d budgets", len(rows))
	}
	for _, b := range rows {
		if b.Keepable != 2 {
			t.Errorf("%d seeds of 2 are keepable", b.Keepable)
		}
		if names := slices.Sorted(maps.Keys(b.Arms)); !slices.Equal(names, []string{"even", "filter", "hidden", "memoryless", "reports"}) {
			t.Errorf("arms %q", names)
		}
		reports := b.Arms[reportsArm]
		for name, x := range map[string]experiment.BudgetMeans{
			policyArm: b.BudgetMeans, filterArm: b.Arms[filterArm], hiddenArm: b.Arms[hiddenArm],
		} {
			if x.MeanOverrun > 3e-4 || !(x.DelayS > 0) || x.DelayS > 0.82*reports.DelayS || b.Floors < 1.3 && reports.MeanOverrun < 1e-3 {
				t.Errorf("%s of %v floors: %s %+v, taking the air for calm %+v", b.Mode, b.Floors, name, x, reports)
			}
		}
	}
}

// BenchmarkFieldRollout times a flight of 100 slots in the world where most is hidden, with
// and without the estimator.
func BenchmarkFieldRollout(b *testing.B) {
	ck := offlinetest.Shipped(b)
	c := Config{World: offlinetest.FieldWorld(b, "field"), Decoder: inference.DecoderDispatch}
	for name, estimator := range map[string]belief.Estimator{"reports": nil, "estimator": c.newLearned(ck.Beliefs)} {
		b.Run(name, func(b *testing.B) {
			r := offlinetest.Must(c.newFieldRunner(ck, estimator))(b)
			seed := uint64(0)
			for b.Loop() {
				r.Fly(seed%1000, rollout.Request{Mode: goal.Preference, Omega: 0.1})
				seed++
			}
		})
	}
}
