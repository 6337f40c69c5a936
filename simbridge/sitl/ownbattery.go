package sitl

import (
	"math"
	"time"

	"github.com/bluenviron/gomavlib/v3/pkg/dialects/common"
	"github.com/bluenviron/gomavlib/v3/pkg/message"

	"prefdt/simbridge/battery"
)

// An ArduCopter takes no battery from outside. What it draws is what its own simulation says
// in BATTERY_STATUS: by energy_consumed, which counts hectojoules since boot, and between two
// of its steps by current and voltage.

// ownBattery is the battery of an instance, as it was last received.
type ownBattery struct {
	received bool
	counts   bool    // the last message had energy_consumed
	began    bool    // one had
	countHJ  int32   // energy_consumed
	startJ   float64 // what the counter had, less what was drawn since the instance was attached to
	powerW   float64 // of the last message
}

// counterStepJ is what energy_consumed resolves.
const counterStepJ = 100

// streams are what an ArduCopter is asked for, which sends HEARTBEAT alone by itself, and how
// often, in us of its time.
var streams = []struct {
	message  message.Message
	periodUS float32
}{
	{&common.MessageGlobalPositionInt{}, 50e3},
	{&common.MessageExtendedSysState{}, 200e3},
	{&common.MessageBatteryStatus{}, 250e3},
}

// silentS is how long a message is missing before it is asked for again.
const silentS = 3

// handleOwnBattery reads the battery with which an ArduCopter flies. What was drawn by power is
// corrected into what the counter leaves possible: its step is unknown at both ends. The mutex is held.
func (v *Vehicle) handleOwnBattery(m *common.MessageBatteryStatus) {
	b := &v.own
	b.received, b.counts = true, m.EnergyConsumed >= 0
	if b.powerW = 0; m.CurrentBattery > 0 {
		b.powerW = float64(m.CurrentBattery) / 100 * voltageOf(m)
	}
	if !b.counts {
		return
	}
	drawnJ := v.battery.Total().J()
	if !b.began || m.EnergyConsumed < b.countHJ { // or it booted again
		b.began = true
		b.startJ = counterStepJ*float64(m.EnergyConsumed) - drawnJ
	}
	b.countHJ = m.EnergyConsumed
	countedJ := counterStepJ*float64(b.countHJ) - b.startJ
	if possibleJ := min(max(drawnJ, countedJ-counterStepJ), countedJ+counterStepJ); possibleJ != drawnJ {
		v.battery.Add(v.battery.Slot(), battery.Spent{FlightJ: possibleJ - drawnJ})
	}
}

// voltageOf is the pack's: the sum of its cells, or the whole in the first one.
func voltageOf(m *common.MessageBatteryStatus) (volts float64) {
	for _, mv := range m.Voltages {
		if mv != math.MaxUint16 {
			volts += float64(mv) / 1000
		}
	}
	return volts
}

// missingStreams are requests for the messages that have not come for silentS. The mutex is held.
func (v *Vehicle) missingStreams(now time.Time) (requests []message.Message) {
	for _, s := range streams {
		if v.missionS(now.Sub(v.receivedAt[s.message.GetID()])) > silentS {
			requests = append(requests, &common.MessageCommandLong{
				TargetSystem: v.SystemID, TargetComponent: 1, Command: common.MAV_CMD_SET_MESSAGE_INTERVAL,
				Param1: float32(s.message.GetID()), Param2: s.periodUS,
			})
		}
	}
	return requests
}
