package autopilot

import (
	"math"

	"github.com/bluenviron/gomavlib/v3/pkg/dialects/common"
)

// The pack's voltage falls in a line with its charge, as PX4's own simulator has it.
const (
	fullVolt  = 16.2
	emptyVolt = 14.4
	meanVolt  = (fullVolt + emptyVolt) / 2
)

// Spent is what an aircraft drew.
type Spent struct{ FlightJ, EdgeJ float64 }

// J is the sum.
func (s Spent) J() float64 { return s.FlightJ + s.EdgeJ }

// BatteryFields says which fields of BATTERY_STATUS the pack measures. Absent
// ones carry PX4's values for unknown.
type BatteryFields struct {
	Current   bool `yaml:"current"`
	Energy    bool `yaml:"energy"`
	Remaining bool `yaml:"remaining"`
}

// battery integrates what the aircraft draws, and books it by slot.
type battery struct {
	capacityJ float64
	fields    BatteryFields
	slot      int           // in which joules are booked; -1 before the mission
	ahead     []slotStart   // slots that begin later
	bySlot    map[int]Spent // exact
	total     Spent
	powerW    float64 // of the last step

	// For the current that the messages carry: the mean since the one before,
	// so that current x voltage x time over the messages is the energy.
	reportedUS int64
	reportedJ  float64 // energy that the messages so far amount to
	consumedC  float64 // charge, coulomb
}

// slotStart is when a slot begins, in time since boot.
type slotStart struct {
	us   int64
	slot int
}

func newBattery(conf Config) battery {
	return battery{capacityJ: conf.CapacityJ, fields: conf.Battery, slot: -1, bySlot: map[int]Spent{}}
}

// reach opens the slots that have begun.
func (b *battery) reach(nowUS int64) {
	for len(b.ahead) > 0 && b.ahead[0].us <= nowUS {
		b.slot, b.ahead = b.ahead[0].slot, b.ahead[1:]
	}
}

func (b *battery) fly(powerW float64) {
	b.powerW = powerW
	b.add(b.slot, Spent{FlightJ: powerW * stepS})
}

func (b *battery) add(slot int, s Spent) {
	was := b.bySlot[slot]
	b.bySlot[slot] = Spent{was.FlightJ + s.FlightJ, was.EdgeJ + s.EdgeJ}
	b.total = Spent{b.total.FlightJ + s.FlightJ, b.total.EdgeJ + s.EdgeJ}
	b.consumedC += s.J() / b.volt()
}

// left is the remaining charge as a fraction.
func (b *battery) left() float64 { return max(0, 1-b.total.J()/b.capacityJ) }

func (b *battery) volt() float64 { return emptyVolt + (fullVolt-emptyVolt)*b.left() }

func (b *battery) percent() int8 {
	if !b.fields.Remaining {
		return -1
	}
	return int8(math.Ceil(100 * b.left()))
}

// status is BATTERY_STATUS at a time since boot. The rounding of the current is
// carried to the next message.
func (b *battery) status(nowUS int64) *common.MessageBatteryStatus {
	m := &common.MessageBatteryStatus{
		BatteryFunction: common.MAV_BATTERY_FUNCTION_ALL, Type: common.MAV_BATTERY_TYPE_LIPO,
		Temperature: math.MaxInt16, CurrentBattery: -100, EnergyConsumed: -1, BatteryRemaining: b.percent(),
		ChargeState: common.MAV_BATTERY_CHARGE_STATE_OK,
	}
	for i := range m.Voltages {
		m.Voltages[i] = math.MaxUint16
	}
	m.Voltages[0] = uint16(math.Round(1000 * b.volt())) // the whole pack, as PX4 does
	if b.fields.Energy {
		m.EnergyConsumed = int32(min(b.total.J()/100, math.MaxInt32))
	}
	if b.fields.Current {
		m.CurrentConsumed = int32(min(b.consumedC/3.6, math.MaxInt32))
		m.CurrentBattery = 0
		if seconds := float64(nowUS-b.reportedUS) / 1e6; seconds > 0 {
			volt := float64(m.Voltages[0]) / 1000
			centi := math.Round(100 * (b.total.J() - b.reportedJ) / (volt * seconds))
			m.CurrentBattery = int16(clamp(centi, 0, math.MaxInt16))
			b.reportedJ += float64(m.CurrentBattery) / 100 * volt * seconds
			b.reportedUS = nowUS
		}
	}
	return m
}

// system is SYS_STATUS.
func (b *battery) system() *common.MessageSysStatus {
	m := &common.MessageSysStatus{
		VoltageBattery: uint16(math.Round(1000 * b.volt())), CurrentBattery: -1, BatteryRemaining: b.percent(),
	}
	if b.fields.Current {
		m.CurrentBattery = int16(clamp(math.Round(100*b.powerW/b.volt()), 0, math.MaxInt16))
	}
	return m
}
