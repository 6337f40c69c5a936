package judge

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"prefdt/firmware/account"
	"prefdt/firmware/ledger"
	"prefdt/inference/dispatch"
	"prefdt/inference/slot"
	"prefdt/simbridge/record"
	"prefdt/simbridge/world"
	"prefdt/telemetry"
)

// servingFlight is of two aircraft that serve three users for thirty slots from 100 s on, each at the exact dispatch. It
// keeps every rule of what is told and written.
func servingFlight() *flight {
	const epochS, slots, priceSPerJ, beganS, endS = 100.0, 30, 0.0005, 60.0, 140.0
	w := world.Standard()
	f := &flight{reports: map[reportKey]report{}, resultsS: map[reportKey]float64{}, epochS: epochS, endS: endS, complete: true}
	f.Slots, f.Speed, f.World, f.Physics, f.Absence = slots, 1, &w, w.Physics, &record.Absence{CrewHoldS: 5, BrokerHoldS: 30,
		BrokerReturnS: 120}
	bestMPS, bestW := f.Physics.MinPower()
	for n := range 2 {
		a := &aircraft{number: n + 1, airframe: airframe{speedMPS: 12, descentMPS: 1, landMPS: 1, slowBelowM: 10}}
		a.Autopilot = "px4"
		for t := 50.0; t < endS; t += record.PeriodS {
			s := record.State{PositionM: point{300 + 300*float64(n), 300, 0}, Mode: hold, OnGround: true, Landed: true, LeftJ: 150e3,
				PackJ: 150e3}
			if t > beganS {
				s.PositionM[1], s.PositionM[2], s.VelocityMPS[1] = 300+bestMPS*(t-beganS), 100, bestMPS
				s.Mode, s.Armed, s.OnGround, s.Landed, s.SpentJ = offboard, true, false, false, bestW*(t-beganS)
				s.LeftJ -= s.SpentJ
			}
			a.states = append(a.states, state{timeS: t, State: s})
		}
		f.aircraft = append(f.aircraft, a)
	}
	start := &order{id: "start", kind: telemetry.KindMission, accepted: true, mission: telemetry.Mission{Action: telemetry.ActionStart}}
	start.sentS, start.deliveredS, start.answeredS = 55, 55, 55.1
	wish := &order{id: "wish", kind: telemetry.KindPreference, accepted: true, preference: telemetry.Preference{Setting: 0.3}}
	wish.sentS, wish.deliveredS, wish.answeredS = 52, 52, 52.1
	f.orders = []*order{wish, start}
	x := &ledger.Flight{}
	x.State.Account.Aircraft = make([]account.AircraftAccount, 2)
	f.end.Ledger = x
	f.tell(53, telemetry.StateIdle, -1)
	gains := []map[int]float64{{1: 1e-9, 2: 1e-13}, {1: 3e-10, 2: 1e-10}, {1: 1e-13, 2: 1e-9}}
	var solver dispatch.Solver
	var d slot.Decision
	for n := range slots {
		atS := epochS + float64(n)
		b := beacon{timeS: atS, Slot: telemetry.Slot{Slot: n, SlotMS: 1000, Speed: 1, ReportByMS: 400, DecideByMS: 600}}
		s := slot.Snapshot{}
		b.Offer.PriceSPerJ = priceSPerJ
		for _, a := range f.aircraft {
			p := a.at(atS).PositionM
			b.Offer.Aircraft = append(b.Offer.Aircraft, telemetry.OfferAircraft{Number: a.number, PositionM: [2]float64{p[0], p[1]},
				CPUHz: f.Physics.EdgeCPUHz, ExpectedUsers: 2})
			s.Aircraft = append(s.Aircraft, slot.Aircraft{Number: a.number, CPUHz: f.Physics.EdgeCPUHz})
		}
		f.beacons = append(f.beacons, b)
		for u := range 3 {
			r := report{atS + 0.01, telemetry.Report{Slot: n, CPUHz: 1e9, Task: &telemetry.Task{Bits: 8e5 + 1e5*float64(u),
				CyclesPerBit: 1000,
				DeadlineS:    0.9}, Gain: gains[u]}}
			f.reports[reportKey{fmt.Sprintf("u%d", u+1), n}] = r
		}
		named := f.slotOf(&b, &b, nil)
		solver.Solve(&f.Physics, &named.snapshot, priceSPerJ, &d)
		row := account.Row{Slot: n, PriceSPerJ: priceSPerJ}
		for i, y := range named.with(&d).decided {
			if y == nil {
				y = &telemetry.Decision{}
			}
			y.Slot = n
			f.decisions = append(f.decisions, decision{atS + 0.41, named.names[i], *y})
			r := f.reports[reportKey{named.names[i], n}].Report
			servedS, _ := f.servedS(y, &r)
			f.tasks = append(f.tasks, record.Task{Slot: n, User: named.names[i], By: telemetry.ByDecision, Aircraft: y.Aircraft,
				DelayS: servedS})
			row.DelayS, row.EdgeJ = row.DelayS+servedS, row.EdgeJ+f.takesJ(&f.decisions[len(f.decisions)-1])
			if y.Aircraft > 0 {
				row.Offloaded++
			}
		}
		for i, a := range f.aircraft {
			ofJ := a.spentJ(atS+1) - a.spentJ(atS)
			x.State.Account.Aircraft[i].SpentJ += ofJ
			row.EnergyJ += ofJ
			row.Aircraft = append(row.Aircraft, account.AircraftRow{Number: a.number, EnergyJ: ofJ,
				SpentJ: x.State.Account.Aircraft[i].SpentJ})
		}
		row.Seen = &account.Seen{Believed: account.Believed{WindMPS: &[2]float64{3, 1}, WindSDMPS: 1}}
		row.Status = &telemetry.Status{State: telemetry.StateFlying}
		f.end.WindMPS = append(f.end.WindMPS, [2]float64{2, 0})
		x.Rows = append(x.Rows, row)
		x.State.Account.Objective.DelayS += row.DelayS
		x.State.Account.Objective.SpentJ += row.EnergyJ
		state := telemetry.StateFlying
		if n == slots-1 {
			state = telemetry.StateDone
		}
		f.tell(atS+1.01, state, n)
	}
	for i, a := range f.aircraft {
		x.State.Account.Aircraft[i].TransitJ = a.spentJ(endS) - x.State.Account.Aircraft[i].SpentJ
	}
	return f
}

