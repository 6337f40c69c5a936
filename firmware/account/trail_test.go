package account

import (
	"testing"

	"prefdt/firmware/energy"
	"prefdt/firmware/fleet"
	"prefdt/inference/goal"
)

// Where much is computed in every slot, each window is too inexact to show alone that flying came to take more, and moves what is
// believed a little, by which the next is measured: together they show it. Each alone did after 29 and 36 slots.
func TestChangeOverSeveralWindows(t *testing.T) {
	const slots, within, flightJ, edgeJ, factor = 60, 15, 135.0, 150.0, 1.45
	for _, shockSlot := range []int{4, 5} {
		a := newAccount()
		a.objective = goal.New(a.Scales, &a.Physics, slots, 1)
		a.aircraft = make([]AircraftAccount, 1)
		drawnJ, known := 0.0, slots
		for n := range slots {
			multiplier := 1.0
			if n >= shockSlot {
				multiplier = factor
			}
			drawnJ += multiplier*flightJ + 0.9*edgeJ // not all that is decided is computed
			atS, modelJ := float64(n+1), flightJ*float64(n+1)
			views := []fleet.View{{Number: 1, InAir: true, Placed: true, Source: energy.Consumed, ModelJ: modelJ,
				Mark: energy.Mark{ReadJ: drawnJ, ReadModelJ: modelJ, ReadS: atS, ReceivedS: atS}}}
			a.edges = append(a.edges[max(len(a.edges)-edgeSlots, 0):],
				&slotEdge{endS: atS, aircraftEdgeJ: []float64{edgeJ}, offerShare: []float64{0}})
			x := a.measure(views)
			a.advanceWindows(views)
			a.objective.Settle(goal.Settlement{EnergyJ: multiplier*flightJ + edgeJ, EdgeJ: edgeJ, Flying: 1, Measured: &x})
			switch got := a.objective.PropulsionMultiplier(); {
			case n < shockSlot && got > 1.15:
				t.Errorf("%.2f in slot %d, before the change", got, n)
			case got > 1+0.6*(factor-1):
				known = min(known, n)
			}
		}
		if known > shockSlot+within {
			t.Errorf("in slot %d: known %d slots late", shockSlot, known-shockSlot)
		}
	}
}

// The first window after a gap begins at a reading that is exact, if one comes soon: one that is not costs more than its flight.
func TestWindowBeginsAtAnExactReading(t *testing.T) {
	for _, tt := range []struct{ exactS, fromS float64 }{{3, 3}, {6, 1}} {
		a := newAccount()
		a.objective = goal.New(a.Scales, &a.Physics, 60, 1)
		a.aircraft = make([]AircraftAccount, 1)
		for n := range 8 {
			atS := float64(n + 1)
			mark := energy.Mark{ReadJ: 200 * atS, ReadModelJ: 135 * atS, ReadS: atS, ReceivedS: atS, Gaps: 1}
			if atS < tt.exactS {
				mark.ResolutionJ = 100
			}
			a.advanceWindows([]fleet.View{{Number: 1, InAir: true, Placed: true, Source: energy.Consumed, ModelJ: 135 * atS, Mark: mark}})
		}
		if from := a.aircraft[0].window.from.ReceivedS; from != tt.fromS {
			t.Errorf("exact from %v s on: the window begins at %v s, want %v", tt.exactS, from, tt.fromS)
		}
	}
}

// A way on which what flying costs came to be known anew is no dearer way: the multiplier has that already.
func TestWayOfAnotherMultiplier(t *testing.T) {
	for _, tt := range []struct {
		from, to float64
		count    int
	}{{1.5, 1.5, 1}, {1.45, 1.5, 1}, {1.1, 1.5, 0}, {1.5, 1.1, 0}, {0, 1.5, 1}} {
		var taken Taken
		(&Way{FromJ: 1000, ExpectedJ: 10e3, Multiplier: tt.from}).ends(&taken, 13e3, tt.to)
		if taken.Count != tt.count {
			t.Errorf("from %v to %v: %+v", tt.from, tt.to, taken)
		}
	}
}
