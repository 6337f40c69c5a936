package fleet

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bluenviron/gomavlib/v3/pkg/dialects/common"
	"github.com/bluenviron/gomavlib/v3/pkg/message"

	"prefdt/firmware/energy"
	"prefdt/firmware/height"
	"prefdt/inference/physics"
)

// flying is a vehicle in flight at 300 m, 300 m, and 8 m/s to the east.
func flying(t *testing.T) *simVehicle {
	v := newSimVehicle(newFixture(t), 1, physics.Position{EastM: 300, NorthM: 300})
	v.simulate(time.Second, nil)
	fly(v)
	v.velocity.EastM = 8
	v.cruise(time.Second, nil)
	if !v.view().Flying {
		t.Fatalf("%+v", v.view())
	}
	return v
}

// cruise flies on for a while, with a hold by the leader in each tick; change, if any,
// changes each position that is sent.
func (v *simVehicle) cruise(d time.Duration, change func(*common.MessageGlobalPositionInt)) (setpoints int) {
	for ; d > 0; d -= 100 * time.Millisecond {
		v.sent.frames = nil
		v.Hold(v.number)
		v.persist()
		v.tick()
		for _, m := range v.sent.drain() {
			if what, _ := classify(px4{}, m); what == kindSetpoint {
				setpoints++
			}
		}
		v.clock.Advance(100 * time.Millisecond)
		v.bootMS += 100
		v.position = v.position.Add(v.velocity.Scale(0.1))
		if v.bootMS%1000 == 0 {
			v.sendHeartbeat()
		}
		v.transmit(&common.MessageExtendedSysState{LandedState: common.MAV_LANDED_STATE_IN_AIR})
		m := v.positionMessage()
		if change != nil {
			change(m)
		}
		v.transmit(m)
	}
	return setpoints
}

// refusedPositions is how many positions were dropped.
func (v *simVehicle) refusedPositions() (n uint64) {
	for reason, k := range v.RejectedFrames() {
		if strings.Contains(reason, "position") || strings.Contains(reason, "impossible") {
			n += k
		}
	}
	return n
}

// One position, or one second of them, that cannot be is dropped and counted: the aircraft
// flies on the others, and nothing changes hands.
func TestOnePositionThatCannotBe(t *testing.T) {
	for name, change := range map[string]func(v *simVehicle, m *common.MessageGlobalPositionInt){
		"INT32_MAX":          func(_ *simVehicle, m *common.MessageGlobalPositionInt) { m.Lat, m.Lon = math.MaxInt32, math.MaxInt32 },
		"one INT32_MAX":      func(_ *simVehicle, m *common.MessageGlobalPositionInt) { m.Lon = math.MaxInt32 },
		"no fix":             func(_ *simVehicle, m *common.MessageGlobalPositionInt) { m.Lat, m.Lon = 0, 0 },
		"latitude 0":         func(_ *simVehicle, m *common.MessageGlobalPositionInt) { m.Lat = 0 },
		"5.5 km north":       func(_ *simVehicle, m *common.MessageGlobalPositionInt) { m.Lat += 500000 },
		"300 m north":        func(_ *simVehicle, m *common.MessageGlobalPositionInt) { m.Lat += 27000 },
		"60 m north":         func(_ *simVehicle, m *common.MessageGlobalPositionInt) { m.Lat += 5400 },
		"altitude 0":         func(_ *simVehicle, m *common.MessageGlobalPositionInt) { m.Alt = 0 },
		"altitude INT32_MAX": func(_ *simVehicle, m *common.MessageGlobalPositionInt) { m.Alt = math.MaxInt32 },
		"speed INT16_MAX":    func(_ *simVehicle, m *common.MessageGlobalPositionInt) { m.Vx, m.Vy = math.MaxInt16, math.MaxInt16 },
		"time 0":             func(_ *simVehicle, m *common.MessageGlobalPositionInt) { m.TimeBootMs = 0 },
		"an hour ahead":      func(_ *simVehicle, m *common.MessageGlobalPositionInt) { m.TimeBootMs += 3600e3 },
		"3 s late":           func(_ *simVehicle, m *common.MessageGlobalPositionInt) { m.TimeBootMs -= 3000; m.Lon -= 3000 },
		"10 s late":          func(_ *simVehicle, m *common.MessageGlobalPositionInt) { m.TimeBootMs -= 10000; m.Lon -= 10000 },
	} {
		for many, seconds := range map[string]time.Duration{"one": 100 * time.Millisecond, "one second": time.Second} {
			t.Run(name+", "+many, func(t *testing.T) {
				v := flying(t)
				before := v.refusedPositions()
				setpoints := v.cruise(seconds, func(m *common.MessageGlobalPositionInt) {
					change(v, m)
					if got := v.view(); got.Position.Sub(v.position).Norm() > 10 || got.UpM.Off(100) > 1 || got.Lost ||
						got.SpeedMPS > 9 {
						t.Fatalf("at %v, %v m up, %v m/s", got.Position, got.UpM, got.SpeedMPS)
					}
				})
				if n := v.refusedPositions() - before; n != uint64(seconds/(100*time.Millisecond)) {
					t.Errorf("%d were counted: %v", n, v.RejectedFrames())
				}
				setpoints += v.cruise(5*time.Second, nil)
				got := v.view()
				if !got.Flying || got.Reason != "" || !got.Params.Complete() || got.Position.Sub(v.position).Norm() > 1 ||
					math.IsNaN(got.ClockRate) {
					t.Errorf("%s, %q, off by %.1f m", got.Phase, got.Reason, got.Position.Sub(v.position).Norm())
				}
				if want := int((seconds + 5*time.Second) / (100 * time.Millisecond)); setpoints != want {
					t.Errorf("%d setpoints, want %d", setpoints, want)
				}
			})
		}
	}
}

