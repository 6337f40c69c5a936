package evaluate

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"prefdt/inference/checkpoint"
	"prefdt/offline/corpus"
	"prefdt/offline/experiment"
	"prefdt/offline/pareto"
	"prefdt/offline/rollout"
	"prefdt/simbridge/world"
)

// OperatingPoint compares the policy with the teacher run at another operating point.
type OperatingPoint struct {
	Name  string           `json:"name"`
	Ratio HypervolumeRatio `json:"teacher_ratio"`
	// RatioError is the standard error of Ratio over the seeds; unknown from one seed alone.
	RatioError *HypervolumeRatio `json:"teacher_ratio_standard_error,omitempty"`
	// BudgetAbsError is the mean absolute error of targets at a quarter, half and three
	// quarters of what the teacher's front spans.
	BudgetAbsError float64 `json:"budget_abs_error"`
	// SeparationViolations counts the flights in which two aircraft were ever closer than
	// the least separation at a slot's end.
	SeparationViolations int `json:"too_close"`
}

// Shift is an operating point away from the standard one.
type Shift struct {
	Name  string
	Apply func(*world.Config)
}

// missionShifts are other lengths, numbers of users and fleets.
var missionShifts = []Shift{
	{"T 50", func(c *world.Config) { c.Slots = 50 }},
	{"T 300", func(c *world.Config) { c.Slots = 300 }},
	{"T 1200", func(c *world.Config) { c.Slots, c.Physics.BatteryCapacityJ = 1200, 500e3 }},
	{"U 50, M 4", func(c *world.Config) { c.Users, c.Aircraft, c.ActiveMin, c.ActiveMax = 50, 4, 20, 40 }},
	{"U 100, M 8", func(c *world.Config) { c.Users, c.Aircraft, c.ActiveMin, c.ActiveMax = 100, 8, 40, 80 }},
	{"one of 2 lost at slot 50", func(c *world.Config) { c.AircraftLosses = []world.AircraftLoss{{Aircraft: 0, Slot: 50}} }},
	{"one of 4 lost at slot 50", func(c *world.Config) { c.Aircraft, c.AircraftLosses = 4, []world.AircraftLoss{{Aircraft: 1, Slot: 50}} }},
	{"crowded, M 4", func(c *world.Config) { c.Aircraft, c.DenseStart = 4, true }},
	{"crowded, M 8", func(c *world.Config) { c.Aircraft, c.DenseStart = 8, true }},
	{"battery of 12 kJ", func(c *world.Config) { c.Physics.BatteryCapacityJ = 12e3 }},
}

// Shifts are the fifteen shifted operating points.
var Shifts = []Shift{
	{"bandwidth x0.5", func(c *world.Config) { c.Physics.Channel.BandwidthHz *= 0.5 }},
	{"bandwidth x2", func(c *world.Config) { c.Physics.Channel.BandwidthHz *= 2 }},
	{"noise +10 dB", func(c *world.Config) { c.Physics.Channel.NoiseDBm += 10 }},
	{"suburban channel", func(c *world.Config) { setChannel(c, 4.88, 0.43, 0.1, 21) }},
	{"dense urban channel", func(c *world.Config) { setChannel(c, 12.08, 0.11, 1.6, 23) }},
	{"tasks x0.7", func(c *world.Config) { c.BitsMin, c.BitsMax = 0.7*c.BitsMin, 0.7*c.BitsMax }},
	{"tasks x1.4", func(c *world.Config) { c.BitsMin, c.BitsMax = 1.4*c.BitsMin, 1.4*c.BitsMax }},
	{"deadlines x0.7", func(c *world.Config) { c.DeadlineMinS, c.DeadlineMaxS = 0.7*c.DeadlineMinS, 0.7*c.DeadlineMaxS }},
	{"deadlines x1.4", func(c *world.Config) { c.DeadlineMinS, c.DeadlineMaxS = 1.4*c.DeadlineMinS, 1.4*c.DeadlineMaxS }},
	{"edge CPU x0.6", func(c *world.Config) { c.Physics.EdgeCPUHz *= 0.6 }},
	{"edge CPU x1.5", func(c *world.Config) { c.Physics.EdgeCPUHz *= 1.5 }},
	{"user CPU x1.5", func(c *world.Config) { c.UserCPUHz *= 1.5 }},
	{"users x2", func(c *world.Config) { c.Users, c.ActiveMin, c.ActiveMax = 2*c.Users, 2*c.ActiveMin, 2*c.ActiveMax }},
	{"airframe power x1.3", func(c *world.Config) {
		c.Physics.Propulsion.BladeW *= 1.3
		c.Physics.Propulsion.InducedW *= 1.3
	}},
	{"area 2000 m", func(c *world.Config) { c.Physics.AreaSideM = 2000 }},
}

// outside are the worlds that the generator of training's flights does not draw.
func outside() (list []Shift) {
	for _, name := range world.OutsideNames() {
		list = append(list, Shift{name, func(c *world.Config) {
			if err := c.Load(name); err != nil {
				panic(err) // a name of its own
			}
		}})
	}
	return list
}

