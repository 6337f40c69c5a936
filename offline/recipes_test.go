package main

import (
	"path/filepath"
	"reflect"
	"testing"

	"prefdt/configs"
	"prefdt/offline/belieftrain"
	"prefdt/offline/methods"
	"prefdt/offline/paper"
	"prefdt/offline/prefdttrain"
	"prefdt/offline/search"
	"prefdt/offline/study"
	"prefdt/offline/train"
)

// A commented file is the defaults' documentation, so it has the same values, and every key of its own.
func TestFilesAreTheDefaults(t *testing.T) {
	searched, tables := search.Default(), paper.Default()
	for file, want := range map[string]any{
		"estimator.yaml": belieftrain.Default(), "methods.yaml": methods.Default(), "prefdt.yaml": prefdttrain.Default(),
		"search.yaml": searched, "train.yaml": train.Default(), "study.yaml": study.Default(), "paper.yaml": tables,
	} {
		got := reflect.New(reflect.TypeOf(want))
		switch c := got.Interface().(type) { // what has a file of its own
		case *search.Config:
			c.World = searched.World
		case *paper.Config:
			c.Form, c.Methods = tables.Form, tables.Methods
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
