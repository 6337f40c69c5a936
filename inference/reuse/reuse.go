// Package reuse keeps a slot's decision free of allocations: it reuses slices as
// working memory. Input: last slot's slice; output: a cleared one of the length
// wanted. Every package of the decision calls it.
package reuse

// Slice returns a slice of n zero values, in the memory of x if its capacity suffices.
func Slice[T any](x []T, n int) []T {
	if cap(x) < n {
		return make([]T, n)
	}
	x = x[:n]
	clear(x)
	return x
}
