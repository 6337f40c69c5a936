package leader_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"prefdt/inference/goal"
	"prefdt/inference/slot"
	"prefdt/simbridge/autopilot"
	"prefdt/simbridge/battery"
	"prefdt/simbridge/rig"
	"prefdt/simbridge/simnet"
	"prefdt/telemetry"
)

// The table of docs/failures.md, as far as no other test covers it:
// end of mission (TestMission), lost link (TestLostAircraft), lost broker
// (TestBrokerLost), pilot (TestPilotTakesOver), wrong state (TestTransitions),
// restart (TestRestart, TestKilledInEverySlot), duplicate id (fleet).
func TestSituations(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		situation, action string
		try               func(t *testing.T, r *rig.Rig)
	}{
		{"battery low", "the aircraft is sent home and lands, the others fly on", func(t *testing.T, r *rig.Rig) {
			weakenBattery(r)
			r.StartLeader()
			r.TakeOff()
			if !r.Eventually(func() bool {
				return slices.Equal(r.OfferedAircraft(), []int{1}) && r.Autopilots[1].State().Mode == autopilot.ModeOffboard
			}) {
				t.Errorf("on the way home: aircraft %v are offered", r.OfferedAircraft())
			}
			r.Await("it says why", func(s telemetry.Status) bool {
				a := &s.Aircraft[1]
				return a.Reason == "sent home: battery low" && a.Duty == telemetry.DutyLeaving && s.Aircraft[0].Reason == ""
			})
			r.Await("one lands", func(s telemetry.Status) bool {
				a := &s.Aircraft[1]
				return a.Landed != nil && *a.Landed && strings.HasPrefix(a.Reason, "sent home: battery low")
			})
			s := r.Await("the other flies on", rig.Flying)
			later := r.Await("ten slots on", rig.SlotSettled(s.Slot+10))
			if !rig.Flying(later) || later.Aircraft[0].Mode != "OFFBOARD" || !slices.Equal(r.OfferedAircraft(), []int{1}) {
				t.Errorf("%+v, offered %v", later, r.OfferedAircraft())
			}
		}},
		{"autopilot rebooted", "it is left alone until launch", func(t *testing.T, r *rig.Rig) {
			r.FlyToSlot(3)
			r.Autopilots[1].Reboot(false) // falls
			s := r.Await("it is on the ground", func(s telemetry.Status) bool {
				l := s.Aircraft[1].Landed
				return l != nil && *l && s.Slot > 15
			})
			r.Await("ten slots on", rig.SlotSettled(s.Slot+10))
			if v := r.Autopilots[1].State(); v.Armed {
				t.Errorf("it was armed again: %+v", v)
			}
			if ack := r.SendAction("resume", 2); ack.Accepted ||
				!strings.Contains(ack.Reason, "aircraft 2 is on the ground; launch takes off") {
				t.Errorf("resume on the ground: %+v", ack)
			}
			r.RetryAction("launch", 2)
			r.Await("it flies again", func(s telemetry.Status) bool {
				return s.Aircraft[1].Mode == "OFFBOARD" && *s.Aircraft[1].SpeedMPS > 5
			})
		}},
		{"decision late", "the slots are missed, the aircraft hold after two, then fly on", func(t *testing.T, r *rig.Rig) {
			f := r.FlyToSlot(5)
			before, stalled := r.LastStatus().MissedSlots, f.Report().FleetCounts.ExpiredSetpoints
			r.DelayNextDecision(4)
			s := r.Await("missed slots", func(s telemetry.Status) bool { return s.MissedSlots >= before+3 })
			r.Await("it flies on", rig.SlotSettled(s.Slot+3))
			if n := f.Report().FleetCounts.ExpiredSetpoints; n == stalled {
				t.Error("no aircraft held while the decision took four slots")
			}
		}},
		{"no decision for twenty slots", "the stream ends after twelve, the failsafe holds until setpoints come again",
			func(t *testing.T, r *rig.Rig) {
				r.FlyToSlot(5)
				before := r.LastStatus().MissedSlots
				r.DelayNextDecision(22)
				if !r.Eventually(func() bool {
					return r.Autopilots[0].State().Mode == autopilot.ModeHold && r.Autopilots[1].State().Mode == autopilot.ModeHold
				}) {
					t.Fatal("the failsafe did not come: the stream outlived its leader")
				}
				r.Await("missed slots", func(s telemetry.Status) bool { return s.MissedSlots >= before+18 })
				r.Await("both fly again", func(s telemetry.Status) bool {
					return s.Aircraft[0].Mode == "OFFBOARD" && s.Aircraft[1].Mode == "OFFBOARD" && *s.Aircraft[0].SpeedMPS > 5
				})
			}},
		{"OFFBOARD lost on the way home", "with its pilot until resume, which sends it home", func(t *testing.T, r *rig.Rig) {
			r.FlyToSlot(8)
			r.MustSendAction("return")
			r.Autopilots[1].SetModeByRC(autopilot.ModeHold)
			r.Await("the other is home, the mission done", rig.Done)
			s := r.Await("status", rig.AnyStatus)
			r.Await("ten statuses on", rig.StatusesAfter(s, 10))
			if v := r.Autopilots[1].State(); v.Mode != autopilot.ModeHold || v.Landed {
				t.Errorf("the pilot's aircraft: %+v", v)
			}
			r.MustSendAction("resume")
			if !r.Eventually(func() bool { return r.Landed(1) }) || r.HomeDistanceM(1) > 5 {
				t.Errorf("it did not come home: %+v", r.Autopilots[1].State())
			}
			if ack := r.SendAction("resume"); ack.Accepted ||
				!strings.Contains(ack.Reason, "nothing to resume: the mission is done, and no pilot has an aircraft in the air") {
				t.Errorf("nothing left to resume: %+v", ack)
			}
		}},
		{"pilot takes over while it lands", "left alone until resume", func(t *testing.T, r *rig.Rig) {
			// it is in the air still when its pilot takes over
			r.ReplaceParameters(1, map[string]float64{"MPC_Z_V_AUTO_DN": 1, "MPC_LAND_SPEED": 1})
			r.FlyToSlot(3)
			r.MustSendAction("return")
			if !r.Eventually(func() bool { return r.Autopilots[1].State().Mode == autopilot.ModeLand }) {
				t.Fatal("it does not land")
			}
			r.Await("the leader knows", func(s telemetry.Status) bool { return s.Aircraft[1].Mode == "AUTO.LAND" })
			r.Autopilots[1].SetModeByRC(autopilot.ModeHold)
			s := r.Await("the leader knows", func(s telemetry.Status) bool { return s.Aircraft[1].Mode == "AUTO.LOITER" })
			r.Await("ten statuses on", rig.StatusesAfter(s, 10))
			if v := r.Autopilots[1].State(); v.Mode != autopilot.ModeHold || v.Landed {
				t.Fatalf("it did not stay with its pilot: %+v", v)
			}
			r.MustSendAction("resume")
			if !r.Eventually(func() bool { return r.Landed(1) }) {
				t.Errorf("it did not land: %+v", r.Autopilots[1].State())
			}
		}},
		{"OFFBOARD lost while the other returns", "resume brings it home too", func(t *testing.T, r *rig.Rig) {
			r.FlyToSlot(8)
			r.Autopilots[1].SetModeByRC(autopilot.ModeHold)
			r.Await("it is with its pilot", func(s telemetry.Status) bool { return s.Aircraft[1].Mode == "AUTO.LOITER" })
			r.MustSendAction("return")
			r.MustSendAction("resume")
			r.Await("done", rig.Done)
			if !r.Landed(0) || !r.Landed(1) || r.HomeDistanceM(1) > 5 {
				t.Errorf("%+v, %+v", r.Autopilots[0].State(), r.Autopilots[1].State())
			}
		}},
		{"a second leader's will", "the incumbent publishes online again", func(t *testing.T, r *rig.Rig) {
			r.StartLeader()
			r.Await("the leader", rig.AnyStatus)
			before := 0
			if !r.Eventually(func() (online bool) { online, before = r.Online(); return online }) {
				t.Fatal("never online")
			}
			r.PublishRetained(r.Topics.Online(), "false")
			if !r.Eventually(func() bool { online, times := r.Online(); return online && times > before }) {
				t.Error("it did not publish it again")
			}
		}},
		{"leader restarted", "status numbers go on rising", func(t *testing.T, r *rig.Rig) {
			f := r.StartLeader()
			s := r.Await("ten statuses", func(s telemetry.Status) bool { return s.Seq >= 10 })
			f = f.Restart(nil)
			if n := r.Await("the next leader", rig.AnyStatus); n.Seq <= s.Seq {
				t.Errorf("status %d after %d", n.Seq, s.Seq)
			}
			f.Kill()
		}},
		{"unsafe failsafe", "start refused", func(t *testing.T, r *rig.Rig) {
			r.ReplaceParameters(1, map[string]float64{"COM_OBL_RC_ACT": 0})
			r.StartLeader()
			r.Await("the leader", rig.AnyStatus)
			mustRefuseStart(t, r, "aircraft 2 has an unsafe failsafe: COM_OBL_RC_ACT is 0")
		}},
		{"two aircraft too close before take-off", "start is refused", func(t *testing.T, r *rig.Rig) {
			r.Config.Flight.StartWithinM = 1000
			r.Config.Aircraft[0].StartM, r.Config.Aircraft[1].StartM = &[2]float64{100, 100}, &[2]float64{104, 100}
			r.StartLeader()
			r.Await("the leader", rig.AnyStatus)
			mustRefuseStart(t, r, "start_m of aircraft 1 and 2 are 4.0 m apart")
		}},
		{"budget below the floor", "accepted, saturated; flies on at the least energy", func(t *testing.T, r *rig.Rig) {
			r.FlyToSlot(3)
			ack := r.SendCommand(r.Topics.Budget(), `{"id":"b","energy_j":100,"mode":"target"}`, "b")
			if !ack.Accepted || ack.Saturated == nil || !*ack.Saturated {
				t.Errorf("%+v", ack)
			}
			r.Await("saturated", func(s telemetry.Status) bool { return s.Saturated && rig.Flying(s) })
		}},
		{"every report lost", "users take the offer, which expects as many as really came", func(t *testing.T, r *rig.Rig) {
			r.SetUsers(0, 4)
			r.Policy = localOnly{}
			var unreported atomic.Value // users that the snapshot expects
			r.OverrideDecision = func(s *slot.Snapshot, _ *slot.Decision) {
				sum := 0.0
				for _, a := range s.Aircraft {
					sum += a.Unreported.ExpectedUsers
				}
				unreported.Store(sum)
			}
			r.FlyToSlot(30)
			s := r.LastStatus()
			if n := unreported.Load().(float64); s.UsersHeard != 0 || n < 2 || n > 4 { // two thirds of them after 22 slots
				t.Errorf("four users took the offer, %.2f are expected; %d reported", n, s.UsersHeard)
			}
		}},
	} {
		t.Run(strings.ReplaceAll(c.situation, " ", "-"), func(t *testing.T) {
			simnet.Test(t, func(t *testing.T) { c.try(t, rig.New(t, 2, 2000)) })
		})
	}
}

