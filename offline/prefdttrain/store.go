package prefdttrain

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"prefdt/inference/kernel"
	"prefdt/inference/prefdt"
	"prefdt/offline/corpus"
	"prefdt/offline/jobs"
	"prefdt/offline/pareto"
	"prefdt/offline/teacher"
)

// flightRows are a flight as the network reads it, and what its teacher did. They are flown
// once and kept, because a run reads every flight many times. The standardised rows are
// kept as float16: a feature is within 8 deviations, so that is exact to 0.004 of one.
type flightRows struct {
	omega     float64
	firstUser []int        // (T+1) of each slot, and N
	aircraft  []uint16     // (T*M, AircraftFeatures)
	users     []uint16     // (N, M, FU)
	toGo      [][2]float64 // (T) delay in s and energy in J from that slot on
	motion    []float32    // (T, 2M) on [-1, 1]
	server    []uint8      // (N)
	offload   []float32    // (N) on [-1, 1]; -1 where the user computes locally
}

// reader flies flights and returns their rows. It serves one goroutine.
type reader struct {
	*corpus.Simulator
	corpus   *Corpus
	builder  *prefdt.Builder
	aircraft []float32 // of a slot
	users    []float32
	settled  []pareto.Point
	maxSpeed float64
}

func newReader(m *Corpus, f *prefdt.Form, s *prefdt.Statistics) *reader {
	r := &reader{Simulator: corpus.NewSimulator(&m.World, &m.Archive), corpus: m}
	r.builder = prefdt.NewBuilder(f, &r.World.Config.Physics, s)
	r.maxSpeed = m.World.Physics.SpeedMaxMPS
	return r
}

// read flies a flight and returns its rows. It must cost what the corpus says.
func (r *reader) read(x *Episode) (*flightRows, error) {
	out := &flightRows{omega: x.Omega, firstUser: []int{0}}
	r.settled = r.settled[:0]
	halves := func(dst []uint16, row []float32) []uint16 {
		for _, v := range row {
			dst = append(dst, kernel.ToFloat16(v))
		}
		return dst
	}
	total, err := r.corpus.simulate(r.Simulator, x, func(s teacher.SettledSlot) {
		r.aircraft, r.users = r.builder.AppendSlot(r.aircraft[:0], r.users[:0], s.Snapshot)
		out.aircraft, out.users = halves(out.aircraft, r.aircraft), halves(out.users, r.users)
		for _, u := range s.Decision.Users {
			offload := u.Offload
			if u.Server == 0 {
				offload = 0
			}
			out.server, out.offload = append(out.server, uint8(u.Server)), append(out.offload, float32(2*offload-1))
		}
		out.firstUser = append(out.firstUser, len(out.server))
		for _, move := range s.Decision.Move {
			length, heading := prefdt.Polar(move.EastM/r.maxSpeed, move.NorthM/r.maxSpeed)
			out.motion = append(out.motion, length, heading)
		}
		r.settled = append(r.settled, pareto.Point{DelayS: s.Outcome.DelayS, EnergyJ: s.Outcome.EnergyJ()})
	})
	if err != nil {
		return nil, err
	}
	if x.Point != (pareto.Point{}) && total != x.Point {
		return nil, fmt.Errorf("flight of seed %d costs (%v s, %v J), the corpus has (%v s, %v J): the world or the rule has changed, "+
			"build the corpus anew", x.Seed, total.DelayS, total.EnergyJ, x.DelayS, x.EnergyJ)
	}
	// without the room to grow
	out.aircraft, out.users, out.offload = slices.Clone(out.aircraft), slices.Clone(out.users), slices.Clone(out.offload)
	left := [2]float64{total.DelayS, total.EnergyJ}
	for _, p := range r.settled {
		out.toGo = append(out.toGo, left)
		left[0] -= p.DelayS
		left[1] -= p.EnergyJ
	}
	return out, nil
}

// statistics gathers what rows are standardised by over the corpus's first flights.
func (m *Corpus) statistics(f *prefdt.Form) (s prefdt.Statistics, err error) {
	r := newReader(m, f, nil)
	var aircraft, users corpus.MomentSums
	for i := range min(statisticFlights, len(m.Flights)) {
		if _, err = m.simulate(r.Simulator, &m.Flights[i], func(x teacher.SettledSlot) {
			r.aircraft, r.users = r.builder.AppendSlot(r.aircraft[:0], r.users[:0], x.Snapshot)
			aircraft.Add(r.aircraft, prefdt.AircraftFeatures)
			users.Add(r.users, len(f.UserFeatures))
		}); err != nil {
			return s, err
		}
	}
	return prefdt.Statistics{Aircraft: aircraft.Result(1e-6), User: users.Result(1e-6)}, nil
}

