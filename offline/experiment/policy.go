package experiment

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"time"

	"prefdt/configs/cli"
	"prefdt/inference/goal"
	"prefdt/offline/calibrate"
	"prefdt/offline/command"
	"prefdt/offline/pareto"
	"prefdt/offline/rollout"
	"prefdt/offline/seeds"
	"prefdt/simbridge/world"
)

// Policy is one that is ready to fly.
type Policy struct {
	World world.Config
	// Runner returns a runner in a world, which may be another than World, over a link.
	Runner func(world.Config, rollout.ReportLink) (*rollout.Runner, error)
	// Settings are what is asked for: preferences, an archive's members, the budgets of a method that has been trained for some.
	Settings []float64
	Request  func(setting float64) rollout.Request
	// Constants and Band of a policy whose settings can be recalibrated.
	Constants  *goal.Constants
	Band       [2]float64
	Parameters int
	// Files are what it was made of outside of the set's folder, as a checkpoint's manifest.
	Files []string
}

// Preference requests a preference.
func Preference(omega float64) rollout.Request {
	return rollout.Request{Mode: goal.Preference, Omega: omega}
}

// Target requests a total of energy.
func Target(budgetJ float64) rollout.Request {
	return rollout.Request{Mode: goal.Target, BudgetJ: budgetJ}
}

// Protocol is a world, a link, requests and seeds: what a policy is flown through for one sweep.
type Protocol struct {
	Name     string              // of the sweep
	Change   func(*world.Config) // nil: none
	Link     rollout.ReportLink
	Settings []float64
	Request  func(setting float64) rollout.Request
	Seeds    []uint64
}

// Nominal names the sweep without any disturbance, EvenSettings that of preferences even over the attainable band.
const (
	Nominal      = "nominal"
	EvenSettings = "even settings"
)

// Result is the outcomes of one arm; figures are computed from it later, together with those of the other
// arms. It is stored as JSON.
type Result struct {
	Key        string  `json:"key"` // a hash of all that it depends on
	Record     *Record `json:"record"`
	Parameters int     `json:"parameters,omitempty"`
	Sweeps     []Sweep `json:"sweeps"`

	Budgets []BudgetResult        `json:"budgets,omitempty"`
	Traces  []rollout.EnergyTrace `json:"traces,omitempty"`
	// KeptSettings of the calibration's grid make one front.
	KeptSettings int `json:"kept,omitempty"`
}

// Sweep is some settings flown on some seeds through one protocol.
type Sweep struct {
	Name     string           `json:"name"`
	Settings []float64        `json:"settings"`
	Outcomes [][]pareto.Point `json:"outcomes"` // [setting][seed]
	SpeedMPS []float64        `json:"speed_mps"`
}

