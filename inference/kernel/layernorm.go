package kernel

import "math"

// LayerNorm normalises every row of x (rows, n) to mean 0 and variance 1,
// then scales it by gain (n) and shifts it by bias (n). mean and rstd (rows), the
// reciprocal of the standard deviation, are set for the backward pass. dst may be x.
func LayerNorm[T Float](dst, x Matrix[T], gain, bias []T, eps T, mean, rstd []T) {
	x.check("LayerNorm")
	dst.checkShape("LayerNorm", x.Rows, x.Cols)
	checkLen("LayerNorm", "gain", len(gain), x.Cols)
	checkLen("LayerNorm", "bias", len(bias), x.Cols)
	checkLen("LayerNorm", "mean", len(mean), x.Rows)
	checkLen("LayerNorm", "rstd", len(rstd), x.Rows)
	tuned := x.Cols > 0 && vectorPart[T](x.Cols) == x.Cols
	for i := range x.Rows {
		if tuned {
			rowMean, rowRstd := layerNormVector(first(dst.Row(i)), first(x.Row(i)), first(gain), first(bias), float32(eps), x.Cols)
			mean[i], rstd[i] = T(rowMean), T(rowRstd)
		} else {
			mean[i], rstd[i] = layerNormNaive(dst.Row(i), x.Row(i), gain, bias, eps)
		}
	}
}

// LayerNormBackward sets dx from dy, or adds to it if accumulate is set, and
// adds to dgain and dbias. x, mean and rstd are those of the forward call.
func LayerNormBackward[T Float](dx, dy, x Matrix[T], gain, mean, rstd, dgain, dbias []T, accumulate bool) {
	x.check("LayerNormBackward")
	dx.checkShape("LayerNormBackward", x.Rows, x.Cols)
	dy.checkShape("LayerNormBackward", x.Rows, x.Cols)
	checkLen("LayerNormBackward", "gain", len(gain), x.Cols)
	checkLen("LayerNormBackward", "mean", len(mean), x.Rows)
	checkLen("LayerNormBackward", "rstd", len(rstd), x.Rows)
	checkLen("LayerNormBackward", "dgain", len(dgain), x.Cols)
	checkLen("LayerNormBackward", "dbias", len(dbias), x.Cols)
	tuned := x.Cols > 0 && vectorPart[T](x.Cols) == x.Cols
	for i := range x.Rows {
		if tuned {
			layerNormBackwardVector(first(dx.Row(i)), first(dy.Row(i)), first(x.Row(i)), first(gain),
				float32(mean[i]), float32(rstd[i]), first(dgain), first(dbias), accumulate, x.Cols)
		} else {
			layerNormBackwardNaive(dx.Row(i), dy.Row(i), x.Row(i), gain, mean[i], rstd[i], dgain, dbias, accumulate)
		}
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
