package model

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// randomNet keeps activations of order one through any depth.
func randomNet(t testing.TB, a Arch, seed uint64) (*Net, []float32) {
	r := rand.New(rand.NewPCG(seed, 0))
	var p []float32
	for _, t := range a.Tensors() {
		for range t.Size() {
			x := r.NormFloat64()
			switch {
			case t.IsMatrix():
				x /= math.Sqrt(float64(t.Rows))
			case strings.HasSuffix(t.Name, "g"): // gains of norms
				x = 1 + 0.2*x
			default:
				x *= 0.2
			}
			p = append(p, float32(x))
		}
	}
	n, err := NewNet(a, p)
	if err != nil {
		t.Fatal(err)
	}
	return n, p
}

func randomRow(r *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	return x
}

func randomInputs(r *rand.Rand, m, u int) *Inputs {
	return &Inputs{
		NumAircraft: m, NumUsers: u, Aircraft: randomRow(r, m*AircraftFeatures), Pairs: randomRow(r, m*u*PairFeatures),
		State: randomRow(r, StateFeatures), Return: randomRow(r, ReturnFeatures), Action: randomRow(r, ActionFeatures),
	}
}

// flatten lists a step's outputs.
func flatten(o *Outputs) []float32 {
	return append(append(append([]float32(nil), o.Move...), o.Choice...), o.FrontPosition)
}

// TestStepEqualsTheWholeEpisode holds the rolling cache exact: 60 slots, one
// by one, against every token in view under the sliding mask in float64.
// Fleet and users change from slot to slot.
func TestStepEqualsTheWholeEpisode(t *testing.T) {
	const slots, tolerance = 60, 1e-5
	for _, a := range []Arch{
		{Width: 16, PairWidth: 8, Layers: 2, Heads: 2, Context: 4},
		{Width: 24, PairWidth: 12, Layers: 3, Heads: 3, Context: 20},
		{Width: 8, PairWidth: 4, Layers: 1, Heads: 1, Context: 1},
		{Width: 40, PairWidth: 20, Layers: 2, Heads: 1, Context: 100},
	} {
		t.Run(fmt.Sprintf("%+v", a), func(t *testing.T) {
			n, p := randomNet(t, a, 1)
			r := rand.New(rand.NewPCG(2, 0))
			var inputs []*Inputs
			for range slots {
				inputs = append(inputs, randomInputs(r, 1+r.IntN(4), r.IntN(7)))
			}
			want := newReference(a, p).episode(inputs)
			cache := n.NewCache()
			var out Outputs
			for slot, in := range inputs {
				n.Step(in, cache, &out)
				got := flatten(&out)
				if len(got) != len(want[slot]) {
					t.Fatalf("slot %d: %d outputs, want %d", slot, len(got), len(want[slot]))
				}
				for i := range got {
					if d := math.Abs(float64(got[i]) - want[slot][i]); !(d < tolerance) {
						t.Fatalf("slot %d output %d: %v, want %v", slot, i, got[i], want[slot][i])
					}
				}
			}
		})
	}
}

// TestPermutations permutes users and aircraft within every slot of a flight:
// the outputs follow, the price stays.
func TestPermutations(t *testing.T) {
	const M, U, tolerance = 4, 6, 1e-5
	for _, c := range []struct {
		name            string
		aircraft, users []int // which of the original is at each position
	}{
		{"users", []int{0, 1, 2, 3}, []int{4, 2, 0, 5, 1, 3}},
		{"aircraft", []int{2, 0, 3, 1}, []int{0, 1, 2, 3, 4, 5}},
		{"both", []int{3, 2, 1, 0}, []int{5, 4, 3, 2, 1, 0}},
	} {
		t.Run(c.name, func(t *testing.T) {
			n, _ := randomNet(t, Arch{Width: 32, PairWidth: 16, Layers: 2, Heads: 4, Context: 5}, 3)
			r := rand.New(rand.NewPCG(4, 0))
			straight, permuted := n.NewCache(), n.NewCache()
			var x, y Outputs
			near := func(slot int, a, b float32) {
				t.Helper()
				if d := math.Abs(float64(a - b)); !(d < tolerance) {
					t.Fatalf("slot %d: %v became %v", slot, a, b)
				}
			}
			for slot := range 12 {
				in := randomInputs(r, M, U)
				other := *in
				other.Aircraft, other.Pairs = nil, nil
				for _, m := range c.aircraft {
					other.Aircraft = append(other.Aircraft, in.Aircraft[m*AircraftFeatures:][:AircraftFeatures]...)
					for _, u := range c.users {
						other.Pairs = append(other.Pairs, in.Pairs[(m*U+u)*PairFeatures:][:PairFeatures]...)
					}
				}
				n.Step(in, straight, &x)
				n.Step(&other, permuted, &y)
				near(slot, x.FrontPosition, y.FrontPosition)
				for i, m := range c.aircraft {
					for k := range 2 {
						near(slot, x.Move[2*m+k], y.Move[2*i+k])
					}
					for j, u := range c.users {
						for k := range ChoiceOutputs {
							near(slot, x.Choice[(m*U+u)*ChoiceOutputs+k], y.Choice[(i*U+j)*ChoiceOutputs+k])
						}
					}
				}
			}
		})
	}
}