// Without plausible positions an aircraft is silent after a second, and after two nothing
// is sent: a gap is a gap.
func TestImplausiblePositionsAreAGap(t *testing.T) {
	v := flying(t)
	far := func(m *common.MessageGlobalPositionInt) { m.Lat += 500000 }
	setpoints := v.cruise(1500*time.Millisecond, far)
	if got := v.view(); got.Measured || !got.Fresh || setpoints != 15 {
		t.Errorf("after 1.5 s: measured %v, fresh %v, %d setpoints", got.Measured, got.Fresh, setpoints)
	}
	v.cruise(time.Second, far)
	if setpoints = v.cruise(5*time.Second, far); setpoints > 0 || v.view().Fresh {
		t.Errorf("%d setpoints without a position", setpoints)
	}
	// A receiver that stays elsewhere is believed after ten seconds.
	v.cruise(2*time.Second, far)
	if got := v.view(); got.Position.NorthM > 5000 {
		t.Errorf("after 9.5 s it is at %v", got.Position)
	}
	v.cruise(time.Second, far)
	if got := v.view(); got.Position.NorthM < 5000 {
		t.Errorf("after 10.5 s it is still at %v", got.Position)
	}
}

// A fix that moves by 30 m for good is believed before the aircraft is without a position.
func TestPositionThatMovesForGood(t *testing.T) {
	v := flying(t)
	if setpoints := v.cruise(5*time.Second, func(m *common.MessageGlobalPositionInt) { m.Lat += 2700 }); setpoints != 50 {
		t.Errorf("%d setpoints in 5 s", setpoints)
	}
	if got := v.view(); got.Position.NorthM < 325 {
		t.Errorf("it is at %v", got.Position)
	}
}

// The first position is believed with the second: one that is far off does not keep the
// others out.
func TestFirstPositionOfAll(t *testing.T) {
	b := newFixture(t)
	v := &simVehicle{fixture: b, number: 1, bootMS: 60_000, mode: ModeHold, landed: true, position: physics.Position{EastM: 9000}}
	v.sendHeartbeat()
	v.transmit(v.positionMessage())
	if v.view().Located {
		t.Error("one position counts")
	}
	v.position.EastM = 300
	v.transmit(v.positionMessage())
	v.transmit(v.positionMessage())
	if got := v.view(); !got.Located || math.Abs(got.Position.EastM-300) > 1 {
		t.Errorf("%v, located %v", got.Position, got.Located)
	}
}

// Half a second of positions 5.5 km away are the first that are received of an aircraft in
// flight, after a gap or by the next leader process: it is not believed to be there, and
// nothing sends it anywhere because of them. True ones are believed with the second.
func TestFirstPositionsInFlightAreWrong(t *testing.T) {
	wrong := func(m *common.MessageGlobalPositionInt) { m.Lat += 500000 }
	for name, begin := range map[string]func(v *simVehicle){
		"after a restart": func(v *simVehicle) {
			saved := v.SavedState()
			v.fixture = newFixture(t)
			v.Restore(saved)
			v.sendHeartbeat()
		},
		"after a gap": func(v *simVehicle) {
			v.clock.Advance(12 * time.Second)
			v.bootMS += 12000
			v.sendHeartbeat()
		},
	} {
		t.Run(name, func(t *testing.T) {
			v := flying(t)
			v.transmit(&common.MessageBatteryStatus{BatteryRemaining: 90, EnergyConsumed: 1, CurrentBattery: 1000, CurrentConsumed: 10})
			begin(v)
			for range 5 {
				m := v.positionMessage()
				wrong(m)
				v.transmit(m)
				v.clock.Advance(100 * time.Millisecond)
				v.bootMS += 100
			}
			if got := v.view(); got.Position.NorthM > 1000 {
				t.Errorf("believed to be at %v", got.Position)
			}
			v.transmit(v.positionMessage())
			v.transmit(v.positionMessage())
			if got := v.view(); !got.Located || got.Position.Sub(v.position).Norm() > 1 {
				t.Errorf("at %v, located %v, and not at %v", got.Position, got.Located, v.position)
			}
		})
	}
}

