package prefdttrain

import (
	"prefdt/inference/kernel"
	"prefdt/offline/nn"
)

// Losses are the terms of the mixed imitation loss, Sec. IV-B, and the part of the users whose association is the corpus's.
type Losses struct{ Association, Offload, Flight, Right float64 }

// LossNames are those of List.
var LossNames = []string{"loss", "choice", "offload", "flight", "right"}

// Total is the sum of the terms that is minimised, equally weighted.
func (l Losses) Total() float64 { return l.Association + l.Offload + l.Flight }

// List returns the total and all terms, times a factor.
func (l Losses) List(k float64) []float64 {
	return []float64{k * l.Total(), k * l.Association, k * l.Offload, k * l.Flight, k * l.Right}
}

// Add adds the terms of other slots and users.
func (l *Losses) Add(o Losses) {
	l.Association += o.Association
	l.Offload += o.Offload
	l.Flight += o.Flight
	l.Right += o.Right
}

const maxAircraft = 64

// AddUser adds a user's cross-entropy of the association, whose logits choice are, and the squared error of its offloaded
// fraction, each weighed by k. Their gradients by the outputs, times scale, are in dchoice and returned.
func AddUser[T kernel.Float](l *Losses, choice, dchoice []T, server int, offload, wantOffload, k, scale float64) (doffload T) {
	var room [1 + maxAircraft]float64
	logits := room[:len(choice)]
	for i, v := range choice {
		logits[i] = float64(v)
	}
	loss, right := nn.CrossEntropy(logits, server) // and the gradient in their place
	l.Association += k * loss
	if right {
		l.Right += k
	}
	for i, g := range logits {
		dchoice[i] = T(scale * k * g)
	}
	loss, grad := nn.SquaredError(offload, wantOffload, k)
	l.Offload += loss
	return T(scale * grad)
}
