package leader

import (
	"errors"
	"math"
	"testing"

	"github.com/bluenviron/gomavlib/v3"
	"github.com/bluenviron/gomavlib/v3/pkg/dialects/common"

	"prefdt/inference/checkpoint"
	"prefdt/inference/goal"
	"prefdt/inference/slot"
	"prefdt/simbridge/autopilot"
	"prefdt/telemetry"
)

func TestLostAircraft(t *testing.T) {
	r := newRig(t, 2, 90)
	r.launch()
	r.await("the leader", anyStatus)
	r.takeOff()
	r.await("slot 10", at(10))
	r.lose[1]()
	s := r.await("age over 10 s", func(s telemetry.Status) bool {
		return s.Aircraft[1].AgeS != nil && *s.Aircraft[1].AgeS > 11
	})
	later := r.await("ten slots later", at(s.Slot+10))
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
	if end := r.await("done", done); end.Slot != 89 {
		t.Errorf("ended at %+v", end)
	}
}

func TestTwoLeaders(t *testing.T) {
	r := newRig(t, 1, 100000)
	r.launch()
	r.await("the leader", anyStatus)
	r.takeOff()
	r.await("flying", flying)
	incumbent := r.config
	r.config.StateDir = t.TempDir()
	newcomer := r.launch()
	if err := <-newcomer.done; !errors.Is(err, errIncumbent) {
		t.Errorf("the newcomer ended with %v", err)
	}
	r.config = incumbent
	before := r.await("the incumbent", flying)
	r.await("its next slots", func(s telemetry.Status) bool { return s.Slot > before.Slot+3 })
}

func TestBrokerGone(t *testing.T) {
	r := newRig(t, 1, 100000)
	r.config.Flight.BrokerHoldS, r.config.Flight.BrokerReturnS = 5, 15
	f := r.launch()
	r.await("the leader", anyStatus)
	r.takeOff()
	r.await("slot 5", at(5))
	r.closeBroker()
	if !r.eventually(func() bool { s := r.craft[0].State(); return s.Mode.String() == "AUTO.LAND" || s.Landed }) {
		t.Errorf("the aircraft is in %v", r.craft[0].State())
	}
	f.kill(t)
}

// asked keeps what a scheduler is asked for.
type asked struct{ goal goal.Objective }

func (a *asked) Decide(_ *slot.Snapshot, o goal.Objective, _ *slot.Decision) goal.Seen {
	a.goal = o
	return goal.Seen{}
}

// Without a broker nobody can be told anything: the fleet flies on at v*, and
// what was asked of it stands.
func TestFliesOnWithoutABroker(t *testing.T) {
	frozen, err := checkpoint.Load("../configs/checkpoint")
	if err != nil {
		t.Fatal(err)
	}
	var of asked
	l := grounded(t, &of, frozen.Physics, &frozen.Scales)
	if err := l.goal.Budget(60000, goal.Target); err != nil {
		t.Fatal(err)
	}
	l.decide(0)
	if of.goal.Budgeted() || of.goal.Setting() != 1 {
		t.Errorf("flies on at setting %v", of.goal.Setting())
	}
	if l.goal.BudgetJ() != 60000 {
		t.Errorf("the budget of 60 kJ is %v J", l.goal.BudgetJ())
	}
}

// A pilot may take an aircraft at any time; only resume gives it back.
func TestPilotTakesOver(t *testing.T) {
	r := newRig(t, 2, 100000)
	r.launch()
	r.await("the leader", anyStatus)
	r.takeOff()
	r.await("slot 3", at(3))
	r.pilot(1, autopilot.ModeHold)
	s := r.await("it is with its pilot", func(s telemetry.Status) bool { return s.Aircraft[1].Mode == "AUTO.LOITER" })
	r.await("ten slots later", at(s.Slot+10))
	if mode := r.craft[1].State().Mode; mode != autopilot.ModeHold {
		t.Errorf("the pilot's mode was changed to %s", mode)
	}
	if !r.eventually(func() bool { s := r.craft[0].State(); return s.Mode == autopilot.ModeOffboard && s.SpeedMPS() > 5 }) {
		t.Errorf("the other aircraft does not fly on: %+v", r.craft[0].State())
	}
	r.mutex.Lock()
	offered := r.offered
	r.mutex.Unlock()
	if len(offered) != 1 || offered[0] != 1 {
		t.Errorf("aircraft %v are offered to users", offered)
	}
	if ack := r.command(r.topics.Mission(), `{"id":"back","action":"resume"}`, "back"); !ack.Accepted {
		t.Fatalf("resume: %+v", ack)
	}
	r.await("it flies again", func(s telemetry.Status) bool {
		return s.Aircraft[1].Mode == "OFFBOARD" && *s.Aircraft[1].SpeedMPS > 5
	})
}

// pilot changes an aircraft's mode as a remote control would.
func (r *rig) pilot(i int, mode autopilot.Mode) {
	r.t.Helper()
	node := &gomavlib.Node{
		Endpoints: []gomavlib.EndpointConf{gomavlib.EndpointUDPClient{Address: r.craft[i].Addr()}},
		Dialect:   common.Dialect, OutVersion: gomavlib.V2, OutSystemID: 255, HeartbeatDisable: true,
	}
	if err := node.Initialize(); err != nil {
		r.t.Fatal(err)
	}
	defer node.Close()
	go func() {
		for range node.Events() {
		}
	}()
	if !r.eventually(func() bool {
		node.WriteMessageAll(&common.MessageSetMode{TargetSystem: uint8(i + 1), BaseMode: common.MAV_MODE_FLAG_CUSTOM_MODE_ENABLED, CustomMode: uint32(mode)})
		return r.craft[i].State().Mode == mode
	}) {
		r.t.Fatalf("aircraft %d did not change to %s", i+1, mode)
	}
}
