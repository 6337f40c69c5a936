package leader

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"prefdt/firmware/link"
	"prefdt/firmware/workers"
	"prefdt/inference/goal"
	"prefdt/inference/physics"
	"prefdt/inference/slot"
	"prefdt/telemetry"
)

func TestWaterLevel(t *testing.T) {
	for _, c := range []struct {
		name    string
		amounts []float64
		limit   float64
		want    float64
	}{
		{"no user", nil, 10, 0},
		{"all fit", []float64{3, 1, 2}, 10, 3},
		{"all fit just", []float64{3, 1, 2}, 6, 3},
		{"the largest gives way", []float64{1, 9, 2}, 8, 5},
		{"the two largest give way alike", []float64{1, 9, 7}, 9, 4},
		{"all alike", []float64{5, 5, 5, 5}, 10, 2.5},
		{"one alone", []float64{1e12}, 4e10, 4e10},
		{"nothing to give", []float64{1, 2}, 0, 0},
		{"one of nothing", []float64{0, 8}, 4, 4},
	} {
		sum, got := 0.0, waterLevel(slices.Clone(c.amounts), c.limit)
		for _, x := range c.amounts {
			sum += min(x, got)
		}
		if got != c.want || sum > c.limit*(1+1e-12) {
			t.Errorf("%s: level %v, in all %v; want %v, at most %v", c.name, got, sum, c.want, c.limit)
		}
	}
}

// setDecision has n users with tasks of so many cycles, fully offloaded to aircraft 1
// of a leader's two.
func setDecision(l *inPhase, cycles ...float64) {
	s, d := &l.current.snapshot, &l.current.decision
	s.Aircraft = l.appendServing(s.Aircraft[:0], s.Slot, l.views)
	s.Users, d.Users, d.EdgeJ = nil, nil, make([]float64, 2)
	for i, c := range cycles {
		s.Users = append(s.Users, slot.User{ID: i, CPUHz: 1e9, Gain: []float64{1e-9, 1e-9},
			Task: physics.Task{Bits: c / 1000, CyclesPerBit: 1000, DeadlineS: 1}})
		d.Users = append(d.Users, slot.UserDecision{Server: 1, Offload: 1})
	}
	d.Evaluate(&l.Policy.Physics, s)
}

// The edge load of a slot is bounded by what the aircraft's CPU computes in one, and
// by what its battery can spare: the largest tasks are cut first, and nothing else
// is changed.
func TestLimitEdgeLoad(t *testing.T) {
	frozen := loadCheckpoint(t)
	p := frozen.Physics
	perCycleJ := p.SwitchedCapacitance * p.EdgeCPUHz * p.EdgeCPUHz
	for _, c := range []struct {
		name   string
		spareJ float64 // of aircraft 1
		cycles []float64
		want   []float64 // offloaded, in cycles
	}{
		{"as usual", 1e5, []float64{1e9, 1.5e9, 5e8}, []float64{1e9, 1.5e9, 5e8}},
		{"four of 1e12 cycles", 1e5, []float64{1e12, 1e12, 1e12, 1e12}, []float64{1e10, 1e10, 1e10, 1e10}},
		{"one of 1e12 among others", 1e5, []float64{1e9, 1e12, 2e9}, []float64{1e9, 3.7e10, 2e9}},
		{"little to spare", 1000 * perCycleJ * 1e6, []float64{4e8, 1e12, 4e8}, []float64{1e9 / 3, 1e9 / 3, 1e9 / 3}},
		{"nothing to spare", -1e-9, []float64{1e9, 1e9}, []float64{0, 0}}, // beyond what a charge rounds to
		{"less than nothing", -5000, []float64{1e9, 1e9}, []float64{0, 0}},
	} {
		l := newInPhase(t, telemetry.StateFlying, nil, p, &frozen.GoalConstants)
		v := &l.views[0]
		v.Charge = (l.account.HomeJ(v) + l.Config.Flight.ReserveJ + c.spareJ) / p.BatteryCapacityJ
		if got := l.account.SpareJ(v); math.Abs(got-c.spareJ) > 1e-6 {
			t.Fatalf("%s: %v J are spare", c.name, got)
		}
		setDecision(l, c.cycles...)
		d := &l.current.decision
		limitEdgeLoad(&l.current.snapshot, d, &p, func(number int) float64 { return l.account.SpareJ(&l.views[number-1]) })
		for i, u := range d.Users {
			got := u.Offload * c.cycles[i]
			if math.Abs(got-c.want[i]) > 1e-6*(1+c.want[i]) || (u.Server == 0) != (c.want[i] == 0) {
				t.Errorf("%s: user %d offloads %v cycles to %d, want %v", c.name, i, got, u.Server, c.want[i])
			}
			if u.Server > 0 && !(u.CPUHz > 0 && u.CompletionS > 0) {
				t.Errorf("%s: user %d: %+v", c.name, i, u)
			}
		}
		if most := math.Max(c.spareJ, 0) + 1e-6; d.EdgeJ[0] > most {
			t.Errorf("%s: %v J are committed, %v are spare", c.name, d.EdgeJ[0], most)
		}
	}
}

