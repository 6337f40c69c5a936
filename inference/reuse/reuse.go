// Package reuse gives working memory out again.
package reuse

// Slice returns n zero values, in the memory of x if that holds as many.
func Slice[T any](x []T, n int) []T {
	if cap(x) < n {
		return make([]T, n)
	}
	x = x[:n]
	clear(x)
	return x
}
