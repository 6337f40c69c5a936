package chaos

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"prefdt/simbridge/autopilot"
	"prefdt/simbridge/battery"
	"prefdt/simbridge/record"
	"prefdt/telemetry"
)

// Faults that some missions have beside those of a run's cells, so that what was drawn of those before stays as it is: most are orders
// of a hasty crew, at a moment in which a leader may not know what it needs.
const (
	OtherVehicle    FaultKind = "other_vehicle"    // an autopilot says that it flies a plane
	ParameterChange FaultKind = "parameter_change" // another station changes a failsafe's parameter in flight
	QuickReboot     FaultKind = "quick_reboot"     // within a second, in the air; the crew resumes it at once
	PilotLands      FaultKind = "pilot_lands"      // the crew resumes it as it touches down
	DiskOrders      FaultKind = "disk_orders"      // while the disk finishes no write the crew ends the flight
	ReturnAtOnce    FaultKind = "return_at_once"   // as soon as a HEARTBEAT shows the hold of a stop
	NewWhileLost    FaultKind = "new_while_lost"   // an aircraft is lost in the air, all others were landed
)

var addedFaults = []coverageCell{
	{OtherVehicle, Idle}, {ParameterChange, Flying}, {QuickReboot, Flying}, {PilotLands, Flying}, {DiskOrders, Flying},
	{DiskOrders, Stopped}, {ReturnAtOnce, Stopped}, {NewWhileLost, Stopped},
}

// rareFaults are those that fewer missions have, for they end a flight early, or its climb.
var rareFaults = []coverageCell{{DiskOrders, Idle}, {DiskOrders, Climbing}, {LowBattery, Climbing}}

// groundWork is what the crew does with an aircraft on the ground before it launches it again.
type groundWork string

const (
	launchBeside   groundWork = "launch_beside"    // carries it to the home of another one in the air
	launchTwo      groundWork = "launch_two"       // launches it together with one that flies
	launchUsedPack groundWork = "launch_used_pack" // fits a pack that holds less than the reserve, and later a full one
	usedPackFitted groundWork = "used_pack_fitted"
	fullPackFitted groundWork = "full_pack_fitted"
)

// rareEvery is of how many missions one may have such a fault, whatever is drawn.
const rareEvery = 8

// drawAdded draws them for missions in which nothing else takes an aircraft from its leader or delays what that does.
func (p *plan) drawAdded(c *Config, k int) {
	r := rand.New(rand.NewPCG(c.Seed, 1<<59|uint64(k)))
	p.RetainedReports, p.EmptyBattery = r.IntN(4) == 0, r.IntN(4) == 0
	p.NoneLed = k/2%2 == 0 && p.hasFault(ProcessKill) && p.hasFault(PilotPosition, PilotHold) && !p.fliesCopters() && p.Site == nil &&
		!p.lands()
	if works := []groundWork{launchBeside, launchTwo, launchUsedPack}; r.IntN(2) == 0 && p.RelaunchesGrounded && p.MonitorS == 0 {
		if p.GroundWork = works[r.IntN(len(works))]; p.GroundWork == launchUsedPack && p.NoCharge { // nobody could know
			p.GroundWork = launchTwo
		}
		if p.GroundWork == launchTwo && p.hasFault(PilotDisarm) && k%4 >= 2 { // few others have one on the ground in the slots
			p.GroundWork = launchBeside
		}
	}
	if c.Processes || p.lands() || p.BoundedPacks || !p.isUndisturbed() || p.hasFaultIn(Idle) || p.hasFault(onlyFirst...) {
		return
	}
	if k%rareEvery == 0 && !p.hasFaultIn(Climbing, Engaging) && !p.fliesCopters() {
		x := rareFaults[k/rareEvery%len(rareFaults)]
		p.StockRates = p.StockRates || x.Kind == LowBattery // its climb is long enough
		p.Faults = append(p.Faults, fault{coverageCell: x, DurationSlots: 1, Aircraft: k % p.Aircraft})
		return
	}
	possible := slices.DeleteFunc(slices.Clone(addedFaults), func(x coverageCell) bool {
		ends := x == coverageCell{DiskOrders, Flying} // the slots
		return !p.visits(x.State) || p.hasFaultIn(x.State) || ends && (p.Ending == endSlots || p.HoldSlots > 0 || p.hasFaultIn(Returning))
	})
	cell := possible[r.IntN(len(possible))]
	f := fault{coverageCell: cell, DurationSlots: 1 + r.IntN(8), Aircraft: r.IntN(p.Aircraft), Severe: r.IntN(2) == 0}
	switch f.StartSlot = p.drawStartSlot(cell, p.Slots-quietSlots, r); {
	case f.Kind == ReturnAtOnce:
		f.StartSlot = 0
	case cell == coverageCell{DiskOrders, Flying}: // in place of the crew's order
		p.EndSlot = never
	}
	p.Faults = append(p.Faults, f)
}