// A true reboot is believed within a second, and nothing that moves the aircraft is sent
// from the second message on by the new clock. It is one also while it stays armed.
func TestRebootIsBelieved(t *testing.T) {
	for name, c := range map[string]struct {
		silent time.Duration // while it boots
		bootMS uint32
		late   bool // its last position before the boot is only received after it, as from a radio that packs frames
	}{
		"at once": {0, 300, false}, "after 5 s": {5 * time.Second, 4500, false}, "long after": {9 * time.Second, 8000, false},
		"behind a late position": {6 * time.Second, 5500, true},
	} {
		t.Run(name, func(t *testing.T) {
			v := flying(t)
			v.clock.Advance(c.silent)
			if c.late {
				v.bootMS += 100
				v.transmit(v.positionMessage())
			}
			v.bootMS = c.bootMS
			v.cruise(200*time.Millisecond, nil)
			moved := v.cruise(800*time.Millisecond, nil)
			if got := v.view(); got.Phase != PhasePilot || got.Reason != "rebooted" || got.Params.Complete() || moved > 0 {
				t.Errorf("%s, %q, %d setpoints", got.Phase, got.Reason, moved)
			}
			v.expectNoCommands(20 * time.Second)
		})
	}
}

// A clock that began again is that of a reboot once positions show it for half a second.
func TestHowLongAClockShowsAReboot(t *testing.T) {
	v := flying(t)
	v.bootMS = 300
	for afterMS := 0; afterMS <= 540; afterMS += 45 {
		if got := v.view(); got.Reason != "" {
			t.Fatalf("%q before %d ms", got.Reason, afterMS)
		}
		v.transmit(v.positionMessage())
		v.clock.Advance(45 * time.Millisecond)
		v.bootMS += 45
	}
	if got := v.view(); got.Reason != "rebooted" {
		t.Errorf("%q after 540 ms", got.Reason)
	}
}

// Late copies of positions, some of every second, reboot nothing, whatever their number.
func TestLateCopies(t *testing.T) {
	v := flying(t)
	type late struct {
		sequence byte
		m        message.Message
	}
	var copies []late
	for i := range 100 {
		v.cruise(100*time.Millisecond, func(m *common.MessageGlobalPositionInt) {
			copies = append(copies, late{v.sequence, new(*m)})
		})
		if i >= 35 && i%2 == 0 {
			v.transmitAs(copies[i-35].sequence, copies[i-35].m)
		}
	}
	if got := v.view(); !got.Flying || got.Reason != "" || got.Position.Sub(v.position).Norm() > 1 || v.refusedPositions() != 32 {
		t.Errorf("%s, %q, %v", got.Phase, got.Reason, v.RejectedFrames())
	}
}

// After a stall the first messages of a full buffer come at once, and then that of now: it
// is late messages that it follows, and not ahead of its time, however long it has flown.
func TestFullBufferAfterAStall(t *testing.T) {
	for _, flownS := range []int{0, 44, 50, 56} { // a promptest position counts for a minute
		t.Run(fmt.Sprint(flownS), func(t *testing.T) { fullBufferAfterAStall(t, time.Duration(flownS)*time.Second) })
	}
}

func fullBufferAfterAStall(t *testing.T, flown time.Duration) {
	v := flying(t)
	v.velocity = physics.Position{}
	v.simulate(flown, nil)
	var buffered []message.Message
	for range 80 {
		v.clock.Advance(100 * time.Millisecond)
		v.bootMS += 100
		v.position.EastM += v.velocity.EastM / 10
		buffered = append(buffered, v.positionMessage())
	}
	v.sendHeartbeat()
	for _, m := range append(buffered[:20], buffered[79]) {
		v.transmit(m)
	}
	if got := v.view(); got.StaleS > 0.1 || got.BootMS < float64(v.bootMS)-1 || v.refusedPositions() > 0 {
		t.Errorf("its position is %.1f s old, of %.0f ms, the last is of %d; %v", got.StaleS, got.BootMS, v.bootMS, v.RejectedFrames())
	}
}

// After a restart all of a full buffer may be old: the first message of now is believed at
// once, and numbers the slot.
func TestFullBufferAtTheStart(t *testing.T) {
	b := newFixture(t)
	v := newSimVehicle(b, 1, physics.Position{EastM: 300, NorthM: 300}) // it sends its first position
	for i := range 40 {
		v.bootMS += 100
		if i == 20 {
			v.bootMS += 6000 // no more than these twenty fit into the buffer
		}
		v.transmit(v.positionMessage())
	}
	if got := v.view(); got.BootMS < float64(v.bootMS)-1 || v.refusedPositions() > 0 {
		t.Errorf("of %.0f ms, the last is of %d; %v", got.BootMS, v.bootMS, v.RejectedFrames())
	}
}

