package chaos

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"prefdt/simbridge/autopilot"
	"prefdt/simbridge/geo"
	"prefdt/simbridge/record"
)

// What few autopilots, pilots and boards do. It is drawn from a stream of its own, so that what was drawn
// before stays as it is, and it is no part of a run's cells.

const (
	tightM      = 12.0 // between tight homes
	lowPilotM   = 30.0 // to which a pilot flies an aircraft down
	oddLandingS = 40   // of a landing in which its autopilot tells nothing, or what is wrong
	stationS    = 16   // for which another station flies one
)

// downAndAside is how such a pilot flies.
var downAndAside = geo.Local{EastM: 5, UpM: -10}

// drawOdd draws it.
func (p *plan) drawOdd(c *Config, k int) {
	r := rand.New(rand.NewPCG(c.Seed, 1<<57|uint64(k)))
	one := func(in int) bool { return r.IntN(in) == 0 }
	if c.Processes || p.lands() {
		return
	}
	p.drawCrowded(r)
	first := &p.Faults[0]
	p.LaterNames = p.fliesCopters() && one(3)
	if f := slices.IndexFunc(p.Faults, func(f fault) bool { return f.coverageCell == coverageCell{PilotReturn, Flying} }); f >= 0 &&
		p.Aircraft == fleetOfTwo && !p.Crowd && p.OutsideM == 0 && !p.hasFaultIn(Holding, Done, Stopped) && one(2) {
		// It comes home by itself, and lands, beside the home of another that was called home.
		p.TightHomes, p.DenseStart, p.ApartM, p.StockRates = true, false, 10.5+3*r.Float64(), true
		p.Faults[f].StartSlot = min(p.Faults[f].StartSlot, p.Slots/2)
		p.Ending, p.HoldSlots, p.EndSlot = endReturn, 0, p.Faults[f].StartSlot+2+r.IntN(12)
		p.Beside = true
	}
	if p.LowPilot = first.Kind == PilotPosition && !p.Crowd && one(2); p.LowPilot {
		const longest = 9
		first.DurationSlots = max(first.DurationSlots, longest)
	}
	switch first.coverageCell {
	case coverageCell{PilotPosition, Flying}: // its climb is broken off
		if p.LowPilot && !p.hasFaultIn(Holding, Done, Stopped) {
			p.Ending, p.HoldSlots, p.StockRates = endReturn, 0, true
			first.StartSlot = min(first.StartSlot, 8)
			p.EndSlot = first.StartSlot + first.DurationSlots + 10
			p.Slots = max(p.Slots, p.EndSlot+quietSlots)
		}
	case coverageCell{PilotPosition, Climbing}: // the others are at their starts before it has climbed again
		p.StockRates = p.StockRates || p.LowPilot
	case coverageCell{PilotPosition, Returning}:
		p.RelaunchesGrounded = true
	case coverageCell{ArmingRefused, Idle}:
		if p.Nobody = one(2); p.Nobody {
			p.setFleet(1, r)
			p.Copters, p.TightHomes, p.OneLink = p.Copters[:min(len(p.Copters), 1)], false, false
		}
	}
	if p.hasFault(ProcessKill, PowerCut) && first.State == Flying {
		switch kinds := 3; {
		case one(kinds):
			p.LoadS = 6 + 6*r.Float64()
		case one(kinds):
			p.Loops = 3
		}
	}
	copter := slices.Index(p.Copters, true)
	quiet := !p.hasFault(exclusiveWithCopterFaults...) && len(p.Faults) < 3
	add := func(kind FaultKind, s State) {
		p.Faults = append(p.Faults, fault{coverageCell: coverageCell{kind, s}, DurationSlots: 1, Aircraft: max(copter, 0), Severe: one(2)})
	}
	switch {
	case p.LowPilot || p.LoadS > 0 || p.Loops > 0:
	case slices.Contains([]FaultKind{ProcessKill, PowerCut}, first.Kind) && first.State == Flying && copter >= 0:
		first.Kind, first.Severe, p.Slots, p.StockRates = StationFlies, one(2) && !p.TightHomes, max(p.Slots, 80), true
		p.Faults = p.Faults[:1]
	case first.coverageCell == coverageCell{PilotPosition, Returning} && !p.TightHomes:
		p.Faults = append(p.Faults, fault{coverageCell: coverageCell{ModeRefused, Returning}, DurationSlots: 1, Aircraft: first.Aircraft})
		first.StartSlot = max(first.StartSlot, 1)
	case !quiet || first.State == Landing || first.State == Done || first.State == Stopped && first.Kind != CommandStorm:
	case p.Ending == endStop && !p.TightHomes && one(2):
		add(ModeRefused, Stopped)
		p.ReturnAfterStop = true
	case !p.visits(Landing) || p.StopsLanding || p.TightHomes || one(2):
	case copter >= 0 && one(3):
		add(HeartbeatSilence, Landing)
		p.StockRates = true
	case copter >= 0 && one(2):
		add(TellsLanded, Landing)
		p.StockRates = true
	default:
		add(StaysArmed, Landing)
	}
}

