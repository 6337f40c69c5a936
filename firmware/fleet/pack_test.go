package fleet

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/bluenviron/gomavlib/v3/pkg/dialects/common"

	"prefdt/firmware/energy"
	"prefdt/inference/physics"
)

// A pack holds what is configured for its aircraft, or what its autopilot's parameters
// say; the airframe's joules count only where neither is known.
func TestPackCapacity(t *testing.T) {
	nan := math.NaN()
	for _, c := range []struct {
		name           string
		configuredJ    float64
		mAh, cells     float64 // NaN: not received
		voltageV       float64
		fullV, emptyV  float64
		wantJ          float64
		wantAssumption bool
	}{
		{"nothing is known", 0, nan, nan, 16, nan, nan, 150e3, true},
		{"PX4's default", 0, -1, 0, 16, nan, nan, 150e3, true},
		{"99 kJ by its autopilot", 0, 99e3 / 3.6 / 15.3, 4, 16, nan, nan, 99e3, false},
		{"its cells are not configured", 0, 99e3 / 3.6 / 15.3, 0, 16.2, nan, nan, 99e3, false},
		{"nearly empty, likewise", 0, 99e3 / 3.6 / 15.3, nan, 14.4, nan, nan, 99e3, false},
		{"other cells", 0, 5000, 6, 16, 4.2, 3.4, 5000 * 3.6 * 6 * 3.8, false},
		{"configured", 60e3, 99e3 / 3.6 / 15.3, 4, 16, nan, nan, 60e3, false},
		{"impossible", 0, 1e9, 4, 16, nan, nan, 150e3, true},
		{"impossible cells", 0, 1800, 400, 16, nan, nan, 1800 * 3.6 * 4 * 3.825, false},
	} {
		b := newFixture(t)
		b.aircraft[0].conf.PackJ = c.configuredJ
		v := newSimVehicle(b, 1, physics.Position{})
		for name, x := range map[string]float64{"BAT1_CAPACITY": c.mAh, "BAT1_V_CHARGED": c.fullV, "BAT1_V_EMPTY": c.emptyV} {
			if !math.IsNaN(x) {
				v.transmit(&common.MessageParamValue{ParamId: name, ParamType: common.MAV_PARAM_TYPE_REAL32, ParamValue: float32(x)})
			}
		}
		if !math.IsNaN(c.cells) {
			v.transmit(&common.MessageParamValue{ParamId: "BAT1_N_CELLS", ParamType: common.MAV_PARAM_TYPE_INT32,
				ParamValue: int32Bits(int32(c.cells))})
		}
		status := &common.MessageBatteryStatus{Voltages: [10]uint16{uint16(1000 * c.voltageV)}, CurrentBattery: -100, EnergyConsumed: -1,
			BatteryRemaining: 50}
		v.transmit(status)
		if got := v.view(); got.CapacityJ != math.Round(c.wantJ) || got.CapacityKnown == c.wantAssumption ||
			b.aircraft[0].meter.CapacityJ != got.CapacityJ {
			t.Errorf("%s: %v J, known %v; its meter has %v J", c.name, got.CapacityJ, got.CapacityKnown, b.aircraft[0].meter.CapacityJ)
		}
		// In flight a voltage falls, and no parameter is taken for another pack's.
		v.armed, v.landed, v.mode = true, false, ModeHold
		v.sendHeartbeat()
		before := v.view().CapacityJ
		v.transmit(&common.MessageParamValue{ParamId: "BAT1_CAPACITY", ParamType: common.MAV_PARAM_TYPE_REAL32, ParamValue: 20000})
		status.Voltages[0] = 12000
		v.transmit(status)
		if got := v.view().CapacityJ; got != before && !c.wantAssumption {
			t.Errorf("%s: in flight %v J become %v", c.name, before, got)
		}
	}
}

// Without cells or a voltage, charge alone says nothing of joules.
func TestPackOfUnknownVoltage(t *testing.T) {
	if p := (Parameters{CapacityMAh: 1800}); p.packJ(math.NaN()) != 0 || p.packJ(16) == 0 || p.packJ(1e9) != 0 {
		t.Errorf("%v J, %v at 16 V", p.packJ(math.NaN()), p.packJ(16))
	}
}

