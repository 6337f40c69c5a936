//go:build arm.6

package kernel

//go:noescape
func addEight(dst *[scalarCols]float32, x *float32, k int, b *float32, stride int)
