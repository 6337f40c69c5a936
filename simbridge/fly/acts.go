package fly

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"prefdt/simbridge/autopilot"
	"prefdt/simbridge/record"
	"prefdt/telemetry"
)

// linkLoss is the record's word for a link that passes nothing, as in missions under faults.
const linkLoss = "link_loss"

// An aircraft is well on its way up, nearly down, and still.
const (
	climbedM = 30
	landingM = 40
	stillMPS = 0.5
)

// pilotModes are what a pilot may choose, and what a condition may name.
var pilotModes = map[string]autopilot.Mode{
	"hold": autopilot.ModeHold, "position": autopilot.ModePosition, "return": autopilot.ModeReturn, "land": autopilot.ModeLand,
}

// fleetConditions are the words of `when` that are of no single aircraft.
var fleetConditions = []string{whenClimb, whenLanding, telemetry.StateHolding, telemetry.StateStopped}

const (
	whenClimb   = "climb"   // one is well on its way up
	whenLanding = "landing" // after the slots one is nearly down
)

// aircraftConditions are those with an aircraft's number before them, as in "2 hold".
var aircraftConditions = map[string]func(s *autopilot.State) bool{
	"commanded": func(s *autopilot.State) bool { return s.Mode == autopilot.ModeOffboard && s.Position.UpM > climbedM },
	"hold":      func(s *autopilot.State) bool { return s.Mode == autopilot.ModeHold },
	"position":  func(s *autopilot.State) bool { return s.Mode == autopilot.ModePosition },
	"return":    func(s *autopilot.State) bool { return s.Mode == autopilot.ModeReturn },
	"ground":    func(s *autopilot.State) bool { return s.Landed && !s.Armed },
}

// check returns what is wrong with a command. last is the slot of the one before.
func (c *Command) check(aircraft, last int) error {
	ways := 0
	for _, way := range []bool{len(c.Args) > 0, c.Kill, c.CutS > 0, c.Pilot != ""} {
		if way {
			ways++
		}
	}
	number, word, ofOne := strings.Cut(c.When, " ")
	n, err := strconv.Atoi(number)
	_, known := aircraftConditions[word]
	_, mode := pilotModes[c.Pilot]
	switch {
	case ways == 0 && c.When == "":
		return fmt.Errorf("command at slot %d: run is empty, want what ground shall do", c.Slot)
	case ways > 1:
		return fmt.Errorf("command %q has %d of run, kill, cut_s and pilot, want one", c, ways)
	case c.Slot < last && c.When == "":
		return fmt.Errorf("command %q at slot %d comes after one at slot %d: want them in order, from -1", c, c.Slot, last)
	case c.When != "" && !slices.Contains(fleetConditions, c.When) && !(ofOne && known && err == nil && n >= 1 && n <= aircraft):
		return fmt.Errorf("command %q: when is %q, want climb, landing, holding, stopped, or an aircraft's number and commanded, "+
			"hold, position, return or ground", c, c.When)
	case (c.CutS > 0 || c.Pilot != "") && !(c.Aircraft >= 1 && c.Aircraft <= aircraft):
		return fmt.Errorf("command %q: aircraft is %d, want 1 to %d", c, c.Aircraft, aircraft)
	case c.Pilot != "" && !mode:
		return fmt.Errorf("command %q: want hold, position, return or land", c)
	}
	return nil
}

// String says it in words.
func (c *Command) String() string {
	switch {
	case c.Kill:
		return "the leader is killed, and started again"
	case c.CutS > 0:
		return fmt.Sprintf("the link of aircraft %d is cut for %g s", c.Aircraft, c.CutS)
	case c.Pilot != "":
		return fmt.Sprintf("the pilot of aircraft %d chooses %s", c.Aircraft, c.Pilot)
	case len(c.Args) > 0:
		return "$ ground " + strings.Join(c.Args, " ")
	}
	return "aircraft " + c.When // it is only waited for
}

// isDue is whether a command's slot has come, and its condition holds.
func (f *flight) isDue(c *Command) bool {
	if c.Slot > f.observer.lastSlot() && (c.Slot != 0 || c.When == "") {
		return false
	}
	status := f.observer.status()
	anyIs := func(holds func(s *autopilot.State) bool) bool {
		return slices.ContainsFunc(f.fleet.vehicles, func(v vehicle) bool { s := v.State(); return holds(&s) })
	}
	switch c.When {
	case "":
		return true
	case whenClimb:
		return status.State == telemetry.StateClimbing && anyIs(func(s *autopilot.State) bool { return s.Position.UpM > climbedM })
	case whenLanding:
		return isEnding(status.State) && anyIs(func(s *autopilot.State) bool {
			return s.Armed && s.Position.UpM < landingM && s.Velocity.UpM < 0
		})
	case telemetry.StateHolding, telemetry.StateStopped:
		return status.State == c.When && !anyIs(func(s *autopilot.State) bool { return s.SpeedMPS() > stillMPS })
	}
	number, word, _ := strings.Cut(c.When, " ")
	n, _ := strconv.Atoi(number)
	s := f.fleet.vehicles[n-1].State()
	if word == "ground" && (n > len(status.Aircraft) || status.Aircraft[n-1].Duty != telemetry.DutyHome) {
		return false // its leader does not know yet
	}
	return aircraftConditions[word](&s)
}

// doDue does what is due, in order; send has the crew command.
func (f *flight) doDue(send func(Command)) error {
	for ; f.done < len(f.Commands) && f.isDue(&f.Commands[f.done]); f.done++ {
		c := &f.Commands[f.done]
		if len(c.Args) > 0 {
			send(*c)
			continue
		}
		f.view.printLine(fmt.Sprintf("slot %d: %s", f.observer.lastSlot(), c))
		switch i := c.Aircraft - 1; {
		case c.Kill:
			if err := f.restartLeader(); err != nil {
				return err
			}
		case c.CutS > 0:
			f.record.noteFault(i, linkLoss, false)
			time.AfterFunc(time.Duration(c.CutS/f.Speed*float64(time.Second)), func() { f.record.noteFault(i, linkLoss, true) })
			f.fleet.vehicles[i].CutLinks(c.CutS)
		case c.Pilot != "":
			f.record.noteFault(i, record.PilotActs, false)
			f.fleet.vehicles[i].SetModeByRC(pilotModes[c.Pilot])
		}
	}
	return nil
}

// undone is what a flight that took its course left undone since its condition never held, nil for nothing.
func (f *flight) undone() error {
	for _, c := range f.Commands[f.done:] {
		if c.When != "" || len(c.Args) == 0 {
			return fmt.Errorf("%q of slot %d was never due: %s", &c, c.Slot, cmp.Or(c.When, "the slots were over"))
		}
	}
	return nil
}
