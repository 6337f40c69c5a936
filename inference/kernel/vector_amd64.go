package kernel

import "unsafe"

func geluVector(dst, x *float32, n int) {
	if wide := n &^ 15; activeLevel == avx512 && wide > 0 {
		geluAVX512(dst, x, wide)
		if wide == n {
			return
		}
		dst, x, n = advance(dst, wide), advance(x, wide), n-wide
	}
	geluAVX2(dst, x, n)
}

func geluBackwardVector(dx, dy, x *float32, n int) {
	if wide := n &^ 15; activeLevel == avx512 && wide > 0 {
		geluBackwardAVX512(dx, dy, x, wide)
		if wide == n {
			return
		}
		dx, dy, x, n = advance(dx, wide), advance(dy, wide), advance(x, wide), n-wide
	}
	geluBackwardAVX2(dx, dy, x, n)
}

// advance returns the address of the number n after x.
func advance(x *float32, n int) *float32 { return (*float32)(unsafe.Add(unsafe.Pointer(x), 4*n)) }

//go:noescape
func geluAVX2(dst, x *float32, n int)

//go:noescape
func geluAVX512(dst, x *float32, n int)

//go:noescape
func geluBackwardAVX2(dx, dy, x *float32, n int)

//go:noescape
func geluBackwardAVX512(dx, dy, x *float32, n int)