// ON_GROUND of an aircraft in the air does not count: not high up, nor while it moves, nor one alone.
func TestOneOnGroundInTheAir(t *testing.T) {
	for name, c := range map[string]struct {
		upM, climbMPS, eastMPS float64
		messages               int
		landed                 bool
	}{"at H": {100, 0, 0, 2, false}, "low, climbing": {10, 3, 0, 2, false}, "low, flying": {10, 0, 5, 2, false},
		"low, slow": {10, -0.3, 0, 1, false}, "on the ground": {0.5, 0.1, 0.2, 2, true}} {
		v := flying(t)
		v.SendHome(1)
		v.upM, v.velocity.EastM = height.AboveOrigin(c.upM), c.eastMPS
		v.sendState()
		m := v.positionMessage()
		m.Vz = int16(-100 * c.climbMPS)
		v.transmit(m)
		for range c.messages {
			v.transmit(&common.MessageExtendedSysState{LandedState: common.MAV_LANDED_STATE_ON_GROUND})
		}
		got := v.view()
		if got.InAir == c.landed || got.Obstacle == c.landed || (got.Landed != nil) != c.landed {
			t.Errorf("%s: in the air %v, an obstacle %v, landed %v", name, got.InAir, got.Obstacle, got.Landed)
		}
	}
}

// What EXTENDED_SYS_STATE said is forgotten after five seconds; unknown is in the air. The
// stream is asked for while it does not come, as is SYS_STATUS.
func TestLandedHasAnAge(t *testing.T) {
	v := newSimVehicle(newFixture(t), 1, physics.Position{EastM: 300, NorthM: 300})
	v.simulate(time.Second, nil)
	v.armed = true
	v.sendHeartbeat()
	asked := map[uint32]int{}
	only := func(d time.Duration) {
		for ; d > 0; d -= 100 * time.Millisecond {
			v.sent.frames = nil
			v.tick()
			for _, m := range v.sent.drain() {
				if c, ok := m.(*common.MessageCommandLong); ok && c.Command == common.MAV_CMD_SET_MESSAGE_INTERVAL {
					asked[uint32(c.Param1)]++
				}
			}
			v.clock.Advance(100 * time.Millisecond)
			v.bootMS += 100
			v.transmit(v.positionMessage())
		}
	}
	only(4900 * time.Millisecond)
	if got := v.view(); got.InAir || got.Landed == nil {
		t.Errorf("after 4.9 s: %+v", got)
	}
	only(300 * time.Millisecond)
	if got := v.view(); !got.InAir || got.Landed != nil {
		t.Errorf("after 5.2 s: in the air %v, landed %v", got.InAir, got.Landed)
	}
	for _, m := range []message.Message{&common.MessageExtendedSysState{}, &common.MessageSysStatus{}} {
		if n := asked[m.GetID()]; n < 2 {
			t.Errorf("%T was asked for %d times", m, n)
		}
	}
	v.transmit(&common.MessageSysStatus{OnboardControlSensorsHealth: common.MAV_SYS_STATUS_PREARM_CHECK})
	if v.view().PreArm == PreArmUnknown {
		t.Error("SYS_STATUS does not count")
	}
	if only(5200 * time.Millisecond); v.view().PreArm != PreArmUnknown {
		t.Error("an old pre-arm check counts")
	}
}

// A HEARTBEAT with the vehicle's ids that is no autopilot's is counted, and changes nothing.
func TestHeartbeatOfNoAutopilot(t *testing.T) {
	gcs := &common.MessageHeartbeat{Type: common.MAV_TYPE_GCS, Autopilot: common.MAV_AUTOPILOT_INVALID,
		SystemStatus: common.MAV_STATE_ACTIVE}
	b := newFixture(t)
	v := &simVehicle{fixture: b, number: 1, bootMS: 60_000}
	if v.transmit(gcs); v.view().Received {
		t.Error("it opens the link")
	}
	v = flying(t)
	for _, m := range []*common.MessageHeartbeat{
		gcs, {Type: common.MAV_TYPE_ONBOARD_CONTROLLER, Autopilot: common.MAV_AUTOPILOT_INVALID},
		{Type: common.MAV_TYPE_GCS, Autopilot: common.MAV_AUTOPILOT_PX4},
		{Type: common.MAV_TYPE_QUADROTOR, Autopilot: common.MAV_AUTOPILOT_GENERIC},
		{Type: common.MAV_TYPE_QUADROTOR, Autopilot: common.MAV_AUTOPILOT_ARDUPILOTMEGA},
		{Type: common.MAV_TYPE_ONBOARD_CONTROLLER, Autopilot: common.MAV_AUTOPILOT_PX4},
	} {
		v.transmit(m)
	}
	got, n := v.view(), v.RejectedFrames()
	if !got.Flying || !got.Armed || got.Mode != ModeOffboard || n["HEARTBEAT of no autopilot"] != 3 ||
		n["HEARTBEAT of another autopilot"] != 3 {
		t.Errorf("%s, armed %v, %s: %v", got.Phase, got.Armed, got.ModeName, n)
	}
}

