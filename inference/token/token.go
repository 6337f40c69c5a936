// Package token computes the network's input rows, Sec. IV-A.
//
// Inputs: a slot's snapshot, the mission's objective, the aircraft's motion
// targets, and the last slot's decision. Outputs: a row for each aircraft, one for
// each pair of aircraft and user, the state row, the return row of eq. (rtgnorm)
// and the row of the last action, each value standardised by archived statistics.
// The policy calls it in flight, and the corpus on the flights that it records, so
// that training reads the same features.
package token

import (
	"fmt"
	"math"
	"slices"

	"prefdt/inference/dispatch"
	"prefdt/inference/goal"
	"prefdt/inference/model"
	"prefdt/inference/motion"
	"prefdt/inference/physics"
	"prefdt/inference/slot"
)

// Layout names the features of each kind of row, in order. It is archived with a
// checkpoint, whose layout must be this program's.
type Layout struct {
	Aircraft []string `json:"aircraft"`
	Pair     []string `json:"pair"`
	State    []string `json:"state"`
	Return   []string `json:"return"`
	Action   []string `json:"action"`
}

// Features returns the layout this package computes.
func Features() Layout {
	return Layout{
		Aircraft: []string{
			"position east", "position north", "residual energy", "served", "speed",
			"measured multiplier", "track east", "track north", "target distance",
			"nearest aircraft east", "nearest aircraft north", "nearest aircraft proximity",
			"fleet size", "users with the best gain here", "cpu",
		},
		Pair: []string{
			"distance", "bearing east", "bearing north", "bits", "cycles per bit", "deadline", "queue", "gain",
			"T_loc", "T_off", "T_loc/deadline", "T_off/T_loc",
			"best gain", "rate behind the best", "T_off at a third", "local misses", "least offload", "edge energy",
		},
		State: []string{"omega delay", "place", "dropped", "users", "fleet size", "local delay"},
		Return: []string{
			"delay to go", "energy to go", "omega delay", "place",
			"allowance", "log allowance", "allowance to go", "allowance of the edge scale", "edge scale",
			"delay per slot", "dropped", "energy dropped",
			"slots left", "log slots left", "measured multiplier", "fleet size", "users",
			"sin 80", "cos 80", "sin 40", "cos 40", "sin 20", "cos 20", "sin 10", "cos 10",
		},
		Action: []string{
			"mean move east", "mean move north", "offloading users", "mean offload", "edge energy",
			"expected delay", "largest load", "omega delay", "place", "dropped",
		},
	}
}

// rows lists the kinds of row with the names of their features.
func (l *Layout) rows() []rowFeatures {
	return []rowFeatures{{"aircraft", l.Aircraft}, {"pair", l.Pair}, {"state", l.State}, {"return", l.Return}, {"action", l.Action}}
}

type rowFeatures struct {
	row      string
	features []string
}

// Check returns an error that names the first feature that differs in this program.
func (l *Layout) Check() error {
	program := Features()
	for k, want := range program.rows() {
		archived := l.rows()[k].features
		if len(archived) != len(want.features) {
			return fmt.Errorf("checkpoint has %d %s features, this program computes %d", len(archived), want.row, len(want.features))
		}
		for i, name := range want.features {
			if archived[i] != name {
				return fmt.Errorf("%s feature %d is %.64q in the checkpoint and %q in this program", want.row, i, archived[i], name)
			}
		}
	}
	return nil
}

// Moments are the means and standard deviations by which one kind of row is
// standardised, x~ = (x - mean) / std.
type Moments struct {
	Mean []float64 `json:"mean"`
	Std  []float64 `json:"std"`
}

// Ablate hides the features of a row from the network: a standard deviation this
// large makes each of them a constant.
func (m *Moments) Ablate() {
	for i := range m.Std {
		m.Std[i] = 1e11
	}
}

// Statistics holds the archived statistics of every kind of row.
type Statistics struct {
	Aircraft Moments `json:"aircraft"`
	Pair     Moments `json:"pair"`
	State    Moments `json:"state"`
	Return   Moments `json:"return"`
	Action   Moments `json:"action"`
}

// Check returns an error that names the first statistic that is not valid.
func (s *Statistics) Check() error {
	layout := Features()
	moments := [...]*Moments{&s.Aircraft, &s.Pair, &s.State, &s.Return, &s.Action}
	for k, kind := range layout.rows() {
		m, n := moments[k], len(kind.features)
		if len(m.Mean) != n || len(m.Std) != n {
			return fmt.Errorf("standardisation of %s rows has %d means and %d deviations, want %d", kind.row, len(m.Mean), len(m.Std), n)
		}
		for i := range n {
			if !(math.Abs(m.Mean[i]) < 1e12) || !(m.Std[i] > 1e-12 && m.Std[i] < 1e12) {
				return fmt.Errorf("standardisation of %s feature %d is (%v, %v), want finite numbers and a positive deviation", kind.row, i,
					m.Mean[i], m.Std[i])
			}
		}
	}
	return nil
}