// weakenBattery gives the second aircraft a small pack, whose reserve it soon reaches.
func weakenBattery(r *rig.Rig) {
	r.ReplaceAutopilot(1, func(c *autopilot.Config) { c.CapacityJ = 20e3 })
}

// localOnly is a scheduler that computes everything locally, at no price: an offer at
// that price serves all.
type localOnly struct{}

func (localOnly) Decide(s *slot.Snapshot, _ goal.Objective, d *slot.Decision) (seen goal.Observation) {
	d.Resize(s)
	return seen
}

// Stopped in the last slot, the state is stopped and no aircraft is commanded home.
// The last decision waits until the command is there.
func TestStopInTheLastSlot(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		r := rig.New(t, 2, 12)
		ordered := make(chan struct{})
		r.OverrideDecision = func(s *slot.Snapshot, _ *slot.Decision) {
			if s.Slot == 11 {
				<-ordered
			}
		}
		f := r.StartLeader()
		r.TakeOff()
		r.Await("the last slot", func(telemetry.Status) bool { return r.SlotOpened(11) })
		time.AfterFunc(time.Second, func() { close(ordered) })
		if ack := r.SendAction("stop"); !ack.Accepted {
			t.Fatalf("stop was refused: %s", ack.Reason)
		}
		r.Await("the end of the slot", func(s telemetry.Status) bool { return !rig.Flying(s) })
		r.Await("thirty statuses", rig.StatusesAfter(r.LastStatus(), 30))
		last := r.LastStatus()
		for i := range 2 {
			if v := r.Autopilots[i].State(); last.State != telemetry.StateStopped || v.Mode != autopilot.ModeHold || v.Landed {
				t.Errorf("%s, aircraft %d: %+v", last.State, i+1, v)
			}
		}
		f.Kill()
	})
}

