//go:build race

package rig

// slowdown is how many times slower than real time the rig's clock runs: code
// under the race detector takes several times as long.
const slowdown = 3
