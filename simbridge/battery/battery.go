// Package battery is an aircraft's battery: what was drawn goes in, exact joules
// by slot come out, and so does what BATTERY_STATUS would say of it, in that
// message's own resolution. In a slot it stands between the aircraft and the
// leader's settlement.
package battery

import (
	"maps"
	"math"

	"github.com/bluenviron/gomavlib/v3/pkg/dialects/common"
)

// The pack's voltage falls in a line with its charge, as PX4's own simulator has it.
const (
	fullVolt  = 16.2
	emptyVolt = 14.4
	MeanVolt  = (fullVolt + emptyVolt) / 2
)

// Spent is what an aircraft drew.
type Spent struct{ FlightJ, EdgeJ float64 }

// J is the sum.
func (s Spent) J() float64 { return s.FlightJ + s.EdgeJ }

// Fields says which fields of BATTERY_STATUS the pack measures. Absent ones
// carry PX4's values for unknown.
type Fields struct {
	Current   bool `yaml:"current"`
	Energy    bool `yaml:"energy"`
	Remaining bool `yaml:"remaining"`
}

// Battery integrates what an aircraft draws, and books it by slot. Times are
// mission microseconds since it began. Not safe for concurrent use.
type Battery struct {
	CapacityJ float64
	Fields    Fields

	slot   int           // in which joules are booked; -1 before the mission
	ahead  []start       // slots that begin later
	bySlot map[int]Spent // exact
	total  Spent         // of all packs
	firstJ float64       // of it, this pack's
	powerW float64       // of the last step

	// For the current that the messages carry: the mean since the one before,
	// so that current x voltage x time over the messages is the energy.
	reportedUS int64
	reportedJ  float64 // energy that the messages so far amount to
	consumedC  float64 // charge, coulomb

	counterJ, counterC float64 // at which the counters of the messages were 0
	packJ              float64 // at which the pack was full

	falseJ    float64 // the next message's counter is off by that, or
	falseZero bool    // it is 0
	second    second
}

// second is a pack beside the first that carries a share of what is drawn.
type second struct {
	on         bool
	share      float64
	drawnJ     float64
	reportedUS int64
	reportedJ  float64
}

// start is when a slot begins.
type start struct {
	us   int64
	slot int
}

// New returns a full battery before the mission.
func New(capacityJ float64, fields Fields) Battery {
	return Battery{CapacityJ: capacityJ, Fields: fields, slot: -1, bySlot: map[int]Spent{}}
}

// Begin says that a slot begins at a time, which may lie ahead.
func (b *Battery) Begin(slot int, us int64) { b.ahead = append(b.ahead, start{us, slot}) }

// Reach opens the slots that have begun.
func (b *Battery) Reach(nowUS int64) {
	for len(b.ahead) > 0 && b.ahead[0].us <= nowUS {
		b.slot, b.ahead = b.ahead[0].slot, b.ahead[1:]
	}
}

// Slot is the one that joules are booked in.
func (b *Battery) Slot() int { return b.slot }

// Total is what was drawn since New.
func (b *Battery) Total() Spent { return b.total }

// BySlot are the exact joules of every slot so far; -1 is before the mission.
func (b *Battery) BySlot() map[int]Spent { return maps.Clone(b.bySlot) }

// Fly draws a power for a while.
func (b *Battery) Fly(powerW, seconds float64) {
	b.powerW = powerW
	b.Add(b.slot, Spent{FlightJ: powerW * seconds})
}

// Add books joules.
func (b *Battery) Add(slot int, s Spent) {
	was := b.bySlot[slot]
	b.bySlot[slot] = Spent{was.FlightJ + s.FlightJ, was.EdgeJ + s.EdgeJ}
	b.total = Spent{b.total.FlightJ + s.FlightJ, b.total.EdgeJ + s.EdgeJ}
	joules := s.J() * b.firstShare()
	b.second.drawnJ += s.J() - joules
	b.firstJ += joules
	b.consumedC += joules / b.volt()
}

// firstShare is what of the load this pack carries.
func (b *Battery) firstShare() float64 {
	if b.second.on {
		return 1 - b.second.share
	}
	return 1
}

// ReportedJ is what current x voltage of the messages so far amounts to.
func (b *Battery) ReportedJ() float64 { return b.reportedJ }

// Restart begins the counters of the messages anew, as an autopilot that was
// rebooted does.
func (b *Battery) Restart() { b.counterJ, b.counterC = b.firstJ, b.consumedC }

// Swap is a full pack in the place of this one. What was drawn stays drawn.
func (b *Battery) Swap() {
	b.Restart()
	b.packJ = b.firstJ
}

