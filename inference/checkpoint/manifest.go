package checkpoint

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"

	"prefdt/inference/belief/learned"
	"prefdt/inference/goal"
	"prefdt/inference/model"
	"prefdt/inference/physics"
	"prefdt/inference/token"
)

// Format is the version of the checkpoint format that this program writes and reads.
const Format = 1

// Manifest is all of a checkpoint but the weights.
type Manifest struct {
	Format        int               `json:"format"`
	GraphSHA256   string            `json:"graph_sha256"` // of policy.onnx, lower-case hexadecimal
	Arch          model.Arch        `json:"arch"`
	Features      token.Layout      `json:"features"` // names of the rows' features, in order
	Statistics    token.Statistics  `json:"standard"` // their archived statistics
	GoalConstants goal.Constants    `json:"scales"`   // eta, conditioner and remap
	PriceAxis     PriceAxis         `json:"price"`
	OmegaBand     [2]float64        `json:"band"` // least and largest delay share omega that the corpus attains
	Physics       physics.Constants `json:"physics"`
	// World is the rest of the world it was trained in, users and tasks, where
	// that is not the standard one. Offline programs write and read it.
	World      json.RawMessage    `json:"world,omitempty"`
	Estimator  *Estimator         `json:"estimator,omitempty"` // of beliefs; nil: none
	Training   map[string]float64 `json:"training"`            // figures, for the record
	Evaluation map[string]float64 `json:"evaluation"`
	Seeds      map[string]int64   `json:"seeds"` // "train_first", "train_last", ...
}

// Estimator is what a manifest says of the estimator of beliefs.
type Estimator struct {
	GraphSHA256 string             `json:"graph_sha256"` // of estimator.onnx
	Layout      int                `json:"layout"`       // learned.Layout
	Window      int                `json:"window"`       // of its memory, in slots
	Training    map[string]float64 `json:"training"`     // figures, for the record
	Seeds       map[string]int64   `json:"seeds"`
}

func (e *Estimator) check() error {
	if e == nil {
		return nil
	}
	if e.Layout != learned.Layout {
		return fmt.Errorf("estimator has layout %d, this program computes layout %d", e.Layout, learned.Layout)
	}
	if err := learned.CheckWindow(e.Window); err != nil {
		return fmt.Errorf("estimator has %w", err)
	}
	return checkFigures(e.Training)
}

func checkFigures(figures map[string]float64) error {
	for name, x := range figures {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return fmt.Errorf("figure %q is %v, want a finite number", name, x)
		}
	}
	return nil
}

// Check returns an error that names the first invalid entry, the graph's hash apart.
func (m *Manifest) Check() error {
	if m.Format != Format {
		return fmt.Errorf("checkpoint has format %d, this program reads format %d", m.Format, Format)
	}
	for _, check := range []func() error{m.Arch.Check, m.Features.Check, m.Statistics.Check, m.GoalConstants.Check, m.PriceAxis.check, m.Physics.Check} {
		if err := check(); err != nil {
			return err
		}
	}
	if low, high := m.OmegaBand[0], m.OmegaBand[1]; !(low >= 0 && low < high && high <= 1) {
		return fmt.Errorf("attainable band is %v, want two increasing shares in [0, 1]", m.OmegaBand)
	}
	return cmp.Or(checkFigures(m.Training), checkFigures(m.Evaluation), m.Estimator.check())
}

// parseManifest reads one JSON object strictly. It checks the version first, because
// another version has other fields.
func parseManifest(data []byte) (*Manifest, error) {
	var version struct {
		Format *int `json:"format"`
	}
	if err := json.Unmarshal(data, &version); err != nil {
		return nil, err
	}
	if version.Format == nil {
		return nil, fmt.Errorf("no format version, want %d", Format)
	}
	if *version.Format != Format {
		return nil, fmt.Errorf("checkpoint has format %d, this program reads format %d", *version.Format, Format)
	}
	m := &Manifest{}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(m); err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows the manifest's closing brace")
	}
	return m, m.Check()
}
