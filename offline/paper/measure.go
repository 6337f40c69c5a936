package paper

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"

	"prefdt/configs/cli"
	"prefdt/offline/calibrate"
	"prefdt/offline/command"
	"prefdt/offline/evaluate"
	"prefdt/offline/pareto"
	"prefdt/offline/rollout"
	"prefdt/offline/seeds"
	"prefdt/offline/study"
	"prefdt/simbridge/world"
)

// measurement is what a maker's policy is flown for.
type measurement string

const (
	front    measurement = ""         // its settings, even over what may be asked for
	axis     measurement = "axis"     // settings recalibrated on calibration seeds
	whole    measurement = "whole"    // preferences even from 0 to 1, most of which no flight is stored under
	dense    measurement = "dense"    // many of them
	budgets  measurement = "budgets"  // totals in joules, taken as published
	replan   measurement = "replan"   // the same, as in the leader: each slot flown at the setting that the joules left pay for
	entry    measurement = "entry"    // totals over the energy entry alone: the preference and the delay entry stay
	link     measurement = "link"     // lost reports, substituted ones, snapshots of other slots
	shifts   measurement = "shifts"   // fifteen operating points
	arrivals measurement = "arrivals" // another arrival process from half time on
)

func (t measurement) ofBudgets() bool { return t == budgets || t == replan }

// Result is the outcomes of one arm; figures are computed from it later, together with
// those of the other arms.
type Result struct {
	Key        string  `json:"key"`
	Parameters int     `json:"parameters,omitempty"`
	Sweeps     []Sweep `json:"sweeps"`

	Budgets []study.BudgetResult  `json:"budgets,omitempty"`
	Traces  []rollout.EnergyTrace `json:"traces,omitempty"`
	// KeptSettings of the calibration's grid make one front.
	KeptSettings int `json:"kept,omitempty"`
}

// Sweep is some settings flown on some seeds under one condition.
type Sweep struct {
	Name     string           `json:"name"`
	Settings []float64        `json:"settings"`
	Outcomes [][]pareto.Point `json:"outcomes"` // [setting][seed]
	SpeedMPS []float64        `json:"speed_mps"`
}

// sweep returns one by name, nil if there is none.
func (r *Result) sweep(name string) *Sweep {
	if r == nil {
		return nil
	}
	for i := range r.Sweeps {
		if r.Sweeps[i].Name == name {
			return &r.Sweeps[i]
		}
	}
	return nil
}

// nominal names the sweep without any disturbance, of every measurement.
const nominal = "nominal"

// condition is a world and a link that settings are flown under.
type condition struct {
	name  string
	apply func(*world.Config)
	link  rollout.ReportLink
}

var undisturbed = condition{name: nominal}

// lossRates are the paper's, of Sec. VI on the link.
var lossRates = []float64{0.05, 0.1, 0.2, 0.4}

// displacements are in slots, into the past and, below zero, into the future.
var displacements = []int{1, 2, 3, 4, 5, -1, -2, -3, -4, -5}

func lossName(rate float64, substituted bool) string {
	if substituted {
		return fmt.Sprintf("%g %% lost, last report stands in", 100*rate)
	}
	return fmt.Sprintf("%g %% lost", 100*rate)
}

func displacementName(slots int) string { return fmt.Sprintf("snapshot of slot t%+d", -slots) }

// conditions of a measurement that is of fronts.
func conditions(t measurement) []condition {
	list := []condition{undisturbed}
	switch t {
	case link:
		for _, rate := range lossRates {
			list = append(list,
				condition{name: lossName(rate, false), link: rollout.ReportLink{LossRate: rate}},
				condition{name: lossName(rate, true), link: rollout.ReportLink{LossRate: rate, Fallback: rollout.FallbackLastReport}})
		}
		for _, slots := range displacements {
			list = append(list, condition{name: displacementName(slots), link: rollout.ReportLink{LateSlots: slots}})
		}
	case shifts:
		for _, x := range evaluate.Shifts {
			list = append(list, condition{name: x.Name, apply: x.Apply})
		}
	case arrivals:
		for _, factor := range arrivalFactors {
			list = append(list,
				condition{name: arrivalName(factor), apply: func(c *world.Config) { c.Demand = world.Shock{FromSlot: c.Slots / 2, Factor: factor} }},
				condition{name: loadName(factor), apply: func(c *world.Config) { c.Demand = world.Shock{Factor: factor} }})
		}
	}
	return list
}

