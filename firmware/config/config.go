// Package config is the leader's configuration. Inputs: a file like
// configs/leader.yaml. Outputs: a Config that is read over the defaults and checked,
// or the first fault in one line. The leader and its checks call it.
package config

import (
	"cmp"
	"crypto/ed25519"
	"fmt"
	"net"
	"net/url"
	"slices"
	"time"

	"prefdt/configs"
	"prefdt/firmware/fleet"
	"prefdt/firmware/mission"
	"prefdt/firmware/workers"
	"prefdt/inference"
	"prefdt/inference/checkpoint"
	"prefdt/inference/goal"
	"prefdt/inference/physics"
	"prefdt/telemetry"
)

// Config is configs/leader.yaml, where each key is explained.
type Config struct {
	Fleet        string  `yaml:"fleet"`
	Mission      string  `yaml:"mission"`
	StateDir     string  `yaml:"state_dir"`
	Checkpoint   string  `yaml:"checkpoint"`
	Decoder      string  `yaml:"decoder"`
	Slots        int     `yaml:"slots"`
	SlotMS       float64 `yaml:"slot_ms"`
	ReportByMS   float64 `yaml:"report_by_ms"`
	DecideByMS   float64 `yaml:"decide_by_ms"`
	ExitWhenDone bool    `yaml:"exit_when_done"`
	LogLevel     string  `yaml:"log"`
	MetricsPort  int     `yaml:"metrics_port"`
	LedgerMB     float64 `yaml:"ledger_mb"`

	Request  Request          `yaml:"request"`
	Broker   telemetry.Broker `yaml:"broker"`
	Commands Commands         `yaml:"commands"`
	Users    Users            `yaml:"users"`
	Aircraft []Aircraft       `yaml:"aircraft"`
	MAVLink  MAVLink          `yaml:"mavlink"`
	Origin   fleet.Origin     `yaml:"origin"`
	Flight   Flight           `yaml:"flight"`

	Surroundings Surroundings `yaml:"surroundings"`

	LeaderKeyFile string `yaml:"leader_key"`
	RecordFile    string `yaml:"record"`
}

// Request is what flies before the first command.
type Request struct {
	Setting float64 `yaml:"setting"`
	BudgetJ float64 `yaml:"budget_j"`
	Mode    string  `yaml:"mode"`
}

// Commands configures whose commands the leader accepts.
type Commands struct {
	Unsigned string            `yaml:"unsigned"`
	Keys     map[string]string `yaml:"keys"`
}

// Users limits who may report, and how much a report weighs.
type Users struct {
	Max          int      `yaml:"max"`
	Allow        []string `yaml:"allow"`
	LargestClaim float64  `yaml:"largest_claim"` // over a large task of the checkpoint's corpus
}

// Aircraft is one aircraft; its place in the list is its number.
type Aircraft struct {
	SystemID int         `yaml:"system_id"`
	Endpoint string      `yaml:"endpoint"`
	StartM   *[2]float64 `yaml:"start_m"`
	PackJ    float64     `yaml:"pack_j"`
	Worker   string      `yaml:"worker"`
	GrantKey string      `yaml:"grant_key"`
}

// MAVLink is the leader on the links.
type MAVLink struct {
	SystemID     int    `yaml:"system_id"`
	RealAircraft bool   `yaml:"real"`
	KeyFile      string `yaml:"key_file"`
}

// Flight is how the fleet flies beyond what the policy decides.
type Flight struct {
	mission.Limits     `yaml:",inline"`
	SpeedMaxMPS        float64 `yaml:"speed_max_mps"`
	ReserveJ           float64 `yaml:"reserve_j"`
	StartWithinM       float64 `yaml:"start_within_m"`
	Failsafe           string  `yaml:"failsafe"`
	ResumeAfterRestart bool    `yaml:"resume_after_restart"`
}

// Workers are those of the fleet's aircraft.
func (c *Config) Workers() (list []workers.Worker) {
	for _, a := range c.Aircraft {
		list = append(list, workers.Worker{Address: a.Worker, GrantKey: a.GrantKey})
	}
	return list
}

// Defaults are what an absent key means.
func Defaults() Config {
	return Config{
		Fleet: "demo", Mission: "mission-1", StateDir: "out/leader", Checkpoint: checkpoint.DefaultFolder, Decoder: "dispatch",
		Slots: 100, SlotMS: 1000, ReportByMS: 300, DecideByMS: 450, LogLevel: "info", LedgerMB: 64,
		Request:  Request{Setting: 0.5, Mode: "target"},
		Broker:   telemetry.Broker{URL: "tcp://127.0.0.1:1883"},
		Commands: Commands{Unsigned: "loopback"},
		Users:    Users{Max: 4096, LargestClaim: 1},
		MAVLink:  MAVLink{SystemID: 250},
		Origin:   fleet.Origin{LatitudeDeg: 47.3977, LongitudeDeg: 8.5456, AltitudeM: 488},
		Flight: Flight{
			Limits:      mission.Limits{ClimbS: 180, BrokerHoldS: 30, BrokerReturnS: 120, CrewHoldS: 30, CrewReturnS: 120},
			SpeedMaxMPS: 30, ReserveJ: 15e3, StartWithinM: 200, Failsafe: "refuse", ResumeAfterRestart: true,
		},
	}
}

