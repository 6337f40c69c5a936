// Package battery simulates an aircraft's battery.
//
// Inputs: the power and the joules drawn, and the times at which slots begin.
// Outputs: the exact joules of each slot, the truth that the leader's settlement is
// compared with; and BATTERY_STATUS and SYS_STATUS in their own resolution, from which
// the leader has to estimate them.
// Callers: simbridge/autopilot for simulated aircraft, simbridge/sitl for running PX4.
package battery

import (
	"cmp"
	"maps"
	"math"

	"github.com/bluenviron/gomavlib/v3/pkg/dialects/common"
)

// The pack's voltage falls linearly with its charge, as in PX4's own simulator.
const (
	fullVoltageV  = 16.2
	emptyVoltageV = 14.4
	MeanVoltageV  = (fullVoltageV + emptyVoltageV) / 2
)

// Spent is the energy drawn by an aircraft.
type Spent struct{ FlightJ, EdgeJ float64 }

// J is the sum.
func (s Spent) J() float64 { return s.FlightJ + s.EdgeJ }

// Fields are the fields of BATTERY_STATUS that the pack measures. Others have PX4's
// values for unknown.
type Fields struct {
	Current   bool `yaml:"current"`
	Energy    bool `yaml:"energy"`
	Remaining bool `yaml:"remaining"`

	// EveryS is how often the monitor measures, as a CAN battery or a slow link does; 0:
	// with each message that is asked for. Between, no BATTERY_STATUS is sent.
	EveryS float64 `yaml:"every_s"`
}

// AllFields are all of them.
var AllFields = Fields{Current: true, Energy: true, Remaining: true}

// Battery integrates what an aircraft draws, and counts it by slot. Times are mission
// microseconds since the start. Not safe for concurrent use.
type Battery struct {
	CapacityJ float64
	Fields    Fields
	// SensorGain is what the current sensor reads of the true current: charge, current and
	// counters are wrong by it, the voltage is not. 0 is an exact sensor's 1.
	SensorGain float64

	slot     int           // in which joules are counted; -1 before the mission
	upcoming []slotStart   // slots that begin later
	bySlot   map[int]Spent // exact
	total    Spent         // of both packs
	powerW   float64       // of the last step

	first, second    pack
	secondConnected  bool
	secondShare      float64 // of the load
	consumedCoulombs float64 // from the first pack

	// The first pack's values of drawnJ and consumedCoulombs at which the counters of
	// the messages were 0, and at which it was full.
	counterZeroJ, counterZeroCoulombs, fullAtJ float64
	forgottenJ                                 float64 // that were missing when the monitor took the first pack for full

	measuredUS int64                        // time of the last measurement, and
	measured   *common.MessageBatteryStatus // what it was; nil: none yet
	frozen     bool                         // it is repeated

	counterErrorJ    float64 // of the next message's counter, or
	counterReadsZero bool    // it is 0
	misreads         int     // so many of the next messages are of a full pack that gave nothing yet
}

// pack is what was drawn from one pack, and what its messages reported of it. The
// current in a message is the mean since the one before, so that the sum of
// current x voltage x time over the messages is the energy.
type pack struct {
	drawnJ     float64
	reportedUS int64   // time of the last message
	reportedJ  float64 // sum over the messages so far
}

// slotStart is when a slot begins.
type slotStart struct {
	startUS int64
	slot    int
}

// New returns a full battery before the mission.
func New(capacityJ float64, fields Fields) Battery {
	return Battery{CapacityJ: capacityJ, Fields: fields, slot: -1, bySlot: map[int]Spent{}}
}

// ScheduleSlot has a slot begin at a time, which may be in the future.
func (b *Battery) ScheduleSlot(slot int, us int64) {
	b.upcoming = append(b.upcoming, slotStart{us, slot})
}

// OpenSlots opens the slots that have begun.
func (b *Battery) OpenSlots(nowUS int64) {
	for len(b.upcoming) > 0 && b.upcoming[0].startUS <= nowUS {
		b.slot, b.upcoming = b.upcoming[0].slot, b.upcoming[1:]
	}
}

