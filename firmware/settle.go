package main

import (
	"fmt"
	"math"

	"prefdt/firmware/energy"
	"prefdt/firmware/fleet"
	"prefdt/firmware/ledger"
	"prefdt/inference/goal"
	"prefdt/inference/physics"
	"prefdt/telemetry"
)

// book is what a slot's delay is expected to be, until results correct it.
type book struct {
	delayS  float64
	settled bool
	entries map[string]entry // by user
	heard   int              // users that a decision was made for
	edgeJ   float64          // of the users heard
	takers  int              // users without a decision who took the offer
}

type entry struct {
	task   physics.Task
	localS float64 // its completion, computed locally
	delayS float64 // booked
	edgeJ  float64 // likewise, at the share that was told
	final  bool    // a result came
}

// maxCompletionS bounds a result that is believed, and what one task counts for
// in the mission's account: what one user says must not move that for good.
const maxCompletionS = 60

// delayS is what a task counts for.
func (l *Leader) delayS(t physics.Task, completionS float64) float64 {
	return min(l.Physics.DelayS(t, completionS), maxCompletionS)
}

// book writes down the decision's expectation.
func (l *Leader) book(n int) {
	b := &book{entries: make(map[string]entry, len(l.snapshot.Users))}
	l.localS = 0
	i := 0
	for _, u := range l.users.heard {
		if u.report.Task == nil {
			continue
		}
		s := &l.snapshot.Users[i]
		d := &l.decision.Users[i]
		b.entries[u.name] = entry{
			task: s.Task, localS: s.Task.LocalS(s.CPUHz), delayS: l.delayS(s.Task, d.CompletionS),
			edgeJ: l.Physics.EdgeJ(s.Task, physics.Share{CPUHz: d.CPUHz}, d.Offload),
		}
		b.delayS += b.entries[u.name].delayS
		b.edgeJ += b.entries[u.name].edgeJ
		l.localS += l.delayS(s.Task, s.Task.LocalS(s.CPUHz))
		i++
	}
	b.heard = len(b.entries)
	l.books[n] = b
}

// correct books a result over its expectation. A user whose report was lost
// has none: its completion counts as it is.
func (l *Leader) correct(name string, r *telemetry.Result) {
	b, completionS := l.books[r.Slot], r.CompletionS
	if b == nil || l.users.allow != nil && !l.users.allow[name] {
		return
	}
	e, heard := b.entries[name]
	if most := max(maxCompletionS, 2*e.task.DeadlineS, 2*e.localS); completionS > most {
		l.broker.rejects.Add(l.broker.topics.Result(name), &telemetry.Invalid{Kind: "result: too long", Text: fmt.Sprintf("completion_s is %v, believed up to %v", completionS, most)})
		return
	}
	if r.By == telemetry.ByDecision && !heard {
		l.broker.rejects.Add(l.broker.topics.Result(name), &telemetry.Invalid{Kind: "result: by no decision", Text: fmt.Sprintf("no decision was made for %s in slot %d", name, r.Slot)})
		return
	}
	if e.final || !heard && len(b.entries) >= telemetryUsersMax {
		return
	}
	if r.By == telemetry.ByOffer {
		b.takers++
	}
	if r.By != telemetry.ByDecision { // it never came, or too late
		b.edgeJ, e.edgeJ = b.edgeJ-e.edgeJ, 0
	}
	actual := min(completionS, maxCompletionS)
	if heard {
		actual = l.delayS(e.task, completionS)
	}
	change := actual - e.delayS
	e.delayS, e.final = actual, true
	b.entries[name] = e
	b.delayS += change
	if b.settled {
		l.goal.Correct(change)
	}
}

// closeBooks ends the time for results: those of slot n-2 are accepted until
// the report window of slot n closes. How many users had a task, and how many
// of them unheard, is then known: what the next offer goes by.
func (l *Leader) closeBooks(n int) {
	for k, b := range l.books {
		if k <= n-2 {
			l.forecast.Settle(len(b.entries), len(b.entries)-b.heard)
			delete(l.books, k)
		}
	}
}

// account books what every aircraft drew since the last time and returns it,
// with the closed form of the same flight. A figure that was corrected
// downwards is never paid back: it waits until the meter has caught up.
func (l *Leader) account() (drawnJ, modelJ []float64, measured bool, flying int) {
	drawnJ, modelJ = make([]float64, len(l.craft)), make([]float64, len(l.craft))
	for i := range l.craft {
		c, v := &l.craft[i], &l.views[i]
		drawnJ[i] = math.Max(v.TotalJ-c.bookedJ, 0)
		c.bookedJ = math.Max(v.TotalJ, c.bookedJ)
		modelJ[i] = math.Max(v.ModelJ-c.modelJ, 0)
		c.modelJ = v.ModelJ
		c.source = v.Source
		if v.InAir {
			flying++
			measured = measured || v.Source != energy.Model
		}
	}
	return drawnJ, modelJ, measured, flying
}

