package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"prefdt/configs"
	"prefdt/offline/belieftrain"
	"prefdt/offline/methods"
	"prefdt/offline/offlinetest"
	"prefdt/offline/paper"
	"prefdt/offline/prefdttrain"
	"prefdt/offline/search"
	"prefdt/offline/study"
	"prefdt/offline/train"
)

// settings can be checked.
type settings interface{ Check() error }

// files are the commented files, each with what it configures.
var files = map[string]func() settings{
	"estimator.yaml": func() settings { c := belieftrain.Default(); return &c },
	"methods.yaml":   func() settings { c := methods.Default(); return &c },
	"paper.yaml":     func() settings { c := paper.Default(); return &c },
	"prefdt.yaml":    func() settings { c := prefdttrain.Default(); return &c },
	"search.yaml":    func() settings { c := search.Default(); return &c },
	"study.yaml":     func() settings { c := study.Default(); return &c },
	"train.yaml":     func() settings { c := train.Default(); return &c },
}

// A commented file is where the defaults are read from and their documentation: it has every key,
// and its values pass the checks.
func TestFilesHaveEveryKey(t *testing.T) {
	for file, newSettings := range files {
		defaults := newSettings()
		if err := defaults.Check(); err != nil {
			t.Errorf("configs/%s: %v", file, err)
		}
		raw := offlinetest.Must(os.ReadFile(filepath.Join("..", "configs", file)))(t)
		written := offlinetest.Must(yaml.Marshal(defaults))(t)
		var have, want map[string]any
		offlinetest.NoError(t, yaml.Unmarshal(raw, &have))
		offlinetest.NoError(t, yaml.Unmarshal(written, &want))
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

// FuzzSettings reads any text as each of the files. A mistake is one line; what passes can be written
// into a run's state.
func FuzzSettings(f *testing.F) {
	for file := range files {
		whole, err := os.ReadFile(filepath.Join("..", "configs", file))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(file, whole)
	}
	for file, texts := range map[string][]string{
		"search.yaml": {"population: 1\n", "seeds: '1000000:1000002'\n", "seeds: '-1'\n"},
		"train.yaml": {"arch: {width: 1e9}\n", "arch: {heads: 0}\n", "workers: 17\n", "schedule: {steps: 0}\n", "weights: {price: .nan}\n",
			"schedule: {rate: .inf}\n", "arch: {width: 128, pair_width: 64, layers: 3, heads: 4, context: 20}\nbatch: 16\nworkers: 2\n"},
	} {
		for _, text := range texts {
			f.Add(file, []byte(text))
		}
	}
	f.Fuzz(func(t *testing.T, file string, raw []byte) {
		newSettings, found := files[file]
		if !found {
			return
		}
		c := newSettings()
		err := configs.Decode(raw, c)
		if err == nil {
			err = c.Check()
		}
		if err != nil {
			if strings.ContainsAny(err.Error(), "\n\r") {
				t.Fatalf("%q is more than a line", err)
			}
			return
		}
		if _, err := json.Marshal(c); err != nil {
			t.Fatal(err)
		}
	})
}
