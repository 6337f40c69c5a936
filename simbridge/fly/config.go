package fly

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"syscall"

	"prefdt/inference/physics"
	"prefdt/simbridge/autopilot"
	"prefdt/simbridge/battery"
	"prefdt/simbridge/geo"
	"prefdt/simbridge/simnet"
	"prefdt/simbridge/world"
	"prefdt/telemetry"
	"prefdt/telemetry/command"
)

// Config is configs/fly.yaml, which documents the fields.
type Config struct {
	File        string  `yaml:"-"` // it was read from; empty: none
	Fleet       string  `yaml:"fleet"`
	Seed        uint64  `yaml:"seed"`
	Speed       float64 `yaml:"speed"`
	TimeoutS    float64 `yaml:"timeout_s"` // wall time
	StartRetryS float64 `yaml:"start_s"`   // wall time
	Out         string  `yaml:"out"`

	Broker BrokerConfig `yaml:"broker"`
	Origin geo.Point    `yaml:"origin"`
	World  world.Config `yaml:"world"` // its number of aircraft follows from Aircraft
	Users  UsersConfig  `yaml:"users"`

	Aircraft   []AircraftConfig   `yaml:"aircraft"`
	MAVLinkKey string             `yaml:"mavlink_key"` // file of the key that attached autopilots are given, and sign with
	Battery    battery.Fields     `yaml:"battery"`
	Parameters map[string]float64 `yaml:"parameters"`

	Leader   LeaderConfig `yaml:"leader"`
	Ground   []string     `yaml:"ground"`
	Commands []Command    `yaml:"commands"`

	Execute bool     `yaml:"execute"` // tasks are computed by the programs below, in real time
	Worker  []string `yaml:"worker"`
	User    []string `yaml:"user"`
	Blobs   []string `yaml:"blobs"`

	scaled         []string // says which budgets are other ones in the world that was loaded
	calibrateTasks int      // that measure what the function takes here; 0: as many as worker calibrate does itself

	// Tests fly on a network in memory, with the leader in this process and a sender in the place of the crew's tool.
	network *simnet.Network
	crew    func(ctx context.Context, broker telemetry.Broker, c Command, id string) (answer string, err error)
	// unjudged: the leader is a stand-in, which keeps no rule.
	unjudged   bool
	noPictures bool // most tests look at none, and drawing takes longer than the flight
}

// at is how a program of this process reaches the broker.
func (c *Config) at(broker telemetry.Broker, program string) telemetry.Broker {
	if c.network != nil {
		broker.Dial = c.network.Program(program).Dial
	}
	return broker
}

// BrokerConfig is a broker in this process when Listen is set, and one elsewhere at URL otherwise.
type BrokerConfig struct {
	Listen           string `yaml:"listen"`
	telemetry.Broker `yaml:",inline"`
}

// UsersConfig are how the ground users behave.
type UsersConfig struct {
	ReportLoss       float64 `yaml:"loss"`
	SharedConnection bool    `yaml:"shared_connection"`
}

// AircraftConfig is one aircraft: simulated on UDP or on a serial port, or a running
// PX4 or ArduCopter that is attached to.
type AircraftConfig struct {
	SystemID int    `yaml:"system_id"`
	Listen   string `yaml:"listen"`
	Partner  string `yaml:"partner"`
	Serial   string `yaml:"serial"`
	Monitor  string `yaml:"monitor"`
	Attach   string `yaml:"attach"`
	// Of a running instance whose link can be cut: where it sends to its leader, and where that listens.
	Relay [2]string `yaml:"relay"`
	Radio string    `yaml:"radio"` // where an ArduCopter's simulation receives its pilot's radio
	PackJ float64   `yaml:"pack_j"`
	// Autopilot is what is simulated: px4 or empty, or ardupilot.
	Autopilot string `yaml:"autopilot"`
}

// Attached reports whether any aircraft is a running instance.
func (c *Config) Attached() bool {
	return slices.ContainsFunc(c.Aircraft, func(a AircraftConfig) bool { return a.Attach != "" })
}

