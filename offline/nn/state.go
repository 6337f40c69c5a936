package nn

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"reflect"

	"prefdt/configs/cli"
	"prefdt/inference/model"
	"prefdt/offline/command"
)

// stateMagic begins the state file of a run, which is everything that a resumed run needs
// to equal an uninterrupted one: a header, then the parameters and both moments.
const stateMagic = "PREFDTT1"

// State is the header of a state file: where the run is, and the fields of its Task.
type State[C, S, P any] struct {
	Step     int `json:"step"`
	Config   C   `json:"config"`
	Subject  S   `json:"subject,omitempty"`
	Progress P   `json:"progress,omitempty"`
}

type stateHeader = State[json.RawMessage, json.RawMessage, json.RawMessage]

func (t *Trainer) header() (h stateHeader) {
	h.Step, h.Config = t.Step, mustMarshal(t.task.Config)
	if t.task.Subject != nil {
		h.Subject = mustMarshal(t.task.Subject)
	}
	if t.task.Progress != nil {
		h.Progress = mustMarshal(t.task.Progress)
	}
	return h
}

// Save writes the run's state durably: eight bytes of magic, the length of a JSON header,
// the header, then numbers as little-endian float32.
func (t *Trainer) Save(path string) error {
	err := command.ReplaceFile(path, func(w io.Writer) error {
		b := bufio.NewWriter(w)
		head := mustMarshal(t.header())
		b.WriteString(stateMagic)
		binary.Write(b, binary.LittleEndian, uint32(len(head)))
		b.Write(head)
		for _, x := range [][]float32{t.Params.Data, t.adam.m, t.adam.v} {
			binary.Write(b, binary.LittleEndian, x)
		}
		return b.Flush() // the first error of all
	})
	if err != nil {
		return fmt.Errorf("save training state: %w", err)
	}
	return nil
}

// Load continues a saved run; its configuration and its subject must be this one's.
func (t *Trainer) Load(path string) error {
	var head stateHeader
	return readState(path, &head, func() ([][]float32, error) {
		want := t.header()
		had := reflect.New(reflect.TypeOf(t.task.Config)) // leaves out what this program does not know
		if err := json.Unmarshal(head.Config, had.Interface()); err != nil {
			return nil, err
		}
		if !bytes.Equal(mustMarshal(had.Interface()), want.Config) {
			return nil, fmt.Errorf("it was trained with %s, this run asks for %s", head.Config, want.Config)
		}
		if !bytes.Equal(head.Subject, want.Subject) {
			return nil, fmt.Errorf("it was trained with %s, this run asks for %s", head.Subject, want.Subject)
		}
		if t.task.Progress != nil {
			if err := json.Unmarshal(head.Progress, t.task.Progress); err != nil {
				return nil, err
			}
		}
		t.Step = head.Step
		return [][]float32{t.Params.Data, t.adam.m, t.adam.v}, nil
	})
}

// Read reads the header of a state file into head, a pointer to a State, and then the
// parameters in the shape of the tensors that it returns.
func Read(path string, head any, tensors func() ([]model.Tensor, error)) (p *Params[float32], err error) {
	err = readState(path, head, func() ([][]float32, error) {
		list, err := tensors()
		if err != nil {
			return nil, err
		}
		p = NewParams[float32](list)
		return [][]float32{p.Data}, nil
	})
	return p, err
}

func mustMarshal(v any) []byte {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err) // checked when the run was started
	}
	return raw
}

// readState reads a state file: its header into head, then what follows into the numbers
// that into returns once the header is read. What is wrong with the file is bad input.
func readState(path string, head any, into func() ([][]float32, error)) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("read training state: %w", err)
	}
	defer f.Close()
	rest := bufio.NewReader(f)
	damaged := func(err error) error {
		return cli.BadInputf("training state %s is damaged (%v): remove it, and what it holds is trained again", path, err)
	}
	if err := readHeader(rest, head); err != nil {
		return damaged(err)
	}
	numbers, err := into()
	if err != nil {
		return cli.BadInputf("training state %s: %w", path, err)
	}
	for _, x := range numbers {
		if err := binary.Read(rest, binary.LittleEndian, x); err != nil {
			return damaged(err)
		}
		for i, v := range x {
			if v-v != 0 {
				return damaged(fmt.Errorf("number %d is %v", i, v))
			}
		}
	}
	return nil
}

func readHeader(r io.Reader, head any) error {
	fixed := make([]byte, len(stateMagic)+4)
	if _, err := io.ReadFull(r, fixed); err != nil {
		return err
	}
	if string(fixed[:len(stateMagic)]) != stateMagic {
		return fmt.Errorf("it starts with %q, want %q", fixed[:len(stateMagic)], stateMagic)
	}
	n := binary.LittleEndian.Uint32(fixed[len(stateMagic):])
	if n > 1<<16 {
		return fmt.Errorf("its header claims %d bytes", n)
	}
	raw := make([]byte, n)
	if _, err := io.ReadFull(r, raw); err != nil {
		return err
	}
	return json.Unmarshal(raw, head)
}
