package train

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
	"prefdt/offline/command"
)

// A state file is everything a resumed run needs to equal an uninterrupted
// one: eight bytes of magic, the length of a JSON header, the header, then the
// parameters and both moments as little-endian float32.
const stateMagic = "PREFDTT1"

type stateHeader struct {
	Step    int             `json:"step"`
	Config  Config          `json:"config"`
	Subject json.RawMessage `json:"subject,omitempty"` // see Task
}

// Save writes the run's state durably.
func (t *Trainer) Save(path string) error {
	return WriteState(path, stateMagic, stateHeader{t.Step, t.Config, t.subject}, t.Params.Data, t.adam.M, t.adam.V)
}

// Load continues a saved run; its configuration must be this one.
func (t *Trainer) Load(path string) error {
	var head stateHeader
	return ReadState(path, stateMagic, &head, func() ([][]float32, error) {
		if !reflect.DeepEqual(head.Config, t.Config) {
			return nil, fmt.Errorf("it was trained with %+v, this run asks for %+v", head.Config, t.Config)
		}
		if !bytes.Equal(head.Subject, t.subject) {
			return nil, fmt.Errorf("it was trained with %s, this run asks for %s", head.Subject, t.subject)
		}
		t.Step = head.Step
		return [][]float32{t.Params.Data, t.adam.M, t.adam.V}, nil
	})
}

// ReadParams returns the architecture and parameters of a state file.
func ReadParams(path string) (p *Params[float32], err error) {
	var head stateHeader
	err = ReadState(path, stateMagic, &head, func() ([][]float32, error) {
		if err := head.Config.Arch.Check(); err != nil {
			return nil, err
		}
		p = NewParams[float32](head.Config.Arch, head.Config.Arch.Tensors())
		return [][]float32{p.Data}, nil
	})
	return p, err
}

// WriteState writes a state file durably.
func WriteState(path, magic string, head any, numbers ...[]float32) error {
	err := command.ReplaceFile(path, func(w io.Writer) error {
		b := bufio.NewWriter(w)
		raw, err := json.Marshal(head)
		if err != nil {
			return err
		}
		b.WriteString(magic)
		binary.Write(b, binary.LittleEndian, uint32(len(raw)))
		b.Write(raw)
		for _, x := range numbers {
			binary.Write(b, binary.LittleEndian, x)
		}
		return b.Flush() // the first error of all
	})
	if err != nil {
		return fmt.Errorf("save training state: %w", err)
	}
	return nil
}

// ReadState reads a state file: its header into head, then what follows into the numbers
// that into returns once the header is read. What is wrong with the file is bad input.
func ReadState(path, magic string, head any, into func() ([][]float32, error)) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("read training state: %w", err)
	}
	defer f.Close()
	rest := bufio.NewReader(f)
	damaged := func(err error) error {
		return cli.BadInputf("training state %s is damaged (%v): remove it, and what it holds is trained again", path, err)
	}
	if err := readHeader(rest, magic, head); err != nil {
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

func readHeader(r io.Reader, magic string, head any) error {
	fixed := make([]byte, len(magic)+4)
	if _, err := io.ReadFull(r, fixed); err != nil {
		return err
	}
	if string(fixed[:len(magic)]) != magic {
		return fmt.Errorf("it starts with %q, want %q", fixed[:len(magic)], magic)
	}
	n := binary.LittleEndian.Uint32(fixed[len(magic):])
	if n > 1<<16 {
		return fmt.Errorf("its header claims %d bytes", n)
	}
	raw := make([]byte, n)
	if _, err := io.ReadFull(r, raw); err != nil {
		return err
	}
	return json.Unmarshal(raw, head)
}
