package ledger

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"prefdt/firmware/account"
	"prefdt/firmware/mission"
)

// Every stored value has its own checksum, and names its mission and how recent it
// is. So values can be found again without the file's structure.

// stateRecord is State as it is stored.
type stateRecord struct {
	State
	Tx  int     `json:"tx"`            // transaction that wrote it; the greatest is the newest
	Sum *uint64 `json:"sum,omitempty"` // of all other entries, see sumOf
}

// commandRecord is Command as it is stored.
type commandRecord struct {
	Command
	Sequence uint64 `json:"sequence"`
}

// Recovered is what a damaged file still contains.
type Recovered struct {
	Flights  []Flight // the present mission last
	Commands []Command
}

// maxValueBytes bounds one value: a row of the most aircraft is shorter, and so is one
// with what the most users reported.
const maxValueBytes = 4 << 20

// Recover finds what a file still contains, however it was cut or damaged. Only values
// whose checksum matches are returned. It reads bytes alone, so an image of a damaged
// disk can be read too.
func Recover(path string) (*Recovered, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("recover ledger: %w", err)
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxFileBytes))
	if err != nil {
		return nil, fmt.Errorf("recover ledger %s: %w", path, err)
	}
	return recoverBytes(raw), nil
}

func recoverBytes(raw []byte) *Recovered {
	s := &Recovered{}
	rows := map[string]map[int]account.Row{}
	states := map[string]stateRecord{}
	commands := map[uint64]Command{} // by sequence number
	for at := 0; ; {
		next := bytes.IndexByte(raw[at:], '{')
		if next < 0 {
			break
		}
		at += next
		value, kind := checkedValueAt(raw[at:])
		if value == nil {
			at++
			continue
		}
		at += len(value) + 4
		switch kind {
		case rowPrefix:
			var r account.Row
			if json.Unmarshal(value, &r) == nil {
				if rows[r.Mission] == nil {
					rows[r.Mission] = map[int]account.Row{}
				}
				rows[r.Mission][r.Slot] = r
			}
		case statePrefix:
			var r stateRecord
			if json.Unmarshal(value, &r) == nil && r.Tx >= states[r.Mission].Tx {
				states[r.Mission] = r
			}
		case commandPrefix:
			var r commandRecord
			if json.Unmarshal(value, &r) == nil {
				commands[r.Sequence] = r.Command
			}
		}
	}
	for id := range rows {
		if _, known := states[id]; !known { // of an earlier flight, whose state was lost
			states[id] = stateRecord{State: State{State: mission.State{Mission: id}}}
		}
	}
	for _, r := range slices.SortedFunc(maps.Values(states), func(a, b stateRecord) int { return a.Tx - b.Tx }) {
		settled := slices.SortedFunc(maps.Values(rows[r.Mission]), func(a, b account.Row) int { return a.Slot - b.Slot })
		s.Flights = append(s.Flights, Flight{State: r.State, Rows: settled})
	}
	for _, sequence := range slices.Sorted(maps.Keys(commands)) {
		s.Commands = append(s.Commands, commands[sequence])
	}
	s.Commands = s.Commands[max(0, len(s.Commands)-MaxCommands):]
	return s
}

const (
	rowPrefix     = `{"slot":`
	statePrefix   = `{"mission":`
	commandPrefix = `{"id":`
)

// checkedValueAt returns the value that begins here, if its checksum matches.
func checkedValueAt(raw []byte) (value []byte, kind string) {
	for _, k := range []string{rowPrefix, statePrefix, commandPrefix} {
		if bytes.HasPrefix(raw, []byte(k)) {
			kind = k
		}
	}
	if kind == "" {
		return nil, ""
	}
	var found json.RawMessage
	if json.NewDecoder(bytes.NewReader(raw[:min(len(raw), maxValueBytes)])).Decode(&found) != nil {
		return nil, ""
	}
	value, sum := raw[:len(found)], raw[len(found):]
	if len(sum) < 4 || crc32.ChecksumIEEE(value) != binary.BigEndian.Uint32(sum) {
		return nil, ""
	}
	return value, kind
}

// Save writes what was found to a new ledger, in a directory that has none. A mission
// that was in progress continues from it.
func (r *Recovered) Save(dir string) error {
	if len(r.Flights) == 0 {
		return fmt.Errorf("nothing in it can be recovered")
	}
	if _, err := os.Stat(filepath.Join(dir, fileName)); err == nil {
		return fmt.Errorf("%s has a ledger; recover into an empty directory", dir)
	}
	l, err := Open(dir)
	if err != nil {
		return err
	}
	defer l.Close()
	for _, f := range r.Flights {
		if err := l.WriteCommands(f.State, nil); err != nil {
			return err
		}
		for rows := range slices.Chunk(f.Rows, 1000) {
			if err := l.WriteRows(f.State, rows); err != nil {
				return err
			}
		}
	}
	return l.WriteCommands(r.Flights[len(r.Flights)-1].State, r.Commands)
}
