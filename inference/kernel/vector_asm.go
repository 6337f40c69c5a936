//go:build amd64 || arm64

package kernel

import "math"

// vectorised tells whether the row operations have kernels in assembly here. Their
// lengths are positive multiples of 8.
const vectorised = true

// vectorConstants are the constants of the assembly, which reads them by position.
//
//lint:ignore U1000 read by the assembly
var vectorConstants = [...]float32{
	expFloor, expCeiling, log2e, expShift + 127, ln2Hi, ln2Lo,
	expP[0], expP[1], expP[2], expP[3], expP[4], expP[5],
	1, -geluScale, -geluScale * geluCubic, geluScale, 3 * geluScale * geluCubic,
}

//go:noescape
func addVector(dst, x *float32, n int)

//go:noescape
func addScaledVector(dst *float32, s float32, x *float32, n int)

// maxVector returns the largest of x; with a NaN among them, either that or a NaN.
//
//go:noescape
func maxVector(x *float32, n int) float32

// expSumVector replaces x by exp(x - top) and returns the sum of the results.
//
//go:noescape
func expSumVector(x *float32, top float32, n int) float32

//go:noescape
func scaleVector(x *float32, s float32, n int)

//go:noescape
func dotVector(a, b *float32, n int) float32

// softmaxBackwardVector sets dx = y (dy - dot).
//
//go:noescape
func softmaxBackwardVector(dx, dy, y *float32, dot float32, n int)

//go:noescape
func layerNormVector(dst, x, gain, bias *float32, eps float32, n int) (mean, rstd float32)

//go:noescape
func layerNormBackwardVector(dx, dy, x, gain *float32, mean, rstd float32, dgain, dbias *float32, accumulate bool, n int)

func softmaxTuned(row []float32) {
	masked := float32(math.Inf(-1))
	last := [8]float32{masked, masked, masked, masked, masked, masked, masked, masked} // the last numbers, filled up
	n := len(row) &^ 7
	copy(last[:], row[n:])
	top := maxVector(&last[0], len(last))
	if n > 0 {
		top = max(top, maxVector(&row[0], n))
	}
	if math.IsInf(float64(top), -1) { // all masked, or a NaN that maxVector dropped
		softmaxNaive(row)
		return
	}
	sum := expSumVector(&last[0], top, len(last))
	if n > 0 {
		sum += expSumVector(&row[0], top, n)
	}
	copy(row[n:], last[:])
	Scale(row, 1/sum)
}