// Sweep returns one by name, nil if there is none.
func (r *Result) Sweep(name string) *Sweep {
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

// Totals returns what was flown for totals in joules, under a perturbation of that name or in a sweep of it.
func (r *Result) Totals(name string) (list []BudgetResult) {
	if r == nil {
		return nil
	}
	for _, b := range r.Budgets {
		if b.Perturbation == name {
			list = append(list, b)
		}
	}
	if x := r.Sweep(name); x != nil {
		for k, j := range x.Settings {
			list = append(list, BudgetResult{Perturbation: name, BudgetJ: j, Outcomes: x.Outcomes[k]})
		}
	}
	return list
}

// Measure measures a sweep, whose hypervolumes have these reference points.
func (x *Sweep) Measure(wide, tight pareto.Point) *pareto.Metrics {
	return pareto.Measure(x.Settings, x.Outcomes, wide, tight)
}

// Hypervolumes returns those of a sweep by seed, none if there is none.
func (r *Result) Hypervolumes(sweep string) []float64 {
	if x := r.Sweep(sweep); x != nil {
		return pareto.Hypervolumes(x.Outcomes, pareto.Reference)
	}
	return nil
}

// check returns what is wrong with a stored result of an arm: files are damaged, or edited, or say nothing of how they came about.
func (a *Arm) check(r *Result) error {
	if err := r.Record.check(); err != nil {
		return err
	}
	if len(a.BudgetSeeds) > 0 {
		if err := checkBudgets(r, len(a.BudgetSeeds)); err != nil {
			return err
		}
	}
	for _, p := range a.Protocols(&Policy{}) {
		x := r.Sweep(p.Name)
		if x == nil {
			return fmt.Errorf("%q is missing", p.Name)
		}
		if err := pareto.CheckOutcomes(x.Settings, x.Outcomes, len(p.Seeds)); err != nil {
			return fmt.Errorf("%s: %w", x.Name, err)
		}
		if len(x.SpeedMPS) != len(x.Settings) {
			return fmt.Errorf("%s: %d speeds for %d settings", x.Name, len(x.SpeedMPS), len(x.Settings))
		}
	}
	return nil
}

// keepEvery is how often what has been flown of a sweep is kept.
const keepEvery = 10 * time.Second

// Fly flies an arm's policy through its protocols. What it has flown is kept meanwhile, and not flown again.
func (s *Set) Fly(ctx context.Context, a *Arm) (*Result, error) {
	since := Now()
	p, err := a.Policy(ctx)
	if err != nil {
		return nil, err
	}
	r, path, err := s.partial(a)
	if err != nil {
		return nil, err
	}
	r.Parameters = p.Parameters
	if err := s.record(a, p, r); err != nil {
		return nil, err
	}
	keep := func() error {
		r.Record.End(since)
		since = Now()
		return command.ReplaceJSON(path, "", r)
	}
	if a.Recalibrated > 0 {
		if r.KeptSettings, err = s.recalibrate(ctx, a, p); err != nil {
			return nil, err
		}
	}
	if len(a.BudgetSeeds) > 0 && r.Budgets == nil {
		if err := s.flyBudgets(ctx, a, p, r); err != nil {
			return nil, err
		}
		if err := keep(); err != nil {
			return nil, err
		}
	}
	for _, x := range a.Protocols(p) {
		y := r.Sweep(x.Name)
		if y == nil {
			r.Sweeps = append(r.Sweeps, newSweep(&x))
			y = &r.Sweeps[len(r.Sweeps)-1]
		} else if y.flown() == len(x.Seeds) {
			continue
		}
		err := s.sweep(ctx, a, p, &x, y, func() error {
			if time.Since(since.wall) < keepEvery {
				return nil
			}
			return keep()
		})
		if y.flown() > 0 { // also of one that was ended early
			err = errors.Join(err, keep())
		}
		if err != nil {
			return nil, err
		}
	}
	return r, nil
}

func newSweep(x *Protocol) Sweep {
	n := len(x.Settings)
	return Sweep{Name: x.Name, Settings: x.Settings, Outcomes: make([][]pareto.Point, n), SpeedMPS: make([]float64, n)}
}

// flown is on how many seeds a sweep has been flown so far.
func (x *Sweep) flown() int {
	if len(x.Outcomes) == 0 {
		return 0
	}
	return len(x.Outcomes[0])
}

// record describes how a result is measured; what it took in earlier sittings stays.
func (s *Set) record(a *Arm, p *Policy, r *Result) error {
	x := NewRecord(&p.World, s.Workers)
	if r.Record != nil {
		x.WallS, x.CPUS = r.Record.WallS, r.Record.CPUS
	}
	r.Record = x
	for _, n := range a.Needs {
		if err := x.AddFiles(n.Path, filepath.Join(s.Dir, n.Path)); err != nil {
			return err
		}
	}
	for _, path := range p.Files {
		if err := x.AddFiles(path, path); err != nil {
			return err
		}
	}
	if len(a.BudgetSeeds) > 0 {
		x.Seeds["budgets"] = SeedRange(a.BudgetSeeds)
	}
	for _, y := range a.Protocols(p) {
		x.Seeds[y.Name] = SeedRange(y.Seeds)
	}
	return nil
}

// partial returns what an arm that was ended early has flown, and the file of that: an hour of flights is
// worth keeping.
func (s *Set) partial(a *Arm) (r *Result, path string, err error) {
	path = filepath.Join(s.Dir, a.partialPath())
	r = &Result{}
	if err = command.ReadJSON(path, r); errors.Is(err, os.ErrNotExist) || err == nil && r.Key != a.Key() {
		return &Result{Key: a.Key()}, path, nil
	}
	for _, x := range r.Sweeps {
		if err == nil && len(x.SpeedMPS) != len(x.Settings) {
			err = fmt.Errorf("%s: %d speeds for %d settings", x.Name, len(x.SpeedMPS), len(x.Settings))
		}
		err = cmp.Or(err, pareto.CheckOutcomes(x.Settings, x.Outcomes, x.flown()))
	}
	if err != nil {
		return nil, path, cli.BadInputf("%s is damaged (%v): remove it, and the arm is measured again", path, err)
	}
	return r, path, nil
}

// sweep flies the seeds of a protocol that there are not yet, some at a time, and calls keep after these.
func (s *Set) sweep(ctx context.Context, a *Arm, p *Policy, x *Protocol, y *Sweep, keep func() error) error {
	c := p.World
	if x.Change != nil {
		x.Change(&c)
	}
	requests := make([]rollout.Request, len(x.Settings))
	for i, setting := range x.Settings {
		requests[i] = x.Request(setting)
	}
	runner := func() (*rollout.Runner, error) { return p.Runner(c, x.Link) }
	progress := command.Progress(s.Log, "  seeds, "+a.Name+", "+x.Name, len(x.Seeds))
	for done := y.flown(); done < len(x.Seeds); done = y.flown() {
		some := x.Seeds[done:min(done+s.Workers, len(x.Seeds))]
		results, err := rollout.SweepRunners(ctx, runner, c, some, requests, s.Workers, func(n int) { progress(done + n) })
		if err != nil {
			return err
		}
		for k, row := range results {
			for _, f := range row {
				y.SpeedMPS[k] += f.MeanSpeedMPS / float64(len(x.Seeds))
				y.Outcomes[k] = append(y.Outcomes[k], pareto.Point{DelayS: s.rounded(f.DelayS), EnergyJ: s.rounded(f.EnergyJ)})
			}
			if y.flown() == len(x.Seeds) {
				y.SpeedMPS[k] = s.rounded(y.SpeedMPS[k])
			}
		}
		if err := keep(); err != nil {
			return err
		}
	}
	return nil
}

// rounded is to a tenth of a millisecond or of a millijoule, far below what any table shows:
// results are to be kept, and half of a file would be digits that say nothing.
func (s *Set) rounded(x float64) float64 {
	if !s.Rounded {
		return x
	}
	return math.Round(x*1e4) / 1e4
}

// calibrationSettings are flown to spread settings over the front that is achieved.
const calibrationSettings = 41

// recalibrate sets a policy's settings to some that are even over the front that it achieves, and returns
// how many of those that were flown for it make that front.
func (s *Set) recalibrate(ctx context.Context, a *Arm, p *Policy) (kept int, err error) {
	if p.Constants == nil {
		return 0, errors.New("its settings cannot be recalibrated")
	}
	grid := calibrate.EvenOmegas(p.Constants, p.Band, calibrationSettings)
	x := Protocol{Name: "calibration", Settings: grid, Request: p.Request, Seeds: seeds.List(seeds.CalibrationFirst, s.CalibrationSeeds)}
	on := newSweep(&x)
	if err := s.sweep(ctx, a, p, &x, &on, func() error { return nil }); err != nil {
		return 0, err
	}
	cal, err := calibrate.FitSettingMap(grid, on.Outcomes)
	if err != nil { // it makes no front: the conditioner's shares
		p.Settings = calibrate.EvenOmegas(p.Constants, p.Band, a.Recalibrated)
	} else {
		p.Settings = rollout.CalibratedOmegas(&cal.SettingMap, a.Recalibrated)
	}
	return len(cal.FrontIndices), nil
}
