package main

import (
	"slices"
	"strings"
	"testing"

	"prefdt/firmware/fleet"
	"prefdt/simbridge/autopilot"
	"prefdt/telemetry"
)

// untouched is that nothing which moves an aircraft reaches it for some beats
// from the moment on that the leader knows of its pilot.
func (r *rig) untouched(f *flight, i, beats int) {
	r.t.Helper()
	if !r.eventually(func() bool { return f.fleet.Views(nil)[i].Phase == fleet.PhaseTaken }) {
		r.t.Fatalf("the leader does not leave it to its pilot: %+v", f.fleet.Views(nil)[i])
	}
	s := r.await("status", anyStatus)
	r.await("what was on its way", func(n telemetry.Status) bool { return n.Seq > s.Seq+2 })
	before := r.obeyed[i].Load()
	s = r.await("status", anyStatus)
	r.await("some beats", func(n telemetry.Status) bool { return n.Seq > s.Seq+int64(beats) })
	if n := r.obeyed[i].Load() - before; n > 0 {
		r.t.Errorf("%d commands and setpoints reached its pilot's aircraft: %+v", n, r.craft[i].State())
	}
}

// An aircraft that is disarmed in its climb is not armed again.
func TestDisarmedInTheClimbIsLeft(t *testing.T) {
	r := newRig(t, 2, 100000)
	f := r.launch()
	r.takeOff()
	if !r.eventually(func() bool { s := r.craft[1].State(); return s.Position.UpM > 2 }) {
		t.Fatal("it does not climb")
	}
	r.craft[1].Disarm()
	r.untouched(f, 1, 60)
	if s := r.craft[1].State(); s.Armed {
		t.Errorf("%+v", s)
	}
	if v := f.fleet.Views(nil)[1]; !strings.Contains(v.Reason, "disarmed while climbing") {
		t.Errorf("the reason is %q", v.Reason)
	}
	r.await("the other flies", flying)
}

// One that is disarmed in flight is offered to nobody, and the way home ends
// without it.
func TestDisarmedInFlightDoesNotFly(t *testing.T) {
	r := newRig(t, 2, 100000)
	f := r.launch()
	r.takeOff()
	r.await("slot 5", at(5))
	r.craft[1].Disarm()
	r.untouched(f, 1, 20)
	r.mutex.Lock()
	offered := slices.Clone(r.offered)
	r.mutex.Unlock()
	if !slices.Equal(offered, []int{1}) {
		t.Errorf("aircraft %v are offered", offered)
	}
	if ack := r.mission("resume"); ack.Accepted {
		t.Errorf("resume with nobody in the air to resume: %+v", ack)
	}
	r.mission("return")
	r.await("done", done)
}

// A pilot in POSCTL stays in it when the crew stops the mission.
func TestStopLeavesThePilot(t *testing.T) {
	r := newRig(t, 2, 100000)
	f := r.launch()
	r.takeOff()
	r.await("slot 5", at(5))
	r.craft[1].Pilot(autopilot.ModePosition)
	if ack := r.mission("stop"); !ack.Accepted {
		t.Fatalf("stop: %+v", ack)
	}
	r.untouched(f, 1, 20)
	if !r.eventually(func() bool { return r.craft[0].State().Mode == autopilot.ModeHold }) || r.craft[1].State().Mode != autopilot.ModePosition {
		t.Errorf("after the stop: %s and %s", r.craft[0].State().Mode, r.craft[1].State().Mode)
	}
	r.untouched(f, 0, 20)
}

// What keeps an autopilot from arming is known in seconds, in its own words.
func TestArmingDeniedIsSaid(t *testing.T) {
	r := newRig(t, 1, 100000)
	r.craft[0].DenyArming("Preflight Fail: a compass that was bent on purpose")
	f := r.launch()
	r.takeOff()
	if !r.eventually(func() bool {
		return strings.Contains(f.fleet.Views(nil)[0].Reason, "Arming denied: Preflight Fail: a compass that was bent on purpose")
	}) {
		t.Errorf("the reason is %q", f.fleet.Views(nil)[0].Reason)
	}
	r.untouched(f, 0, 20)
	if v := f.fleet.Views(nil)[0]; !v.PreArm.Known || v.PreArm.OK {
		t.Errorf("prearm: %+v", v.PreArm)
	}
}

// HEARTBEATs that are lost for eight seconds cost no OFFBOARD: they are asked for.
func TestFliesOnWithoutHeartbeats(t *testing.T) {
	r := newRigAt(t, 1, 100000, 100)
	f := r.launch()
	r.takeOff()
	s := r.await("slot 5", at(5))
	r.craft[0].LoseHeartbeats(8)
	r.await("ten slots on", at(s.Slot+10))
	if v, now := f.fleet.Views(nil)[0], r.craft[0].State(); !v.Flying || now.Mode != autopilot.ModeOffboard {
		t.Errorf("%s, %+v", now.Mode, v)
	}
}
