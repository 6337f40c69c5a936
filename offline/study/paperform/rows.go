package paperform

import (
	"fmt"
	"math"
	"slices"

	"prefdt/inference/slot"
	"prefdt/inference/token"
	"prefdt/offline/train"
)

// The features that the paper names, by their names in package token. Standing
// at an aircraft, a user's bearing is its unit vector.
var (
	craftNames  = []string{"position east", "position north", "residual energy", "served", "speed"}
	userNames   = []string{"distance", "bearing east", "bearing north", "bits", "cycles per bit", "deadline", "queue", "gain", "T_loc", "T_off", "T_loc/deadline", "T_off/T_loc"}
	returnNames = []string{"delay to go", "energy to go"}
)

const (
	craftFeatures  = 5  // eq. (tokuav)
	userFeatures   = 12 // eq. (tokusr) with psi, eq. (physfeat)
	returnFeatures = 2  // g^ weighted by omega, eq. (inject)
	craftActions   = 4  // of one aircraft: length and heading of its move, users served, mean rho
)

// columns says where in token's rows the paper's features are.
type columns struct {
	craft, user, ret                  []int
	craftWidth, userWidth, stateWidth int
	retWidth                          int
	omega                             int // in the state row
}

func findColumns() (columns, error) {
	layout := token.Features()
	c := columns{craftWidth: len(layout.Aircraft), userWidth: len(layout.Pair), stateWidth: len(layout.State), retWidth: len(layout.Return)}
	c.omega = slices.Index(layout.State, "omega delay")
	if c.omega < 0 {
		return c, fmt.Errorf("paper form: the state row has no %q", "omega delay")
	}
	for _, r := range []struct {
		into        *[]int
		names, have []string
	}{{&c.craft, craftNames, layout.Aircraft}, {&c.user, userNames, layout.Pair}, {&c.ret, returnNames, layout.Return}} {
		for _, name := range r.names {
			at := slices.Index(r.have, name)
			if at < 0 {
				return c, fmt.Errorf("paper form: the rows have no feature %q any more", name)
			}
			*r.into = append(*r.into, at)
		}
	}
	return c, nil
}

// Standard returns a corpus's statistics with the two rows that the paper does
// not standardise: the return-to-go, "a pure ratio", and the preference.
func Standard(s token.Standard) token.Standard {
	identity := token.Identity()
	s.Return, s.State = identity.Return, identity.State
	return s
}

// window is a run of slots as the network reads it, and in training what the
// teacher did. Shapes: S slots, M aircraft, N users over all slots.
type window struct {
	Aircraft int // M
	First    int // slot of the mission
	Users    []int

	Craft  []float32 // (S*M, craftFeatures)
	Pairs  []float32 // (M*N, userFeatures), in each slot aircraft by aircraft
	Return []float32 // (S, returnFeatures)
	Omega  []float32 // (S, 1)
	Action []float32 // (S, craftActions*M), of the slot itself

	Flight  []float32 // (S, 2M) length and heading, each on [-1, 1]
	Server  []int     // (N)
	Offload []float32 // (N) on [-1, 1]
}

func (w *window) slots() int { return len(w.Users) }

// cut returns the slots from first to end.
func (w *window) cut(first, end int) window {
	m := w.Aircraft
	before, within := 0, 0
	for s, n := range w.Users[:end] {
		if s < first {
			before += n
		} else {
			within += n
		}
	}
	c := window{
		Aircraft: m, First: w.First + first, Users: w.Users[first:end],
		Craft:  w.Craft[first*m*craftFeatures : end*m*craftFeatures],
		Pairs:  w.Pairs[before*m*userFeatures : (before+within)*m*userFeatures],
		Return: w.Return[first*returnFeatures : end*returnFeatures],
		Omega:  w.Omega[first:end],
		Action: w.Action[first*m*craftActions : end*m*craftActions],
	}
	if w.Flight != nil {
		c.Flight = w.Flight[first*2*m : end*2*m]
		c.Server, c.Offload = w.Server[before:before+within], w.Offload[before:before+within]
	}
	return c
}

