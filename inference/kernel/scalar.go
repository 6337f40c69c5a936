package kernel

// The tuned kernels without vector instructions, for processors whose vector
// instructions Go's assembler does not have. An in-order core such as the Cortex-A7
// takes about eight cycles for a multiplication and addition but starts one in each
// cycle, so a row of a product is computed in eight independent sums, held in
// registers: on 32-bit ARM with 21 instructions for eight products, on others in Go.

// scalarCols is how many columns are computed at a time, and the width of a
// panel of weights converted at load: here conversion takes longer than multiplication.
const scalarCols = 8

// addRow is addEight for slices; it checks once that b is long enough.
func addRow(dst *[scalarCols]float32, x, b []float32, stride int) {
	if len(x) > 0 {
		_ = b[(len(x)-1)*stride+scalarCols-1]
		addEight(dst, &x[0], len(x), &b[0], stride)
	}
}

func matMulScalar(c, a, b *Matrix[float32], accumulate bool) {
	whole := c.Cols - c.Cols%scalarCols
	for i := range c.Rows {
		row, x := c.Row(i), a.Row(i)
		if !accumulate {
			clear(row)
		}
		for j := 0; j < whole; j += scalarCols {
			addRow((*[scalarCols]float32)(row[j:]), x, b.Data[min(j, len(b.Data)):], b.Stride)
		}
		for k, v := range x {
			addScaledNaive(row[whole:], v, b.Row(k)[whole:])
		}
	}
}

// addScalar is the tuned product with weights that were converted at load.
func (p *Packed) addScalar(dst, x Matrix[float32]) {
	for j := 0; j < p.out; j += scalarCols {
		panel := p.widened[j*p.in : (j+scalarCols)*p.in]
		for i := range dst.Rows { // while the panel is in the cache
			row := dst.Row(i)[j:]
			if len(row) >= scalarCols {
				addRow((*[scalarCols]float32)(row), x.Row(i), panel, scalarCols)
				continue
			}
			var spare [scalarCols]float32
			addRow(&spare, x.Row(i), panel, scalarCols)
			addNaive(row, spare[:len(row)])
		}
	}
}
