package kernel

import "fmt"

const panelCols = 32

// Packed is a weight matrix (in, out) arranged once, at load, for products with few
// rows: in panels of 32 columns, each contiguous along the inputs, the last one
// padded with zeros. The weights stay float16, which halves what a product has to
// read, and are converted in registers; where that is slow they are converted at
// load.
type Packed struct {
	in, out int
	data    []uint16  // (panels, in, panelCols)
	widened []float32 // (panels, in, scalarCols), instead
}

// PackFloat16 arranges w, float16 bits in row-major order (in, out).
func PackFloat16(w []uint16, in, out int) *Packed {
	if in < 0 || out < 0 || len(w) != in*out || in > 0 && len(w)/in != out {
		panic(fmt.Sprintf("kernel: PackFloat16: %d numbers for a %dx%d matrix", len(w), in, out))
	}
	if activeLevel == scalar {
		return &Packed{in: in, out: out, widened: packPanels(w, in, out, scalarCols, FromFloat16)}
	}
	return &Packed{in: in, out: out, data: packPanels(w, in, out, panelCols, func(h uint16) uint16 { return h })}
}

// packPanels arranges a matrix (in, out) in panels of cols columns, each contiguous
// along the inputs, the last one padded with zeros.
func packPanels[T any](w []uint16, in, out, cols int, convert func(uint16) T) []T {
	panels := (out + cols - 1) / cols
	packed := make([]T, panels*in*cols)
	for i := range in {
		for j := range out {
			packed[(j/cols*in+i)*cols+j%cols] = convert(w[i*out+j])
		}
	}
	return packed
}

// Size returns the shape of the weights.
func (p *Packed) Size() (in, out int) { return p.in, p.out }

// MatMul computes dst = x·W + bias. x is (rows, in), dst is (rows, out) and
// must not overlap x; bias is (out), or nil for none.
func (p *Packed) MatMul(dst, x Matrix[float32], bias []float32) {
	dst.check("Packed.MatMul")
	x.check("Packed.MatMul")
	if x.Cols != p.in || dst.Cols != p.out || dst.Rows != x.Rows {
		panic(fmt.Sprintf("kernel: Packed.MatMul: (%d, %d) times (%d, %d) into (%d, %d)",
			x.Rows, x.Cols, p.in, p.out, dst.Rows, dst.Cols))
	}
	if bias != nil {
		checkLen("Packed.MatMul", "bias", len(bias), p.out)
	}
	for i := range dst.Rows { // the product is added to the bias
		if row := dst.Row(i); bias != nil {
			copy(row, bias)
		} else {
			clear(row)
		}
	}
	if dst.Rows == 0 || p.in == 0 || p.out == 0 {
		return
	}
	switch {
	case p.widened != nil:
		p.addScalar(dst, x)
	case isTuned[float32]():
		p.addTuned(dst, x)
	default:
		p.addNaive(dst, x)
	}
}

// addNaive is the reference: dst += x·W.
func (p *Packed) addNaive(dst, x Matrix[float32]) {
	var line [panelCols]float32
	for j0 := 0; j0 < p.out; j0 += panelCols {
		j1 := min(j0+panelCols, p.out)
		for k := range p.in {
			for j, h := range p.data[j0*p.in+k*panelCols:][:panelCols] {
				line[j] = FromFloat16(h)
			}
			for i := range dst.Rows {
				addScaledNaive(dst.Row(i)[j0:j1], x.Data[i*x.Stride+k], line[:j1-j0])
			}
		}
	}
}
