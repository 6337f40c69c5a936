package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/goccy/go-yaml"

	"prefdt/offline/belieftrain"
	"prefdt/offline/methods"
	"prefdt/offline/paper"
	"prefdt/offline/prefdttrain"
	"prefdt/offline/search"
	"prefdt/offline/study"
	"prefdt/offline/train"
)

// A commented file is where the defaults are read from and their documentation: it has every key,
// and its values pass the checks.
func TestFilesHaveEveryKey(t *testing.T) {
	estimator, published, tables, study := belieftrain.Default(), prefdttrain.Default(), paper.Default(), study.Default()
	searched, compared, trained := search.Default(), methods.Default(), train.Default()
	for file, defaults := range map[string]interface{ Check() error }{
		"estimator.yaml": &estimator, "methods.yaml": &compared, "prefdt.yaml": &published, "search.yaml": &searched,
		"train.yaml": &trained, "study.yaml": &study, "paper.yaml": &tables,
	} {
		if err := defaults.Check(); err != nil {
			t.Errorf("configs/%s: %v", file, err)
		}
		raw, err := os.ReadFile(filepath.Join("..", "configs", file))
		if err != nil {
			t.Fatal(err)
		}
		written, err := yaml.Marshal(defaults)
		if err != nil {
			t.Fatal(err)
		}
		var have, want map[string]any
		if err := yaml.Unmarshal(raw, &have); err != nil {
			t.Fatal(err)
		}
		if err := yaml.Unmarshal(written, &want); err != nil {
			t.Fatal(err)
		}
		if file == "paper.yaml" { // these have files of their own
			delete(want, "form")
			delete(want, "methods")
		}
		checkKeys(t, file, have, want)
	}
}

// checkKeys holds a file to have every key that is wanted.
func checkKeys(t *testing.T, path string, have, want map[string]any) {
	t.Helper()
	for key, value := range want {
		own, found := have[key]
		if !found {
			t.Errorf("configs/%s has no %s", path, key)
		}
		if below, ok := value.(map[string]any); ok {
			ownBelow, _ := own.(map[string]any)
			checkKeys(t, path+": "+key, ownBelow, below)
		}
	}
}