// tell adds a true status.
func (f *flight) tell(timeS float64, state string, slot int) {
	s := status{timeS: timeS, Status: telemetry.Status{Seq: int64(len(f.statuses) + 1), Slot: slot, State: state, Setting: 0.3}}
	_, bestW := f.Physics.MinPower()
	for _, a := range f.aircraft {
		now := a.at(timeS)
		p, v, age, left := now.PositionM, now.speedMPS(), 0.01, now.LeftJ/now.PackJ
		role := roles[now.Mode]
		if !now.Armed {
			role = "armable"
		}
		duty := telemetry.DutyServing
		if now.Mode != offboard {
			duty = telemetry.DutyHome
		}
		slotsJ := a.spentJ(f.epochS+float64(slot+1)) - a.spentJ(f.epochS)
		s.SpentJ, s.FloorJ = s.SpentJ+slotsJ, s.FloorJ+slotsJ+bestW*float64(f.Slots-1-slot)
		s.TransitJ += a.spentJ(timeS) - slotsJ
		s.Aircraft = append(s.Aircraft, telemetry.StatusAircraft{Number: a.number, PositionM: &p, SpeedMPS: &v, AgeS: &age, Battery: &left,
			Mode: now.Mode, Role: role, SpentJ: slotsJ, Duty: duty})
	}
	f.statuses = append(f.statuses, s)
}

// order adds a command that was delivered, and answered a tenth of a second later.
func (f *flight) give(timeS float64, accepted bool, o order) *order {
	o.sentS, o.deliveredS, o.answeredS, o.accepted = timeS, timeS, timeS+0.1, accepted
	if o.id == "" {
		o.id = fmt.Sprintf("order-%d", len(f.orders))
	}
	f.orders = append(f.orders, &o)
	return &o
}

func mission(action string, aircraft ...int) order {
	return order{kind: telemetry.KindMission, mission: telemetry.Mission{Action: action, Aircraft: aircraft}}
}

func (f *flight) fail(kind string, number int, fromS, toS float64) {
	f.faults = append(f.faults, faultSpan{span: span{fromS, toS}, kind: kind, aircraft: number})
}

// judged is how one rule finds a flight.
func judged(t *testing.T, name string, f *flight) Finding {
	t.Helper()
	k := slices.IndexFunc(rules, func(r Rule) bool { return r.Name == name })
	if k < 0 {
		t.Fatalf("there is no rule %s", name)
	}
	for _, a := range f.aircraft {
		a.takeOffs, a.notLed = nil, nil
		a.derive(f)
	}
	c := &check{flight: f, finding: Finding{Rule: name, Assumed: map[string]float64{}}}
	rules[k].judge(c)
	return c.finding
}