// drawCrowded has a quarter of the missions with two aircraft fly three to eight, whose homes are 11.5 to 15 m apart.
func (p *plan) drawCrowded(r *rand.Rand) {
	sizes := []int{3, 3, 3, 4, 4, 5, 6, 8}
	if r.IntN(4) > 0 || p.Aircraft != fleetOfTwo || p.OneLink || p.Crowd || p.Site != nil || p.OutsideM > 0 || p.hasFault(StationSilence) {
		return
	}
	before := p.Copters
	for p.setFleet(sizes[r.IntN(len(sizes))], r); len(before) > 0 && len(p.Copters) < p.Aircraft; {
		p.Copters = append(p.Copters, before[len(p.Copters)%len(before)])
	}
	p.TightHomes, p.DenseStart, p.ApartM = true, false, 11.5+3.5*r.Float64()
	p.LandsAtReserve = false
}

// patience is for how many slots a crew waits for an aircraft in Hold before its pilot lands it.
func (p *plan) patience() time.Duration {
	if p.hasFault(ModeRefused) { // what it asks for in vain, twice
		return 300
	}
	return 20
}

// startAgain starts the leader, which reads its checkpoint for some time first.
func (m *mission) startAgain(ctx context.Context, loadS float64) error {
	if loadS == 0 { // a program of its own has no board here
		return m.startLeader()
	}
	m.board.LoadS = loadS
	if err := m.startLeader(); err != nil {
		return err
	}
	m.noteFault(record.LeaderLoads, 0, false, "")
	m.sleepWall(ctx, loadS)
	m.noteFault(record.LeaderLoads, 0, true, "")
	m.board.LoadS = 0
	return nil
}

// failToStart has the leader start and end several times, without its checkpoint.
func (m *mission) failToStart(ctx context.Context) error {
	const aliveS, never = 9, 3600
	for range m.plan.Loops {
		m.board.LoadS = never
		err := m.startLeader()
		if m.board.LoadS = 0; err != nil {
			return err
		}
		m.sleepWall(ctx, aliveS)
		if err := m.leader.Load().Kill(); err != nil {
			return err
		}
	}
	return nil
}

// injectOdd injects one of these faults.
func (m *mission) injectOdd(ctx context.Context, f fault) error {
	a := m.autopilots[f.Aircraft]
	landed := func(s autopilot.State) bool { return s.Landed || !s.Armed }
	until := func(over func(autopilot.State) bool, most float64) {
		for began := m.elapsedSlots(); !over(a.State()) && m.elapsedSlots() < began+most && ctx.Err() == nil; m.sleepSlots(ctx, 0.5) {
		}
	}
	const longest = 300
	switch f.Kind {
	case ModeRefused:
		odd := autopilot.Oddities{Refuses: []autopilot.Mode{autopilot.ModeOffboard}}
		if f.Severe {
			odd.Refuses = append(odd.Refuses, autopilot.ModeReturn)
		}
		a.SetOddities(odd)
		m.noteFault(record.RefusesMode, f.Aircraft+1, false, "")
		go func() {
			until(landed, longest)
			a.SetOddities(autopilot.Oddities{})
			m.noteFault(record.RefusesMode, f.Aircraft+1, true, "")
		}()
	case TellsLanded:
		a.SetOddities(autopilot.Oddities{TellsLanded: true})
		until(landed, longest)
		a.SetOddities(autopilot.Oddities{})
	case StaysArmed:
		const runsS = 60
		a.SetOddities(autopilot.Oddities{StaysArmed: true})
		until(landed, longest)
		m.sleepSlots(ctx, runsS)
		m.watch.take(f.Aircraft)
		m.noteFault(record.PilotActs, f.Aircraft+1, false, string(PilotDisarm))
		a.DisarmByRC()
		a.SetOddities(autopilot.Oddities{})
	case StationFlies:
		m.watch.take(f.Aircraft)
		return m.restartLeader(ctx, 0, func() error { return m.flyByStation(ctx, f) })
	}
	return nil
}

// flyByStation has another station fly an ArduCopter whose leader is dead: far away or, if severe, to and fro until the leader is back,
// which finds it in a turn.
func (m *mission) flyByStation(ctx context.Context, f fault) error {
	const stepS, fastMPS, slowMPS, turnsAfter, onS, stopsS = 0.5, 12.0, 6.0, 8, 12, 8
	a, side := m.autopilots[f.Aircraft], m.world.Physics.AreaSideM
	way := geo.Local{EastM: fastMPS}
	if a.State().Position.EastM > side/2 {
		way = way.Scale(-1)
	}
	if f.Severe {
		way = way.Scale(slowMPS / fastMPS)
	}
	flown := 0
	fly := func(steps int) {
		for range steps {
			if f.Severe && flown%turnsAfter == turnsAfter-1 { // it is slowest as the leader that is back decides on it
				way = way.Scale(-1)
			}
			v := way
			a.GuideByStation(&v)
			m.sleepSlots(ctx, stepS)
			flown++
		}
	}
	fly(stationS / stepS)
	if !f.Severe { // where it hovers is all that shows it
		a.GuideByStation(nil)
		m.sleepSlots(ctx, stopsS)
		return nil
	}
	go func() {
		fly(onS / stepS)
		a.GuideByStation(nil)
	}()
	return nil
}
