//go:build !amd64 && !arm64

package kernel

// supported lists the levels that this processor runs, worst first.
func supported() []level { return []level{generic, scalar} }

// Without assembly product is never reached.

func tileShape() (rows, cols int) { return maxTileRows, maxTileCols }

func lastTileRows(rows int) int { return maxTileRows }

func tile(rows, k int, a *float32, aRow, aK int, b *float32, bRow int, c *float32, cRow int, accumulate bool) {
	panic("kernel: no tuned product on this processor")
}

func packFullRows(dst, src *float32, stride, k int) {
	panic("kernel: no tuned product on this processor")
}

func transpose8(dst *float32, dstStride int, src *float32, srcStride, blocks int) {
	panic("kernel: no tuned product on this processor")
}

func addHalf(rows, k int, x *float32, xRow int, w *uint16, c *float32, cRow int) {
	panic("kernel: no tuned product on this processor")
}

func rows32(rows, k int, x *float32, xRow int, b *float32, bRow int, c *float32, cRow int) {
	panic("kernel: no tuned product on this processor")
}