// UserPrior returns the prior over users that the statistics of the corpus imply.
func (s *Statistics) UserPrior() (p dispatch.UserPrior) {
	l := Features()
	pair := func(name string) (mean, deviation float64) {
		i := slices.Index(l.Pair, name)
		if deviation = s.Pair.Std[i]; deviation == 1 {
			deviation = 0 // nearly constant in the corpus, and therefore not scaled
		}
		return s.Pair.Mean[i], deviation
	}
	megabits, megabitsStdDev := pair("bits")
	p.TaskMean.Bits, p.TaskStdDev.Bits = 1e6*megabits, 1e6*megabitsStdDev
	kilocycles, _ := pair("cycles per bit")
	p.TaskMean.CyclesPerBit = 1000 * kilocycles
	p.TaskMean.DeadlineS, p.TaskStdDev.DeadlineS = pair("deadline")
	localS, _ := pair("T_loc")
	p.CPUHz = p.TaskMean.Cycles() / localS
	p.ActiveUsers = 8 * s.State.Mean[slices.Index(l.State, "users")]
	return p
}

// IdentityStatistics returns statistics that leave every feature as it is, for
// gathering those of a corpus.
func IdentityStatistics() Statistics {
	unit := func(n int) Moments {
		return Moments{Mean: make([]float64, n), Std: slices.Repeat([]float64{1}, n)}
	}
	return Statistics{unit(model.AircraftFeatures), unit(model.PairFeatures), unit(model.StateFeatures), unit(model.ReturnFeatures),
		unit(model.ActionFeatures)}
}

// Rows are one slot's rows, row-major and standardised: the network's input.
type Rows = model.Inputs

// Builder computes rows. From slot to slot it keeps the summary of the last action
// and the scale of edge energy.
type Builder struct {
	Physics       *physics.Constants
	GoalConstants *goal.Constants
	Statistics    *Statistics

	bestSpeedMPS float64 // v*
	carried      goal.Rows
	bestAircraft []int // per user, the aircraft with the best gain
	ratesBPS     []float64
}

// NewBuilder returns a builder at the start of a mission.
func NewBuilder(p *physics.Constants, c *goal.Constants, s *Statistics) *Builder {
	b := &Builder{Physics: p, GoalConstants: c, Statistics: s}
	b.Reset()
	return b
}

// Reset begins another mission, under the constants that b now holds.
func (b *Builder) Reset() {
	b.bestSpeedMPS, _ = b.Physics.MinPower()
	b.carried = goal.Rows{}
}

// Carried returns what the rows carry to the next slot.
func (b *Builder) Carried() goal.Rows { return b.carried }

// Resume continues from what the rows of an earlier builder carried.
func (b *Builder) Resume(carried goal.Rows) { b.carried = carried }

// Fill computes a slot's rows. targets are in the order of the snapshot's aircraft.
func (b *Builder) Fill(r *Rows, s *slot.Snapshot, o goal.Objective, targets []physics.Position) {
	r.NumAircraft, r.NumUsers = len(s.Aircraft), len(s.Users)
	r.Aircraft, r.Pairs = r.Aircraft[:0], r.Pairs[:0]
	r.State, r.Return, r.Action = r.State[:0], r.Return[:0], r.Action[:0]
	b.computeRates(s)
	b.updateEdgeScale(s)
	for m := range s.Aircraft {
		r.Aircraft = b.appendAircraft(r.Aircraft, s, o, m, targets[m])
	}
	for m := range s.Aircraft {
		for u := range s.Users {
			r.Pairs = b.appendPair(r.Pairs, s, m, u)
		}
	}
	r.State = b.appendState(r.State, s, o)
	r.Return = b.appendReturn(r.Return, s, o)
	r.Action = standardise(r.Action, &b.Statistics.Action, b.carried.LastAction[:])
}

// RecordAction keeps the slot's decision for the next slot's action row.
func (b *Builder) RecordAction(s *slot.Snapshot, o goal.Objective, d *slot.Decision) {
	var east, north, offloading, offload, load float64
	for _, move := range d.Move {
		east += move.EastM
		north += move.NorthM
	}
	for i := range d.Users {
		if d.Users[i].Server > 0 {
			offloading++
			offload += d.Users[i].Offload
		}
	}
	for m := range d.EdgeJ {
		load = max(load, float64(d.ServedBy(m+1)))
	}
	m := max(float64(len(d.Move)), 1)
	n := max(float64(len(d.Users)), 1)
	delayShare, position, dropped := b.preferenceFeatures(o)
	b.carried.LastAction = [model.ActionFeatures]float64{
		east / m / b.Physics.SpeedMaxMPS, north / m / b.Physics.SpeedMaxMPS,
		offloading / n, offload / max(offloading, 1), d.TotalEdgeJ() / m / 60,
		d.DelayS / n, load / 4, delayShare, position, dropped,
	}
}

