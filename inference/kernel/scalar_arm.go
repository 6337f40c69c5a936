//go:build arm.6

package kernel

// addEight adds to dst the row x (k) times the columns b (k, 8), whose rows are
// stride apart.
//
//go:noescape
func addEight(dst *[scalarCols]float32, x *float32, k int, b *float32, stride int)
