package kernel

// GELU in its tanh form, 0.5 x (1 + tanh(s (x + c x³))) with s = sqrt(2/pi).
// It is computed as x·g with the gate g = 1/(1 + exp(-2s (x + c x³))), which
// is the same function and keeps its relative precision where the tanh form
// cancels, at large negative x.
const (
	geluScale = 2 * 0.7978845608
	geluCubic = 0.044715
)

// Gelu sets dst = gelu(x). dst may be x.
func Gelu[T Float](dst, x []T) {
	checkLen("Gelu", "dst", len(dst), len(x))
	n := vectorPart[T](len(x))
	if n > 0 {
		geluVector(first(dst), first(x), n)
	}
	geluNaive(dst[n:], x[n:])
}

// GeluBackward sets dx = dy · gelu'(x), with x the input of the forward
// call. dx may be dy or x.
func GeluBackward[T Float](dx, dy, x []T) {
	checkLen("GeluBackward", "dx", len(dx), len(x))
	checkLen("GeluBackward", "dy", len(dy), len(x))
	n := vectorPart[T](len(x))
	if n > 0 {
		geluBackwardVector(first(dx), first(dy), first(x), n)
	}
	geluBackwardNaive(dx[n:], dy[n:], x[n:])
}

func geluNaive[T Float](dst, x []T) {
	for i, v := range x {
		dst[i] = v * geluGate(v)
	}
}

func geluBackwardNaive[T Float](dx, dy, x []T) {
	for i, v := range x {
		g := geluGate(v)
		slope := T(geluScale) + T(3*geluScale*geluCubic)*v*v
		dx[i] = dy[i] * (g + v*g*(1-g)*slope)
	}
}

func geluGate[T Float](x T) T {
	return 1 / (1 + exp(-x*(T(geluScale)+T(geluScale*geluCubic)*x*x)))
}
