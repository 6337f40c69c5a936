package kernel

import (
	"math"
	"unsafe"
)

// Softmax turns a row of scores into weights that sum to 1, in place. A score
// of -Inf is masked and gets weight 0; a row of masked scores alone becomes all
// zeros, so that pooling an empty set gives zero and not NaN.
func Softmax[T Float](row []T) {
	if vectorised && isTuned[T]() {
		softmaxTuned(unsafe.Slice(first(row), len(row)))
		return
	}
	softmaxNaive(row)
}

// SoftmaxBackward sets dx from dy, with y the weights that Softmax returned.
// dx may be dy.
func SoftmaxBackward[T Float](dx, dy, y []T) {
	checkLen("SoftmaxBackward", "dx", len(dx), len(y))
	checkLen("SoftmaxBackward", "dy", len(dy), len(y))
	dot, n := Dot(dy, y), vectorPart[T](len(y))
	if n > 0 {
		softmaxBackwardVector(first(dx), first(dy), first(y), float32(dot), n)
	}
	softmaxBackwardNaive(dx[n:], dy[n:], y[n:], dot)
}

func softmaxNaive[T Float](row []T) {
	top := T(math.Inf(-1))
	for _, v := range row {
		top = max(top, v)
	}
	if math.IsInf(float64(top), -1) {
		clear(row)
		return
	}
	var sum T
	for j, v := range row {
		e := exp(v - top)
		row[j] = e
		sum += e
	}
	scaleNaive(row, 1/sum)
}

func softmaxBackwardNaive[T Float](dx, dy, y []T, dot T) {
	for j, w := range y {
		dx[j] = w * (dy[j] - dot)
	}
}