// store holds the rows of all flights of a run.
type store struct {
	form    *prefdt.Form
	etas    pareto.Point
	flights []*flightRows
}

func load(ctx context.Context, m *Corpus, f *prefdt.Form, flights []Episode, workers int, progress func(int)) (*store, error) {
	s := &store{form: f, etas: m.Etas, flights: make([]*flightRows, len(flights))}
	err := jobs.Do(ctx, len(flights), workers, func() (*reader, error) { return newReader(m, f, &m.Rows), nil },
		func(r *reader, i int) (err error) {
			s.flights[i], err = r.read(&flights[i])
			return err
		}, progress)
	return s, err
}

// validation returns flights of the corpus's recipe on training seeds that it does not use.
func (m *Corpus) validation(n int) ([]Episode, error) {
	flights := make([]Episode, n)
	var err error
	for i := range flights {
		if flights[i], err = m.draw(validationFirst + uint64(i)); err != nil {
			return nil, err
		}
	}
	return flights, nil
}

// window is a run of slots of a flight.
type window struct{ flight, first, end int }

// draw draws a window. Its flight is any, and its start so that every slot of a flight is
// in as many windows as every other, and at each place of a window as often: the first and
// the last windows of a flight are shorter.
func (s *store) draw(r *rand.Rand) window {
	w := window{flight: r.IntN(len(s.flights))}
	slots, context := len(s.flights[w.flight].toGo), s.form.Context
	start := r.IntN(slots+context-1) - (context - 1)
	w.first, w.end = max(start, 0), min(start+context, slots)
	return w
}

// users returns how many users a window has, over all its slots.
func (s *store) users(w window) int {
	f := s.flights[w.flight]
	return f.firstUser[w.end] - f.firstUser[w.first]
}

// batch is some windows as the network reads them, one after the other. Shapes: S slots, N
// users over all slots.
type batch struct {
	windows    []int // slots of each window
	slotNumber []int // (S)
	userCounts []int // (S)

	aircraft []float32 // (S*M, AircraftFeatures)
	users    []float32 // (N, M, FU)
	returns  []float32 // (S, ReturnFeatures)
	omega    []float32 // (S)
	action   []float32 // (S, M*ActionFeatures), of the slot itself

	motion  []float32 // (S, 2M) on [-1, 1]
	server  []int     // (N)
	offload []float32 // (N) on [-1, 1]
}

func (b *batch) reset() {
	b.windows, b.slotNumber, b.userCounts = b.windows[:0], b.slotNumber[:0], b.userCounts[:0]
	b.aircraft, b.users, b.returns, b.omega, b.action = b.aircraft[:0], b.users[:0], b.returns[:0], b.omega[:0], b.action[:0]
	b.motion, b.server, b.offload = b.motion[:0], b.server[:0], b.offload[:0]
}

// append appends a window.
func (s *store) append(b *batch, w window) {
	f, form := s.flights[w.flight], s.form
	m, firstUser, endUser := form.Aircraft, f.firstUser[w.first], f.firstUser[w.end]
	floats := func(dst []float32, src []uint16) []float32 {
		for _, h := range src {
			dst = append(dst, kernel.FromFloat16(h))
		}
		return dst
	}
	b.windows = append(b.windows, w.end-w.first)
	b.aircraft = floats(b.aircraft, f.aircraft[w.first*m*prefdt.AircraftFeatures:w.end*m*prefdt.AircraftFeatures])
	b.users = floats(b.users, f.users[firstUser*form.UserWidth():endUser*form.UserWidth()])
	b.motion = append(b.motion, f.motion[2*m*w.first:2*m*w.end]...)
	b.offload = append(b.offload, f.offload[firstUser:endUser]...)
	for t := w.first; t < w.end; t++ {
		first, at, end := len(b.server), f.firstUser[t], f.firstUser[t+1]
		for _, x := range f.server[at:end] {
			b.server = append(b.server, int(x))
		}
		b.slotNumber, b.userCounts = append(b.slotNumber, t), append(b.userCounts, end-at)
		b.omega = append(b.omega, float32(f.omega))
		b.returns = prefdt.AppendReturn(b.returns, f.omega, f.toGo[t][0], f.toGo[t][1], s.etas.DelayS, s.etas.EnergyJ)
		b.action = prefdt.AppendAction(b.action, f.motion[2*m*t:2*m*(t+1)], b.server[first:],
			func(u int) float64 { return (1 + float64(f.offload[at+u])) / 2 })
	}
}
