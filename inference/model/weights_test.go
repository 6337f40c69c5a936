package model

import (
	"reflect"
	"testing"
)

// The list has every field of the weights once, and the tensors their names.
func TestWeightsListEveryField(t *testing.T) {
	a := Arch{Width: 16, PairWidth: 8, Layers: 3, Heads: 2, Context: 4}
	w := a.Layout()
	fields := map[*Tensor]bool{}
	var visit func(reflect.Value)
	visit = func(v reflect.Value) {
		if t, ok := v.Addr().Interface().(*Tensor); ok {
			fields[t] = false
			return
		}
		if v.Kind() == reflect.Slice {
			for i := range v.Len() {
				visit(v.Index(i))
			}
			return
		}
		for i := range v.NumField() {
			visit(v.Field(i))
		}
	}
	visit(reflect.ValueOf(w).Elem())
	names, size := map[string]bool{}, 0
	for _, tensor := range w.List() {
		if listed, known := fields[tensor]; !known || listed {
			t.Errorf("%q is listed twice or is no field", tensor.Name)
		}
		fields[tensor] = true
		if tensor.Name == "" || names[tensor.Name] || tensor.Size() == 0 {
			t.Errorf("tensor %+v has no name, another's name, or no size", *tensor)
		}
		names[tensor.Name] = true
		size += tensor.Size()
	}
	for tensor, listed := range fields {
		if !listed {
			t.Errorf("%q is not listed", tensor.Name)
		}
	}
	if len(fields) != 45+12*a.Layers || size != a.Parameters() {
		t.Errorf("%d fields of %d values, want %d and %d", len(fields), size, 45+12*a.Layers, a.Parameters())
	}
}
