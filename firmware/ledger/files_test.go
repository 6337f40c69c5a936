package ledger

import (
	"compress/gzip"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"prefdt/firmware/account"
	missions "prefdt/firmware/mission"
)

// readFile reads a mission's file as whoever receives it does.
func readFile(t *testing.T, path string) (flights []Flight) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err == nil {
		err = json.NewDecoder(z).Decode(&flights)
	}
	if err != nil {
		t.Fatal(err)
	}
	return flights
}

func fileNames(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(FilesPath(dir))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestFilesOfMissions(t *testing.T) {
	dir := t.TempDir()
	l, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	state := func(mission, phase string) State {
		return State{State: missions.State{Mission: mission, Phase: phase}, Place: &Place{Fleet: "demo"}}
	}
	fly := func(mission string, unixMS int64) {
		t.Helper()
		s := state(mission, "returning")
		rows := []account.Row{{Slot: 0, UnixMS: unixMS, Aircraft: []account.AircraftRow{{Number: 1, UpM: 99.5}}},
			{Slot: 1, UnixMS: unixMS + 1000}}
		if err := l.WriteCommands(s, []Command{{ID: "start-" + mission, Ack: json.RawMessage(`{"accepted":true}`),
			Mission: mission}}); err != nil {
			t.Fatal(err)
		}
		if err := l.WriteRows(s, rows); err != nil {
			t.Fatal(err)
		}
	}
	first, second := "20260102T030405Z-m-1.json.gz", "20260102T040405Z-m-2.json.gz"
	fly("m-1", 1767323045000)
	write := func(want ...string) {
		t.Helper()
		if err := l.WriteFiles(); err != nil {
			t.Fatal(err)
		}
		if got := fileNames(t, dir); !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	write() // it is not over
	fly("m-2", 1767326645000)
	write(first) // whatever its state was: another one is the present mission
	if err := l.WriteRows(state("m-2", "done"), nil); err != nil {
		t.Fatal(err)
	}
	write(first, second)
	all, err := l.Flights()
	if err != nil {
		t.Fatal(err)
	}
	for i, name := range []string{first, second} {
		if got := readFile(t, filepath.Join(FilesPath(dir), name)); len(got[0].Commands) != 1 || !reflect.DeepEqual(got, all[i:i+1]) {
			t.Errorf("%s: got %+v, want %+v", name, got, all[i])
		}
	}
	// What a loss of power left is removed, and what is there is not written again.
	if err := os.WriteFile(filepath.Join(FilesPath(dir), first+".part"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(FilesPath(dir), second), []byte("as it was"), 0o600); err != nil {
		t.Fatal(err)
	}
	write(first, second)
	if raw, _ := os.ReadFile(filepath.Join(FilesPath(dir), second)); string(raw) != "as it was" {
		t.Error("a file was written twice")
	}
	// Beyond the bound the oldest go, and the newest stays.
	if err := os.WriteFile(filepath.Join(FilesPath(dir), second), make([]byte, minRowBytes+1), 0o600); err != nil {
		t.Fatal(err)
	}
	l.SetMaxRowBytes(0)
	write(second)
}
