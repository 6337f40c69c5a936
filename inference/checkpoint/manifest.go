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
	"prefdt/inference/dispatch"
	"prefdt/inference/goal"
	"prefdt/inference/model"
	"prefdt/inference/physics"
	"prefdt/inference/prefdt"
	"prefdt/inference/slot"
	"prefdt/inference/token"
)

// Format is the version of the checkpoint format that this program writes and reads.
const Format = 1

// Manifest is all of a checkpoint but the weights.
type Manifest struct {
	Format      int              `json:"format"`
	GraphSHA256 string           `json:"graph_sha256"` // of policy.onnx, lower-case hexadecimal
	Arch        model.Arch       `json:"arch,omitzero"`
	Features    token.Layout     `json:"features,omitzero"` // names of the rows' features, in order
	Statistics  token.Statistics `json:"standard,omitzero"` // their archived statistics
	// Published stands in place of these three in a checkpoint of the published form.
	Published     *prefdt.Archived  `json:"published,omitempty"`
	GoalConstants goal.Constants    `json:"scales"` // eta, conditioner and remap
	PriceCurve    PriceCurve        `json:"price"`
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
	form := []func() error{m.Arch.Check, m.Features.Check, m.Statistics.Check, m.checkUserPrior}
	if m.Published != nil {
		form = []func() error{m.checkPublished}
	}
	for _, check := range append(form, m.GoalConstants.Check, m.PriceCurve.check, m.Physics.Check) {
		if err := check(); err != nil {
			return err
		}
	}
	if low, high := m.OmegaBand[0], m.OmegaBand[1]; !(low >= 0 && low < high && high <= 1) {
		return fmt.Errorf("attainable band is %v, want two increasing shares in [0, 1]", m.OmegaBand)
	}
	return cmp.Or(checkFigures(m.Training), checkFigures(m.Evaluation), m.Estimator.check())
}

// checkUserPrior checks what the statistics imply of the users.
func (m *Manifest) checkUserPrior() error {
	p := m.Statistics.UserPrior()
	return p.Check()
}

// checkPublished checks what stands in place of the shipped form's entries.
func (m *Manifest) checkPublished() error {
	if m.Arch != (model.Arch{}) || m.Estimator != nil {
		return errors.New("a checkpoint of the published form has an arch or an estimator of the shipped form beside it, want one form")
	}
	if err := m.Published.Check(); err != nil {
		return err
	}
	if f := &m.Published.Form; f.Aircraft != m.GoalConstants.AircraftCount || f.Slots != m.GoalConstants.Slots {
		return fmt.Errorf("the published form is for %d aircraft and %d slots, its conditioner for %d and %d", f.Aircraft, f.Slots,
			m.GoalConstants.AircraftCount, m.GoalConstants.Slots)
	}
	return nil
}

// Fits returns an error unless a mission of so many aircraft and slots can be flown. The
// shipped form flies any; the published one is bound to those that it was trained for.
func (m *Manifest) Fits(aircraft, slots int) error {
	if m.Published == nil {
		return nil
	}
	return m.Published.Form.Fits(aircraft, slots)
}

// UserPrior returns the prior over users that the statistics of the corpus imply.
func (m *Manifest) UserPrior() dispatch.UserPrior {
	if m.Published != nil {
		return m.Published.UserPrior
	}
	return m.Statistics.UserPrior()
}

// Claims returns the most that a report weighs.
func (m *Manifest) Claims() slot.Claims {
	p := m.UserPrior()
	return p.Claims()
}

// graph returns the graph that the manifest's architecture calls for.
func (m *Manifest) graph() *model.Graph {
	if m.Published != nil {
		return m.Published.Form.Graph()
	}
	return m.Arch.Graph()
}

// parseManifest reads one JSON object strictly. It checks the version first, because
// another version has other fields.
func parseManifest(data []byte) (*Manifest, error) {
	data = bytes.TrimPrefix(data, []byte("\ufeff")) // a byte order mark, of an editor
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
