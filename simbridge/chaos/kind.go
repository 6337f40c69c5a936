package chaos

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"prefdt/simbridge/autopilot"
	"prefdt/simbridge/simnet"
	"prefdt/telemetry"
)

// Kind is which missions a run flies.
type Kind string

// The kinds of runs.
const (
	Plain     Kind = "plain"     // PX4, and no budget that lands with a share of the pack
	Packs     Kind = "packs"     // each aircraft is to land with a share of its pack, which most cannot fly to the end with
	ArduPilot Kind = "ardupilot" // every aircraft is an ArduCopter
	Mixed     Kind = "mixed"     // they are PX4 and ArduCopter in turn
	Field     Kind = "field"     // receivers err, gusts blow, flying costs what no formula says, fleets are larger
	Tasks     Kind = "tasks"     // as plain, with workers that compute, and fall ill, and users whom they may not serve
	AnyKind   Kind = "any"       // of the first four a share
)

// Kinds are those that can be asked for.
var Kinds = []Kind{Plain, Packs, ArduPilot, Mixed, Field, Tasks, AnyKind}

// packPlan is the crew's order to land with a share of each pack, whatever flying comes to cost.
type packPlan struct {
	LeastUp    int       // how many stay in the air while their packs allow it
	SlotsOf    []float64 // that each aircraft's pack has charge for, about, beyond its reserve and its ways
	FullShare  float64   // of the packs' capacity at the start
	NamesUsedJ bool      // the crew also says how much of each pack may be used
	TotalShare float64   // of what the packs hold beyond their reserves, the fleet may use; 0: the packs alone bound it
	Stays      bool      // no aircraft may land for good
}

// packReserve is what is to be left of each pack at touchdown.
const packReserve = 0.2

// packFaults are the kinds that a mission to land with a share of the pack may have: a battery that
// cannot be read, a pilot or a fleet that is called back end a flight in their own ways.
var packFaults = []FaultKind{
	ProcessKill, PowerCut, ProcessStall, DiskStall, ReportLoss, ForeignReports, ForgedResult, BrokerRestart, LinkLoss, HeartbeatGap,
	HeartbeatLoss, OutOfOrder,
	CommandStorm, SecondLeader, ForgedStatus, ForgedBeacon, ForgedAtRestart, PilotPosition,
}

// isOfPacks reports whether a mission of packs may have a fault: it flies to its last slot, and no
// pilot keeps an aircraft in the air that is to land.
func (x coverageCell) isOfPacks() bool {
	return slices.Contains(packFaults, x.Kind) && x.State != Returning && x.State != Stopped &&
		(x.Kind != PilotPosition || x.State != Landing && x.State != Done)
}

var copterFaults = cellsOf(copterFaultTable)

// isOfCopters reports whether a fault is of an ArduCopter alone.
func (x coverageCell) isOfCopters() bool { return slices.Contains(copterFaults, x) }

// lands reports whether a mission's packs are to be at their reserve at touchdown.
func (p *plan) lands() bool { return p.Packs != nil }

// flies reports whether a mission has an ArduCopter.
func (p *plan) fliesCopters() bool { return slices.Contains(p.Copters, true) }

// drawKind draws what a mission has beside what [Plain] ones have, from a stream of its own, so that
// what was drawn before stays as it is.
func (p *plan) drawKind(c *Config, k int) {
	r := rand.New(rand.NewPCG(c.Seed, 1<<53|uint64(k)))
	kind := c.Kind
	if kind == AnyKind {
		switch share := r.IntN(8); {
		case share == 0:
			kind = ArduPilot
		case share == 1:
			kind = Mixed
		case share < 7 && p.Ending == endSlots && !slices.ContainsFunc(p.Faults, func(f fault) bool { return !f.isOfPacks() }):
			kind = Packs
		}
	}
	switch kind {
	case Packs:
		p.drawPacks(r)
	case ArduPilot:
		p.drawCopters(r, func(int) bool { return true })
	case Mixed:
		p.drawCopters(r, func(i int) bool { return i%2 == 1 || p.Aircraft == 1 })
	case Field:
		p.drawSite(c, r)
	case Tasks:
		p.drawTasks(r)
	}
}