// computeRates computes each pair's rate at the whole bandwidth and each user's
// aircraft of the best gain.
func (b *Builder) computeRates(s *slot.Snapshot) {
	b.bestAircraft, b.ratesBPS = b.bestAircraft[:0], b.ratesBPS[:0]
	for u := range s.Users {
		best := 0
		for m := range s.Aircraft {
			gain := s.Users[u].Gain[m]
			b.ratesBPS = append(b.ratesBPS, b.Physics.Channel.RateBPS(gain, b.Physics.Channel.BandwidthHz))
			if gain > s.Users[u].Gain[best] {
				best = m
			}
		}
		b.bestAircraft = append(b.bestAircraft, best)
	}
}

// edgeScaleMemory is how many slots the edge scale is a mean of at most.
const edgeScaleMemory = 256

// updateEdgeScale updates the mean edge energy of a slot whose tasks are all
// offloaded at the balance point, three to an aircraft. An allowance is large or
// small relative to it, in any world.
func (b *Builder) updateEdgeScale(s *slot.Snapshot) {
	sum := 0.0
	for u := range s.Users {
		a := s.Aircraft[b.bestAircraft[u]]
		third := physics.Share{CPUHz: a.CPUHz / 3, RateBPS: max(b.ratesBPS[u*len(s.Aircraft)+b.bestAircraft[u]], 1)}
		task := s.Users[u].Task
		sum += b.Physics.EdgeJ(task, third, physics.BalancedOffload(task.LocalTimeS(s.Users[u].CPUHz), task.OffloadTimeS(third)))
	}
	if sum > 0 {
		b.carried.EdgeScaleSlots = min(b.carried.EdgeScaleSlots+1, edgeScaleMemory)
		b.carried.EdgeScaleJ += (sum - b.carried.EdgeScaleJ) / b.carried.EdgeScaleSlots
	}
}

func (b *Builder) appendAircraft(dst []float32, s *slot.Snapshot, o goal.Objective, m int, target physics.Position) []float32 {
	a := &s.Aircraft[m]
	area := b.Physics.AreaSideM
	_, _, distance := unitVector(target.Sub(a.Position))
	east, north, _ := unitVector(motion.MoveToward(a.Position, target, b.bestSpeedMPS, b.bestSpeedMPS))
	var nearEast, nearNorth float64
	near := math.Inf(1)
	for other := range s.Aircraft {
		if other == m {
			continue
		}
		if e, n, d := unitVector(s.Aircraft[other].Position.Sub(a.Position)); d < near {
			nearEast, nearNorth, near = e, n, d
		}
	}
	bestHere := 0
	for _, best := range b.bestAircraft {
		if best == m {
			bestHere++
		}
	}
	return standardise(dst, &b.Statistics.Aircraft, []float64{
		a.Position.EastM/area - 0.5, a.Position.NorthM/area - 0.5,
		a.RemainingJ / b.Physics.BatteryCapacityJ, float64(a.ServedLastSlot) / 4, a.SpeedMPS / b.Physics.SpeedMaxMPS,
		o.PropulsionMultiplier() - 1, east, north, math.Log1p(distance / 100),
		nearEast, nearNorth, math.Exp(-near / 100),
		float64(len(s.Aircraft)) / 4, float64(bestHere) / 4, a.CPUHz / 40e9,
	})
}

