package world

import "math"

// purpose names a generator. Each draw is a pure function of the seed, its
// purpose and its indices, so no policy, fleet size or order of calls can
// change what another purpose draws.
type purpose uint64

const (
	purposePositions purpose = iota + 1
	purposeActive
	purposeTask
	purposeChannel
	purposeGust
	purposeReport
	purposeWind
	purposePayload
	purposeGroups
	purposeHotGroup
	purposeWalking
	purposeSurroundings
	purposeCPU
	purposeThrottling
	purposeActiveMemory
)

// stream is a SplitMix64 stream (Steele, Lea, Flood 2014).
type stream struct{ state uint64 }

func newStream(seed uint64, p purpose, slot, user, aircraft int) stream {
	h := mix(seed + 0x9e3779b97f4a7c15)
	for _, x := range [...]uint64{uint64(p), uint64(slot), uint64(user), uint64(aircraft)} {
		h = mix(h ^ mix(x+0x9e3779b97f4a7c15))
	}
	return stream{h}
}

func mix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// Uint64 implements rand.Source.
func (d *stream) Uint64() uint64 { return d.next() }

func (d *stream) next() uint64 {
	d.state += 0x9e3779b97f4a7c15
	return mix(d.state)
}

// uniform draws from [0, 1).
func (d *stream) uniform() float64 { return float64(d.next()>>11) / (1 << 53) }

// between draws from [low, high).
func (d *stream) between(low, high float64) float64 { return low + (high-low)*d.uniform() }

// intn draws from 0 to n-1; its bias, n/2^64, is far below any statistic here.
func (d *stream) intn(n int) int { return int(d.next() % uint64(n)) }

// normal draws from the standard normal distribution (Box-Muller).
func (d *stream) normal() float64 {
	r := math.Sqrt(-2 * math.Log(1-d.uniform()))
	return r * math.Cos(2*math.Pi*d.uniform())
}

// gamma draws from Gamma(m, 1/m), the power of Nakagami-m fading, for integer m.
func (d *stream) gamma(m int) float64 {
	product := 1.0
	for range m {
		product *= 1 - d.uniform()
	}
	return -math.Log(product) / float64(m)
}
