package papertrain

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"reflect"

	"prefdt/offline/command"
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
	return [][]float32{t.Params, t.adam.m, t.adam.v, t.adam.mean}
}

// Save writes the run's state durably.
func (t *Trainer) Save(path string) error {
	err := command.ReplaceFile(path, func(w io.Writer) error {
		b := bufio.NewWriter(w)
		head, err := json.Marshal(stateHeader{t.Step, t.Tokens, t.coolDown, t.corpusHash, t.Config})
		if err != nil {
			return err
		}
		b.WriteString(stateMagic)
		binary.Write(b, binary.LittleEndian, uint32(len(head)))
		b.Write(head)
		for _, x := range t.vectors() {
			binary.Write(b, binary.LittleEndian, x)
		}
		return b.Flush() // the first error of all
	})
	if err != nil {
		return fmt.Errorf("save training state: %w", err)
	}
	return nil
}

// Load continues a saved run; its configuration and its corpus must be these.
func (t *Trainer) Load(path string) error {
	return readState(path, func(head *stateHeader) ([][]float32, error) {
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
	err = readState(path, func(head *stateHeader) ([][]float32, error) {
		if err := head.Config.Check(); err != nil {
			return nil, err
		}
		size := head.Config.Form.Parameters()
		unused := make([]float32, size)
		n = trained{*head, make([]float32, size), make([]float32, size)}
		return [][]float32{n.Params, unused, unused, n.Mean}, nil
	})
	return n, err
}

// readState reads a state file into the numbers that its header calls for.
func readState(path string, into func(*stateHeader) ([][]float32, error)) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("read training state: %w", err)
	}
	defer f.Close()
	var head stateHeader
	rest := bufio.NewReader(f)
	raw, err := readHeader(rest)
	if err == nil {
		err = json.Unmarshal(raw, &head)
	}
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

func readHeader(r io.Reader) ([]byte, error) {
	var fixed [len(stateMagic) + 4]byte
	if _, err := io.ReadFull(r, fixed[:]); err != nil {
		return nil, err
	}
	if string(fixed[:len(stateMagic)]) != stateMagic {
		return nil, fmt.Errorf("it starts with %q, want %q", fixed[:len(stateMagic)], stateMagic)
	}
	n := binary.LittleEndian.Uint32(fixed[len(stateMagic):])
	if n > 1<<16 {
		return nil, fmt.Errorf("its header claims %d bytes", n)
	}
	raw := make([]byte, n)
	_, err := io.ReadFull(r, raw)
	return raw, err
}
