package fly

import (
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"prefdt/simbridge/autopilot"
	"prefdt/simbridge/battery"
	"prefdt/simbridge/geo"
	"prefdt/simbridge/report"
	"prefdt/simbridge/world"
	"prefdt/telemetry"
)

// A completed flight names what a person has to know first; one that ended early has no budget
// to be judged by.
func TestProblems(t *testing.T) {
	for name, c := range map[string]struct {
		slots, missed, planned int
		late                   int // decisions
		budgetError            float64
		leftJ                  float64 // in a pack of 60 kJ that was to keep 12
		want                   []string
	}{
		"all well": {98, 2, 100, 9, 0.004, 12000, nil},
		"slots missed": {94, 6, 100, 0, 0, 12000, []string{"6 of 100 slots were missed: the leader or the broker was away, or this " +
			"machine too busy for speed 10"}},
		"passed": {100, 0, 100, 0, 0.012, 12000, []string{
			"the budget of 42.00 kJ was passed by 1.2 % (the leader counted 41.83 kJ)"}},
		"both": {90, 10, 100, 13, 0.012, 12000, []string{"10 of 100 slots were missed: the leader or the broker was away, or this " +
			"machine too busy for speed 10", "the budget of 42.00 kJ was passed by 1.2 % (the leader counted 41.83 kJ; slots missed: " +
			"10; decisions late: 13)"}},
		"less left": {100, 0, 100, 0, -0.1, 11000, []string{
			"aircraft 1 landed with 18.3 % of its pack, and the budget asks for 20.0 %"}},
		"empty, ended early":  {40, 0, 100, 0, 0, -2640, []string{"aircraft 1 drew 4.4 % more than its pack holds"}},
		"passed, ended early": {40, 0, 100, 0, 0.012, 0, nil},
		"left over":           {100, 0, 100, 0, -0.2, 20000, nil},
	} {
		s := &report.Summary{Slots: c.slots, MissedSlots: c.missed, PlannedSlots: c.planned, Speed: 10,
			Latency:  report.Latency{LateDecisions: c.late},
			Budget:   report.Energy{RevisedJ: 42000, Error: c.budgetError, LeaderSpentJ: 41830, Landed: true},
			Aircraft: []report.AircraftSummary{{Number: 1, PackJ: 60e3, KeptJ: 12e3, LeftJ: c.leftJ}}}
		if got := problems(s, nil); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// Where a budget was passed that could not be kept, it is said what could.
func TestUnkeepableBudgetIsNamed(t *testing.T) {
	spentBeforeJ := func(slot int) float64 { return 400 * float64(slot) } // flight takes two aircraft 269 J a slot at least
	atHalfTime := world.Shock{FromSlot: 50, Factor: 1.5}
	for name, c := range map[string]struct {
		budget report.Budget
		shock  world.Shock
		left   int // slot in which an aircraft left for home
		want   string
	}{
		"shock":          {report.Budget{Slot: 30, EnergyJ: 40e3}, atHalfTime, 0, "change at slot 50 no less than 40.16 kJ"},
		"within reach":   {report.Budget{Slot: 30, EnergyJ: 41e3}, atHalfTime, 0, ""},
		"asked too late": {report.Budget{Slot: 60, EnergyJ: 34e3}, world.Shock{}, 0, "budget at slot 60 no less than 34.75 kJ"},
		"landed": {report.Budget{Slot: 60, EnergyJ: 38e3, Landed: true}, world.Shock{}, 0,
			"budget at slot 60 no less than 39.75 kJ"},
		"one came home": {report.Budget{Slot: 60, EnergyJ: 34e3}, world.Shock{}, 70, ""},
	} {
		w := world.Standard()
		w.Shock = c.shock
		s := &report.Summary{Slots: 100, PlannedSlots: 100, World: &w, Budgets: []report.Budget{{EnergyJ: 45e3}, c.budget},
			Budget:   report.Energy{RevisedJ: c.budget.EnergyJ, Error: 0.02, Landed: c.budget.Landed, TransitJ: 5000},
			Aircraft: []report.AircraftSummary{{Number: 1, LeftSlot: c.left}}}
		text := strings.Join(problems(s, spentBeforeJ), "; ")
		if !strings.Contains(text, "passed by 2.0 %") || !strings.Contains(text, c.want) ||
			c.want == "" && strings.Contains(text, "no less") {
			t.Errorf("%s: %q, want in it %q", name, text, c.want)
		}
	}
}

// In a slot that no beacon opened an aircraft is where it was last, not at the origin.
func TestBodiesOfMissedSlots(t *testing.T) {
	at := func(eastM float64) []autopilot.Body {
		return []autopilot.Body{{Position: geo.Local{EastM: eastM}}}
	}
	f := &flight{Config: Config{Aircraft: make([]AircraftConfig, 1)}, bodiesAtBeacon: map[int][]autopilot.Body{1: at(100), 3: at(300)}}
	for slot, bodies := range f.bodiesBySlot(5) {
		if got, want := bodies[0].Position.EastM, []float64{100, 100, 100, 300, 300}[slot]; got != want {
			t.Errorf("slot %d: at %v, want %v", slot, got, want)
		}
	}
	f.bodiesAtBeacon = nil
	if got := f.bodiesBySlot(2); len(got) != 2 || len(got[1]) != 1 {
		t.Errorf("without a beacon: %v", got)
	}
}

// What was spent is compared with the last budget in its scope: a landed one has climb and return in it,
// and one of packs asks for what is left in each. A budget of packs clears none.
func TestEnergyInTheBudgetsScope(t *testing.T) {
	yes := func(slot int, energyJ float64) telemetry.Ack {
		return telemetry.Ack{Accepted: true, EffectiveSlot: &slot, EnergyJ: &energyJ}
	}
	const landed = telemetry.ScopeLanded
	packs := []telemetry.Pack{{Aircraft: 1, Reserve: new(0.2)}, {Aircraft: 2, ReserveJ: new(15e3)}}
	for name, c := range map[string]struct {
		budgets []telemetry.Budget
		acks    []telemetry.Ack
		shock   world.Shock
		err     float64
		want    []string
		not     []string
	}{
		"slots": {[]telemetry.Budget{{ID: "b", EnergyJ: 100e3}}, []telemetry.Ack{yes(0, 100e3)},
			world.Shock{FromSlot: 401, Factor: 1.5}, 0.1,
			[]string{"energy     110.00 kJ in slots of a budget of 100.00: +10.00 %; the leader counts 109.00\n",
				"pack       aircraft 1: 21.0 % of 60.00 kJ left in its pack\n",
				"aircraft 2: 20.0 % of 75.00 kJ left in its pack; left for home at slot 300\n"}, []string{"asks for", "touchdown"}},
		"landed": {[]telemetry.Budget{{ID: "b", EnergyJ: 120e3}, {ID: "c", EnergyJ: 100e3, Scope: landed}},
			[]telemetry.Ack{yes(0, 120e3), yes(9, 100e3)}, world.Shock{FromSlot: 50, Factor: 1.5}, 0.5,
			[]string{"energy     150.00 kJ to touchdown of a budget of 100.00 (at first 120.00): +50.00 %; the leader " +
				"counts 149.00\n"}, nil},
		"packs replace a total": {[]telemetry.Budget{{ID: "b", EnergyJ: 120e3}, {ID: "c", Scope: landed, Packs: packs}},
			[]telemetry.Ack{yes(0, 120e3), yes(9, 200e3)}, world.Shock{}, -0.25,
			[]string{"energy     150.00 kJ to touchdown of the 200.00 that the packs hold above their reserves (at first " +
				"120.00)",
				"aircraft 1: 21.0 % of 60.00 kJ left in its pack; the budget asks for 20.0 %",
				"aircraft 2: 20.0 % of 75.00 kJ left in its pack; the budget asks for 20.0 %; left for home at slot 300"},
			[]string{"cleared"}},
		"a preference clears packs": {[]telemetry.Budget{{ID: "c", Scope: landed, Packs: packs}, {}},
			[]telemetry.Ack{yes(0, 200e3), {Accepted: true, EffectiveSlot: new(9), Setting: new(0.5)}}, world.Shock{}, 0,
			[]string{"energy     110.00 kJ in slots; the budget of 200.00 was cleared by a preference"},
			[]string{"asks for"}},
	} {
		x := records{budgets: map[string]telemetry.Budget{}, acks: map[string]telemetry.Ack{}}
		for i, a := range c.acks {
			id := c.budgets[i].ID
			if id != "" {
				x.budgets[id] = c.budgets[i]
			}
			x.acks[id], x.ackOrder = a, append(x.ackOrder, id)
		}
		s := &report.Summary{
			Slots: 400, PlannedSlots: 400, Budgets: acceptedBudgets(&x), World: &world.Config{Shock: c.shock},
			Budget: report.Energy{SpentJ: 110e3, FlightJ: 104e3, EdgeJ: 6e3, TransitJ: 40e3, LeaderSpentJ: 109e3,
				LeaderTransitJ: 39e3},
			Aircraft: []report.AircraftSummary{{Number: 1, PackJ: 60e3, LeftJ: 12.6e3},
				{Number: 2, PackJ: 75e3, LeftJ: 15e3, LeftSlot: 300}},
		}
		judgeBudget(&s.Budget, s.Budgets, s.Aircraft, 149e3)
		if math.Abs(s.Budget.Error-c.err) > 1e-12 {
			t.Errorf("%s: error %v", name, s.Budget.Error)
		}
		var out strings.Builder
		printSummary(&out, s, "out")
		for _, want := range c.want {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%s: no %q in\n%s", name, want, out.String())
			}
		}
		for _, not := range c.not {
			if strings.Contains(out.String(), not) {
				t.Errorf("%s: %q in\n%s", name, not, out.String())
			}
		}
	}
}

// An aircraft left for home from the slot on that the first settlement opens which tells so, and was not launched again; at the
// mission's end all do.
func TestLeftSlot(t *testing.T) {
	status := func(state string, duty ...string) telemetry.Status {
		s := telemetry.Status{State: state}
		for _, d := range duty {
			s.Aircraft = append(s.Aircraft, telemetry.StatusAircraft{Duty: d})
		}
		return s
	}
	const serving, leaving, home = telemetry.DutyServing, telemetry.DutyLeaving, telemetry.DutyHome
	bySlot := map[int]telemetry.Status{
		70: status(telemetry.StateFlying, serving, serving, home, leaving),
		78: status(telemetry.StateFlying, leaving, serving, home),
		79: status(telemetry.StateHolding, leaving, serving, home),
		98: status(telemetry.StateFlying, home, serving, home, serving),
		99: status(telemetry.StateDone, home, leaving, home),
	}
	for m, want := range []int{79, 0, 0, 0, 0} {
		if got := leftSlot(bySlot, m); got != want {
			t.Errorf("aircraft %d: slot %d, want %d", m+1, got, want)
		}
	}
}

// What an aircraft draws once it was sent home is in transit, as the leader counts it: not in the slots.
func TestHomewardIsTransit(t *testing.T) {
	settlement := func(slot int, scope string, spentJ [2]float64, duty [2]string) *telemetry.Status {
		s := &telemetry.Status{Slot: slot, Scope: scope, Aircraft: make([]telemetry.StatusAircraft, 2)}
		for m := range s.Aircraft {
			s.Aircraft[m].SpentJ, s.Aircraft[m].Duty = spentJ[m], duty[m]
		}
		return s
	}
	const serving, leaving, home = telemetry.DutyServing, telemetry.DutyLeaving, telemetry.DutyHome
	both, second := [2]string{serving, serving}, [2]string{serving, leaving}
	for name, c := range map[string]struct {
		settled []*telemetry.Status
		want    []int // slots of the second aircraft
	}{
		"recalled, of slots": {[]*telemetry.Status{
			settlement(0, "slots", [2]float64{150, 150}, both), settlement(1, "slots", [2]float64{300, 300}, both),
			settlement(2, "slots", [2]float64{450, 300}, second), // the joules of 2 are not in it
			settlement(5, "slots", [2]float64{900, 300}, second), // 3 and 4 were missed
			settlement(6, "slots", [2]float64{1050, 300}, [2]string{serving, home}),
		}, []int{2, 3, 4, 5, 6}},
		"recalled and launched again, of slots": {[]*telemetry.Status{
			settlement(0, "slots", [2]float64{150, 150}, both), settlement(1, "slots", [2]float64{300, 150}, [2]string{serving, home}),
			settlement(2, "slots", [2]float64{450, 150}, [2]string{serving, ""}), // it climbs
			settlement(4, "slots", [2]float64{750, 150}, both), settlement(5, "slots", [2]float64{900, 300}, both),
		}, []int{1, 2, 3, 4}},
		"under a preference": {[]*telemetry.Status{
			settlement(0, "", [2]float64{150, 150}, both), settlement(1, "", [2]float64{300, 150}, second)}, []int{1}},
		"its battery is low, which counts": {[]*telemetry.Status{
			settlement(0, "slots", [2]float64{150, 150}, both), settlement(1, "slots", [2]float64{300, 300}, second),
			settlement(2, "slots", [2]float64{450, 450}, second)}, nil},
		"by the plan, to touchdown": {[]*telemetry.Status{
			settlement(0, "landed", [2]float64{150, 150}, both), settlement(1, "landed", [2]float64{300, 300}, second),
			settlement(2, "landed", [2]float64{450, 450}, second), settlement(3, "landed", [2]float64{600, 600}, [2]string{serving, home}),
		}, []int{2, 3}},
	} {
		x, spent, transitJ := transitSlots{}, map[int]battery.Spent{-1: {FlightJ: 7}}, 0.0
		for i, s := range c.settled[1:] {
			x.add(c.settled[i], s)
		}
		for slot := range 8 {
			spent[slot] = battery.Spent{FlightJ: 100, EdgeJ: 10}
		}
		first := maps.Clone(spent)
		x.move(first, 0, 8)
		x.move(spent, 1, 8)
		for slot := range 8 {
			want := 110.0
			if slices.Contains(c.want, slot) {
				want, transitJ = 0, transitJ+110
			}
			if spent[slot].J() != want || first[slot].J() != 110 {
				t.Errorf("%s: slot %d has %v and %v J", name, slot, first[slot].J(), spent[slot].J())
			}
		}
		if spent[8].J() != transitJ || spent[-1].J() != 7 {
			t.Errorf("%s: %v J in transit after the slots, want %v", name, spent[8].J(), transitJ)
		}
	}
}

// A touchdown is told in slots from the first one on, after the last slot flown too, and is that after the last climb.
func TestTouchdown(t *testing.T) {
	type step struct {
		slot   int
		timeS  float64
		ground bool
	}
	for name, c := range map[string]struct {
		steps []step
		want  float64
	}{
		"within the slots": {[]step{{-1, 5, true}, {-1, 9, false}, {0, 20, false}, {1, 21, false}, {1, 21.5, true}, {2, 22, true}}, 1.5},
		"after the last":   {[]step{{0, 20, false}, {9, 29, false}, {10, 30, false}, {10, 57, true}, {10, 58, true}}, 37},
		"ended early":      {[]step{{0, 20, false}, {3, 23, false}, {10, 24, false}, {10, 34, true}}, 14},
		"launched again":   {[]step{{0, 20, false}, {1, 21.5, true}, {2, 22, false}, {3, 23, false}, {3, 23.25, true}}, 3.25},
		"in the air":       {[]step{{0, 20, false}, {1, 21.5, true}, {2, 22, false}}, 0},
		"never flew":       {[]step{{-1, 9, true}, {0, 20, true}, {1, 21, true}}, 0},
	} {
		g := groundContact{told: -1, slot: -1}
		for _, x := range c.steps {
			g.note(x.slot, 10, &autopilot.State{TimeS: x.timeS, OnGround: x.ground})
		}
		if g.touchdown != c.want {
			t.Errorf("%s: %v, want %v", name, g.touchdown, c.want)
		}
	}
}

// What a mission's state becomes is an event from the slot on that was settled first so, and told once.
func TestStatesAreEvents(t *testing.T) {
	o := &observer{}
	for slot, state := range []string{telemetry.StateIdle, telemetry.StateFlying, telemetry.StateHolding, telemetry.StateHolding,
		telemetry.StateFlying, telemetry.StateReturning, telemetry.StateDone} {
		o.noteState(&telemetry.Status{Slot: slot, State: state})
	}
	want := []report.Event{{Slot: 2, Text: "holding"}, {Slot: 4, Text: "flying on"}, {Slot: 5, Text: "returning"}}
	if !slices.Equal(o.states, want) {
		t.Errorf("%v, want %v", o.states, want)
	}
}
