package baseline

import (
	"math"
	"slices"
)

// azimuthFilter is a Gaussian process over the azimuth around one user: the Kalman
// filter of a field that stays as long as the user does. It keeps its latest
// observations, those at nearly the same place as one.
type azimuthFilter struct {
	observed []azimuthObservation

	covariance []float64 // (i, j), then its Cholesky factor
	weights    []float64 // of the observations in a prediction's mean
	solved     bool
}

// azimuthObservation is a value of the field, with noise.
type azimuthObservation struct {
	azimuth, walkedM float64
	value, variance  float64
}

// azimuthKernel is the correlation of two values of the field by what lies between
// them: harmonics of the angle with a spectrum of standard deviation correlationDeg,
// and the distance that the user walked.
type azimuthKernel struct{ byDegree [181]float64 }

// What the filters were tuned to: the named worlds have these.
const (
	correlationDeg     = 30.0
	correlationWalkM   = 50.0
	maxAzimuths        = 24
	sameAzimuth        = 4 * math.Pi / 180
	sameWalkM          = 3.0
	harmonics          = 8
	uploadVariance     = 0.01 // of z: nothing but rounding and walking
	leastFieldVariance = 1e-3
)

func newAzimuthKernel() (k azimuthKernel) {
	s := correlationDeg * math.Pi / 180
	sum := 0.0
	for n := range harmonics + 1 {
		w := math.Exp(-float64(n*n) * s * s / 2)
		if n > 0 {
			w *= 2
		}
		sum += w
		for degree := range k.byDegree {
			k.byDegree[degree] += w * math.Cos(float64(n*degree)*math.Pi/180)
		}
	}
	for degree := range k.byDegree {
		k.byDegree[degree] /= sum
	}
	return k
}

// angleBetween returns the angle from 0 to pi between two azimuths.
func angleBetween(a, b float64) float64 {
	d := math.Abs(math.Mod(a-b, 2*math.Pi))
	return min(d, 2*math.Pi-d)
}

func (k *azimuthKernel) at(azimuthA, walkedA, azimuthB, walkedB float64) float64 {
	x := angleBetween(azimuthA, azimuthB) * 180 / math.Pi
	i := min(int(x), len(k.byDegree)-2)
	f := x - float64(i)
	return ((1-f)*k.byDegree[i] + f*k.byDegree[i+1]) * math.Exp(-math.Abs(walkedA-walkedB)/correlationWalkM)
}

// predict returns the field's mean and variance at an azimuth.
func (f *azimuthFilter) predict(k *azimuthKernel, azimuth, walkedM float64) (mean, variance float64) {
	n := len(f.observed)
	if n == 0 {
		return 0, 1
	}
	f.solve(k)
	variance = 1
	v := make([]float64, n)
	for i, o := range f.observed {
		c := k.at(azimuth, walkedM, o.azimuth, o.walkedM)
		mean += c * f.weights[i]
		for j := range i {
			c -= f.covariance[i*n+j] * v[j]
		}
		v[i] = c / f.covariance[i*n+i]
		variance -= v[i] * v[i]
	}
	return mean, max(variance, leastFieldVariance)
}

// solve factors the covariance of the observations.
func (f *azimuthFilter) solve(k *azimuthKernel) {
	if f.solved {
		return
	}
	n := len(f.observed)
	f.covariance, f.weights = slices.Grow(f.covariance[:0], n*n)[:n*n], slices.Grow(f.weights[:0], n)[:n]
	for i, a := range f.observed {
		for j, b := range f.observed[:i+1] {
			x := k.at(a.azimuth, a.walkedM, b.azimuth, b.walkedM)
			if i == j {
				x += a.variance
			}
			for l := range j {
				x -= f.covariance[i*n+l] * f.covariance[j*n+l]
			}
			if i == j {
				f.covariance[i*n+i] = math.Sqrt(max(x, 1e-9))
			} else {
				f.covariance[i*n+j] = x / f.covariance[j*n+j]
			}
		}
	}
	for i := range n { // forward, then backward substitution
		x := f.observed[i].value
		for j := range i {
			x -= f.covariance[i*n+j] * f.weights[j]
		}
		f.weights[i] = x / f.covariance[i*n+i]
	}
	for i := n - 1; i >= 0; i-- {
		x := f.weights[i]
		for j := i + 1; j < n; j++ {
			x -= f.covariance[j*n+i] * f.weights[j]
		}
		f.weights[i] = x / f.covariance[i*n+i]
	}
	f.solved = true
}

// add adds an observation.
func (f *azimuthFilter) add(o azimuthObservation) {
	f.solved = false
	for i := range f.observed {
		p := &f.observed[i]
		if angleBetween(o.azimuth, p.azimuth) < sameAzimuth && math.Abs(o.walkedM-p.walkedM) < sameWalkM {
			variance := 1 / (1/o.variance + 1/p.variance)
			*p = azimuthObservation{p.azimuth, o.walkedM, variance * (o.value/o.variance + p.value/p.variance), variance}
			return
		}
	}
	if len(f.observed) == maxAzimuths {
		f.observed = slices.Delete(f.observed, 0, 1)
	}
	f.observed = append(f.observed, o)
}
