package kernel

// Add adds x to dst, element by element: a residual, or a gradient that
// arrives along two paths.
func Add[T Float](dst, x []T) {
	checkLen("Add", "dst", len(dst), len(x))
	if useVectors[T]() {
		addTuned(float32Row(dst), float32Row(x))
		return
	}
	addNaive(dst, x)
}

// AddScaled adds s·x to dst.
func AddScaled[T Float](dst []T, s T, x []T) {
	checkLen("AddScaled", "dst", len(dst), len(x))
	if useVectors[T]() {
		addScaledTuned(float32Row(dst), float32(s), float32Row(x))
		return
	}
	addScaledNaive(dst, s, x)
}

// Scale multiplies x by s.
func Scale[T Float](x []T, s T) {
	if useVectors[T]() {
		scaleTuned(float32Row(x), float32(s))
		return
	}
	scaleNaive(x, s)
}

// Dot returns the sum of a·b.
func Dot[T Float](a, b []T) T {
	checkLen("Dot", "a", len(a), len(b))
	if useVectors[T]() {
		return T(dotTuned(float32Row(a), float32Row(b)))
	}
	return dotNaive(a, b)
}

func addNaive[T Float](dst, x []T) {
	for i, v := range x {
		dst[i] += v
	}
}

func addScaledNaive[T Float](dst []T, s T, x []T) {
	dst = dst[:len(x)]
	for i, v := range x {
		dst[i] += s * v
	}
}

func scaleNaive[T Float](x []T, s T) {
	for i := range x {
		x[i] *= s
	}
}

func dotNaive[T Float](a, b []T) (sum T) {
	for i, v := range b {
		sum += a[i] * v
	}
	return sum
}
