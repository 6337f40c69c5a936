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
	err := command.ReplaceFile(path, func(w io.Writer) error {
		b := bufio.NewWriter(w)
		head, err := json.Marshal(stateHeader{t.Step, t.Config, t.subject})
		if err != nil {
			return err
		}
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

// Load continues a saved run; its configuration must be this one.
func (t *Trainer) Load(path string) error {
	return readState(path, func(head *stateHeader) ([][]float32, error) {
		if !reflect.DeepEqual(head.Config, t.Config) {
			return nil, fmt.Errorf("it was trained with %+v, this run asks for %+v", head.Config, t.Config)
		}
		if !bytes.Equal(head.Subject, t.subject) {
			return nil, fmt.Errorf("it was trained with %s, this run asks for %s", head.Subject, t.subject)
		}
		t.Step = head.Step
		return [][]float32{t.Params.Data, t.adam.m, t.adam.v}, nil
	})
}

// ReadParams returns the architecture and parameters of a state file.
func ReadParams(path string) (p *Params[float32], err error) {
	err = readState(path, func(head *stateHeader) ([][]float32, error) {
		if err := head.Config.Arch.Check(); err != nil {
			return nil, err
		}
		p = NewParams[float32](head.Config.Arch, head.Config.Arch.Tensors())
		return [][]float32{p.Data}, nil
	})
	return p, err
}

// readState reads a state file into the numbers that its header calls for.
func readState(path string, into func(*stateHeader) ([][]float32, error)) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("read training state: %w", err)
	}
	defer f.Close()
	head, rest, err := readHeader(f)
	var numbers [][]float32
	if err == nil {
		numbers, err = into(&head)
	}
	for _, x := range numbers {
		if err == nil {
			err = binary.Read(rest, binary.LittleEndian, x)
		}
	}
	if err != nil {
		return fmt.Errorf("read training state %s: %w", path, err)
	}
	return nil
}

func readHeader(r io.Reader) (head stateHeader, rest io.Reader, err error) {
	rest = bufio.NewReader(r)
	var fixed [len(stateMagic) + 4]byte
	if _, err = io.ReadFull(rest, fixed[:]); err != nil {
		return head, nil, err
	}
	if string(fixed[:len(stateMagic)]) != stateMagic {
		return head, nil, fmt.Errorf("it starts with %q, want %q", fixed[:len(stateMagic)], stateMagic)
	}
	n := binary.LittleEndian.Uint32(fixed[len(stateMagic):])
	if n > 1<<16 {
		return head, nil, fmt.Errorf("its header claims %d bytes", n)
	}
	raw := make([]byte, n)
	if _, err = io.ReadFull(rest, raw); err != nil {
		return head, nil, err
	}
	return head, rest, json.Unmarshal(raw, &head)
}
