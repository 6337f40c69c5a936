//go:build amd64 || arm64

package kernel

import "sync"

// The tuned product works on tiles of c, (tileRows, tileCols), each computed
// in registers by one call of a micro-kernel over a block of k:
//
//	for every block of rows of c that fits the second-level cache
//	  for every block of k
//	    for every panel of tileCols columns of b: lay it out contiguously (first-level cache)
//	      for every tileRows rows of a: one micro-kernel call
//
// The micro-kernel accepts any two strides of a, so a and aᵀ are read in place; only
// rows beyond the last full tile are copied. Tiles that extend beyond the edge of c
// are computed in a spare tile.
const (
	maxTileRows = 12
	maxTileCols = 32
	blockRows   = 384 // a multiple of every tileRows
	blockK      = 320
)

// workspace is what one product needs besides its operands. It exceeds 32 KB,
// so that the allocator aligns it to pages, and panel to cache lines.
type workspace struct {
	panel    [blockK * maxTileCols]float32      // (k, tileCols)
	lastRows [blockK * maxTileRows]float32      // (k, lastTileRows), the last rows of a
	spare    [maxTileRows * maxTileCols]float32 // a tile that extends beyond the edge
}

var workspaces = sync.Pool{New: func() any { return new(workspace) }}

// leftFactor is a product's left factor: element (i, p) is data[i*rowStep+p*kStep].
type leftFactor struct {
	data           []float32
	rowStep, kStep int
}

func (l *leftFactor) at(i, p int) *float32 { return &l.data[i*l.rowStep+p*l.kStep] }

