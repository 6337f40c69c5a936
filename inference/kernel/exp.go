package kernel

import (
	"math"
	"unsafe"
)

// exp is math.Exp in float64. In float32 it is Cephes' expf, within 2 units in the
// last place, because math.Exp would take as long as the matrix products around it:
// e^x = 2^n · e^r with |r| <= ln(2)/2. Below expFloor, where the result would be
// subnormal, it is 0; above expCeiling it is e^expCeiling, so that its reciprocal is
// never subnormal.
func exp[T Float](x T) T {
	if unsafe.Sizeof(x) == 8 {
		return T(math.Exp(float64(x)))
	}
	if x < expFloor {
		return 0
	}
	v := min(float32(x), expCeiling) // min keeps a NaN
	if v != v {
		return x
	}
	// Adding and subtracting 1.5·2^23 rounds to the nearest integer.
	n := float32(v*log2e+expShift) - expShift
	r := v - n*ln2Hi - n*ln2Lo
	p := expP[0]
	for _, c := range expP[1:] {
		p = p*r + c
	}
	p = p*r*r + r + 1
	return T(p * math.Float32frombits(uint32(int32(n)+127)<<23))
}

const (
	expFloor   = -87
	expCeiling = 87
	expShift   = 1.5 * (1 << 23)
	log2e      = 1.44269504088896341
	ln2Hi      = 0.693359375 // few bits, so that n·ln2Hi is exact
	ln2Lo      = -2.12194440e-4
)

// expP holds the coefficients of (e^r - 1 - r)/r², highest power first.
var expP = [...]float32{1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1}
