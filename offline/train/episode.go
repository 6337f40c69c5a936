package train

import "prefdt/inference/model"

// Episode is one flight: the rows the network reads, slot after slot, and what
// it should answer. Fleets and user sets may change size between slots.
type Episode struct {
	Slots int
	// Craft and Users give each slot's M and U; its rows follow those of the
	// slot before in every slice below.
	Craft, Users []int

	Aircraft []float32 // (sum M, AircraftFeatures)
	Pairs    []float32 // (sum M*U, PairFeatures), aircraft by aircraft
	State    []float32 // (Slots, StateFeatures)
	Return   []float32 // (Slots, ReturnFeatures)
	Action   []float32 // (Slots, ActionFeatures), of the slot before

	Target Target
}

// Target is what the teacher did.
type Target struct {
	Weight   []float32 // (Slots) weight of the slot's loss; 0 makes it context only
	Server   []int     // (sum U) aircraft counted from 1 in the slot's order, 0 local
	Offload  []float32 // (sum U)
	Deadline []float32 // (sum U) 1 where the offload just meets the deadline, 0 at the balance
	Move     []float32 // (sum M, 2) displacement over v*, east and north
	Price    []float32 // (Slots) y on the price axis

	MoveScale float32 // D_max over v*: what a move of 1 by the network is in units of v*
}

// Reset empties an episode for reuse.
func (e *Episode) Reset() {
	e.Slots = 0
	e.Craft, e.Users = e.Craft[:0], e.Users[:0]
	e.Aircraft, e.Pairs, e.State, e.Return, e.Action = e.Aircraft[:0], e.Pairs[:0], e.State[:0], e.Return[:0], e.Action[:0]
	t := &e.Target
	t.Weight, t.Server, t.Offload, t.Deadline, t.Move, t.Price = t.Weight[:0], t.Server[:0], t.Offload[:0], t.Deadline[:0], t.Move[:0], t.Price[:0]
}

// tokens returns the length of the stream.
func (e *Episode) tokens() int { return model.TokensPerSlot * e.Slots }