// product computes c = a·b or c += a·b, with a or b transposed.
func product(c, a, b *Matrix[float32], transA, transB, accumulate bool) {
	k, l := a.Cols, leftFactor{a.Data, a.Stride, 1}
	if transA {
		k, l = a.Rows, leftFactor{a.Data, 1, a.Stride}
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
	if transB && c.Rows*c.Cols <= 32 { // smaller than a tile, such as one query and a few keys
		for i := range c.Rows {
			for j := range c.Cols {
				sum := Dot(a.Row(i), b.Row(j))
				if accumulate {
					sum += c.Data[i*c.Stride+j]
				}
				c.Data[i*c.Stride+j] = sum
			}
		}
		return
	}
	if c.Rows <= 3 && c.Cols >= panelCols && !transA && !transB && !accumulate {
		fewRows(c, a, b)
		return
	}
	tiledProduct(c, b, &l, k, transB, accumulate)
}

// tiledProduct is product for operands of any size. b is (k, n), or transposed (n, k).
func tiledProduct(c, b *Matrix[float32], l *leftFactor, k int, transB, accumulate bool) {
	tileRows, tileCols := tileShape()
	blocks := (k + blockK - 1) / blockK
	depth := (k + blocks - 1) / blocks
	w := workspaces.Get().(*workspace)
	for i0 := 0; i0 < c.Rows; i0 += blockRows {
		i1 := min(i0+blockRows, c.Rows)
		for p0 := 0; p0 < k; p0 += depth {
			p1 := min(p0+depth, k)
			w.packLast(l, i0, i1, p0, p1, tileRows)
			for j0 := 0; j0 < c.Cols; j0 += tileCols {
				j1 := min(j0+tileCols, c.Cols)
				panel, panelRow := &w.panel[0], tileCols
				switch {
				case transB:
					packTransposed(w.panel[:], b.Data[j0*b.Stride+p0:], b.Stride, j1-j0, p1-p0, tileCols)
				case j1-j0 == tileCols && i1-i0 <= 2*tileRows: // used too few times to be worth a copy
					panel, panelRow = &b.Data[p0*b.Stride+j0], b.Stride
				default:
					packRows(w.panel[:], b.Data[p0*b.Stride+j0:], b.Stride, j1-j0, p1-p0, tileCols)
				}
				w.computeTiles(c, l, i0, i1, p0, p1, j0, j1, panel, panelRow, accumulate || p0 > 0)
			}
		}
	}
	workspaces.Put(w)
}

// fewRows computes c = a·b for 1 to 3 rows and at least 32 columns, such as a step's
// attention, without a copy of b. The last 32 columns may overlap the ones before.
func fewRows(c, a, b *Matrix[float32]) {
	for j := 0; j < c.Cols; j += panelCols {
		j := min(j, c.Cols-panelCols)
		rows32(c.Rows, a.Cols, &a.Data[0], a.Stride, &b.Data[j], b.Stride, &c.Data[j], c.Stride)
	}
}

// computeTiles computes rows i0..i1-1 and columns j0..j1-1 of c, one panel wide, from
// columns p0..p1-1 of l and the panel. packLast must have been called for these rows.
func (w *workspace) computeTiles(c *Matrix[float32], l *leftFactor, i0, i1, p0, p1, j0, j1 int, panel *float32, panelRow int,
	accumulate bool) {
	tileRows, tileCols := tileShape()
	full := i1 - (i1-i0)%tileRows
	for i := i0; i < full; i += tileRows {
		if j1-j0 == tileCols {
			tile(tileRows, p1-p0, l.at(i, p0), l.rowStep, l.kStep, panel, panelRow, &c.Data[i*c.Stride+j0], c.Stride, accumulate)
			continue
		}
		tile(tileRows, p1-p0, l.at(i, p0), l.rowStep, l.kStep, panel, panelRow, &w.spare[0], tileCols, false)
		w.copySpare(c, i, i+tileRows, j0, j1, tileCols, accumulate)
	}
	if full < i1 {
		lastRows := lastTileRows(i1 - full)
		tile(lastRows, p1-p0, &w.lastRows[0], 1, lastRows, panel, panelRow, &w.spare[0], tileCols, false)
		w.copySpare(c, full, i1, j0, j1, tileCols, accumulate)
	}
}

// copySpare writes the part of the spare tile that is inside c.
func (w *workspace) copySpare(c *Matrix[float32], i0, i1, j0, j1, tileCols int, accumulate bool) {
	for i := i0; i < i1; i++ {
		row := c.Data[i*c.Stride+j0:][:j1-j0]
		part := w.spare[(i-i0)*tileCols:][:j1-j0]
		if accumulate {
			for j, v := range part {
				row[j] += v
			}
		} else {
			copy(row, part)
		}
	}
}

// packLast copies the rows of l beyond the last full tile into w.lastRows (k,
// lastTileRows). Elements that the copy does not fill, here and in the panels, keep
// old values; these affect only parts of a tile that are not written to c.
func (w *workspace) packLast(l *leftFactor, i0, i1, p0, p1, tileRows int) {
	rows := (i1 - i0) % tileRows
	lastRows := lastTileRows(rows)
	for r := range rows {
		at := (i1-rows+r)*l.rowStep + p0*l.kStep
		for p := range p1 - p0 {
			w.lastRows[p*lastRows+r] = l.data[at]
			at += l.kStep
		}
	}
}

// packRows copies k rows of b, cols values each, into dst (k, tileCols).
func packRows(dst, b []float32, stride, cols, k, tileCols int) {
	if cols == tileCols {
		packFullRows(&dst[0], &b[0], stride, k)
		return
	}
	for p := range k {
		copy(dst[p*tileCols:], b[p*stride:][:cols])
	}
}

// packTransposed copies rows of b, k values each, into the columns of dst
// (k, tileCols), in blocks of 8 by 8. The last block of a row or column may
// overlap the one before.
func packTransposed(dst, b []float32, stride, rows, k, tileCols int) {
	if rows < 8 || k < 8 {
		for j := range rows {
			for p := range k {
				dst[p*tileCols+j] = b[j*stride+p]
			}
		}
		return
	}
	for j := 0; j < rows; j += 8 {
		j := min(j, rows-8)
		transpose8(&dst[j], tileCols, &b[j*stride], stride, k/8)
		if p := k - 8; k%8 != 0 {
			transpose8(&dst[p*tileCols+j], tileCols, &b[j*stride+p], stride, 1)
		}
	}
}

// addTuned converts the weights in registers, for up to three rows at a time. A panel
// stays in the cache while all rows use it; even for 100 rows that is faster than
// converting it once into memory.
func (p *Packed) addTuned(dst, x Matrix[float32]) {
	for j0 := 0; j0 < p.out; j0 += panelCols {
		panel := &p.data[j0*p.in]
		for i := 0; i < dst.Rows; i += 3 {
			rows := min(3, dst.Rows-i)
			if j0+panelCols <= p.out {
				addHalf(rows, p.in, &x.Data[i*x.Stride], x.Stride, panel, &dst.Data[i*dst.Stride+j0], dst.Stride)
				continue
			}
			var spare [3 * panelCols]float32
			addHalf(rows, p.in, &x.Data[i*x.Stride], x.Stride, panel, &spare[0], panelCols)
			for r := range rows {
				addNaive(dst.Row(i + r)[j0:], spare[r*panelCols:][:p.out-j0])
			}
		}
	}
}
