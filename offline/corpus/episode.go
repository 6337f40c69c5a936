package corpus

import (
	"math"

	"prefdt/inference/checkpoint"
	"prefdt/inference/goal"
	"prefdt/inference/model"
	"prefdt/inference/physics"
	"prefdt/inference/slot"
	"prefdt/inference/token"
	"prefdt/inference/tracking"
	"prefdt/offline/front"
	"prefdt/offline/train"
)

// Reader turns flights into what the trainer reads: the rows of each slot, as
// a policy that was asked for the flight's outcome would have seen them, and
// the teacher's decision as the answer. It serves one goroutine.
type Reader struct {
	manifest *Manifest
	flyer    *flyer
	builder  *token.Builder
	scales   goal.Scales
	axis     checkpoint.PriceAxis
	tracker  tracking.Tracker
	targets  []physics.Position
	rows     token.Rows
	heard    slot.Decision
}

// NewReader returns a reader of a corpus under some statistics.
func NewReader(m *Manifest, standard *token.Standard) *Reader {
	scales := m.Scales()
	fl := newFlyer(m)
	r := &Reader{manifest: m, flyer: fl, scales: scales, axis: m.Archive.Axis()}
	r.builder = token.NewBuilder(&fl.world.Config.Physics, &r.scales, standard)
	return r
}

// settleSlots is how long after a shock the measured multiplier still moves;
// those slots are context, not lessons.
const settleSlots = 3

// Episode flies f and fills ep.
//
// The return-to-go is the hindsight suffix sum, eq. (rtgnorm). Before a change
// of price it is what the first price would still have cost, as a policy reads
// it whose request is then revised. Loss falls only on the slots after the last
// change, because what was asked of the earlier ones is not what followed.
func (r *Reader) Episode(f *Flight, ep *train.Episode) error {
	if _, err := r.flyer.fly(f); err != nil {
		return err
	}
	fl, w := r.flyer, r.flyer.world
	fl.start(f)
	r.tracker.Reset()
	r.builder.Reset()
	ep.Reset()
	ep.Slots = w.Config.Slots
	ep.Target.MoveScale = float32(w.Config.Physics.SpeedMaxMPS / fl.speed)

	g := goal.New(&r.scales, &w.Config.Physics, w.Config.Slots, w.Config.Aircraft)
	g.SetElsewhere(f.World > 0 || f.Priced)
	left := 0 // aircraft in the end
	for _, s := range fl.steps {
		if s.flying > 0 {
			left = s.flying
		}
	}
	var delayToGo, energyToGo float64
	for _, s := range fl.steps {
		delayToGo += s.delayS
		energyToGo += s.energyJ
	}
	var beforeS, beforeJ float64 // correction of the entries before the change
	if f.ChangeSlot > 0 && f.World == 0 {
		beforeS, beforeJ = r.planned(f)
	}
	for t := range fl.steps {
		s := &fl.steps[t]
		if s.flying == 0 {
			ep.Slots = t // nothing is left to decide
			break
		}
		changed := f.ChangeSlot == 0 || t >= f.ChangeSlot
		asked := g.State()
		asked.Flying = s.flying
		asked.Mode, asked.Omega, asked.DelayToGoS, asked.EnergyToGoJ = goal.Preference, f.Omega, delayToGo, energyToGo
		if !changed {
			asked.DelayToGoS += beforeS
			asked.EnergyToGoJ += beforeJ
		} else if f.ChangeSlot > 0 {
			asked.Omega = f.ChangeOmega
		}
		if f.Bare {
			asked.Mode, asked.BudgetJ, asked.Omega, asked.DelayToGoS = goal.Target, asked.SpentJ+asked.EnergyToGoJ, 0, 0
		}
		g.Restore(asked)
		learn := changed && (f.ShockFactor == 0 || t >= f.ShockSlot+settleSlots) && (g.Priced() || s.flying == left)
		r.slot(ep, f, g, s, learn)

		delayToGo -= s.delayS
		energyToGo -= s.energyJ
		w.Snapshot(&fl.snap) // whole again
		fl.world.Apply(&fl.snap, &s.decision, &fl.action)
		w.Step(fl.action)
		g.Settle(goal.Settlement{DelayS: s.delayS, EnergyJ: s.energyJ, EdgeJ: s.edgeJ, ModelFlightJ: s.modelJ, Flying: s.flying})
	}
	return nil
}

// planned returns by how much the rest of the flight after its change of price
// was cheaper, in both returns, than the archive's mean at the first price.
func (r *Reader) planned(f *Flight) (delayS, energyJ float64) {
	a := &r.manifest.Archive
	point := func(price float64) (delayS, energyJ float64) {
		y := r.axis.Place(price)
		return interpolate(r.axis.Y, a.delays(), y), interpolate(r.axis.Y, a.energies(), y)
	}
	d0, e0 := point(f.Price)
	d1, e1 := point(f.ChangePrice)
	left := 1 - float64(f.ChangeSlot)/float64(r.manifest.World.Slots)
	return (d0 - d1) * left, (e0 - e1) * left
}

