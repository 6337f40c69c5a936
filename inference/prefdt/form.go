// Package prefdt is PrefDT in the form in which it was published (Sec. IV): the
// aircraft stand one after the other in the state token, so their number is fixed; a
// slot's number has a learned embedding, so the length of a mission is bounded; the
// last Context slots are computed anew in every slot, in the order (g, s, a); and the
// heads answer with the whole joint action. Package model is the shipped form.
//
// Inputs: a slot's snapshot and the mission's objective. Outputs: the slot's decision.
// Package inference calls it for a checkpoint of this form, under the decoder "heads";
// offline/prefdttrain trains it on rows of the same Builder. docs/departures.md
// lists where it departs from the text and what the text leaves open.
//
// # One step
//
// M aircraft, N users with a task, FA and FU features; d is Width, p PairWidth. Every
// x·W is a row times a matrix (in, out), gelu its tanh form.
//
//	P  = attention(q = A·pool.q, k = Z·pool.k, v = Z·pool.v) over N   (M, d) eq. (attn), zero without users
//	s* = [A]·state.z + [P·pool.o + pool.ob]·state.p + ω·state.w + state.b     eq. (stok), [ ] side by side
//	g* = (g^ ⊙ ω)·return.w + return.b                                 eq. (inject)
//	a* = action·action.x + ω·action.w + action.b                      of the slot before
//
// with A (M, FA), Z (N, M, FU). Each token has its slot's row of time.e added. The stream
// of the window is g*, s*, a*, slot after slot; L pre-norm blocks follow, in which a
// token attends to itself and to all before it in the window, and e is the last block's
// s* row after a final norm. Then
//
//	motion  = tanh(gelu(e·flight.h + flight.hb)·flight.w + flight.b)          (M, 2) length and heading on [-1, 1]
//	choice  = gelu(e·choice.e + [Z']·choice.z + choice.b)·choice.o + choice.ob  (N, M+1), 0 is local
//	offload = tanh(gelu(e·rho.e + [Z']·rho.z + rho.b)·rho.o + rho.ob)           (N, 1) on [-1, 1]
//
// with Z' the frame of a user's nearest aircraft, in that aircraft's columns; in the others' it is 0.
package prefdt

import (
	"fmt"
	"slices"

	"prefdt/inference/kernel"
	"prefdt/inference/model"
)

// Form sizes a network of the published form and names what its user tokens hold.
type Form struct {
	model.Arch   `yaml:",inline"`
	Aircraft     int      `json:"aircraft" yaml:"aircraft"` // M, of the state token
	Slots        int      `json:"slots" yaml:"slots"`       // T, of the embeddings: the longest mission
	UserFeatures []string `json:"user_features" yaml:"user_features"`
}

// Published is the form of the paper, whose width is 256, at a width. A bearing enters it as
// its sine and cosine: docs/departures.md has the difference that makes.
func Published(width int) Form {
	return Form{
		Arch: model.Arch{Width: width, PairWidth: width, Layers: 3, Heads: 4, Context: 20}, Aircraft: 2, Slots: 100,
		UserFeatures: []string{"distance", "bearing east", "bearing north", "bits", "cycles per bit", "deadline", "queue", "gain", "T_loc",
			offloadAtLoad, "T_loc/deadline", ratioAtLoad, nearest},
	}
}

const (
	AircraftFeatures = 5 // eq. (tokuav): position, residual energy, users served, speed
	ReturnFeatures   = 2 // g^ weighted by omega, eq. (inject)
	ActionFeatures   = 4 // of one aircraft: length and heading of its move, users served, their mean offload
)

// Names of user features. "At load" is at the load of the slot itself, see Builder: networks of
// before were trained on T_off at the load of the slot before, and are refused by this name.
const (
	distance      = "distance"
	nearest       = "nearest" // 1 in the frame of the aircraft that is nearest, 0 in others
	offloadAtLoad = "T_off at load"
	ratioAtLoad   = "T_off/T_loc at load"
)

