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

// ResultKey implements experiment.Result.
func (r *Result) ResultKey() string { return r.Key }

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
	list := []condition{{name: nominal}}
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

// paperTotalsJ are the paper's budgets; whether a policy spends as much is what they show.
var paperTotalsJ = []float64{70e3, 80e3, 90e3}

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
	paperBudgets   = "the paper's budgets" // of policies of package methods
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

// measure flies a maker's policy. What it has flown is kept after each sweep.
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
	switch {
	case t == whole:
		f.settings = rollout.Linspace(0, 1, s.Settings)
	case t == axis, t == dense:
		if err := s.recalibrate(ctx, m, f, r, map[measurement]int{axis: s.Settings, dense: s.DenseSettings}[t]); err != nil {
			return nil, err
		}
	case t == entry:
		f.settings, f.request = entryTotalsJ, target
	case t.ofBudgets() && r.Budgets == nil:
		runner := func(c world.Config) (*rollout.Runner, error) { return f.runner(c, rollout.ReportLink{}) }
		r.Budgets, r.Traces, err = study.FlyBudgets(ctx, runner, f.world, list, s.workers, func(what string) func(int) {
			return command.Progress(s.Log, "  seeds, "+m.Name+", budgets, "+what, len(list))
		})
		if err == nil {
			err = command.ReplaceJSON(path, "", r)
		}
		if err != nil {
			return nil, err
		}
	}
	for _, x := range s.sweeps(m, t, f) {
		if r.sweep(x.name) != nil { // flown before
			continue
		}
		if err := s.fly(ctx, m, f, r, x, list); err != nil {
			return nil, err
		}
		if err := command.ReplaceJSON(path, "", r); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// requests are settings that are flown under one condition.
type requests struct {
	condition
	settings []float64
	request  func(setting float64) rollout.Request
}

// sweeps returns what a maker is flown for: the settings of its flyer under every condition or, beside
// the study's totals in joules, those that the CMDP is trained for, one that is issued again, one that
// no flight can keep, and some under the shock.
func (c *Config) sweeps(m *maker, t measurement, f *flyer) (list []requests) {
	if !t.ofBudgets() {
		for _, x := range conditions(t) {
			list = append(list, requests{x, f.settings, f.request})
		}
		return list
	}
	const onceJ, floorJ = 33e3, 20e3
	again := func(j float64) rollout.Request {
		r := target(j)
		r.ReviseSlot, r.RevisedBudgetJ = revisedSlot, j
		return r
	}
	list = []requests{
		{condition{name: trainedBudgets}, c.Methods.CMDP.BudgetsJ, target},
		{condition{name: issuedOnce}, []float64{onceJ}, target},
		{condition{name: issuedTwice}, []float64{onceJ}, again},
		{condition{name: belowFloor}, []float64{floorJ}, target},
		{condition{name: shockTotals, apply: func(c *world.Config) { c.Shock = study.Shock }}, shockTotalsJ, target},
	}
	if m.Method != "" {
		list = append(list, requests{condition{name: paperBudgets}, paperTotalsJ, target})
	}
	return list
}

// partial returns what a measurement that was ended early has flown, and the file of that: an
// hour of flights is worth keeping.
func (s *set) partial(m *maker, t measurement) (r *Result, path string, err error) {
	path = filepath.Join(s.Dir, s.arm(armName(m.Name, t)).PartialPath())
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
func (s *set) fly(ctx context.Context, m *maker, f *flyer, r *Result, x requests, list []uint64) error {
	c := f.world
	if x.apply != nil {
		x.apply(&c)
	}
	asked := make([]rollout.Request, len(x.settings))
	for i, setting := range x.settings {
		asked[i] = x.request(setting)
	}
	results, err := rollout.SweepRunners(ctx, func() (*rollout.Runner, error) { return f.runner(c, x.link) }, c, list, asked, s.workers,
		command.Progress(s.Log, "  seeds, "+m.Name+", "+x.name, len(list)))
	if err != nil {
		return err
	}
	sweep := Sweep{Name: x.name, Settings: x.settings, Outcomes: rollout.Outcomes(results)}
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
	if err := s.fly(ctx, m, f, &on, requests{condition{name: "calibration"}, grid, f.request}, seeds.List(seeds.CalibrationFirst, s.CalibrationSeeds)); err != nil {
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
