package fleet

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/bluenviron/gomavlib/v3/pkg/dialects/common"

	"prefdt/inference/physics"
)

// Whatever keeps an aircraft on the ground, the crew is told what to do about it.
func TestNotReady(t *testing.T) {
	ready := View{
		Received: true, Located: true, Fresh: true, Landed: new(true), ClockRate: 1, PreArm: PreArmGood, BatteryIDs: []uint8{0},
		Params: Parameters{readMask: 1<<4 - 1},
	}
	if err := ready.Ready(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		change func(v *View)
		want   string
	}{
		{func(v *View) { v.Received = false }, "nothing was received from it yet; see that it is switched on and linked"},
		{func(v *View) { v.Located, v.Fresh = false, false }, "no position was received from it yet; see to its position fix"},
		{func(v *View) { v.Fresh, v.StaleS = false, 4 }, "for 4.0 s; see to its link and its position fix"},
		{func(v *View) { v.Params = Parameters{} }, "were not read yet; send it again"},
		{func(v *View) { v.Armed, v.ModeName = true, "AUTO.LOITER" }, "want it on the ground with its motors off"},
		{func(v *View) { v.Landed = new(false) }, "set it down and wait for that"},
		{func(v *View) { v.Landed = nil }, "no EXTENDED_SYS_STATE says so for 5 s"},
		{func(v *View) { v.Foreign = "GENERIC (0)" }, "is GENERIC (0), and only copters of PX4 (12) and ArduCopter (3) are flown"},
		{func(v *View) { v.PreArm = PreArmUnknown }, "no SYS_STATUS for 5 s"},
		{func(v *View) { v.UpM = 21 }, "is the origin right?"},
		{func(v *View) { v.ClockRate = math.NaN() }, "send it again"},
		{func(v *View) { v.ClockRate = 0.25 }, "slot_ms must be that of its speed"},
		{func(v *View) { v.BatteryIDs, v.UnmeteredBatteries = []uint8{0, 1}, []uint8{1} },
			"batteries with the ids [0 1], and of these [1] are not metered; unplug them, or of one that feeds no motor set BAT2_SOURCE"},
		{func(v *View) {
			v.BatteryIDs, v.UnmeteredBatteries = []uint8{0, 1}, []uint8{1}
			v.Params.autopilot, v.Params.readMask = ardupilot{}, math.MaxUint32
		}, "set BATT2_MONITOR (BATT3_MONITOR, ...) 0; of packs that all do, have id 0 be the sum: BATT_MONITOR 10"},
		{func(v *View) { v.PreArm, v.Reason = PreArmFails, "heading" }, "its pre-arm checks fail: heading; cure that"},
		{func(v *View) { v.PreArm = PreArmFails }, "a ground station shows which"},
	} {
		v := ready
		c.change(&v)
		if err := v.Ready(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
}

// What is stale is the older of position and HEARTBEAT: whichever does not come, its age is told.
func TestStaleIsTheOlder(t *testing.T) {
	for name, without := range map[string]func(v *simVehicle){
		"no HEARTBEAT": func(v *simVehicle) {
			for range 40 {
				v.advance(100 * time.Millisecond)
				v.bootMS += 100
				v.transmit(v.positionMessage())
			}
		},
		"no position": func(v *simVehicle) {
			for range 4 {
				v.advance(time.Second)
				v.bootMS += 1000
				v.sendHeartbeat()
			}
		},
	} {
		v := newSimVehicle(newFixture(t), 1, physics.Position{EastM: 300, NorthM: 300})
		v.simulate(6*time.Second, nil)
		without(v)
		if got := v.view(); got.StaleS < 3.9 || got.StaleS > 5.1 {
			t.Errorf("%s for 4 s: %.1f s are told", name, got.StaleS)
		}
	}
}

// Setpoints go on for eight seconds longer than an aircraft can be commanded by its last HEARTBEAT; what a view says is the latter, or
// a command would be accepted and not given.
func TestOldHeartbeat(t *testing.T) {
	v := newSimVehicle(newFixture(t), 1, physics.Position{EastM: 300, NorthM: 300})
	v.simulate(6*time.Second, nil)
	for range 25 {
		v.advance(100 * time.Millisecond)
		v.bootMS += 100
		v.transmit(v.positionMessage())
	}
	if got := v.view(); got.Fresh || !got.Partly {
		t.Errorf("%.1f s after its HEARTBEAT: fresh %v, partly %v", got.StaleS, got.Fresh, got.Partly)
	}
	v.advance(12 * time.Second)
	if got := v.view(); got.Partly || got.Placed {
		t.Errorf("silent for 12 s: partly %v, placed %v", got.Partly, got.Placed)
	}
	v.transmit(&common.MessageBatteryStatus{Voltages: [10]uint16{16000}, CurrentBattery: 30, BatteryRemaining: 80})
	if got := v.view(); got.Fresh || !got.Partly || got.Placed {
		t.Errorf("back with a battery's message: fresh %v, partly %v, placed %v", got.Fresh, got.Partly, got.Placed)
	}
}

// One that was lost cannot be commanded with its first messages: not before a position shows that its autopilot, which chose another
// mode meanwhile, did not reboot, nor before it counts as received. A command to all that passes over it is not for now.
func TestJustBack(t *testing.T) {
	v := newSimVehicle(newFixture(t), 1, physics.Position{EastM: 300, NorthM: 300})
	v.simulate(6*time.Second, nil)
	v.armed, v.landed, v.upM, v.mode = true, false, 100, ModePosition
	v.simulate(2*time.Second, nil)
	v.advance(12 * time.Second)
	v.bootMS += 12_000
	v.mode = ModeHold
	v.sendState()
	v.clock.Advance(50 * time.Millisecond)
	v.sendHeartbeat()
	if got := v.view(); !got.Fresh || !got.Partly || got.Hovers() {
		t.Errorf("with its first messages: fresh %v, partly %v, hovers %v", got.Fresh, got.Partly, got.Hovers())
	}
	v.tick()
	if got := v.view(); !got.Partly || v.Check(Resume, []Ordered{resume(1, true)}) == nil {
		t.Errorf("received again, without a position since: partly %v, and resumed", got.Partly)
	}
	v.bootMS += 100
	v.advance(100 * time.Millisecond)
	v.sendState()
	if got, err := v.view(), v.Check(Resume, []Ordered{resume(1, true)}); got.Partly || !got.Hovers() || err != nil {
		t.Errorf("with the next position: partly %v, hovers %v, %v", got.Partly, got.Hovers(), err)
	}
}

// What comes first after a reboot may have waited in a buffer, and nothing for a while after it: compared with that, a clock is too fast.
func TestClockRateAfterASilence(t *testing.T) {
	var r clockRate
	r.add(2400, 110.5) // 2.6 s late
	for at := 112.5; at < 120; at += 0.1 {
		r.add(1000*(at-105.5), at)
	}
	if got := r.ratio(); !(math.Abs(got-1) < 0.01) {
		t.Errorf("it runs at %.3f", got)
	}
}
