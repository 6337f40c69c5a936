package chaos

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"prefdt/inference/physics"
	"prefdt/simbridge/autopilot"
	"prefdt/simbridge/geo"
	"prefdt/telemetry"
)

// Rules of what users and crew are told.

func (j *judge) checkSlotNumber(e *event) string {
	if n := e.beacon.Slot; n <= j.lastSlot {
		return fmt.Sprintf("slot %d was opened again after slot %d", n, j.lastSlot)
	}
	return ""
}

// checkSlotTime compares a slot's number with the clock: it never falls behind nor runs
// ahead, whatever happened to the leader meanwhile.
func (j *judge) checkSlotTime(e *event) string {
	const early, late, onItsWayS = 0.6, 2.0 / 3, 0.1 // slots, and wall time through broker and client
	after := e.slotNow - float64(e.beacon.Slot) - j.firstLateS
	if j.lastSlot < 0 { // it begins the clock
		return ""
	}
	if after < 0 && after > -early { // the first one was late
		j.firstLateS += after
	}
	if after < -early || after > late+onItsWayS*e.beacon.Speed {
		return fmt.Sprintf("the beacon of slot %d came at %.2f slots", e.beacon.Slot, e.slotNow)
	}
	return ""
}

func (j *judge) checkServes(e *event) string {
	const knownS = 4 // a HEARTBEAT and a snapshot old, as the decision may be
	n := e.decision.Aircraft
	switch {
	case n == 0:
		return ""
	case n > len(j.aircraft):
		return fmt.Sprintf("user %s is sent to aircraft %d in slot %d", e.user, n, e.decision.Slot)
	}
	a := &j.aircraft[n-1]
	switch nowS := a.state.TimeS; {
	case a.heartbeatS >= 0 && nowS-a.heartbeatS > knownS: // its mode cannot be known
		return ""
	case nowS-a.servedS > knownS:
		return fmt.Sprintf("user %s is sent to aircraft %d in slot %d, which is in %v, last in OFFBOARD for its leader %.1f s ago", e.user,
			n, e.decision.Slot, a.state.Mode, nowS-a.servedS)
	case nowS-a.homingS > knownS:
		return fmt.Sprintf("user %s is sent to aircraft %d in slot %d, which was sent home %.1f s ago", e.user, n, e.decision.Slot,
			nowS-a.homingS)
	case nowS-a.cutFromS > knownS:
		return fmt.Sprintf("user %s is sent to aircraft %d in slot %d, of which nothing can be received for %.1f s", e.user, n,
			e.decision.Slot, nowS-a.cutFromS)
	}
	return ""
}

func (j *judge) checkShares(e *event) string {
	for n, hz := range j.users.shares {
		if n > 0 && hz > j.physics.EdgeCPUHz*(1+1e-6) {
			return fmt.Sprintf("aircraft %d is to give %.3g cycles a second to the users of slot %d, of %.3g", n, hz, e.decision.Slot,
				j.physics.EdgeCPUHz)
		}
	}
	return ""
}

func (j *judge) checkReported(e *event) string {
	if list := j.limits.list; list != nil && !slices.Contains(list, e.user) {
		return fmt.Sprintf("user %s, who is not on the list, has a decision in slot %d", e.user, e.decision.Slot)
	}
	of := e.decision.Slot
	if of < j.users.seenFrom {
		return ""
	}
	if e.decision.ReportSlot != nil {
		of = *e.decision.ReportSlot
	}
	if r, ok := j.users.reports[reportKey{e.user, of}]; !ok || r.Task == nil {
		return fmt.Sprintf("user %s has a decision in slot %d, and reported no task in slot %d", e.user, e.decision.Slot, of)
	}
	return ""
}

// checkPays compares what is decided with computing locally: whatever the price of a
// joule, no user is sent to an aircraft to be served later than it would serve itself.
func (j *judge) checkPays(e *event) string {
	d, r := e.decision, j.users.reports[reportKey{e.user, e.decision.Slot}]
	gain, known := r.Gain[d.Aircraft]
	if d.Aircraft == 0 || !known || r.Task == nil || d.ReportSlot != nil || d.Aircraft > len(j.aircraft) {
		return ""
	}
	task := physics.Task{Bits: r.Task.Bits, CyclesPerBit: r.Task.CyclesPerBit, DeadlineS: r.Task.DeadlineS}
	localS := task.LocalTimeS(r.CPUHz)
	share := physics.Share{CPUHz: d.CPUHz, RateBPS: j.physics.Channel.RateBPS(gain, j.physics.Channel.BandwidthHz)}
	servedS := physics.CompletionS(localS, task.OffloadTimeS(share), d.Offload)
	if local, served := j.physics.PenalizedDelayS(task, localS), j.physics.PenalizedDelayS(task, servedS); served > local*(1+1e-6)+1e-9 {
		return fmt.Sprintf("user %s is served in %.3f s by aircraft %d in slot %d, and would serve itself in %.3f s", e.user, served,
			d.Aircraft, d.Slot, local)
	}
	return ""
}

