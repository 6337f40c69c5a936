package autopilot

import (
	"maps"
	"math"
	"slices"

	"github.com/bluenviron/gomavlib/v3/pkg/dialects/common"
	"github.com/bluenviron/gomavlib/v3/pkg/message"

	"prefdt/simbridge/battery"
)

// param is one parameter. PX4 sends an integer's bits in the float field.
type param struct {
	name    string
	value   float64
	integer bool
}

// params are the simulated parameters of PX4, by name.
type params []param

// defaultParams are PX4's defaults, except for COM_OBL_RC_ACT, whose default 0 descends
// in Position mode, and COM_LOW_BAT_ACT, whose default 0 hovers until the pack is empty.
func defaultParams(capacityJ float64) params {
	return params{
		{"BAT1_CAPACITY", capacityJ / 3.6 / battery.MeanVoltageV, false}, // mAh
		{"BAT1_N_CELLS", 4, true},
		{"BAT1_V_CHARGED", 4.05, false},
		{"BAT1_V_EMPTY", 3.6, false},
		{"COM_DISARM_LAND", 2, false},
		{"COM_DISARM_PRFLT", 10, false},
		{"COM_FAIL_ACT_T", 5, false},
		{"COM_LOW_BAT_ACT", 3, true},
		{"COM_OBL_RC_ACT", 5, true},
		{"COM_OF_LOSS_T", 1, false},
		{"MPC_LAND_ALT1", 10, false},
		{"MPC_LAND_SPEED", 0.7, false},
		{"MPC_TKO_SPEED", 1.5, false},
		{"MPC_XY_CRUISE", 5, false},
		{"MPC_XY_P", positionGain, false},
		{"MPC_XY_VEL_MAX", 12, false},
		{"MPC_Z_VEL_MAX_DN", 1.5, false},
		{"MPC_Z_VEL_MAX_UP", 3, false},
		{"MPC_Z_V_AUTO_DN", 1.5, false},
		{"MPC_Z_V_AUTO_UP", 3, false},
		{"NAV_DLL_ACT", 0, true},
		{"RTL_RETURN_ALT", 30, false},
	}
}

func (p params) index(name string) int {
	return slices.IndexFunc(p, func(q param) bool { return q.name == name })
}

func (p params) names() (list []string) {
	for _, q := range p {
		list = append(list, q.name)
	}
	return list
}

// get returns a parameter that the vehicle itself uses.
func (p params) get(name string) float64 {
	if i := p.index(name); i >= 0 {
		return p[i].value
	}
	c := counterparts[name] // of an ArduCopter
	if c.name == "" {
		return c.unit
	}
	return p[p.index(c.name)].value * c.unit
}

// paramsOf are the defaults of a configuration's kind of autopilot.
func paramsOf(c *Config) params {
	if c.Copter {
		return copterParams(c.CapacityJ)
	}
	return defaultParams(c.CapacityJ)
}

// set changes a parameter, and reports whether there is one of that name and the value
// is valid: none of these may be negative.
func (p params) set(name string, x float64) bool {
	i := p.index(name)
	if c, ok := counterparts[name]; ok && i < 0 {
		if c.name == "" {
			return true // it has none, or always the same
		}
		i, x = p.index(c.name), x/c.unit
	}
	if i < 0 || !(x >= 0 && x <= math.MaxInt32) {
		return false
	}
	p[i].value = x
	return true
}

// setAll changes parameters in the order of their names, and returns the first that is refused. The order matters to an
// ArduCopter: several of PX4's have one counterpart, and the last of them is set, MPC_XY_VEL_MAX after MPC_XY_CRUISE.
func (p params) setAll(values map[string]float64) (refused string) {
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if !p.set(name, values[name]) && refused == "" {
			refused = name
		}
	}
	return refused
}

// paramValues returns the PARAM_VALUEs of the parameters from..to-1, none for a range
// out of bounds.
func (p params) paramValues(from, to int) (out []message.Message) {
	for i := from; 0 <= from && to <= len(p) && i < to; i++ {
		out = append(out, p.paramValue(i))
	}
	return out
}

// paramValue is PARAM_VALUE of parameter i.
func (p params) paramValue(i int) *common.MessageParamValue {
	m := &common.MessageParamValue{
		ParamId: p[i].name, ParamValue: float32(p[i].value), ParamType: common.MAV_PARAM_TYPE_REAL32,
		ParamCount: uint16(len(p)), ParamIndex: uint16(i),
	}
	if p[i].integer {
		m.ParamValue, m.ParamType = math.Float32frombits(uint32(int32(p[i].value))), common.MAV_PARAM_TYPE_INT32
	}
	return m
}

// handleParamSet handles PARAM_SET; of a wrong type it changes nothing. It returns which parameter is answered, -1 for none.
func (p params) handleParamSet(m *common.MessageParamSet) (i int) {
	i = p.index(m.ParamId)
	ok := i >= 0
	switch {
	case !ok:
	case p[i].integer && m.ParamType == common.MAV_PARAM_TYPE_INT32:
		ok = p.set(m.ParamId, float64(int32(math.Float32bits(m.ParamValue))))
	case !p[i].integer && m.ParamType == common.MAV_PARAM_TYPE_REAL32:
		ok = p.set(m.ParamId, float64(m.ParamValue))
	}
	if !ok {
		return -1
	}
	return i
}
