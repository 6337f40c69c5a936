package kernel

import "math"

// LayerNorm normalises every row of x (rows, n) to mean 0 and variance 1,
// then scales by gain (n) and shifts by bias (n). mean and rstd (rows) keep
// what the backward pass needs. dst may be x.
func LayerNorm[T Float](dst, x Matrix[T], gain, bias []T, eps T, mean, rstd []T) {
	x.check("LayerNorm")
	dst.check("LayerNorm")
	checkLen("LayerNorm", "dst rows", dst.Rows, x.Rows)
	checkLen("LayerNorm", "dst row", dst.Cols, x.Cols)
	checkLen("LayerNorm", "gain", len(gain), x.Cols)
	checkLen("LayerNorm", "bias", len(bias), x.Cols)
	checkLen("LayerNorm", "mean", len(mean), x.Rows)
	checkLen("LayerNorm", "rstd", len(rstd), x.Rows)
	if useVectors[T]() && x.Cols > 0 && x.Cols%8 == 0 {
		layerNormTuned(float32s(&dst), float32s(&x), float32Row(gain), float32Row(bias), float32(eps), float32Row(mean), float32Row(rstd))
		return
	}
	for i := range x.Rows {
		mean[i], rstd[i] = layerNormNaive(dst.Row(i), x.Row(i), gain, bias, eps)
	}
}

// LayerNormBackward sets dx from dy, or adds to it if accumulate is set, and
// adds to dgain and dbias. x, mean and rstd are those of the forward call.
func LayerNormBackward[T Float](dx, dy, x Matrix[T], gain, mean, rstd, dgain, dbias []T, accumulate bool) {
	dx.check("LayerNormBackward")
	dy.check("LayerNormBackward")
	x.check("LayerNormBackward")
	checkLen("LayerNormBackward", "dx rows", dx.Rows, x.Rows)
	checkLen("LayerNormBackward", "dx row", dx.Cols, x.Cols)
	checkLen("LayerNormBackward", "dy rows", dy.Rows, x.Rows)
	checkLen("LayerNormBackward", "dy row", dy.Cols, x.Cols)
	checkLen("LayerNormBackward", "gain", len(gain), x.Cols)
	checkLen("LayerNormBackward", "mean", len(mean), x.Rows)
	checkLen("LayerNormBackward", "rstd", len(rstd), x.Rows)
	checkLen("LayerNormBackward", "dgain", len(dgain), x.Cols)
	checkLen("LayerNormBackward", "dbias", len(dbias), x.Cols)
	if useVectors[T]() && x.Cols > 0 && x.Cols%8 == 0 {
		layerNormBackwardTuned(float32s(&dx), float32s(&dy), float32s(&x), float32Row(gain),
			float32Row(mean), float32Row(rstd), float32Row(dgain), float32Row(dbias), accumulate)
		return
	}
	for i := range x.Rows {
		layerNormBackwardNaive(dx.Row(i), dy.Row(i), x.Row(i), gain, mean[i], rstd[i], dgain, dbias, accumulate)
	}
}

func layerNormNaive[T Float](dst, x, gain, bias []T, eps T) (mean, rstd T) {
	n := T(len(x))
	for _, v := range x {
		mean += v
	}
	mean /= n
	var variance T
	for _, v := range x {
		variance += (v - mean) * (v - mean)
	}
	variance /= n
	rstd = 1 / T(math.Sqrt(float64(variance+eps)))
	for j, v := range x {
		dst[j] = (v-mean)*rstd*gain[j] + bias[j]
	}
	return mean, rstd
}

// layerNormBackwardNaive: with the normalised input h and g = dy·gain,
// dx = rstd (g - mean(g) - h mean(g h)).
func layerNormBackwardNaive[T Float](dx, dy, x, gain []T, mean, rstd T, dgain, dbias []T, accumulate bool) {
	n := T(len(x))
	var sumG, sumGH T
	for j, v := range x {
		h := (v - mean) * rstd
		g := dy[j] * gain[j]
		sumG += g
		sumGH += g * h
		dgain[j] += dy[j] * h
		dbias[j] += dy[j]
	}
	for j, v := range x {
		h := (v - mean) * rstd
		d := rstd * (dy[j]*gain[j] - sumG/n - h*sumGH/n)
		if accumulate {
			d += dx[j]
		}
		dx[j] = d
	}
}
