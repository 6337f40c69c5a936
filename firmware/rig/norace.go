//go:build !race

package rig

// slowdown is how many times slower than the machine's the rig's clock runs.
const slowdown = 1
