package judge

import (
	"math"
	"slices"

	"prefdt/inference/duty"
	"prefdt/inference/physics"
	"prefdt/inference/slot"
	"prefdt/telemetry"
)

// plannedAgain plans each slot again, from what is told of packs and ways home, which other rules compare with the truth, and from
// true positions and reports, and compares the floor. Who leaves first turns where two are alike, and is not compared.
func (c *check) plannedAgain() {
	const share, slackJ, edgeSlackJ, lasts = 0.04, 600.0, 5.0, 4
	if c.frozen == nil || c.World == nil || c.World.Wind.MeanMaxMPS > 0 || c.computes() || !c.bounded() {
		return
	}
	planner := duty.New(&c.Physics, c.frozen.UserPrior(), c.frozen.PriceCurve.PriceSPerJ(1))
	multiplier := map[int]float64{}
	for _, r := range c.rows() {
		multiplier[r.Slot] = r.PropulsionMultiplier
	}
	wrong, above := 0, make([]int, len(c.aircraft)) // slots in a row
	for s := range pointers(c.statuses) {
		b := c.packsFrom(s.timeS)
		m, settled := multiplier[s.Slot]
		if b == nil || b.Scope != telemetry.ScopeLanded || !settled || s.Slot+1 >= c.Slots ||
			s.State != telemetry.StateFlying && s.State != telemetry.StateHolding {
			wrong = 0
			continue
		}
		in := c.planInput(s, b, m)
		plan := planner.Plan(in)
		if c.excusesAny(0, s.timeS, "leader away", "link cut", "broker away", "disk stands", "late datagrams", "wrong sample",
			"strangers") || c.costsAnew(s.Slot) || float64(s.Slot) < c.settledSlots() {
			wrong = 0
			continue
		}
		for i, o := range plan.Aircraft {
			if in.Aircraft[i].Left || o.Leaves || math.IsInf(o.EdgeLimitJ, 1) {
				above[i] = 0
				continue
			}
			decidedJ := c.decidedJ(o.Number, in.Slot)
			c.lasting(&above[i], lasts, s.timeS, decidedJ, o.EdgeLimitJ+edgeSlackJ, "aircraft %d is to compute for %.0f J in slot %d, "+
				"planned again for %.0f at most", o.Number, decidedJ, in.Slot, o.EdgeLimitJ)
		}
		drawnJ := s.SpentJ // and on the ways home of those that left
		for i, t := range s.Aircraft {
			if in.Aircraft[i].Left && !c.aircraft[i].at(s.timeS).OnGround {
				drawnJ += *t.HomeJ
			}
		}
		floorJ := drawnJ + plan.FloorJ
		off := math.Abs(s.FloorJ - floorJ)
		if end := s.PredictedEndJ; end != nil && s.FloorJ >= *end-1 { // packs have all land before
			if s.SpentJ+plan.FloorJ < b.EnergyJ || b.EnergyJ == 0 {
				continue
			}
			off = max(min(floorJ, drawnJ+staysJ(in))-s.FloorJ, 0) // some stay all the same: the total is below the floor
		}
		c.lasting(&wrong, lasts, s.timeS, off, share*(floorJ-s.SpentJ)+slackJ,
			"the status after slot %d has a floor of %.0f J, planned again it is %.0f", s.Slot, s.FloorJ, floorJ)
	}
}

// decidedJ is what the decisions of a slot have an aircraft take for its users.
func (f *flight) decidedJ(number, slot int) (sumJ float64) {
	for d := range pointers(f.decisions) {
		if d.Slot == slot && d.Aircraft == number {
			sumJ += f.takesJ(d)
		}
	}
	return sumJ
}

// takesJ is what a decision has an aircraft take.
func (f *flight) takesJ(d *decision) float64 {
	r := f.reports[reportKey{d.user, d.Slot}]
	if r.Task == nil {
		return 0
	}
	return f.Physics.EdgeJ(physics.Task{Bits: r.Task.Bits, CyclesPerBit: r.Task.CyclesPerBit}, physics.Share{CPUHz: d.CPUHz}, d.Offload)
}

// staysJ is what those that stay take at least, home included, as far as their packs last.
func staysJ(in *duty.Input) (sumJ float64) {
	var lasts []float64
	stay := 0
	for _, a := range in.Aircraft {
		if homeJ := a.ReturnJ + a.DescentJ; !a.Left {
			lasts, sumJ = append(lasts, min(max(a.LeftJ-homeJ, 0), in.FlightW*float64(in.Slots-in.Slot))), sumJ+homeJ
		}
		if a.Stays && !a.Left {
			stay++
		}
	}
	slices.Sort(lasts)
	for _, j := range lasts[max(len(lasts)-max(in.LeastUp, stay), 0):] {
		sumJ += j
	}
	return sumJ
}

// planInput is what a plan for the slot after a status rests on.
func (c *check) planInput(s *status, b *telemetry.Budget, multiplier float64) *duty.Input {
	const kept = 1.5 // slots of flight, as the leader keeps of each pack
	bestMPS, bestW := c.Physics.MinPower()
	in := &duty.Input{Slot: s.Slot + 1, Slots: c.Slots, FleetJ: math.Inf(1), LeastUp: leastUp(b),
		FlightW: bestW * multiplier, Multiplier: multiplier, KeptSlots: kept}
	if b.EnergyJ > 0 {
		in.FleetJ = b.EnergyJ - s.SpentJ
	}
	for i, a := range c.aircraft {
		now, t := a.at(s.timeS), &s.Aircraft[i]
		home, _ := a.homeAt(s.timeS)
		x := duty.Aircraft{Number: a.number, CPUHz: c.Physics.EdgeCPUHz, LeftJ: math.Inf(1),
			Position: physics.Position{EastM: now.PositionM[0], NorthM: now.PositionM[1]},
			Home:     physics.Position{EastM: home[0], NorthM: home[1]},
			Stays:    b.StandDown != telemetry.StandDownLand || s.State == telemetry.StateHolding,
			Left:     now.Mode != offboard || t.Duty != telemetry.DutyServing && t.Duty != "" || !a.isLed(s.timeS)}
		if t.HomeJ == nil || t.UsableJ == nil || t.ReserveJ == nil {
			x.Left, t.HomeJ = true, new(0.0)
		} else {
			if packOf(b, a.number) != nil || b.EnergyJ == 0 {
				x.LeftJ = max(*t.UsableJ-*t.ReserveJ, 0)
			}
			mps := min(bestMPS, a.speedMPS)
			x.ReturnJ = min(x.Home.Sub(x.Position).Norm()/mps*c.Physics.Propulsion.PowerW(mps)*multiplier, *t.HomeJ)
			x.DescentJ = *t.HomeJ - x.ReturnJ
			if x.Left && !now.OnGround {
				in.FleetJ -= *t.HomeJ
			}
		}
		in.Aircraft = append(in.Aircraft, x)
	}
	for key, r := range c.reports {
		if key.slot == s.Slot && r.Task != nil && c.listed(key.user) {
			in.Users = append(in.Users, userOf(&r))
		}
	}
	slices.SortFunc(in.Users, func(x, y slot.User) int { return compare(x.Position.EastM, y.Position.EastM) })
	return in
}