// slot appends one slot's rows and answer.
func (r *Reader) slot(ep *train.Episode, f *Flight, g goal.Objective, s *step, learn bool) {
	w, snap := r.flyer.world, &r.flyer.snap
	w.Snapshot(snap)
	d := &s.decision
	if f.Unheard > 0 {
		d = r.hear(f, snap, d)
	}
	r.tracker.Observe(snap.Users)
	r.targets = r.tracker.Targets(&w.Config.Physics, snap.Aircraft, r.targets)
	r.builder.Fill(&r.rows, snap, g, r.targets)
	r.builder.Acted(snap, g, d)

	ep.Craft, ep.Users = append(ep.Craft, len(snap.Aircraft)), append(ep.Users, len(snap.Users))
	ep.Aircraft = append(ep.Aircraft, r.rows.Aircraft...)
	ep.Pairs = append(ep.Pairs, r.rows.Pairs...)
	ep.State = append(ep.State, r.rows.State...)
	ep.Return = append(ep.Return, r.rows.Return...)
	ep.Action = append(ep.Action, r.rows.Action...)

	a := &ep.Target
	weight := float32(0)
	if learn {
		weight = 1
	}
	a.Weight = append(a.Weight, weight)
	for u := range d.Users {
		x, user := &d.Users[u], &snap.Users[u]
		deadline := float32(0)
		if x.Server > 0 {
			c := &w.Config.Physics
			share := c.ShareOf(user.Gain[x.Server-1], snap.Aircraft[x.Server-1].CPUHz, float64(s.decision.Served(x.Server)))
			least, ok := physics.LeastMeeting(user.Task.LocalS(user.CPUHz), user.Task.OffloadS(share), user.Task.DeadlineS)
			if ok && math.Abs(x.Offload-least) < 1e-9 {
				deadline = 1
			}
		}
		a.Server = append(a.Server, x.Server)
		a.Offload = append(a.Offload, float32(x.Offload))
		a.Deadline = append(a.Deadline, deadline)
	}
	for _, move := range d.Move {
		a.Move = append(a.Move, float32(move.EastM/r.flyer.speed), float32(move.NorthM/r.flyer.speed))
	}
	a.Price = append(a.Price, float32(r.place(f, snap.Slot)))
}

// hear takes the users whose reports are lost out of a snapshot, and out of
// the decision.
func (r *Reader) hear(f *Flight, snap *slot.Snapshot, d *slot.Decision) *slot.Decision {
	w := r.flyer.world
	r.heard = slot.Decision{Users: r.heard.Users[:0], Move: d.Move, PriceSPerJ: d.PriceSPerJ, EdgeJ: d.EdgeJ}
	kept := snap.Users[:0]
	for u := range snap.Users {
		if w.Config.ReportLost(w.Seed, w.Slot, snap.Users[u].ID, f.Unheard) {
			continue
		}
		kept = append(kept, snap.Users[u])
		r.heard.Users = append(r.heard.Users, d.Users[u])
		r.heard.DelayS += w.Config.Physics.DelayS(snap.Users[u].Task, d.Users[u].CompletionS)
	}
	snap.Users = kept
	return &r.heard
}

// place returns where on the price axis a flight was in a slot: that of its
// price or, without one, of its outcome.
func (r *Reader) place(f *Flight, t int) float64 {
	if f.Teacher != dispatchTeacher {
		return r.manifest.Archive.Place(front.Point{DelayS: f.DelayS, EnergyJ: f.EnergyJ})
	}
	return r.axis.Place(f.priceAt(t))
}

// Statistics gathers the standardisation of every kind of row over the first
// flights of a corpus in its own world: random ones vary so much more that
// they would leave it little resolution.
func Statistics(m *Manifest, flights int) (token.Standard, error) {
	identity := token.Identity()
	r := NewReader(m, &identity)
	var ep train.Episode
	var rows [5]moments
	for i := range m.Flights {
		if m.Flights[i].World > 0 {
			continue
		}
		if flights--; flights < 0 {
			break
		}
		if err := r.Episode(&m.Flights[i], &ep); err != nil {
			return identity, err
		}
		rows[0].add(ep.Aircraft, model.AircraftFeatures)
		rows[1].add(ep.Pairs, model.PairFeatures)
		rows[2].add(ep.State, model.StateFeatures)
		rows[3].add(ep.Return, model.ReturnFeatures)
		rows[4].add(ep.Action, model.ActionFeatures)
	}
	return token.Standard{
		Aircraft: rows[0].result(), Pair: rows[1].result(), State: rows[2].result(), Return: rows[3].result(), Action: rows[4].result(),
	}, nil
}

type moments struct {
	n            float64
	sum, squares []float64
}

func (m *moments) add(rows []float32, width int) {
	if m.sum == nil {
		m.sum, m.squares = make([]float64, width), make([]float64, width)
	}
	for i, x := range rows {
		m.sum[i%width] += float64(x)
		m.squares[i%width] += float64(x) * float64(x)
	}
	m.n += float64(len(rows) / width)
}

// result returns mean and deviation; a feature that hardly moves in the corpus
// keeps its own unit, so that a small step outside it is not blown up.
func (m *moments) result() (r token.Moments) {
	for i := range m.sum {
		mean := m.sum[i] / m.n
		std := math.Sqrt(max(m.squares[i]/m.n-mean*mean, 0))
		if std < 0.02 {
			std = 1
		}
		r.Mean, r.Std = append(r.Mean, mean), append(r.Std, std)
	}
	return r
}