// Command is what the crew commands at a slot, -1 before the mission, or what happens then: to the leader, to a link, or by
// a pilot. With neither it is waited for.
type Command struct {
	Slot int      `yaml:"slot"`
	When string   `yaml:"when"` // what must hold besides; without a slot it may hold before the first
	Args []string `yaml:"run"`  // arguments of the ground program

	Kill     bool    `yaml:"kill"`  // the leader is killed, as by a loss of power, and started again
	CutS     float64 `yaml:"cut_s"` // nothing passes between the leader and the aircraft for so long, mission time
	Pilot    string  `yaml:"pilot"` // mode that the aircraft's pilot chooses
	Aircraft int     `yaml:"aircraft"`
}

// adviseInUse says what to do where an address is another program's, by the key that has it.
func (c *Config) adviseInUse(err error, what, address, key string) error {
	if !errors.Is(err, syscall.EADDRINUSE) {
		return err
	}
	return fmt.Errorf("%s address %s is in use by another program, `ss -tulpn` shows which: stop it, or choose another: %s in %s",
		what, address, key, cmp.Or(c.File, "the configuration"))
}

// FitPacks gives each aircraft a pack, from a list as "45kJ,60kJ".
func (c *Config) FitPacks(list string) error {
	packs := strings.Split(list, ",")
	if len(packs) != len(c.Aircraft) {
		return fmt.Errorf("packs: %d of %q, want one for each of %d aircraft", len(packs), list, len(c.Aircraft))
	}
	for i, text := range packs {
		joules, err := command.ParseEnergy(text)
		if err != nil {
			return fmt.Errorf("packs: %w", err)
		}
		c.Aircraft[i].PackJ = joules
	}
	return nil
}

// Autopilots of a flight's simulated aircraft.
const (
	PX4       = "px4"
	ArduPilot = "ardupilot"
	Mixed     = "mixed" // the first is px4, the second ardupilot, and so on
)

// FitAutopilots has all simulated aircraft fly one kind of autopilot, or two in turn.
func (c *Config) FitAutopilots(kind string) error {
	for i := range c.Aircraft {
		switch {
		case kind == PX4, kind == ArduPilot:
			c.Aircraft[i].Autopilot = kind
		case kind == Mixed:
			c.Aircraft[i].Autopilot = []string{PX4, ArduPilot}[i%2]
		default:
			return fmt.Errorf("autopilot is %q, want px4, ardupilot or mixed", kind)
		}
	}
	return c.Check()
}

// Default is what a configuration file starts from.
func Default() Config {
	return Config{
		Fleet: "demo", Seed: 1_000_000, Speed: 10, TimeoutS: 270, StartRetryS: 60, Out: "out/run",
		Origin: geo.Point{LatDeg: 47.397742, LonDeg: 8.545594, AltM: 488},
		World:  world.Standard(), Users: UsersConfig{ReportLoss: 0.1},
		Battery: battery.AllFields,
	}
}