// An autopilot other than PX4 and ArduCopter is refused by name, and nothing that moves it is sent.
func TestOtherAutopilots(t *testing.T) {
	for autopilot, want := range map[common.MAV_AUTOPILOT]string{
		common.MAV_AUTOPILOT_PPZ:     "its autopilot is PPZ (9), and only copters of PX4 (12) and ArduCopter (3) are flown",
		common.MAV_AUTOPILOT_GENERIC: "its autopilot is GENERIC (0)", common.MAV_AUTOPILOT_PX4: "",
	} {
		b := newFixture(t)
		v := &simVehicle{fixture: b, number: 1, bootMS: 60_000, mode: ModeHold, landed: true}
		m := heartbeatMessage(ModeHold, false)
		m.Autopilot = autopilot
		v.transmit(m)
		v.sendState()
		v.sendState()
		err := v.Launch(ordered(1))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("launch: %v, want %q", err, want)
		}
		got := v.view()
		if ready := got.Ready(); want != "" && (ready == nil || !strings.Contains(ready.Error(), want)) {
			t.Errorf("ready: %v, want %q", ready, want)
		}
		if want == "" {
			continue
		}
		m.BaseMode = common.MAV_MODE_FLAG_SAFETY_ARMED
		v.transmit(m)
		v.transmit(&common.MessageExtendedSysState{LandedState: common.MAV_LANDED_STATE_IN_AIR})
		if err := v.Resume(resume(1, false)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("resume: %v, want %q", err, want)
		}
		a := v.Fleet.aircraft[0]
		a.startOrder(false) // of a ledger, say
		a.engage(b.nowS())
		if v.advance(3 * time.Second); len(movingMessages(v.sent.drain())) > 0 {
			t.Error("it is commanded")
		}
		v.transmit(heartbeatMessage(ModeHold, false)) // the first was another program's
		if got := v.view(); got.Foreign != "" || got.Armed {
			t.Errorf("PX4's HEARTBEAT does not count: %q", got.Foreign)
		}
	}
}

// PX4 flies other vehicles too, which do not hover where a setpoint holds them. A copter need
// not be told its type.
func TestOtherVehiclesOfPX4(t *testing.T) {
	for kind, want := range map[common.MAV_TYPE]string{
		common.MAV_TYPE_FIXED_WING: "PX4 (12) of a FIXED_WING", common.MAV_TYPE_VTOL_TILTROTOR: "PX4 (12) of a VTOL_TILTROTOR",
		common.MAV_TYPE_GROUND_ROVER: "PX4 (12) of a GROUND_ROVER", common.MAV_TYPE_HEXAROTOR: "", common.MAV_TYPE_GENERIC: "",
	} {
		v := &simVehicle{fixture: newFixture(t), number: 1, bootMS: 60_000, mode: ModeHold, landed: true}
		m := heartbeatMessage(ModeHold, false)
		m.Type = kind
		v.transmit(m)
		v.sendState()
		v.sendState()
		err := v.Launch(ordered(1))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", kind, err, want)
		}
	}
}

// A BATTERY_STATUS in which nothing is known is of no battery: it is not shown, keeps no
// aircraft on the ground, and hides no other battery.
func TestEmptyBatteries(t *testing.T) {
	empty := func(id uint8) *common.MessageBatteryStatus {
		m := &common.MessageBatteryStatus{Id: id, Temperature: math.MaxInt16, CurrentBattery: -1, CurrentConsumed: -1, EnergyConsumed: -1,
			BatteryRemaining: -1}
		for i := range m.Voltages {
			m.Voltages[i] = math.MaxUint16
		}
		return m
	}
	v := newSimVehicle(newFixture(t), 1, physics.Position{})
	// a power module that measures 0 V
	zeros := &common.MessageBatteryStatus{Id: 2, CurrentBattery: 0, EnergyConsumed: 0, BatteryRemaining: -1}
	for _, m := range []*common.MessageBatteryStatus{empty(1), zeros, empty(3)} {
		v.transmit(m)
	}
	if got := v.view().BatteryIDs; len(got) != 1 || got[0] != 0 {
		t.Errorf("batteries %v", got)
	}
	w := newSimVehicle(newFixture(t), 2, physics.Position{})
	w.simulate(6*time.Second, nil)
	for i := range 30 { // its own port is empty now, and a bridge's battery counts
		w.clock.Advance(250 * time.Millisecond)
		w.bootMS += 250
		w.transmit(w.positionMessage())
		w.transmit(empty(0))
		w.transmit(&common.MessageBatteryStatus{Id: uint8(px4Traits.relayedBatteryID), Voltages: [10]uint16{16000}, CurrentBattery: 2000,
			EnergyConsumed: -1, BatteryRemaining: 70})
		if got := w.BatteryReading(2); i == 29 && got.Charge != 0.7 {
			t.Errorf("the reading is %+v", got)
		}
	}
	w.transmit(&common.MessageSysStatus{VoltageBattery: math.MaxUint16, CurrentBattery: -1, BatteryRemaining: -1})
	if got := w.BatteryReading(2); math.IsNaN(got.VoltageV) {
		t.Error("a SYS_STATUS without a battery counts as a reading")
	}
}