// Miscount makes the next message's counter false: by a difference, or 0.
func (b *Battery) Miscount(byJ float64, zero bool) { b.falseJ, b.falseZero = byJ, zero }

// Share connects a second pack, which carries a share of the load, or takes it
// away. Its counter keeps what it has counted.
func (b *Battery) Share(on bool, share float64) { b.second.on, b.second.share = on, share }

// Second is the second pack's BATTERY_STATUS, nil without one.
func (b *Battery) Second(nowUS int64) *common.MessageBatteryStatus {
	if !b.second.on {
		return nil
	}
	m := unknown()
	m.Id, m.BatteryRemaining = 1, -1
	m.Voltages[0] = uint16(math.Round(1000 * b.volt()))
	if b.Fields.Energy {
		m.EnergyConsumed = int32(b.second.drawnJ / 100)
	}
	if b.Fields.Current {
		b.second.reportedUS, b.second.reportedJ = setCurrent(m, nowUS, b.second.drawnJ, b.second.reportedUS, b.second.reportedJ)
	}
	return m
}

// left is the remaining charge as a fraction.
func (b *Battery) left() float64 { return max(0, 1-(b.firstJ-b.packJ)/b.CapacityJ) }

// Charge is what remains as a fraction, NaN where that is not measured.
func (b *Battery) Charge() float64 {
	if !b.Fields.Remaining {
		return math.NaN()
	}
	return b.left()
}

func (b *Battery) volt() float64 { return emptyVolt + (fullVolt-emptyVolt)*b.left() }

func (b *Battery) percent() int8 {
	if !b.Fields.Remaining {
		return -1
	}
	return int8(math.Ceil(100 * b.left()))
}

// Status is BATTERY_STATUS at a time. The rounding of the current is
// carried to the next message.
func (b *Battery) Status(nowUS int64) *common.MessageBatteryStatus {
	m := unknown()
	m.BatteryRemaining = b.percent()
	m.Voltages[0] = uint16(math.Round(1000 * b.volt())) // the whole pack, as PX4 does
	if b.Fields.Energy {
		m.EnergyConsumed = int32(min((b.firstJ-b.counterJ+b.falseJ)/100, math.MaxInt32))
		if b.falseZero {
			m.EnergyConsumed = 0
		}
		b.falseJ, b.falseZero = 0, false
	}
	if b.Fields.Current {
		m.CurrentConsumed = int32(min((b.consumedC-b.counterC)/3.6, math.MaxInt32))
		b.reportedUS, b.reportedJ = setCurrent(m, nowUS, b.firstJ, b.reportedUS, b.reportedJ)
	}
	return m
}

// setCurrent writes the mean current since a pack's message before, and returns
// when that was said and what the messages so far amount to: the rounding is
// carried to the next one.
func setCurrent(m *common.MessageBatteryStatus, nowUS int64, drawnJ float64, reportedUS int64, reportedJ float64) (int64, float64) {
	m.CurrentBattery = 0
	seconds, volt := float64(nowUS-reportedUS)/1e6, float64(m.Voltages[0])/1000
	if seconds <= 0 {
		return reportedUS, reportedJ
	}
	centi := math.Round(100 * (drawnJ - reportedJ) / (volt * seconds))
	m.CurrentBattery = int16(min(max(centi, 0), math.MaxInt16))
	return nowUS, reportedJ + float64(m.CurrentBattery)/100*volt*seconds
}

// unknown is a BATTERY_STATUS that says nothing.
func unknown() *common.MessageBatteryStatus {
	m := &common.MessageBatteryStatus{
		BatteryFunction: common.MAV_BATTERY_FUNCTION_ALL, Type: common.MAV_BATTERY_TYPE_LIPO,
		Temperature: math.MaxInt16, CurrentBattery: -100, EnergyConsumed: -1, ChargeState: common.MAV_BATTERY_CHARGE_STATE_OK,
	}
	for i := range m.Voltages {
		m.Voltages[i] = math.MaxUint16
	}
	return m
}

// System is SYS_STATUS.
func (b *Battery) System() *common.MessageSysStatus {
	m := &common.MessageSysStatus{
		VoltageBattery: uint16(math.Round(1000 * b.volt())), CurrentBattery: -100, BatteryRemaining: b.percent(), // unknown: -1 A, as in BATTERY_STATUS
	}
	if b.Fields.Current {
		m.CurrentBattery = int16(min(math.Round(100*b.powerW*b.firstShare()/b.volt()), math.MaxInt16))
	}
	return m
}