// site is what a mission in the field meets that others do not.
type site struct {
	Receiver      autopilot.Receiver
	GustMPS2      float64
	PowerLevel    []float64         // of each aircraft: what flying at 10 m/s costs over the leader's formula, and
	PowerBend     []float64         // how much more it is for each 10 m/s more
	BatteryAction float64           // COM_LOW_BAT_ACT
	Radio         simnet.Conditions // of each aircraft's link, both ways
	Loss          float64           // share of what is sent to an aircraft
	Duplicate     float64           // share of what it sends that arrives twice
	OneWay        bool              // of an aircraft whose link is cut nothing is received, while it receives all
	ReturnSlot    int               // in which the crew calls the last aircraft home, alone; 0: it does not
}

// powerFactor is what flying costs over the leader's formula.
func (x *site) powerFactor(i int, speedMPS float64) float64 {
	const atMPS, mostMPS = 10, 20
	return x.PowerLevel[i] + x.PowerBend[i]*(min(speedMPS, mostMPS)/atMPS-1)
}

// drawSite draws a site, with a fleet of three to eight in half of the missions and five times as many slots in some.
func (p *plan) drawSite(c *Config, r *rand.Rand) {
	const manySlots = 200
	if sizes := []int{3, 3, 3, 4, 4, 5, 6, 8}; r.IntN(2) == 0 && p.Aircraft == fleetOfTwo && !p.OneLink && !p.Crowd {
		p.setFleet(sizes[r.IntN(len(sizes))], r)
		p.TightHomes = true
	} else if r.IntN(4) == 0 && p.Ending == endSlots && !slices.Contains(onlyFirst, p.Faults[0].Kind) && !p.BoundedPacks {
		p.Slots = manySlots
	}
	x := &site{GustMPS2: r.Float64(), BatteryAction: float64(1 + r.IntN(3)),
		Receiver: autopilot.Receiver{PositionM: 0.8 * r.Float64(), HeightM: 0.8 * r.Float64(), VelocityMPS: 0.3 * r.Float64()}}
	if r.IntN(3) == 0 && p.Aircraft > 1 && p.HoldSlots == 0 && !p.hasFaultIn(Landing, Returning, Stopped, Done) { // it is home by then
		x.ReturnSlot = 4 + r.IntN(p.Slots/2)
	}
	for range p.Aircraft {
		x.PowerLevel, x.PowerBend = append(x.PowerLevel, 0.92+0.2*r.Float64()), append(x.PowerBend, 0.1*(2*r.Float64()-1))
	}
	const ms = float64(time.Millisecond)
	x.Radio = simnet.Conditions{Latency: time.Duration(80 * ms * r.Float64()), Jitter: time.Duration(40 * ms * r.Float64())}
	x.Loss, x.Duplicate = 0.02*r.Float64(), 0.05*r.Float64()
	x.OneWay = !c.Processes && r.IntN(2) == 0
	p.Site = x
	if r.IntN(2) == 0 {
		p.drawCopters(r, func(int) bool { return r.IntN(2) == 0 })
	}
}

// drawPacks draws packs that bind at least one aircraft. The fleet flies at the stock rates: climb and
// descent are then most of what a pack is for, and a slot is a small share of it.
func (p *plan) drawPacks(r *rand.Rand) {
	p.Ending, p.StopsLanding, p.EndSlot = endSlots, false, p.Slots
	p.Faults = slices.DeleteFunc(p.Faults, func(f fault) bool { return !f.isOfPacks() })
	p.BoundedPacks, p.SmallPacks, p.LandsAtReserve = false, false, false
	p.TightHomes, p.DenseStart, p.OutsideM = false, false, 0 // who waits for others cannot know for how long
	p.Crowd = p.Crowd && r.IntN(3) == 0
	p.StockRates = true
	p.Speed = min(p.Speed, stockSpeed)
	x := &packPlan{LeastUp: 1 + r.IntN(p.Aircraft), FullShare: 1, NamesUsedJ: r.IntN(4) == 0}
	if r.IntN(3) == 0 {
		x.FullShare = 0.6 + 0.4*r.Float64()
	}
	for i := range p.Aircraft { // at least the first is bound
		share := 0.2 + 0.5*r.Float64()
		if i > 0 && r.IntN(3) == 0 {
			share = 2
		}
		x.SlotsOf = append(x.SlotsOf, share*float64(p.Slots))
	}
	if p.Wind || p.ShockSlot >= p.Slots/2 { // it is taken for wind; of one as they fly home nobody could do anything about
		p.ShockSlot = never
	} else { // before the first of them has to
		p.ShockSlot = int(slices.Min(x.SlotsOf) * float64(p.ShockSlot) / float64(p.Slots))
	}
	r.Shuffle(len(x.SlotsOf), func(i, j int) { x.SlotsOf[i], x.SlotsOf[j] = x.SlotsOf[j], x.SlotsOf[i] })
	x.drawTotal(p.Slots, r)
	p.Packs = x
}

