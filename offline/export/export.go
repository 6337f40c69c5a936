// Package export freezes a trained network: parameters and figures come in, a
// checkpoint's folder goes out, policy.onnx and manifest.json. Weights are
// rounded to float16. It is the last step of training; package checkpoint
// reads what it writes.
package export

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"prefdt/inference/checkpoint"
	"prefdt/inference/token"
)

// Write writes a checkpoint. It fills in the manifest's format, the graph's
// hash and the names of the features, and refuses what Load would. Equal
// arguments give equal bytes. Each file appears whole or not at all; the
// manifest comes last, so that a write cut short leaves a hash that does not
// match rather than weights under another network's constants.
func Write(dir string, m checkpoint.Manifest, parameters []float32) error {
	manifest, graph, err := Encode(m, parameters)
	if err != nil {
		return fmt.Errorf("export to %s: %w", dir, err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("export: %w", err)
	}
	if err := writeFile(filepath.Join(dir, checkpoint.GraphFile), graph); err != nil {
		return fmt.Errorf("export: %w", err)
	}
	if err := writeFile(filepath.Join(dir, checkpoint.ManifestFile), manifest); err != nil {
		return fmt.Errorf("export: %w", err)
	}
	return nil
}

// Encode returns the bytes of both files.
func Encode(m checkpoint.Manifest, parameters []float32) (manifest, graph []byte, err error) {
	m.Format, m.Features = checkpoint.Format, token.Features()
	if err := m.Check(); err != nil {
		return nil, nil, err
	}
	if n := m.Arch.Parameters(); len(parameters) != n {
		return nil, nil, fmt.Errorf("%d parameters, this architecture has %d", len(parameters), n)
	}
	graph = EncodeGraph(m.Arch.Graph(), parameters)
	m.GraphSHA256 = checkpoint.Hash(graph)
	if manifest, err = json.MarshalIndent(&m, "", "  "); err != nil {
		return nil, nil, err
	}
	manifest = append(manifest, '\n')
	_, err = checkpoint.Decode(manifest, graph)
	return manifest, graph, err
}

// writeFile replaces a file through a synced temporary one.
func writeFile(path string, data []byte) error {
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // after the rename there is nothing to remove
	_, err = f.Write(data)
	if err := errors.Join(err, f.Chmod(0o644), f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func sortedKeys(m map[string]any) []string { return slices.Sorted(maps.Keys(m)) }