// Slot is the slot in which joules are counted now.
func (b *Battery) Slot() int { return b.slot }

// Total is what was drawn since New.
func (b *Battery) Total() Spent { return b.total }

// BySlot are the exact joules of every slot so far; -1 is before the mission.
func (b *Battery) BySlot() map[int]Spent { return maps.Clone(b.bySlot) }

// DrawPower draws a power for a while.
func (b *Battery) DrawPower(powerW, seconds float64) {
	b.powerW = powerW
	b.Add(b.slot, Spent{FlightJ: powerW * seconds})
}

// Add counts joules in a slot.
func (b *Battery) Add(slot int, s Spent) {
	was := b.bySlot[slot]
	b.bySlot[slot] = Spent{was.FlightJ + s.FlightJ, was.EdgeJ + s.EdgeJ}
	b.total = Spent{b.total.FlightJ + s.FlightJ, b.total.EdgeJ + s.EdgeJ}
	joules := s.J() * (1 - b.secondShare)
	b.second.drawnJ += s.J() - joules
	b.first.drawnJ += joules
	b.consumedCoulombs += joules / b.voltageV()
}

// ReportedJ is the energy that current x voltage x time of the messages so far amounts to.
func (b *Battery) ReportedJ() float64 { return b.first.reportedJ }

// ResetCounters sets the counters of the messages to 0, as a rebooted autopilot does.
func (b *Battery) ResetCounters() {
	b.counterZeroJ, b.counterZeroCoulombs = b.first.drawnJ, b.consumedCoulombs
}

// TakeForFull has the monitor take the first pack for full, as an ArduPilot's does at each boot.
func (b *Battery) TakeForFull() { b.forgottenJ = b.CapacityJ - b.LeftJ() }

// SwapPack replaces the first pack by a full one. The energy drawn so far stays counted.
func (b *Battery) SwapPack() {
	b.forgottenJ = 0
	b.ResetCounters()
	b.fullAtJ = b.first.drawnJ
}

// CorruptNextCounter makes the energy counter of the next message wrong: by a difference,
// or 0. The one after it is right again.
func (b *Battery) CorruptNextCounter(byJ float64, zero bool) {
	b.counterErrorJ, b.counterReadsZero = byJ, zero
}

// Misread has so many of the next messages be of a full pack that gave nothing yet.
func (b *Battery) Misread(messages int) { b.misreads = messages }

// SetSecondPack connects a second pack, with id 1, which carries a share of the load, or
// disconnects it, with a share of 0. Its counter is kept.
func (b *Battery) SetSecondPack(on bool, share float64) {
	b.secondConnected, b.secondShare = on, share
}

// SecondPackStatus is the second pack's BATTERY_STATUS, nil without one.
func (b *Battery) SecondPackStatus(nowUS int64) *common.MessageBatteryStatus {
	if !b.secondConnected {
		return nil
	}
	m := b.packStatus(&b.second, nowUS, b.second.drawnJ)
	m.Id = 1
	return m
}

// remaining is the remaining charge as a fraction.
func (b *Battery) remaining() float64 { return max(0, b.LeftJ()/b.CapacityJ) }

// LeftJ is what is left in the first pack; below 0 in one that gave more than it has.
func (b *Battery) LeftJ() float64 { return b.CapacityJ - (b.first.drawnJ - b.fullAtJ) }

// SetReadsJ leaves so much in the first pack, by its own sensor, as a pack has that was
// not full or that lost a cell.
func (b *Battery) SetReadsJ(joules float64) {
	b.fullAtJ, b.forgottenJ = b.first.drawnJ-(b.CapacityJ-joules)/b.gain(), 0
}

// gain is SensorGain.
func (b *Battery) gain() float64 { return cmp.Or(b.SensorGain, 1) }

// Charge is the remaining charge as a fraction, NaN if it is not measured.
func (b *Battery) Charge() float64 {
	if !b.Fields.Remaining {
		return math.NaN()
	}
	return min(1, max(0, 1-b.gain()*(1-b.remaining()-b.forgottenJ/b.CapacityJ)))
}

