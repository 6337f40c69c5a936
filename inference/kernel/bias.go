package kernel

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
