package ledger

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"prefdt/inference/goal"
)

func open(t *testing.T, dir string) *Ledger {
	t.Helper()
	l, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func state(slot int) State {
	return State{
		Mission: "m1", Phase: "flying", Next: slot + 1, Missed: 2, TransitJ: 812.25,
		Goal:     goal.State{Slot: slot, Slots: 100, Mode: goal.Target, BudgetJ: 42e3, SpentJ: 270.1 * float64(slot)},
		Aircraft: []Aircraft{{Number: 1, SystemID: 7, Ours: true, Home: &[2]float64{1, 2}}},
	}
}

func TestWhatWentInComesOut(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir)
	if _, found, err := l.Load(); found || err != nil {
		t.Fatalf("a new ledger holds a mission: %v, %v", found, err)
	}
	if err := l.Begin(state(-1)); err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		if err := l.Settle(state(i), []Row{{Slot: i, EnergyJ: float64(i) / 3}}); err != nil {
			t.Fatal(err)
		}
	}
	l.Close()
	l = open(t, dir)
	defer l.Close()
	s, found, err := l.Load()
	if err != nil || !found || !reflect.DeepEqual(s, state(4)) {
		t.Fatalf("got %+v, %v, %v", s, found, err)
	}
	next := 0
	err = l.Rows(func(r Row) error {
		if r.Slot != next || r.EnergyJ != float64(next)/3 {
			t.Errorf("row %d is %+v", next, r)
		}
		next++
		return nil
	})
	if err != nil || next != 5 {
		t.Errorf("%d rows, %v", next, err)
	}
}

func TestRemembersTheLastCommands(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir)
	const n = Remembered + 300
	for i := 0; i < n; i += 50 {
		batch := []Command{}
		for j := i; j < min(i+50, n); j++ {
			batch = append(batch, Command{ID: fmt.Sprintf("c%d", j), Ack: json.RawMessage(fmt.Sprintf(`{"n":%d}`, j)), Key: "crew", Counter: uint64(j + 1)})
		}
		if err := l.Apply(state(3), batch); err != nil {
			t.Fatal(err)
		}
	}
	l.Close()
	l = open(t, dir)
	defer l.Close()
	for i := range n {
		ack, found, err := l.Ack(fmt.Sprintf("c%d", i))
		if err != nil || found != (i >= n-Remembered) {
			t.Fatalf("command %d: found %v, %v", i, found, err)
		}
		if found && string(ack) != fmt.Sprintf(`{"n":%d}`, i) {
			t.Fatalf("command %d: %s", i, ack)
		}
	}
	counters, err := l.Counters()
	if err != nil || counters["crew"] != n {
		t.Errorf("counters %v, %v", counters, err)
	}
}

func TestInUse(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir)
	defer l.Close()
	if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("a second opening: %v", err)
	}
}

// Any damage must end in an error of one line or in the state of a transaction
// that was completed, never in a crash or an empty ledger.
func TestDamage(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir)
	for i := range 40 {
		if err := l.Settle(state(i), []Row{{Slot: i, Aircraft: make([]Account, 4)}}); err != nil {
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