// arrivalFactors multiply the number of active users from half time on. More than there are
// users the sequence models of package methods cannot name.
var arrivalFactors = []float64{0.75, 0.5}

func arrivalName(factor float64) string {
	return fmt.Sprintf("active users x%g from half time", factor)
}

// loadName is of a whole flight at that load.
func loadName(factor float64) string { return fmt.Sprintf("active users x%g throughout", factor) }

// entryOmega is the preference at which totals are written over the energy entry alone, and
// entryTotalsJ are these: what the corpus spends, and the paper's.
const entryOmega = 0.5

var entryTotalsJ = []float64{27e3, 30e3, 33e3, 36e3, 39e3, 70e3, 80e3, 90e3}

// revisedSlot is when a total is issued again.
const revisedSlot = 60

// shockTotalsJ are flown under the study's shock, beside its own totals there: those are above
// what any setting spends in calm air, so that by Algorithm 1 all of them ask for the same.
var shockTotalsJ = []float64{36e3, 39e3}

// Sweeps of budgets beside the study's.
const (
	trainedBudgets = "budgets that the CMDP is trained for"
	issuedOnce     = "issued once"
	issuedTwice    = "issued twice"
	belowFloor     = "below the floor"
	shockTotals    = "x1.5, totals of calm settings"
	paperBudgets   = "the paper's budgets" // of policies of package methods; whether these spend as much is what it shows
)

// seedsOf returns the episodes that a maker's measurement is flown on.
func (c *Config) seedsOf(m *maker, t measurement) []uint64 {
	n := c.Seeds
	switch {
	case t.ofBudgets(), t == entry, t == arrivals:
		n = c.BudgetSeeds
	case m.few:
		n = c.FewSeeds
	}
	return seeds.List(c.FirstSeed, n)
}

// measure flies a maker's policy.
func (s *set) measure(ctx context.Context, m *maker, t measurement) (*Result, error) {
	f, err := s.makeFlyer(ctx, m, t)
	if err != nil {
		return nil, err
	}
	r, path, err := s.partial(m, t)
	if err != nil {
		return nil, err
	}
	r.Parameters = f.parameters
	list := s.seedsOf(m, t)
	switch t {
	case whole:
		f.settings = rollout.Linspace(0, 1, s.Settings)
	case axis, dense:
		if err := s.recalibrate(ctx, m, f, r, map[measurement]int{axis: s.Settings, dense: s.DenseSettings}[t]); err != nil {
			return nil, err
		}
	case entry:
		f.settings, f.request = entryTotalsJ, target
	case budgets, replan:
		f.asInLeader = t == replan
		return r, s.measureBudgets(ctx, m, f, list, r)
	}
	for _, x := range conditions(t) {
		if r.sweep(x.name) != nil { // flown before
			continue
		}
		if err := s.fly(ctx, m, f, r, x, f.settings, f.request, list); err != nil {
			return nil, err
		}
		if err := command.ReplaceJSON(path, "", r); err != nil {
			return nil, err
		}
	}
	return r, os.Remove(path)
}

// partial returns what a measurement that was ended early has flown, and the file of that: an
// hour of flights is worth keeping.
func (s *set) partial(m *maker, t measurement) (r *Result, path string, err error) {
	path = filepath.Join(s.Dir, armName(m.Name, t), "partial.json")
	r = &Result{}
	raw, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(raw, r)
	}
	switch {
	case errors.Is(err, os.ErrNotExist):
	case err != nil:
		return nil, path, cli.BadInputf("%s is damaged (%v): remove it, and the arm is measured again", path, err)
	case r.Key == s.key(m, t):
		return r, path, nil
	}
	return &Result{Key: s.key(m, t)}, path, nil
}