// Load reads a configuration file over the defaults and checks it.
func Load(path string) (Config, error) {
	c := Defaults()
	if err := configs.Load(path, &c); err != nil {
		return c, err
	}
	if err := c.Check(); err != nil {
		return c, fmt.Errorf("configuration %s: %w", path, err)
	}
	return c, nil
}

// SpeedFactor is mission seconds per second.
func (c *Config) SpeedFactor() float64 { return 1000 / c.SlotMS }

// WallTime turns mission seconds into wall time.
func (c *Config) WallTime(missionS float64) time.Duration {
	return time.Duration(missionS * c.SlotMS * float64(time.Millisecond))
}

// StartPosition is where an aircraft begins slot 0: as configured, or as in the paper's Sec. III.
func (c *Config) StartPosition(number int, areaM float64) physics.Position {
	if s := c.Aircraft[number-1].StartM; s != nil {
		return physics.Position{EastM: s[0], NorthM: s[1]}
	}
	return physics.Position{EastM: areaM * float64(number) / float64(len(c.Aircraft)+1), NorthM: areaM / 2}
}

// CheckStarts returns which aircraft would begin slot 0 outside the area, whose side the
// checkpoint has: no setpoint leads there.
func (c *Config) CheckStarts(areaM float64) error {
	for i := range c.Aircraft {
		if p := c.StartPosition(i+1, areaM); p != p.ClampToArea(areaM) {
			return fmt.Errorf("start_m of aircraft %d is [%v, %v], want each 0 to %v, inside the area", i+1, p.EastM, p.NorthM, areaM)
		}
	}
	return nil
}

// Check returns the first value that is wrong, in one line.
func (c *Config) Check() error {
	for _, check := range []func() error{c.checkIDs, c.checkRanges, c.checkChoices, c.Origin.Check, c.Broker.Check, c.checkAircraft,
		c.Surroundings.check} {
		if err := check(); err != nil {
			return err
		}
	}
	if c.MAVLink.RealAircraft && c.SlotMS != 1000 {
		return fmt.Errorf("slot_ms is %v with mavlink.real, want 1000: real aircraft fly in real time", c.SlotMS)
	}
	if c.StateDir == "" {
		return fmt.Errorf("state_dir is empty, want a directory that survives a restart")
	}
	_, err := c.PublicKeys()
	return err
}

func (c *Config) checkIDs() error {
	for _, id := range []struct{ key, value string }{{"fleet", c.Fleet}, {"mission", c.Mission}} {
		if !telemetry.ValidID(id.value) {
			return fmt.Errorf("%s is %q, want 1 to 64 of A-Z a-z 0-9 . _ -", id.key, id.value)
		}
	}
	for _, id := range c.Users.Allow {
		if !telemetry.ValidID(id) {
			return fmt.Errorf("users.allow has %q, want 1 to 64 of A-Z a-z 0-9 . _ -", id)
		}
	}
	return nil
}

func (c *Config) checkRanges() error {
	for _, r := range []struct {
		key       string
		x, lo, hi float64
	}{
		{"slots", float64(c.Slots), 1, 1e6},
		{"slot_ms", c.SlotMS, 10, 60000},
		{"report_by_ms", c.ReportByMS, 1, c.DecideByMS - 1},
		{"decide_by_ms", c.DecideByMS, 2, c.SlotMS - 1},
		{"request.setting", c.Request.Setting, 0, 1},
		{"request.budget_j", c.Request.BudgetJ, 0, 1e12},
		{"metrics_port", float64(c.MetricsPort), 0, 65535},
		{"ledger_mb", c.LedgerMB, 1, 2048},
		{"users.max", float64(c.Users.Max), 1, 4096},
		{"users.largest_claim", c.Users.LargestClaim, 1, 1e6},
		{"aircraft (how many)", float64(len(c.Aircraft)), 1, telemetry.MaxAircraft},
		{"mavlink.system_id", float64(c.MAVLink.SystemID), 1, 255},
		{"flight.speed_max_mps", c.Flight.SpeedMaxMPS, 1, 100},
		{"flight.reserve_j", c.Flight.ReserveJ, 0, 1e9},
		{"flight.climb_s", c.Flight.ClimbS, 1, 3600},
		{"flight.broker_hold_s", c.Flight.BrokerHoldS, 1, 3600},
		{"flight.broker_return_s", c.Flight.BrokerReturnS, c.Flight.BrokerHoldS, 7200},
		{"flight.crew_hold_s", c.Flight.CrewHoldS, 1, 3600},
		{"flight.crew_return_s", c.Flight.CrewReturnS, c.Flight.CrewHoldS, 7200},
		{"flight.start_within_m", c.Flight.StartWithinM, 1, 1e4},
	} {
		if !(r.x >= r.lo && r.x <= r.hi) {
			return fmt.Errorf("%s is %v, want %v to %v", r.key, r.x, r.lo, r.hi)
		}
	}
	return nil
}

