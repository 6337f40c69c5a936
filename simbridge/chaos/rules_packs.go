package chaos

import (
	"fmt"
	"math"

	"prefdt/simbridge/autopilot"
	"prefdt/simbridge/geo"
)

// Rules of the charge that is left at touchdown, where the crew asked for a share of each pack.

// settleS is how long a leader that can command an aircraft again may take to have it fly home, and
// shockSettleS one whose aircraft come to cost more to fly, which it has to measure first.
const settleS, shockSettleS = 5, 10

// settle notes that an aircraft could not be brought home as its pack asked until now: what a flight
// home at once would leave in it is all that can be asked for. Called with the mutex held.
func (a *observedAircraft) settle(atS float64) {
	if math.IsInf(a.settlesS, 1) || atS > a.settlesS {
		a.settlesS = atS
	}
}

// noteReachable keeps what can be left in the pack of one that is to fly home at once.
func (j *judge) noteReachable(i int) {
	a := &j.aircraft[i]
	if j.lastSlot >= j.limits.shockSlot && a.costKnownS == 0 {
		a.costKnownS = a.state.TimeS + shockSettleS + float64(j.limits.monitorSlots)
		a.settle(a.costKnownS)
	}
	if a.state.TimeS >= a.settlesS {
		a.settlesS = math.Inf(1)
		if a.inAir {
			a.reachableJ = min(a.reachableJ, a.state.LeftJ-j.leastHomeJ(i))
		}
	}
}

// leastHomeJ is the least that the way home and the descent take, at the true power in this wind. One
// in the air slows down and settles over its home for 7 to 8 s, as measured at the autopilots' defaults.
func (j *judge) leastHomeJ(i int) float64 {
	const slowestMPS, fastestMPS, settlesS = 3, 15, 8
	a := &j.aircraft[i]
	way, slot := a.home.Sub(a.state.Position), max(j.lastSlot, -1)
	_, descentS, _ := j.wayHome(a)
	landingS := descentS + autopilot.LandDetectS
	cruiseJ, distanceM := math.Inf(1), way.HorizontalM()
	for mps := float64(slowestMPS); mps <= min(fastestMPS, a.speedMPS); mps++ {
		v := geo.Local{EastM: way.EastM, NorthM: way.NorthM}.Scale(mps / max(distanceM, 1e-3))
		cruiseJ = min(cruiseJ, j.flightW(slot, i, v)*distanceM/mps)
	}
	if a.state.Mode == autopilot.ModeLand {
		return landingS * j.flightW(slot, i, geo.Local{})
	}
	return cruiseJ + (settlesS+landingS)*j.flightW(slot, i, geo.Local{})
}

// landedJ is what the pack of one that touches down holds once its motors stand still.
func (j *judge) landedJ(i int) float64 {
	return j.aircraft[i].state.LeftJ - autopilot.LandDetectS*j.flightW(max(j.lastSlot, -1), i, geo.Local{})
}

// noteLands notes that an aircraft begins its descent for good while slots are left, and whether
// nothing but its pack can have sent it home: with fewer others in the air than the crew wants to stay,
// and not right after a shock, when its leader has too few measurements to tell how long the pack lasts.
func (j *judge) noteLands(i int, before autopilot.State) {
	const nearEnd = 3 // slots: it may have left so that it is home at the end
	a := &j.aircraft[i]
	if before.Mode == autopilot.ModeLand || a.state.Mode != autopilot.ModeLand || !a.inAir {
		return
	}
	others := 0
	for k := range j.aircraft {
		if o := &j.aircraft[k]; k != i && o.inAir && o.state.Mode == autopilot.ModeOffboard {
			others++
		}
	}
	a.byPack = a.led() && j.lastSlot >= 0 && !j.slotsEnded && j.lastSlot < j.limits.slots-nearEnd && others < j.limits.leastUp &&
		math.IsNaN(a.returnFrom) && !a.resumed && a.state.TimeS > a.costKnownS
}

// packLimits are what is known of a pack and of its aircraft's landing.
type packLimits struct {
	sensorError float64 // of what its current sensor reads, as a share
	unreadJ     float64 // that it may give between two measurements
	waitS       float64 // that its aircraft may have to wait for others whose homes are near, and then did not
}

// sensorJ is by how much what is known of a pack is off, by its own sensor.
func (j *judge) sensorJ(i int) float64 {
	return j.limits.packs[i].sensorError * j.aircraft[i].state.Spent.J()
}

// packsLeft is what was left of each pack at touchdown, with a star where it alone ended the flight.
func (j *judge) packsLeft() (text string) {
	j.withAll(func(_ int, a *observedAircraft) {
		text += fmt.Sprintf("%.1f", 100*a.leftShare) + map[bool]string{true: "* ", false: " "}[a.byPack]
	})
	return text + "% left  "
}

// leftForPacks are the shares left of packs that alone ended a flight of their leader's.
func (j *judge) leftForPacks() (shares []float64) {
	j.withAll(func(_ int, a *observedAircraft) {
		if j.limits.reserve > 0 && a.byPack && a.led() && a.state.OnGround {
			shares = append(shares, a.leftShare)
		}
	})
	return shares
}

func (j *judge) checkLandsAtReserve(e *event) string {
	a := &j.aircraft[e.aircraft]
	if j.limits.reserve == 0 || !a.led() || !math.IsInf(a.settlesS, 1) {
		return ""
	}
	const errorS = 2 // of the least way home
	kept, hoverW := j.limits.reserve*a.state.PackJ, j.flightW(j.lastSlot, e.aircraft, geo.Local{})
	leftJ, waitsJ := j.landedJ(e.aircraft), 1.25*a.blockedS*hoverW
	if least := min(kept, a.reachableJ-errorS*hoverW) - j.sensorJ(e.aircraft) - waitsJ; leftJ < least {
		return fmt.Sprintf("aircraft %d lands with %.2f %% of its pack of %.0f J: %.0f J, of %.0f that it could keep", e.aircraft+1,
			100*leftJ/a.state.PackJ, a.state.PackJ, leftJ, least)
	}
	return ""
}

// leastMarginJ is kept above any reserve, however small the pack: some seconds of flight for the turn,
// the arrival over its home, and the slot in which it becomes durable that it leaves.
const leastMarginJ = 1400

func (j *judge) checkUsesPack(e *event) string {
	a := &j.aircraft[e.aircraft]
	if j.limits.reserve == 0 || !a.led() || !a.byPack {
		return ""
	}
	leftJ, p := j.landedJ(e.aircraft), &j.limits.packs[e.aircraft]
	// A hover in wind takes less than in calm air, on which nobody can count near the ground.
	hoverW, calmW := j.flightW(j.lastSlot, e.aircraft, geo.Local{}), j.physics.Propulsion.PowerW(0)
	windJ := max(calmW-hoverW, 0) * a.descentS(j.physics.AltitudeM)
	most := max(packMost*a.state.PackJ, j.limits.reserve*a.state.PackJ+leastMarginJ)
	if most += j.sensorJ(e.aircraft) + p.unreadJ + p.waitS*hoverW + windJ; leftJ > most {
		return fmt.Sprintf("aircraft %d lands with %.2f %% of its pack of %.0f J, %.0f J, and left the slots for it", e.aircraft+1,
			100*leftJ/a.state.PackJ, a.state.PackJ, leftJ)
	}
	return ""
}
