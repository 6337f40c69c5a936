//go:build !arm.6

package kernel

import "unsafe"

// addEight adds to dst the row x (k) times the columns b (k, 8), whose rows are
// stride apart.
func addEight(dst *[scalarCols]float32, x *float32, k int, b *float32, stride int) {
	s0, s1, s2, s3, s4, s5, s6, s7 := dst[0], dst[1], dst[2], dst[3], dst[4], dst[5], dst[6], dst[7]
	at := 0
	for _, v := range unsafe.Slice(x, k) {
		w := (*[scalarCols]float32)(unsafe.Add(unsafe.Pointer(b), at))
		at += 4 * stride
		s0 += v * w[0]
		s1 += v * w[1]
		s2 += v * w[2]
		s3 += v * w[3]
		s4 += v * w[4]
		s5 += v * w[5]
		s6 += v * w[6]
		s7 += v * w[7]
	}
	*dst = [scalarCols]float32{s0, s1, s2, s3, s4, s5, s6, s7}
}