// drawReturn has the first positions be wrong in a half of the missions in which a leader receives an aircraft again in flight, some
// fallen ones be carried far, some autopilots reboot while their leader stands still, and some crews have a second station.
func (p *plan) drawReturn(c *Config, k int) {
	r := rand.New(rand.NewPCG(c.Seed, 1<<60|uint64(k)))
	p.WrongFirst = r.IntN(2) == 0 && len(p.WrongSamples) == 0 && p.Site == nil && !c.Processes && slices.ContainsFunc(p.Faults,
		func(f fault) bool {
			return f.State == Flying && (f.Kind == ProcessKill || f.Kind == PowerCut || f.losesAircraft())
		})
	far := !p.DenseStart && !p.TightHomes && !p.Crowd // from where it fell
	if r.IntN(2) > 0 && far && p.hasFault(PilotDisarm) && p.RelaunchesGrounded && p.GroundWork == "" && p.MonitorS == 0 {
		p.GroundWork = launchBeside
	}
	if stall := &p.Faults[0]; r.IntN(2) > 0 && stall.coverageCell == (coverageCell{ProcessStall, Flying}) && len(p.Faults) == 1 {
		const longest = 8 // what waits is from before the boot, and from after it
		stall.DurationSlots = longest
		p.Faults = append(p.Faults, fault{coverageCell: coverageCell{Reboot, Flying}, StartSlot: stall.StartSlot + 1, DurationSlots: 1})
	}
	p.OtherStation = r.IntN(12) == 0 && p.Signed
	f := &p.Faults[0]
	p.FlownOut = f.coverageCell == coverageCell{PilotPosition, Holding} && !p.LowPilot && !f.Severe && p.OutsideM == 0 && !p.lands()
	if p.FlownOut {
		const reachesSlots, comesInSlots = 75, 35
		f.DurationSlots = reachesSlots
		p.HoldSlots = max(p.HoldSlots, f.StartSlot+reachesSlots+comesInSlots)
		p.Slots = max(p.Slots, p.HoldSlot+p.HoldSlots+quietSlots)
		p.EndSlot = max(p.EndSlot, p.HoldSlot+p.HoldSlots)
	}
}

// heightJump is by how much the height that an aircraft measures jumps, and in which slot; 0: it does not.
type heightJump struct {
	Aircraft, Slot int
	Metres         float64
}

// drawHeightJump has one aircraft's height jump in one of eight missions, where a descent may be wrong by as much.
func (p *plan) drawHeightJump(c *Config, k int) {
	const leastM, mostM, fromSlot = 12, 110, 5
	r := rand.New(rand.NewPCG(c.Seed, 1<<62|uint64(k)))
	if last := p.Slots - quietSlots; r.IntN(8) == 0 && !c.Processes && !p.lands() && !p.LandsAtReserve && last > fromSlot {
		p.HeightJump = heightJump{r.IntN(p.Aircraft), fromSlot + r.IntN(last-fromSlot), leastM + (mostM-leastM)*r.Float64()}
		if r.IntN(3) == 0 {
			p.HeightJump.Metres *= -1
		}
	}
}