// A battery that is not received any more was removed: it keeps no aircraft on the ground.
// One whose monitor sends every six seconds is still there.
func TestRemovedBattery(t *testing.T) {
	empty := &common.MessageBatteryStatus{Id: 1, CurrentBattery: -1, CurrentConsumed: -1, EnergyConsumed: -1, BatteryRemaining: -1}
	second := &common.MessageBatteryStatus{Id: 1, Voltages: [10]uint16{16000}, CurrentBattery: 100, EnergyConsumed: -1,
		BatteryRemaining: 80}
	v := newSimVehicle(newFixture(t), 1, physics.Position{EastM: 300, NorthM: 300})
	v.simulate(10*time.Second, nil)
	for range 3 {
		v.transmit(second)
		v.simulate(6*time.Second, nil)
		if got := v.view(); len(got.UnmeteredBatteries) != 1 {
			t.Fatalf("6 s after its last message: %v", got.BatteryIDs)
		}
	}
	v.transmit(empty) // what a port without a battery sends
	v.simulate(2*time.Second, nil)
	v.transmit(&common.MessageSysStatus{OnboardControlSensorsHealth: common.MAV_SYS_STATUS_PREARM_CHECK})
	if got := v.view(); len(got.UnmeteredBatteries) > 0 || len(got.BatteryIDs) != 1 || got.Ready() != nil {
		t.Errorf("removed: %v beside the one that is metered of %v, ready: %v", got.UnmeteredBatteries, got.BatteryIDs, got.Ready())
	}
}

// Packs in parallel that an autopilot meters as one, their sum beside the parts, keep no aircraft on the ground; any other battery
// beside the metered one does. Where there is one alone, it is the metered one whatever its id.
func TestSumOfPacks(t *testing.T) {
	type reading struct {
		id     uint8
		cA, mV int
	}
	for _, c := range []struct {
		name      string
		readings  []reading
		unmetered []uint8
		says      string
	}{
		{"a sum of two", []reading{{0, 100, 16000}, {1, 50, 16000}, {2, 50, 16000}}, nil, ""},
		{"a sum, to within a tenth", []reading{{0, 1000, 16000}, {1, 480, 16100}, {2, 460, 15900}}, nil, ""},
		{"three, each by itself", []reading{{0, 100, 16000}, {1, 100, 16000}, {2, 100, 16000}}, []uint8{1, 2}, "[1 2] are not metered"},
		{"two that share a load", []reading{{0, 100, 16000}, {1, 100, 16000}}, []uint8{1}, "ids [0 1], and of these [1] are not metered"},
		{"nothing flows", []reading{{0, 0, 16000}, {1, 0, 16000}, {2, 0, 16000}}, []uint8{1, 2}, "[1 2] are not metered"},
		{"parts of other voltages", []reading{{0, 100, 16000}, {1, 50, 12000}, {2, 50, 16000}}, []uint8{1, 2}, "[1 2] are not metered"},
		{"a sum, and one more", []reading{{0, 100, 16000}, {1, 50, 16000}, {2, 50, 16000}, {3, 100, 16000}}, []uint8{1, 2, 3}, "[1 2 3]"},
		{"two, none of them 0", []reading{{1, 50, 16000}, {2, 50, 16000}}, []uint8{1, 2}, "ids [1 2], and of these [1 2] are not"},
		{"one alone, not 0", []reading{{2, 150, 16000}}, nil, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := newSimVehicle(newFixture(t), 1, physics.Position{EastM: 300, NorthM: 300})
			for range 200 { // 20 s
				v.persist()
				v.tick()
				v.clock.Advance(100 * time.Millisecond)
				v.bootMS += 100
				v.sendHeartbeat()
				v.transmit(&common.MessageExtendedSysState{LandedState: common.MAV_LANDED_STATE_ON_GROUND})
				v.transmit(&common.MessageSysStatus{OnboardControlSensorsHealth: common.MAV_SYS_STATUS_PREARM_CHECK, CurrentBattery: -1,
					VoltageBattery: math.MaxUint16, BatteryRemaining: -1})
				v.transmit(v.positionMessage())
				for _, b := range c.readings {
					v.transmit(&common.MessageBatteryStatus{Id: b.id, Voltages: [10]uint16{uint16(b.mV)}, CurrentBattery: int16(b.cA),
						CurrentConsumed: -1, EnergyConsumed: -1, BatteryRemaining: 90})
				}
			}
			got := v.view()
			if err := got.Ready(); !slices.Equal(got.UnmeteredBatteries, c.unmetered) || (err == nil) != (c.says == "") ||
				err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v of %v are not metered; %v", got.UnmeteredBatteries, got.BatteryIDs, err)
			}
			metered := len(got.BatteryIDs) == 1 || got.BatteryIDs[0] == 0
			if wantA := float64(c.readings[0].cA) / 100; metered && v.BatteryReading(1).CurrentA != wantA {
				t.Errorf("metered %v A, want %v", v.BatteryReading(1).CurrentA, wantA)
			}
		})
	}
}

