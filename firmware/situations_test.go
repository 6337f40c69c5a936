package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"prefdt/inference/goal"
	"prefdt/inference/slot"
	"prefdt/simbridge/battery"
	"prefdt/telemetry"
)

// The table of situations and actions, as far as no test of its own has them:
// end of mission (TestMission), lost link (TestLostAircraft), lost broker
// (TestBrokerGone), pilot (TestPilotTakesOver), wrong state (TestTransitions),
// restart (TestRestart, TestKilledInEverySlot), duplicate id (fleet).
func TestSituations(t *testing.T) {
	for _, c := range []struct {
		situation, action string
		try               func(t *testing.T, r *rig)
	}{
		{"battery low", "the aircraft is sent home and lands, the others fly on", func(t *testing.T, r *rig) {
			r.config.Flight.ReserveJ = 140e3
			r.launch()
			r.takeOff()
			r.await("slot 3", at(3))
			// Aircraft 2's charge falls to what its reserve takes.
			r.craft[1].SetBattery(battery.Fields{Current: true, Energy: true, Remaining: true})
			r.craft[1].AddEdgeJ(3, 12e3)
			r.await("one lands", func(s telemetry.Status) bool { l := s.Aircraft[1].Landed; return l != nil && *l })
			s := r.await("the other flies on", flying)
			later := r.await("ten slots on", at(s.Slot+10))
			if !flying(later) || later.Aircraft[0].Mode != "OFFBOARD" {
				t.Errorf("%+v", later)
			}
			r.until(func() bool { return len(r.offered) == 1 && r.offered[0] == 1 })
		}},
		{"autopilot rebooted", "it is left alone until resume", func(t *testing.T, r *rig) {
			r.launch()
			r.takeOff()
			r.await("slot 3", at(3))
			r.craft[1].Reboot(false) // falls
			s := r.await("it stands", func(s telemetry.Status) bool {
				l := s.Aircraft[1].Landed
				return l != nil && *l && s.Slot > 15
			})
			r.await("ten slots on", at(s.Slot+10))
			if v := r.craft[1].State(); v.Armed {
				t.Errorf("it was armed again: %+v", v)
			}
		}},
		{"decision late", "the slots are missed, the aircraft hold after two, then fly on", func(t *testing.T, r *rig) {
			f := r.launch()
			r.takeOff()
			r.await("slot 5", at(5))
			before := r.await("status", anyStatus).MissedSlots
			r.slow.Store(int64(4 * 40 * time.Millisecond))
			s := r.await("missed slots", func(s telemetry.Status) bool { return s.MissedSlots >= before+3 })
			r.await("it flies on", at(s.Slot+3))
			if n := f.fleet.Counts().Stalled; n == 0 {
				t.Error("no aircraft held while the decision took four slots")
			}
		}},
		{"two aircraft too close before take-off", "start is refused", func(t *testing.T, r *rig) {
			r.config.Aircraft[0].StartM, r.config.Aircraft[1].StartM = &[2]float64{100, 100}, &[2]float64{104, 100}
			r.launch()
			r.await("the leader", anyStatus)
			var ack telemetry.Ack
			for i := 0; i < 50 && !strings.Contains(ack.Reason, "apart"); i++ {
				id := string(rune('a'+i%26)) + strings.Repeat("x", i)
				ack = r.command(r.topics.Mission(), `{"id":"`+id+`","action":"start"}`, id)
				time.Sleep(20 * time.Millisecond) // the leader itself waits for parameters
			}
			if ack.Accepted || !strings.Contains(ack.Reason, "4.0 m apart") {
				t.Errorf("%+v", ack)
			}
		}},
		{"budget below the floor", "accepted, saturated; flies on at the least energy", func(t *testing.T, r *rig) {
			r.launch()
			r.takeOff()
			r.await("slot 3", at(3))
			ack := r.command(r.topics.Budget(), `{"id":"b","energy_j":100,"mode":"target"}`, "b")
			if !ack.Accepted || ack.Saturated == nil || !*ack.Saturated {
				t.Errorf("%+v", ack)
			}
			r.await("saturated", func(s telemetry.Status) bool { return s.Saturated && flying(s) })
		}},
		{"every report lost", "users take the offer, which expects as many as really came", func(t *testing.T, r *rig) {
			r.mute, r.takers = true, 5
			f := r.launch()
			r.takeOff()
			s := r.await("slot 25", at(25))
			f.kill(t)
			sum := f.craft[0].expected + f.craft[1].expected
			if s.UsersHeard != 0 || sum < 4 || sum > 6 {
				t.Errorf("five users took the offer, %.2f are expected; %d heard", sum, s.UsersHeard)
			}
		}},
	} {
		t.Run(strings.ReplaceAll(c.situation, " ", "-"), func(t *testing.T) { c.try(t, newRig(t, 2, 2000)) })
	}
}

// slowly is a scheduler that takes its time once.
type slowly struct {
	scheduler
	r *rig
}

func (s slowly) Decide(n *slot.Snapshot, g *goal.Goal, d *slot.Decision) {
	time.Sleep(time.Duration(s.r.slow.Swap(0)))
	s.scheduler.Decide(n, g, d)
}

func TestSigningFailsClosed(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"empty": "", "short": "abcd", "no hex": strings.Repeat("z", 64), "zeros": strings.Repeat("0", 64)} {
		r := newRig(t, 1, 10)
		r.config.MAVLink.KeyFile = filepath.Join(dir, "key")
		os.WriteFile(r.config.MAVLink.KeyFile, []byte(text+"\n"), 0o600)
		if err := <-r.launch().done; err == nil || !strings.Contains(err.Error(), "mavlink.key_file") {
			t.Errorf("%s: %v", name, err)
		}
	}
	r := newRig(t, 1, 10)
	r.config.MAVLink.KeyFile = filepath.Join(dir, "good")
	os.WriteFile(r.config.MAVLink.KeyFile, []byte(strings.Repeat("a5", 32)), 0o600)
	f := r.launch()
	r.await("ten beats", func(s telemetry.Status) bool { return s.Seq > 40 })
	if f.cancel(); <-f.done != nil || f.fleet.Views(nil)[0].Heard || f.fleet.Rejects()["malformed frame"] == 0 {
		t.Errorf("unsigned frames were believed: %+v, %v", f.fleet.Views(nil)[0], f.fleet.Rejects())
	}
}

// A leader killed in the climb finds its autopilots rebooted: nothing is armed
// until the crew resumes.
func TestClimbKilledAutopilotsRebooted(t *testing.T) {
	r := newRig(t, 1, 100000)
	f := r.launch()
	r.takeOff()
	r.await("it climbs", func(s telemetry.Status) bool { return s.State == telemetry.StateClimbing && r.craft[0].State().Armed })
	r.await("a second of it", func(telemetry.Status) bool { return r.craft[0].TimeS() > 8 })
	f.kill(t)
	r.craft[0].Reboot(false)
	r.launch()
	s := r.last()
	r.await("thirty beats", func(n telemetry.Status) bool { return n.Seq > s.Seq+1030 })
	if r.craft[0].State().Armed {
		t.Error("a rebooted autopilot was armed after the restart")
	}
	if ack := r.command(r.topics.Mission(), `{"id":"again","action":"resume"}`, "again"); !ack.Accepted {
		t.Errorf("resume: %+v", ack)
	}
	r.await("flying", flying)
}
