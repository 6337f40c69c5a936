package train

import (
	"math"

	"prefdt/inference/kernel"
	"prefdt/offline/corpus"
	"prefdt/offline/nn"
)

// LossWeights balance the terms of the loss.
type LossWeights struct {
	Association   float64 `json:"choice" yaml:"choice"`   // cross-entropy of the association, per user
	Offload       float64 `json:"offload" yaml:"offload"` // squared error of rho, per offloading user
	DeadlineClass float64 `json:"class" yaml:"class"`     // cross-entropy of balance against deadline, per offloading user
	Move          float64 `json:"move" yaml:"move"`       // squared error of the displacement in units of v*, per aircraft
	Price         float64 `json:"price" yaml:"price"`     // squared error of y, per slot
}

// LossTerms are the means of each term of the loss, and the fraction of users
// whose association is the teacher's.
type LossTerms struct {
	Loss, Association, Offload, DeadlineClass, Move, Price, Accuracy float64
}

// lossNames are those of List in a log.
var lossNames = []string{"loss", "choice", "offload", "class", "move", "price", "right"}

// List returns the terms.
func (t LossTerms) List() []float64 {
	return []float64{t.Loss, t.Association, t.Offload, t.DeadlineClass, t.Move, t.Price, t.Accuracy}
}

// setLoss compares a forward pass with the teacher, eq. (bypass1): squared errors
// of the continuous actions and cross-entropy of the association, each a mean
// over the slots whose weight is not zero. It sets the gradients by the outputs,
// times scale.
func (n *network[T]) setLoss(ex *corpus.Example, scale float64) LossTerms {
	labels, w := &ex.Labels, &n.loss
	dmove, dchoice, dprice := n.tape.ZeroGrad(n.move), n.tape.ZeroGrad(n.choice), n.tape.ZeroGrad(n.price)
	var users, offloaders, aircraft, slots float64
	user := 0
	for s := range ex.Slots {
		weight := float64(labels.SlotWeight[s])
		slots += weight
		aircraft += weight * float64(ex.AircraftPerSlot[s])
		users += weight * float64(ex.UsersPerSlot[s])
		for range ex.UsersPerSlot[s] {
			if labels.Server[user] > 0 {
				offloaders += weight
			}
			user++
		}
	}
	var sum LossTerms
	row, pair := 0, 0 // the slot's first
	user = 0
	for s := range ex.Slots {
		weight := float64(labels.SlotWeight[s])
		fleet, userCount := ex.AircraftPerSlot[s], ex.UsersPerSlot[s]
		if weight != 0 {
			for u := range userCount {
				n.userLoss(&sum, dchoice, labels, user+u, pair+u, userCount, fleet, weight/max(users, 1), weight/max(offloaders, 1), scale)
			}
			ratio := float64(labels.MoveScale)
			for i := 2 * row; i < 2*(row+fleet); i++ {
				loss, grad := nn.SquaredError(float64(n.move.Value.Data[i])*ratio, float64(labels.Move[i]), weight/max(aircraft, 1))
				sum.Move += loss
				dmove.Data[i] = T(scale * w.Move * grad * ratio)
			}
			loss, grad := nn.SquaredError(float64(n.price.Value.Data[s]), float64(labels.PricePosition[s]), weight/max(slots, 1))
			sum.Price += loss
			dprice.Data[s] = T(scale * w.Price * grad)
		}
		row, user, pair = row+fleet, user+userCount, pair+fleet*userCount
	}
	sum.Loss = w.Association*sum.Association + w.Offload*sum.Offload + w.DeadlineClass*sum.DeadlineClass + w.Move*sum.Move +
		w.Price*sum.Price
	return sum
}

// userLoss adds one user's terms; its pairs are rows pair, pair+users, ... of the
// choice, one an aircraft.
func (n *network[T]) userLoss(sum *LossTerms, dchoice kernel.Matrix[T], labels *corpus.Labels, user, pair, users, fleet int, k, kOffload,
	scale float64) {
	server, w := labels.Server[user], &n.loss
	n.logits = append(n.logits[:0], 0) // of computing locally
	for m := range fleet {
		n.logits = append(n.logits, float64(n.choice.Value.Row(pair + m*users)[0]))
	}
	loss, right := nn.CrossEntropy(n.logits, server)
	sum.Association += k * loss
	if right {
		sum.Accuracy += k
	}
	for m := range fleet {
		dchoice.Row(pair + m*users)[0] = T(scale * w.Association * k * n.logits[m+1])
	}
	if server == 0 {
		return
	}
	row, grad := n.choice.Value.Row(pair+(server-1)*users), dchoice.Row(pair+(server-1)*users)
	rho := sigmoid(float64(row[1]))
	loss, drho := nn.SquaredError(rho, float64(labels.Offload[user]), kOffload)
	sum.Offload += loss
	grad[1] = T(scale * w.Offload * drho * rho * (1 - rho))
	z, class := float64(row[2]), float64(labels.MeetsDeadline[user])
	sum.DeadlineClass += kOffload * (max(z, 0) - z*class + math.Log1p(math.Exp(-math.Abs(z))))
	grad[2] = T(scale * w.DeadlineClass * kOffload * (sigmoid(z) - class))
}

func sigmoid(x float64) float64 { return 1 / (1 + math.Exp(-x)) }
