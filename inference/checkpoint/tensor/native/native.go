// Package native is empty. The tests of onnx-go's own backends import it, so go mod
// tidy looks for it; it is never built.
package native
