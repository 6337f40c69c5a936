package leader_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"prefdt/firmware/link"
	"prefdt/simbridge/autopilot"
	"prefdt/simbridge/rig"
	"prefdt/simbridge/simnet"
	"prefdt/telemetry"
)

// A leader killed in the climb finds its autopilots rebooted: nothing is armed
// until the crew commands launch; resume arms no aircraft.
func TestKilledInTheClimbAutopilotsRebooted(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		r := rig.New(t, 1, 100000)
		f := r.StartLeader()
		r.TakeOff()
		r.Await("it climbs", func(s telemetry.Status) bool {
			return s.State == telemetry.StateClimbing && r.Autopilots[0].State().Armed
		})
		r.Await("a second of it", func(telemetry.Status) bool { return r.Autopilots[0].TimeS() > 8 })
		f.Restart(func() { r.Autopilots[0].Reboot(false) })
		first := r.Await("a status", rig.AnyStatus)
		r.Await("thirty later", rig.StatusesAfter(first, 30))
		if r.Autopilots[0].State().Armed {
			t.Error("a rebooted autopilot was armed after the restart")
		}
		if ack := r.SendAction("resume"); ack.Accepted {
			t.Errorf("resume of an aircraft on the ground: %+v", ack)
		}
		if r.Autopilots[0].State().Armed {
			t.Error("resume armed it")
		}
		r.RetryAction("launch", 1)
		r.Await("flying", rig.Flying)
	})
}

// An aircraft on its way home is led home by the next leader process, and lands.
func TestKilledWhileReturning(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		r := rig.New(t, 2, 100000)
		f := r.FlyToSlot(8)
		r.MustSendAction("return")
		r.Await("returning", rig.InState(telemetry.StateReturning))
		seq := r.LastStatus().Seq
		f.Restart(nil)
		s := r.Await("done", rig.Done)
		if s.Seq <= seq || !r.Landed(0) || !r.Landed(1) {
			t.Errorf("after the restart: %+v, number %d before", s, seq)
		}
		for i := range 2 {
			if off := r.Autopilots[i].State().Position; r.HomeDistanceM(i) > 5 {
				t.Errorf("aircraft %d landed at %+v, %.0f m from where it took off", i+1, off, r.HomeDistanceM(i))
			}
		}
	})
}

// An aircraft sent home for its battery continues home, and the other flies on.
func TestKilledWhileOneIsSentHome(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		r := rig.New(t, 2, 100000)
		weakenBattery(r)
		f := r.StartLeader()
		r.TakeOff()
		if !r.Eventually(func() bool { return slices.Equal(r.OfferedAircraft(), []int{1}) }) {
			t.Fatalf("aircraft %v are offered", r.OfferedAircraft())
		}
		r.AwaitSaved()
		f.Restart(nil)
		if !r.Eventually(func() bool { return r.Landed(1) }) {
			t.Fatalf("with a low battery: %+v", r.Autopilots[1].State())
		}
		s := r.Await("the other flies on", rig.Flying)
		r.Await("ten slots on", rig.SlotSettled(s.Slot+10))
		if v := r.Autopilots[0].State(); v.Mode != autopilot.ModeOffboard || r.Autopilots[1].State().Armed ||
			!slices.Equal(r.OfferedAircraft(), []int{1}) {
			t.Errorf("%+v, %+v, offered %v", v, r.Autopilots[1].State(), r.OfferedAircraft())
		}
	})
}

// An aircraft under pilot control stays so over a restart, until resume.
func TestKilledAfterAPilotTookOver(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		r := rig.New(t, 2, 100000)
		f := r.FlyToSlot(3)
		r.SetModeAsPilot(1, autopilot.ModeHold)
		r.Await("it is with its pilot", func(s telemetry.Status) bool { return s.Aircraft[1].Mode == "AUTO.LOITER" })
		if !r.Eventually(func() bool { return len(r.OfferedAircraft()) == 1 }) {
			t.Fatalf("aircraft %v are offered", r.OfferedAircraft())
		}
		r.AwaitSaved()
		f.Kill()
		before := r.CommandCount(1)
		r.StartLeader().Restart(nil) // and once more
		s := r.Await("flying", rig.Flying)
		r.Await("ten slots on", rig.SlotSettled(s.Slot+10))
		if v := r.Autopilots[1].State(); v.Mode != autopilot.ModeHold || r.CommandCount(1) != before {
			t.Errorf("the pilot's aircraft is in %s and got %d setpoints and commands", v.Mode, r.CommandCount(1)-before)
		}
		r.MustSendAction("resume")
		r.Await("it flies again", func(s telemetry.Status) bool {
			return s.Aircraft[1].Mode == "OFFBOARD" && *s.Aircraft[1].SpeedMPS > 5
		})
	})
}

