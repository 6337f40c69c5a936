package kernel

import (
	"sync"
	"unsafe"
)

// The tuned product works on tiles of c, (tileRows, tileCols), each computed
// in registers by one call of a micro-kernel over a block of k:
//
//	for every block of rows of c that fits the second-level cache
//	  for every block of k
//	    for every panel of tileCols columns of b: lay it out contiguously (first-level cache)
//	      for every tileRows rows of a: one micro-kernel call
//
// The micro-kernel takes any two strides of a, so a and aᵀ are read where
// they lie; only rows beyond the last full tile are copied, padded with
// zeros. Tiles that reach over the edge of c go through a spare tile.
const (
	maxTileRows = 12
	maxTileCols = 32
	blockRows   = 384 // a multiple of every tileRows
	blockK      = 320
)

// workspace is what one product needs besides its operands. It exceeds 32 KB,
// so that the allocator aligns it to pages, and panel to cache lines.
type workspace struct {
	panel [blockK * maxTileCols]float32      // (k, tileCols)
	last  [blockK * maxTileRows]float32      // (k, tileRows), the padded last rows of a
	spare [maxTileRows * maxTileCols]float32 // a tile that reaches over the edge
}

var workspaces = sync.Pool{New: func() any { return new(workspace) }}

// float32s returns m as a float32 matrix, or nil if its elements are wider.
func float32s[T Float](m *Matrix[T]) *Matrix[float32] {
	var x T
	if unsafe.Sizeof(x) != 4 {
		return nil
	}
	return (*Matrix[float32])(unsafe.Pointer(m))
}

// float32Row is float32s for a row.
func float32Row[T Float](row []T) []float32 {
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(row))), len(row))
}

// isTuned reports whether T has tuned kernels here.
func isTuned[T Float]() bool {
	var x T
	return unsafe.Sizeof(x) == 4 && active != generic
}

// product computes c = a·b or c += a·b, with a or b read transposed.
func product(c, a, b *Matrix[float32], transA, transB, accumulate bool) {
	k, rowStride, kStride := a.Cols, a.Stride, 1
	if transA {
		k, rowStride, kStride = a.Rows, 1, a.Stride
	}
	if c.Rows == 0 || c.Cols == 0 {
		return
	}
	if k == 0 {
		if !accumulate {
			for i := range c.Rows {
				clear(c.Row(i))
			}
		}
		return
	}
	tileRows, tileCols := tileShape()
	blocks := (k + blockK - 1) / blockK
	depth := (k + blocks - 1) / blocks
	w := workspaces.Get().(*workspace)
	for i0 := 0; i0 < c.Rows; i0 += blockRows {
		i1 := min(i0+blockRows, c.Rows)
		full := i1 - (i1-i0)%tileRows // rows in full tiles end here
		for p0 := 0; p0 < k; p0 += depth {
			p1 := min(p0+depth, k)
			add := accumulate || p0 > 0
			if full < i1 {
				packLast(w.last[:], a.Data[full*rowStride+p0*kStride:], rowStride, kStride, i1-full, p1-p0, tileRows)
			}
			for j0 := 0; j0 < c.Cols; j0 += tileCols {
				j1 := min(j0+tileCols, c.Cols)
				panel, panelStride := &w.panel[0], tileCols
				switch {
				case transB:
					packTransposed(w.panel[:], b.Data[j0*b.Stride+p0:], b.Stride, j1-j0, p1-p0, tileCols)
				case j1-j0 == tileCols && i1-i0 <= 2*tileRows: // too little reuse to pay for a copy
					panel, panelStride = &b.Data[p0*b.Stride+j0], b.Stride
				default:
					packRows(w.panel[:], b.Data[p0*b.Stride+j0:], b.Stride, j1-j0, p1-p0, tileCols)
				}
				for i := i0; i < i1; i += tileRows {
					left, leftRow, leftK := &w.last[0], 1, tileRows
					if i < full {
						left, leftRow, leftK = &a.Data[i*rowStride+p0*kStride], rowStride, kStride
					}
					if i < full && j1-j0 == tileCols {
						tile(p1-p0, left, leftRow, leftK, panel, panelStride, &c.Data[i*c.Stride+j0], c.Stride, add)
						continue
					}
					tile(p1-p0, left, leftRow, leftK, panel, panelStride, &w.spare[0], tileCols, false)
					for r := range min(tileRows, i1-i) {
						row := c.Data[(i+r)*c.Stride+j0:][:j1-j0]
						part := w.spare[r*tileCols:][:j1-j0]
						if add {
							for j, v := range part {
								row[j] += v
							}
						} else {
							copy(row, part)
						}
					}
				}
			}
		}
	}
	workspaces.Put(w)
}

// packLast copies rows of a, k values each, into dst (k, tileRows) and pads
// with zeros.
func packLast(dst, a []float32, rowStride, kStride, rows, k, tileRows int) {
	for p := range k {
		line := dst[p*tileRows:][:tileRows]
		for r := range rows {
			line[r] = a[r*rowStride+p*kStride]
		}
		clear(line[rows:])
	}
}

// packRows copies k rows of b, cols values each, into dst (k, tileCols) and
// pads with zeros.
func packRows(dst, b []float32, stride, cols, k, tileCols int) {
	if cols == tileCols {
		packFullRows(&dst[0], &b[0], stride, k)
		return
	}
	for p := range k {
		line := dst[p*tileCols:][:tileCols]
		copy(line, b[p*stride:][:cols])
		clear(line[cols:])
	}
}

// packTransposed copies rows of b, k values each, into the columns of dst
// (k, tileCols) and pads with zeros.
func packTransposed(dst, b []float32, stride, rows, k, tileCols int) {
	eights, kEights := rows&^7, k&^7
	for j := 0; j < eights && kEights > 0; j += 8 {
		transpose8(&dst[j], tileCols, &b[j*stride], stride, kEights/8)
	}
	for j := range rows {
		first := kEights
		if j >= eights {
			first = 0
		}
		for p := first; p < k; p++ {
			dst[p*tileCols+j] = b[j*stride+p]
		}
	}
	if rows < tileCols {
		for p := range k {
			clear(dst[p*tileCols+rows : (p+1)*tileCols])
		}
	}
}
