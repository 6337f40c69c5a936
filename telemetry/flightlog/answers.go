package flightlog

import (
	"fmt"
	"slices"
)

// Answers has the commands that were answered before each slot's settlement, in the order
// in which they were handled. A record has no times of them: one that was applied stands
// where a status first names it, or at the slot from which it was in force; one that was
// refused after the one before.
func (f *Flight) Answers() [][]Command {
	list := make([][]Command, len(f.Slots))
	if len(list) == 0 {
		return list
	}
	last := len(list) - 1
	at := make([]int, len(f.Commands))
	for k, c := range f.Commands {
		at[k] = -1 // after the one before
		if !c.Ack.Accepted {
			continue
		}
		at[k] = slices.IndexFunc(f.Slots, func(x Slot) bool {
			named := x.Status != nil && x.Status.LastCommand != nil && x.Status.LastCommand.ID == c.ID
			return named || x.Slot >= *c.Ack.EffectiveSlot
		})
		if at[k] < 0 {
			at[k] = last // after the last settlement
		}
	}
	for k, latest := len(at)-1, last; k >= 0; k-- { // none is later than one that came after it
		at[k] = min(at[k], latest)
		if at[k] >= 0 {
			latest = at[k]
		}
	}
	slot := 0
	for k, c := range f.Commands {
		slot = max(slot, at[k])
		list[slot] = append(list[slot], c)
	}
	return list
}

// Answer is what became of the command, in words.
func (c Command) Answer() string {
	what := c.What
	if what == "" {
		what = "a command"
	}
	origin := "unsigned"
	if c.Ack.Key != "" {
		origin = "key " + c.Ack.Key
	}
	if !c.Ack.Accepted {
		return fmt.Sprintf("%s refused: %s (id %s, %s)", what, c.Ack.Reason, c.ID, origin)
	}
	return fmt.Sprintf("%s accepted from slot %d (id %s, %s)", what, *c.Ack.EffectiveSlot, c.ID, origin)
}
