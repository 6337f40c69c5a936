package leader_test

import (
	"strings"
	"testing"
	"time"

	"prefdt/simbridge/autopilot"
	"prefdt/simbridge/rig"
	"prefdt/simbridge/rig/fulldisk"
	"prefdt/simbridge/simnet"
	"prefdt/telemetry"
)

// A mission is continued only where it began: its homes, joules and slots mean something
// else elsewhere. One of another id is not begun while an aircraft obeys the present one.
func TestConfigurationOfAnotherPlace(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		r := rig.New(t, 2, 100000)
		f := r.FlyToSlot(3)
		r.AwaitSaved()
		own := r.Config
		for name, change := range map[string]func(){
			"the origin": func() { r.Config.Origin.LatitudeDeg += 0.001 },
			"slot_ms":    func() { r.Config.SlotMS *= 2 },
			"2 aircraft": func() { r.Config.Aircraft = r.Config.Aircraft[:1] },
			"the fleet":  func() { r.Config.Fleet += "-b" },
		} {
			f.Kill()
			change()
			f = r.StartLeader()
			select {
			case err := <-f.Done:
				if err == nil || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "restore that value") {
					t.Errorf("%s: %v", name, err)
				}
			case <-time.After(5 * time.Second):
				t.Errorf("%s: the mission is continued", name)
				f.Kill()
			}
			r.Config = own
			f = r.StartLeader()
			r.Await("its own leader flies on", rig.Flying)
		}
		// The slots are over, the aircraft still on their way home.
		r.MustSendAction("return")
		r.AwaitSaved()
		f.Kill()
		r.Config.Mission = "another"
		f = r.StartLeader()
		s := r.Await("done", rig.Done)
		if id := f.Report().Mission; id != own.Mission || !r.Landed(0) || !r.Landed(1) || s.TransitJ < 1000 {
			t.Errorf("the mission is %q, the aircraft landed %v and %v: %+v", id, r.Landed(0), r.Landed(1), s)
		}
		f.Kill()
	})
}

// A mission of another id is not begun while a stop has left an aircraft in the air, as `new`
// is not: the next mission could not bring it home.
func TestAnotherMissionWhileOneIsLeftInTheAir(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		r := rig.New(t, 2, 100000)
		own := r.Config.Mission
		f := r.FlyToSlot(3)
		r.MustSendAction("stop")
		r.Await("both hold", func(s telemetry.Status) bool {
			return s.Aircraft[0].Mode == "AUTO.LOITER" && s.Aircraft[1].Mode == "AUTO.LOITER"
		})
		r.AwaitSaved()
		f = f.Restart(func() { r.Config.Mission = "another" })
		if s := r.Await("the next leader", rig.AnyStatus); s.Mission != own || s.State != telemetry.StateStopped {
			t.Fatalf("the mission is %q, %s, and two hover for %q", s.Mission, s.State, own)
		}
		r.Await("both are received again", func(s telemetry.Status) bool { // one that is not would not be sent home
			return s.Aircraft[0].Mode == "AUTO.LOITER" && s.Aircraft[1].Mode == "AUTO.LOITER"
		})
		r.RetryAction("return")
		r.Await("done", rig.Done)
		if !r.Landed(0) || !r.Landed(1) {
			t.Error("they did not land")
		}
		r.AwaitSaved()
		f.Restart(nil)
		if s := r.Await("the next leader", rig.AnyStatus); s.Mission != "another" || s.State != telemetry.StateIdle {
			t.Errorf("with all on the ground the mission is %q, %s", s.Mission, s.State)
		}
	})
}

// After a restart in the climb, one aircraft answers later than the other: it is healthy,
// and flies.
func TestOneAnswersLateAfterAKillInTheClimb(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		r := rig.New(t, 2, 100000)
		for i := range r.Autopilots {
			r.ReplaceParameters(i, map[string]float64{"MPC_TKO_SPEED": 2})
		}
		f := r.StartLeader()
		r.TakeOff()
		r.Await("both climb", func(telemetry.Status) bool {
			return r.Autopilots[0].State().Position.UpM > 3 && r.Autopilots[1].State().Position.UpM > 3
		})
		r.AwaitSaved()
		f.Restart(func() { r.Autopilots[1].CutLinks(6) })
		r.Await("both fly", func(s telemetry.Status) bool {
			return rig.Flying(s) && s.Slot > 5 && s.Aircraft[0].Mode == "OFFBOARD" && s.Aircraft[1].Mode == "OFFBOARD"
		})
		if s := r.LastStatus(); s.Aircraft[1].Reason != "" {
			t.Errorf("aircraft 2: %q", s.Aircraft[1].Reason)
		}
	})
}

