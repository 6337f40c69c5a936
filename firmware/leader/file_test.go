package leader_test

import (
	"compress/gzip"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"prefdt/firmware/ledger"
	"prefdt/simbridge/rig"
	"prefdt/simbridge/simnet"
	"prefdt/telemetry"
)

// missionFiles reads the files of finished missions.
func missionFiles(t *testing.T, stateDir string) (all []ledger.Flight) {
	t.Helper()
	paths, _ := filepath.Glob(filepath.Join(ledger.FilesPath(stateDir), "*.json.gz"))
	for _, path := range paths {
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		z, err := gzip.NewReader(f)
		if err != nil {
			t.Fatal(err)
		}
		var flights []ledger.Flight
		if err := json.NewDecoder(z).Decode(&flights); err != nil {
			t.Fatal(err)
		}
		all = append(all, flights...)
	}
	return all
}

// A mission that is over is a file, which has what the crew was shown: the status after
// each settlement and the commands, in order. One that is missing is written after a restart.
func TestFileOfAMission(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		const slots = 30 // it flies still when the second command arrives
		r := rig.New(t, 2, slots)
		f := r.StartLeader()
		r.Await("the leader", rig.AnyStatus)
		r.SendCommand(r.Topics.Budget(), `{"id":"b1","energy_j":9500,"mode":"target"}`, "b1")
		r.TakeOff()
		r.Await("slot 4", rig.SlotSettled(4))
		r.SendCommand(r.Topics.Preference(), `{"id":"p1","setting":0.25}`, "p1")
		if files := missionFiles(t, r.Config.StateDir); len(files) > 0 {
			t.Error("a mission under way has a file")
		}
		r.Await("landed", func(s telemetry.Status) bool { return rig.Done(s) && bothLanded(s) })
		if !r.Eventually(func() bool { return len(missionFiles(t, r.Config.StateDir)) == 1 }) {
			t.Fatal("no file of the mission")
		}
		f.Kill()

		published := map[int][]telemetry.Status{} // after each settlement
		for _, s := range r.Statuses() {
			s.Seq, s.Challenge = 0, ""
			published[s.Slot] = append(published[s.Slot], s)
		}
		flight := missionFiles(t, r.Config.StateDir)[0]
		if flight.State.Phase != telemetry.StateDone {
			t.Errorf("state %s", flight.State.Phase)
		}
		if flight.State.Place == nil || flight.State.Place.Origin != r.Config.Origin || flight.State.Place.AreaM[0] != r.Physics.AreaSideM {
			t.Errorf("place %+v", flight.State.Place)
		}
		if len(flight.Rows) != slots {
			t.Fatalf("%d rows", len(flight.Rows))
		}
		var clocks [2][]float64 // each aircraft's time, of the slots in which it was measured
		for _, row := range flight.Rows {
			if row.Status == nil {
				t.Errorf("slot %d has no status", row.Slot)
				continue
			}
			live := published[row.Slot]
			same := func(s telemetry.Status) bool {
				s.Refuses = nil // of the moment at which it is published
				return reflect.DeepEqual(s, *row.Status)
			}
			if !slices.ContainsFunc(live, same) {
				t.Errorf("slot %d: published %+v, kept %+v", row.Slot, live, *row.Status)
			}
			if age := time.Since(time.UnixMilli(row.UnixMS)); age < 0 || age > time.Hour {
				t.Errorf("slot %d was settled %v ago", row.Slot, age)
			}
			for k, a := range row.Aircraft {
				if p := row.Status.Aircraft[k].PositionM; p == nil || a.UpM < 10 || a.BootMS <= 0 {
					t.Errorf("slot %d: %+v", row.Slot, a)
				}
				clocks[k] = append(clocks[k], a.BootMS-1000*float64(row.Slot))
			}
		}
		for k, c := range clocks { // a slot is a second of the autopilot's clock
			if len(c) != slots || slices.Max(c)-slices.Min(c) > 10 {
				t.Errorf("aircraft %d: its clock less a second a slot is %v ms", k+1, c)
			}
		}
		var ids []string
		for _, c := range flight.Commands {
			if ack, err := telemetry.DecodeAck(c.Ack); err == nil && ack.Accepted {
				ids = append(ids, c.ID)
			}
		}
		if got := strings.Join(ids, " "); !strings.HasPrefix(got, "b1 ") || !strings.HasSuffix(got, " p1") {
			t.Errorf("commands %q", got)
		}

		if err := os.RemoveAll(ledger.FilesPath(r.Config.StateDir)); err != nil {
			t.Fatal(err)
		}
		f = r.StartLeader()
		if !r.Eventually(func() bool { return len(missionFiles(t, r.Config.StateDir)) == 1 }) {
			t.Fatal("after a restart the file is missing")
		}
		if again := missionFiles(t, r.Config.StateDir)[0]; !reflect.DeepEqual(again.Rows, flight.Rows) ||
			!reflect.DeepEqual(again.Commands, flight.Commands) {
			t.Error("after a restart the file is another one")
		}
		f.Kill()
	})
}
