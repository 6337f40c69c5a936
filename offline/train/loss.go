package train

import (
	"math"

	"prefdt/inference/kernel"
)

// Weights balance the terms of the loss.
type Weights struct {
	Choice  float64 `json:"choice" yaml:"choice"`   // cross-entropy of the association, per user
	Offload float64 `json:"offload" yaml:"offload"` // squared error of rho, per offloading user
	Class   float64 `json:"class" yaml:"class"`     // cross-entropy of balance against deadline, per offloading user
	Move    float64 `json:"move" yaml:"move"`       // squared error of the displacement in units of v*, per aircraft
	Price   float64 `json:"price" yaml:"price"`     // squared error of y, per slot
}

// DefaultWeights are those of the shipped checkpoint.
func DefaultWeights() Weights { return Weights{Choice: 1, Offload: 3, Class: 0.3, Move: 1, Price: 50} }

// Terms are the means of each term of the loss, and the fraction of users
// whose association is the teacher's.
type Terms struct {
	Loss, Choice, Offload, Class, Move, Price, Right float64
}

// Add adds other terms.
func (t *Terms) Add(o Terms) {
	t.Loss += o.Loss
	t.Choice += o.Choice
	t.Offload += o.Offload
	t.Class += o.Class
	t.Move += o.Move
	t.Price += o.Price
	t.Right += o.Right
}

// Scaled returns the terms times k.
func (t Terms) Scaled(k float64) Terms {
	return Terms{t.Loss * k, t.Choice * k, t.Offload * k, t.Class * k, t.Move * k, t.Price * k, t.Right * k}
}

// outputGrads are the gradients of the loss by the network's outputs.
type outputGrads[T kernel.Float] struct {
	move, choice, price kernel.Matrix[T]
}

// loss compares a forward pass with the teacher, eq. (bypass1): L2 on the
// continuous actions and cross-entropy on the association, each a mean over
// the slots whose weight is not zero; the gradients are times scale.
func (t *tape[T]) loss(w Weights, scale float64) (Terms, outputGrads[T]) {
	ep := t.ep
	g := outputGrads[T]{
		move:   t.Zeros(t.move.Rows, t.move.Cols),
		choice: t.Zeros(t.choice.Rows, t.choice.Cols),
		price:  t.Zeros(t.price.Rows, t.price.Cols),
	}
	var users, offloaders, crafts, slots float64
	at := 0
	for s := range ep.Slots {
		weight := float64(ep.Target.Weight[s])
		slots += weight
		crafts += weight * float64(ep.Craft[s])
		users += weight * float64(ep.Users[s])
		for range ep.Users[s] {
			if ep.Target.Server[at] > 0 {
				offloaders += weight
			}
			at++
		}
	}
	var sum Terms
	craft, user, pair := 0, 0, 0
	for s := range ep.Slots {
		weight := float64(ep.Target.Weight[s])
		crew, n := ep.Craft[s], ep.Users[s]
		if weight != 0 {
			for u := range n {
				t.userLoss(&sum, g.choice, w, user+u, pair+u, n, crew, weight/max(users, 1), weight/max(offloaders, 1), scale)
			}
			for i := 2 * craft; i < 2*(craft+crew); i++ {
				ratio := float64(ep.Target.MoveScale)
				diff := float64(t.move.Data[i])*ratio - float64(ep.Target.Move[i])
				k := weight / max(crafts, 1)
				sum.Move += k * diff * diff
				g.move.Data[i] = T(scale * w.Move * k * 2 * diff * ratio)
			}
			diff := float64(t.price.Data[s]) - float64(ep.Target.Price[s])
			k := weight / max(slots, 1)
			sum.Price += k * diff * diff
			g.price.Data[s] = T(scale * w.Price * k * 2 * diff)
		}
		craft, user, pair = craft+crew, user+n, pair+crew*n
	}
	sum.Loss = w.Choice*sum.Choice + w.Offload*sum.Offload + w.Class*sum.Class + w.Move*sum.Move + w.Price*sum.Price
	return sum, g
}

// userLoss adds one user's terms; its pairs are rows pair, pair+n, ... of choice.
func (t *tape[T]) userLoss(sum *Terms, g kernel.Matrix[T], w Weights, user, pair, n, crew int, k, kOffload, scale float64) {
	server := t.ep.Target.Server[user]
	top, best := 0.0, 0 // the local logit
	for m := range crew {
		if v := float64(t.choice.Row(pair + m*n)[0]); v > top {
			top, best = v, m+1
		}
	}
	if best == server {
		sum.Right += k
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
		g.Row(pair + m*n)[0] = T(scale * w.Choice * k * p)
	}
	sum.Choice += k * (math.Log(total) + top - chosen)
	if server == 0 {
		return
	}
	row, grad := t.choice.Row(pair+(server-1)*n), g.Row(pair+(server-1)*n)
	rho := sigmoid(float64(row[1]))
	diff := rho - float64(t.ep.Target.Offload[user])
	sum.Offload += kOffload * diff * diff
	grad[1] = T(scale * w.Offload * kOffload * 2 * diff * rho * (1 - rho))
	z, class := float64(row[2]), float64(t.ep.Target.Deadline[user])
	sum.Class += kOffload * (max(z, 0) - z*class + math.Log1p(math.Exp(-math.Abs(z))))
	grad[2] = T(scale * w.Class * kOffload * (sigmoid(z) - class))
}

func sigmoid(x float64) float64 { return 1 / (1 + math.Exp(-x)) }
