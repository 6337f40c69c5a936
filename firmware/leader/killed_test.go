package leader

import (
	"math"
	"testing"
	"time"

	"prefdt/simbridge/autopilot"
	"prefdt/telemetry"
)

// landedAt is whether an aircraft stands with its motors off.
func (r *rig) landedAt(i int) bool {
	s := r.craft[i].State()
	return s.Landed && !s.Armed
}

// again kills the leader, waits for an event while it is gone, and starts the next.
func (r *rig) again(f *flight, meanwhile func()) *flight {
	r.t.Helper()
	f.kill(r.t)
	r.mutex.Lock()
	r.status = nil
	r.mutex.Unlock()
	meanwhile()
	return r.launch()
}

// A leader killed in the climb finds its autopilots rebooted: nothing is armed,
// not by a resume either, which is for the air.
func TestKilledInTheClimbAutopilotsRebooted(t *testing.T) {
	r := newRig(t, 1, 100000)
	f := r.launch()
	r.takeOff()
	r.await("it climbs", func(s telemetry.Status) bool { return s.State == telemetry.StateClimbing && r.craft[0].State().Armed })
	r.await("a second of it", func(telemetry.Status) bool { return r.craft[0].TimeS() > 8 })
	r.again(f, func() { r.craft[0].Reboot(false) })
	first := r.await("it speaks", anyStatus)
	r.await("thirty beats", func(n telemetry.Status) bool { return n.Seq > first.Seq+30 })
	if r.craft[0].State().Armed {
		t.Error("a rebooted autopilot was armed after the restart")
	}
	if ack := r.mission("resume"); ack.Accepted {
		t.Errorf("resume of an aircraft on the ground: %+v", ack)
	}
	s := r.await("a status", anyStatus)
	r.await("ten beats", func(n telemetry.Status) bool { return n.Seq > s.Seq+10 })
	if r.craft[0].State().Armed {
		t.Error("resume armed it")
	}
}

// Whoever was on the way home is led home by the next leader, and lands.
func TestKilledWhileReturning(t *testing.T) {
	r := newRig(t, 2, 100000)
	f := r.launch()
	r.takeOff()
	r.await("slot 8", at(8))
	r.mission("return")
	r.await("returning", func(s telemetry.Status) bool { return s.State == telemetry.StateReturning })
	seq := r.await("a status", anyStatus).Seq
	r.again(f, func() {})
	s := r.await("done", done)
	if s.Seq <= seq || !r.landedAt(0) || !r.landedAt(1) {
		t.Errorf("after the restart: %+v, number %d before", s, seq)
	}
	for i := range 2 {
		if off := r.craft[i].State().Position; r.offHomeM(i) > 5 {
			t.Errorf("aircraft %d landed at %+v, %.0f m from where it took off", i+1, off, r.offHomeM(i))
		}
	}
}

// offHomeM is how far from its take-off an aircraft is.
func (r *rig) offHomeM(i int) float64 {
	p, home := r.craft[i].State().Position, r.craft[i].Config.Start
	return math.Hypot(p.EastM-home.EastM, p.NorthM-home.NorthM)
}

// One that was sent home for its battery goes on home, and the other flies on.
func TestKilledWhileOneIsSentHome(t *testing.T) {
	r := newRig(t, 2, 100000)
	r.config.Flight.ReserveJ = 140e3
	f := r.launch()
	r.takeOff()
	r.await("slot 3", at(3))
	r.craft[1].AddEdgeJ(3, 12e3)
	if !r.until(func() bool { return len(r.offered) == 1 }) {
		t.Fatalf("aircraft %v are offered", r.offered)
	}
	r.again(f, func() {})
	if !r.eventually(func() bool { return r.landedAt(1) }) {
		t.Fatalf("with a low battery: %+v", r.craft[1].State())
	}
	s := r.await("the other flies on", flying)
	r.await("ten slots on", at(s.Slot+10))
	if v := r.craft[0].State(); v.Mode != autopilot.ModeOffboard || r.craft[1].State().Armed {
		t.Errorf("%+v, %+v", v, r.craft[1].State())
	}
}

// What a pilot took stays the pilot's over a restart, until resume.
func TestKilledAfterAPilotTookOver(t *testing.T) {
	r := newRig(t, 2, 100000)
	f := r.launch()
	r.takeOff()
	r.await("slot 3", at(3))
	r.pilot(1, autopilot.ModeHold)
	r.await("it is with its pilot", func(s telemetry.Status) bool { return s.Aircraft[1].Mode == "AUTO.LOITER" })
	if !r.until(func() bool { return len(r.offered) == 1 }) {
		t.Fatalf("aircraft %v are offered", r.offered)
	}
	s := r.await("a status", anyStatus)
	r.await("it is in the ledger", at(s.Slot+2))
	f.kill(t)
	before := r.obeyed[1].Load()
	r.again(r.launch(), func() {}) // and once more
	s = r.await("flying", flying)
	r.await("ten slots on", at(s.Slot+10))
	if v := r.craft[1].State(); v.Mode != autopilot.ModeHold || r.obeyed[1].Load() != before {
		t.Errorf("the pilot's aircraft is in %s and got %d setpoints and commands", v.Mode, r.obeyed[1].Load()-before)
	}
	if ack := r.mission("resume"); !ack.Accepted {
		t.Errorf("resume: %+v", ack)
	}
	r.await("it flies again", func(s telemetry.Status) bool {
		return s.Aircraft[1].Mode == "OFFBOARD" && *s.Aircraft[1].SpeedMPS > 5
	})
}

// Another leader took the fleet over while this one was down: it ends with its
// own exit status, and no aircraft gets anything of it.
func TestRestartedBesideAnotherLeader(t *testing.T) {
	r := newRigAt(t, 2, 100000, 100)
	args := r.program()
	p := r.start(args)
	r.takeOff()
	r.await("slot 3", at(3))
	p.Kill()
	if !r.until(func() bool { return !r.online }) {
		t.Fatal("its will was not heard")
	}
	r.crew.Publish(telemetry.Publication{Topic: r.topics.Online(), QoS: 1, Retained: true, Payload: telemetry.EncodeOnline(true)})
	if !r.until(func() bool { return r.online }) {
		t.Fatal("the other is not online")
	}
	other := time.NewTicker(100 * time.Millisecond)
	defer other.Stop()
	before := r.obeyed[0].Load() + r.obeyed[1].Load()
	p = r.start(args)
	for n := 20; ; n++ {
		select {
		case <-p.Ended:
			if p.ExitCode() != 3 {
				t.Errorf("exit status %d: %v", p.ExitCode(), p.Failure())
			}
			if got := r.obeyed[0].Load() + r.obeyed[1].Load() - before; got > 0 {
				t.Errorf("the aircraft got %d setpoints and commands", got)
			}
			return
		case <-other.C:
			r.publish(r.topics.Slot(), telemetry.Slot{Slot: n, SlotMS: 100, Speed: 10, ReportByMS: 35, DecideByMS: 60, Offer: telemetry.Offer{PriceSPerJ: 0.01, Aircraft: []telemetry.OfferAircraft{}}})
		}
		if n > 200 {
			t.Fatal("it does not end")
		}
	}
}