// offloadAll is a scheduler that offloads everything to aircraft 1.
type offloadAll struct{ physics physics.Constants }

func (h offloadAll) Decide(s *slot.Snapshot, _ goal.Objective, d *slot.Decision) (seen goal.Observation) {
	d.Resize(s)
	for i := range d.Users {
		d.Users[i] = slot.UserDecision{Server: 1, Offload: 1}
	}
	d.Evaluate(&h.physics, s)
	return seen
}

// openOfferedSlot opens a slot with an offer of the serving aircraft.
func openOfferedSlot(l *inPhase, n int) {
	l.users.OpenSlot(n)
	l.current.decided, l.current.offeredAircraft = false, true
	s := &l.current.snapshot
	s.Aircraft = l.appendServing(s.Aircraft[:0], s.Slot, l.views)
	l.users.Offer(n, s.Aircraft)
}

// Tasks of 1e12 cycles, the most that is permitted, cost an aircraft no more than its
// CPU can compute, whether they are reported or expected to take the offer: neither
// is it sent home, nor is its account charged with what cannot have been computed.
func TestOversizedTasksDoNotSendTheFleetHome(t *testing.T) {
	frozen := loadCheckpoint(t)
	p := frozen.Physics
	most := p.SwitchedCapacitance * p.EdgeCPUHz * p.EdgeCPUHz * p.EdgeCPUHz // J, a slot of one aircraft's CPU
	l := newInPhase(t, telemetry.StateFlying, offloadAll{p}, p, &frozen.GoalConstants)
	for n := range 40 {
		openOfferedSlot(l, n)
		for u := range 3 {
			r := telemetry.Report{Slot: n, PositionM: [2]float64{300, 500}, CPUHz: 1e9,
				Task: &telemetry.Task{Bits: 1e9, CyclesPerBit: 1000, DeadlineS: 0.9}}
			l.handleUserMessage(link.UserMessage{User: fmt.Sprintf("u%d", u), Report: &r}, true)
		}
		expireResults(n, &l.account, &l.users)
		names := l.buildSnapshot(n, l.views)
		l.decide(n, names, l.views)
		for u := range 300 { // and as many that report having taken the offer
			l.handleUserMessage(link.UserMessage{User: fmt.Sprintf("stranger%d-%d", n, u),
				Result: &telemetry.Result{Slot: n, CompletionS: 0.1, By: telemetry.ByOffer}}, true)
		}
		l.commandFleet(l.views)
		for i := range l.views {
			v := &l.views[i]
			if e := l.current.decision.EdgeJ[i]; e > most*1.001 {
				t.Fatalf("slot %d: %v J of computing on aircraft %d, its CPU can do %v", n, e, v.Number, most)
			}
			if l.account.SpareJ(v) < 0 {
				t.Fatalf("slot %d: aircraft %d is on its way home with %v J left", n, v.Number, l.account.ResidualJ(v))
			}
			v.TotalJ += 140
			v.ModelJ += 135
		}
		rows := l.account.Settle(n, l.views, l.users.OfferUsersEdgeJ)
		if e := rows[0].EdgeJ; e > 2*most*1.001 {
			t.Fatalf("slot %d: %v J of computing are accounted, the fleet's CPUs can do %v", n, e, 2*most)
		}
		l.schedule.Advance(n, l.schedule.StartOf(n+1))
	}
}

