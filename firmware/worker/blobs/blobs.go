package main

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
)

// side is that of a tile in pixels; a tile of a byte for each is a unit of input.
const (
	side      = 32
	unitBytes = side * side
)

// find answers each tile with 8 bytes: u16 how many blobs there are, u16 pixels of the
// largest, u16 column and u16 row of its centre in 256ths of a pixel.
func find(input []byte) (output []byte, err error) {
	if len(input)%unitBytes != 0 {
		return nil, fmt.Errorf("%d bytes are not whole tiles of %d", len(input), unitBytes)
	}
	for ; len(input) > 0; input = input[unitBytes:] {
		blobs, pixels, column, row := largest(smooth(input[:unitBytes]))
		for _, x := range []int{blobs, pixels, column, row} {
			output = binary.LittleEndian.AppendUint16(output, uint16(x))
		}
	}
	return output, nil
}

// kernel is a binomial filter of 11 by 11 pixels.
var kernel = func() (k [11][11]int32) {
	row := [11]int32{1, 10, 45, 120, 210, 252, 210, 120, 45, 10, 1}
	for i := range k {
		for j := range k[i] {
			k[i][j] = row[i] * row[j]
		}
	}
	return k
}()

// kernelSum is 4 to the power of 10.
const kernelSum = 1 << 20

func smooth(tile []byte) (out [unitBytes]byte) {
	for y := range side {
		for x := range side {
			var sum int64
			for i := range kernel {
				for j := range kernel[i] {
					v, u := min(max(y+i-5, 0), side-1), min(max(x+j-5, 0), side-1)
					sum += int64(kernel[i][j]) * int64(tile[v*side+u])
				}
			}
			out[y*side+x] = byte(sum / kernelSum)
		}
	}
	return out
}

// bright is from when on a smoothed pixel is a blob's.
const bright = 96

// largest returns how many connected blobs a tile has, and the largest one's figures.
func largest(tile [unitBytes]byte) (blobs, most, column, row int) {
	var seen [unitBytes]bool
	var stack []int
	for start := range tile {
		if tile[start] < bright || seen[start] {
			continue
		}
		blobs++
		pixels, columns, rows := 0, 0, 0
		stack, seen[start] = append(stack[:0], start), true
		for len(stack) > 0 {
			at := stack[len(stack)-1]
			stack = stack[:len(stack)-1]
			x, y := at%side, at/side
			pixels, columns, rows = pixels+1, columns+x, rows+y
			for _, d := range [4][2]int{{1, 0}, {-1, 0}, {0, 1}, {0, -1}} {
				u, v := x+d[0], y+d[1]
				if n := v*side + u; u >= 0 && u < side && v >= 0 && v < side && !seen[n] && tile[n] >= bright {
					seen[n], stack = true, append(stack, n)
				}
			}
		}
		if pixels > most {
			most, column, row = pixels, 256*columns/pixels, 256*rows/pixels
		}
	}
	return blobs, most, column, row
}

// Generate draws tiles with noise and up to three blobs, and how many that were.
func generate(r *rand.Rand, tiles int) (image []byte, blobs []int) {
	for range tiles {
		tile := make([]byte, unitBytes)
		for i := range tile {
			tile[i] = byte(r.IntN(64))
		}
		n := r.IntN(4)
		for k := range n { // far enough from each other to stay apart
			cx, cy := 7+18*(k%2), 7+18*(k/2)
			for y := cy - 4; y <= cy+4; y++ {
				for x := cx - 4; x <= cx+4; x++ {
					tile[y*side+x] = byte(200 + r.IntN(56))
				}
			}
		}
		image, blobs = append(image, tile...), append(blobs, n)
	}
	return image, blobs
}
