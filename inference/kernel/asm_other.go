//go:build !amd64 && !arm64

package kernel

// supported lists the levels that this processor runs, worst first.
func supported() []level { return []level{generic, scalar} }

// vectorised tells whether the row operations have kernels in assembly here. At the
// levels above nothing below is called.
const vectorised = false

const noAssembly = "kernel: no assembly for this processor"

func tileShape() (rows, cols int) { return maxTileRows, maxTileCols }
func lastTileRows(rows int) int   { return maxTileRows }

func tile(rows, k int, a *float32, aRow, aK int, b *float32, bRow int, c *float32, cRow int, accumulate bool) {
	panic(noAssembly)
}
func packFullRows(dst, src *float32, stride, k int)                          { panic(noAssembly) }
func transpose8(dst *float32, dstStride int, src *float32, srcStride, n int) { panic(noAssembly) }
func addHalf(rows, k int, x *float32, xRow int, w *uint16, c *float32, cRow int) {
	panic(noAssembly)
}
func rows32(rows, k int, x *float32, xRow int, b *float32, bRow int, c *float32, cRow int) {
	panic(noAssembly)
}

func addVector(dst, x *float32, n int)                             { panic(noAssembly) }
func addScaledVector(dst *float32, s float32, x *float32, n int)   { panic(noAssembly) }
func geluVector(dst, x *float32, n int)                            { panic(noAssembly) }
func geluBackwardVector(dx, dy, x *float32, n int)                 { panic(noAssembly) }
func maxVector(x *float32, n int) float32                          { panic(noAssembly) }
func expSumVector(x *float32, top float32, n int) float32          { panic(noAssembly) }
func scaleVector(x *float32, s float32, n int)                     { panic(noAssembly) }
func dotVector(a, b *float32, n int) float32                       { panic(noAssembly) }
func softmaxBackwardVector(dx, dy, y *float32, dot float32, n int) { panic(noAssembly) }
func layerNormVector(dst, x, gain, bias *float32, eps float32, n int) (mean, rstd float32) {
	panic(noAssembly)
}
func layerNormBackwardVector(dx, dy, x, gain *float32, mean, rstd float32, dgain, dbias *float32, accumulate bool, n int) {
	panic(noAssembly)
}