// PhysicsFeatures are those of eq. (physfeat).
var PhysicsFeatures = []string{"T_loc", offloadAtLoad, "T_loc/deadline", ratioAtLoad}

// userFeatures are the features that a user token may hold, in one aircraft's frame: those
// of eq. (tokusr) with eq. (physfeat), two of them in another form as well, and which aircraft's frame
// it is: eq. (tokusr) has one, the serving aircraft's.
var userFeatures = []string{
	distance, "bearing", "bits", "cycles per bit", "deadline", "queue", "gain", "T_loc", offloadAtLoad, "T_loc/deadline", ratioAtLoad,
	"bearing east", "bearing north", "log " + ratioAtLoad, nearest,
}

// Check returns what is wrong with a form.
func (f *Form) Check() error {
	if err := f.Arch.Check(); err != nil {
		return err
	}
	if f.Context < 2 {
		return fmt.Errorf("the published form has a context of %d slots, want 2 at least: its last action is a token of the slot before",
			f.Context)
	}
	if f.Aircraft < 1 || f.Aircraft > 16 || f.Slots < 1 || f.Slots > 10000 {
		return fmt.Errorf("the published form is for %d aircraft and %d slots, want 1 to 16 and 1 to 10000", f.Aircraft, f.Slots)
	}
	if len(f.UserFeatures) == 0 {
		return fmt.Errorf("the published form has no user features, want some of %q", userFeatures)
	}
	for i, name := range f.UserFeatures {
		if !slices.Contains(userFeatures, name) || slices.Contains(f.UserFeatures[:i], name) {
			return fmt.Errorf("user feature %d is %.64q, want each once of %q", i, name, userFeatures)
		}
	}
	if !slices.Contains(f.UserFeatures, distance) {
		return fmt.Errorf("the published form has no user feature %q, by which the bypass takes the frame of the nearest aircraft",
			distance)
	}
	return nil
}

// Fits returns an error unless a mission of so many aircraft and slots can be flown.
func (f *Form) Fits(aircraft, slots int) error {
	if aircraft != f.Aircraft {
		return fmt.Errorf("the mission has %d aircraft, this network of the published form is bound to %d", aircraft, f.Aircraft)
	}
	if slots > f.Slots {
		return fmt.Errorf("the mission has %d slots, this network of the published form has embeddings for %d", slots, f.Slots)
	}
	return nil
}

// Same reports whether two forms are one.
func (f *Form) Same(g *Form) bool {
	return f.Arch == g.Arch && f.Aircraft == g.Aircraft && f.Slots == g.Slots && slices.Equal(f.UserFeatures, g.UserFeatures)
}

// UserWidth is the number of features of a user's token in every aircraft's frame.
func (f *Form) UserWidth() int { return f.Aircraft * len(f.UserFeatures) }

// PastTokens is the number of tokens before a slot's own three that its window holds.
func (f *Form) PastTokens() int { return model.TokensPerSlot*(f.Context-1) - 1 }

// distanceColumn is the distance's place among a user's features in an aircraft's frame.
func (f *Form) distanceColumn() int { return slices.Index(f.UserFeatures, distance) }

// NearestFrames writes the users' tokens to dst, (N, M, FU) both, with zeros for every frame but
// that of the nearest aircraft: the input of the heads.
func NearestFrames[T kernel.Float](f *Form, dst, users []T) {
	features, column := len(f.UserFeatures), f.distanceColumn()
	clear(dst)
	for width := f.UserWidth(); len(users) > 0; dst, users = dst[width:], users[width:] {
		least := users[column]
		for k := features; k < width; k += features {
			least = min(least, users[k+column])
		}
		for k := 0; k < width; k += features {
			if users[k+column] == least {
				copy(dst[k:k+features], users[k:])
			}
		}
	}
}
