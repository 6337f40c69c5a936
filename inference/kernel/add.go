package kernel

// Add adds x to dst, element by element: a residual connection, or the gradients of
// two uses of a value.
func Add[T Float](dst, x []T) {
	checkLen("Add", "dst", len(dst), len(x))
	n := vectorPart[T](len(x))
	if n > 0 {
		addVector(first(dst), first(x), n)
	}
	addNaive(dst[n:], x[n:])
}

// AddBias adds bias (n) to every row of x (rows, n).
func AddBias[T Float](x Matrix[T], bias []T) {
	x.check("AddBias")
	checkLen("AddBias", "bias", len(bias), x.Cols)
	for i := range x.Rows {
		Add(x.Row(i), bias)
	}
}

// AddBiasBackward adds to dbias (n) the sum of the rows of dy (rows, n).
func AddBiasBackward[T Float](dbias []T, dy Matrix[T]) {
	dy.check("AddBiasBackward")
	checkLen("AddBiasBackward", "dbias", len(dbias), dy.Cols)
	for i := range dy.Rows {
		Add(dbias, dy.Row(i))
	}
}

// AddScaled adds s·x to dst.
func AddScaled[T Float](dst []T, s T, x []T) {
	checkLen("AddScaled", "dst", len(dst), len(x))
	n := vectorPart[T](len(x))
	if n > 0 {
		addScaledVector(first(dst), float32(s), first(x), n)
	}
	addScaledNaive(dst[n:], s, x[n:])
}

// Scale multiplies x by s.
func Scale[T Float](x []T, s T) {
	n := vectorPart[T](len(x))
	if n > 0 {
		scaleVector(first(x), float32(s), n)
	}
	scaleNaive(x[n:], s)
}

// Dot returns the sum of a·b.
func Dot[T Float](a, b []T) (sum T) {
	checkLen("Dot", "a", len(a), len(b))
	n := vectorPart[T](len(b))
	if n > 0 {
		sum = T(dotVector(first(a), first(b), n))
	}
	return sum + dotNaive(a[n:], b[n:])
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