// A failsafe parameter that changes in flight is an alarm, in the log and in the status,
// until it is as it was.
func TestFailsafeThatChangesInFlight(t *testing.T) {
	for _, c := range []struct {
		name      string
		was, is   float32
		real      bool
		want, log string
	}{
		{"COM_OBL_RC_ACT", int32Bits(5), int32Bits(0), false, "COM_OBL_RC_ACT changed in flight to 0: COM_OBL_RC_ACT is 0, want 5 (Hold)",
			"COM_OBL_RC_ACT is 0"},
		{"COM_OF_LOSS_T", 1, 60, true, "COM_OF_LOSS_T changed in flight to 60: COM_OF_LOSS_T is 60 s", "COM_OF_LOSS_T is 60"},
		{"COM_OF_LOSS_T", 1, 5, true, "COM_OF_LOSS_T changed in flight to 5", "COM_OF_LOSS_T changed"},
		{"NAV_DLL_ACT", int32Bits(0), int32Bits(3), false, "NAV_DLL_ACT changed in flight to 3", "NAV_DLL_ACT changed"},
		{"COM_LOW_BAT_ACT", int32Bits(3), int32Bits(0), false, "COM_LOW_BAT_ACT changed in flight to 0: COM_LOW_BAT_ACT is 0, want",
			"COM_LOW_BAT_ACT is 0"},
	} {
		v := flying(t)
		var text *strings.Builder
		text, v.Log = captureLog()
		set := func(x float32) {
			kind := common.MAV_PARAM_TYPE_INT32
			if c.real {
				kind = common.MAV_PARAM_TYPE_REAL32
			}
			v.transmit(&common.MessageParamValue{ParamId: c.name, ParamType: kind, ParamValue: x})
		}
		if set(c.was); v.view().Reason != "" || text.Len() > 0 {
			t.Errorf("%s: read again as it was: %q, %s", c.name, v.view().Reason, text)
		}
		set(c.is)
		if got := v.view(); !strings.HasPrefix(got.Reason, c.want) || !got.Flying || !strings.Contains(text.String(), "level=ERROR") ||
			!strings.Contains(text.String(), c.log) {
			t.Errorf("%s: reason %q, log %s", c.name, got.Reason, text)
		}
		if set(c.was); v.view().Reason != "" {
			t.Errorf("%s: set back: %q", c.name, v.view().Reason)
		}
	}
	v := newSimVehicle(newFixture(t), 1, physics.Position{}) // on the ground the checks tell it
	v.transmit(&common.MessageParamValue{ParamId: "COM_OBL_RC_ACT", ParamType: common.MAV_PARAM_TYPE_INT32, ParamValue: int32Bits(0)})
	if got := v.view(); got.Reason != "" {
		t.Errorf("on the ground: %q", got.Reason)
	}
}

// Whatever makes an autopilot's failsafe unsafe in flight is an alarm, ArduPilot's too, and
// whether or not it is one of those that are compared with the launch.
func TestAnyParameterThatMakesAFailsafeUnsafe(t *testing.T) {
	for _, c := range []struct {
		reach   func(t *testing.T) *simVehicle
		name    string
		was, is float32
		want    string
	}{
		{copterFlying, "FS_GCS_ENABLE", 1, 0, "FS_GCS_ENABLE changed in flight to 0: FS_GCS_ENABLE is 0"},
		{copterFlying, "SYSID_MYGCS", 250, 255, "SYSID_MYGCS changed in flight to 255: MAV_GCS_SYSID"},
		{copterFlying, "FS_GCS_TIMEOUT", 5, 60, "FS_GCS_TIMEOUT changed in flight to 60: FS_GCS_TIMEOUT is 60 s"},
		{copterFlying, "MAV_GCS_SYSID_HI", 0, 255, "MAV_GCS_SYSID_HI changed in flight to 255: MAV_GCS_SYSID_HI is 255"},
		{copterFlying, "BATT_LOW_VOLT", 14, 0, "BATT_LOW_VOLT changed in flight to 0: no battery failsafe"},
		{flyingVehicle, "MPC_XY_VEL_MAX", 12, 0, "MPC_XY_VEL_MAX changed in flight to 0: MPC_XY_VEL_MAX is 0"},
	} {
		v := c.reach(t)
		set := func(x float32) string {
			v.transmit(&common.MessageParamValue{ParamId: c.name, ParamType: common.MAV_PARAM_TYPE_REAL32, ParamValue: x})
			return v.view().Reason
		}
		if got := set(c.was); got != "" {
			t.Errorf("%s: read again as it was: %q", c.name, got)
		}
		if got := set(c.is); !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: reason %q, want %q", c.name, got, c.want)
		}
		if got := set(c.was); got != "" {
			t.Errorf("%s: set back: %q", c.name, got)
		}
	}
}

// After a restart in flight what is read first is what a change is compared with.
func TestFailsafeThatChangesAfterARestart(t *testing.T) {
	v := flying(t)
	v.restart(true)
	v.sendParameters()
	set := func(x float32) string {
		v.transmit(&common.MessageParamValue{ParamId: "COM_OF_LOSS_T", ParamType: common.MAV_PARAM_TYPE_REAL32, ParamValue: x})
		return v.view().Reason
	}
	if got := v.view(); !got.Flying || got.Reason != "" || !got.Params.Complete() {
		t.Fatalf("%s, %q", got.Phase, got.Reason)
	}
	if got := set(5); !strings.HasPrefix(got, "COM_OF_LOSS_T changed in flight to 5") {
		t.Errorf("changed: %q", got)
	}
	if got := set(1); got != "" {
		t.Errorf("set back: %q", got)
	}
}

