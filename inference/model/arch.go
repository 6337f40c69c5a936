// Package model is the policy network: its sizes, its weights and the step it
// computes.
//
// Inputs: the rows of a slot, as package token fills them, and the cache of the
// slots before. Outputs: moves, choices and the price's front position, which
// package inference turns into a decision. The step in flight (Net), the exported
// graph (Graph) and package train, which has its own forward pass over a whole
// flight, share one definition of the weights (Weights).
//
// # One step
//
// Inputs of slot t, standardised: aircraft (M, FA), pairs (M, U, FP) one row
// for each aircraft and user with a task, state (FS), ret (FR) the return
// token, action (FX) the token of the slot before. d is Width, p PairWidth,
// and gelu its tanh form. Every x·W is a row times a matrix (in, out).
//
//	A0 = gelu(aircraft·aircraft.w + aircraft.b)                      (M, d)
//	Z  = gelu(pairs·pair.w + pair.b)                                 (M, U, p)
//	P  = attention(q = A0·pool.q, k = Z·pool.k, v = Z·pool.v) over U   (M, d) eq. (attn), zero without users
//	A1 = A0 + P·pool.o + pool.ob
//	A2 = A1 + gelu(norm(A1; craft.ng, craft.nb)·craft.w1 + craft.b1)·craft.w2 + craft.b2
//	F  = attention(q = fleet.q, k = A2·fleet.k, v = A2·fleet.v) over M  (d)
//	s  = F·fleet.o + state·state.w + state.b                         state token
//	g  = ret·return.w + return.b                                     return token
//	a  = action·action.w + action.b                                  action token of t-1
//
// The stream is a(t-1), g(t), s(t), slot after slot: the returns-first order
// (g, s, a) cut so that a step's three tokens are known together. L pre-norm
// blocks follow, in each of which a token attends to itself and to every
// earlier token of the last Context slots, its own slot included:
//
//	x = x + attention(norm(x; n1g, n1b)·qkv.w + qkv.b)·proj.w + proj.b
//	x = x + gelu(norm(x; n2g, n2b)·fc.w + fc.b)·out.w + out.b
//
// and e = norm(s row of x; final.g, final.b). Then, per aircraft and pair:
//
//	H0 = gelu(e·craft.e + A2·craft.a + craft.hb)                     (M, d)
//	H  = H0 + mean over M of H0 · craft.mix                          (M, d)
//	move   = tanh(H·flight.w + flight.b)                             (M, 2) east, north
//	C0 = gelu(e·choice.e + H·choice.a + Z·choice.p + choice.b)       (M, U, p)
//	C  = gelu(C0·choice.w + choice.wb)                               (M, U, p)
//	choice = C·choice.o + choice.ob                                  (M, U, 3) association logit, offload logit, deadline-class logit
//	price  = gelu(e·price.w + price.b)·price.o + price.ob            (1) y on the price curve
//
// A user's association is the softmax over its M logits and a local logit of
// zero. No shape depends on M or U, so one set of tensors serves any fleet.
// Users and aircraft enter only through sums, means and attention: permuting
// either permutes the outputs alike and leaves s, e and the price unchanged.
package model

import "fmt"

// Sizes of the feature rows, fixed by package token.
const (
	AircraftFeatures = 15
	PairFeatures     = 18
	StateFeatures    = 6
	ReturnFeatures   = 25
	ActionFeatures   = 10
	TokensPerSlot    = 3
	ChoiceOutputs    = 3 // outputs per pair
)

// NormEpsilon is added to the variance in every layer norm.
const NormEpsilon = 1e-5

// Arch sizes a network.
type Arch struct {
	Width     int `json:"width" yaml:"width"`           // d
	PairWidth int `json:"pair_width" yaml:"pair_width"` // p
	Layers    int `json:"layers" yaml:"layers"`
	Heads     int `json:"heads" yaml:"heads"`
	Context   int `json:"context" yaml:"context"` // K_ctx, slots
}

// Check returns what is wrong with an architecture.
func (a Arch) Check() error {
	for _, r := range []struct {
		name      string
		x, lo, hi int
	}{
		{"width", a.Width, 8, 1024}, {"pair_width", a.PairWidth, 4, 1024}, {"layers", a.Layers, 1, 24},
		{"heads", a.Heads, 1, 64}, {"context", a.Context, 1, 256},
	} {
		if r.x < r.lo || r.x > r.hi {
			return fmt.Errorf("architecture %s is %d, want %d to %d", r.name, r.x, r.lo, r.hi)
		}
	}
	if a.Width%a.Heads != 0 {
		return fmt.Errorf("architecture width %d is not a multiple of its %d heads", a.Width, a.Heads)
	}
	return nil
}

// PastTokens returns the number of earlier tokens in the cache of each layer.
func (a Arch) PastTokens() int { return TokensPerSlot * (a.Context - 1) }

// BlockTensor names a tensor of transformer block l.
func BlockTensor(l int, name string) string { return fmt.Sprintf("block%d.%s", l, name) }

// Parameters counts the values of all tensors.
func (a Arch) Parameters() int {
	n := 0
	for _, t := range a.Tensors() {
		n += t.Size()
	}
	return n
}
