package ledger

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"

	"prefdt/firmware/account"
	"prefdt/firmware/fleet"
	"prefdt/firmware/mission"
	"prefdt/firmware/schedule"
	"prefdt/firmware/users"
	"prefdt/inference/goal"
	"prefdt/telemetry"
)

func mustOpen(t *testing.T, dir string) *Ledger {
	t.Helper()
	l, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func testState(slot int) State {
	return State{
		State: mission.State{Mission: "m1", Phase: "flying", HeldBy: "crew",
			Contact: mission.Contact{CrewLostS: 3.5, Stations: []string{"ops"}}},
		ConfiguredMission: "m1", StatusSeq: int64(slot) + 7,
		Schedule: schedule.State{Next: slot + 1, Missed: 2, References: []schedule.ClockReference{{BootMS: 5e3, MSPerSlot: 1000}}},
		Account: account.State{
			Objective:  goal.State{Slot: slot, Slots: 100, Mode: goal.Target, BudgetJ: 42e3, SpentJ: 270.1 * float64(slot)},
			LocalDelay: account.LocalDelay{MeanS: 3.25, Slots: 4},
			Aircraft:   []account.AircraftAccount{{AccountedJ: 900, SpentJ: 812.25, TransitJ: 87.75}},
		},
		Users:       users.State{PriceSPerJ: 0.01},
		Fleet:       []fleet.SavedAircraft{{Number: 1, SystemID: 7, UnderCommand: true, Home: &[3]float64{1, 2, -3}}},
		LastCommand: &telemetry.LastCommand{ID: "c", Key: "crew-1", Slot: 3, What: "stop"},
	}
}

func TestReadsWhatWasWritten(t *testing.T) {
	dir := t.TempDir()
	l := mustOpen(t, dir)
	if _, found, err := l.Load(); found || err != nil {
		t.Fatalf("a new ledger holds a mission: %v, %v", found, err)
	}
	if err := l.WriteCommands(testState(-1), nil); err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		if err := l.WriteRows(testState(i), []account.Row{{Slot: i, EnergyJ: float64(i) / 3}}); err != nil {
			t.Fatal(err)
		}
	}
	l.Close()
	l = mustOpen(t, dir)
	defer l.Close()
	s, found, err := l.Load()
	if err != nil || !found || !reflect.DeepEqual(s, testState(4)) {
		t.Fatalf("got %+v, %v, %v", s, found, err)
	}
	rows := presentRows(t, l)
	for i, r := range rows {
		if r.Slot != i || r.EnergyJ != float64(i)/3 {
			t.Errorf("row %d is %+v", i, r)
		}
	}
	if len(rows) != 5 {
		t.Errorf("%d rows", len(rows))
	}
}

// presentRows are the rows of the present mission.
func presentRows(t *testing.T, l *Ledger) []account.Row {
	t.Helper()
	all, err := l.Flights()
	if err != nil {
		t.Fatal(err)
	}
	return all[len(all)-1].Rows
}

func TestRemembersTheLastCommands(t *testing.T) {
	dir := t.TempDir()
	l := mustOpen(t, dir)
	const n = MaxCommands + 300
	for i := 0; i < n; i += 50 {
		batch := []Command{}
		for j := i; j < min(i+50, n); j++ {
			batch = append(batch, Command{ID: fmt.Sprintf("c%d", j), Ack: json.RawMessage(fmt.Sprintf(`{"n":%d}`, j)),
				BodyDigest: "digest"})
		}
		if err := l.WriteCommands(testState(3), batch); err != nil {
			t.Fatal(err)
		}
	}
	l.Close()
	l = mustOpen(t, dir)
	defer l.Close()
	for i := range n {
		c, found, err := l.Command(fmt.Sprintf("c%d", i))
		if err != nil || found != (i >= n-MaxCommands) {
			t.Fatalf("command %d: found %v, %v", i, found, err)
		}
		if found && (string(c.Ack) != fmt.Sprintf(`{"n":%d}`, i) || c.BodyDigest != "digest") {
			t.Fatalf("command %d: %+v", i, c)
		}
	}
}

