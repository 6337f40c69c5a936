// Package compare sets a flight in a world that hides something beside rollouts of the
// same seed, request, lost reports, late decisions and missed slots: one by the same policy, which says
// what simulated time, links and airframes leave out, and one by a scheduler without
// memory, which says what the memory was worth.
//
// Inputs: the folder of a flight that simbridge flew. Outputs: delays and joules, and
// pictures of what the leader believed beside what was true. After a flight; nothing
// that flies imports it.
package compare

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"

	"prefdt/configs/cli"
	"prefdt/inference"
	"prefdt/inference/belief"
	"prefdt/offline/baseline"
	"prefdt/offline/belieftrain"
	"prefdt/offline/command"
	"prefdt/offline/rollout"
	"prefdt/simbridge/chart"
	"prefdt/simbridge/report"
	"prefdt/telemetry"
)

// Cost is what a flight, or a rollout, cost.
type Cost struct {
	DelayS  float64 `json:"delay_s"`
	EnergyJ float64 `json:"energy_j"`
	bySlot  []Cost
}

func (c *Cost) add(delayS, energyJ float64) {
	c.bySlot = append(c.bySlot, Cost{DelayS: delayS, EnergyJ: energyJ})
	c.DelayS, c.EnergyJ = c.DelayS+delayS, c.EnergyJ+energyJ
}

// cost is what the flight cost, and how many of its slots were missed.
func (f *Flight) cost() (total Cost, missed int) {
	for i := range f.Slots {
		total.add(f.Slots[i].DelayS, f.Slots[i].EnergyJ)
		if f.Slots[i].Missed {
			missed++
		}
	}
	return total, missed
}

// rollout is what the flight's request costs on its seed, in the slots that it had.
func (f *Flight) rollout(r *rollout.Runner) (total Cost) {
	r.OnSettled = func(n int, delayS, energyJ float64) {
		if n < len(f.Slots) { // a flight may have ended early
			total.add(delayS, energyJ)
		}
	}
	r.Fly(f.Summary.Seed, f.Request)
	return total
}

// Comparison is a flight beside its rollouts.
type Comparison struct {
	Slots       int     `json:"slots"`
	MissedSlots int     `json:"missed_slots"`
	Flight      Cost    `json:"flight"`
	Rollout     Cost    `json:"rollout"`    // by the same policy
	Memoryless  Cost    `json:"memoryless"` // by the same policy, without memory
	DelayError  float64 `json:"delay_error"`
	EnergyError float64 `json:"energy_error"` // of the flight against the rollout

	budget *report.Energy // nil: none at the end
	folder string
	drawn  []string // names of the pictures in it
}

// Compare flies the rollouts of a flight, with the files that its leader decided with.
func Compare(f *Flight) (c Comparison, err error) {
	frozen, err := f.Leader.loadBelieving()
	if err != nil {
		return c, err
	}
	c.Slots = len(f.Slots)
	c.Flight, c.MissedSlots = f.cost()
	if f.Summary.Budget.RevisedJ > 0 {
		c.budget = &f.Summary.Budget
	}
	fly := func(e belief.Estimator) (total Cost, err error) {
		r, err := rollout.New(frozen, inference.DecoderOf(f.Leader.Decoder), f.World, f.Link())
		if err != nil {
			return total, err
		}
		r.Believe(e)
		return f.rollout(r), nil
	}
	if c.Rollout, err = fly(frozen.NewEstimator(belieftrain.SurroundingsOf(&f.World))); err != nil {
		return c, err
	}
	if c.Memoryless, err = fly(baseline.NewMemoryless(&f.World)); err != nil {
		return c, err
	}
	c.DelayError, c.EnergyError = c.Flight.DelayS/c.Rollout.DelayS-1, c.Flight.EnergyJ/c.Rollout.EnergyJ-1
	return c, nil
}

// BesideModel is a flight whose tasks were computed beside a rollout of the same seed, and so the
// same arrivals, with the same request and missed slots.
type BesideModel struct {
	Arrivals    int     `json:"arrivals"` // tasks that the world had
	Tasks       int     `json:"tasks"`    // of them, that were computed
	MissedSlots int     `json:"missed_slots"`
	Flight      Cost    `json:"flight"` // its delay as users measured it
	Rollout     Cost    `json:"rollout"`
	DelayError  float64 `json:"delay_error"`
	EnergyError float64 `json:"energy_error"` // of the flight against the rollout
}

// CompareExecuted flies the rollout: with the cycles of a bit that were measured, and the CPU
// that the workers had in the mean.
func CompareExecuted(f *Flight) (c BesideModel, err error) {
	x := f.Summary.Executed
	if !(x.EdgeCPUHz > 0 && x.CyclesPerBit > 0) {
		return c, fmt.Errorf("compare: no worker was offered, or the flight is an old one: its edge_cpu_hz is %v, cycles_per_bit %v",
			x.EdgeCPUHz, x.CyclesPerBit)
	}
	frozen, err := f.Leader.load()
	if err != nil {
		return c, err
	}
	w := f.World
	w.CyclesPerBit, w.Physics.EdgeCPUHz = x.CyclesPerBit, x.EdgeCPUHz
	l := rollout.ReportLink{Fallback: rollout.FallbackOffer, Missed: f.missed}
	r, err := rollout.New(frozen, inference.DecoderOf(f.Leader.Decoder), w, l)
	if err != nil {
		return c, err
	}
	c.Rollout = f.rollout(r)
	c.Flight, c.MissedSlots = f.cost()
	c.Arrivals, c.Tasks, c.Flight.DelayS = f.Summary.Tasks.Total, x.Tasks, x.MeasuredDelayS
	c.DelayError, c.EnergyError = c.Flight.DelayS/c.Rollout.DelayS-1, c.Flight.EnergyJ/c.Rollout.EnergyJ-1
	return c, nil
}

