package world

import (
	"cmp"
	"fmt"
	"math"
)

// The elements of a field world: what a real field hides, and what persists for longer
// than a slot. The zero value of each is off and changes nothing.

// Wind blows over the whole area. Its mean is drawn once a mission; its direction
// walks; turbulence is Gauss-Markov on each axis and begins stationary.
type Wind struct {
	MeanMinMPS float64 `json:"mean_min_mps" yaml:"mean_min_mps"` // mean speed, uniform
	MeanMaxMPS float64 `json:"mean_max_mps" yaml:"mean_max_mps"`
	TurnRad    float64 `json:"turn_rad" yaml:"turn_rad"` // standard deviation of the change of direction in a slot

	TurbulenceMPS    float64 `json:"turbulence_mps" yaml:"turbulence_mps"`       // standard deviation, per axis
	TurbulenceMemory float64 `json:"turbulence_memory" yaml:"turbulence_memory"` // correlation of one slot with the next
}

func (w Wind) blows() bool { return w.MeanMaxMPS > 0 || w.TurbulenceMPS > 0 }

// Payload multiplies the whole fleet's flight power by one factor a mission, uniform.
type Payload struct {
	FactorMin float64 `json:"factor_min" yaml:"factor_min"`
	FactorMax float64 `json:"factor_max" yaml:"factor_max"` // 0: no factor
}

// Throttling lowers a user's CPU speed in spells, which its reports do not show.
// Spells, and the times between, are geometric; a user begins in the stationary state.
type Throttling struct {
	Factor   float64 `json:"factor" yaml:"factor"`         // true speed in a spell over the reported one; 0: no spells
	MeanOnS  float64 `json:"mean_on_s" yaml:"mean_on_s"`   // of a spell
	MeanOffS float64 `json:"mean_off_s" yaml:"mean_off_s"` // between two
}

// Duty returns the long-run fraction of time in a spell.
func (t Throttling) Duty() float64 { return t.MeanOnS / (t.MeanOnS + t.MeanOffS) }

// Walking moves each user by a Gauss-Markov velocity, from rest. Users stop at the
// edge of the area.
type Walking struct {
	SpeedSDMPS float64 `json:"speed_sd_mps" yaml:"speed_sd_mps"` // stationary standard deviation per axis; 0: they stand
	Memory     float64 `json:"memory" yaml:"memory"`             // correlation of one slot's velocity with the next's
}

// Groups puts user u into group u mod Count. The groups move; one at a time, the hot
// one, has most of the tasks. Every user is active in every slot.
type Groups struct {
	Count   int     `json:"count" yaml:"count"`       // 0: none
	SpreadM float64 `json:"spread_m" yaml:"spread_m"` // standard deviation of a member about its centre, per axis

	SpeedMPS   float64 `json:"speed_mps" yaml:"speed_mps"`       // of a centre, in a direction of its own; the edges reflect it
	SpeedSDMPS float64 `json:"speed_sd_mps" yaml:"speed_sd_mps"` // stationary standard deviation about that velocity, per axis
	Memory     float64 `json:"memory" yaml:"memory"`             // correlation of one slot's deviation with the next's

	HotTaskProbability   float64 `json:"hot_task_probability" yaml:"hot_task_probability"` // of each member of the hot group, in a slot
	OtherTaskProbability float64 `json:"other_task_probability" yaml:"other_task_probability"`
	ChangeProbability    float64 `json:"change_probability" yaml:"change_probability"` // that another group is hot in the next slot
}

// HidesState reports whether something lasts in this world that no report shows. Its
// users then add to their results how long the parts of the task took.
func (c *Config) HidesState() bool {
	return c.Wind.blows() || c.Payload.FactorMax > 0 || c.SkylineDeg > 0 || c.ShadowingDeg > 0 || c.Sounding || c.Throttling.Factor > 0
}

