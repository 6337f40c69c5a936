// Package native is empty. Tests of onnx-go's own backends name it, which go
// mod tidy looks up and we never build.
package native
