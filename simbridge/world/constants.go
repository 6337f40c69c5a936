package world

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
)

// constants returns the world without what happens in one mission: shocks, gusts, wind,
// a payload, an edge factor, a change of demand, a dense start, losses, a trace, its length
// and its fleet are the standard world's. Two worlds with equal constants are the same to a policy.
func (c Config) constants() Config {
	s := Standard()
	c.Shock, c.Gust, c.DenseStart, c.AircraftLosses, c.Trace = s.Shock, s.Gust, s.DenseStart, s.AircraftLosses, s.Trace
	c.SecondShock, c.EdgeFactor, c.Demand = s.SecondShock, s.EdgeFactor, s.Demand
	c.Wind, c.Payload = s.Wind, s.Payload
	c.Slots, c.Aircraft = s.Slots, s.Aircraft
	return c
}

// SameConstants reports whether two worlds have equal constants.
func (c Config) SameConstants(other Config) bool { return len(c.ConstantDifferences(other)) == 0 }

// ConstantDifferences lists the constants in which two worlds differ, as
// Differences does. A trace stands in place of what is drawn, which then is no
// difference.
func (c Config) ConstantDifferences(here Config) []string {
	a, b := c.constants(), here.constants()
	if c.Trace != nil || here.Trace != nil {
		physics, userCPUHz := b.Physics, b.UserCPUHz
		b = a
		b.Physics, b.UserCPUHz = physics, userCPUHz
	}
	return a.Differences(b)
}

// Differences lists the YAML keys in which two worlds differ, each with both
// values, as in "physics.altitude_m 100, here 80".
func (c Config) Differences(here Config) []string { return differences(flatten(c), flatten(here)) }

// differences compares what flatten returns.
func differences(a, b map[string]string) []string {
	var list []string
	for _, key := range slices.Sorted(maps.Keys(b)) {
		if a[key] != b[key] {
			list = append(list, fmt.Sprintf("%s %s, here %s", key, a[key], b[key]))
		}
	}
	return list
}

// flatten returns a world's values by their dotted keys, as JSON has them.
func flatten(c Config) map[string]string {
	all := map[string]string{"losses": "none", "trace": "none", "path_loss_exponent": "2", "active_memory": "0"} // which JSON leaves out
	var walk func(prefix string, raw json.RawMessage)
	walk = func(prefix string, raw json.RawMessage) {
		var inner map[string]json.RawMessage
		if raw[0] != '{' || prefix == "trace" || json.Unmarshal(raw, &inner) != nil {
			all[prefix] = string(raw)
			return
		}
		for key, value := range inner {
			if prefix != "" {
				key = prefix + "." + key
			}
			walk(key, value)
		}
	}
	walk("", encode(c))
	return all
}

func encode(v any) json.RawMessage {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err) // numbers, checked to be finite, and strings
	}
	return raw
}

// physicsKey of a world in JSON; a manifest has the physics by itself.
const physicsKey = "physics"

// Record returns the users and tasks of a world as JSON, for the manifest of a
// checkpoint that is trained in it, and nil for those of the standard world.
// What a manifest holds elsewhere, physics, length and fleet, is left out.
func (c Config) Record() json.RawMessage {
	s, c := Standard(), c.constants()
	c.Physics = s.Physics
	if reflect.DeepEqual(c, s) {
		return nil
	}
	var all, standard map[string]json.RawMessage
	json.Unmarshal(encode(c), &all) // of our own encoding
	json.Unmarshal(encode(s), &standard)
	maps.DeleteFunc(all, func(key string, value json.RawMessage) bool {
		return key == physicsKey || bytes.Equal(value, standard[key])
	})
	return encode(all)
}

// FromRecord returns the standard world with what Record returned, checked.
func FromRecord(record json.RawMessage) (Config, error) {
	c := Standard()
	if len(record) == 0 {
		return c, nil
	}
	var all, standard map[string]json.RawMessage
	json.Unmarshal(encode(c), &standard) // of our own encoding
	err := json.Unmarshal(record, &all)
	for key := range all {
		if _, known := standard[key]; !known || key == physicsKey {
			return c, fmt.Errorf("recorded world: unknown key %.64q", key)
		}
	}
	if err == nil {
		err = json.Unmarshal(record, &c)
	}
	if err == nil {
		err = c.Check()
	}
	if err != nil {
		return c, fmt.Errorf("recorded world: %w", err)
	}
	return c.constants(), nil
}