// jumpHeight has its height jump once that is due, and be as before once it stands with its motors off, for then its estimator settles.
func (m *mission) jumpHeight() {
	j := &m.plan.HeightJump
	i, a := j.Aircraft, m.autopilots[j.Aircraft]
	jump := func(metres float64) {
		m.noteFault(record.HeightJump, i+1, false, strconv.FormatFloat(metres, 'f', 1, 64))
		m.noteFault(record.HeightJump, i+1, true, "")
		a.JumpHeight(metres)
	}
	switch s := a.State(); {
	case j.Metres == 0 || m.heightSettled:
	case m.heightJumped && !s.Armed && s.OnGround:
		m.heightSettled = true
		jump(0)
	case !m.heightJumped && s.Mode == autopilot.ModeOffboard && m.state() == Flying && int(m.slotNow()) >= j.Slot:
		m.heightJumped = true
		jump(j.Metres)
	}
}

// beginWrong has an aircraft's positions be far away for half a second.
func (m *mission) beginWrong(i int) {
	m.noteFault(record.WrongSample, i+1, false, string(autopilot.PositionGlitch))
	m.noteFault(record.WrongSample, i+1, true, "")
	m.autopilots[i].SendWrongSample(autopilot.PositionGlitch)
}

// injectAdded injects one of them.
func (m *mission) injectAdded(ctx context.Context, f fault) (met bool, err error) {
	i, a := f.Aircraft, m.autopilots[f.Aircraft]
	switch f.Kind {
	case OtherVehicle:
		a.SayPlane(true)
		m.sleepSlots(ctx, 3)
		if !m.plan.isCopter(i) { // of a PX4 that is flown a plane's HEARTBEAT counts as none
			err = m.requireRefusal(ctx, "a plane", "HEARTBEAT")
		}
		if m.plan.isCopter(i) || err != nil {
			err = m.requireRefusal(ctx, "a plane", "FIXED_WING")
		}
		a.SayPlane(false)
		m.sleepSlots(ctx, 3)
	case ParameterChange:
		u := m.plan.unsafeParameters(i)[0]
		switch {
		case m.plan.isCopter(i): // one that is not looked at as a failsafe
			u = unsafeParameter{"FS_GCS_TIMEOUT", 60, m.plan.parameters(i)["FS_GCS_TIMEOUT"]}
		case f.Severe: // a safe one, and another than was checked
			u.unsafe = 3
		}
		m.noteFault(record.ParameterChanged, i+1, false, u.name)
		a.SetParameter(u.name, u.unsafe)
		m.sleepSlots(ctx, float64(6+f.DurationSlots))
		m.noteFault(record.ParameterChanged, i+1, true, "")
		a.SetParameter(u.name, u.safe)
		m.sleepSlots(ctx, 2)
	case QuickReboot:
		const knownS, headS = 3, 1
		held := f.Severe && f.DurationSlots%2 == 0 && !m.plan.isCopter(i)
		if held { // in its pilot's Hold, so that its first HEARTBEAT shows nothing of it
			m.pilotChooses(i, autopilot.ModeHold)
			m.sleepSlots(ctx, knownS)
		}
		m.watch.take(i)
		m.noteFault(string(Reboot), i+1, false, "")
		a.RebootQuickly()
		if held {
			m.sleepSlots(ctx, headS)
			m.crew.send(m.newMissionRequest(telemetry.ActionResume, i))
			m.sleepSlots(ctx, headS)
			m.noteFault(string(Reboot), i+1, true, "")
			break
		}
		for range 8 {
			m.sleepSlots(ctx, 0.25)
			m.crew.send(m.newMissionRequest(telemetry.ActionResume, i))
		}
		m.noteFault(string(Reboot), i+1, true, "")
	case PilotLands:
		m.pilotChooses(i, autopilot.ModeLand)
		for s := a.State(); !s.OnGround && s.Position.UpM > 0.3*float64(f.DurationSlots) && ctx.Err() == nil; s = a.State() {
			m.sleepSlots(ctx, 0.05)
		}
		m.crew.send(m.newMissionRequest(telemetry.ActionResume, i))
		m.sleepSlots(ctx, 3)
	case DiskOrders:
		m.orderWhileDiskStands(ctx, f)
	case ReturnAtOnce:
		const afterS = 0.015
		for began := m.elapsedSlots(); m.watch.of(i).shownMode != autopilot.ModeHold && m.elapsedSlots() < began+20; {
			m.sleepSlots(ctx, 0.01)
		}
		m.sleepSlots(ctx, afterS*float64(f.DurationSlots)) // by then its leader may have decided on it, before the next position
		m.crew.send(m.newMissionRequest(telemetry.ActionReturn))
	case NewWhileLost:
		const mostS = 150
		for k := range m.autopilots {
			if k != i {
				m.pilotChooses(k, autopilot.ModeLand)
			}
		}
		m.noteFault(string(LinkLoss), i+1, false, "")
		for n := 0; (len(m.airborne()) > 1 || n < lostS+4) && n < mostS; n++ {
			a.CutLinks(2)
			m.sleepSlots(ctx, 1)
		}
		m.crew.send(m.crew.newMission(m.random, "m2"))
		m.sleepSlots(ctx, 1)
		m.noteFault(string(LinkLoss), i+1, true, "")
		m.watch.take(i)
	}
	return true, err
}