func (c *Config) checkChoices() error {
	return cmp.Or(
		checkChoice("request.mode", goal.Mode(c.Request.Mode), goal.Target, goal.Ceiling),
		checkChoice("commands.unsigned", c.Commands.Unsigned, "loopback", "yes", "no"),
		checkChoice("flight.failsafe", c.Flight.Failsafe, "refuse", "alarm"),
		checkChoice("decoder", inference.DecoderOf(c.Decoder), inference.Decoders()...),
		checkChoice("log", c.LogLevel, "debug", "info", "warn", "error"),
	)
}

func checkChoice[T ~string](key string, value T, want ...T) error {
	if slices.Contains(want, value) {
		return nil
	}
	return fmt.Errorf("%s is %q, want one of %q", key, value, want)
}

func (c *Config) checkAircraft() error {
	seen := map[string]int{}
	for i, a := range c.Aircraft {
		if a.SystemID < 1 || a.SystemID > 255 || a.SystemID == c.MAVLink.SystemID {
			return fmt.Errorf("aircraft %d has system_id %d, want 1 to 255 and not mavlink.system_id, %d", i+1, a.SystemID,
				c.MAVLink.SystemID)
		}
		if a.PackJ != 0 && !(a.PackJ >= 1e3 && a.PackJ <= 1e9) {
			return fmt.Errorf("aircraft %d has pack_j %v, want 1000 to 1e9 or, where its autopilot knows it, 0", i+1, a.PackJ)
		}
		if s := a.StartM; s != nil && !(min(s[0], s[1]) >= 0) { // CheckStarts knows the area
			return fmt.Errorf("start_m of aircraft %d is %v, want each 0 or more, inside the area", i+1, *s)
		}
		if host, port, err := net.SplitHostPort(a.Worker); a.Worker != "" && (err != nil || host == "" || port == "") ||
			a.GrantKey != "" && a.Worker == "" {
			return fmt.Errorf("aircraft %d has worker %q and grant_key %q, want host:port for a grant_key", i+1, a.Worker, a.GrantKey)
		}
		if _, err := fleet.ParseEndpoint(a.Endpoint); err != nil {
			return fmt.Errorf("aircraft %d: %w", i+1, err)
		}
		key := fmt.Sprintf("%s#%d", a.Endpoint, a.SystemID)
		if j, twice := seen[key]; twice {
			return fmt.Errorf("aircraft %d and %d are both system %d on %s", j, i+1, a.SystemID, a.Endpoint)
		}
		seen[key] = i + 1
	}
	return nil
}

// PublicKeys returns the keys whose commands are accepted, by name.
func (c *Config) PublicKeys() (map[string]ed25519.PublicKey, error) {
	keys := map[string]ed25519.PublicKey{}
	for name, text := range c.Commands.Keys {
		if !telemetry.ValidID(name) {
			return nil, fmt.Errorf("commands.keys has the name %q, want 1 to 64 of A-Z a-z 0-9 . _ -", name)
		}
		key, err := telemetry.ParsePublicKey(text)
		if err != nil {
			return nil, fmt.Errorf("commands.keys.%s: %w", name, err)
		}
		keys[name] = key
	}
	return keys, nil
}

// AcceptsUnsigned reports whether commands without a signature are accepted: never where
// keys are configured, or aircraft are real.
func (c *Config) AcceptsUnsigned() bool {
	if len(c.Commands.Keys) > 0 || c.MAVLink.RealAircraft {
		return false
	}
	if c.Commands.Unsigned != "loopback" {
		return c.Commands.Unsigned == "yes"
	}
	u, err := url.Parse(c.Broker.URL)
	return err == nil && (u.Hostname() == "localhost" || net.ParseIP(u.Hostname()).IsLoopback())
}

// NoCommands is why no command at all is accepted, and the cure; empty: some are.
func (c *Config) NoCommands() string {
	if len(c.Commands.Keys) > 0 || c.AcceptsUnsigned() {
		return ""
	}
	why := fmt.Sprintf("commands.unsigned is %s", c.Commands.Unsigned)
	switch {
	case c.MAVLink.RealAircraft:
		why = "mavlink.real, which is true, forbids unsigned ones"
	case c.Commands.Unsigned == "loopback":
		why += fmt.Sprintf(", and the broker, %s, is not on this machine", c.Broker.URL)
	}
	return "no command is accepted: commands.keys is empty, and " + why + "; put into commands.keys the line that `ground keygen -out " +
		"crew-1.key` prints"
}
