// Package trace reads a recorded workload: who computed what, when and where.
// A world that has a trace takes its users and their tasks from it instead of
// drawing them; channel, gusts and lost reports are drawn by seed all the same.
//
// Inputs: a CSV file with the header
//
//	time_s,user,east_m,north_m,bits,cycles_per_bit,deadline_s
//
// one row for each user in each slot in which it reports. Outputs: for a slot,
// the rows of it in the order of the users; for a user, where it is. Package
// world calls it for rollouts, and through the same functions for the simulated
// users of a flight.
package trace

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"
	"unicode/utf8"

	"prefdt/inference/physics"
)

// Header is the first line of a trace.
var Header = []string{"time_s", "user", "east_m", "north_m", "bits", "cycles_per_bit", "deadline_s"}

// What a trace may hold. The ranges of a task are those that a report may have.
const (
	maxBytes  = 64 << 20
	maxUsers  = 4096
	maxSlots  = 1e6
	maxName   = 128 // bytes of a user's name
	maxCycles = 1e12
	maxLocalS = 86400 // of a task on its user's CPU
)

// Row is one user in one slot.
type Row struct {
	Slot     int
	User     int // index into Users
	Position physics.Position
	Task     physics.Task // no bits: the user is active and has no task
	line     int
}

// Trace is a recorded workload. In YAML it is the file's path, in JSON (of a corpus
// or an archive of rules) that and its hash; reading either reads the file.
type Trace struct {
	File   string   `json:"file"`
	SHA256 string   `json:"sha256"` // of the file, in hexadecimal
	Users  []string `json:"-"`      // names, in the order in which they first appear

	rows   []Row   // by slot, then by user
	byUser [][]int // each user's rows
}

// Read reads a file.
func Read(path string) (*Trace, error) {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("trace: %s is not a file", path) // reading a pipe might never end
	}
	f, err := os.Open(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !filepath.IsAbs(path):
		return nil, fmt.Errorf("trace: %w; the path is from the folder in which the program was started", err)
	case err != nil:
		return nil, fmt.Errorf("trace: %w", err)
	}
	defer f.Close()
	var t *Trace
	raw, err := io.ReadAll(io.LimitReader(f, maxBytes+1))
	if err == nil {
		t, err = Parse(raw)
	}
	if err != nil {
		return nil, fmt.Errorf("trace %s: %w", path, err)
	}
	t.File = path
	return t, nil
}

// Parse is Read for a file's content.
func Parse(raw []byte) (*Trace, error) {
	if len(raw) > maxBytes {
		return nil, fmt.Errorf("larger than %d bytes", maxBytes)
	}
	t := &Trace{SHA256: fmt.Sprintf("%x", sha256.Sum256(raw))}
	in := csv.NewReader(bytes.NewReader(raw))
	in.ReuseRecord = true
	in.FieldsPerRecord = len(Header)
	header, err := in.Read()
	if !slices.Equal(header, Header) {
		return nil, headerError(raw, header, err)
	}
	index := map[string]int{}
	lastS := 0.0
	for {
		fields, err := in.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, lineError(fields, err)
		}
		line, _ := in.FieldPos(0)
		row, timeS, column, err := parseRow(fields, lastS)
		if err != nil {
			line, _ := in.FieldPos(column)
			return nil, fmt.Errorf("line %d, column %d, %s: %w", line, column+1, Header[column], err)
		}
		lastS = timeS
		user, known := index[fields[1]]
		if !known {
			if len(t.Users) == maxUsers {
				return nil, fmt.Errorf("line %d: more than %d users", line, maxUsers)
			}
			user = len(t.Users)
			t.Users, t.byUser = append(t.Users, strings.Clone(fields[1])), append(t.byUser, nil)
			index[t.Users[user]] = user
		}
		row.User, row.line = user, line
		t.rows = append(t.rows, row)
	}
	if len(t.rows) == 0 {
		return nil, errors.New("no rows below the header")
	}
	slices.SortStableFunc(t.rows, func(a, b Row) int { return cmp.Or(a.Slot-b.Slot, a.User-b.User) })
	for i := range t.rows {
		r := &t.rows[i]
		if i > 0 && t.rows[i-1].Slot == r.Slot && t.rows[i-1].User == r.User {
			return nil, fmt.Errorf("line %d: user %q stands twice in slot %d, already on line %d", r.line, t.Users[r.User], r.Slot,
				t.rows[i-1].line)
		}
		t.byUser[r.User] = append(t.byUser[r.User], i)
	}
	return t, nil
}

// headerError says how the first line differs from Header, given the columns that
// were read of it and the error of that.
func headerError(raw []byte, header []string, err error) error {
	want := "want the header " + strings.Join(Header, ",")
	first, _, _ := bytes.Cut(raw, []byte("\n"))
	switch {
	case bytes.HasPrefix(raw, []byte("\ufeff")):
		return fmt.Errorf("line 1: %s; the file begins with a byte order mark (BOM): save it as UTF-8 without one", want)
	case len(header) < len(Header) && bytes.ContainsRune(first, ';'):
		return fmt.Errorf("line 1: %s; the columns are separated by semicolons: save them separated by commas, with decimal points", want)
	case err != nil && !errors.Is(err, csv.ErrFieldCount):
		return fmt.Errorf("line 1: %s", want)
	}
	for i, name := range Header {
		switch {
		case i == len(header):
			return fmt.Errorf("line 1: %s; column %d, %s, is missing", want, i+1, name)
		case header[i] != name:
			return fmt.Errorf("line 1: %s; column %d is %.64q, not %s", want, i+1, header[i], name)
		}
	}
	return fmt.Errorf("line 1: %s; column %d, %.64q, is one too many", want, len(Header)+1, header[len(Header)])
}