// Another leader took the fleet over while this one was down: this one ends for it, and sends
// nothing to any aircraft.
func TestRestartedBesideAnotherLeader(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		r := rig.New(t, 2, 100000)
		f := r.FlyToSlot(3)
		var stop func()
		var before int64
		f = f.Restart(func() {
			if !r.Eventually(func() bool { online, _ := r.Online(); return !online }) {
				t.Fatal("its will was not received")
			}
			r.PublishRetained(r.Topics.Online(), "true")
			stop = repeat(func(n int64) { r.Publish(r.Topics.Slot(), foreignBeacon(int(20+n))) })
			before = r.CommandCount(0) + r.CommandCount(1)
		})
		if err := <-f.Done; !errors.Is(err, link.ErrIncumbent) {
			t.Errorf("it ended with %v", err)
		}
		stop()
		if got := r.CommandCount(0) + r.CommandCount(1) - before; got > 0 {
			t.Errorf("the aircraft got %d setpoints and commands", got)
		}
	})
}

// foreignBeacon is a beacon of another leader.
func foreignBeacon(n int) telemetry.Slot {
	return telemetry.Slot{Slot: n, SlotMS: 1000, Speed: 1, ReportByMS: 350, DecideByMS: 600,
		Offer: telemetry.Offer{PriceSPerJ: 0.01, Aircraft: []telemetry.OfferAircraft{}}}
}

// With a key of the leaders' own, forged beacons and statuses end neither a
// newcomer, an idle leader nor one that restarts in flight; an incumbent's proof
// ends a newcomer.
func TestForgedLeader(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		r := rig.New(t, 1, 100000)
		r.Config.LeaderKeyFile = newKeyFile(t)
		forge := r.Client("forger")
		forgeBeacon := func(n int64) {
			publish(forge, r.Topics.Slot(), foreignBeacon(int(1e6+n)))
		}
		forgeStatus := func(n int64) {
			publish(forge, r.Topics.Status(), telemetry.Status{Seq: 1e9 + n, Slot: 17, Slots: 100, State: "flying", EnergySource: "model",
				Challenge: telemetry.NewChallenge(), Aircraft: []telemetry.StatusAircraft{}})
		}
		stop := repeat(forgeBeacon, forgeStatus)
		awaitGenuine := func(what string, ok func(telemetry.Status) bool) telemetry.Status {
			t.Helper()
			return r.Await(what, func(s telemetry.Status) bool { return s.Seq < 1e9 && ok(s) })
		}
		f := r.StartLeader()
		awaitGenuine("a newcomer", rig.AnyStatus)
		awaitGenuine("it continues, idle", func(s telemetry.Status) bool { return s.Seq > 30 })
		stop()
		r.ForgetStatuses()
		if f.RejectedMessages("status: foreign") == 0 {
			t.Error("no forged status was noticed")
		}
		r.TakeOff()
		awaitGenuine("slot 3", rig.SlotSettled(3))
		r.ForgetStatuses()

		second := r.Config
		r.Config.StateDir = t.TempDir()
		newcomer := r.StartLeader()
		if err := <-newcomer.Done; err == nil || !strings.Contains(err.Error(), "another leader") {
			t.Errorf("beside an incumbent a newcomer ended with %v", err)
		}
		r.Config = second

		stop = repeat(forgeBeacon)
		f = f.Restart(nil)
		s := r.Await("restarted in flight", rig.Flying)
		r.Await("it flies on", rig.SlotSettled(s.Slot+10))
		stop()
		f.Kill()
	})
}

// repeat calls functions every 100 ms, with a rising number, until stop is called.
func repeat(calls ...func(n int64)) (stop func()) {
	stopping, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for n := int64(1); ; n++ {
			select {
			case <-stopping:
				return
			case <-tick.C:
			}
			for _, call := range calls {
				call(n)
			}
		}
	}()
	return func() { close(stopping); <-stopped }
}