// Check returns what is wrong with a configuration, and completes it.
func (c *Config) Check() error {
	c.World.Aircraft = len(c.Aircraft)
	if len(c.Aircraft) == 0 {
		return fmt.Errorf("aircraft: none, want at least 1")
	}
	if err := c.World.Check(); err != nil {
		return err
	}
	if _, err := telemetry.NewTopics(c.Fleet); err != nil {
		return err
	}
	for _, r := range []struct {
		name      string
		x, lo, hi float64
	}{
		{"speed", c.Speed, 0.01, 1000},
		{"timeout_s", c.TimeoutS, 1, 86400},
		{"start_s", c.StartRetryS, 0, 86400},
		{"users.loss", c.Users.ReportLoss, 0, 1},
		{"origin.lat_deg", c.Origin.LatDeg, -85, 85},
		{"origin.lon_deg", c.Origin.LonDeg, -180, 180},
		{"origin.alt_m", c.Origin.AltM, -500, 9000},
	} {
		if !(r.x >= r.lo && r.x <= r.hi) {
			return fmt.Errorf("%s is %v, want %v to %v", r.name, r.x, r.lo, r.hi)
		}
	}
	if c.Broker.Listen != "" {
		if _, _, err := net.SplitHostPort(c.Broker.Listen); err != nil {
			return fmt.Errorf("broker.listen is %q, want host:port", c.Broker.Listen)
		}
	} else if err := c.Broker.For("observer").Check(); err != nil {
		return err
	}
	ids := map[int]bool{}
	for i, a := range c.Aircraft {
		if a.SystemID < 1 || a.SystemID > 255 || ids[a.SystemID] {
			return fmt.Errorf("aircraft %d: system_id is %d, want 1 to 255 and no other's", i+1, a.SystemID)
		}
		ids[a.SystemID] = true
		if a.Autopilot != "" && a.Autopilot != PX4 && a.Autopilot != ArduPilot {
			return fmt.Errorf("aircraft %d has autopilot %q, want px4 or ardupilot", i+1, a.Autopilot)
		}
		if a.Autopilot != "" && a.Attach != "" {
			return fmt.Errorf("aircraft %d has autopilot %s and attach: a running instance says itself what it is", i+1, a.Autopilot)
		}
		conf := c.autopilotConfig(i, nil)
		if err := conf.Check(); err != nil {
			return fmt.Errorf("aircraft %d: %w", i+1, err)
		}
		ways := slices.DeleteFunc([]string{a.Listen, a.Serial, a.Attach}, func(way string) bool { return way == "" })
		if len(ways) != 1 {
			return fmt.Errorf("aircraft %d has %d of listen, serial and attach, want one", i+1, len(ways))
		}
	}
	if c.Execute && (c.Speed != 1 || c.Broker.Listen == "" || len(c.Worker) == 0 || len(c.User) == 0 || len(c.Blobs) == 0 ||
		c.Leader.Config == "" || c.World.HidesState() || c.World.Users > 100) {
		return fmt.Errorf("execute: want speed 1, broker.listen, a leader with its configuration, worker, user and blobs, and a world " +
			"of at most 100 users that hides nothing")
	}
	if len(c.Commands) > 0 && len(c.Ground) == 0 {
		return fmt.Errorf("ground: empty, want the program that sends the %d commands", len(c.Commands))
	}
	last := -1
	for _, command := range c.Commands {
		if err := command.check(len(c.Aircraft), last); err != nil {
			return err
		}
		if command.Kill && len(c.Leader.Command) == 0 {
			return fmt.Errorf("command %q: want a leader that this flight starts", &command)
		}
		last = max(last, command.Slot)
	}
	if k := c.Leader.KillSlots; len(k) > 0 && (len(c.Leader.Command) == 0 || !slices.IsSorted(k) || k[0] < 0) {
		return fmt.Errorf("leader.kill_slots is %v, want slots in order, of a leader that this flight starts", k)
	}
	return nil
}

// autopilotConfig is the configuration of aircraft i, from 0, which flies in a scenario.
func (c *Config) autopilotConfig(i int, truth *world.Scenario) autopilot.Config {
	start := c.World.Start(i)
	conf := autopilot.Config{
		SystemID: uint8(c.Aircraft[i].SystemID), Copter: c.Aircraft[i].Autopilot == ArduPilot, Listen: c.Aircraft[i].Listen,
		BootedS: 60, // nobody is to wait for its boot
		Partner: c.Aircraft[i].Partner,
		Serial:  c.Aircraft[i].Serial, SecondLink: c.Aircraft[i].Monitor,
		Origin: c.Origin, Start: geo.Local{EastM: start.EastM, NorthM: start.NorthM},
		Speed: c.Speed, CapacityJ: cmp.Or(c.Aircraft[i].PackJ, c.World.Physics.BatteryCapacityJ), Battery: c.Battery,
		Parameters: c.Parameters,
		PowerW: func(slot int, v geo.Local) float64 {
			return truth.FlightPowerW(slot, i, physics.Position{EastM: v.EastM, NorthM: v.NorthM})
		},
	}
	if c.network != nil {
		program := c.network.Program(fmt.Sprintf("autopilot-%d", i+1))
		conf.Open, conf.OpenSerial = program.Socket, program.Serial
	}
	return conf
}
