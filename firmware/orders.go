package main

import (
	"fmt"

	"prefdt/firmware/fleet"
	"prefdt/telemetry"
)

// transition is CONTRACT's table of mission commands.
func (l *Leader) transition(action string) error {
	refuse := fmt.Errorf("cannot %s: the mission is %s", action, l.state)
	switch action {
	case telemetry.ActionStart:
		if l.state != telemetry.StateIdle {
			return refuse
		}
		if err := l.ready(); err != nil {
			return fmt.Errorf("cannot start: %w", err)
		}
		l.climbS = 0
		for i := range l.Config.Aircraft {
			if err := l.fleet.Launch(i + 1); err != nil {
				l.Log.Error("aircraft does not start", "aircraft", i+1, "reason", err)
			}
		}
		l.enter(telemetry.StateClimbing)
	case telemetry.ActionHold:
		if l.state != telemetry.StateFlying {
			return refuse
		}
		l.enter(telemetry.StateHolding)
		for i := range l.Config.Aircraft {
			l.fleet.Hold(i + 1)
		}
	case telemetry.ActionResume:
		taken := l.takeBack()
		switch l.state {
		case telemetry.StateHolding:
			l.autoHold = false
			l.enter(telemetry.StateFlying)
		case telemetry.StateIdle, telemetry.StateStopped:
			return refuse
		default: // nothing else to resume: whoever is silent is out of the way
			if taken == 0 && !l.clear() {
				return refuse
			}
		}
	case telemetry.ActionReturn:
		switch l.state {
		case telemetry.StateClimbing, telemetry.StateFlying, telemetry.StateHolding:
			l.goHome(telemetry.StateReturning)
		default:
			return refuse
		}
	case telemetry.ActionStop:
		switch l.state {
		case telemetry.StateClimbing, telemetry.StateFlying, telemetry.StateHolding, telemetry.StateReturning:
			for i := range l.Config.Aircraft {
				l.fleet.Command(i+1, fleet.OrderStop)
			}
			l.enter(telemetry.StateStopped)
		default:
			return refuse
		}
	}
	return nil
}

// takeBack takes the aircraft that are with their pilots back: to fly on or,
// where no more is flown, to come home.
func (l *Leader) takeBack() (taken int) {
	homing := false
	switch l.state {
	case telemetry.StateClimbing, telemetry.StateHolding, telemetry.StateFlying:
	case telemetry.StateReturning, telemetry.StateDone:
		homing = true
	default:
		return 0
	}
	l.look()
	for i := range l.views {
		v := &l.views[i]
		if v.Phase != fleet.PhaseTaken {
			continue
		}
		order := fleet.OrderFly
		if homing || l.low(v) {
			order = fleet.OrderHome
		}
		if err := l.fleet.Resume(v.Number, order); err != nil { // on the ground, or not heard
			l.Log.Info("not resumed", "aircraft", v.Number, "reason", err)
			continue
		}
		taken++
	}
	return taken
}

// clear takes the crew's word that whoever is silent is in nobody's way.
func (l *Leader) clear() bool {
	cleared := false
	for i := range l.Config.Aircraft {
		if l.fleet.Clear(i+1) == nil {
			l.Log.Warn("the crew says that a silent aircraft is out of the way", "aircraft", i+1)
			cleared = true
		}
	}
	return cleared
}

// crowded names two aircraft that stand too close to take off together. A metre
// is what their positions may be off.
func (l *Leader) crowded() error {
	for i := range l.views {
		for j := range i {
			a, b := &l.views[j], &l.views[i]
			if d := a.Position.Sub(b.Position).Norm(); d < l.Physics.SeparationM-1 {
				return fmt.Errorf("aircraft %d and %d are %.1f m apart, want at least %v", a.Number, b.Number, d, l.Physics.SeparationM)
			}
			if d := l.Config.Start(a.Number, l.Physics.AreaM).Sub(l.Config.Start(b.Number, l.Physics.AreaM)).Norm(); d < l.Physics.SeparationM {
				return fmt.Errorf("start_m of aircraft %d and %d are %.1f m apart, want at least %v", a.Number, b.Number, d, l.Physics.SeparationM)
			}
		}
	}
	return nil
}

// ready says what keeps the fleet from taking off.
func (l *Leader) ready() error {
	l.look()
	for i := range l.views {
		v := &l.views[i]
		switch unsafe := v.Params.Unsafe(); {
		case !v.Heard:
			return fmt.Errorf("aircraft %d was not heard yet", v.Number)
		case !v.Fresh:
			return fmt.Errorf("aircraft %d: no position or heartbeat for %.0f s", v.Number, v.AgeS)
		case !v.Params.Read():
			return fmt.Errorf("aircraft %d: %s", v.Number, unsafe)
		case unsafe != "" && l.Config.Flight.Failsafe == "refuse":
			return fmt.Errorf("aircraft %d has an unsafe failsafe: %s", v.Number, unsafe)
		case l.low(v):
			return fmt.Errorf("aircraft %d has %.0f J left, which its reserve and the way home take", v.Number, l.residualJ(i))
		case unsafe != "":
			l.Log.Error("unsafe failsafe", "aircraft", v.Number, "reason", unsafe)
		}
		for _, reason := range v.Params.Doubtful(l.Physics.CapacityJ) {
			l.Log.Warn("doubtful parameter", "aircraft", v.Number, "reason", reason)
		}
	}
	return l.crowded()
}