// drawTotal has the crew bound the fleet's total in a third of the missions. In half of those none may land, and in half of these the
// packs last to the end.
func (x *packPlan) drawTotal(slots int, r *rand.Rand) {
	const lasts = 2
	if r.IntN(3) > 0 {
		return
	}
	x.TotalShare = 0.5 + 0.4*r.Float64()
	if x.Stays = r.IntN(2) == 0; x.Stays && r.IntN(2) == 0 {
		for i := range x.SlotsOf {
			x.SlotsOf[i] = lasts * float64(slots)
		}
	}
}

// drawCopters has some aircraft be ArduCopters, a quarter of them as slow to follow as by default.
func (p *plan) drawCopters(r *rand.Rand, is func(i int) bool) {
	p.SlowCopters = r.IntN(4) == 0
	for i := range p.Aircraft {
		p.Copters = append(p.Copters, is(i))
	}
	p.addCopterFault(r)
	if p.hasFault(StationSilence, PilotReturn) { // one flies home by its own means, at its own speed
		p.BoundedPacks, p.SmallPacks, p.LandsAtReserve = false, false, false
		p.Speed = min(p.Speed, pilotSpeed)
	}
}

// addCopterFault adds one of an ArduCopter's own faults to some of the missions that have none.
func (p *plan) addCopterFault(r *rand.Rand) {
	cell := copterFaults[r.IntN(len(copterFaults))]
	if r.IntN(2) == 0 || !p.fliesCopters() || p.Faults[0].State == Idle || p.hasFault(StationSilence, PilotReturn) ||
		p.hasFault(exclusiveWithCopterFaults...) || !p.visits(cell.State) || p.hasFaultIn(cell.State) {
		return
	}
	f := fault{coverageCell: cell, DurationSlots: 3 + r.IntN(8), Aircraft: slices.Index(p.Copters, true), Severe: r.IntN(2) == 0}
	f.StartSlot = p.drawStartSlot(cell, p.Slots-quietSlots, r)
	p.Faults = append(p.Faults, f)
}

// exclusiveWithCopterFaults do not share a mission with these: one would hide the other's effect.
var exclusiveWithCopterFaults = []FaultKind{
	ProcessKill, KillInGap, ProcessStall, PowerCut, DiskStall, DiskRefuses, BrokerGoneHold, BrokerGoneReturn, ForgedAtRestart,
	CrewRadioHold, CrewRadioReturn,
	PilotDisarm, PilotPosition, PilotHold, Reboot, LowBattery, LinkLoss, HeartbeatSilence, OutOfOrder, ArmingRefused,
}

// packsRequest is the crew's order of a mission's packs.
func (p *plan) packsRequest(id string, capacityJ func(i int) float64) telemetry.Budget {
	b := telemetry.Budget{ID: id, Scope: telemetry.ScopeLanded, StandDown: telemetry.StandDownLand}
	if x := p.Packs; x != nil && x.TotalShare > 0 {
		b.Mode = telemetry.ModeCeiling
		for i := range p.Aircraft {
			b.EnergyJ += x.TotalShare * (x.FullShare - packReserve) * capacityJ(i)
		}
		if x.Stays {
			b.StandDown = telemetry.StandDownNever
		}
	}
	for i := range p.Aircraft {
		pack := telemetry.Pack{Aircraft: i + 1}
		if p.lands() {
			pack.Reserve = new(packReserve)
			if p.Packs.NamesUsedJ {
				const known = 0.999 // of a capacity that its autopilot tells in mAh
				pack.UsableJ = new(capacityJ(i) * min(p.Packs.FullShare, known))
			}
		} else {
			pack.ReserveJ = new(float64(reserveJ))
		}
		b.Packs = append(b.Packs, pack)
	}
	if p.lands() {
		b.LeastUp = new(p.Packs.LeastUp)
	}
	return b
}

