package papertrain

import (
	"errors"
	"fmt"
	"reflect"

	"prefdt/inference/checkpoint"
	"prefdt/inference/paperform"
	"prefdt/offline/train"
)

// A state file is everything that a resumed run needs to equal an uninterrupted one: eight
// bytes of magic, the length of a JSON header, the header, then the parameters, both
// moments and the mean of the parameters as little-endian float32.
const stateMagic = "PREFDTP1"

type stateHeader struct {
	Step     int      `json:"step"`
	Tokens   int64    `json:"tokens"`
	CoolDown coolDown `json:"cool_down"`
	Corpus   string   `json:"corpus"` // its hash
	Config   Config   `json:"config"`
}

func (t *Trainer) vectors() [][]float32 {
	return [][]float32{t.Params, t.adam.M, t.adam.V, t.mean}
}

// Save writes the run's state durably.
func (t *Trainer) Save(path string) error {
	return train.WriteState(path, stateMagic, stateHeader{t.Step, t.Tokens, t.coolDown, t.corpusHash, t.Config}, t.vectors()...)
}

// Load continues a saved run; its configuration and its corpus must be these.
func (t *Trainer) Load(path string) error {
	var head stateHeader
	return train.ReadState(path, stateMagic, &head, func() ([][]float32, error) {
		if head.Corpus != t.corpusHash {
			return nil, fmt.Errorf("it was trained on corpus %.12s, the present one is %.12s", head.Corpus, t.corpusHash)
		}
		if !reflect.DeepEqual(head.Config, t.Config) {
			return nil, fmt.Errorf("it was trained with %+v, this run asks for %+v", head.Config, t.Config)
		}
		t.Step, t.Tokens, t.coolDown = head.Step, head.Tokens, head.CoolDown
		return t.vectors(), nil
	})
}

// trained is what a state file holds of a network.
type trained struct {
	stateHeader
	Params, Mean []float32 // the last parameters, and the mean over the last steps
}

// readTrained reads the network of a state file.
func readTrained(path string) (n trained, err error) {
	var head stateHeader
	err = train.ReadState(path, stateMagic, &head, func() ([][]float32, error) {
		if err := head.Config.Check(); err != nil {
			return nil, err
		}
		size := head.Config.Form.Parameters()
		unused := make([]float32, size)
		n = trained{head, make([]float32, size), make([]float32, size)}
		return [][]float32{n.Params, unused, unused, n.Mean}, nil
	})
	return n, err
}

// start is what a run goes on from that has no state: a checkpoint of an earlier one. The
// optimiser's moments begin anew.
type start struct {
	manifest   *checkpoint.Manifest
	parameters []float32
}

// readStart reads a checkpoint of a form.
func readStart(dir string, f *paperform.Form) (*start, error) {
	m, parameters, err := checkpoint.Parameters(dir)
	if err != nil {
		return nil, err
	}
	if m.Published == nil || !m.Published.Form.Same(f) {
		return nil, fmt.Errorf("checkpoint %s is not of the configuration's form", dir)
	}
	if steps, tokens := m.Training["steps"], m.Training["tokens"]; !(steps >= 1 && steps <= 1e9 && tokens >= 1 && tokens <= 1e13) {
		return nil, fmt.Errorf("checkpoint %s records %v steps of training and %v tokens", dir, steps, tokens)
	}
	return &start{m, parameters}, nil
}

// begin lets a run that has no state go on from a start.
func (t *Trainer) begin(s *start, m *Corpus) error {
	if !reflect.DeepEqual(s.manifest.Published.Statistics, m.Rows) {
		return errors.New("the checkpoint to begin with was trained on another corpus")
	}
	copy(t.Params, s.parameters)
	copy(t.mean, s.parameters)
	t.Step, t.Tokens = int(s.manifest.Training["steps"]), int64(s.manifest.Training["tokens"])
	return nil
}