// What a pack holds and what was drawn from it are kept over a restart, whether the saved
// mission goes on or another begins, with a meter at 0.
func TestPackIsKeptOverRestarts(t *testing.T) {
	b := newFixture(t)
	p := &b.aircraft[1].pack
	*p = Pack{CapacityJ: 99e3, FittedJ: 20e3, Charge: new(0.4), VoltageV: 15, ConsumedHJ: 700, BootS: 800}
	b.aircraft[1].meter.Restore(1, energy.State{SpentJ: 90e3, LowJ: 90e3, HighJ: 90e3}, 0) // 70 kJ drawn
	raw, err := json.Marshal(b.SavedState())
	if err != nil {
		t.Fatal(err)
	}
	var saved []SavedAircraft
	if err := json.Unmarshal(raw, &saved); err != nil {
		t.Fatal(err)
	}
	for name, restore := range map[string]func(*Fleet){"the same mission": func(f *Fleet) { f.Restore(saved) },
		"another": func(f *Fleet) { f.RestorePacks(saved) }} {
		next := newFixture(t)
		restore(next.Fleet)
		v := next.Views()[1]
		if got := v.TotalJ - v.FittedJ; math.Abs(got-70e3) > 1e-6 || v.CapacityJ != 99e3 || next.aircraft[1].meter.CapacityJ != 99e3 {
			t.Errorf("%s: %v J drawn of %v", name, got, v.CapacityJ)
		}
		if q := next.aircraft[1].pack; *q.Charge != 0.4 || q.VoltageV != 15 || q.ConsumedHJ != 700 || q.BootS != 800 {
			t.Errorf("%s: %+v", name, q)
		}
	}
	saved[1].SystemID = 77
	next := newFixture(t)
	next.RestorePacks(saved[1:])
	if v := next.Views()[1]; v.FittedJ != 0 || v.CapacityJ != 150e3 {
		t.Errorf("of another aircraft: %v J of %v", v.FittedJ, v.CapacityJ)
	}
}

// What was drawn since the charge fell is without what was drawn while the leader was down, which the
// restored meter adds to its total afterwards.
func TestChargeFellBeforeTheMeterWasRestored(t *testing.T) {
	v := newSimVehicle(newFixture(t), 1, physics.Position{})
	status := &common.MessageBatteryStatus{Voltages: [10]uint16{16000}, CurrentBattery: 1000, EnergyConsumed: -1}
	for _, status.BatteryRemaining = range []int8{50, 50, 49, 49} {
		v.simulate(500*time.Millisecond, nil)
		v.transmit(status)
	}
	before := v.view()
	v.Fleet.RestoreMeter(1, energy.State{SpentJ: 5e3, LowJ: 5e3, HighJ: 5e3, PowerW: 160, Factor: 1}, 100)
	after := v.view()
	if !(after.TotalJ-before.TotalJ > 15e3) || math.Abs(after.ChargeDrawnJ-before.ChargeDrawnJ) > 1 || before.ChargeDrawnJ > 500 {
		t.Errorf("of %v J, then %v, since the charge fell: %v J, then %v", before.TotalJ, after.TotalJ, before.ChargeDrawnJ,
			after.ChargeDrawnJ)
	}
}

// Another pack is seen by a charge that is higher, of an aircraft at rest whose counter or
// time began again, three times; a charge that jumps at disarming, or a reboot, is none.
func TestSwappedPackIsAnEvent(t *testing.T) {
	nan := math.NaN()
	for _, c := range []struct {
		name             string
		charge, counter  float64
		bootS            float64
		voltageV, restV  float64
		atRest           bool
		leastRestCharge  float64
		readings         int
		swappedByReading int // 0: never
	}{
		{"swapped, the autopilot stays on", 1, 0, 900, 16.2, 0, true, 0.4, 4, 3},
		{"swapped, with a reboot, without a counter", 1, nan, 20, 16.2, 0, true, 0.4, 4, 3},
		{"seen twice", 1, 0, 20, 16.2, 0, true, 0.4, 2, 0},
		{"in flight", 1, 0, 20, 16.2, 0, false, 0.4, 5, 0},
		{"the charge jumps at disarming", 1, 800, 900, 16.2, 0, true, 0.4, 5, 0},
		{"a reboot of the same pack", 0.42, 0, 20, 15.2, 0, true, 0.4, 5, 0},
		{"no fuller than it could recover", 0.49, 0, 20, 15.4, 0, true, 0.4, 5, 0},
		{"no charge, a higher voltage", nan, 0, 20, 16.2, 15.1, true, nan, 4, 3},
		{"no charge, the same voltage after a reboot", nan, 0, 20, 15.3, 15.1, true, nan, 5, 0},
		{"no charge, in whose flight the voltage sagged", nan, 0, 20, 15.3, 0, true, nan, 5, 0},
		{"nothing is measured, a reboot", nan, nan, 20, nan, 0, true, nan, 4, 3},
		{"nothing is known of the one before", 1, 0, 20, 16.2, 0, true, nan, 5, 0},
	} {
		p := Pack{CapacityJ: 99e3, VoltageV: c.restV, ConsumedHJ: 700, BootS: 800}
		if !math.IsNaN(c.leastRestCharge) {
			p.Charge = new(c.leastRestCharge)
		}
		got := 0
		for i := range c.readings {
			r := energy.Reading{ConsumedHJ: c.counter, CurrentA: 0.3, VoltageV: c.voltageV, Charge: c.charge, BootS: c.bootS + float64(i)}
			if p.show(r, c.charge, nan, 0, c.atRest) && got == 0 {
				got = i + 1
			}
		}
		if got != c.swappedByReading || p.CapacityJ != 99e3 {
			t.Errorf("%s: swapped by reading %d, want %d; %+v", c.name, got, c.swappedByReading, p)
		}
	}
}