// read takes in a corpus's episode. Its fleet must keep its size.
func (w *window) read(c *columns, ep *train.Episode, aircraft int) error {
	w.Aircraft, w.First = aircraft, 0
	w.Users = append(w.Users[:0], ep.Users...)
	w.Craft = pick(w.Craft[:0], ep.Aircraft, c.craftWidth, c.craft)
	w.Pairs = pick(w.Pairs[:0], ep.Pairs, c.userWidth, c.user)
	w.Return = pick(w.Return[:0], ep.Return, c.retWidth, c.ret)
	w.Omega = pick(w.Omega[:0], ep.State, c.stateWidth, []int{c.omega})
	w.Server = append(w.Server[:0], ep.Target.Server...)
	w.Offload, w.Flight, w.Action = w.Offload[:0], w.Flight[:0], w.Action[:0]
	for i, rho := range ep.Target.Offload {
		if ep.Target.Server[i] == 0 {
			rho = 0
		}
		w.Offload = append(w.Offload, 2*rho-1)
	}
	user := 0
	for s, n := range ep.Users {
		if ep.Craft[s] != aircraft {
			return fmt.Errorf("paper form: slot %d has %d aircraft, this network is bound to %d", s, ep.Craft[s], aircraft)
		}
		moves := ep.Target.Move[2*aircraft*s : 2*aircraft*(s+1)]
		for m := range aircraft {
			length, heading := polar(float64(moves[2*m]/ep.Target.MoveScale), float64(moves[2*m+1]/ep.Target.MoveScale))
			w.Flight = append(w.Flight, length, heading)
		}
		w.Action = appendAction(w.Action, w.Flight[2*aircraft*s:], ep.Target.Server[user:user+n], func(u int) float64 { return float64(ep.Target.Offload[user+u]) })
		user += n
	}
	return nil
}

// pick appends some columns of rows.
func pick(dst, rows []float32, width int, columns []int) []float32 {
	for first := 0; first+width <= len(rows); first += width {
		for _, c := range columns {
			dst = append(dst, rows[first+c])
		}
	}
	return dst
}

// polar maps a move in units of D_max to the paper's flight action: length
// [0, 1] and heading [0, 2 pi), each rescaled to [-1, 1].
func polar(east, north float64) (length, heading float32) {
	phi := math.Atan2(north, east)
	if phi < 0 {
		phi += 2 * math.Pi
	}
	return float32(2*min(math.Hypot(east, north), 1) - 1), float32(phi/math.Pi - 1)
}

// appendAction appends the action token's row: each aircraft's flight action,
// how many users it serves, and how much of their tasks.
func appendAction(dst, flight []float32, servers []int, offload func(u int) float64) []float32 {
	for m := range len(flight) / 2 {
		served, rho := 0.0, 0.0
		for u, server := range servers {
			if server == m+1 {
				served++
				rho += offload(u)
			}
		}
		dst = append(dst, flight[2*m], flight[2*m+1], float32(served/4), float32(rho/max(served, 1)))
	}
	return dst
}

// appendSlot takes in one slot of a flight, whose action is not known yet.
func (w *window) appendSlot(c *columns, rows *token.Rows, s *slot.Snapshot) {
	w.Users = append(w.Users, len(s.Users))
	w.Craft = pick(w.Craft, rows.Aircraft, c.craftWidth, c.craft)
	w.Pairs = pick(w.Pairs, rows.Pairs, c.userWidth, c.user)
	w.Return = pick(w.Return, rows.Return, c.retWidth, c.ret)
	w.Omega = append(w.Omega, rows.State[c.omega])
	for range craftActions * w.Aircraft {
		w.Action = append(w.Action, 0)
	}
}

// drop forgets the first slot.
func (w *window) drop() {
	c := w.cut(1, w.slots())
	w.First = c.First
	w.Users = append(w.Users[:0], c.Users...)
	w.Craft = append(w.Craft[:0], c.Craft...)
	w.Pairs = append(w.Pairs[:0], c.Pairs...)
	w.Return = append(w.Return[:0], c.Return...)
	w.Omega = append(w.Omega[:0], c.Omega...)
	w.Action = append(w.Action[:0], c.Action...)
}
