package fleet

import (
	"fmt"

	"github.com/bluenviron/gomavlib/v3/pkg/dialects/common"
)

// Mode is PX4's custom mode as HEARTBEAT carries it: main mode << 16 | sub mode << 24.
type Mode uint32

const (
	ModePosition Mode = 3 << 16
	ModeTakeoff  Mode = 4<<16 | 2<<24
	ModeHold     Mode = 4<<16 | 3<<24
	ModeReturn   Mode = 4<<16 | 5<<24
	ModeLand     Mode = 4<<16 | 6<<24
	ModeOffboard Mode = 6 << 16
)

var modeNames = map[Mode]string{
	ModePosition: "POSCTL", ModeTakeoff: "AUTO.TAKEOFF", ModeHold: "AUTO.LOITER", ModeReturn: "AUTO.RTL", ModeLand: "AUTO.LAND", ModeOffboard: "OFFBOARD",
}

func (m Mode) String() string {
	if name, ok := modeNames[m]; ok {
		return name
	}
	return fmt.Sprintf("%d.%d", m>>16&0xff, m>>24)
}

func setMode(m Mode) *common.MessageCommandLong {
	return &common.MessageCommandLong{
		Command: common.MAV_CMD_DO_SET_MODE,
		Param1:  float32(common.MAV_MODE_FLAG_CUSTOM_MODE_ENABLED),
		Param2:  float32(m >> 16 & 0xff), Param3: float32(m >> 24),
	}
}