// TestMissionsAreUsedOnce: the id of every mission that was ever begun is kept, also of
// those whose record was deleted since, and so are commands over a new mission.
func TestMissionsAreUsedOnce(t *testing.T) {
	dir := t.TempDir()
	l := mustOpen(t, dir)
	l.SetMaxRowBytes(0)
	if err := l.WriteCommands(missionState("m0", -1), []Command{{ID: "c0", Ack: json.RawMessage(`{}`)}}); err != nil {
		t.Fatal(err)
	}
	for i := range 40 {
		writeMissions(t, l, 500, fmt.Sprintf("m%d", i))
	}
	l.Close()
	l = mustOpen(t, dir)
	defer l.Close()
	if flights, err := l.Flights(); err != nil || len(flights) >= 40 {
		t.Fatalf("%d flights are left, %v: no space was freed", len(flights), err)
	}
	for name, want := range map[string]bool{"m0": true, "m7": true, "m39": true, "m40": false, "": false} {
		if used, err := l.MissionUsed(name); used != want || err != nil {
			t.Errorf("%q was used: %v, %v, want %v", name, used, err, want)
		}
	}
	if _, found, err := l.Command("c0"); !found || err != nil {
		t.Errorf("the command of an earlier mission: %v, %v", found, err)
	}
}

// A ledger of another format is refused with one line, and not changed.
func TestOtherFormat(t *testing.T) {
	dir := t.TempDir()
	db, err := bolt.Open(filepath.Join(dir, fileName), 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Update(func(tx *bolt.Tx) error { // as version 1 wrote it
		for _, name := range [][]byte{bucketState, bucketSlots, bucketCommands, bucketIDs} {
			if _, err := tx.CreateBucket(name); err != nil {
				return err
			}
		}
		return tx.Bucket(bucketState).Put(keyFormat, []byte{1})
	}); err != nil {
		t.Fatal(err)
	}
	db.Close()
	before, _ := os.ReadFile(filepath.Join(dir, fileName))
	if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), "has format [1], this leader reads 2") ||
		strings.Contains(err.Error(), "\n") {
		t.Errorf("format 1: %v", err)
	}
	if after, err := os.ReadFile(filepath.Join(dir, fileName)); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the file was changed, %v", err)
	}
}

func TestInUse(t *testing.T) {
	dir := t.TempDir()
	l := mustOpen(t, dir)
	defer l.Close()
	if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("a second opening: %v", err)
	}
}

// Any damage must end in an error of one line or in the state of a transaction
// that was completed, never in a crash or an empty ledger.
func TestDamage(t *testing.T) {
	dir := t.TempDir()
	l := mustOpen(t, dir)
	for i := range 40 {
		if err := l.WriteRows(testState(i), []account.Row{{Slot: i, Aircraft: make([]account.AircraftRow, 4)}}); err != nil {
			t.Fatal(err)
		}
	}
	l.Close()
	whole, err := os.ReadFile(filepath.Join(dir, fileName))
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(3, 4))
	refused := 0
	for i := range 150 {
		bad := append([]byte(nil), whole...)
		switch i % 3 {
		case 0:
			bad = bad[:rng.IntN(len(bad))]
		case 1:
			for range 1 + rng.IntN(2000) {
				bad[rng.IntN(len(bad))] ^= byte(1 + rng.IntN(255))
			}
		case 2:
			at := rng.IntN(len(bad) / 4096)
			clear(bad[at*4096 : (at+1)*4096])
		}
		d := t.TempDir()
		if err := os.WriteFile(filepath.Join(d, fileName), bad, 0o600); err != nil {
			t.Fatal(err)
		}
		l, err := Open(d)
		if err == nil {
			var s State
			var found bool
			s, found, err = l.Load()
			if err == nil && (!found || s.Mission != "m1") {
				t.Fatalf("case %d: opened as %+v, found %v", i, s, found)
			}
			l.Close()
		}
		if err != nil {
			refused++
			if strings.Contains(err.Error(), "\n") {
				t.Fatalf("case %d: %q is more than a line", i, err)
			}
		}
	}
	if refused < 75 {
		t.Errorf("only %d of 150 damaged files were noticed", refused)
	}
}
