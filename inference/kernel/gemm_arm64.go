package kernel

// Every 64-bit ARM processor has NEON. What the functions here do stands in gemm_amd64.go.

func supported() []level { return []level{generic, scalar, neon} }

func tileShape() (rows, cols int) { return 6, 16 }

func lastTileRows(rows int) int { return 6 }

func tile(rows, k int, a *float32, aRow, aK int, b *float32, bRow int, c *float32, cRow int, accumulate bool) {
	tileNEON(k, a, aRow, aK, b, bRow, c, cRow, accumulate)
}

//go:noescape
func tileNEON(k int, a *float32, aRow, aK int, b *float32, bRow int, c *float32, cRow int, accumulate bool)

//go:noescape
func packFullRows(dst, src *float32, stride, k int)

//go:noescape
func transpose8(dst *float32, dstStride int, src *float32, srcStride, blocks int)

//go:noescape
func addHalf(rows, k int, x *float32, xRow int, w *uint16, c *float32, cRow int)

//go:noescape
func rows32(rows, k int, x *float32, xRow int, b *float32, bRow int, c *float32, cRow int)