// copterParameters are those of an ArduCopter in this mission, with its own names and units. At the
// stock rates they are its defaults.
func (p *plan) copterParameters() map[string]float64 {
	x := map[string]float64{"WPNAV_SPEED": 1000, "WPNAV_SPEED_UP": 250, "WPNAV_SPEED_DN": 150, "LAND_SPEED": 50, "LAND_ALT_LOW": 1000,
		"FS_GCS_TIMEOUT": 5}
	if !p.StockRates {
		maps.Copy(x, map[string]float64{"WPNAV_SPEED": 1500, "WPNAV_SPEED_UP": 1200, "WPNAV_SPEED_DN": 1000, "LAND_SPEED": 300,
			"LAND_ALT_LOW": 2000, "FS_GCS_TIMEOUT": 10})
	}
	if p.hasFault(TellsLanded) { // so slowly that its height alone shows that it is not down
		x["LAND_SPEED"], x["LAND_ALT_LOW"] = 30, 2000
	}
	if p.SlowCopters {
		x["WPNAV_ACCEL"], x["PSC_JERK_XY"] = 250, 5
	}
	if p.AutopilotMaxMPS > 0 {
		x["WPNAV_SPEED"] = 100 * p.AutopilotMaxMPS
	}
	return x
}

// isCopter reports whether aircraft i is an ArduCopter.
func (p *plan) isCopter(i int) bool { return len(p.Copters) > 0 && p.Copters[i] }

// airframe is what an aircraft can do by its autopilot's parameters.
type airframe struct {
	speedMPS   float64 // the lesser of configuration and autopilot
	descentMPS float64
	landMPS    float64 // below slowBelowM
	slowBelowM float64
	silentS    float64 // an ArduCopter returns once its ground station is silent for so long
}

// airframe of aircraft i.
func (p *plan) airframe(i int, speedMaxMPS float64) (f airframe) {
	x := p.parameters(i)
	f = airframe{x["MPC_XY_VEL_MAX"], autopilot.DescentShare * x["MPC_Z_V_AUTO_DN"], x["MPC_LAND_SPEED"], x["MPC_LAND_ALT1"], 0}
	if p.isCopter(i) {
		const cm = 0.01
		f = airframe{cm * x["WPNAV_SPEED"], cm * x["WPNAV_SPEED_DN"], cm * x["LAND_SPEED"], cm * x["LAND_ALT_LOW"], x["FS_GCS_TIMEOUT"]}
	}
	if f.speedMPS = min(f.speedMPS, speedMaxMPS); p.SpeedMaxMPS > 0 {
		f.speedMPS = min(f.speedMPS, p.SpeedMaxMPS)
	}
	return f
}

// unsafeParameter is one with an unsafe value, and a safe one.
type unsafeParameter struct {
	name         string
	unsafe, safe float64
}

// unsafeParameters are those of an aircraft that must then not take off: two, of which a refusal names both.
func (p *plan) unsafeParameters(i int) []unsafeParameter {
	if !p.isCopter(i) {
		return []unsafeParameter{{"COM_OBL_RC_ACT", 0, 5}, {"COM_LOW_BAT_ACT", 0, 3}}
	}
	all := []unsafeParameter{{"GUID_TIMEOUT", 3, 1}, {"SYSID_MYGCS", 255, 250}, {"FS_GCS_ENABLE", 0, 1}}
	k := (int(p.Seed%3) + i) % len(all)
	return slices.Delete(all, k, k+1)
}

// checkKind returns what is wrong with a run's kind.
func (c *Config) checkKind() error {
	if c.Kind == "" {
		c.Kind = Plain
	}
	if !slices.Contains(Kinds, c.Kind) {
		return fmt.Errorf("-kind is %q, want one of %v", c.Kind, Kinds)
	}
	if c.Kind == Tasks && c.Processes {
		return fmt.Errorf("-kind %s flies in virtual time alone, not with -processes", Tasks)
	}
	return nil
}
