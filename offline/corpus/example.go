package corpus

// Example is one flight as training reads it: the rows of the network's input,
// slot after slot, and the labels of its outputs. Fleets and user sets may
// change size between slots.
type Example struct {
	Slots int
	// AircraftPerSlot and UsersPerSlot are each slot's M and U; its rows follow
	// those of the slot before in every slice below.
	AircraftPerSlot, UsersPerSlot []int

	Aircraft []float32 // (sum M, AircraftFeatures)
	Pairs    []float32 // (sum M*U, PairFeatures), aircraft by aircraft
	State    []float32 // (Slots, StateFeatures)
	Return   []float32 // (Slots, ReturnFeatures)
	Action   []float32 // (Slots, ActionFeatures), of the slot before

	Labels Labels
}

// Labels are the teacher's decisions.
type Labels struct {
	SlotWeight    []float32 // (Slots) weight of the slot's loss; 0 makes it context only
	Server        []int     // (sum U) aircraft counted from 1 in the slot's order, 0 local
	Offload       []float32 // (sum U)
	MeetsDeadline []float32 // (sum U) 1 where the offload just meets the deadline, 0 at the balance
	Move          []float32 // (sum M, 2) displacement over v*, east and north
	PricePosition []float32 // (Slots) y on the price curve

	MoveScale float32 // D_max over v*: what a move of 1 by the network is in units of v*
}

// Reset empties an example for reuse.
func (e *Example) Reset() {
	e.Slots = 0
	e.AircraftPerSlot, e.UsersPerSlot = e.AircraftPerSlot[:0], e.UsersPerSlot[:0]
	e.Aircraft, e.Pairs, e.State, e.Return, e.Action = e.Aircraft[:0], e.Pairs[:0], e.State[:0], e.Return[:0], e.Action[:0]
	t := &e.Labels
	t.SlotWeight, t.Server, t.Offload, t.MeetsDeadline, t.Move, t.PricePosition = t.SlotWeight[:0], t.Server[:0], t.Offload[:0],
		t.MeetsDeadline[:0], t.Move[:0], t.PricePosition[:0]
}
