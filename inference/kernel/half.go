package kernel

import "math"

// ToFloat16 rounds f to float16, to nearest and ties to even, and returns its bits.
// Numbers of 65520 and more become infinite.
func ToFloat16(f float32) uint16 {
	bits := math.Float32bits(f)
	sign := uint16(bits>>16) & 0x8000
	bits &= 0x7fffffff
	switch {
	case bits > 0x7f800000: // NaN: keep it quiet, with the top of its payload
		return sign | 0x7e00 | uint16(bits>>13)&0x3ff
	case bits >= 0x477ff000: // 65520
		return sign | 0x7c00
	case bits < 0x38800000: // 2^-14: the addition rounds to multiples of 2^-24
		return sign | uint16(math.Float32bits(math.Float32frombits(bits)+0.5)-math.Float32bits(0.5))
	}
	bits += 0xfff + bits>>13&1
	return sign | uint16((bits-112<<23)>>13)
}

// FromFloat16 returns the value of a float16, given its bits.
func FromFloat16(h uint16) float32 {
	sign := uint32(h&0x8000) << 16
	magnitude := uint32(h & 0x7fff)
	switch {
	case magnitude > 0x7c00: // NaN, made quiet as processors do
		return math.Float32frombits(sign | 0x7fc00000 | magnitude<<13)
	case magnitude == 0x7c00:
		return math.Float32frombits(sign | 0x7f800000)
	case magnitude < 0x400: // subnormal: a multiple of 2^-24
		return math.Float32frombits(sign | math.Float32bits(float32(magnitude)*0x1p-24))
	}
	return math.Float32frombits(sign | (magnitude<<13 + 112<<23))
}