// usersMove reports whether drawn users move.
func (c *Config) usersMove() bool {
	return c.Trace == nil && (c.Walking.SpeedSDMPS > 0 || c.Groups.Count > 0)
}

// slowestUserHz returns the least speed that a user's CPU can have.
func (c *Config) slowestUserHz() float64 {
	return cmp.Or(c.UserCPUMinHz, c.UserCPUHz) * cmp.Or(c.Throttling.Factor, 1)
}

// maxDrawn bounds users x slots where an episode's draws are kept for every slot.
const maxDrawn = 200_000

// bound is the range of a number, by its YAML key.
type bound struct {
	name      string
	x, lo, hi float64
}

func checkBounds(list []bound) error {
	for _, b := range list {
		if !(b.x >= b.lo && b.x <= b.hi) {
			return fmt.Errorf("world %s is %v, want %v to %v", b.name, b.x, b.lo, b.hi)
		}
	}
	return nil
}

// checkElements returns what is wrong with the elements. What only an element that is
// off would use has to be in range, too.
func (c *Config) checkElements() error {
	least := func(on bool, x float64) float64 { // x if an element is on
		if on {
			return x
		}
		return 0
	}
	w, g := &c.Wind, &c.Groups
	if err := checkBounds([]bound{
		{"wind.mean_min_mps", w.MeanMinMPS, 0, w.MeanMaxMPS},
		{"wind.mean_max_mps", w.MeanMaxMPS, 0, 50},
		{"wind.turn_rad", w.TurnRad, 0, math.Pi},
		{"wind.turbulence_mps", w.TurbulenceMPS, 0, 20},
		{"wind.turbulence_memory", w.TurbulenceMemory, 0, 1},
		{"payload.factor_min", c.Payload.FactorMin, least(c.Payload.FactorMax > 0, 0.1), c.Payload.FactorMax},
		{"payload.factor_max", c.Payload.FactorMax, 0, 10},
		{"skyline_deg", c.SkylineDeg, least(c.SkylineDeg != 0, 5), 180},
		{"shadowing_deg", c.ShadowingDeg, least(c.ShadowingDeg != 0, 5), 180},
		{"user_cpu_min_hz", c.UserCPUMinHz, least(c.UserCPUMaxHz > 0, 1), c.UserCPUMaxHz},
		{"user_cpu_max_hz", c.UserCPUMaxHz, 0, 1e13},
		{"throttling.factor", c.Throttling.Factor, least(c.Throttling.Factor != 0, 1e-3), 1},
		{"throttling.mean_on_s", c.Throttling.MeanOnS, least(c.Throttling.Factor > 0, 1), 1e6},
		{"throttling.mean_off_s", c.Throttling.MeanOffS, least(c.Throttling.Factor > 0, 1), 1e6},
		{"walking.speed_sd_mps", c.Walking.SpeedSDMPS, 0, 50},
		{"walking.memory", c.Walking.Memory, 0, 1},
		{"groups.count", float64(g.Count), 0, 4096},
		{"groups.spread_m", g.SpreadM, 0, 1e5},
		{"groups.speed_mps", g.SpeedMPS, 0, 100},
		{"groups.speed_sd_mps", g.SpeedSDMPS, 0, 100},
		{"groups.memory", g.Memory, 0, 1},
		{"groups.hot_task_probability", g.HotTaskProbability, 0, 1},
		{"groups.other_task_probability", g.OtherTaskProbability, 0, 1},
		{"groups.change_probability", g.ChangeProbability, 0, 1},
	}); err != nil {
		return err
	}
	moves := c.usersMove() || c.Trace != nil && (c.SkylineDeg > 0 || c.ShadowingDeg > 0)
	if max(c.UserCount(), g.Count)*c.Slots > maxDrawn && (moves || c.Throttling.Factor > 0) {
		return fmt.Errorf("world has %d users in %d slots: with walking, groups, throttling, or a skyline over a trace, want users x "+
			"slots at most %d", c.UserCount(), c.Slots, maxDrawn)
	}
	return nil
}
