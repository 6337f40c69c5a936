package leader_test

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"prefdt/firmware/link"
	"prefdt/simbridge/autopilot"
	"prefdt/simbridge/rig"
	"prefdt/simbridge/simnet"
	"prefdt/telemetry"
)

func TestLostAircraft(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		r := rig.New(t, 2, 90)
		r.FlyToSlot(10)
		r.CloseAutopilot(1)
		s := r.Await("age over 10 s", func(s telemetry.Status) bool {
			return s.Aircraft[1].AgeS != nil && *s.Aircraft[1].AgeS > 11
		})
		later := r.Await("ten slots later", rig.SlotSettled(s.Slot+10))
		if drawn := later.Aircraft[1].SpentJ - s.Aircraft[1].SpentJ; drawn != 0 {
			t.Errorf("a lost aircraft drew %v J", drawn)
		}
		if drawn := later.Aircraft[0].SpentJ - s.Aircraft[0].SpentJ; drawn < 1000 {
			t.Errorf("the other drew only %v J in ten slots", drawn)
		}
		if later.EnergySource != "model" || later.Aircraft[0].EnergySource != "energy_consumed" {
			t.Errorf("sources %s, %s", later.EnergySource, later.Aircraft[0].EnergySource)
		}
		// The floor is that of one aircraft now.
		if perSlot := (later.FloorJ - later.SpentJ) / float64(89-later.Slot); math.Abs(perSlot-134.4) > 10 {
			t.Errorf("the floor counts %v J a slot", perSlot)
		}
		if end := r.Await("done", rig.Done); end.Slot != 89 {
			t.Errorf("ended at %+v", end)
		}
	})
}

func TestTwoLeaders(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		r := rig.New(t, 1, 100000)
		r.StartLeader()
		r.TakeOff()
		r.Await("flying", rig.Flying)
		incumbent := r.Config
		r.Config.StateDir = t.TempDir()
		newcomer := r.StartLeader()
		if err := <-newcomer.Done; !errors.Is(err, link.ErrIncumbent) {
			t.Errorf("the newcomer ended with %v", err)
		}
		r.Config = incumbent
		before := r.Await("the incumbent", rig.Flying)
		r.Await("its next slots", rig.SlotSettled(before.Slot+3))
	})
}

func TestBrokerLost(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		r := rig.New(t, 1, 100000)
		r.Config.Flight.BrokerHoldS, r.Config.Flight.BrokerReturnS = 5, 15
		f := r.FlyToSlot(5)
		r.CloseBroker()
		if !r.Eventually(func() bool { s := r.Autopilots[0].State(); return s.Mode == autopilot.ModeLand || s.Landed }) {
			t.Errorf("the aircraft is in %v", r.Autopilots[0].State())
		}
		f.Kill()
	})
}

// A crew station that was received and stops sending holds the mission, although the
// broker is connected all the time; its next heartbeats end the hold.
func TestCrewContactLost(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		r := rig.New(t, 1, 100000)
		r.Config.Flight.CrewHoldS, r.Config.Flight.CrewReturnS = 2, 600
		f := r.StartLeader()
		r.TakeOff()
		r.Await("flying", rig.Flying)
		r.Publish(r.Topics.Heartbeat("crew-1"), telemetry.Heartbeat{Seq: 1})
		r.Await("holding", rig.InState(telemetry.StateHolding))
		if by := f.Report().HeldBy; by != "radio" {
			t.Errorf("held by %q", by)
		}
		for i, s := 0, r.LastStatus(); i < 20; i++ { // contact that lasts
			r.Publish(r.Topics.Heartbeat("crew-1"), telemetry.Heartbeat{Seq: int64(2 + i)})
			s = r.Await("the next slot", func(n telemetry.Status) bool { return n.Slot > s.Slot })
		}
		r.Await("flying on", func(s telemetry.Status) bool { return rig.Flying(s) && *s.Aircraft[0].SpeedMPS > 5 })
		r.Publish(r.Topics.Heartbeat("crew-1"), telemetry.Heartbeat{Seq: 30, Leaving: true})
		// One that left is not missed: it flies for longer than the hold takes.
		s := r.Await("a status", rig.AnyStatus)
		if later := r.Await("three slots on", rig.SlotSettled(s.Slot+3)); !rig.Flying(later) {
			t.Errorf("after the station left: %s", later.State)
		}
	})
}

// A pilot may take control at any time; only resume ends it.
func TestPilotTakesOver(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		r := rig.New(t, 2, 100000)
		r.FlyToSlot(3)
		r.SetModeAsPilot(1, autopilot.ModeHold)
		s := r.Await("it is with its pilot", func(s telemetry.Status) bool { return s.Aircraft[1].Mode == "AUTO.LOITER" })
		later := r.Await("ten slots later", rig.SlotSettled(s.Slot+10))
		if mode := r.Autopilots[1].State().Mode; mode != autopilot.ModeHold {
			t.Errorf("the pilot's mode was changed to %s", mode)
		}
		if later.Aircraft[1].Reason == "" || later.Aircraft[0].Reason != "" {
			t.Errorf("the reasons are %q and %q", later.Aircraft[0].Reason, later.Aircraft[1].Reason)
		}
		if !r.Eventually(func() bool {
			s := r.Autopilots[0].State()
			return s.Mode == autopilot.ModeOffboard && s.SpeedMPS() > 5
		}) {
			t.Errorf("the other aircraft does not fly on: %+v", r.Autopilots[0].State())
		}
		if offered := r.OfferedAircraft(); !slices.Equal(offered, []int{1}) {
			t.Errorf("aircraft %v are offered to users", offered)
		}
		if ack := r.SendAction("resume", 1); ack.Accepted || !strings.Contains(ack.Reason, "aircraft 1 needs no resume: no pilot has it") {
			t.Errorf("resume of the other: %+v", ack)
		}
		r.MustSendAction("resume", 2)
		r.Await("it flies again", func(s telemetry.Status) bool {
			return s.Aircraft[1].Mode == "OFFBOARD" && *s.Aircraft[1].SpeedMPS > 5
		})
	})
}