// An ArduCopter takes any pack for full once it has booted. Its voltage at rest says more: one at 34 % is not another one, and of
// one that was never seen before a part is missing.
func TestFullAtBoot(t *testing.T) {
	const usedV, fullV = 14.9, 16.2
	most := func(voltageV float64) float64 { return mostCharge(voltageV, ardupilot{}.traits().restCellV) }
	if got := most(usedV); math.Abs(got-(0.125/0.45+restChargeError)) > 1e-9 || !(most(fullV) >= 1) || !math.IsNaN(most(0)) {
		t.Errorf("%v V leave a charge of %v possible, %v V %v", usedV, got, fullV, most(fullV))
	}
	reading := func(voltageV, bootS float64) energy.Reading {
		return energy.Reading{CurrentA: 0.3, VoltageV: voltageV, Charge: 1, BootS: bootS}
	}
	for voltageV, swapped := range map[float64]bool{usedV: false, fullV: true} {
		p := Pack{CapacityJ: 99e3, FittedJ: 1e3, Charge: new(0.34), VoltageV: usedV, ConsumedHJ: 700, BootS: 800}
		got := false
		for i := range 5 {
			got = p.show(reading(voltageV, 20+float64(i)), 1, most(voltageV), 0.6, true) || got
		}
		if got != swapped || !swapped && p.FittedJ != 1e3 {
			t.Errorf("a full charge at %v V after a boot is another pack: %v, want %v; %+v", voltageV, got, swapped, p)
		}
	}
	var p Pack
	p.show(reading(0, 20), math.NaN(), math.NaN(), 0, true) // no voltage and no charge yet
	p.show(reading(usedV, 20), 1, most(usedV), 0, true)
	if lacks := 1 - most(usedV); math.Abs(p.Missing-lacks) > 1e-9 || math.Abs(p.fittedJ(100e3)+lacks*100e3) > 1e-3 {
		t.Errorf("of a pack at %v V, first seen at a charge of 1, %v is missing, want %v", usedV, p.Missing, lacks)
	}
	if p.show(reading(fullV, 21), 1, most(fullV), 0, true); p.Missing > 0 {
		t.Errorf("one wrong voltage, and %v stays missing", p.Missing)
	}
	for _, charge := range []float64{0.87, math.NaN()} { // it has counted some since it booted, or counts none
		var p Pack
		p.show(reading(usedV, 20), charge, most(usedV), 0, true)
		if lacks := 1 - most(usedV); math.Abs(p.Missing-lacks) > 1e-9 {
			t.Errorf("at a charge of %v, %v is missing, want %v", charge, p.Missing, lacks)
		}
		p.show(reading(usedV, 20), charge, most(usedV), 0.6, true)
		p.show(reading(usedV, 3), charge, most(usedV)-0.2, 0.6, true) // another one that holds less, fitted with a boot
		if lacks := 1 - 0.6 - (most(usedV) - 0.2); math.Abs(p.Missing-lacks) > 1e-9 {
			t.Errorf("at a charge of %v, %v is missing of one that holds less, want %v", charge, p.Missing, lacks)
		}
	}
}