// Ended while users report, a leader decides nothing of that slot: it has a part of the reports, and its links may be cut, so that it would
// decide for a fleet that it does not see.
func TestEndedWhileUsersReport(t *testing.T) {
	for how, end := range map[string]func(*rig.LeaderRun){"ended": func(f *rig.LeaderRun) { f.Stop() }, "killed": (*rig.LeaderRun).Kill} {
		t.Run(how, func(t *testing.T) {
			simnet.Test(t, func(t *testing.T) {
				r := rig.New(t, 2, 2000)
				var decided atomic.Int64 // the last slot
				r.OverrideDecision = func(s *slot.Snapshot, _ *slot.Decision) { decided.Store(int64(s.Slot)) }
				f := r.FlyToSlot(3)
				n := r.LastStatus().Slot
				r.Await("the next slot", func(telemetry.Status) bool { return r.SlotOpened(n + 2) })
				if end(f); decided.Load() != int64(n+1) {
					t.Errorf("in the report window of slot %d: slot %d was decided", n+2, decided.Load())
				}
			})
		})
	}
}

// mustRefuseStart starts the mission until the refusal is for a reason: the leader
// itself waits for parameters before.
func mustRefuseStart(t *testing.T, r *rig.Rig, reason string) {
	t.Helper()
	var ack telemetry.Ack
	if !r.Eventually(func() bool {
		time.Sleep(100 * time.Millisecond)
		ack = r.SendAction("start")
		return ack.Accepted || strings.Contains(ack.Reason, reason)
	}) || ack.Accepted {
		t.Fatalf("start: %+v, want refused for %q", ack, reason)
	}
}