// checkStatus compares where the crew is told that aircraft are, and what is left in their
// packs, with the truth.
func (j *judge) checkStatus(e *event) string {
	const freshS, nearM, nearShare = 2, 40, 0.05
	if e.status.State == telemetry.StateDone {
		for i, a := range j.aircraft {
			commanded := (a.state.Mode == autopilot.ModeOffboard || a.state.Mode == autopilot.ModeLand) && !a.state.Failsafe
			if a.led() && !a.resumed && a.inAir && commanded && j.limits.returns && j.disturbed == 0 {
				return fmt.Sprintf("the status has the mission as done, and aircraft %d is at %.0f m on its way home", i+1,
					a.state.Position.UpM)
			}
		}
		return ""
	}
	for _, told := range e.status.Aircraft {
		if told.Number > len(j.aircraft) || told.AgeS == nil || *told.AgeS > freshS {
			continue
		}
		a := &j.aircraft[told.Number-1]
		if !math.IsInf(a.cutFromS, 1) {
			continue
		}
		if p := told.PositionM; p != nil {
			if d := a.state.Position.Sub(geo.Local{EastM: p[0], NorthM: p[1], UpM: p[2]}).HorizontalM(); d > nearM {
				return fmt.Sprintf("the status has aircraft %d at (%.0f, %.0f) m, it is at (%.0f, %.0f)", told.Number, p[0], p[1],
					a.state.Position.EastM, a.state.Position.NorthM)
			}
		}
		if v := told.SpeedMPS; v != nil && (a.state.TimeS-a.fastSinceS > steadyS && *v < fastMPS/2 ||
			a.state.TimeS-a.slowSinceS > steadyS && *v > fastMPS+readMPS) {
			return fmt.Sprintf("the status has aircraft %d at %.1f m/s, it flies at %.1f", told.Number, *v, a.state.SpeedMPS())
		}
		packSent := a.state.TimeS-a.cutUntilS > float64(1+j.limits.monitorSlots)
		if b := told.Battery; b != nil && j.limits.exactPacks && packSent && math.Abs(*b-a.state.LeftJ/a.state.PackJ) > nearShare {
			return fmt.Sprintf("the status has %.2f of the charge of aircraft %d, it has %.0f J", *b, told.Number, a.state.LeftJ)
		}
	}
	return ""
}

// An aircraft that flew faster, or slower, than fastMPS for steadyS is known to, as it reads its speed.
const fastMPS, steadyS, readMPS = 5.0, 3.0, 0.5

// checkFloor compares the floor that the crew is told with what was spent and the least
// that the slots left take at the true power: all aircraft at v*.
func (j *judge) checkFloor(e *event) string {
	const lastingSlots, share, slackJ = 8, 1.0 / 6, 500
	s, settledSlots := e.status, 10+j.limits.monitorSlots
	left := float64(j.limits.slots - 1 - s.Slot)
	factor := 1.0
	if s.Slot >= j.limits.shockSlot {
		factor = j.limits.powerFactor
	}
	changed := s.Slot < settledSlots || s.Slot >= j.limits.shockSlot && s.Slot < j.limits.shockSlot+settledSlots
	if j.limits.keptJ > 0 || j.limits.reserve > 0 || !j.limits.exactPacks || j.limits.chases || j.limits.windMPS > 0 || changed ||
		left <= 0 || s.State != telemetry.StateFlying && s.State != telemetry.StateHolding {
		return ""
	}
	for _, a := range j.aircraft {
		if !a.inAir || !a.led() || !math.IsInf(a.cutFromS, 1) || a.state.Mode != autopilot.ModeOffboard {
			return "" // the leader may count it or not
		}
	}
	_, bestW := j.physics.MinPower()
	least := factor * bestW * left * float64(len(j.aircraft))
	if math.Abs(s.FloorJ-e.slotsJ-least) <= share*least+slackJ {
		j.floorWrong = 0
		return ""
	}
	// A reading that came late may be taken for a change of power for some slots.
	j.floorWrong++
	if j.floorWrong > lastingSlots {
		return fmt.Sprintf("the status after slot %d has a floor of %.0f J; %.0f were spent, and the %.0f slots left take %.0f", s.Slot,
			s.FloorJ, e.slotsJ, left, least)
	}
	return ""
}

// refusal is the answer to a start, or a launch, that must be refused.
type refusal struct {
	why      string // it must be
	word     string // that the reason has
	accepted bool
	reason   string
}

func (j *judge) checkRefusal(e *event) string {
	switch r := e.refusal; {
	case r.accepted:
		return "the leader accepts it in spite of " + r.why
	case !strings.Contains(r.reason, r.word):
		return fmt.Sprintf("the leader refuses to start for another reason than %s: %s", r.why, r.reason)
	}
	return ""
}