// A swap on the ground, by the autopilot's messages: what was drawn counts from then on,
// the log says so, and a charge that rises before the reboot does not hide it.
func TestSwapByMessages(t *testing.T) {
	b := newFixture(t)
	var log bytes.Buffer
	b.Log = slog.New(slog.NewTextHandler(&log, nil))
	v := newSimVehicle(b, 1, physics.Position{})
	send := func(percent int8, counterHJ int32, n int) {
		for range n {
			centiA := int16(0)
			if v.armed {
				centiA = 10000 // 1500 W, that 45 kJ take half a minute
			}
			v.simulateWithout(&common.MessageBatteryStatus{Voltages: [10]uint16{15000}, CurrentBattery: centiA, EnergyConsumed: counterHJ,
				BatteryRemaining: percent})
		}
	}
	send(90, 3, 5)
	v.armed, v.landed = true, false
	for i := range 30 {
		send(int8(89-i), int32(3+15*i), 10)
	}
	drawn := func() float64 { x := v.view(); return x.TotalJ - x.FittedJ }
	if got := drawn(); got < 40e3 || got > 50e3 {
		t.Fatalf("%v J drawn in flight", got)
	}
	v.armed, v.landed = false, true
	send(60, 440, 30)
	send(100, 440, 30) // PX4's simulator says so at disarming
	if got := drawn(); got < 40e3 || strings.Contains(log.String(), "another battery") {
		t.Errorf("a charge that jumped at disarming made it full: %v J drawn\n%s", got, &log)
	}
	v.bootMS = 1000 // and now the pack is changed
	send(100, 0, 30)
	if got := drawn(); got > 500 || strings.Count(log.String(), "another battery is fitted") != 1 {
		t.Errorf("after a swap %v J are drawn\n%s", got, &log)
	}
	if s := b.SavedState()[0]; math.Abs(s.Pack.FittedJ+drawn()-s.Meter.SpentJ) > 1 {
		t.Errorf("saved: %+v, the meter at %v", s.Pack, s.Meter.SpentJ)
	}
	counted := drawn()
	for _, percent := range []int8{50, 20, 10, 100} { // misread for a while, on the ground
		send(percent, 0, 30)
	}
	if got := drawn(); math.Abs(got-counted) > 1 {
		t.Errorf("a charge that was low on the ground alone changed %v J drawn into %v", counted, got)
	}
	v.armed, v.landed = true, false
	for percent := int8(99); percent >= 10; percent-- { // it lost most of its charge, which its counter does not show
		send(percent, 0, 3)
	}
	v.armed, v.landed = false, true
	send(100, 0, 30)
	if got := drawn(); got < 0.85*v.view().CapacityJ {
		t.Errorf("a charge of a tenth in flight jumped at disarming: %v J drawn of %v", got, v.view().CapacityJ)
	}
	v.bootMS = 1000
	send(100, 0, 30)
	if got := drawn(); got > 500 {
		t.Errorf("after another swap %v J are drawn", got)
	}
}

// An ArduCopter that is booted on a used pack counts from full. Its charge before is remembered; a voltage at rest that
// is 5 % above the one before is another pack's.
func TestChargeBeforeABoot(t *testing.T) {
	for voltageMV, wantJ := range map[uint16]float64{15200: 56e3, 15300: 56e3, 16000: 100e3} {
		b := newFixture(t)
		b.aircraft[0].conf.PackJ = 100e3
		v := newSimCopter(b, 1, physics.Position{})
		b.aircraft[0].pack = Pack{} // nothing was seen of it yet
		send := func(mV uint16, percent int8, n int) {
			for range n {
				v.simulateWithout(&common.MessageBatteryStatus{Voltages: [10]uint16{mV}, CurrentBattery: 10,
					BatteryRemaining: percent})
			}
		}
		v.bootMS = 60e3
		send(15200, 56, 60)
		v.bootMS = 1000
		send(voltageMV, 100, 60)
		got := v.view()
		if leftJ := got.CapacityJ - (got.TotalJ - got.FittedJ); math.Abs(leftJ-wantJ) > 500 {
			t.Errorf("booted at %d mV, %v J are left, want %v", voltageMV, leftJ, wantJ)
		}
	}
}

