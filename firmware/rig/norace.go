//go:build !race

package rig

// stretch is how many times slower than the machine's the rig's clock runs.
const stretch = 1
