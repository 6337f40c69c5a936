package sitl

import (
	"math"
	"testing"
	"time"

	"github.com/bluenviron/gomavlib/v3/pkg/dialects/common"

	"prefdt/simbridge/autopilot"
	"prefdt/simbridge/battery"
	"prefdt/simbridge/geo"
)

// flyingVehicle is an instance in flight, with messages received at a moment; powerW is
// drawn at any speed.
func flyingVehicle(at time.Time, powerW float64) *Vehicle {
	v := &Vehicle{
		Config:  autopilot.Config{Speed: 1, PowerW: func(int, geo.Local) float64 { return powerW }},
		battery: battery.New(150e3, battery.Fields{Current: true}), nextSendUS: math.MaxInt64, receivedAt: map[uint32]time.Time{},
	}
	v.handleMessage(nil, &common.MessageHeartbeat{Autopilot: common.MAV_AUTOPILOT_PX4, BaseMode: common.MAV_MODE_FLAG_SAFETY_ARMED}, at)
	v.handleMessage(nil, &common.MessageExtendedSysState{LandedState: common.MAV_LANDED_STATE_IN_AIR}, at)
	v.receivePosition(10_000, at)
	return v
}

// receivePosition is a position at a time since boot, received at a moment.
func (v *Vehicle) receivePosition(bootMS uint32, at time.Time) {
	v.handleMessage(nil, &common.MessageGlobalPositionInt{TimeBootMs: bootMS, Lat: 1, Lon: 1}, at)
}

var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

