//go:build !race

package rig

// slowdown is how many times slower than real time the rig's clock runs.
const slowdown = 1
