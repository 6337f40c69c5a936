package train

import (
	"math"

	"prefdt/inference/kernel"
)

// LossWeights balance the terms of the loss.
type LossWeights struct {
	Association   float64 `json:"choice" yaml:"choice"`   // cross-entropy of the association, per user
	Offload       float64 `json:"offload" yaml:"offload"` // squared error of rho, per offloading user
	DeadlineClass float64 `json:"class" yaml:"class"`     // cross-entropy of balance against deadline, per offloading user
	Move          float64 `json:"move" yaml:"move"`       // squared error of the displacement in units of v*, per aircraft
	Price         float64 `json:"price" yaml:"price"`     // squared error of y, per slot
}

// DefaultLossWeights are those of the shipped checkpoint.
func DefaultLossWeights() LossWeights {
	return LossWeights{Association: 1, Offload: 3, DeadlineClass: 0.3, Move: 1, Price: 50}
}

// LossTerms are the means of each term of the loss, and the fraction of users
// whose association is the teacher's.
type LossTerms struct {
	Loss, Association, Offload, DeadlineClass, Move, Price, Accuracy float64
}

// Add adds other terms.
func (t *LossTerms) Add(o LossTerms) {
	t.Loss += o.Loss
	t.Association += o.Association
	t.Offload += o.Offload
	t.DeadlineClass += o.DeadlineClass
	t.Move += o.Move
	t.Price += o.Price
	t.Accuracy += o.Accuracy
}

// Scaled returns the terms times k.
func (t LossTerms) Scaled(k float64) LossTerms {
	return LossTerms{t.Loss * k, t.Association * k, t.Offload * k, t.DeadlineClass * k, t.Move * k, t.Price * k, t.Accuracy * k}
}

// outputGrads are the gradients of the loss by the network's outputs.
type outputGrads[T kernel.Float] struct {
	move, choice, price kernel.Matrix[T]
}

// loss compares a forward pass with the teacher, eq. (bypass1): L2 on the
// continuous actions and cross-entropy on the association, each a mean over
// the slots whose weight is not zero; the gradients are times scale.
func (t *tape[T]) loss(w LossWeights, scale float64) (LossTerms, outputGrads[T]) {
	ep := t.example
	g := outputGrads[T]{
		move:   t.Zeros(t.move.Rows, t.move.Cols),
		choice: t.Zeros(t.choice.Rows, t.choice.Cols),
		price:  t.Zeros(t.price.Rows, t.price.Cols),
	}
	var users, offloaders, crafts, slots float64
	at := 0
	for s := range ep.Slots {
		weight := float64(ep.Labels.SlotWeight[s])
		slots += weight
		crafts += weight * float64(ep.AircraftPerSlot[s])
		users += weight * float64(ep.UsersPerSlot[s])
		for range ep.UsersPerSlot[s] {
			if ep.Labels.Server[at] > 0 {
				offloaders += weight
			}
			at++
		}
	}
	var sum LossTerms
	craft, user, pair := 0, 0, 0
	for s := range ep.Slots {
		weight := float64(ep.Labels.SlotWeight[s])
		crew, n := ep.AircraftPerSlot[s], ep.UsersPerSlot[s]
		if weight != 0 {
			for u := range n {
				t.userLoss(&sum, g.choice, w, user+u, pair+u, n, crew, weight/max(users, 1), weight/max(offloaders, 1), scale)
			}
			for i := 2 * craft; i < 2*(craft+crew); i++ {
				ratio := float64(ep.Labels.MoveScale)
				diff := float64(t.move.Data[i])*ratio - float64(ep.Labels.Move[i])
				k := weight / max(crafts, 1)
				sum.Move += k * diff * diff
				g.move.Data[i] = T(scale * w.Move * k * 2 * diff * ratio)
			}
			diff := float64(t.price.Data[s]) - float64(ep.Labels.PricePosition[s])
			k := weight / max(slots, 1)
			sum.Price += k * diff * diff
			g.price.Data[s] = T(scale * w.Price * k * 2 * diff)
		}
		craft, user, pair = craft+crew, user+n, pair+crew*n
	}
	sum.Loss = w.Association*sum.Association + w.Offload*sum.Offload + w.DeadlineClass*sum.DeadlineClass + w.Move*sum.Move + w.Price*sum.Price
	return sum, g
}

// userLoss adds one user's terms; its pairs are rows pair, pair+n, ... of choice.
func (t *tape[T]) userLoss(sum *LossTerms, g kernel.Matrix[T], w LossWeights, user, pair, n, crew int, k, kOffload, scale float64) {
	server := t.example.Labels.Server[user]
	top, best := 0.0, 0 // the local logit
	for m := range crew {
		if v := float64(t.choice.Row(pair + m*n)[0]); v > top {
			top, best = v, m+1
		}
	}
	if best == server {
		sum.Accuracy += k
	}
	total := math.Exp(-top)
	for m := range crew {
		total += math.Exp(float64(t.choice.Row(pair + m*n)[0]) - top)
	}
	chosen := 0.0
	for m := range crew {
		v := float64(t.choice.Row(pair + m*n)[0])
		p := math.Exp(v-top) / total
		if server == m+1 {
			chosen = v
			p--
		}
		g.Row(pair + m*n)[0] = T(scale * w.Association * k * p)
	}
	sum.Association += k * (math.Log(total) + top - chosen)
	if server == 0 {
		return
	}
	row, grad := t.choice.Row(pair+(server-1)*n), g.Row(pair+(server-1)*n)
	rho := sigmoid(float64(row[1]))
	diff := rho - float64(t.example.Labels.Offload[user])
	sum.Offload += kOffload * diff * diff
	grad[1] = T(scale * w.Offload * kOffload * 2 * diff * rho * (1 - rho))
	z, class := float64(row[2]), float64(t.example.Labels.MeetsDeadline[user])
	sum.DeadlineClass += kOffload * (max(z, 0) - z*class + math.Log1p(math.Exp(-math.Abs(z))))
	grad[2] = T(scale * w.DeadlineClass * kOffload * (sigmoid(z) - class))
}

func sigmoid(x float64) float64 { return 1 / (1 + math.Exp(-x)) }
