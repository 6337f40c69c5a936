package config

import (
	"fmt"
	"maps"
	"slices"

	"prefdt/inference/belief/learned"
	"prefdt/inference/physics"
)

// Surroundings is the state that persists around a mission and is in no report, so that the
// policy's estimator has to look for it. The zero value hides nothing: reports are exact
// and the air is calm.
type Surroundings struct {
	Wind       bool               `yaml:"wind"`
	Payload    bool               `yaml:"payload"`
	Sounding   bool               `yaml:"sounding"`
	SlowCPU    float64            `yaml:"slow_cpu"`
	Contention bool               `yaml:"contention"`
	Radio      map[string]float64 `yaml:"radio"`
}

// radioConstants are the constants of the radio that depend on the surroundings.
var radioConstants = []struct {
	key    string
	lo, hi float64
	of     func(*physics.Channel) *float64
}{
	{"urban_a", 0.1, 100, func(c *physics.Channel) *float64 { return &c.UrbanA }},
	{"urban_b", 0.001, 10, func(c *physics.Channel) *float64 { return &c.UrbanB }},
	{"los_excess_db", 0, 100, func(c *physics.Channel) *float64 { return &c.LoS.ExcessDB }},
	{"los_shadow_db", 0, 30, func(c *physics.Channel) *float64 { return &c.LoS.ShadowDB }},
	{"nlos_excess_db", 0, 100, func(c *physics.Channel) *float64 { return &c.NLoS.ExcessDB }},
	{"nlos_shadow_db", 0, 30, func(c *physics.Channel) *float64 { return &c.NLoS.ShadowDB }},
}

// check returns the first value that is wrong.
func (s *Surroundings) check() error {
	if s.SlowCPU != 0 && !(s.SlowCPU >= 0.05 && s.SlowCPU <= 0.95) {
		return fmt.Errorf("surroundings.slow_cpu is %v, want 0.05 to 0.95, or 0: phones do not throttle", s.SlowCPU)
	}
	known := []string{}
	for _, c := range radioConstants {
		known = append(known, c.key)
		if x, given := s.Radio[c.key]; given && !(x >= c.lo && x <= c.hi) {
			return fmt.Errorf("surroundings.radio.%s is %v, want %v to %v", c.key, x, c.lo, c.hi)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(s.Radio)) {
		if !slices.Contains(known, key) {
			return fmt.Errorf("surroundings.radio has %q, want one of %q", key, known)
		}
	}
	return nil
}

// Hidden is whether anything is hidden that an estimator may find out.
func (s *Surroundings) Hidden() bool { return s.Wind || s.Payload || s.Sounding || s.SlowCPU > 0 }

// Physics returns a checkpoint's constants with the radio of these surroundings.
func (s *Surroundings) Physics(trained physics.Constants) physics.Constants {
	for _, c := range radioConstants {
		if x, given := s.Radio[c.key]; given {
			*c.of(&trained.Channel) = x
		}
	}
	trained.Contention = trained.Contention || s.Contention
	return trained
}

// OutOfDistribution is whether delays and joules on the checkpoint's front are not those
// of a mission here: of another radio, or of other users. Wind and payload change what a
// mission costs and not what it is, as a shock does.
func (s *Surroundings) OutOfDistribution(trained physics.Constants) bool {
	return s.Sounding || s.SlowCPU > 0 || s.Physics(trained) != trained
}

// sensorSD is the standard deviation of what current sensors read over the truth: they are off by some percent.
const sensorSD = 0.04

// Expected returns the surroundings as an estimator takes them.
func (s *Surroundings) Expected(p *physics.Constants) learned.Surroundings {
	return learned.Surroundings{
		Physics: p, Sounding: s.Sounding, Wind: s.Wind, Payload: s.Payload, SensorSD: sensorSD, Slow: s.SlowCPU,
	}
}