// String says how far the flight is off.
func (c *BesideModel) String() string {
	return fmt.Sprintf("%d of %d tasks took %.1f s; the same arrivals computed without a leader: %.1f s; the flight took %s", c.Tasks,
		c.Arrivals, c.Flight.DelayS, c.Rollout.DelayS, against(&c.Flight, &c.Rollout))
}

// against is what a flight cost beside something else, in words.
func against(flight, other *Cost) string {
	change := func(flight, other float64, of string) string {
		switch percent := 100 * (flight/other - 1); {
		case math.Abs(percent) < 0.05:
			return "the same " + of
		case percent < 0:
			return fmt.Sprintf("%.1f %% less %s", -percent, of)
		default:
			return fmt.Sprintf("%.1f %% more %s", percent, of)
		}
	}
	joules := change(flight.EnergyJ, other.EnergyJ, "energy")
	return change(flight.DelayS, other.DelayS, "delay") + ", " + joules
}

//go:embed compare.tmpl
var text string

// AgainstRollout is what the flight took beside its rollout, in words.
func (c *Comparison) AgainstRollout() string { return against(&c.Flight, &c.Rollout) }

// AgainstMemoryless is what the flight took beside the rollout without memory, in words.
func (c *Comparison) AgainstMemoryless() string { return against(&c.Flight, &c.Memoryless) }

// Kept is what became of the budget; empty: there was none at the end.
func (c *Comparison) Kept() string {
	if c.budget == nil {
		return ""
	}
	scope := telemetry.ScopeSlots
	if c.budget.Landed {
		scope = telemetry.ScopeLanded
	}
	return becameOf(c.budget.RevisedJ, scope, c.budget.Error)
}

// Pictures are those that were drawn, with what they show.
func (c *Comparison) Pictures() string {
	var list []string
	for _, name := range c.drawn {
		list = append(list, name+", "+shown[name])
	}
	return c.folder + "/" + strings.Join(list, "; ")
}

// evenPicture is a flight beside the simplest way to spend the same joules.
const evenPicture = "even.png"

const usage = `offline compare sets a flight of simbridge fly beside rollouts with the same seed, request, lost
reports and missed slots. Of a flight with a budget, by a scheduler that spends it evenly: even.png; of packs,
with each aircraft in the air until its pack is used, which spends the same joules. Of one in
a field world, -world NAME, by the same policy, late decisions included, with memory and without, with what the
leader believed beside what was true: wind.png, links.png, memory.png. Of one whose tasks were computed, TASKS=real:
by the same policy, with the CPU that the workers had. A flight of these whose slots, reports or decisions were late
or missed by more than 1 % is not compared: the rollouts have none.

  offline compare -flight DIR

Flags:
`

// Command is "offline compare".
func Command(_ context.Context, call *cli.Call) error {
	folder := call.Flags.String("flight", "", "`folder` of the flight; the pictures go there, too")
	asJSON := call.JSONFlag()
	if _, err := call.Parse(usage, 0); err != nil {
		return err
	}
	if *folder == "" {
		return cli.BadInputf("want -flight DIR (-h shows the flags)")
	}
	f, err := ReadFlight(*folder)
	if err != nil {
		return cli.BadInput(err)
	}
	if why := f.Summary.Disturbed(); why != "" && (f.Summary.Executed != nil || !f.World.HidesState()) {
		// The rollouts below have no late decision: what is between them and the flight would be the machine's.
		even := filepath.Join(*folder, evenPicture)
		if err := os.Remove(even); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove the picture of an earlier flight: %w", err)
		}
		return call.Result(*asJSON, map[string]string{"disturbed": why}, "not compared: this machine was too busy for speed %g (%s)",
			f.Summary.Speed, why)
	}
	beside := func(c fmt.Stringer, err error, title string, other curve, flight *Cost, whose string) error {
		path := filepath.Join(*folder, evenPicture)
		if err == nil {
			err = saveCosts(path, title, other, curve{"the flight", flight, chart.Blue, 2})
		}
		if err != nil {
			return err
		}
		return call.Result(*asJSON, c, "%v\npicture    %s: joules and delay beside %s", c, path, whose)
	}
	switch {
	case f.Summary.Executed != nil:
		c, err := CompareExecuted(f)
		if err != nil {
			return cli.BadInput(err)
		}
		return call.Result(*asJSON, c, "%v", &c)
	case f.Request.Packs != nil:
		c, err := CompareAloft(f)
		return beside(&c, err, "The flight, and each in the air until its pack is used",
			curve{"until the pack is used", &c.Aloft, chart.Red, 2}, &c.Flight, "those of all in the air")
	case !f.World.HidesState():
		c, err := CompareEven(f)
		return beside(&c, err, "The flight, and the same joules spent evenly", curve{"spent evenly", &c.Even, chart.Red, 2}, &c.Flight,
			"the even spender's")
	}
	c, err := Compare(f)
	if err != nil {
		return err
	}
	c.folder = *folder
	if c.drawn, err = draw(*folder, f, &c); err != nil {
		return err
	}
	return command.PrintReport(call, *asJSON, text, &c)
}
