package paperform

import (
	"fmt"
	"slices"

	published "prefdt/inference/paperform"
	"prefdt/inference/slot"
	"prefdt/inference/token"
	"prefdt/offline/corpus"
)

// The paper's features, by their names in package token. A user's bearing is the
// unit vector from the aircraft to it.
var (
	aircraftFeatureNames = []string{"position east", "position north", "residual energy", "served", "speed"}
	userFeatureNames     = []string{"distance", "bearing east", "bearing north", "bits", "cycles per bit", "deadline", "queue", "gain", "T_loc", "T_off", "T_loc/deadline", "T_off/T_loc"}
	returnFeatureNames   = []string{"delay to go", "energy to go"}
)

const (
	aircraftFeatures       = 5  // eq. (tokuav)
	userFeatures           = 12 // eq. (tokusr) with psi, eq. (physfeat)
	returnFeatures         = 2  // g^ weighted by omega, eq. (inject)
	aircraftActionFeatures = 4  // of one aircraft: length and heading of its move, users served, mean rho
)

// featureColumns are the columns of token's rows that hold the paper's features.
type featureColumns struct{ aircraft, user, returns, omega rowColumns }

// rowColumns are some columns of one kind of row, of which it has width.
type rowColumns struct {
	width   int
	columns []int
}

func findFeatureColumns() (c featureColumns, err error) {
	layout := token.Features()
	for _, r := range []struct {
		into        *rowColumns
		names, have []string
	}{
		{&c.aircraft, aircraftFeatureNames, layout.Aircraft}, {&c.user, userFeatureNames, layout.Pair},
		{&c.returns, returnFeatureNames, layout.Return}, {&c.omega, []string{"omega delay"}, layout.State},
	} {
		r.into.width = len(r.have)
		for _, name := range r.names {
			at := slices.Index(r.have, name)
			if at < 0 {
				return c, fmt.Errorf("paper form: the rows have no feature %q any more", name)
			}
			r.into.columns = append(r.into.columns, at)
		}
	}
	return c, nil
}

// Standard returns a corpus's statistics without those of the two rows that the
// paper does not standardise: the return-to-go, "a pure ratio", and the preference.
func Standard(s token.Statistics) token.Statistics {
	identity := token.IdentityStatistics()
	s.Return, s.State = identity.Return, identity.State
	return s
}

// window is a run of slots as the network reads it, and in training what the
// teacher did. Shapes: S slots, M aircraft, N users over all slots.
type window struct {
	AircraftCount int // M
	FirstSlot     int // slot of the mission
	UserCounts    []int

	AircraftRows []float32 // (S*M, aircraftFeatures)
	Pairs        []float32 // (M*N, userFeatures), in each slot aircraft by aircraft
	Return       []float32 // (S, returnFeatures)
	Omega        []float32 // (S, 1)
	Action       []float32 // (S, aircraftActionFeatures*M), of the slot itself

	Motion  []float32 // (S, 2M) length and heading, each on [-1, 1]
	Server  []int     // (N)
	Offload []float32 // (N) on [-1, 1]
}

func (w *window) slots() int { return len(w.UserCounts) }

func (w *window) slice(first, end int) window {
	m := w.AircraftCount
	before, within := 0, 0
	for s, n := range w.UserCounts[:end] {
		if s < first {
			before += n
		} else {
			within += n
		}
	}
	c := window{
		AircraftCount: m, FirstSlot: w.FirstSlot + first, UserCounts: w.UserCounts[first:end],
		AircraftRows: w.AircraftRows[first*m*aircraftFeatures : end*m*aircraftFeatures],
		Pairs:        w.Pairs[before*m*userFeatures : (before+within)*m*userFeatures],
		Return:       w.Return[first*returnFeatures : end*returnFeatures],
		Omega:        w.Omega[first:end],
		Action:       w.Action[first*m*aircraftActionFeatures : end*m*aircraftActionFeatures],
	}
	if w.Motion != nil {
		c.Motion = w.Motion[first*2*m : end*2*m]
		c.Server, c.Offload = w.Server[before:before+within], w.Offload[before:before+within]
	}
	return c
}

// readExample reads a corpus's example. Its fleet must keep its size.
func (w *window) readExample(c *featureColumns, ex *corpus.Example, aircraft int) error {
	w.AircraftCount, w.FirstSlot = aircraft, 0
	w.UserCounts = append(w.UserCounts[:0], ex.UsersPerSlot...)
	w.AircraftRows = c.aircraft.append(w.AircraftRows[:0], ex.Aircraft)
	w.Pairs = c.user.append(w.Pairs[:0], ex.Pairs)
	w.Return = c.returns.append(w.Return[:0], ex.Return)
	w.Omega = c.omega.append(w.Omega[:0], ex.State)
	w.Server = append(w.Server[:0], ex.Labels.Server...)
	w.Offload, w.Motion, w.Action = w.Offload[:0], w.Motion[:0], w.Action[:0]
	for i, rho := range ex.Labels.Offload {
		if ex.Labels.Server[i] == 0 {
			rho = 0
		}
		w.Offload = append(w.Offload, 2*rho-1)
	}
	user := 0
	for s, n := range ex.UsersPerSlot {
		if ex.AircraftPerSlot[s] != aircraft {
			return fmt.Errorf("paper form: slot %d has %d aircraft, this network is bound to %d", s, ex.AircraftPerSlot[s], aircraft)
		}
		moves := ex.Labels.Move[2*aircraft*s : 2*aircraft*(s+1)]
		for m := range aircraft {
			length, heading := published.Polar(float64(moves[2*m]/ex.Labels.MoveScale), float64(moves[2*m+1]/ex.Labels.MoveScale))
			w.Motion = append(w.Motion, length, heading)
		}
		w.Action = published.AppendAction(w.Action, w.Motion[2*aircraft*s:], ex.Labels.Server[user:user+n], func(u int) float64 { return float64(ex.Labels.Offload[user+u]) })
		user += n
	}
	return nil
}

func (c *rowColumns) append(dst, rows []float32) []float32 {
	for row := range slices.Chunk(rows, c.width) {
		for _, at := range c.columns {
			dst = append(dst, row[at])
		}
	}
	return dst
}

// appendSlot appends one slot of a flight, whose action is not known yet.
func (w *window) appendSlot(c *featureColumns, rows *token.Rows, s *slot.Snapshot) {
	w.UserCounts = append(w.UserCounts, len(s.Users))
	w.AircraftRows = c.aircraft.append(w.AircraftRows, rows.Aircraft)
	w.Pairs = c.user.append(w.Pairs, rows.Pairs)
	w.Return = c.returns.append(w.Return, rows.Return)
	w.Omega = c.omega.append(w.Omega, rows.State)
	w.Action = append(w.Action, make([]float32, aircraftActionFeatures*w.AircraftCount)...)
}
