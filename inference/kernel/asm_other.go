//go:build !amd64 && !arm64

package kernel

// supported lists the levels that this processor runs, worst first.
func supported() []level { return []level{generic, scalar} }

const vectorised = false // at the levels above nothing below is called

const noAssembly = "kernel: no assembly for this processor"

func product(c, a, b *Matrix[float32], transA, transB, accumulate bool) { panic(noAssembly) }
func (p *Packed) addTuned(dst, x Matrix[float32])                       { panic(noAssembly) }
func softmaxTuned(row []float32)                                        { panic(noAssembly) }

func addVector(dst, x *float32, n int)                             { panic(noAssembly) }
func addScaledVector(dst *float32, s float32, x *float32, n int)   { panic(noAssembly) }
func geluVector(dst, x *float32, n int)                            { panic(noAssembly) }
func geluBackwardVector(dx, dy, x *float32, n int)                 { panic(noAssembly) }
func scaleVector(x *float32, s float32, n int)                     { panic(noAssembly) }
func dotVector(a, b *float32, n int) float32                       { panic(noAssembly) }
func softmaxBackwardVector(dx, dy, y *float32, dot float32, n int) { panic(noAssembly) }
func layerNormVector(dst, x, gain, bias *float32, eps float32, n int) (mean, rstd float32) {
	panic(noAssembly)
}
func layerNormBackwardVector(dx, dy, x, gain *float32, mean, rstd float32, dgain, dbias *float32, accumulate bool, n int) {
	panic(noAssembly)
}
