package ledger

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"

	"prefdt/firmware/account"
	"prefdt/inference/slot"
)

func missionState(name string, slot int) State {
	s := testState(slot)
	s.Mission = name
	return s
}

func testRow(slot int) account.Row {
	return account.Row{Slot: slot, EnergyJ: float64(slot) / 3, Aircraft: make([]account.AircraftRow, 2)}
}

// writeMissions writes missions of so many slots, 500 to a transaction.
func writeMissions(t *testing.T, l *Ledger, slots int, names ...string) {
	t.Helper()
	for _, name := range names {
		if err := l.WriteCommands(missionState(name, -1), nil); err != nil {
			t.Fatal(err)
		}
		for from := 0; from < slots; from += 500 {
			var rows []account.Row
			for i := from; i < min(from+500, slots); i++ {
				rows = append(rows, testRow(i))
			}
			if err := l.WriteRows(missionState(name, min(from+500, slots)-1), rows); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestEarlierFlightsAreKept(t *testing.T) {
	dir := t.TempDir()
	l := mustOpen(t, dir)
	writeMissions(t, l, 30, "m1", "m2", "m3")
	if err := l.WriteCommands(missionState("never flown", -1), nil); err != nil {
		t.Fatal(err)
	}
	writeMissions(t, l, 5, "m4")
	l.Close()
	for _, opened := range []func() (*Ledger, error){
		func() (*Ledger, error) { return Open(dir) },
		func() (*Ledger, error) { return OpenReadOnly(filepath.Join(dir, fileName)) },
	} {
		l, err := opened()
		if err != nil {
			t.Fatal(err)
		}
		all, err := l.Flights()
		l.Close()
		if err != nil || len(all) != 4 {
			t.Fatalf("%d flights, %v", len(all), err)
		}
		for i, f := range all {
			want := []int{30, 30, 30, 5}[i]
			if f.State.Mission != fmt.Sprintf("m%d", i+1) || len(f.Rows) != want || f.Rows[want-1].Slot != want-1 ||
				f.Rows[0].Mission != f.State.Mission {
				t.Errorf("flight %d is %s with %d rows", i, f.State.Mission, len(f.Rows))
			}
		}
	}
}

// However long and however many the missions, the file stays within its bound, and the
// newest rows are in it.
func TestBoundedSize(t *testing.T) {
	dir := t.TempDir()
	l := mustOpen(t, dir)
	const keep = 1e6
	l.SetMaxRowBytes(keep)
	largest := int64(0)
	measure := func() {
		info, err := os.Stat(filepath.Join(dir, fileName))
		if err != nil {
			t.Fatal(err)
		}
		largest = max(largest, info.Size())
	}
	for i := range 6 {
		writeMissions(t, l, 6000, fmt.Sprintf("long%d", i)) // 2 MB of rows each
		measure()
	}
	for i := range 30 {
		writeMissions(t, l, 300, fmt.Sprintf("short%d", i))
		measure()
	}
	all, err := l.Flights()
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	if largest > 3*keep {
		t.Errorf("the file grew to %d bytes, with a bound of %d", largest, int(keep))
	}
	if n := len(all); n < 4 || all[n-1].State.Mission != "short29" || all[n-2].State.Mission != "short28" || len(all[n-1].Rows) != 300 {
		t.Errorf("%d flights are left", n)
	}
	t.Logf("36 flights of 45,000 rows flown, %d left, the file at most %d bytes", len(all), largest)
}

// Everything that was not damaged is recovered: checksums exclude anything else.
func TestRecover(t *testing.T) {
	dir := t.TempDir()
	l := mustOpen(t, dir)
	writeMissions(t, l, 40, "m1")
	if err := l.WriteCommands(missionState("m2", -1), nil); err != nil {
		t.Fatal(err)
	}
	for i := range 60 {
		if err := l.WriteRows(missionState("m2", i), []account.Row{testRow(i)}); err != nil {
			t.Fatal(err)
		}
		c := Command{ID: fmt.Sprintf("c%d", i), Ack: json.RawMessage(`{"a":"}{\""}`)}
		if err := l.WriteCommands(missionState("m2", i), []Command{c}); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.WriteCommands(missionState("m2", 59), []Command{{ID: "c60", Ack: json.RawMessage(`{}`)}}); err != nil {
		t.Fatal(err)
	}
	l.Close()
	path := filepath.Join(dir, fileName)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}

	s, err := Recover(path)
	if err != nil {
		t.Fatal(err)
	}
	again := t.TempDir()
	if err := s.Save(again); err != nil {
		t.Fatal(err)
	}
	if err := s.Save(again); err == nil || !strings.Contains(err.Error(), "empty directory") {
		t.Errorf("saved over a ledger: %v", err)
	}
	l = mustOpen(t, again)
	all, err := l.Flights()
	if err != nil || len(all) != 2 || len(all[0].Rows) != 40 || len(all[1].Rows) != 60 ||
		!reflect.DeepEqual(all[1].State, missionState("m2", 59)) {
		t.Errorf("recovered %d flights, %v", len(all), err)
	}
	for i := range 60 {
		if _, found, err := l.Command(fmt.Sprintf("c%d", i)); !found || err != nil {
			t.Errorf("command %d: %v, %v", i, found, err)
		}
	}
	for name, want := range map[string]bool{"m1": true, "m2": true, "m3": false} {
		if used, err := l.MissionUsed(name); used != want || err != nil {
			t.Errorf("after the recovery %q was used: %v, %v", name, used, err)
		}
	}
	l.Close()

	rng := rand.New(rand.NewPCG(5, 6))
	refused, rows := 0, 0
	for range 60 {
		bad := append([]byte(nil), whole...)
		for range 1 + rng.IntN(3) { // lost pages
			at := rng.IntN(len(bad) / 4096)
			clear(bad[at*4096 : (at+1)*4096])
		}
		bad = bad[:len(bad)-rng.IntN(len(bad)/3)]
		d := t.TempDir()
		if err := os.WriteFile(filepath.Join(d, fileName), bad, 0o600); err != nil {
			t.Fatal(err)
		}
		if l, err := OpenReadOnly(filepath.Join(d, fileName)); err != nil {
			refused++
		} else { // only pages of no use were lost
			flights, err := l.Flights()
			n := 0
			for _, f := range flights {
				n += len(f.Rows)
			}
			if n != 100 || err != nil {
				t.Errorf("a file that is consistent has %d rows, %v", n, err)
			}
			l.Close()
		}
		s := recoverBytes(bad)
		for _, f := range s.Flights {
			for _, r := range f.Rows {
				if want := testRow(r.Slot); r.EnergyJ != want.EnergyJ || r.Mission != f.State.Mission {
					t.Fatalf("row %+v of %s was never written", r, f.State.Mission)
				}
			}
			rows += len(f.Rows)
		}
		if len(s.Flights) > 0 {
			if err := s.Save(t.TempDir()); err != nil {
				t.Error(err)
			}
		}
	}
	if refused < 20 || rows < 60*60 {
		t.Errorf("%d of 60 damaged files were refused, %d of %d rows came back", refused, rows, 60*100)
	}
	t.Logf("%d of 60 damaged files refused as they are; of 6000 rows %d came back", refused, rows)
}

// The last rows come back in order, with what was seen in them, however much that is;
// they are recovered too.
func TestLastRows(t *testing.T) {
	dir := t.TempDir()
	l := mustOpen(t, dir)
	writeMissions(t, l, 3, "m1")
	var want []account.Row
	for i := range 30 {
		r := testRow(i)
		r.Mission = "m2"
		r.Seen = &account.Seen{Names: []string{"u1"}}
		for u := range 40 * i { // the last ones have some 100 kB
			r.Seen.Snapshot.Users = append(r.Seen.Snapshot.Users,
				slot.User{ID: u, CPUHz: 1e9 / float64(u+3), Gain: []float64{1e-9 / float64(u+7)}})
		}
		if err := l.WriteRows(missionState("m2", i), []account.Row{r}); err != nil {
			t.Fatal(err)
		}
		want = append(want, r)
	}
	for n, first := range map[int]int{7: 23, 100: 0, 0: 30} {
		got, err := l.LastRows(n)
		if err != nil || len(got) != 30-first || len(got) > 0 && !reflect.DeepEqual(got, want[first:]) {
			t.Errorf("the last %d: %d rows, %v", n, len(got), err)
		}
	}
	l.Close()
	s, err := Recover(filepath.Join(dir, fileName))
	if err != nil || len(s.Flights) != 2 || !reflect.DeepEqual(s.Flights[1].Rows, want) {
		t.Errorf("recovered %d flights, %v", len(s.Flights), err)
	}
}

// One large row, of thousands of users, drops as many old rows as it takes the place of.
func TestLargeRow(t *testing.T) {
	l := mustOpen(t, t.TempDir())
	const keep = 1e6
	l.SetMaxRowBytes(keep)
	writeMissions(t, l, 500, "m1")
	large := testRow(500)
	large.Aircraft = make([]account.AircraftRow, 1000) // 100 kB
	if err := l.WriteRows(missionState("m1", 500), []account.Row{large}); err != nil {
		t.Fatal(err)
	}
	rows, err := l.LastRows(1000)
	if err != nil || len(rows) < 400 {
		t.Errorf("%d of 501 rows are left of %v bytes allowed: %v", len(rows), keep, err)
	}
}

// A file system that refuses is told from damage: the file is not to be moved away.
func TestRefusedByTheFileSystem(t *testing.T) {
	for _, e := range []syscall.Errno{syscall.EROFS, syscall.EACCES, syscall.EIO} {
		err := openError("x/ledger.db", &os.PathError{Op: "open", Path: "x/ledger.db", Err: e})
		if errors.As(err, new(damageError)) || strings.Contains(err.Error(), "move it away") || !errors.Is(err, e) {
			t.Errorf("%v: %v", e, err)
		}
	}
	if err := openError("x", errors.New("a checksum")); !errors.As(err, new(damageError)) {
		t.Errorf("damage: %v", err)
	}
}
