package main

import (
	"path/filepath"
	"reflect"
	"testing"

	"prefdt/configs"
	"prefdt/offline/belieftrain"
	"prefdt/offline/methods"
	"prefdt/offline/prefdttrain"
	"prefdt/offline/search"
	"prefdt/offline/train"
)

// A commented file is the defaults' documentation, so it must have the same values.
func TestRecipesAreTheDefaults(t *testing.T) {
	searched := search.Default()
	for file, want := range map[string]any{
		"estimator.yaml": belieftrain.Default(), "methods.yaml": methods.Default(), "prefdt.yaml": prefdttrain.Default(),
		"search.yaml": searched, "train.yaml": train.Default(),
	} {
		got := reflect.New(reflect.TypeOf(want))
		if c, ok := got.Interface().(*search.Config); ok {
			c.World = searched.World // which has a file of its own
		}
		if err := configs.Load(filepath.Join("..", "configs", file), got.Interface()); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got.Elem().Interface(), want) {
			t.Errorf("configs/%s is %+v, want the defaults %+v", file, got.Elem(), want)
		}
		if c, ok := got.Interface().(interface{ Check() error }); ok && c.Check() != nil {
			t.Errorf("configs/%s: %v", file, c.Check())
		}
	}
}
