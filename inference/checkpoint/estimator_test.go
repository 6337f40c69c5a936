package checkpoint_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"prefdt/inference/belief/learned"
	"prefdt/inference/checkpoint"
	"prefdt/inference/physics"
	"prefdt/offline/export"
)

// withEstimator returns the files of the small checkpoint with an estimator in it.
func withEstimator(t testing.TB) (manifest, graph, estimator []byte) {
	manifest, graph = validCheckpoint(t)
	c, err := checkpoint.Decode(manifest, graph, nil)
	if err != nil {
		t.Fatal(err)
	}
	if c.Beliefs != nil || c.NewEstimator(learned.Surroundings{Physics: &c.Physics}) != nil {
		t.Fatal("a checkpoint without an estimator has one")
	}
	r := rand.New(rand.NewPCG(5, 5))
	p := learned.Parameters{Window: 7}
	for range learned.ParameterCount() {
		p.Data = append(p.Data, float32(0.3*r.NormFloat64()))
	}
	dir := t.TempDir()
	for name, data := range map[string][]byte{checkpoint.ManifestFile: manifest, checkpoint.GraphFile: graph} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := export.WriteEstimator(dir, checkpoint.Estimator{Training: map[string]float64{"flights": 3}}, &p); err != nil {
		t.Fatal(err)
	}
	loaded, err := checkpoint.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	if loaded.Beliefs.Window != 7 || loaded.NewEstimator(learned.Surroundings{Physics: &physics.Constants{}}) == nil ||
		loaded.Manifest.Estimator.Training["flights"] != 3 {
		t.Fatalf("loaded %+v", loaded.Manifest.Estimator)
	}
	var files [3][]byte
	for i, name := range []string{checkpoint.ManifestFile, checkpoint.GraphFile, checkpoint.EstimatorFile} {
		if files[i], err = os.ReadFile(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(files[1], graph) {
		t.Fatal("an estimator changed the policy's graph")
	}
	return files[0], files[1], files[2]
}

// What does not fit is refused, both sides named.
func TestHostileEstimators(t *testing.T) {
	manifest, graph, estimator := withEstimator(t)
	replace := func(old, new string) func(m, e []byte) ([]byte, []byte) {
		return func(m, e []byte) ([]byte, []byte) { return bytes.Replace(m, []byte(old), []byte(new), 1), e }
	}
	change := func(edit func([]protoField) []protoField, path ...int) func(m, e []byte) ([]byte, []byte) {
		return func(m, e []byte) ([]byte, []byte) {
			changed := editAt(e, edit, path...)
			return bytes.Replace(m, []byte(checkpoint.Hash(e)), []byte(checkpoint.Hash(changed)), 1), changed
		}
	}
	for _, c := range []struct {
		name, want string
		corrupt    func(m, e []byte) (manifest, estimator []byte)
	}{
		{"no file", "manifest.json names an estimator, and there is no estimator.onnx",
			func(m, _ []byte) ([]byte, []byte) { return m, nil }},
		{"a file too many", "estimator.onnx is there, and manifest.json names no estimator", func(m, e []byte) ([]byte, []byte) {
			i, j := bytes.Index(m, []byte(`"estimator": {`)), bytes.Index(m, []byte(`"training": {
    "loss"`))
			return append(bytes.Clone(m[:i]), m[j:]...), e
		}},
		{"another layout", fmt.Sprintf("estimator has layout 99, this program computes layout %d", learned.Layout),
			replace(fmt.Sprintf(`"layout": %d`, learned.Layout), `"layout": 99`)},
		{"a memory of nothing", "estimator has a memory of 0 slots, want 1 to", replace(`"window": 7`, `"window": 0`)},
		{"an endless memory", "memory of 1000000 slots", replace(`"window": 7`, `"window": 1000000`)},
		{"a figure that is no number", "number 1e999", replace(`"flights": 3`, `"flights": 1e999`)},
		{"one flipped bit", "SHA-256 is", func(m, e []byte) ([]byte, []byte) {
			e = bytes.Clone(e)
			e[len(e)/2] ^= 1
			return m, e
		}},
		{"the policy's graph", "SHA-256 is", func(m, _ []byte) ([]byte, []byte) { return m, graph }},
		{"the policy's graph under its hash", "input", func(m, e []byte) ([]byte, []byte) {
			return bytes.Replace(m, []byte(checkpoint.Hash(e)), []byte(checkpoint.Hash(graph)), 1), graph
		}},
		{"a weight that is no number", "want a finite number", change(setBytes(9, strings.Repeat("\xff\x7f", 17*48)), 7, 0, 5, 0)},
		{"other dimensions", "dimensions [48 17]", change(func(m []protoField) []protoField {
			m[0].value, m[1].value = m[1].value, m[0].value
			return m
		}, 7, 0, 5, 0)},
		{"another operator", "want Cast", change(func(m []protoField) []protoField { return setBytes(4, "Tanh")(removeField(5)(m)) }, 7, 0,
			1, 0)},
		{"an output less", "outputs", change(removeField(12), 7, 0)},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, e := c.corrupt(bytes.Clone(manifest), bytes.Clone(estimator))
			if bytes.Equal(m, manifest) && bytes.Equal(e, estimator) {
				t.Fatal("the case changes nothing")
			}
			if _, err := checkpoint.Decode(m, graph, e); err == nil || !strings.Contains(err.Error(), c.want) ||
				strings.Contains(err.Error(), "\n") {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// FuzzEstimator changes up to eight fields of a valid estimator, past its hash.
func FuzzEstimator(f *testing.F) {
	manifest, graph, estimator := withEstimator(f)
	for what := range byte(10) {
		f.Add([]byte{0, 0, 0, what, 1})
		f.Add([]byte{0, 9, 0, what, 1, 1, 0, 1, what, 2})
	}
	f.Fuzz(func(t *testing.T, edits []byte) {
		var all []*[]*fieldTree
		whole := parseTree("model", estimator, &all)
		for n := 0; len(edits) >= 5 && n < 8; n++ {
			editField(all, edits)
			edits = edits[5:]
		}
		changed := encodeTree(*whole)
		m := bytes.Replace(manifest, []byte(checkpoint.Hash(estimator)), []byte(checkpoint.Hash(changed)), 1)
		c, err := checkpoint.Decode(m, graph, changed)
		if err == nil && (c.Beliefs == nil || len(c.Beliefs.Data) != learned.ParameterCount()) {
			t.Error("accepted without its parameters")
		}
	})
}

// The shipped folder has an estimator, and is small enough to be sent to an aircraft.
func TestShippedFolder(t *testing.T) {
	const dir = "../../configs/checkpoint"
	c, err := checkpoint.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	if c.Beliefs == nil {
		t.Error("it has no estimator")
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	size := int64(0)
	for _, f := range files {
		info, err := f.Info()
		if err != nil {
			t.Fatal(err)
		}
		size += info.Size()
	}
	if size > 7e6 {
		t.Errorf("%d bytes, want at most 7 MB", size)
	}
}