// lineError is a csv.ParseError without its place in the line, which counts bytes.
func lineError(fields []string, err error) error {
	var at *csv.ParseError
	switch {
	case !errors.As(err, &at):
		return err
	case errors.Is(err, csv.ErrFieldCount):
		return fmt.Errorf("line %d: %d columns, want %d", at.StartLine, len(fields), len(Header))
	}
	return fmt.Errorf("line %d: %w", at.StartLine, at.Err)
}

// parseRow reads one line. An error comes with the column it is in.
func parseRow(fields []string, lastS float64) (row Row, timeS float64, column int, err error) {
	var x [7]float64
	for i, bound := range [...]struct{ low, high float64 }{
		0: {0, maxSlots}, 2: {0, 1e5}, 3: {0, 1e5}, 4: {0, 1e12}, 5: {0, 1e9}, 6: {0, 3600},
	} {
		if i == 1 {
			continue
		}
		x[i], err = strconv.ParseFloat(fields[i], 64)
		if err != nil {
			return row, 0, i, fmt.Errorf("%.64q is not a number", fields[i])
		}
		if !(x[i] >= bound.low && x[i] <= bound.high) {
			return row, 0, i, fmt.Errorf("%v, want %v to %v", x[i], bound.low, bound.high)
		}
	}
	if x[0] < lastS {
		return row, 0, 0, fmt.Errorf("%v after %v, want the rows in the order of time", x[0], lastS)
	}
	if n := len(fields[1]); n == 0 || n > maxName || !utf8.ValidString(fields[1]) {
		return row, 0, 1, fmt.Errorf("%.64q, want 1 to %d bytes of UTF-8", fields[1], maxName)
	}
	row = Row{
		Slot: int(math.Floor(x[0])), Position: physics.Position{EastM: x[2], NorthM: x[3]},
		Task: physics.Task{Bits: x[4], CyclesPerBit: x[5], DeadlineS: x[6]},
	}
	if row.Task.Bits == 0 { // no task
		row.Task = physics.Task{}
		return row, x[0], 0, nil
	}
	for i, least := range [...]float64{4: 1, 5: 1, 6: 1e-3} {
		if x[i] < least {
			return row, 0, i, fmt.Errorf("%v, want %v at least, or a row of 0 bits for a user without a task", x[i], least)
		}
	}
	if row.Task.Cycles() > maxCycles {
		return row, 0, 5, fmt.Errorf("%v of %v bits are %v cycles, want at most %v", x[5], x[4], row.Task.Cycles(), maxCycles)
	}
	return row, x[0], 0, nil
}

// Len returns the number of rows.
func (t *Trace) Len() int { return len(t.rows) }

// Slots returns the number of slots up to the last row.
func (t *Trace) Slots() int { return t.rows[len(t.rows)-1].Slot + 1 }

// Rows returns the rows of a slot in the order of the users.
func (t *Trace) Rows(slot int) []Row {
	first := func(slot int) int {
		return sort.Search(len(t.rows), func(i int) bool { return t.rows[i].Slot >= slot })
	}
	return t.rows[first(slot):first(slot+1)]
}

// Position returns where a user is in a slot: where its last row up to the slot
// puts it or, before its first, where that one does.
func (t *Trace) Position(user, slot int) physics.Position {
	rows := t.byUser[user]
	after := sort.Search(len(rows), func(i int) bool { return t.rows[rows[i]].Slot > slot })
	return t.rows[rows[max(after-1, 0)]].Position
}

// Check names the first row that a world cannot have: a user outside its square
// area, or a task that takes its user's CPU longer than a result may say.
func (t *Trace) Check(areaSideM, userCPUHz float64) error {
	for i := range t.rows {
		r := &t.rows[i]
		for column, metres := range [...]float64{2: r.Position.EastM, 3: r.Position.NorthM} {
			if metres > areaSideM {
				return fmt.Errorf("trace %s: line %d, column %d, %s: %v, want 0 to %v, the side of the area; user %q", t.File, r.line,
					column+1, Header[column], metres, areaSideM, t.Users[r.User])
			}
		}
		if s := r.Task.LocalTimeS(userCPUHz); s > maxLocalS {
			return fmt.Errorf("trace %s: line %d: the task takes %v s on the user's CPU of %v Hz, want %v s at most", t.File, r.line, s,
				userCPUHz, maxLocalS)
		}
	}
	return nil
}

// UnmarshalYAML reads the file that a configuration names.
func (t *Trace) UnmarshalYAML(unmarshal func(any) error) error {
	var path string
	if err := unmarshal(&path); err != nil {
		return err
	}
	read, err := Read(path)
	if err == nil {
		*t = *read
	}
	return err
}

// UnmarshalJSON reads the file again, and refuses one that has changed.
func (t *Trace) UnmarshalJSON(raw []byte) error {
	type fields Trace // without this method
	var named fields
	if err := json.Unmarshal(raw, &named); err != nil {
		return err
	}
	read, err := Read(named.File)
	if err != nil {
		return err
	}
	if read.SHA256 != named.SHA256 {
		return fmt.Errorf("trace %s: its SHA-256 is %.12s, it was %.12q when this was made", named.File, read.SHA256, named.SHA256)
	}
	*t = *read
	return nil
}
