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
	read        uint8   // one bit a parameter
}

var parameterNames = [...]string{"COM_OF_LOSS_T", "COM_OBL_RC_ACT", "MPC_XY_VEL_MAX"}

// Read tells whether all were read.
func (p *Parameters) Read() bool { return p.read == 1<<len(parameterNames)-1 }

// missing returns the names not read yet.
func (p *Parameters) missing() (names []string) {
	for i, name := range parameterNames {
		if p.read>>i&1 == 0 {
			names = append(names, name)
		}
	}
	return names
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
		}
	}
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
	case p.LossAction != 3 && p.LossAction != 4 && p.LossAction != 5:
		return fmt.Sprintf("COM_OBL_RC_ACT is %d, want 5 (Hold), 3 (Return) or 4 (Land)", p.LossAction)
	case !(p.LossS >= 0.3 && p.LossS <= 10):
		return fmt.Sprintf("COM_OF_LOSS_T is %v s, want 0.3 to 10", p.LossS)
	case !(p.SpeedMaxMPS > 0):
		return fmt.Sprintf("MPC_XY_VEL_MAX is %v m/s, want a positive number", p.SpeedMaxMPS)
	}
	return ""
}
