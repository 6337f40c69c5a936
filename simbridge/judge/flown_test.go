package judge

import (
	"bytes"
	"encoding/json"
	"testing"

	"prefdt/simbridge/record"
	"prefdt/simbridge/world"
	"prefdt/telemetry"
)

// lines is a record as it is written.
func lines(t *testing.T, all ...record.Line) *bytes.Buffer {
	t.Helper()
	var b bytes.Buffer
	for _, l := range all {
		if err := json.NewEncoder(&b).Encode(l); err != nil {
			t.Fatal(err)
		}
	}
	return &b
}

// statusOf is a status that a client publishes.
func statusOf(t *testing.T, timeS float64, client string, slots int) record.Line {
	t.Helper()
	topics, _ := telemetry.NewTopics("demo")
	m := telemetry.Status{Seq: int64(timeS), State: telemetry.StateIdle, Slot: -1, Slots: slots, EnergySource: telemetry.SourceModel,
		Aircraft: []telemetry.StatusAircraft{}, Challenge: telemetry.NewChallenge()}
	raw, err := telemetry.Encode(m)
	if err != nil {
		t.Fatal(err)
	}
	return record.Line{TimeS: timeS, MQTT: &record.Message{From: client, Topic: topics.Status(), Payload: string(raw)}}
}

// A leader is told by the client id that it was configured with, and slots that nobody knew before are the leader's.
func TestLeaderByConfiguredID(t *testing.T) {
	first := record.Flight{Version: record.Version, Fleet: "demo", Speed: 10, Leader: "edge"}
	f, err := load(lines(t, record.Line{Flight: &first}, statusOf(t, 1, "edge-ABC", 77), statusOf(t, 2, "leader-ABC", 5)))
	if err != nil {
		t.Fatal(err)
	}
	if len(f.statuses) != 1 || f.Slots != 77 {
		t.Errorf("%d statuses, %d slots", len(f.statuses), f.Slots)
	}
}

// A leader that is killed and started again at once was away.
func TestMomentAway(t *testing.T) {
	first := record.Flight{Version: record.Version, Fleet: "demo", Speed: 1}
	f, err := load(lines(t, record.Line{Flight: &first}, record.Line{TimeS: 5, Fault: &record.Fault{Kind: record.LeaderDown}},
		record.Line{TimeS: 5, Fault: &record.Fault{Kind: record.LeaderDown, Ends: true}}))
	if err != nil {
		t.Fatal(err)
	}
	if down := f.fault(0, record.LeaderDown); !down.touches(5, 5) || down.lengthS() > 0.1 {
		t.Errorf("the leader was away in %v", down)
	}
}

// Of an autopilot that is attached to nothing is known but its states: no rule alarms for what it did not tell.
func TestUnheard(t *testing.T) {
	w := world.Standard()
	first := record.Flight{Version: record.Version, Fleet: "demo", Speed: 1, Slots: 50, Physics: w.Physics, World: &w,
		Aircraft: []record.Aircraft{{Autopilot: "ardupilot", StandM: [3]float64{500, 500}, CapacityJ: 150e3,
			SpeedMaxMPS: 30, Unheard: true}}}
	all := []record.Line{{Flight: &first}}
	for n := range 1000 {
		t := 1 + float64(n)/10
		s := record.State{PositionM: [3]float64{500, 500, min(2*t, 100)}, Mode: takeoff, Armed: true, PackJ: 150e3, LeftJ: 150e3}
		if t > 60 {
			s.Mode = offboard
		}
		if s.OnGround = n == 0; t > 90 {
			s.Mode, s.PositionM[2], s.VelocityMPS[2] = land, max(0, 100-20*(t-90)), -20
			s.OnGround = s.PositionM[2] == 0
		}
		all = append(all, record.Line{TimeS: t, Aircraft: 1, State: &s})
	}
	all = append(all, record.Line{TimeS: 102, End: &record.End{}})
	for _, other := range []bool{false, true} {
		first.OtherBroker = other
		found, err := Read(lines(t, all...), nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range found.Findings {
			if x.Broken > 0 {
				t.Errorf("other broker %v: %s, %d times, first at %s", other, x.Rule, x.Broken, x.First)
			}
		}
	}
}

// Where a reported gain is one sample of fading, what was decided follows beliefs.
func TestFading(t *testing.T) {
	f := linkFlight("px4")
	f.World = &world.Config{Sounding: true}
	d := telemetry.Decision{Slot: 1, Aircraft: 1, Offload: 1, CPUHz: 1}
	f.decisions = []decision{{50, "u01", d}}
	f.reports = map[reportKey]report{{"u01", 1}: {50, telemetry.Report{Slot: 1, CPUHz: 1e9, Gain: map[int]float64{1: 1e-30},
		Task: &telemetry.Task{Bits: 1e6, CyclesPerBit: 1000, DeadlineS: 1}}}}
	for _, fades := range []bool{true, false} {
		f.World.Sounding = fades
		c := &check{flight: f, finding: Finding{Assumed: map[string]float64{}}}
		if c.pays(); (c.finding.Broken == 0) != fades {
			t.Errorf("fading %v: broken %d times", fades, c.finding.Broken)
		}
	}
}

// A worker gives what it measured, by its offer; without one an aircraft has the CPU of the world.
func TestWorkersCPU(t *testing.T) {
	f := &flight{}
	f.Physics.EdgeCPUHz = 40e9
	next := beacon{Slot: telemetry.Slot{Offer: telemetry.Offer{Aircraft: []telemetry.OfferAircraft{{Number: 1, CPUHz: 9e9, Worker: "a:1"},
		{Number: 2, CPUHz: 9e9}}}}}
	f.beacons = []beacon{next}
	if f.cpuHz(1, &next) != 9e9 || f.cpuHz(2, &next) != 40e9 || !f.computes() || (&flight{}).computes() {
		t.Errorf("%v and %v cycles a second, computes: %v", f.cpuHz(1, &next), f.cpuHz(2, &next), f.computes())
	}
}
