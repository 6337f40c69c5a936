package checkpoint

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"

	"prefdt/inference/goal"
	"prefdt/inference/model"
	"prefdt/inference/physics"
	"prefdt/inference/token"
)

// Format is the version of the folder that this program writes and reads.
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
	Training   map[string]float64 `json:"training"` // figures, for the record
	Evaluation map[string]float64 `json:"evaluation"`
	Seeds      map[string]int64   `json:"seeds"` // "train_first", "train_last", ...
}

// Check says what is wrong with a manifest, the graph's hash apart.
func (m *Manifest) Check() error {
	if m.Format != Format {
		return fmt.Errorf("checkpoint has format %d, this program reads format %d", m.Format, Format)
	}
	if err := m.Arch.Check(); err != nil {
		return err
	}
	if err := sameLayout(m.Features, token.Features()); err != nil {
		return err
	}
	if err := m.Statistics.Check(); err != nil {
		return err
	}
	if err := m.GoalConstants.Check(); err != nil {
		return err
	}
	if err := m.PriceAxis.check(); err != nil {
		return err
	}
	if lo, hi := m.OmegaBand[0], m.OmegaBand[1]; !(lo >= 0 && lo < hi && hi <= 1) {
		return fmt.Errorf("attainable band is %v, want two increasing shares in [0, 1]", m.OmegaBand)
	}
	if err := m.Physics.Check(); err != nil {
		return err
	}
	for _, figures := range []map[string]float64{m.Training, m.Evaluation} {
		for name, x := range figures {
			if math.IsNaN(x) || math.IsInf(x, 0) {
				return fmt.Errorf("figure %q is %v, want a finite number", name, x)
			}
		}
	}
	return nil
}

// sameLayout names the first feature in which a checkpoint and this program differ.
func sameLayout(archived, ours token.Layout) error {
	for _, row := range []struct {
		name          string
		archived, own []string
	}{
		{"aircraft", archived.Aircraft, ours.Aircraft}, {"pair", archived.Pair, ours.Pair},
		{"state", archived.State, ours.State}, {"return", archived.Return, ours.Return},
		{"action", archived.Action, ours.Action},
	} {
		if len(row.archived) != len(row.own) {
			return fmt.Errorf("checkpoint has %d %s features, this program computes %d", len(row.archived), row.name, len(row.own))
		}
		for i, name := range row.own {
			if row.archived[i] != name {
				return fmt.Errorf("%s feature %d is %.64q in the checkpoint and %q in this program", row.name, i, row.archived[i], name)
			}
		}
	}
	return nil
}

// parseManifest reads one JSON object strictly. The version is looked at
// first, for another version has other fields.
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
