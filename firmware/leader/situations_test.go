package leader

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"prefdt/inference/goal"
	"prefdt/inference/slot"
	"prefdt/simbridge/autopilot"
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
			if !r.until(func() bool {
				return len(r.offered) == 1 && r.offered[0] == 1 && r.craft[1].State().Mode == autopilot.ModeOffboard
			}) {
				t.Errorf("on the way home: aircraft %v are offered", r.offered)
			}
			r.await("one lands", func(s telemetry.Status) bool { l := s.Aircraft[1].Landed; return l != nil && *l })
			s := r.await("the other flies on", flying)
			later := r.await("ten slots on", at(s.Slot+10))
			if !flying(later) || later.Aircraft[0].Mode != "OFFBOARD" {
				t.Errorf("%+v", later)
			}
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
		{"no decision for twenty slots", "the stream ends after twelve, the failsafe holds; with its pilot until resume", func(t *testing.T, r *rig) {
			r.launch()
			r.takeOff()
			r.await("slot 5", at(5))
			before := r.await("status", anyStatus).MissedSlots
			r.slow.Store(int64(22 * 40 * time.Millisecond))
			if !r.eventually(func() bool {
				return r.craft[0].State().Mode == autopilot.ModeHold && r.craft[1].State().Mode == autopilot.ModeHold
			}) {
				t.Fatal("the failsafe did not come: the stream outlived its leader")
			}
			s := r.await("missed slots", func(s telemetry.Status) bool { return s.MissedSlots >= before+18 })
			r.await("ten slots on", at(s.Slot+10))
			if mode := r.craft[0].State().Mode; mode != autopilot.ModeHold {
				t.Errorf("after a stall of twenty slots it went back to %s by itself", mode)
			}
			if ack := r.mission("resume"); !ack.Accepted {
				t.Errorf("resume: %+v", ack)
			}
			r.await("both fly again", func(s telemetry.Status) bool {
				return s.Aircraft[0].Mode == "OFFBOARD" && s.Aircraft[1].Mode == "OFFBOARD" && *s.Aircraft[0].SpeedMPS > 5
			})
		}},
		{"OFFBOARD lost on the way home", "its pilot's until resume, which brings it home", func(t *testing.T, r *rig) {
			r.launch()
			r.takeOff()
			r.await("slot 8", at(8))
			r.mission("return")
			r.craft[1].Pilot(autopilot.ModeHold)
			r.await("the other is home, the mission done", done)
			s := r.await("status", anyStatus)
			r.await("ten beats on", func(n telemetry.Status) bool { return n.Seq > s.Seq+10 })
			if v := r.craft[1].State(); v.Mode != autopilot.ModeHold || v.Landed {
				t.Errorf("the pilot's aircraft: %+v", v)
			}
			if ack := r.mission("resume"); !ack.Accepted {
				t.Fatalf("resume: %+v", ack)
			}
			if !r.eventually(func() bool { return r.landedAt(1) }) || r.offHomeM(1) > 5 {
				t.Errorf("it did not come home: %+v", r.craft[1].State())
			}
			if ack := r.mission("resume"); ack.Accepted || !strings.Contains(ack.Reason, "done") {
				t.Errorf("nothing left to resume: %+v", ack)
			}
		}},
		{"pilot takes over while it lands", "left alone until resume", func(t *testing.T, r *rig) {
			r.launch()
			r.takeOff()
			r.await("slot 3", at(3))
			r.mission("return")
			if !r.eventually(func() bool { return r.craft[1].State().Mode == autopilot.ModeLand }) {
				t.Fatal("it does not land")
			}
			r.await("the leader knows", func(s telemetry.Status) bool { return s.Aircraft[1].Mode == "AUTO.LAND" })
			r.craft[1].Pilot(autopilot.ModeHold)
			s := r.await("the leader knows", func(s telemetry.Status) bool { return s.Aircraft[1].Mode == "AUTO.LOITER" })
			r.await("ten beats on", func(n telemetry.Status) bool { return n.Seq > s.Seq+10 })
			if v := r.craft[1].State(); v.Mode != autopilot.ModeHold || v.Landed {
				t.Fatalf("it did not stay with its pilot: %+v", v)
			}
			if ack := r.mission("resume"); !ack.Accepted {
				t.Fatalf("resume: %+v", ack)
			}
			if !r.eventually(func() bool { return r.landedAt(1) }) {
				t.Errorf("it did not land: %+v", r.craft[1].State())
			}
		}},
		{"OFFBOARD lost while the other returns", "resume brings it home too", func(t *testing.T, r *rig) {
			r.launch()
			r.takeOff()
			r.await("slot 8", at(8))
			r.craft[1].Pilot(autopilot.ModeHold)
			r.await("it is with its pilot", func(s telemetry.Status) bool { return s.Aircraft[1].Mode == "AUTO.LOITER" })
			r.mission("return")
			if ack := r.mission("resume"); !ack.Accepted {
				t.Fatalf("resume: %+v", ack)
			}
			r.await("done", done)
			if !r.landedAt(0) || !r.landedAt(1) || r.offHomeM(1) > 5 {
				t.Errorf("%+v, %+v", r.craft[0].State(), r.craft[1].State())
			}
		}},
		{"stop in the last slot", "the state is stopped, and nobody is led home", func(t *testing.T, r *rig) {
			r.config.Slots = 12
			f := r.launch()
			r.takeOff()
			if !r.until(func() bool { return r.opened(11) }) {
				t.Skip("the last slot was missed")
			}
			ack := r.mission("stop")
			if !ack.Accepted {
				t.Skipf("the machine was too busy to stop in the last slot: %s", ack.Reason)
			}
			s := r.await("the end of the slot", func(s telemetry.Status) bool { return s.State != telemetry.StateFlying })
			r.await("thirty beats", func(n telemetry.Status) bool { return n.Seq > s.Seq+30 })
			last := r.await("status", anyStatus)
			for i := range 2 {
				if v := r.craft[i].State(); last.State != telemetry.StateStopped || v.Mode != autopilot.ModeHold || v.Landed {
					t.Errorf("%s, aircraft %d: %+v", last.State, i+1, v)
				}
			}
			f.kill(t)
		}},
		{"a second leader's will", "the incumbent says again that it is online", func(t *testing.T, r *rig) {
			r.launch()
			r.await("the leader", anyStatus)
			before := 0
			if !r.until(func() bool { before = r.onlines; return r.online }) {
				t.Fatal("never online")
			}
			r.crew.Publish(telemetry.Publication{Topic: r.topics.Online(), QoS: 1, Retained: true, Payload: telemetry.EncodeOnline(false)})
			if !r.until(func() bool { return r.online && r.onlines > before }) {
				t.Error("it did not say so again")
			}
		}},
		{"leader restarted", "status numbers go on rising", func(t *testing.T, r *rig) {
			f := r.launch()
			s := r.await("ten beats", func(s telemetry.Status) bool { return s.Seq >= 10 })
			f = r.again(f, func() {})
			if n := r.await("the next leader", anyStatus); n.Seq <= s.Seq {
				t.Errorf("status %d after %d", n.Seq, s.Seq)
			}
			f.kill(t)
		}},
		{"unsafe failsafe", "start refused", func(t *testing.T, r *rig) {
			r.replace(1, map[string]float64{"COM_OBL_RC_ACT": 0})
			r.launch()
			r.await("the leader", anyStatus)
			var ack telemetry.Ack
			if !r.eventually(func() bool { ack = r.mission("start"); return strings.Contains(ack.Reason, "failsafe") }) {
				t.Fatalf("%+v", ack)
			}
			if ack.Accepted || !strings.Contains(ack.Reason, "aircraft 2 has an unsafe failsafe: COM_OBL_RC_ACT is 0") {
				t.Errorf("%+v", ack)
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
			f.price = 0 // all are served, then
			sum := 0.0
			for _, a := range f.offer(26).Aircraft {
				sum += a.ExpectedUsers
			}
			f.forecast.Expect(&f.snapshot)
			unheard := f.snapshot.Aircraft[0].Unheard.Users + f.snapshot.Aircraft[1].Unheard.Users
			if s.UsersHeard != 0 || sum != 5 || unheard < 2.5 || unheard > 5 { // two thirds of them after 22 slots
				t.Errorf("five users took the offer, %v are expected, %.2f unheard; %d heard", sum, unheard, s.UsersHeard)
			}
		}},
	} {
		t.Run(strings.ReplaceAll(c.situation, " ", "-"), func(t *testing.T) { c.try(t, newRig(t, 2, 2000)) })
	}
}

// slowly is a scheduler that takes its time once, and may be led elsewhere.
type slowly struct {
	scheduler
	r *rig
}

func (s slowly) Decide(n *slot.Snapshot, g goal.Objective, d *slot.Decision) goal.Seen {
	time.Sleep(time.Duration(s.r.slow.Swap(0)))
	seen := s.scheduler.Decide(n, g, d)
	if s.r.steer != nil {
		s.r.steer(n, d)
	}
	return seen
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