// appendPair appends a user token in one aircraft's polar frame, eq. (tokusr), with
// the closed forms psi of eq. (physfeat) at that aircraft's load in the last slot.
func (b *Builder) appendPair(dst []float32, s *slot.Snapshot, m, u int) []float32 {
	a, user := &s.Aircraft[m], &s.Users[u]
	c := b.Physics
	east, north, distance := unitVector(user.Position.Sub(a.Position))
	rate := max(b.ratesBPS[u*len(s.Aircraft)+m], 1)
	bestRate := max(b.ratesBPS[u*len(s.Aircraft)+b.bestAircraft[u]], 1)
	share := func(served float64) physics.Share {
		if c.Contention {
			return physics.Share{CPUHz: a.CPUHz / served, RateBPS: rate / served}
		}
		return physics.Share{CPUHz: a.CPUHz / served, RateBPS: rate}
	}
	load := float64(max(a.ServedLastSlot, 1))
	local := user.Task.LocalTimeS(user.CPUHz)
	offload := user.Task.OffloadTimeS(share(load))
	third := share(3)
	least, _ := physics.LeastOffloadForDeadline(local, offload, user.Task.DeadlineS)
	return standardise(dst, &b.Statistics.Pair, []float64{
		distance / 1000, east, north,
		user.Task.Bits / 1e6, user.Task.CyclesPerBit / 1000, user.Task.DeadlineS, user.QueueBits / 1e6,
		math.Log10(max(user.Gain[m], 1e-20)),
		local, min(offload, 100), local / user.Task.DeadlineS, math.Log(offload / local),
		boolFeature(b.bestAircraft[u] == m), math.Log(rate / bestRate), min(user.Task.OffloadTimeS(third), 100),
		boolFeature(local > user.Task.DeadlineS), least,
		c.EdgeJ(user.Task, third, physics.BalancedOffload(local, user.Task.OffloadTimeS(third))) / 20,
	})
}

func (b *Builder) appendState(dst []float32, s *slot.Snapshot, o goal.Objective) []float32 {
	delayShare, position, dropped := b.preferenceFeatures(o)
	local := 0.0
	for u := range s.Users {
		t := s.Users[u].Task
		local += b.Physics.PenalizedDelayS(t, t.LocalTimeS(s.Users[u].CPUHz))
	}
	return standardise(dst, &b.Statistics.State, []float64{
		delayShare, position, dropped, float64(len(s.Users)) / 8, float64(len(s.Aircraft)) / 4, local / 8,
	})
}

// maxAllowanceScales bounds a slot's allowance, in edge scales: it cannot spend more.
const maxAllowanceScales = 3.0

// appendReturn appends the return token: delay and energy to go, weighted by the
// preference, eq. (inject), and in closed form the energy left above the flight
// floor, per slot to go and under the multiplier in force. Under a budget the
// delay to go and the preference are dropped, because they would contradict it.
func (b *Builder) appendReturn(dst []float32, s *slot.Snapshot, o goal.Objective) []float32 {
	delayShare, position, dropped := b.preferenceFeatures(o)
	left := float64(max(o.SlotsLeft(), 1))
	fleet := float64(max(len(s.Aircraft), 1))
	energy := 1 - boolFeature(o.PriceOnly())
	scale := max(b.carried.EdgeScaleJ, 1)
	headroom := energy * min(max(o.EnergyToGoJ()-o.FloorToGoJ(), 0), maxAllowanceScales*scale*left)
	allowance := headroom / left * 2 / fleet // per two aircraft
	row := [model.ReturnFeatures]float64{
		-o.DelayToGoS() / b.GoalConstants.EtaDelayS * delayShare * energy,
		-o.EnergyToGoJ() / b.GoalConstants.EtaEnergyJ * (1 - dropped) * (1 - delayShare) * energy,
		delayShare, position,
		allowance/40 - 1, math.Log1p(allowance/3) - 2, min(allowance*left/2000, 10),
		math.Log1p(8*headroom/left/scale) - 1.5, math.Log(scale / 100),
		(1 - dropped) * energy * o.DelayToGoS() / left, dropped, 1 - energy,
		min(left/100, 3), math.Log(left) / 5, o.PropulsionMultiplier() - 1, fleet / 4, float64(len(s.Users)) / 8,
	}
	for i, period := range [...]float64{80, 40, 20, 10} {
		at := len(row) - 8 + 2*i
		row[at], row[at+1] = math.Sincos(2 * math.Pi * float64(s.Slot) / period)
	}
	return standardise(dst, &b.Statistics.Return, row[:])
}

// preferenceFeatures returns the delay share requested, its position on the front,
// and 1 if a budget has dropped both, else 0.
func (b *Builder) preferenceFeatures(o goal.Objective) (delayShare, position, dropped float64) {
	if o.Budgeted() {
		return 0, 0, 1
	}
	return o.Omega(), b.GoalConstants.FrontPosition(o.Omega()), 0
}

func unitVector(v physics.Position) (east, north, distance float64) {
	d := v.Norm()
	if d < 1e-9 {
		return 0, 0, 0
	}
	return v.EastM / d, v.NorthM / d, d
}

func boolFeature(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// featureLimit bounds standardised features, so that values outside the corpus do not
// drive the network far from what it was trained on.
const featureLimit = 8

func standardise(dst []float32, m *Moments, row []float64) []float32 {
	for i, x := range row {
		dst = append(dst, float32(min(max((x-m.Mean[i])/m.Std[i], -featureLimit), featureLimit)))
	}
	return dst
}