// What a link has buffered since before the restart comes first: its times number no slot.
func TestOldMessagesComeFirst(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		r := rig.New(t, 2, 100000)
		f := r.FlyToSlot(5)
		r.AwaitSaved()
		const downSlots = 8
		var n, before int
		var at time.Time
		f.Restart(func() {
			n, at = len(r.Beacons()), time.Now()
			before = r.Beacons()[n-1]
			for _, a := range r.Autopilots {
				a.Buffer(true)
			}
			time.Sleep(r.Config.WallTime(downSlots))
			time.AfterFunc(r.Config.WallTime(1), func() {
				for _, a := range r.Autopilots {
					a.Buffer(false)
				}
			})
		})
		r.Await("it flies on", func(s telemetry.Status) bool { return rig.Flying(s) && s.Slot > before+downSlots })
		after := r.Beacons()[n]
		passed := float64(r.BeaconAfter(at.Add(r.Config.WallTime(downSlots/2))).Sub(at)) / float64(r.Config.WallTime(1))
		if got := float64(after - before); got < passed-1.5 || got > passed+1.5 {
			t.Errorf("from slot %d to %d, and %.1f slots passed", before, after, passed)
		}
		r.CheckSlotsInOrder()
	})
}

// A leader that receives none of its aircraft says so every five seconds.
func TestStatusesWhileNothingIsReceived(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		r := rig.New(t, 1, 100000)
		f := r.FlyToSlot(3)
		f.Restart(func() { r.Autopilots[0].CutLinks(1000) })
		first := r.Await("a status", rig.AnyStatus)
		began := time.Now()
		r.Await("two more", rig.StatusesAfter(first, 2))
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("two statuses took %v", took)
		}
	})
}

// Killed while the aircraft land: they land, and only then is the mission done.
func TestKilledWhileLanding(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		r := rig.New(t, 2, 100000)
		f := r.FlyToSlot(5)
		r.MustSendAction("return")
		r.Await("both land", func(telemetry.Status) bool {
			return r.Autopilots[0].State().Mode == autopilot.ModeLand && r.Autopilots[1].State().Mode == autopilot.ModeLand
		})
		f.Restart(nil)
		s := r.Await("done", rig.Done)
		for i := range 2 {
			if !r.Landed(i) || s.Aircraft[i].Reason != "" {
				t.Errorf("aircraft %d at the end: landed %v, %q", i+1, r.Landed(i), s.Aircraft[i].Reason)
			}
		}
	})
}

// On a disk that is full nothing begins: no take-off, no other mission, no budget.
func TestDiskFullOnTheGround(t *testing.T) {
	diskTest(t, func(t *testing.T) {
		r := rig.New(t, 2, 100000)
		r.StartLeader()
		before := r.Await("ready", rig.AnyStatus)
		freeSpace := fulldisk.Fill(t)
		r.PublishRaw(r.Topics.Budget(), `{"id":"b","energy_j":31000,"mode":"target"}`)
		r.PublishRaw(r.Topics.Mission(), `{"id":"n","action":"new","mission":"m-2"}`)
		r.PublishRaw(r.Topics.Mission(), `{"id":"s","action":"start"}`)
		after := r.Await("ten statuses on", rig.StatusesAfter(r.LastStatus(), 10))
		if after.State != telemetry.StateIdle || after.Slot != before.Slot || after.BudgetJ != nil || after.LastCommand != nil {
			t.Errorf("before %+v, after %+v", before, after)
		}
		for i, a := range r.Autopilots {
			if a.State().Armed {
				t.Errorf("aircraft %d was armed", i+1)
			}
		}
		for _, id := range []string{"b", "n", "s"} {
			if acks := r.Acks(id); len(acks) > 0 {
				t.Errorf("%s was acknowledged: %s", id, acks)
			}
		}
		freeSpace()
		r.TakeOff()
		r.Await("flying", rig.Flying)
	})
}

// A leader that is asked to end while no broker answers ends in order.
func TestStoppedWhileItWaitsForABroker(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		r := rig.New(t, 1, 100000)
		r.CloseBroker()
		f := r.StartLeader()
		time.Sleep(200 * time.Millisecond)
		if err := f.Stop(); err != nil {
			t.Error(err)
		}
	})
}