// Three hundred ids that report nothing and claim to have taken the offer change neither
// the delay nor the energy of computing; a user whose report was lost counts as before.
func TestStrangersClaimNothing(t *testing.T) {
	frozen := loadCheckpoint(t)
	p := frozen.Physics
	fly := func(strangers int) (delayS, edgeJ float64, unreported int) {
		l := newInPhase(t, telemetry.StateFlying, offloadAll{p}, p, &frozen.GoalConstants)
		claim := func(user string, n int) {
			for _, by := range []string{telemetry.ByOffer, telemetry.ByLocal} {
				l.handleUserMessage(link.UserMessage{User: user, Result: &telemetry.Result{Slot: n, CompletionS: 0.1, By: by}}, true)
			}
		}
		for n := range 40 {
			openOfferedSlot(l, n)
			for u := range 3 {
				r := telemetry.Report{Slot: n, PositionM: [2]float64{300, 500}, CPUHz: 1e9,
					Task: &telemetry.Task{Bits: 1e6, CyclesPerBit: 1000, DeadlineS: 0.9}}
				if u < 2 || n%3 == 0 {
					l.handleUserMessage(link.UserMessage{User: fmt.Sprintf("u%d", u), Report: &r}, true)
				}
			}
			expireResults(n, &l.account, &l.users)
			l.decide(n, l.buildSnapshot(n, l.views), l.views)
			for i := range strangers {
				claim(fmt.Sprintf("stranger-%d", i), n)
			}
			claim("u2", n)
			for i := range l.views {
				l.views[i].TotalJ, l.views[i].ModelJ = l.views[i].TotalJ+140, l.views[i].ModelJ+135
			}
			for _, row := range l.account.Settle(n, l.views, l.users.OfferUsersEdgeJ) {
				edgeJ += row.EdgeJ
			}
			for _, e := range l.account.ExpireResults(n + 3) {
				unreported += e.Unreported
			}
			l.schedule.Advance(n, l.schedule.StartOf(n+1))
		}
		return l.account.Objective().DelayS(), edgeJ, unreported
	}
	delayS, edgeJ, unreported := fly(0)
	if unreported != 26 {
		t.Errorf("%d results without a report counted, want 26", unreported)
	}
	if d, e, n := fly(300); d != delayS || e != edgeJ || n != unreported {
		t.Errorf("with strangers: %v s, %v J, %d without a report; without: %v s, %v J, %d", d, e, n, delayS, edgeJ, unreported)
	}
}

// The edge energy of a decision is no longer committed once the aircraft serves no
// users any more.
func TestCommittedEnergyIsReleased(t *testing.T) {
	frozen := loadCheckpoint(t)
	l := newInPhase(t, telemetry.StateFlying, nil, frozen.Physics, &frozen.GoalConstants)
	l.account.SetCommitted(2, 6000, 5)
	before := l.account.SpareJ(&l.views[1])
	l.views[1].Homeward, l.views[1].Flying = true, true // sent home: it is in no snapshot
	setDecision(l, 1e9)
	l.current.decision.Move = make([]physics.Position, 1)
	l.commandFleet(l.views)
	if got := l.account.SpareJ(&l.views[1]); math.Abs(got-before-6000) > 1e-6 || l.account.ServedUsers(2) != 0 {
		t.Errorf("%v J are spare after %v, it serves %d", got, before, l.account.ServedUsers(2))
	}
}

// Without a broker no decision can be delivered: the fleet flies on at the speed of
// least power, and the request in force stays.
func TestFliesOnWithoutABroker(t *testing.T) {
	frozen := loadCheckpoint(t)
	var of objectiveRecorder
	l := newInPhase(t, telemetry.StateFlying, &of, frozen.Physics, &frozen.GoalConstants)
	if err := l.account.SetBudget(60000, goal.Target); err != nil {
		t.Fatal(err)
	}
	l.decide(0, nil, l.views)
	if of.Objective.Budgeted() || of.Objective.Setting() != 1 {
		t.Errorf("flies on at setting %v", of.Objective.Setting())
	}
	if got := l.account.Objective().BudgetJ(); got != 60000 {
		t.Errorf("the budget of 60 kJ is %v J", got)
	}
}

// objectiveRecorder keeps the objective of the last decision.
type objectiveRecorder struct{ goal.Objective }

func (a *objectiveRecorder) Decide(s *slot.Snapshot, o goal.Objective, d *slot.Decision) (seen goal.Observation) {
	d.Resize(s)
	a.Objective = o
	return seen
}

// An aircraft that begins to serve within a slot computes nothing in it: no beacon has told users where its worker is.
func TestWorkerNotYetNamed(t *testing.T) {
	frozen := loadCheckpoint(t)
	l := newInPhase(t, telemetry.StateFlying, offloadAll{frozen.Physics}, frozen.Physics, &frozen.GoalConstants)
	l.workers = workers.Workers{MaxCPUHz: frozen.Physics.EdgeCPUHz,
		Workers: []workers.Worker{{Address: "uav1:7300"}, {Address: "uav2:7300"}}}
	if err := l.workers.Initialize(); err != nil {
		t.Fatal(err)
	}
	for number := 1; number <= 2; number++ {
		l.workers.Receive(number, &telemetry.Worker{CPUHz: 20e9, Functions: []telemetry.WorkerFunction{{ID: "f", CyclesPerBit: 400}}}, 0)
	}
	l.workers.Name(2)
	l.buildSnapshot(3, l.views)
	if a := l.current.snapshot.Aircraft; len(a) != 2 || a[0].CPUHz != 0 || a[1].CPUHz != 20e9 {
		t.Errorf("aircraft 1 was in no beacon: %+v", a)
	}
}
