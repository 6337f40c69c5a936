package fleet

import (
	"fmt"
	"math"

	"github.com/bluenviron/gomavlib/v3/pkg/dialects/common"
)

// Parameters are what the leader reads of an autopilot before it arms.
type Parameters struct {
	LossS       float64 // COM_OF_LOSS_T: without setpoints for so long, OFFBOARD is lost
	LossAction  int     // COM_OBL_RC_ACT: what follows
	SpeedMaxMPS float64 // MPC_XY_VEL_MAX
	GainPerS    float64 // MPC_XY_P, of the position loop
	LowAction   int     // COM_LOW_BAT_ACT: what it does by itself when its battery is low
	CapacityMAh float64 // BAT1_CAPACITY
	read        uint8   // one bit a parameter
	asked       int     // times that missing ones were asked for
}

// parameterNames are asked for. Without the first three nothing takes off; an
// autopilot that has not the others is taken to have PX4's defaults.
var parameterNames = [...]string{"COM_OF_LOSS_T", "COM_OBL_RC_ACT", "MPC_XY_VEL_MAX", "MPC_XY_P", "COM_LOW_BAT_ACT", "BAT1_CAPACITY"}

const parametersNeeded = 3

const actionReturn = 3 // of COM_OBL_RC_ACT

// Read tells whether all that are needed were read.
func (p *Parameters) Read() bool { return p.read&(1<<parametersNeeded-1) == 1<<parametersNeeded-1 }

// has is whether one of parameterNames was read.
func (p *Parameters) has(i int) bool { return p.read>>i&1 == 1 }

// parametersAsked is how often those that are not needed are asked for: not every
// autopilot has them.
const parametersAsked = 5

// missing returns the names to ask for.
func (p *Parameters) missing() (names []string) {
	if p.Read() && p.asked >= parametersAsked {
		return nil
	}
	for i, name := range parameterNames {
		if !p.has(i) {
			names = append(names, name)
		}
	}
	return names
}

// gain is that of the position loop.
func (p *Parameters) gain() float64 {
	if p.GainPerS > 0 && p.GainPerS <= 2 {
		return p.GainPerS
	}
	return 0.95 // PX4's default
}

func (p *Parameters) set(m *common.MessageParamValue) {
	x := parameterValue(m)
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return
	}
	for i, name := range parameterNames {
		if m.ParamId != name {
			continue
		}
		p.read |= 1 << i
		switch i {
		case 0:
			p.LossS = x
		case 1:
			p.LossAction = int(x)
		case 2:
			p.SpeedMaxMPS = x
		case 3:
			p.GainPerS = x
		case 4:
			p.LowAction = int(x)
		case 5:
			p.CapacityMAh = x
		}
	}
}

// Doubtful says what an autopilot should rather be set to.
func (p *Parameters) Doubtful(capacityJ float64) (reasons []string) {
	const minCellV, maxCells = 3.3, 14
	if p.has(4) && p.LowAction == 0 {
		reasons = append(reasons, "COM_LOW_BAT_ACT is 0: with its leader gone, an aircraft hovers until its battery is empty; 2 (Land) or 3 (Return) is safe")
	}
	if p.has(5) && p.CapacityMAh > 0 && p.CapacityMAh*3.6*minCellV*maxCells < capacityJ {
		reasons = append(reasons, fmt.Sprintf("BAT1_CAPACITY is %v mAh, which no pack of up to %d cells makes %v J: remaining charge will mislead", p.CapacityMAh, maxCells, capacityJ))
	}
	return reasons
}

// parameterValue undoes PX4's encoding: an integer's bits in the float field.
func parameterValue(m *common.MessageParamValue) float64 {
	switch m.ParamType {
	case common.MAV_PARAM_TYPE_INT8, common.MAV_PARAM_TYPE_INT16, common.MAV_PARAM_TYPE_INT32,
		common.MAV_PARAM_TYPE_UINT8, common.MAV_PARAM_TYPE_UINT16, common.MAV_PARAM_TYPE_UINT32:
		return float64(int32(math.Float32bits(m.ParamValue)))
	}
	return float64(m.ParamValue)
}

// Unsafe says what is wrong with an autopilot's failsafe for a leader that may
// vanish at any time, or is empty.
func (p *Parameters) Unsafe() string {
	switch {
	case !p.Read():
		return fmt.Sprintf("parameters %v were not read yet", p.missing())
	case p.LossAction != actionReturn && p.LossAction != 4 && p.LossAction != 5:
		return fmt.Sprintf("COM_OBL_RC_ACT is %d, want 5 (Hold), 3 (Return) or 4 (Land)", p.LossAction)
	case !(p.LossS >= 0.3 && p.LossS <= 10):
		return fmt.Sprintf("COM_OF_LOSS_T is %v s, want 0.3 to 10", p.LossS)
	case !(p.SpeedMaxMPS > 0):
		return fmt.Sprintf("MPC_XY_VEL_MAX is %v m/s, want a positive number", p.SpeedMaxMPS)
	}
	return ""
}
