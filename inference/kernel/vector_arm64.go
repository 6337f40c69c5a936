package kernel

//go:noescape
func geluVector(dst, x *float32, n int)

//go:noescape
func geluBackwardVector(dx, dy, x *float32, n int)
