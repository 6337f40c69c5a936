package kernel

// supported lists the levels that this processor runs, worst first. Every
// 64-bit ARM processor has NEON.
func supported() []level { return []level{generic, scalar, neon} }

func tileShape() (rows, cols int) { return 6, 16 }

// lastTileRows is the height of the tile for the rows that remain below full tiles.
func lastTileRows(rows int) int { return 6 }

// tile computes c (rows, tileCols) = or += a·b over k steps; rows is tileRows.
// Element (i, p) of a is i*aRow + p*aK after a, row p of b is p*bRow after b,
// row i of c is i*cRow after c.
func tile(rows, k int, a *float32, aRow, aK int, b *float32, bRow int, c *float32, cRow int, accumulate bool) {
	tileNEON(k, a, aRow, aK, b, bRow, c, cRow, accumulate)
}

//go:noescape
func tileNEON(k int, a *float32, aRow, aK int, b *float32, bRow int, c *float32, cRow int, accumulate bool)

// packFullRows copies k rows of tileCols values into dst, one after another.
//
//go:noescape
func packFullRows(dst, src *float32, stride, k int)

// transpose8 writes 8 rows of src, 8·blocks values each, as 8 columns of dst.
//
//go:noescape
func transpose8(dst *float32, dstStride int, src *float32, srcStride, blocks int)

// addHalf computes c (rows, 32) += x (rows, k) · w (k, 32) for 1 to 3 rows.
// Rows of x are xRow apart, rows of c are cRow apart.
//
//go:noescape
func addHalf(rows, k int, x *float32, xRow int, w *uint16, c *float32, cRow int)

// rows32 computes c (rows, 32) = x (rows, k) · b (k, 32) for 1 to 3 rows.
//
//go:noescape
func rows32(rows, k int, x *float32, xRow int, b *float32, bRow int, c *float32, cRow int)