// pilotChooses has a pilot choose a mode by remote control.
func (m *mission) pilotChooses(i int, mode autopilot.Mode) {
	m.watch.take(i)
	m.noteFault(record.PilotActs, i+1, false, mode.String())
	m.autopilots[i].SetModeByRC(mode)
}

// pilotsTakeAll has pilots take all aircraft in the air, which their leader then knows.
func (m *mission) pilotsTakeAll(ctx context.Context) {
	const knownS = 3
	for _, i := range m.airborne() {
		m.pilotChooses(i, autopilot.ModePosition)
	}
	m.sleepSlots(ctx, knownS)
}

// orderWhileDiskStands has the crew end the flight, in different ways, while the disk finishes no write.
func (m *mission) orderWhileDiskStands(ctx context.Context, f fault) {
	switch f.State {
	case Idle:
		m.stopWhileStarting(ctx)
		return
	case Climbing:
		m.climbWhileDiskStands(ctx)
		return
	}
	const knownS, standsS, betweenS = 3, 16, 1.5
	order := func(action string, aircraft ...int) *request { return m.crew.newRequest(m.random, action, aircraft...) }
	orders := []*request{order(string(m.plan.Ending))}
	i := f.Aircraft
	switch {
	case f.State == Stopped:
		orders = []*request{m.newMissionRequest(telemetry.ActionReturn)}
	case m.plan.Ending == endReturn && !f.Severe: // what the crew gives back first is overtaken
		m.pilotChooses(i, autopilot.ModePosition)
		m.sleepSlots(ctx, knownS)
		orders = append([]*request{order(telemetry.ActionResume, i)}, orders...)
	case m.plan.Ending == endReturn:
		orders = []*request{order(telemetry.ActionReturn, i), order(telemetry.ActionHold)}
	}
	// The first of several is being written itself, in the middle of a slot, as the next one comes; a single one meets a settlement.
	const middle, settlesS = 0.7, 1.6
	m.sleepSlots(ctx, math.Floor(m.slotNow())+1+middle-m.slotNow())
	m.noteFault(string(DiskStall), 0, false, "")
	release := m.hangDisk()
	if len(orders) == 1 {
		m.sleepSlots(ctx, settlesS)
	}
	for _, o := range orders {
		m.crew.send(o)
		m.sleepSlots(ctx, betweenS)
	}
	m.sleepSlots(ctx, standsS-betweenS*float64(len(orders)))
	release()
	m.noteFault(string(DiskStall), 0, true, "")
	if orders[len(orders)-1].action == telemetry.ActionHold {
		m.sleepSlots(ctx, 10)
		m.crew.send(order(string(m.plan.Ending)))
	}
}

