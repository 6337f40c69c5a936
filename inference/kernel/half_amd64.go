package kernel

// addHalf computes c (rows, 32) += x (rows, k) · w (k, 32) for 1 to 3 rows.
// Rows of x are xRow apart, rows of c are cRow apart.
func addHalf(rows, k int, x *float32, xRow int, w *uint16, c *float32, cRow int) {
	if activeLevel == avx512 {
		addHalfAVX512(rows, k, x, xRow, w, c, cRow)
	} else {
		addHalfAVX2(rows, k, x, xRow, w, c, cRow)
	}
}

//go:noescape
func addHalfAVX512(rows, k int, x *float32, xRow int, w *uint16, c *float32, cRow int)

//go:noescape
func addHalfAVX2(rows, k int, x *float32, xRow int, w *uint16, c *float32, cRow int)
