package fly

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"prefdt/simbridge/record"
	"prefdt/simbridge/simnet"
	"prefdt/telemetry"
)

// What a flight's commands have happen does: to the leader in the climb, in a slot and in a landing, to a link, and by a pilot,
// who gives his aircraft back. What waits for something that never is fails the flight.
func TestActs(t *testing.T) {
	t.Parallel()
	const slots = 60
	all := func(pilot string) []Command {
		return []Command{
			{When: whenClimb, Kill: true},
			{Slot: 3, Kill: true},
			{Slot: 6, CutS: 5, Aircraft: 1},
			{Slot: 14, Pilot: pilot, Aircraft: 2},
			{Slot: 18, When: "2 " + pilot, Args: []string{"mission", "resume", "-aircraft", "2"}},
			{When: "2 commanded", Args: []string{"mission", "hold"}},
			{When: telemetry.StateHolding, Args: []string{"mission", "resume"}},
			{When: whenLanding, Kill: true},
		}
	}
	const allFaults = "0 leader_down, 0 leader_down, 1 link_loss, 2 pilot_acts, 0 leader_down"
	for name, c := range map[string]struct {
		acts   []Command
		failed string
		faults string // in order
		attach bool
		// unjudged: the judge counts a second climb in the slots as if the aircraft served.
		unjudged bool
	}{
		"simulated": {all("position"), "", allFaults, false, false},
		"attached":  {all("hold"), "", allFaults, true, false},
		"stopped and brought home": {[]Command{
			{Slot: 4, Args: []string{"mission", "stop"}},
			{When: telemetry.StateStopped, Args: []string{"mission", "return"}},
		}, "", "", false, false},
		"launched again": {[]Command{
			{Slot: 2, Args: []string{"mission", "return", "-aircraft", "2"}},
			{When: "2 ground", Args: []string{"mission", "launch", "-aircraft", "2"}},
			{When: "2 commanded"},
		}, "", "", false, true},
		"never": {[]Command{{Slot: 2, When: "1 position"}}, `"aircraft 1 position" of slot 2 was never due`, "", false, false},
	} {
		t.Run(name, func(t *testing.T) {
			simnet.Test(t, func(t *testing.T) {
				conf := flightInMemory(t, slots)
				if c.attach {
					conf, _, _ = startAttached(t, slots, instance{rate: 1}, instance{rate: 1})
				}
				conf.Commands, conf.unjudged = append(conf.Commands, c.acts...), c.unjudged
				var out strings.Builder
				err := Run(t.Context(), conf, &out)
				if c.failed == "" && err != nil || c.failed != "" && (err == nil || !strings.Contains(err.Error(), c.failed)) {
					t.Errorf("%v, want %q\n%s", err, c.failed, out.String())
				}
				file, err := os.Open(filepath.Join(conf.Out, RecordFile))
				if err != nil {
					t.Fatal(err)
				}
				defer file.Close()
				var faults []string
				var told telemetry.Status
				if err := record.Read(file, func(l record.Line) error {
					if l.Fault != nil && !l.Fault.Ends {
						faults = append(faults, string('0'+byte(l.Aircraft))+" "+l.Fault.Kind)
					}
					if l.MQTT != nil && strings.HasSuffix(l.MQTT.Topic, "/status") {
						return json.Unmarshal([]byte(l.MQTT.Payload), &told)
					}
					return nil
				}); err != nil || strings.Join(faults, ", ") != c.faults {
					t.Errorf("%v; recorded %q, want %q", err, faults, c.faults)
				}
				for _, a := range told.Aircraft {
					if a.Duty != telemetry.DutyHome {
						t.Errorf("aircraft %d is %s in what was told last", a.Number, a.Duty)
					}
				}
			})
		})
	}
}
