package fly

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"

	"github.com/goccy/go-yaml"

	"prefdt/configs"
	"prefdt/simbridge/world"
)

// LeaderConfig is how to start the leader.
type LeaderConfig struct {
	Command []string `yaml:"run"`    // program and arguments; empty: it is started elsewhere
	Config  string   `yaml:"config"` // its configuration, completed for this flight and given as -config; empty: none
	// KillSlots are slots in which it is killed, and started again.
	KillSlots []int `yaml:"kill_slots"`

	Checkpoint string `yaml:"-"` // folder of its policy; empty: its configuration's
	slots      int    // of its mission; 0: its configuration's
	// workers are the addresses and grant keys of the aircraft's workers; nil: none is started.
	workers []map[string]any
	// surroundings are what its estimator has to expect, and the radio; nil: its configuration's.
	surroundings map[string]any
}

// configuration reads the leader's configuration, with this flight's checkpoint
// and slots in place of its own, if it has any.
func (l *LeaderConfig) configuration() (map[string]any, error) {
	values := map[string]any{}
	if err := configs.Load(l.Config, &values); err != nil {
		return nil, fmt.Errorf("the leader's file: %w", err)
	}
	if l.Checkpoint != "" {
		values["checkpoint"] = l.Checkpoint
		if m, err := readManifest(l.Checkpoint); err == nil && m.Published != nil {
			values["decoder"] = "heads" // the published form has no other
		}
	}
	if l.slots > 0 {
		values["slots"] = l.slots
	}
	if fleet, ok := values["aircraft"].([]any); ok && l.workers != nil {
		for i := range fleet {
			if aircraft, ok := fleet[i].(map[string]any); ok && i < len(l.workers) {
				maps.Copy(aircraft, l.workers[i])
			}
		}
	}
	if l.surroundings != nil {
		values["surroundings"] = l.surroundings
	}
	return values, nil
}

// surroundingsOf returns what is known beforehand of a world that hides something: which
// state it has, not how it turns out, and the constants of its radio.
func surroundingsOf(c *world.Config) map[string]any {
	if !c.HidesState() {
		return nil
	}
	r := &c.Physics.Channel
	return map[string]any{
		"wind": c.Wind.MeanMaxMPS > 0, "payload": c.Payload.FactorMax > 0, "sounding": c.Sounding,
		"slow_cpu": c.Throttling.Factor, "contention": c.Physics.Contention,
		"radio": map[string]any{
			"urban_a": r.UrbanA, "urban_b": r.UrbanB, "los_excess_db": r.LoS.ExcessDB, "los_shadow_db": r.LoS.ShadowDB,
			"nlos_excess_db": r.NLoS.ExcessDB, "nlos_shadow_db": r.NLoS.ShadowDB,
		},
	}
}

// arguments returns the command line. The leader's configuration is copied into
// the output folder with what this flight decides: fleet, broker, a mission
// that is new, and a ledger that is empty.
func (l *LeaderConfig) arguments(out, fleet, mission, brokerURL string) ([]string, error) {
	if l.Config == "" || len(l.Command) == 0 {
		return l.Command, nil
	}
	values, err := l.configuration()
	if err != nil {
		return nil, err
	}
	state := filepath.Join(out, "leader")
	if err := os.RemoveAll(state); err != nil { // of the flight before
		return nil, fmt.Errorf("clear the leader's ledger: %w", err)
	}
	values["fleet"], values["mission"], values["state_dir"] = fleet, mission, state
	broker, ok := values["broker"].(map[string]any)
	if !ok {
		broker = map[string]any{}
	}
	broker["url"] = brokerURL
	values["broker"] = broker
	raw, err := yaml.Marshal(values)
	if err != nil {
		return nil, fmt.Errorf("leader's configuration: %w", err)
	}
	path := filepath.Join(out, "leader.yaml")
	if err := os.WriteFile(path, raw, 0o644); err != nil {
		return nil, fmt.Errorf("leader's configuration: %w", err)
	}
	return append(l.Command[:len(l.Command):len(l.Command)], "-config", path), nil
}
