package datagram

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"
)

// frame is a frame of version 2 with so many bytes of payload, none of which begins another.
func frame(payload int, fill byte) []byte {
	b := append([]byte{magicV2, byte(payload), 0}, bytes.Repeat([]byte{fill}, overheadV2-headerBytes+payload)...)
	return b
}

func readAll(f *frames) (all [][]byte) {
	for p := f.next(); p != nil; p = f.next() {
		all = append(all, p)
	}
	return all
}

// However a stream is cut into datagrams, each of its frames is read.
func TestAnyCutIsRead(t *testing.T) {
	var stream []byte
	var want [][]byte
	for i := range 60 {
		x := frame(i*4, byte(i))
		switch i % 3 {
		case 1:
			x = append([]byte{magicV1, byte(i), 7}, bytes.Repeat([]byte{byte(i)}, i+overheadV1-headerBytes)...)
		case 2:
			x[2] = signedFlag
			x = append(x, bytes.Repeat([]byte{byte(i)}, signatureBytes)...)
		}
		stream, want = append(stream, x...), append(want, x)
	}
	r := rand.New(rand.NewPCG(1, 1))
	for range 300 {
		var f frames
		var got [][]byte
		for left := stream; len(left) > 0; {
			n := 1 + r.IntN(min(700, len(left)))
			f.add(slices.Clone(left[:n]))
			got, left = append(got, readAll(&f)...), left[n:]
		}
		if !slices.EqualFunc(got, want, bytes.Equal) {
			t.Fatalf("%d pieces of %d frames", len(got), len(want))
		}
	}
}

// A datagram that is lost, or is no frame, costs what it held and the frame that was cut.
func TestWhatIsLostCostsNoMore(t *testing.T) {
	a, b, c := frame(9, 1), frame(30, 2), frame(5, 3)
	for name, x := range map[string]struct {
		datagrams [][]byte
		want      [][]byte
	}{
		"the end of a frame":       {[][]byte{slices.Concat(a, b[:20]), slices.Concat(c, a)}, [][]byte{a, c, a}},
		"the end, and another cut": {[][]byte{slices.Concat(a, b[:20]), slices.Concat(c, a, b[:4]), b[4:]}, [][]byte{a, c, a, b}},
		"the beginning":            {[][]byte{b[20:], a}, [][]byte{a}},
		"noise":                    {[][]byte{[]byte("\r\nNSH> "), a}, [][]byte{a}},
		"noise like a frame":       {[][]byte{{magicV2, 255, 0, 1}, slices.Concat(a, c)}, [][]byte{a, c}},
		"what is padded":           {[][]byte{append(slices.Clone(a), 0, 0, 0), c}, [][]byte{a, c}},
	} {
		var f frames
		var got [][]byte
		for _, d := range x.datagrams {
			f.add(slices.Clone(d))
			got = append(got, readAll(&f)...)
		}
		got = slices.DeleteFunc(got, func(p []byte) bool { return len(p) < headerBytes || frameBytes(p) != len(p) })
		if !slices.EqualFunc(got, x.want, bytes.Equal) {
			t.Errorf("%s: %x, want %x", name, got, x.want)
		}
	}
}

// Whatever arrives, no byte is read twice and little is kept.
func FuzzFrames(f *testing.F) {
	f.Add([]byte{magicV2, 1}, []byte{0, 0, magicV1})
	f.Add(frame(3, 4), frame(255, magicV2))
	f.Fuzz(func(t *testing.T, first, second []byte) {
		var x frames
		total := 0
		for _, d := range [][]byte{first, second} {
			x.add(slices.Clone(d))
			for _, p := range readAll(&x) {
				if total += len(p); len(p) == 0 || len(p) > maxFrameBytes {
					t.Fatalf("a piece of %d bytes", len(p))
				}
			}
		}
		if total+len(x.rest) > len(first)+len(second) || len(x.rest) >= maxFrameBytes {
			t.Fatalf("%d bytes read and %d kept of %d", total, len(x.rest), len(first)+len(second))
		}
	})
}