func setChannel(c *world.Config, a, b, los, nlos float64) {
	ch := &c.Physics.Channel
	ch.UrbanA, ch.UrbanB, ch.LoS.ExcessDB, ch.NLoS.ExcessDB = a, b, los, nlos
}

func measureEach(ctx context.Context, ck *checkpoint.Checkpoint, c Config, shifts []Shift) ([]OperatingPoint, error) {
	var rows []OperatingPoint
	for _, s := range shifts {
		at := c
		at.pricedWorld = &c.World
		s.Apply(&at.World)
		p, err := compareWithTeacher(ctx, ck, at, s.Name)
		if err != nil {
			return nil, err
		}
		rows = append(rows, p)
	}
	return rows, nil
}

// WorldRange is the policy's hypervolume ratio over random worlds.
type WorldRange struct {
	Ratio pareto.Summary `json:"teacher_ratio"` // over worlds
	Seeds int            `json:"seeds"`         // in each world
	Least OperatingPoint `json:"least"`
	Most  OperatingPoint `json:"most"`
}

func measureRandomWorlds(ctx context.Context, ck *checkpoint.Checkpoint, c Config, n int) (rows []OperatingPoint, over *WorldRange,
	err error) {
	var shifts []Shift
	for i := range n {
		w := corpus.RandomWorld(c.World, 1<<50, i)
		name := fmt.Sprintf("world %d: M %d, U %d, T %d, %.0f m", i, w.Aircraft, w.Users, w.Slots, w.Physics.AreaSideM)
		shifts = append(shifts, Shift{name, func(c *world.Config) { *c = w }})
	}
	if rows, err = measureEach(ctx, ck, c, shifts); err != nil {
		return nil, nil, err
	}
	return rows, summarizeWorlds(rows, len(c.Seeds)), nil
}

// summarizeWorlds takes the range of what was measured in one world or more.
func summarizeWorlds(rows []OperatingPoint, seedCount int) *WorldRange {
	byRatio := func(a, b OperatingPoint) int { return cmp.Compare(a.Ratio.Hypervolume, b.Ratio.Hypervolume) }
	var ratios []float64
	for _, p := range rows {
		ratios = append(ratios, p.Ratio.Hypervolume)
	}
	return &WorldRange{Ratio: pareto.Summarise(ratios), Seeds: seedCount, Least: slices.MinFunc(rows, byRatio), Most: slices.MaxFunc(rows,
		byRatio)}
}

// compareWithTeacher compares per seed, with reference points a fifth beyond the ends
// of the teacher's own front there: those of the standard world mean nothing in
// another.
// The policy flies as many settings as the teacher flies prices.
func compareWithTeacher(ctx context.Context, ck *checkpoint.Checkpoint, c Config, name string) (OperatingPoint, error) {
	row := OperatingPoint{Name: name}
	taught, err := c.sweepTeacher(ctx)
	if err != nil {
		return row, err
	}
	results, err := c.sweep(ctx, ck, rollout.ReportLink{}, c.recalibrated(ck, c.TeacherPrices), name)
	if err != nil {
		return row, err
	}
	for _, x := range slices.Concat(results...) {
		if x.MinSeparationM < c.World.Physics.SeparationM {
			row.SeparationViolations++
		}
	}
	flown := rollout.Outcomes(results)
	var volumes [2][2][]float64 // the policy's and the teacher's, to the wide and the tight reference, by seed
	for s := range c.Seeds {
		p, t := pareto.SeedPoints(flown, s), pareto.SeedPoints(taught, s)
		for k, beyond := range []float64{0.2, 0.02} {
			reference := pareto.Beyond(t, beyond)
			volumes[0][k] = append(volumes[0][k], pareto.Hypervolume(p, reference))
			volumes[1][k] = append(volumes[1][k], pareto.Hypervolume(t, reference))
		}
	}
	row.Ratio, row.RatioError = meanRatio(ratios(volumes[0][0], volumes[1][0]), ratios(volumes[0][1], volumes[1][1]))
	mean := pareto.MeanPoints(taught)
	high, low := mean[0].EnergyJ, mean[len(mean)-1].EnergyJ
	var requests []rollout.Request
	for _, part := range []float64{0.25, 0.5, 0.75} {
		requests = append(requests, experiment.Target(low+part*(high-low)))
	}
	if results, err = c.sweep(ctx, ck, rollout.ReportLink{}, requests, name+", budgets"); err != nil {
		return row, err
	}
	n := float64(len(c.Seeds))
	for i := range results {
		for _, x := range results[i] {
			row.BudgetAbsError += math.Abs(x.EnergyJ/max(requests[i].BudgetJ, x.FloorJ)-1) / (n * float64(len(results)))
		}
	}
	return row, nil
}

// meanRatio takes the mean over seeds and, from two seeds on, its standard error.
func meanRatio(wide, tight []float64) (mean HypervolumeRatio, standardError *HypervolumeRatio) {
	w, t := pareto.Summarise(wide), pareto.Summarise(tight)
	if w.N > 1 {
		standardError = &HypervolumeRatio{w.StdError(), t.StdError()}
	}
	return HypervolumeRatio{w.Mean, t.Mean}, standardError
}