// bookTransit counts joules outside the slots apart.
func (l *Leader) bookTransit() {
	drawn, _, _, _ := l.account()
	for i := range l.craft {
		l.craft[i].transitJ += drawn[i]
	}
}

// settle books slot n, and the missed ones before it, from the measured
// batteries and the delays as far as they are known. It returns the rows.
func (l *Leader) settle(n int) (rows []ledger.Row) {
	drawn, model, measured, flying := l.account()
	slots := n - l.goal.Slot() + 1
	share := 1 / float64(slots)
	s := goal.Settlement{Flying: flying}
	for i := range l.craft {
		l.craft[i].spentJ += drawn[i]
		s.EnergyJ += drawn[i] * share
		if measured && (l.views[i].InAir || drawn[i] > 0) {
			s.ModelFlightJ += model[i] * share
		}
	}
	for k := l.goal.Slot(); k <= n; k++ {
		row := ledger.Row{Slot: k, EnergyJ: s.EnergyJ, Factor: l.goal.Factor()}
		s.DelayS, s.EdgeJ, s.LeastEdgeJ, s.MostEdgeJ = l.localS, 0, 0, 0 // missed: no decision was possible, all local
		if b := l.books[k]; b != nil {
			b.settled = true
			takersJ, mostJ := l.forecast.TakersJ(&l.Physics, b.takers)
			s.DelayS, s.EdgeJ, s.LeastEdgeJ, s.MostEdgeJ = b.delayS, b.edgeJ+takersJ, b.edgeJ, b.edgeJ+mostJ
			row.Heard, row.PriceSPerJ, row.DecisionMS = len(l.users.heard), l.price, l.decisionMS
			for i := range l.decision.Users {
				if l.decision.Users[i].Server > 0 {
					row.Offloaded++
				}
			}
		} else {
			l.missed++
		}
		row.DelayS, row.EdgeJ = s.DelayS, s.EdgeJ
		l.goal.Settle(s)
		for i := range l.craft {
			v := &l.views[i]
			c := &l.craft[i]
			row.Aircraft = append(row.Aircraft, ledger.Account{
				Number: v.Number, EnergyJ: drawn[i] * share, SpentJ: c.spentJ, Source: v.Source,
				ErrorJ: v.ErrorJ + c.startErrorJ + math.Max(c.bookedJ-v.TotalJ, 0),
				EastM:  v.Position.EastM, NorthM: v.Position.NorthM,
			})
		}
		rows = append(rows, row)
		l.lastRow = row
	}
	l.Log.Debug("settled", "slot", n, "energy_j", s.EnergyJ*float64(slots), "delay_s", s.DelayS, "factor", l.goal.Factor())
	return rows
}

// residualJ is what is left of an aircraft's battery: the lesser of what was
// booked and what it says itself.
func (l *Leader) residualJ(i int) float64 {
	left := l.Physics.CapacityJ - l.craft[i].spentJ - l.craft[i].transitJ
	if charge := l.views[i].Charge; !math.IsNaN(charge) {
		left = math.Min(left, charge*l.Physics.CapacityJ)
	}
	return math.Max(left, 0)
}

// low is whether an aircraft has no more left than the way home and its
// reserve take, C6.
func (l *Leader) low(v *fleet.View) bool {
	return l.residualJ(v.Number-1) < l.homeJ(v)+l.Config.Flight.ReserveJ
}

// homeJ is what the way home takes at the multiplier as measured: the cruise,
// and the two slots until the next look and the turn.
func (l *Leader) homeJ(v *fleet.View) float64 {
	p, limit := l.Physics.Propulsion, min(l.Physics.SpeedMaxMPS, l.Config.Flight.SpeedMaxMPS)
	if s := v.Params.SpeedMaxMPS; s > 0 {
		limit = min(limit, s)
	}
	best, distance := p.BestSpeedMPS(limit), 0.0
	if v.Home != nil {
		distance = v.Position.Sub(*v.Home).Norm()
	}
	return (distance/best*p.PowerW(best) + 2*p.PowerW(0)) * l.goal.Factor()
}