func (b *Battery) voltageV() float64 {
	return emptyVoltageV + (fullVoltageV-emptyVoltageV)*b.remaining()
}

func (b *Battery) remainingPercent() int8 {
	if !b.Fields.Remaining {
		return -1
	}
	return int8(math.Ceil(100 * b.Charge()))
}

// Freeze has the messages repeat the last measurement, or ends that.
func (b *Battery) Freeze(on bool) { b.frozen = on }

// Measures is whether the monitor has a measurement to send, or repeats its last one.
func (b *Battery) Measures(nowUS int64) bool {
	return b.measured == nil || nowUS-b.measuredUS >= int64(b.Fields.EveryS*1e6)
}

// Status is the first pack's BATTERY_STATUS at a time.
func (b *Battery) Status(nowUS int64) *common.MessageBatteryStatus {
	if b.frozen && b.measured != nil {
		b.measuredUS = nowUS
		return new(*b.measured)
	}
	m := b.packStatus(&b.first, nowUS, b.first.drawnJ-b.counterZeroJ+b.counterErrorJ)
	misread := b.misreads > 0
	if m.BatteryRemaining = b.remainingPercent(); misread {
		m.Voltages[0], b.misreads = uint16(math.Round(1000*fullVoltageV)), b.misreads-1
		if b.Fields.Remaining {
			m.BatteryRemaining = 100
		}
	}
	if b.Fields.Energy {
		if b.counterReadsZero || misread {
			m.EnergyConsumed = 0
		}
		b.counterErrorJ, b.counterReadsZero = 0, false
	}
	if b.Fields.Current {
		m.CurrentConsumed = int32(min(b.gain()*(b.consumedCoulombs-b.counterZeroCoulombs)/3.6, math.MaxInt32))
	}
	b.measuredUS, b.measured = nowUS, new(*m)
	return m
}

// packStatus is a pack's BATTERY_STATUS with the voltage, and the energy and current as
// far as they are measured. The rounding of the current is carried to the next message.
func (b *Battery) packStatus(p *pack, nowUS int64, counterJ float64) *common.MessageBatteryStatus {
	m := &common.MessageBatteryStatus{
		BatteryFunction: common.MAV_BATTERY_FUNCTION_ALL, Type: common.MAV_BATTERY_TYPE_LIPO,
		ChargeState: common.MAV_BATTERY_CHARGE_STATE_OK,
		Temperature: math.MaxInt16, CurrentBattery: -100, EnergyConsumed: -1, BatteryRemaining: -1, // unknown
	}
	for i := range m.Voltages {
		m.Voltages[i] = math.MaxUint16
	}
	m.Voltages[0] = uint16(math.Round(1000 * b.voltageV())) // the whole pack, as PX4 does
	if b.Fields.Energy {
		m.EnergyConsumed = int32(min(b.gain()*counterJ/100, math.MaxInt32))
	}
	if b.Fields.Current {
		m.CurrentBattery = 0
		if seconds, volt := float64(nowUS-p.reportedUS)/1e6, float64(m.Voltages[0])/1000; seconds > 0 {
			centi := math.Round(100 * (b.gain()*p.drawnJ - p.reportedJ) / (volt * seconds))
			m.CurrentBattery = int16(min(max(centi, 0), math.MaxInt16))
			p.reportedUS, p.reportedJ = nowUS, p.reportedJ+float64(m.CurrentBattery)/100*volt*seconds
		}
	}
	return m
}

// SysStatus is SYS_STATUS.
func (b *Battery) SysStatus() *common.MessageSysStatus {
	m := &common.MessageSysStatus{
		// unknown: -1 A, as in BATTERY_STATUS
		VoltageBattery: uint16(math.Round(1000 * b.voltageV())), CurrentBattery: -100, BatteryRemaining: b.remainingPercent(),
	}
	if b.Fields.Current {
		m.CurrentBattery = int16(min(math.Round(100*b.gain()*b.powerW*(1-b.secondShare)/b.voltageV()), math.MaxInt16))
	}
	return m
}