func checkNear(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-6*max(want, 1) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// The energy that an instance draws: none on the ground, disarmed, or out of contact for long.
func TestEnergyDrawn(t *testing.T) {
	for name, c := range map[string]struct {
		armed  common.MAV_MODE_FLAG
		landed common.MAV_LANDED_STATE
		gapS   float64
		wantS  float64
	}{
		"flies":            {common.MAV_MODE_FLAG_SAFETY_ARMED, common.MAV_LANDED_STATE_IN_AIR, 0.02, 0.02},
		"comes down":       {common.MAV_MODE_FLAG_SAFETY_ARMED, common.MAV_LANDED_STATE_LANDING, 0.02, 0.02},
		"on the ground":    {common.MAV_MODE_FLAG_SAFETY_ARMED, common.MAV_LANDED_STATE_ON_GROUND, 0.02, 0},
		"disarmed":         {0, common.MAV_LANDED_STATE_IN_AIR, 0.02, 0},
		"unheard for 9 s":  {common.MAV_MODE_FLAG_SAFETY_ARMED, common.MAV_LANDED_STATE_IN_AIR, 9, 9},
		"unheard for 60 s": {common.MAV_MODE_FLAG_SAFETY_ARMED, common.MAV_LANDED_STATE_IN_AIR, 60, 10},
	} {
		v := flyingVehicle(noon, 100)
		v.handleMessage(nil, &common.MessageHeartbeat{BaseMode: c.armed}, noon)
		v.handleMessage(nil, &common.MessageExtendedSysState{LandedState: c.landed}, noon)
		for s := 0.1; s < c.gapS; s += 0.1 {
			v.checkTimeout(noon.Add(time.Duration(s * float64(time.Second))))
		}
		v.receivePosition(10_000+uint32(1000*c.gapS), noon.Add(time.Duration(c.gapS*float64(time.Second))))
		checkNear(t, name, v.State().Spent.J(), 100*c.wantS)
	}
}

// A simulation that runs at 0.985 of wall time draws by its own time, and its battery
// messages sum up to that.
func TestEnergyByTheAutopilotsClock(t *testing.T) {
	const rate, powerW, seconds = 0.985, 200.0, 100
	v := flyingVehicle(noon, powerW)
	for i := 1; i <= 50*seconds; i++ {
		at := noon.Add(time.Duration(i) * 20 * time.Millisecond)
		if i%50 == 1 && i/50 < 10 {
			v.SetSlot(i/50, at)
		}
		v.receivePosition(10_000+uint32(math.Round(rate*20*float64(i))), at)
	}
	checkNear(t, "joules", v.State().Spent.J(), powerW*rate*seconds)
	checkNear(t, "clock", math.Round(1e4*v.ClockRate())/1e4, rate)
	if got := v.BySlot()[5].J(); math.Abs(got-powerW*rate) > 2 {
		t.Errorf("slot 5 took %v J, want %v", got, powerW*rate)
	}
}

// A slot begins between two positions at its moment of wall time.
func TestSlotsBeginBetweenPositions(t *testing.T) {
	v := flyingVehicle(noon, 100)
	v.SetSlot(0, noon.Add(250*time.Millisecond))
	v.SetSlot(1, noon.Add(1250*time.Millisecond)) // in advance
	v.receivePosition(11_000, noon.Add(time.Second))
	v.receivePosition(12_000, noon.Add(2*time.Second))
	v.SetSlot(2, noon.Add(1900*time.Millisecond)) // late: the beacon took longer than the position
	v.receivePosition(13_000, noon.Add(3*time.Second))
	by := v.BySlot()
	for slot, want := range map[int]float64{-1: 25, 0: 100, 1: 75, 2: 100} {
		checkNear(t, "slot", by[slot].J(), want)
	}
}

// Computing is drawn over half a slot, and counted in its slot.
func TestComputingIsDrawnOverHalfASlot(t *testing.T) {
	v := flyingVehicle(noon, 0)
	v.AddEdgeJ(3, 90)
	v.AddEdgeJ(3, 10)
	for i := 1; i <= 75; i++ {
		v.receivePosition(10_000+uint32(20*i), noon.Add(time.Duration(i)*20*time.Millisecond))
		if i == 12 { // 0.24 s
			checkNear(t, "after a quarter of a second", v.State().Spent.EdgeJ, 48)
		}
	}
	checkNear(t, "after it", v.BySlot()[3].EdgeJ, 100)
	if len(v.edgeLoads) > 0 {
		t.Errorf("%+v left", v.edgeLoads)
	}
}

// An instance is lost after 10 s without a HEARTBEAT, whatever else it sends.
func TestLostAfterTenSecondsWithoutHeartbeat(t *testing.T) {
	v := flyingVehicle(noon, 100)
	for s := 1; s <= 30; s++ {
		at := noon.Add(time.Duration(s) * time.Second)
		v.receivePosition(uint32(10_000+1000*s), at)
		if got := v.Lost(at); got != (s > 10) {
			t.Errorf("after %d s: lost %v", s, got)
		}
	}
	if (&Vehicle{}).Lost(noon) {
		t.Error("one that never sent a HEARTBEAT is lost")
	}
}

// PX4 with a battery simulation of its own is detected on the ground.
func TestOwnBatterySimulation(t *testing.T) {
	const own, relayed = 0, 255 // battery ids
	for name, c := range map[string]struct {
		ids  []uint8 // reported each second since the first battery message
		want string
	}{
		"relayed":           {[]uint8{own, own, relayed, relayed, relayed, relayed}, "ready"},
		"too early to know": {[]uint8{own, own, relayed, relayed}, "missing"},
		"nothing":           {nil, "missing"},
		"its own only":      {[]uint8{own, own, own, own, own, own}, "error"},
		"both in turn":      {[]uint8{own, relayed, own, relayed, own, relayed}, "error"},
	} {
		v := flyingVehicle(noon, 0)
		v.batterySentAt = noon
		now := noon.Add(20 * time.Second)
		for i, id := range c.ids {
			now = noon.Add(time.Duration(i) * time.Second)
			v.handleMessage(nil, &common.MessageBatteryStatus{Id: id}, now)
		}
		got := "ready"
		if missing, err := v.Ready(now); err != nil {
			got = "error"
		} else if missing != nil {
			got = "missing"
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// An ArduCopter's joules are its own battery's: by power between two steps of its counter, which
// goes on over a reboot. No battery is injected, and computing is not drawn from it.
func TestOwnBatteryOfArduCopter(t *testing.T) {
	const powerW, seconds = 168.0, 300
	v := flyingVehicle(noon, 1e6) // the model's power counts for nothing
	v.nextSendUS = 0
	for _, s := range streams { // so that none is asked for
		v.receivedAt[s.message.GetID()] = noon
	}
	v.handleMessage(nil, &common.MessageHeartbeat{
		Autopilot: common.MAV_AUTOPILOT_ARDUPILOTMEGA, BaseMode: common.MAV_MODE_FLAG_SAFETY_ARMED,
	}, noon)
	if missing, err := v.Ready(noon); missing == nil || err != nil {
		t.Errorf("without a battery it is ready: %v, %v", missing, err)
	}
	v.AddEdgeJ(3, 50)
	const bootedWith = 4210 // hJ
	receive := func(i int, measuredW, countedJ float64) {
		at := noon.Add(time.Duration(i) * 100 * time.Millisecond)
		v.receivePosition(10_000+uint32(100*i), at)
		b := &common.MessageBatteryStatus{
			EnergyConsumed: bootedWith + int32(countedJ/100), CurrentBattery: int16(math.Round(100 * measuredW / 12.5)),
		}
		for k := range b.Voltages {
			b.Voltages[k] = math.MaxUint16
		}
		b.Voltages[0], b.Voltages[1] = 8500, 4000 // two of its cells in one value
		v.handleMessage(nil, b, at)
		v.handleMessage(nil, &common.MessageBatteryStatus{Id: 1, EnergyConsumed: 9}, at) // another pack
	}
	receive(0, powerW, 0)
	if missing, err := v.Ready(noon); missing != nil || err != nil {
		t.Errorf("with one it is not: %v, %v", missing, err)
	}
	for i := 1; i <= 10*seconds; i++ {
		if receive(i, powerW, powerW*float64(i)/10); math.Abs(v.State().Spent.J()-powerW*float64(i)/10) > 2 {
			t.Fatalf("after %v s %v J, want %v", float64(i)/10, v.State().Spent.J(), powerW*float64(i)/10)
		}
	}
	// Its sensor of current reads too little: the counter holds.
	for i := 10*seconds + 1; i <= 20*seconds; i++ {
		receive(i, powerW/2, powerW*float64(i)/10)
	}
	if got := v.State().Spent.J(); math.Abs(got-2*powerW*seconds) > counterStepJ {
		t.Errorf("%v J by its counter, want %v", got, 2*powerW*seconds)
	}
	before := v.State().Spent.J()
	receive(20*seconds+1, powerW, -100*bootedWith) // it booted: the counter is 0
	receive(20*seconds+2, powerW, -100*bootedWith+powerW)
	if got := v.State().Spent.J() - before; got < 0 || got > powerW+counterStepJ {
		t.Errorf("a reboot costs %v J", got)
	}
	if own, undrawnJ := v.OwnBattery(); !own || undrawnJ != 50 || v.State().Spent.EdgeJ != 0 || !v.batterySentAt.IsZero() {
		t.Errorf("own battery %v, %v J of computing apart and %v in it, a battery injected at %v",
			own, undrawnJ, v.State().Spent.EdgeJ, v.batterySentAt)
	}
	v.handleMessage(nil, &common.MessageBatteryStatus{EnergyConsumed: -1}, noon)
	if _, err := v.Ready(noon); err == nil {
		t.Error("one that does not count its joules is ready")
	}
	v.handleMessage(nil, &common.MessageHeartbeat{Autopilot: common.MAV_AUTOPILOT_GENERIC}, noon)
	if _, err := v.Ready(noon); err == nil {
		t.Error("an autopilot that is neither is ready")
	}
}

// An ArduCopter sends HEARTBEAT alone: what is missing is asked for, also when it stops.
func TestMissingMessagesAreAskedFor(t *testing.T) {
	v := &Vehicle{Config: autopilot.Config{Speed: 1}, receivedAt: map[uint32]time.Time{}}
	asked := func(at time.Time) (ids []float32) {
		for _, m := range v.missingStreams(at) {
			ids = append(ids, m.(*common.MessageCommandLong).Param1)
		}
		return ids
	}
	position := float32((&common.MessageGlobalPositionInt{}).GetID())
	if got := asked(noon); len(got) != len(streams) {
		t.Errorf("at first %v are asked for", got)
	}
	for _, s := range streams {
		v.receivedAt[s.message.GetID()] = noon
	}
	v.receivedAt[uint32(position)] = noon.Add(-4 * time.Second)
	if got := asked(noon); len(got) != 1 || got[0] != position {
		t.Errorf("%v are asked for, want %v alone", got, position)
	}
}
