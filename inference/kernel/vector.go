package kernel

import "math"

// Tuned row operations: whole vectors in assembly, the last few numbers here.

func useVectors[T Float]() bool { return vectorised && isTuned[T]() }

func addTuned(dst, x []float32) {
	n := len(x) &^ 7
	if n > 0 {
		addVector(&dst[0], &x[0], n)
	}
	addNaive(dst[n:], x[n:])
}

func addScaledTuned(dst []float32, s float32, x []float32) {
	n := len(x) &^ 7
	if n > 0 {
		addScaledVector(&dst[0], s, &x[0], n)
	}
	addScaledNaive(dst[n:], s, x[n:])
}

func scaleTuned(x []float32, s float32) {
	n := len(x) &^ 7
	if n > 0 {
		scaleVector(&x[0], s, n)
	}
	scaleNaive(x[n:], s)
}

func dotTuned(a, b []float32) (sum float32) {
	n := len(b) &^ 7
	if n > 0 {
		sum = dotVector(&a[0], &b[0], n)
	}
	return sum + dotNaive(a[n:], b[n:])
}

func geluTuned(dst, x []float32) {
	n := len(x) &^ 7
	if n > 0 {
		geluVector(&dst[0], &x[0], n)
	}
	geluNaive(dst[n:], x[n:])
}

func geluBackwardTuned(dx, dy, x []float32) {
	n := len(x) &^ 7
	if n > 0 {
		geluBackwardVector(&dx[0], &dy[0], &x[0], n)
	}
	geluBackwardNaive(dx[n:], dy[n:], x[n:])
}

func softmaxTuned(row []float32) {
	masked := float32(math.Inf(-1))
	last := [8]float32{masked, masked, masked, masked, masked, masked, masked, masked} // whole vectors to the end
	n := len(row) &^ 7
	copy(last[:], row[n:])
	top := maxVector(&last[0], len(last))
	if n > 0 {
		top = max(top, maxVector(&row[0], n))
	}
	if math.IsInf(float64(top), -1) { // masked whole, or a lost NaN
		softmaxNaive(row)
		return
	}
	sum := expSumVector(&last[0], top, len(last))
	if n > 0 {
		sum += expSumVector(&row[0], top, n)
	}
	copy(row[n:], last[:])
	scaleTuned(row, 1/sum)
}

func softmaxBackwardTuned(dx, dy, y []float32) {
	dot, n := dotTuned(dy, y), len(y)&^7
	if n > 0 {
		softmaxBackwardVector(&dx[0], &dy[0], &y[0], dot, n)
	}
	for j, w := range y[n:] {
		dx[n+j] = w * (dy[n+j] - dot)
	}
}

func layerNormTuned(dst, x *Matrix[float32], gain, bias []float32, eps float32, mean, rstd []float32) {
	for i := range x.Rows {
		mean[i], rstd[i] = layerNormVector(&dst.Data[i*dst.Stride], &x.Data[i*x.Stride], &gain[0], &bias[0], eps, x.Cols)
	}
}

func layerNormBackwardTuned(dx, dy, x *Matrix[float32], gain, mean, rstd, dgain, dbias []float32, accumulate bool) {
	for i := range x.Rows {
		layerNormBackwardVector(&dx.Data[i*dx.Stride], &dy.Data[i*dy.Stride], &x.Data[i*x.Stride], &gain[0],
			mean[i], rstd[i], &dgain[0], &dbias[0], accumulate, x.Cols)
	}
}