func TestSigningFailsClosed(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		for name, text := range map[string]string{"empty": "", "short": "abcd", "no hex": strings.Repeat("z", 64),
			"zeros": strings.Repeat("0", 64)} {
			r := rig.New(t, 1, 10)
			r.Config.MAVLink.KeyFile = filepath.Join(dir, "key")
			os.WriteFile(r.Config.MAVLink.KeyFile, []byte(text+"\n"), 0o600)
			if err := <-r.StartLeader().Done; err == nil || !strings.Contains(err.Error(), "mavlink.key_file") {
				t.Errorf("%s: %v", name, err)
			}
		}
		r := rig.New(t, 1, 10)
		r.Config.MAVLink.KeyFile = filepath.Join(dir, "good")
		os.WriteFile(r.Config.MAVLink.KeyFile, []byte(strings.Repeat("a5", 32)), 0o600)
		f := r.StartLeader()
		s := r.Await("forty statuses", func(s telemetry.Status) bool { return s.Seq > 40 })
		frames := f.Report().RejectedFrames
		if err := f.Stop(); err != nil || s.Aircraft[0].AgeS != nil || frames["not signed"] == 0 {
			t.Errorf("unsigned frames were accepted: %+v, %v, %v", s.Aircraft[0], frames, err)
		}
		if !strings.HasPrefix(s.Aircraft[0].Reason, "not signed: its link has frames without a signature") {
			t.Errorf("the status says %q", s.Aircraft[0].Reason)
		}
	})
}

// "Swap the pack; launch" works: until then the aircraft is refused, and the new pack is
// not charged with what was drawn from the old one.
func TestSwapThePackAndLaunch(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		r := rig.New(t, 2, 100000)
		weakenBattery(r)
		r.StartLeader()
		r.TakeOff()
		if !r.Eventually(func() bool { return r.Landed(1) && !r.Autopilots[1].State().Armed && len(r.OfferedAircraft()) == 1 }) {
			t.Fatalf("with a low battery: %+v", r.Autopilots[1].State())
		}
		refused := func() bool {
			time.Sleep(100 * time.Millisecond)
			ack := r.SendAction("launch", 2)
			return !ack.Accepted && strings.Contains(ack.Reason, "change its battery")
		}
		if !r.Eventually(refused) {
			t.Fatal("the empty pack was not refused")
		}
		r.Autopilots[1].ChangeBattery((*battery.Battery).SwapPack)
		r.RetryAction("launch", 2)
		r.Await("it flies again", func(s telemetry.Status) bool {
			return s.Aircraft[1].Mode == "OFFBOARD" && *s.Aircraft[1].SpeedMPS > 5
		})
	})
}
