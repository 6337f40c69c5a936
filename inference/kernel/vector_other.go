//go:build !amd64 && !arm64

package kernel

// vectorised says that the row-wise operations have tuned kernels here.
const vectorised = false

func addVector(dst, x *float32, n int)                             { panic(noVector) }
func addScaledVector(dst *float32, s float32, x *float32, n int)   { panic(noVector) }
func geluVector(dst, x *float32, n int)                            { panic(noVector) }
func geluBackwardVector(dx, dy, x *float32, n int)                 { panic(noVector) }
func maxVector(x *float32, n int) float32                          { panic(noVector) }
func expSumVector(x *float32, top float32, n int) float32          { panic(noVector) }
func scaleVector(x *float32, s float32, n int)                     { panic(noVector) }
func dotVector(a, b *float32, n int) float32                       { panic(noVector) }
func softmaxBackwardVector(dx, dy, y *float32, dot float32, n int) { panic(noVector) }
func layerNormVector(dst, x, gain, bias *float32, eps float32, n int) (mean, rstd float32) {
	panic(noVector)
}
func layerNormBackwardVector(dx, dy, x, gain *float32, mean, rstd float32, dgain, dbias *float32, accumulate bool, n int) {
	panic(noVector)
}

const noVector = "kernel: no tuned row operations on this processor"