// Two autopilots with one system id are told apart by their clocks, or by their places, be it on one table: neither takes off. What
// comes late over a second way, copies or others of its positions, is of one.
func TestTwoAutopilotsOfOneSystemID(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 0))
	for name, x := range map[string]struct {
		other func(v *simVehicle, m *common.MessageGlobalPositionInt)
		twin  bool
	}{
		"of another place":         {func(_ *simVehicle, m *common.MessageGlobalPositionInt) { m.Lat += 1800 }, true},
		"switched on a minute ago": {func(_ *simVehicle, m *common.MessageGlobalPositionInt) { m.TimeBootMs += 60_000 }, true},
		"switched on with it":      {func(_ *simVehicle, m *common.MessageGlobalPositionInt) { m.TimeBootMs -= 300; m.Lat += 180 }, true},
		"on one switch with it":    {func(_ *simVehicle, m *common.MessageGlobalPositionInt) { m.TimeBootMs += 30; m.Alt += 1500 }, true},
		"copies, 2 s late":         {func(_ *simVehicle, m *common.MessageGlobalPositionInt) { m.TimeBootMs -= 2000 }, false},
		"a receiver that errs": {func(_ *simVehicle, m *common.MessageGlobalPositionInt) {
			m.Lat, m.Lon = m.Lat+int32(150*random.NormFloat64()), m.Lon+int32(150*random.NormFloat64()) // by 1.7 m
		}, false},
		"its own second stream": {func(_ *simVehicle, m *common.MessageGlobalPositionInt) { m.TimeBootMs -= 270; m.Lat += 9 }, false},
	} {
		t.Run(name, func(t *testing.T) {
			v := newSimVehicle(newFixture(t), 1, physics.Position{EastM: 300, NorthM: 300})
			v.simulate(6*time.Second, nil)
			if v.view().Twin {
				t.Fatal("one autopilot is taken for two")
			}
			for range 80 {
				v.simulate(100*time.Millisecond, nil)
				m := v.positionMessage()
				x.other(v, m)
				v.transmit(m)
			}
			view := v.view()
			if err := view.Ready(); view.Twin != x.twin || x.twin != strings.Contains(fmt.Sprint(err), "two autopilots send as system 1") {
				t.Errorf("%v, want twin %v: %v", view.Twin, x.twin, err)
			}
			v.simulate(6*time.Second, nil)
			if v.view().Twin {
				t.Error("it is still taken for two once the other is off")
			}
		})
	}
}

// A leader that stood still receives late what waited, of which the last part was lost: the battery's reading is as old as the
// position before it, and SYS_STATUS takes no place of a BATTERY_STATUS that waits behind it.
func TestBatteryAfterAStall(t *testing.T) {
	const everyMS, stallS, kept, powerW = 4500, 9, 46, 170.0
	v := flying(t)
	drawnJ := 0.0
	battery := func() {
		v.transmit(&common.MessageBatteryStatus{Voltages: [10]uint16{16000}, CurrentBattery: int16(math.Round(100 * powerW / 16)),
			EnergyConsumed: int32(drawnJ / 100), BatteryRemaining: -1})
	}
	next := v.bootMS
	step := func(stalled bool) {
		drawnJ += powerW / 10
		if stalled {
			v.bootMS += 100
			v.position = v.position.Add(v.velocity.Scale(0.1))
			v.transmit(v.positionMessage())
		} else {
			v.cruise(100*time.Millisecond, nil)
		}
		if v.bootMS >= next {
			battery()
			next += everyMS
		}
	}
	for range 300 {
		step(false)
	}
	for stalls := next + 500; v.bootMS < stalls; { // half a second after a reading
		step(false)
	}
	drawn := func() float64 {
		got := 0.0
		v.withAircraft(v.number, func(a *aircraft, now float64) { got = a.meter.DrawnJ(now) })
		return got
	}
	offJ := drawn() - drawnJ
	v.clock.Advance(stallS * time.Second)
	for i := range 10 * stallS {
		if i == kept-10 {
			v.transmit(&common.MessageSysStatus{VoltageBattery: 16000, CurrentBattery: 4000, BatteryRemaining: -1})
		}
		if i < kept {
			step(true)
			continue
		}
		v.bootMS += 100 // lost
		drawnJ += powerW / 10
		v.position = v.position.Add(v.velocity.Scale(0.1))
		if v.bootMS >= next {
			next += everyMS
		}
	}
	for i := range 100 {
		step(false)
		if off, from := drawn()-drawnJ-offJ, v.view().Source; math.Abs(off) > 150 || from != energy.Consumed {
			t.Fatalf("%.1f s after the stall %.0f J off, from %s", float64(i)/10, off, from)
		}
	}
}