// ruleCase is a rule that a flight keeps, and how it is broken.
type ruleCase struct {
	rule, how string
	arrange   func(f *flight) // of the flight that keeps it, too
	breaks    func(f *flight)
}

func testRules(t *testing.T, table []Rule, cases []ruleCase) {
	for _, x := range cases {
		t.Run(x.rule+": "+x.how, func(t *testing.T) {
			f := servingFlight()
			if x.arrange != nil {
				x.arrange(f)
			}
			if got := judged(t, x.rule, f); got.Broken > 0 || got.Active == 0 || got.Used > 1 {
				t.Errorf("a flight that keeps it: %+v", got)
			}
			x.breaks(f)
			if got := judged(t, x.rule, f); got.Broken == 0 {
				t.Errorf("it is not seen: %+v", got)
			}
		})
	}
	for _, r := range table {
		if !slices.ContainsFunc(cases, func(x ruleCase) bool { return x.rule == r.Name }) {
			t.Errorf("no case breaks the rule %s", r.Name)
		}
		if got := judged(t, r.Name, servingFlight()); got.Broken > 0 {
			t.Errorf("%+v", got)
		}
	}
}

func TestWireRules(t *testing.T) {
	budget := func(f *flight, joules float64, mode string) *order {
		o := f.give(103.05, true, order{kind: telemetry.KindBudget, budget: telemetry.Budget{EnergyJ: joules, Mode: mode}})
		from := 4
		o.answer.EffectiveSlot = &from
		for k := range f.statuses {
			if s := &f.statuses[k]; s.timeS > 103.1 {
				s.BudgetJ, s.Mode = &joules, &mode
			}
		}
		return o
	}
	state := func(f *flight, fromS, toS float64, state string) {
		for k := range f.statuses {
			if s := &f.statuses[k]; s.timeS > fromS && s.timeS < toS {
				s.State = state
			}
		}
	}
	told := func(f *flight) *telemetry.StatusAircraft { return &f.statuses[5].Aircraft[0] }
	silent := func(f *flight) {
		f.fail(record.CrewSilent, 0, 102, 114)
		f.fail("crew_radio_hold", 1, 102, 114)
		state(f, 107.5, 117.5, telemetry.StateHolding)
	}
	testRules(t, wireRules, []ruleCase{
		{"slot number", "a number again", nil, func(f *flight) { f.beacons[7].Slot.Slot = 6 }},
		{"slot time", "a late beacon", nil, func(f *flight) { f.beacons[7].timeS += 0.3 }},
		{"serves", "to one that its pilot has", nil, func(f *flight) { f.fail(record.PilotActs, 1, 110, math.Inf(1)) }},
		{"serves", "to one that was called home", nil, func(f *flight) { f.give(110, true, mission(telemetry.ActionReturn, 1)) }},
		{"serves", "to one that is cut off", nil, func(f *flight) { f.fail("link_loss", 1, 110, 118) }},
		{"serves", "to nobody's aircraft", nil, func(f *flight) { f.decisions[4].Aircraft = 3 }},
		{"shares", "more than there is", nil, func(f *flight) { f.decisions[0].CPUHz = 5e10 }},
		{"reported", "of no report", nil, func(f *flight) { delete(f.reports, reportKey{"u1", 5}) }},
		{"reported", "not on the list", func(f *flight) { f.Users = []string{"u1", "u2", "u3"} },
			func(f *flight) { f.Users = f.Users[1:] }},
		{"decided once", "twice", nil, func(f *flight) { f.decisions = append(f.decisions, f.decisions[0]) }},
		{"pays", "later than local", nil, func(f *flight) {
			for k := range f.decisions {
				if d := &f.decisions[k]; d.Aircraft > 0 {
					d.CPUHz = 1e8
				}
			}
		}},
		{"told position", "20 m off", nil, func(f *flight) { told(f).PositionM[0] += 20 }},
		{"told speed", "of another", nil, func(f *flight) { *told(f).SpeedMPS = 3 }},
		{"told charge", "a full pack", nil, func(f *flight) { *f.statuses[29].Aircraft[0].Battery = 1 }},
		{"told mode", "a hold", nil, func(f *flight) { told(f).Role = "hold" }},
		{"told state", "idle in the air", nil, func(f *flight) { state(f, 110, 112, telemetry.StateIdle) }},
		{"told state", "climbing with nobody", func(f *flight) { state(f, 110, 112, telemetry.StateClimbing) }, func(f *flight) {
			f.aircraft[0].states, f.aircraft[1].states = f.aircraft[0].states[:1], f.aircraft[1].states[:1]
			for _, o := range f.orders {
				o.deliveredS = 0
			}
			state(f, 130, 140, telemetry.StateClimbing)
		}},
		{"told state", "stopped by nobody", nil, func(f *flight) { state(f, 110, 112, telemetry.StateStopped) }},
		{"told state", "done before all have landed", func(f *flight) {
			f.give(115, true, mission(telemetry.ActionReturn))
			state(f, 115, 140, telemetry.StateReturning)
		}, func(f *flight) { state(f, 120, 140, telemetry.StateDone) }},
		{"floor", "half", nil, func(f *flight) {
			for k := range f.statuses {
				f.statuses[k].FloorJ /= 2
			}
		}},
		{"refusal", "started all the same", func(f *flight) {
			f.fail("arming_denied", 1, 50, 54)
			f.give(52, false, mission(telemetry.ActionStart)).answer.Reason = "aircraft 1: pre-arm checks fail"
		}, func(f *flight) { f.give(53, true, mission(telemetry.ActionStart)) }},
		{"refusal", "for another reason", func(f *flight) {
			f.fail("unsafe_failsafe", 1, 50, 54)
			f.give(52, false, mission(telemetry.ActionStart)).answer.Reason = "COM_OBL_RC_ACT is 0"
		}, func(f *flight) { f.orders[2].answer.Reason = "no" }},
		{"refusal", "launched beside another's home", func(f *flight) {
			f.fail("arming_denied", 1, 50, 54)
			f.give(52, false, mission(telemetry.ActionStart)).answer.Reason = "aircraft 1: pre-arm checks fail"
		}, func(f *flight) {
			a := f.aircraft[0]
			at := &a.states[a.index(120)]
			at.OnGround = true
			at.PositionM, _ = f.aircraft[1].homeAt(120)
			f.give(120, true, mission(telemetry.ActionLaunch, 1))
		}},
		{"acknowledged", "not at all", nil, func(f *flight) { f.orders[1].answeredS = math.Inf(1) }},
		{"in force", "another setting", nil, func(f *flight) { f.statuses[9].Setting = 0.777 }},
		{"in force", "another budget", func(f *flight) { budget(f, 30e3, telemetry.ModeTarget) }, func(f *flight) {
			*f.statuses[20].BudgetJ = 77_777.5
		}},
		{"duplicate", "a forged command", func(f *flight) { f.give(110, false, order{id: record.Forged + "1"}) }, func(f *flight) {
			f.orders[2].accepted = true
		}},
		{"duplicate", "a replay", nil, func(f *flight) { f.orders[0].strange = []telemetry.Ack{{Accepted: true}} }},
		{"duplicate", "two answers", nil, func(f *flight) { f.orders[0].others = []telemetry.Ack{{}} }},
		{"duplicate", "a status twice", nil, func(f *flight) { f.statuses[3].Seq = 3 }},
		{"durable", "answered in a stall", func(f *flight) {
			f.fail("disk_stall", 1, 109, 115)
			f.give(111, true, mission(telemetry.ActionHold)).answeredS = 115.1
		}, func(f *flight) { f.orders[2].answeredS = 111.1 }},
		{"holding", "without an order", nil, func(f *flight) { state(f, 110, 112, telemetry.StateHolding) }},
		{"holding", "not, with one", func(f *flight) {
			f.give(109.2, true, mission(telemetry.ActionHold))
			state(f, 109.3, 140, telemetry.StateHolding)
		}, func(f *flight) { state(f, 120, 122, telemetry.StateFlying) }},
		{"contact", "flies on", silent, func(f *flight) { state(f, 105, 117.5, telemetry.StateFlying) }},
		{"contact", "holds on", silent, func(f *flight) { state(f, 107.5, 130, telemetry.StateHolding) }},
		{"contact", "flies on without a broker", func(f *flight) {
			f.fail(record.BrokerDown, 0, 80, 130)
			for _, a := range f.aircraft {
				for k := range a.states {
					if s := &a.states[k]; s.timeS > 112 {
						s.VelocityMPS = point{}
					}
				}
			}
		}, func(f *flight) {
			for k := range f.aircraft[0].states {
				f.aircraft[0].states[k].VelocityMPS[0] = 9
			}
		}},
		{"ceiling", "above it", func(f *flight) { budget(f, 11e3, telemetry.ModeCeiling) }, func(f *flight) {
			for _, a := range f.aircraft {
				for k := range a.states {
					a.states[k].SpentJ += 150 * max(a.states[k].timeS-110, 0)
				}
			}
		}},
	})
}
