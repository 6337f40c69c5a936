package nn

import "math"

// CrossEntropy returns the loss -log softmax(logits)[want], and whether that is
// the greatest logit. It leaves the gradient by the logits in their place.
func CrossEntropy(logits []float64, want int) (loss float64, right bool) {
	best, chosen, total := 0, logits[want], 0.0
	for i, v := range logits {
		if v > logits[best] {
			best = i
		}
	}
	top := logits[best]
	for i, v := range logits {
		logits[i] = math.Exp(v - top)
		total += logits[i]
	}
	for i := range logits {
		logits[i] /= total
	}
	logits[want]--
	return math.Log(total) + top - chosen, best == want
}

// SquaredError returns weight times the square of y's error, and its gradient by y.
func SquaredError(y, want, weight float64) (loss, grad float64) {
	return weight * (y - want) * (y - want), weight * 2 * (y - want)
}