// stopWhileStarting has the crew stop a fleet whose start is still being written.
func (m *mission) stopWhileStarting(ctx context.Context) {
	const betweenS, settlesS = 2, 20
	m.sleepSlots(ctx, settlesS) // by then a start is accepted
	m.noteFault(string(DiskStall), 0, false, "")
	release := m.hangDisk()
	m.crew.send(m.newMissionRequest(telemetry.ActionStart, m.allAircraft()...))
	m.sleepSlots(ctx, betweenS)
	m.crew.send(m.newMissionRequest(telemetry.ActionStop))
	m.sleepSlots(ctx, betweenS)
	release()
	m.noteFault(string(DiskStall), 0, true, "")
	m.sleepSlots(ctx, settlesS)
}

// climbWhileDiskStands has the disk finish no write as the climb ends.
func (m *mission) climbWhileDiskStands(ctx context.Context) {
	const share, standsS = 0.7, 9
	high := func(a *autopilot.Autopilot) bool {
		s := a.State()
		return s.Mode == autopilot.ModeTakeoff && s.Position.UpM > share*m.world.Physics.AltitudeM
	}
	for m.isIn(Climbing) && !slices.ContainsFunc(m.autopilots, high) && ctx.Err() == nil {
		m.sleepSlots(ctx, 0.1)
	}
	m.noteFault(string(DiskStall), 0, false, "")
	release := m.hangDisk()
	m.sleepSlots(ctx, standsS)
	release()
	m.noteFault(string(DiskStall), 0, true, "")
}

// prepareGround does the crew's work with an aircraft on the ground, and returns which are to be launched now.
func (m *mission) prepareGround(ground []int) []int {
	const awayS, besideM, usedShare, highM = lostS + 2, 3, 0.9, 20 // whoever carries one waits until the other has left
	i, a, work := ground[0], m.autopilots[ground[0]], m.plan.GroundWork
	flies := -1
	for k, other := range m.autopilots {
		if s := other.State(); flies < 0 && s.Armed && !s.Landed && s.Position.UpM > m.standM(k).UpM+highM {
			flies = k
		}
	}
	if m.elapsedSlots() < m.groundUntil {
		return nil
	}
	m.plan.GroundWork = ""
	switch {
	case work == launchTwo && flies >= 0:
		return []int{i, flies}
	case work == launchBeside && flies >= 0: // it is switched off meanwhile
		to := m.watch.of(flies).home
		to.EastM += besideM
		m.noteFault(string(LinkLoss), i+1, false, "")
		a.CutLinks(awayS)
		a.Carry(to)
		m.groundUntil = m.elapsedSlots() + awayS + 4
		time.AfterFunc(time.Duration(awayS*float64(m.slotWall())), func() { m.noteFault(string(LinkLoss), i+1, true, "") })
		return nil
	case work == launchUsedPack:
		m.plan.GroundWork, m.groundUntil = usedPackFitted, m.elapsedSlots()+3
		m.noteFault(string(BatterySwap), i+1, false, "")
		a.ChangeBattery(func(b *battery.Battery) { b.SetReadsJ(usedShare * reserveJ) })
		return nil
	case work == usedPackFitted:
		m.plan.GroundWork = fullPackFitted
	case work == fullPackFitted:
		a.ChangeBattery((*battery.Battery).SwapPack)
		m.noteFault(string(BatterySwap), i+1, true, "")
	}
	return ground
}