// fly adds a sweep to a result.
func (s *set) fly(ctx context.Context, m *maker, f *flyer, r *Result, x condition, settings []float64, request func(float64) rollout.Request, list []uint64) error {
	c := f.world
	if x.apply != nil {
		x.apply(&c)
	}
	requests := make([]rollout.Request, len(settings))
	for i, setting := range settings {
		requests[i] = request(setting)
	}
	results, err := rollout.SweepRunners(ctx, func() (*rollout.Runner, error) { return f.runner(c, x.link) }, c, list, requests, s.workers,
		command.Progress(s.Log, "  seeds, "+m.Name+", "+x.name, len(list)))
	if err != nil {
		return err
	}
	sweep := Sweep{Name: x.name, Settings: settings, Outcomes: rollout.Outcomes(results)}
	for _, row := range sweep.Outcomes {
		for i := range row {
			row[i] = pareto.Point{DelayS: rounded(row[i].DelayS), EnergyJ: rounded(row[i].EnergyJ)}
		}
	}
	for _, row := range results {
		mean := 0.0
		for _, x := range row {
			mean += x.MeanSpeedMPS / float64(len(row))
		}
		sweep.SpeedMPS = append(sweep.SpeedMPS, rounded(mean))
	}
	r.Sweeps = append(r.Sweeps, sweep)
	return nil
}

// rounded is to a tenth of a millisecond or of a millijoule, far below what any table shows:
// results are to be kept, and half of a file would be digits that say nothing.
func rounded(x float64) float64 { return math.Round(x*1e4) / 1e4 }

// calibrationSettings are flown to spread settings over the front that is achieved.
const calibrationSettings = 41

// recalibrate sets a policy's settings to some that are even on the axis of what it achieves.
func (s *set) recalibrate(ctx context.Context, m *maker, f *flyer, r *Result, settings int) error {
	if f.constants == nil {
		return errors.New("its settings cannot be recalibrated")
	}
	var on Result
	grid := calibrate.EvenOmegas(f.constants, f.band, calibrationSettings)
	if err := s.fly(ctx, m, f, &on, condition{name: "calibration"}, grid, f.request, seeds.List(seeds.CalibrationFirst, s.CalibrationSeeds)); err != nil {
		return err
	}
	cal, err := calibrate.FitSettingMap(grid, on.Sweeps[0].Outcomes)
	r.KeptSettings = len(cal.FrontIndices)
	if err != nil { // it makes no front: the conditioner's shares
		f.settings = calibrate.EvenOmegas(f.constants, f.band, settings)
		return nil
	}
	f.settings = rollout.CalibratedOmegas(&cal.SettingMap, settings)
	return nil
}

// measureBudgets flies the study's totals in joules, those that the CMDP is trained for, one
// that is issued again, and one that no flight can keep.
func (s *set) measureBudgets(ctx context.Context, m *maker, f *flyer, list []uint64, r *Result) (err error) {
	runner := func(c world.Config) (*rollout.Runner, error) { return f.runner(c, rollout.ReportLink{}) }
	r.Budgets, r.Traces, err = study.FlyBudgets(ctx, runner, f.world, list, s.workers, func(what string) func(int) {
		return command.Progress(s.Log, "  seeds, "+m.Name+", budgets, "+what, len(list))
	})
	if err != nil {
		return err
	}
	const onceJ, floorJ = 33e3, 20e3
	type sweep struct {
		condition
		settings []float64
		request  func(float64) rollout.Request
	}
	calm := func(name string) condition { return condition{name: name} }
	sweeps := []sweep{
		{calm(trainedBudgets), s.Methods.CMDP.BudgetsJ, target},
		{calm(issuedOnce), []float64{onceJ}, target},
		{calm(issuedTwice), []float64{onceJ}, func(j float64) rollout.Request {
			r := target(j)
			r.ReviseSlot, r.RevisedBudgetJ = revisedSlot, j
			return r
		}},
		{calm(belowFloor), []float64{floorJ}, target},
		{condition{name: shockTotals, apply: func(c *world.Config) { c.Shock = study.Shock }}, shockTotalsJ, target},
	}
	if m.Method != "" {
		sweeps = append(sweeps, sweep{calm(paperBudgets), []float64{70e3, 80e3, 90e3}, target})
	}
	for _, x := range sweeps {
		if err := s.fly(ctx, m, f, r, x.condition, x.settings, x.request, list); err != nil {
			return err
		}
	}
	return nil
}
