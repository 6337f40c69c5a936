// Package physics holds the closed forms of the paper's Sec. III: rotary-wing
// propulsion, the air-ground channel, and the split of a task between a user's
// CPU and an aircraft's.
//
// Inputs: the physical constants of a deployment, and positions, speeds, gains or
// tasks. Outputs: powers, rates, times, energies and offload ratios. Every function
// is deterministic and keeps no state. The policy's features, exact dispatch, the
// leader and the simulated world all call the same functions.
package physics

import (
	"fmt"
	"math"
	"reflect"
)

// Position is a point, or a displacement, in metres east and north. Points are
// relative to the area's south-west corner.
type Position struct {
	EastM  float64 `json:"east_m" yaml:"east_m"`
	NorthM float64 `json:"north_m" yaml:"north_m"`
}

// Sub returns the vector from q to p.
func (p Position) Sub(q Position) Position { return Position{p.EastM - q.EastM, p.NorthM - q.NorthM} }

// Add returns p displaced by d.
func (p Position) Add(d Position) Position { return Position{p.EastM + d.EastM, p.NorthM + d.NorthM} }

// Scale returns p times k.
func (p Position) Scale(k float64) Position { return Position{p.EastM * k, p.NorthM * k} }

// Norm returns the length of p in metres.
func (p Position) Norm() float64 { return math.Hypot(p.EastM, p.NorthM) }

// Dot returns the inner product of p and q.
func (p Position) Dot(q Position) float64 { return p.EastM*q.EastM + p.NorthM*q.NorthM }

// Valid reports whether p can be a position: at most 1e7 m, a quarter meridian, away.
func (p Position) Valid() bool { return math.Abs(p.EastM) <= 1e7 && math.Abs(p.NorthM) <= 1e7 }

// ClampToArea returns the point nearest to p in the square area of a side, or p if
// the side is not positive.
func (p Position) ClampToArea(areaM float64) Position {
	if areaM <= 0 {
		return p
	}
	return Position{min(max(p.EastM, 0), areaM), min(max(p.NorthM, 0), areaM)}
}

// Constants are the physical constants of one deployment. A slot is one
// second throughout, so watts and joules per slot are the same number.
type Constants struct {
	AltitudeM        float64 `json:"altitude_m" yaml:"altitude_m"`       // H
	AreaSideM        float64 `json:"area_m" yaml:"area_m"`               // side of the square area that aircraft keep to
	SpeedMaxMPS      float64 `json:"speed_max_mps" yaml:"speed_max_mps"` // V_max, C1
	SeparationM      float64 `json:"separation_m" yaml:"separation_m"`   // D_min, C2
	BatteryCapacityJ float64 `json:"capacity_j" yaml:"capacity_j"`       // E_max of each aircraft, C6

	Propulsion Propulsion `json:"propulsion" yaml:"propulsion"`
	Channel    Channel    `json:"channel" yaml:"channel"`

	EdgeCPUHz           float64 `json:"edge_cpu_hz" yaml:"edge_cpu_hz"` // f_max of each aircraft
	SwitchedCapacitance float64 `json:"kappa" yaml:"kappa"`             // effective switched capacitance, kappa_c
	PenaltyS            float64 `json:"penalty_s" yaml:"penalty_s"`     // chi, seconds per missed deadline
	// Contention divides one aircraft's bandwidth B among the users it serves. It is
	// off in the paper's model, where each user has a channel of its own.
	Contention bool `json:"contention" yaml:"contention"`
}

// DefaultConstants returns the constants of the standard world: those that the paper
// prints or cites and, where it does not, values calibrated to its results.
func DefaultConstants() Constants {
	return Constants{
		AltitudeM: 100, AreaSideM: 1000, SpeedMaxMPS: 30, SeparationM: 10, BatteryCapacityJ: 150e3,
		Propulsion: Propulsion{BladeW: 79.9, InducedW: 88.6, TipMPS: 120, InducedMPS: 4.03, Parasite: 0.02},
		Channel: Channel{
			CarrierHz: 2e9, UrbanA: 9.61, UrbanB: 0.16,
			LoS:         ChannelCondition{ExcessDB: 1, ShadowDB: 2, NakagamiM: 3},
			NLoS:        ChannelCondition{ExcessDB: 20, ShadowDB: 6, NakagamiM: 1},
			BandwidthHz: 1e6, TransmitW: 0.1, NoiseDBm: paperNoiseDBm,
		},
		EdgeCPUHz: 40e9, SwitchedCapacitance: 1e-28, PenaltyS: 0.65,
	}
}

// Check returns an error that names, by its YAML key, the first constant that is not
// finite, or not positive where it has to be, or so large or small that powers and rates are
// no numbers any more.
func (c Constants) Check() error {
	if err := checkConstants("", reflect.ValueOf(c)); err != nil {
		return err
	}
	if w := c.SwitchedCapacitance * c.EdgeCPUHz * c.EdgeCPUHz * c.EdgeCPUHz; !(w <= maxPowerW) {
		return fmt.Errorf("physics constant kappa is %v: a CPU of %v Hz draws %v W, want at most %v", c.SwitchedCapacitance, c.EdgeCPUHz, w,
			maxPowerW)
	}
	if w := c.Propulsion.PowerW(c.SpeedMaxMPS); !(w <= maxPowerW) {
		return fmt.Errorf("physics constants of propulsion give %v W at %v m/s, want at most %v", w, c.SpeedMaxMPS, maxPowerW)
	}
	if gain := c.Channel.MeanGain(0, c.AltitudeM); !(gain > 0 && gain <= 1) {
		return fmt.Errorf("physics constants of channel give a mean gain of %v below the aircraft, want above 0 and at most 1", gain)
	}
	return nil
}

// Bounds of the constants, far beyond any aircraft.
const (
	maxConstant = 1e15
	maxPowerW   = 1e9
	maxDB       = 300
	maxNakagami = 64 // the fading of which is next to none
)

// mayBeZero lists the keys of the constants for which zero is a meaningful value.
var mayBeZero = map[string]bool{"excess_db": true, "shadow_db": true, "penalty_s": true, "parasite": true, "separation_m": true}

func checkConstants(prefix string, v reflect.Value) error {
	for i := range v.NumField() {
		key, field := v.Type().Field(i).Tag.Get("yaml"), v.Field(i)
		switch field.Kind() {
		case reflect.Struct:
			if err := checkConstants(prefix+key+".", field); err != nil {
				return err
			}
		case reflect.Float64:
			x := field.Float()
			switch {
			case math.IsNaN(x) || math.IsInf(x, 0):
				return fmt.Errorf("physics constant %s%s is %v, want a finite number", prefix, key, x)
			case key == "noise_dbm":
				if math.Abs(x) > maxDB {
					return fmt.Errorf("physics constant %s%s is %v, want -%v to %v", prefix, key, x, maxDB, maxDB)
				}
			case key == "nakagami" && (x != math.Round(x) || x > maxNakagami):
				return fmt.Errorf("physics constant %s%s is %v, want an integer from 1 to %v", prefix, key, x, maxNakagami)
			case x > maxConstant || (key == "excess_db" || key == "shadow_db") && x > maxDB:
				return fmt.Errorf("physics constant %s%s is %v, which is too large", prefix, key, x)
			case x < 0 || x == 0 && !mayBeZero[key]:
				return fmt.Errorf("physics constant %s%s is %v, want a positive number", prefix, key, x)
			}
		}
	}
	return nil
}
