package ledger

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"prefdt/firmware/account"
)

// A loss of power in a transaction leaves any part of what it wrote, in any order of
// sectors, and the file as long as before or after. The ledger opens as of this
// transaction or the one before, consistent.
func TestLossOfPower(t *testing.T) {
	const sector = 512
	rng := rand.New(rand.NewPCG(5, 6))
	dir := t.TempDir()
	l := mustOpen(t, dir)
	image := func() []byte {
		raw, err := os.ReadFile(filepath.Join(dir, fileName))
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	if err := l.WriteCommands(testState(-1), nil); err != nil {
		t.Fatal(err)
	}
	before := image()
	last := 0
	for i := range 40 {
		var err error
		if i%5 == 4 {
			err = l.WriteCommands(testState(i), []Command{{ID: string(rune('a' + i)), Ack: json.RawMessage(`{}`)}})
		} else {
			err = l.WriteRows(testState(i), []account.Row{{Slot: i, Aircraft: make([]account.AircraftRow, 6)}})
		}
		if err != nil {
			t.Fatal(err)
		}
		after := image()
		for range 4 {
			torn := append([]byte(nil), before...)
			if rng.IntN(2) == 0 && len(after) > len(torn) {
				torn = append(torn, make([]byte, len(after)-len(torn))...)
			}
			for at := 0; at < len(torn); at += sector {
				to := min(at+sector, len(torn), len(after))
				if at < to && rng.IntN(2) == 0 {
					copy(torn[at:to], after[at:to])
				}
			}
			if rng.IntN(2) == 0 { // the meta pages were written last
				copy(torn[:2*4096], after[:2*4096])
			}
			d := t.TempDir()
			if err := os.WriteFile(filepath.Join(d, fileName), torn, 0o600); err != nil {
				t.Fatal(err)
			}
			cut, err := Open(d)
			if err != nil {
				t.Fatalf("transaction %d: %v", i, err)
			}
			s, found, err := cut.Load()
			if err != nil || !found || s.Schedule.Next != i && s.Schedule.Next != i+1 {
				t.Fatalf("transaction %d: %+v, %v, %v", i, s, found, err)
			}
			rows := len(presentRows(t, cut))
			if want := s.Schedule.Next - s.Schedule.Next/5; rows != want {
				t.Fatalf("transaction %d: %d rows before slot %d, want %d", i, rows, s.Schedule.Next, want)
			}
			if cut.TornReason != "" {
				last++
			}
			if err := cut.WriteRows(testState(i+1), []account.Row{{Slot: 1000 + i}}); err != nil { // and it can still be written
				t.Fatal(err)
			}
			cut.Close()
			mustOpen(t, d).Close()
		}
		before = after
	}
	l.Close()
	if last < 20 {
		t.Errorf("only %d transactions of 160 were torn so that the one before was needed", last)
	}
}

// A disk that loses one page of a transaction leaves what an earlier one wrote there: a
// page of valid entries, of another time. Whichever page it is, the ledger opens as of
// this transaction or the one before, with the entries of that time.
func TestLostPage(t *testing.T) {
	const pageBytes = 4096
	l := mustOpen(t, t.TempDir())
	defer l.Close()
	if err := l.WriteCommands(testState(-1), nil); err != nil {
		t.Fatal(err)
	}
	type contents struct {
		rows, commands int
		last           bool // whether an id of the last command is known
	}
	read := func(l *Ledger, i int) (c contents) {
		t.Helper()
		commands, err1 := l.Commands()
		_, known, err2 := l.Command(fmt.Sprint(i))
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
		return contents{len(presentRows(t, l)), len(commands), known}
	}
	var before []byte
	lost := 0
	for i := range 60 {
		var was, is contents
		was = read(l, i)
		var err error
		if i%5 == 4 {
			err = l.WriteCommands(testState(i), []Command{{ID: fmt.Sprint(i), Ack: json.RawMessage(`{}`)}})
		} else {
			err = l.WriteRows(testState(i), []account.Row{{Slot: i, Aircraft: make([]account.AircraftRow, 6)}})
		}
		if err != nil {
			t.Fatal(err)
		}
		is = read(l, i)
		after, err := os.ReadFile(l.path)
		if err != nil {
			t.Fatal(err)
		}
		for at := 2 * pageBytes; at+pageBytes <= min(len(before), len(after)); at += pageBytes {
			if bytes.Equal(before[at:at+pageBytes], after[at:at+pageBytes]) {
				continue
			}
			torn := bytes.Clone(after)
			copy(torn[at:at+pageBytes], before[at:])
			d := t.TempDir()
			if err := os.WriteFile(filepath.Join(d, fileName), torn, 0o600); err != nil {
				t.Fatal(err)
			}
			cut, err := Open(d)
			if err != nil {
				t.Fatalf("transaction %d, page %d: %v", i, at/pageBytes, err)
			}
			want := is
			if s, _, err := cut.Load(); err != nil || s.Schedule.Next == i {
				want = was
				lost++
			}
			if got := read(cut, i); got != want {
				t.Errorf("transaction %d, page %d: %+v, want %+v", i, at/pageBytes, got, want)
			}
			cut.Close()
		}
		before = after
	}
	if lost < 60 {
		t.Errorf("only %d lost pages needed the transaction before", lost)
	}
}

// Damage beyond the last transaction is an error of one line, which describes what can
// be recovered; and the file is not changed.
func TestDamageNamesWhatCanBeRecovered(t *testing.T) {
	dir := t.TempDir()
	l := mustOpen(t, dir)
	for i := range 60 {
		if err := l.WriteRows(testState(i), []account.Row{{Slot: i, Aircraft: make([]account.AircraftRow, 6)}}); err != nil {
			t.Fatal(err)
		}
	}
	l.Close()
	path := filepath.Join(dir, fileName)
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	raw = raw[:len(raw)/3]
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = Open(dir)
	if err == nil || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), "leader log recover still finds: mission m1") {
		t.Errorf("%v", err)
	}
	if now, err := os.ReadFile(path); err != nil || !bytes.Equal(now, raw) {
		t.Errorf("the file was changed, %v", err)
	}
}
