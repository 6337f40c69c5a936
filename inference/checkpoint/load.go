// Package checkpoint loads a trained policy.
//
// Input: a folder of policy.onnx, the graph of one step with its weights, of
// estimator.onnx, the networks of the estimator of beliefs, if it has one, and of
// manifest.json, everything else. Output: a network ready to step, the estimator's
// parameters and the constants that both were trained with. The leader and the offline
// commands call it at start; nothing here runs in flight.
//
// A checkpoint is not trusted. The files are read up to a size, each graph's hash is
// compared with the manifest's, its bytes are parsed with every count and size
// checked (wire.go), then onnx-go decodes it (backend.go), and the decoded graph
// must be, node for node, the one that package model describes for the manifest's
// architecture, or package learned for its estimator (verify.go). Only then are its
// weights used.
package checkpoint

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"prefdt/inference/belief"
	"prefdt/inference/belief/learned"
	"prefdt/inference/model"
	"prefdt/inference/prefdt"
)

// Names of the files in a checkpoint's folder.
const (
	GraphFile     = "policy.onnx"
	EstimatorFile = "estimator.onnx"
	ManifestFile  = "manifest.json"
)

// DefaultFolder is the shipped checkpoint's, beside the programs' own configurations.
const DefaultFolder = "configs/checkpoint"

// Files larger than this are refused without reading them. A graph has a few MB.
const (
	maxGraphBytes    = 16 << 20
	maxManifestBytes = 1 << 20
)

// Checkpoint is a loaded policy: its manifest, its network and what its estimator learned.
type Checkpoint struct {
	Manifest
	Net     *model.Net          // nil in the published form
	Paper   *prefdt.Net         // nil in the shipped form
	Beliefs *learned.Parameters // nil: it has no estimator
}

// NewEstimator returns the checkpoint's estimator of beliefs for a mission, or nil if it
// has none: then every report is taken as exact, in calm air.
func (c *Checkpoint) NewEstimator(s learned.Surroundings) belief.Estimator {
	if c.Beliefs == nil {
		return nil
	}
	return learned.New(s, c.Beliefs)
}

// readNetwork reads the files of a checkpoint's network.
func readNetwork(dir string) (manifest, graph []byte, err error) {
	if manifest, err = readLimited(filepath.Join(dir, ManifestFile), maxManifestBytes); err != nil {
		return nil, nil, err
	}
	graph, err = readLimited(filepath.Join(dir, GraphFile), maxGraphBytes)
	return manifest, graph, err
}

// Parameters reads a checkpoint's manifest and the parameters of its network, in the order of
// its tensors: what training may go on from.
func Parameters(dir string) (*Manifest, []float32, error) {
	manifest, graph, err := readNetwork(dir)
	if err != nil {
		return nil, nil, err
	}
	m, parameters, err := decodeNetwork(manifest, graph)
	if err != nil {
		return nil, nil, fmt.Errorf("checkpoint %s: %w", dir, err)
	}
	return m, parameters, nil
}

// Load reads the checkpoint in a folder.
func Load(dir string) (*Checkpoint, error) {
	manifest, graph, err := readNetwork(dir)
	if err != nil {
		return nil, err
	}
	var estimator []byte
	if path := filepath.Join(dir, EstimatorFile); exists(path) {
		if estimator, err = readLimited(path, maxGraphBytes); err != nil {
			return nil, err
		}
	}
	c, err := Decode(manifest, graph, estimator)
	if err != nil {
		return nil, fmt.Errorf("checkpoint %s: %w", dir, err)
	}
	return c, nil
}

// Decode is Load for the bytes of the files; estimator is nil without one.
func Decode(manifest, graph, estimator []byte) (*Checkpoint, error) {
	m, parameters, err := decodeNetwork(manifest, graph)
	if err != nil {
		return nil, err
	}
	c := &Checkpoint{Manifest: *m}
	if m.Published != nil {
		c.Paper, err = prefdt.NewNet(&m.Published.Form, parameters)
	} else {
		c.Net, err = model.NewNet(m.Arch, parameters)
	}
	if err != nil {
		return nil, err
	}
	switch e := m.Estimator; {
	case e == nil && estimator != nil:
		return nil, fmt.Errorf("%s is there, and %s names no estimator", EstimatorFile, ManifestFile)
	case e != nil && estimator == nil:
		return nil, fmt.Errorf("%s names an estimator, and there is no %s", ManifestFile, EstimatorFile)
	case e != nil:
		if parameters, err = decodeGraph(learned.Graph(), e.GraphSHA256, estimator); err != nil {
			return nil, fmt.Errorf("%s: %w", EstimatorFile, err)
		}
		c.Beliefs = &learned.Parameters{Window: e.Window, Data: parameters}
	}
	return c, nil
}

// decodeNetwork returns the manifest and the parameters of the network that it names.
func decodeNetwork(manifest, graph []byte) (*Manifest, []float32, error) {
	m, err := parseManifest(manifest)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", ManifestFile, err)
	}
	parameters, err := decodeGraph(m.graph(), m.GraphSHA256, graph)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", GraphFile, err)
	}
	return m, parameters, nil
}

// decodeGraph returns the parameters of a graph, in the order of the one wanted.
func decodeGraph(want *model.Graph, sha256 string, graph []byte) ([]float32, error) {
	if len(graph) > maxGraphBytes {
		return nil, fmt.Errorf("%d bytes, want at most %d", len(graph), maxGraphBytes)
	}
	if hash := Hash(graph); hash != sha256 {
		return nil, fmt.Errorf("SHA-256 is %s, the manifest says %.64q", hash, sha256)
	}
	found, err := checkWire(graph)
	if err != nil {
		return nil, err
	}
	nodes, inputs, outputs, err := decodeONNX(graph)
	if err != nil {
		return nil, err
	}
	return verify(want, found, nodes, inputs, outputs)
}

// Hash returns the SHA-256 of a graph's bytes as the manifest states it.
func Hash(graph []byte) string { return fmt.Sprintf("%x", sha256.Sum256(graph)) }

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// absentError is a file that a checkpoint lacks, in one line. It is os.ErrNotExist.
type absentError string

func (path absentError) Error() string {
	return fmt.Sprintf("no checkpoint: %s does not exist", string(path))
}
func (absentError) Is(err error) bool { return err == os.ErrNotExist }

func readLimited(path string, limit int64) ([]byte, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil, absentError(path)
	case err != nil:
		return nil, fmt.Errorf("read checkpoint: %w", err)
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("read checkpoint: %s is not a file", path)
	case info.Size() > limit:
		return nil, fmt.Errorf("read checkpoint: %s has %d bytes, want at most %d", path, info.Size(), limit)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read checkpoint: %w", err)
	}
	defer f.Close()
	data := make([]byte, info.Size()) // in one piece: the leader's memory is small
	if _, err := io.ReadFull(f, data); err != nil {
		return nil, fmt.Errorf("read checkpoint: %s: %w", path, err)
	}
	return data, nil
}
