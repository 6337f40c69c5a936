package kernel

import "golang.org/x/sys/cpu"

// supported lists the levels that this processor runs, worst first.
func supported() []level {
	levels := []level{generic, scalar}
	if cpu.X86.HasAVX2 && cpu.X86.HasFMA && hasF16C() {
		levels = append(levels, avx2)
		if cpu.X86.HasAVX512F {
			levels = append(levels, avx512)
		}
	}
	return levels
}

// hasF16C reports whether the processor converts float16.
func hasF16C() bool

func tileShape() (rows, cols int) {
	if activeLevel == avx512 {
		return 12, 32
	}
	return 6, 16
}

// lastTileRows is the height of the tile for the rows that remain below full tiles.
func lastTileRows(rows int) int {
	if activeLevel == avx512 && rows > 4 {
		return 12
	}
	if activeLevel == avx512 {
		return 4
	}
	return 6
}

// tile computes c (rows, tileCols) = or += a·b over k steps; rows is tileRows or a
// result of lastTileRows. Element (i, p) of a is i*aRow + p*aK after a, row p of b is
// p*bRow after b, row i of c is i*cRow after c.
func tile(rows, k int, a *float32, aRow, aK int, b *float32, bRow int, c *float32, cRow int, accumulate bool) {
	switch rows {
	case 12:
		tileAVX512(k, a, aRow, aK, b, bRow, c, cRow, accumulate)
	case 4:
		tile4AVX512(k, a, aRow, aK, b, bRow, c, cRow, accumulate)
	default:
		tileAVX2(k, a, aRow, aK, b, bRow, c, cRow, accumulate)
	}
}

//go:noescape
func tileAVX512(k int, a *float32, aRow, aK int, b *float32, bRow int, c *float32, cRow int, accumulate bool)

//go:noescape
func tile4AVX512(k int, a *float32, aRow, aK int, b *float32, bRow int, c *float32, cRow int, accumulate bool)

//go:noescape
func tileAVX2(k int, a *float32, aRow, aK int, b *float32, bRow int, c *float32, cRow int, accumulate bool)

// packFullRows copies k rows of tileCols values into dst, one after another.
func packFullRows(dst, src *float32, stride, k int) {
	if activeLevel == avx512 {
		packRows32(dst, src, stride, k)
	} else {
		packRows16(dst, src, stride, k)
	}
}

//go:noescape
func packRows32(dst, src *float32, stride, k int)

//go:noescape
func packRows16(dst, src *float32, stride, k int)

// transpose8 writes 8 rows of src, 8·blocks values each, as 8 columns of dst.
//
//go:noescape
func transpose8(dst *float32, dstStride int, src *float32, srcStride, blocks int)

// rows32 computes c (rows, 32) = x (rows, k) · b (k, 32) for 1 to 3 rows.
func rows32(rows, k int, x *float32, xRow int, b *float32, bRow int, c *float32, cRow int) {
	if activeLevel == avx512 {
		rowsAVX512(rows, k, x, xRow, b, bRow, c, cRow)
	} else {
		rowsAVX2(rows, k, x, xRow, b, bRow, c, cRow)
	}
}

//go:noescape
func rowsAVX512(rows, k int, x *float32, xRow int, b *float32, bRow int, c *float32, cRow int)

//go:noescape
func rowsAVX2(rows, k int, x *float32, xRow int, b *float32, bRow int, c *float32, cRow int)

// addHalf computes c (rows, 32) += x (rows, k) · w (k, 32) for 1 to 3 rows.
// Rows of x are xRow apart, rows of c are cRow apart. It has no AVX-512 form: that
// took a fifth longer on AMD's EPYC, where 512 bits are two halves.
//
//go:noescape
func addHalf(rows, k int, x *float32, xRow int, w *uint16, c *float32, cRow int)
