// Package export freezes a trained network. Inputs: its parameters and the
// manifest's constants and metrics. Outputs: a checkpoint's folder, policy.onnx
// and manifest.json, with weights rounded to float16. It is the last step of
// training ("offline export"); package checkpoint reads what it writes.
package export

import (
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"

	"prefdt/inference/checkpoint"
	"prefdt/inference/token"
	"prefdt/offline/command"
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
	for _, f := range []struct {
		name string
		data []byte
	}{{checkpoint.GraphFile, graph}, {checkpoint.ManifestFile, manifest}} {
		if err := command.ReplaceFile(filepath.Join(dir, f.name), func(w io.Writer) error { _, err := w.Write(f.data); return err }); err != nil {
			return fmt.Errorf("export: %w", err)
		}
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
