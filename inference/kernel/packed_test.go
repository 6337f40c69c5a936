package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// randomFloat16s returns n float16 numbers, subnormal ones among them.
func randomFloat16s(r *rand.Rand, n int) []uint16 {
	w := make([]uint16, n)
	for i := range w {
		w[i] = ToFloat16(float32(r.NormFloat64()))
		if r.IntN(20) == 0 {
			w[i] &= 0x83ff
		}
	}
	return w
}

func TestPackedMatMul(t *testing.T) {
	eachLevel(t, func(l level) {
		r := newRand()
		shapes := [][3]int{{1, 1, 1}, {3, 256, 1024}, {128, 400, 96}, {0, 5, 5}, {5, 0, 5}, {5, 5, 0}, {13, 33, 31}}
		for range 60 {
			shapes = append(shapes, [3]int{1 + r.IntN(30), 1 + r.IntN(90), 1 + r.IntN(100)})
		}
		for n, s := range shapes {
			rows, in, out := s[0], s[1], s[2]
			what := fmt.Sprintf("%s %v", l, s)
			w := randomFloat16s(r, in*out)
			normal := func(int) float32 { return float32(r.NormFloat64()) }
			x, dst := stridedMatrix(r, rows, in, normal), stridedMatrix(r, rows, out, normal)
			var bias []float32
			if n%2 == 0 {
				bias = randomSlice[float32](r, out)
			}
			PackFloat16(w, in, out).MatMul(dst, x, bias)
			checkGuards(t, what, dst)
			for i := range rows {
				for j := range out {
					var want float64
					if bias != nil {
						want = float64(bias[j])
					}
					for k := range in {
						want += float64(x.Row(i)[k]) * float64(FromFloat16(w[k*out+j]))
					}
					if v := dst.Row(i)[j]; math.Abs(float64(v)-want) > 2e-6*math.Sqrt(float64(in+1))*(1+math.Abs(want)) {
						t.Fatalf("%s: element (%d, %d) is %g, want %g", what, i, j, v, want)
					}
				}
			}
		}
	})
}

func TestPackedMisuse(t *testing.T) {
	mustPanic(t, "too few weights", func() { PackFloat16(make([]uint16, 5), 2, 3) })
	mustPanic(t, "sizes that overflow", func() { PackFloat16(nil, math.MaxInt/2+1, 4) })
	p := PackFloat16(make([]uint16, 6), 2, 3)
	dst, x := View(make([]float32, 6), 2, 3), View(make([]float32, 4), 2, 2)
	mustPanic(t, "wrong input width", func() { p.MatMul(dst, dst, nil) })
	mustPanic(t, "wrong output width", func() { p.MatMul(x, x, nil) })
	mustPanic(t, "short bias", func() { p.MatMul(dst, x, make([]float32, 2)) })
}

func TestPackedDoesNotAllocate(t *testing.T) {
	eachLevel(t, func(l level) {
		r := newRand()
		p := PackFloat16(randomFloat16s(r, 64*96), 64, 96)
		bias := make([]float32, 96)
		for _, rows := range []int{1, 3, 40} {
			x, dst := View(randomSlice[float32](r, rows*64), rows, 64), View(make([]float32, rows*96), rows, 96)
			p.MatMul(dst, x, bias)
			if n := testing.AllocsPerRun(100, func() { p.MatMul(dst, x, bias) }); n != 0 {
				t.Errorf("%s, %d rows: %g allocations", l, rows, n)
			}
		}
	})
}

// Every float16 converts to its value and rounds back to itself, and the processor's
// conversion agrees.
func TestEveryFloat16(t *testing.T) {
	all := make([]uint16, 1<<16)
	for i := range all {
		h := uint16(i)
		all[i] = h
		exponent, fraction := int(h>>10&31), float64(h&0x3ff)
		var want float64
		switch exponent {
		case 31:
			want = math.Inf(1)
			if fraction != 0 {
				want = math.NaN()
			}
		case 0:
			want = math.Ldexp(fraction, -24)
		default:
			want = math.Ldexp(1024+fraction, exponent-25)
		}
		if h&0x8000 != 0 {
			want = -want
		}
		got := FromFloat16(h)
		if math.IsNaN(want) {
			if got == got || ToFloat16(got)|0x200 != h|0x200 {
				t.Fatalf("Widen(%#04x) = %g and back %#04x, want NaN", h, got, ToFloat16(got))
			}
			continue
		}
		if float64(got) != want || math.Signbit(float64(got)) != math.Signbit(want) {
			t.Fatalf("Widen(%#04x) = %g, want %g", h, got, want)
		}
		if back := ToFloat16(got); back != h {
			t.Fatalf("ToFloat16(FromFloat16(%#04x)) = %#04x", h, back)
		}
	}
	eachLevel(t, func(l level) {
		dst := View(make([]float32, len(all)), 1, len(all))
		PackFloat16(all, 1, len(all)).MatMul(dst, View([]float32{1}, 1, 1), nil)
		for i, v := range dst.Data {
			if want := FromFloat16(all[i]); v != want && (v == v || want == want) {
				t.Fatalf("%s widens %#04x to %g, want %g", l, i, v, want)
			}
		}
	})
}

// ToFloat16 rounds to nearest, ties to even: between any two neighbours the middle
// rounds to the even one, and one step beside it to the nearer.
func TestToFloat16Rounds(t *testing.T) {
	for h := uint16(0); h < 0x7c00; h++ {
		low := float64(FromFloat16(h))
		high := float64(FromFloat16(h + 1))
		if h+1 == 0x7c00 {
			high = 65536
		}
		middle := float32((low + high) / 2)
		even := h + h&1
		for _, c := range []struct {
			f    float32
			want uint16
		}{{middle, even}, {math.Nextafter32(middle, 0), h}, {math.Nextafter32(middle, 1e9), h + 1}} {
			if got := ToFloat16(c.f); got != c.want {
				t.Fatalf("ToFloat16(%.9g) = %#04x, want %#04x", c.f, got, c.want)
			}
			if got := ToFloat16(-c.f); got != c.want|0x8000 {
				t.Fatalf("ToFloat16(%.9g) = %#04x, want %#04x", -c.f, got, c.want|0x8000)
			}
		}
	}
	if got := ToFloat16(float32(math.Inf(-1))); got != 0xfc00 {
		t.Errorf("ToFloat16(-Inf) = %#04x", got)
	}
}
