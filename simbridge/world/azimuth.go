package world

import "math"

// azimuthField is one standard-normal random field over azimuth for each user, which
// what stands around it makes of its radio links. It is a sum of harmonics with
// normal coefficients whose variances are those of the circular covariance
// exp(-(angle / angleRad)^2 / 2), nearly.
type azimuthField struct {
	amplitudes   []float64 // sqrt(w_k), k from 0; none: the field is off
	coefficients []float64 // by row and user: a_0, then a_k and b_k, each times its amplitude
}

// decorrelationM is how far a user moves until its surroundings have changed: a
// row's coefficients are mixed with fresh ones by exp(-metres / decorrelationM).
const decorrelationM = 50

// setAngle sets the correlation angle; 0 switches the field off.
func (f *azimuthField) setAngle(degrees float64) {
	f.amplitudes = f.amplitudes[:0]
	if degrees == 0 {
		return
	}
	last := 8
	if degrees < 20 {
		last = 16
	}
	sum, s := 0.0, degrees*math.Pi/180
	for k := range last + 1 {
		w := math.Exp(-float64(k*k) * s * s / 2)
		if k > 0 {
			w *= 2
		}
		f.amplitudes = append(f.amplitudes, w)
		sum += w
	}
	for k, w := range f.amplitudes {
		f.amplitudes[k] = math.Sqrt(w / sum)
	}
}

func (f *azimuthField) on() bool { return len(f.amplitudes) > 0 }

// size returns the number of coefficients of a user.
func (f *azimuthField) size() int { return 2*len(f.amplitudes) - 1 }

func (f *azimuthField) of(index int) []float64 {
	n := f.size()
	return f.coefficients[index*n : (index+1)*n]
}

// drawAt draws the coefficients at an index, mixed with those of a user that was
// some metres away; before may be nil.
func (f *azimuthField) drawAt(index int, before []float64, metres float64, d *draws) {
	x := f.of(index)
	keep, fresh := 0.0, 1.0
	if before != nil {
		copy(x, before)
		if metres == 0 {
			return
		}
		keep = math.Exp(-metres / decorrelationM)
		fresh = math.Sqrt(1 - keep*keep)
	} else {
		clear(x)
	}
	x[0] = keep*x[0] + fresh*f.amplitudes[0]*d.normals.NormFloat64()
	for k := 1; k < len(f.amplitudes); k++ {
		a := fresh * f.amplitudes[k]
		x[2*k-1] = keep*x[2*k-1] + a*d.normals.NormFloat64()
		x[2*k] = keep*x[2*k] + a*d.normals.NormFloat64()
	}
}

// at returns the field at an azimuth, given by its sine and cosine.
func (f *azimuthField) at(index int, sin, cos float64) float64 {
	x := f.of(index)
	sum, s, c := x[0], 0.0, 1.0
	for k := 1; k < len(x); k += 2 {
		s, c = s*cos+c*sin, c*cos-s*sin
		sum += x[k]*c + x[k+1]*s
	}
	return sum
}
