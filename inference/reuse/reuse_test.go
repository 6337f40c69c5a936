package reuse

import "testing"

func TestSlice(t *testing.T) {
	x := Slice([]int(nil), 3)
	copy(x, []int{1, 2, 3})
	for _, n := range []int{2, 0, 3} {
		y := Slice(x, n)
		if len(y) != n || &y[:1][0] != &x[0] {
			t.Errorf("%d of 3 are %d elsewhere", n, len(y))
		}
		for i, v := range y {
			if v != 0 {
				t.Errorf("element %d of %d is %d", i, n, v)
			}
		}
	}
	if y := Slice(x, 4); len(y) != 4 {
		t.Errorf("4 are %d", len(y))
	}
}