func TestResetStartsAnotherMission(t *testing.T) {
	n, _ := randomNet(t, Arch{Width: 16, PairWidth: 8, Layers: 2, Heads: 2, Context: 3}, 5)
	r := rand.New(rand.NewPCG(6, 0))
	used, fresh := n.NewCache(), n.NewCache()
	var x, y Outputs
	for range 7 {
		n.Step(randomInputs(r, 2, 3), used, &x)
	}
	used.Reset()
	for slot := range 7 {
		in := randomInputs(r, 2, 3)
		n.Step(in, used, &x)
		n.Step(in, fresh, &y)
		if fmt.Sprint(flatten(&x)) != fmt.Sprint(flatten(&y)) || used.Slots() != slot+1 {
			t.Fatalf("slot %d after a reset differs from a new mission's", slot)
		}
	}
}

func TestSteadyStepDoesNotAllocate(t *testing.T) {
	n, _ := randomNet(t, Arch{Width: 64, PairWidth: 32, Layers: 3, Heads: 4, Context: 20}, 7)
	r := rand.New(rand.NewPCG(8, 0))
	largest, smaller, none := randomInputs(r, 3, 10), randomInputs(r, 2, 4), randomInputs(r, 1, 0)
	cache := n.NewCache()
	var out Outputs
	n.Step(largest, cache, &out)
	n.Step(largest, cache, &out)
	if count := testing.AllocsPerRun(50, func() {
		n.Step(largest, cache, &out)
		n.Step(smaller, cache, &out)
		n.Step(none, cache, &out)
	}); count != 0 {
		t.Errorf("%v allocations in three steps", count)
	}
}

func TestNewNetRefuses(t *testing.T) {
	if _, err := NewNet(Arch{Width: 16, PairWidth: 8, Layers: 1, Heads: 3, Context: 4}, nil); err == nil {
		t.Error("a width that is no multiple of the heads was accepted")
	}
	if _, err := NewNet(Arch{Width: 16, PairWidth: 8, Layers: 1, Heads: 2, Context: 4}, make([]float32, 5)); err == nil {
		t.Error("five parameters were accepted")
	}
}

func BenchmarkStep(b *testing.B) {
	for _, a := range []Arch{
		{Width: 128, PairWidth: 64, Layers: 3, Heads: 4, Context: 20},
		{Width: 256, PairWidth: 64, Layers: 3, Heads: 4, Context: 20}, // the paper's size
	} {
		b.Run(fmt.Sprintf("width %d", a.Width), func(b *testing.B) {
			n, _ := randomNet(b, a, 1)
			in := randomInputs(rand.New(rand.NewPCG(9, 0)), 2, 6)
			cache := n.NewCache()
			var out Outputs
			for range a.Context { // a full cache
				n.Step(in, cache, &out)
			}
			b.ReportAllocs()
			for b.Loop() {
				n.Step(in, cache, &out)
			}
		})
	}
}

// What reads no choice is given the rest, to the last bit, and a pair then takes little more
// memory than its hidden row: 4,096 users of eight aircraft are 32,768 pairs.
func TestSkipChoice(t *testing.T) {
	a := Arch{Width: 64, PairWidth: 16, Layers: 2, Heads: 4, Context: 5}
	n, _ := randomNet(t, a, 5)
	r := rand.New(rand.NewPCG(6, 0))
	whole, part := n.NewCache(), n.NewCache()
	var x Outputs
	y := Outputs{SkipChoice: true}
	for slot := range 4 {
		in := randomInputs(r, 2, 3)
		n.Step(in, whole, &x)
		n.Step(in, part, &y)
		if y.FrontPosition != x.FrontPosition || !slices.Equal(y.Move, x.Move) || len(y.Choice) != 0 || len(x.Choice) != 2*3*ChoiceOutputs {
			t.Errorf("slot %d: %+v without the choice, %+v with it", slot, y, x)
		}
	}
	const M, few, many = 2, 100, 300
	n.Step(randomInputs(r, M, few), part, &y)
	used := part.arena.used
	n.Step(randomInputs(r, M, many), part, &y)
	if each := float64(part.arena.used-used) / (M * (many - few)); each > float64(a.PairWidth+a.Heads)+1 {
		t.Errorf("a pair takes %.1f numbers, its row has %d", each, a.PairWidth)
	}
}