// A pack that was flown to about a third is no full one, whenever its ArduCopter boots, or its leader is started again, for the same
// mission or another: its voltage at rest is that of a used one.
func TestUsedPackStaysUsed(t *testing.T) {
	const packJ, fullMV, usedMV, airMV = 100e3, 16700, 14900, 14300
	for _, steps := range []string{"l b", "b l", "b l b", "b", "l r b", "l R b", "l rb", "l Rb", "rb l", "rb l b", "l b r", "l b R",
		"l b b", "l b rb", "b r l b", "r l b", "b R l"} {
		b := newFixture(t)
		b.aircraft[0].conf.PackJ = packJ
		v := newSimCopter(b, 1, physics.Position{})
		v.Fleet.aircraft[0].pack = Pack{}
		percent := int8(100)
		send := func(n int) {
			m := common.MessageBatteryStatus{Voltages: [10]uint16{fullMV}, CurrentBattery: 10, EnergyConsumed: -1,
				BatteryRemaining: percent}
			switch {
			case v.armed:
				m.Voltages[0], m.CurrentBattery = airMV, 10000
			case percent < 100 || steps == "":
				m.Voltages[0] = usedMV
			}
			for range n {
				v.simulateWithout(&m)
			}
		}
		restart := func(same bool) {
			saved := v.SavedState()
			v.fixture = newFixture(t)
			v.Fleet.aircraft[0].conf.PackJ = packJ
			if same {
				v.Restore(saved)
			} else {
				v.RestorePacks(saved)
			}
			v.sendHeartbeat()
		}
		send(30)
		v.armed, v.landed, v.upM = true, false, 100
		for i := range 44 { // 1.43 kW for 44 s
			percent = int8(100 - 3*i/2)
			send(10)
		}
		name := steps
		for _, step := range strings.Fields(steps) {
			steps = "" // it is a used one from here on
			for _, what := range step {
				switch what {
				case 'l':
					v.armed, v.landed, v.upM = false, true, 0
				case 'b':
					v.bootMS, percent = 1000, 100
				case 'r', 'R':
					restart(what == 'r')
				}
			}
			send(60)
		}
		v.armed, v.landed, v.upM = false, true, 0
		send(60)
		got := v.view()
		leftJ := got.CapacityJ - (got.TotalJ - got.FittedJ)
		if !math.IsNaN(got.Charge) {
			leftJ = min(leftJ, got.Charge*got.CapacityJ)
		}
		if leftJ > 55e3 { // by its voltage at rest it holds 48 kJ at most
			t.Errorf("%s: %.0f J are left, of %.0f", name, leftJ, got.CapacityJ)
		} else {
			t.Logf("%s: %.0f J are left", name, leftJ)
		}
	}
}

// simulateWithout is a tenth of a second with another battery message than simulate's.
func (v *simVehicle) simulateWithout(m *common.MessageBatteryStatus) {
	v.persist()
	v.tick()
	v.clock.Advance(1e8)
	v.bootMS += 100
	if v.bootMS%500 == 0 {
		v.sendHeartbeat()
	}
	landed := common.MAV_LANDED_STATE_IN_AIR
	if v.landed {
		landed = common.MAV_LANDED_STATE_ON_GROUND
	}
	v.transmit(&common.MessageExtendedSysState{LandedState: landed})
	v.transmit(v.positionMessage())
	v.transmit(m)
}

// An aircraft waits for those that land first at homes next to its own, and all fly home
// at one speed, that of the slowest.
func TestViewHasTheWayHome(t *testing.T) {
	b := newFixture(t)
	b.Limits.SeparationM = 12
	var vehicles []*simVehicle
	for i, east := range []float64{0, 12, 24} {
		vehicles = append(vehicles, newSimVehicle(b, i+1, physics.Position{EastM: east}))
	}
	first := vehicles[0].view()
	passS := 5 + first.Params.DescentS(100) - first.Params.DescentS(70)
	waits := func() (list [3]float64) {
		for i, v := range b.Views() {
			list[i] = math.Round(v.WaitS / passS)
		}
		return list
	}
	if got := waits(); passS < 20 || got != [3]float64{2, 2, 2} {
		t.Errorf("on the ground they wait for %v others, for %v s each", got, passS)
	}
	for i, v := range vehicles[:2] {
		v.armed, v.landed, v.upM = true, false, 100
		b.aircraft[i].home = new(v.position)
		v.position.EastM += 300 * float64(i) // its home counts
		v.sendHeartbeat()
		v.sendState()
	}
	if got := waits(); got != [3]float64{1, 1, 2} {
		t.Errorf("in flight they wait for %v others", got)
	}
	vehicles[2].transmit(&common.MessageParamValue{ParamId: "MPC_XY_VEL_MAX", ParamType: common.MAV_PARAM_TYPE_REAL32, ParamValue: 3})
	for _, v := range b.Views() {
		if math.Abs(v.TransitMPS-3) > 1e-6 || v.TransitMPS != b.transitSpeedMPS() {
			t.Errorf("aircraft %d: home at %v m/s", v.Number, v.TransitMPS)
		}
	}
}
