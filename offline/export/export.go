// Package export freezes trained networks. Inputs: the parameters of the policy, those
// of an estimator of beliefs if there is one, and the manifest's constants and metrics.
// Outputs: a checkpoint's folder, policy.onnx, estimator.onnx and manifest.json, with
// weights rounded to float16. It is the last step of training ("offline export");
// package checkpoint reads what it writes.
package export

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"prefdt/inference/belief/learned"
	"prefdt/inference/checkpoint"
	"prefdt/inference/model"
	"prefdt/inference/token"
	"prefdt/offline/command"
)

// Write writes a checkpoint, with an estimator unless beliefs is nil. It fills in the
// manifest's format, the graphs' hashes, the names of the features and the estimator's
// layout and window, and refuses what Load would. Equal arguments give equal bytes. Each
// file appears whole or not at all; the manifest comes last, so that a write cut short
// leaves a hash that does not match rather than weights under another network's constants.
func Write(dir string, m checkpoint.Manifest, parameters []float32, beliefs *learned.Parameters) error {
	manifest, graph, estimator, err := Encode(m, parameters, beliefs)
	if err != nil {
		return fmt.Errorf("export to %s: %w", dir, err)
	}
	return write(dir, map[string][]byte{checkpoint.GraphFile: graph, checkpoint.EstimatorFile: estimator,
		checkpoint.ManifestFile: manifest})
}

// WriteEstimator puts an estimator, with what record says of its training, into a
// checkpoint that there is, in place of the one it has.
func WriteEstimator(dir string, record checkpoint.Estimator, beliefs *learned.Parameters) error {
	m, graph, err := ReadPolicy(dir)
	if err != nil {
		return err
	}
	m.Estimator = &record
	manifest, estimator, err := encode(*m, graph, beliefs)
	if err != nil {
		return fmt.Errorf("export to %s: %w", dir, err)
	}
	return write(dir, map[string][]byte{checkpoint.EstimatorFile: estimator, checkpoint.ManifestFile: manifest})
}

// ReadPolicy returns the manifest and the graph of a checkpoint without its estimator,
// which may be one that this program no longer reads.
func ReadPolicy(dir string) (*checkpoint.Manifest, []byte, error) {
	raw, err := os.ReadFile(filepath.Join(dir, checkpoint.ManifestFile))
	if err != nil {
		return nil, nil, err
	}
	graph, err := os.ReadFile(filepath.Join(dir, checkpoint.GraphFile))
	if err != nil {
		return nil, nil, err
	}
	var m checkpoint.Manifest
	if err = json.Unmarshal(bytes.TrimPrefix(raw, []byte("\ufeff")), &m); err == nil { // a byte order mark, of an editor
		m.Estimator = nil
		raw, err = json.Marshal(&m)
	}
	var c *checkpoint.Checkpoint
	if err == nil {
		c, err = checkpoint.Decode(raw, graph, nil)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("checkpoint %s: %w", dir, err)
	}
	return &c.Manifest, graph, nil
}

func write(dir string, files map[string][]byte) error {
	for _, name := range []string{checkpoint.GraphFile, checkpoint.EstimatorFile, checkpoint.ManifestFile} {
		data, given := files[name]
		if !given {
			continue
		}
		path := filepath.Join(dir, name)
		if data == nil {
			if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("export: %w", err)
			}
			continue
		}
		if err := command.ReplaceFile(path, func(w io.Writer) error { _, err := w.Write(data); return err }); err != nil {
			return fmt.Errorf("export: %w", err)
		}
	}
	return nil
}

// Encode returns the bytes of the files.
func Encode(m checkpoint.Manifest, parameters []float32, beliefs *learned.Parameters) (manifest, graph, estimator []byte, err error) {
	var form interface {
		Check() error
		Parameters() int
		Graph() *model.Graph
	} = m.Arch
	if m.Published != nil {
		form = &m.Published.Form
	}
	if err := form.Check(); err != nil {
		return nil, nil, nil, err
	}
	if n := form.Parameters(); len(parameters) != n {
		return nil, nil, nil, fmt.Errorf("%d parameters, this architecture has %d", len(parameters), n)
	}
	graph = EncodeGraph(form.Graph(), parameters)
	manifest, estimator, err = encode(m, graph, beliefs)
	return manifest, graph, estimator, err
}

// encode returns the files beside a policy's graph.
func encode(m checkpoint.Manifest, graph []byte, beliefs *learned.Parameters) (manifest, estimator []byte, err error) {
	m.Format, m.GraphSHA256 = checkpoint.Format, checkpoint.Hash(graph)
	if m.Published == nil {
		m.Features = token.Features()
	}
	if beliefs == nil {
		m.Estimator = nil
	} else {
		if n := learned.ParameterCount(); len(beliefs.Data) != n {
			return nil, nil, fmt.Errorf("%d parameters of an estimator, want %d", len(beliefs.Data), n)
		}
		estimator = EncodeGraph(learned.Graph(), beliefs.Data)
		var e checkpoint.Estimator
		if m.Estimator != nil {
			e = *m.Estimator
		}
		e.GraphSHA256, e.Layout, e.Window = checkpoint.Hash(estimator), learned.Layout, beliefs.Window
		m.Estimator = &e
	}
	if err := m.Check(); err != nil {
		return nil, nil, err
	}
	if manifest, err = json.MarshalIndent(&m, "", "  "); err != nil {
		return nil, nil, err
	}
	manifest = append(manifest, '\n')
	_, err = checkpoint.Decode(manifest, graph, estimator)
	return manifest, estimator, err
}
