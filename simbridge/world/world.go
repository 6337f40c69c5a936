// Package world simulates the system of the paper's Sec. III: ground users
// whose tasks arrive slot by slot, an air-ground channel, aircraft that move
// and spend joules.
//
// Inputs: a Config, which configs/world.yaml documents, a seed, and in each slot
// an Action, the scheduler's decision. Outputs: in each slot a Snapshot of what
// a scheduler may know, and the Outcome, delay and joules. Every offline program
// flies its episodes here; simbridge/users draws the users of a flight over MQTT
// from the same functions.
//
// Within a slot the active users and their tasks arrive, gains are drawn at the
// positions held then, the scheduler decides knowing them, tasks settle, energy
// is recorded, and the aircraft move. An episode is a function of its seed and
// of the decisions alone.
package world

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"prefdt/inference/physics"
	"prefdt/simbridge/world/trace"
)

// Config describes a world. Standard is the paper's; every field changes one
// thing and nothing else.
type Config struct {
	Physics  physics.Constants `json:"physics" yaml:"physics"`
	Aircraft int               `json:"aircraft" yaml:"aircraft"` // M
	Users    int               `json:"users" yaml:"users"`       // U
	Slots    int               `json:"slots" yaml:"slots"`       // T

	ActiveMin       int     `json:"active_min" yaml:"active_min"` // users active in a slot, uniform
	ActiveMax       int     `json:"active_max" yaml:"active_max"`
	TaskProbability float64 `json:"task_probability" yaml:"task_probability"` // p_a of an active user
	BitsMin         float64 `json:"bits_min" yaml:"bits_min"`                 // D_u, uniform
	BitsMax         float64 `json:"bits_max" yaml:"bits_max"`
	CyclesPerBit    float64 `json:"cycles_per_bit" yaml:"cycles_per_bit"` // C_u
	DeadlineMinS    float64 `json:"deadline_min_s" yaml:"deadline_min_s"` // tau_u, uniform
	DeadlineMaxS    float64 `json:"deadline_max_s" yaml:"deadline_max_s"`
	UserCPUHz       float64 `json:"user_cpu_hz" yaml:"user_cpu_hz"` // f_loc

	// Shock multiplies propulsion power from a slot on (Sec. VI).
	Shock Shock `json:"shock" yaml:"shock"`
	// SecondShock replaces Shock from its slot on.
	SecondShock Shock `json:"second_shock" yaml:"second_shock"`
	// Gust is the relative standard deviation of flight power, drawn per slot and aircraft.
	Gust float64 `json:"gust" yaml:"gust"`
	// EdgeFactor multiplies the joules that edge computing really takes, over the
	// closed form that every scheduler reckons with. 1, or 0 (unset), is none.
	EdgeFactor float64 `json:"edge_factor" yaml:"edge_factor"`
	// Demand multiplies the number of users active from a slot on. Above 1 there are
	// as many times more users, the first of them the same.
	Demand Shock `json:"demand" yaml:"demand"`
	// DenseStart starts the fleet on a ring at the area's centre, neighbours at
	// 1.5 times the least separation, so that C2 binds.
	DenseStart bool `json:"crowded" yaml:"crowded"`
	// AircraftLosses take aircraft out of the air for good.
	AircraftLosses []AircraftLoss `json:"losses,omitempty" yaml:"losses"`
	// Trace replays recorded users and tasks in place of the drawn ones; nil: none.
	Trace *trace.Trace `json:"trace,omitempty" yaml:"trace"`
}

// Shock is a multiplier from a slot on. A factor of 1, or 0 (unset), is none.
type Shock struct {
	FromSlot int     `json:"from_slot" yaml:"from_slot"`
	Factor   float64 `json:"factor" yaml:"factor"`
}

// AircraftLoss is an aircraft, counted from 0, that neither serves nor flies from a slot on.
type AircraftLoss struct {
	Aircraft int `json:"aircraft" yaml:"aircraft"`
	Slot     int `json:"slot" yaml:"slot"`
}

// Standard returns the paper's world, which configs/world.yaml documents.
func Standard() Config {
	return Config{
		Physics:  physics.DefaultConstants(),
		Aircraft: 2, Users: 10, Slots: 100,
		ActiveMin: 4, ActiveMax: 8, TaskProbability: 0.9,
		BitsMin: 0.5e6, BitsMax: 1.5e6, CyclesPerBit: 1000,
		DeadlineMinS: 0.5, DeadlineMaxS: 1.5, UserCPUHz: 1e9,
	}
}

// Check returns what is wrong with a configuration.
func (c *Config) Check() error {
	if err := c.Physics.Check(); err != nil {
		return err
	}
	for _, l := range []physics.ChannelCondition{c.Physics.Channel.LoS, c.Physics.Channel.NLoS} {
		if l.NakagamiM != math.Trunc(l.NakagamiM) || l.NakagamiM > 64 {
			return fmt.Errorf("nakagami is %v, want an integer from 1 to 64", l.NakagamiM)
		}
	}
	for _, r := range []struct {
		name      string
		x, lo, hi float64
	}{
		{"aircraft", float64(c.Aircraft), 1, 64},
		{"users", float64(c.Users), 0, 4096},
		{"slots", float64(c.Slots), 1, 1e6},
		{"active_min", float64(c.ActiveMin), 0, float64(c.ActiveMax)},
		{"active_max", float64(c.ActiveMax), 0, 4096},
		{"task_probability", c.TaskProbability, 0, 1},
		{"bits_min", c.BitsMin, 1, c.BitsMax},
		{"bits_max", c.BitsMax, 1, 1e12},
		{"cycles_per_bit", c.CyclesPerBit, 1, 1e9},
		{"deadline_min_s", c.DeadlineMinS, 1e-3, c.DeadlineMaxS},
		{"deadline_max_s", c.DeadlineMaxS, 1e-3, 1e4},
		{"user_cpu_hz", c.UserCPUHz, 1, 1e13},
		{"shock.factor", c.Shock.Factor, 0, 10},
		{"second_shock.factor", c.SecondShock.Factor, 0, 10},
		{"gust", c.Gust, 0, 1},
		{"edge_factor", c.EdgeFactor, 0, 10},
		{"demand.factor", c.Demand.Factor, 0, 10},
	} {
		if !(r.x >= r.lo && r.x <= r.hi) {
			return fmt.Errorf("world %s is %v, want %v to %v", r.name, r.x, r.lo, r.hi)
		}
	}
	for _, l := range c.AircraftLosses {
		if l.Aircraft < 0 || l.Aircraft >= c.Aircraft {
			return fmt.Errorf("world loss of aircraft %d, want 0 to %d", l.Aircraft, c.Aircraft-1)
		}
	}
	if c.Trace != nil {
		return c.Trace.Check(c.Physics.AreaSideM, c.UserCPUHz)
	}
	return nil
}

// Start returns where aircraft m begins: (A (m+1)/(M+1), A/2).
func (c *Config) Start(m int) physics.Position {
	a := c.Physics.AreaSideM
	if c.DenseStart && c.Aircraft > 1 {
		step := 2 * math.Pi / float64(c.Aircraft)
		r := 1.5 * c.Physics.SeparationM / (2 * math.Sin(step/2))
		return physics.Position{EastM: a/2 + r*math.Cos(step*float64(m)), NorthM: a/2 + r*math.Sin(step*float64(m))}
	}
	return physics.Position{EastM: a * float64(m+1) / float64(c.Aircraft+1), NorthM: a / 2}
}

// at returns the multiplier in force in a slot.
func (s Shock) at(slot int) float64 {
	if s.Factor != 0 && slot >= s.FromSlot {
		return s.Factor
	}
	return 1
}

// PropulsionFactor returns the propulsion multiplier in force in a slot.
func (c *Config) PropulsionFactor(slot int) float64 {
	if c.SecondShock.Factor != 0 && slot >= c.SecondShock.FromSlot {
		return c.SecondShock.Factor
	}
	return c.Shock.at(slot)
}

// EdgeEnergyFactor returns the joules of edge computing over its closed form.
func (c *Config) EdgeEnergyFactor() float64 { return cmp.Or(c.EdgeFactor, 1) }

// Arrival is a user that is active in a slot and has a task.
type Arrival struct {
	User int // index into World.Users
	Task physics.Task
	Gain []float64 // power gain to each aircraft, drawn at its position
}

// Aircraft is one aircraft's state at the start of a slot.
type Aircraft struct {
	Position physics.Position
	SpeedMPS float64 // in the slot before
	Served   int     // users served in the slot before
	SpentJ   float64
	Lost     bool
}

// Action is the joint decision of one slot, eq. (action). Server and Offload
// follow the slot's arrivals: the serving aircraft counted from 1, or 0 for
// local, and rho. Move is each aircraft's displacement in metres.
type Action struct {
	Server  []int
	Offload []float64
	Move    []physics.Position
}

// Outcome is what a slot cost.
type Outcome struct {
	DelayS  float64   // completions plus penalties, Delta T
	Missed  int       // deadlines missed
	FlightJ []float64 // per aircraft
	EdgeJ   []float64 // per aircraft
}

// EnergyJ returns the fleet's joules of the slot, Delta E.
func (o *Outcome) EnergyJ() float64 {
	sum := 0.0
	for m := range o.FlightJ {
		sum += o.FlightJ[m] + o.EdgeJ[m]
	}
	return sum
}

// World is one episode.
type World struct {
	Config   Config
	Seed     uint64
	Slot     int
	Users    []physics.Position
	Aircraft []Aircraft
	Arrivals []Arrival // of the present slot

	activeScratch   []int
	gainBuffer      []float64
	served          []int
	outcome         Outcome
	bestSpeedMPS    float64 // v*
	bestSpeedPowerW float64
}

// New returns the episode of a seed, in its first slot.
func New(c Config, seed uint64) *World {
	w := &World{Config: c}
	w.Reset(seed)
	return w
}

// Reset starts the episode of another seed in the same memory.
func (w *World) Reset(seed uint64) {
	c := &w.Config
	w.Seed, w.Slot = seed, 0
	w.Users = w.Users[:0]
	for u := range c.UserCount() {
		w.Users = append(w.Users, c.UserPosition(seed, 0, u))
	}
	w.Aircraft = slices.Grow(w.Aircraft[:0], c.Aircraft)
	for m := range c.Aircraft {
		w.Aircraft = append(w.Aircraft, Aircraft{Position: c.Start(m)})
	}
	w.outcome.FlightJ = make([]float64, c.Aircraft)
	w.outcome.EdgeJ = make([]float64, c.Aircraft)
	w.served = make([]int, c.Aircraft)
	w.bestSpeedMPS, w.bestSpeedPowerW = c.Physics.MinPower()
	w.drawArrivals()
}

// Done reports whether the last slot has settled.
func (w *World) Done() bool { return w.Slot >= w.Config.Slots }

// reserveJ is what aircraft m must keep to return to its start: the way at v*,
// and two slots (C6).
func (w *World) reserveJ(m int) float64 {
	homeS := w.Config.Start(m).Sub(w.Aircraft[m].Position).Norm() / w.bestSpeedMPS
	return (homeS + 2) * w.bestSpeedPowerW * w.Config.PropulsionFactor(w.Slot)
}

// drawArrivals draws the slot's active users, tasks and gains. An aircraft that
// has to return for its battery counts as lost from then on.
func (w *World) drawArrivals() {
	for m := range w.Aircraft {
		if w.Config.Physics.BatteryCapacityJ-w.Aircraft[m].SpentJ < w.reserveJ(m) {
			w.Aircraft[m].Lost = true
		}
	}
	for _, l := range w.Config.AircraftLosses {
		if w.Slot >= l.Slot {
			w.Aircraft[l.Aircraft].Lost = true
		}
	}
	if w.Config.Trace != nil { // users move
		for u := range w.Users {
			w.Users[u] = w.Config.UserPosition(w.Seed, w.Slot, u)
		}
	}
	w.Arrivals = w.Config.Tasks(w.Seed, w.Slot, &w.activeScratch, w.Arrivals[:0])
	w.gainBuffer = slices.Grow(w.gainBuffer[:0], len(w.Arrivals)*len(w.Aircraft))
	for i := range w.Arrivals {
		first := len(w.gainBuffer)
		for m := range w.Aircraft {
			u := w.Arrivals[i].User
			w.gainBuffer = append(w.gainBuffer, w.Config.Gain(w.Seed, w.Slot, u, m, w.Users[u].Sub(w.Aircraft[m].Position).Norm()))
		}
		w.Arrivals[i].Gain = w.gainBuffer[first:len(w.gainBuffer):len(w.gainBuffer)]
	}
}

// Gain draws the power gain between a user and an aircraft in a slot: line of
// sight, log-normal shadowing and Nakagami fading at a horizontal distance.
func (c *Config) Gain(seed uint64, slot, user, aircraft int, horizontalM float64) float64 {
	d := newStream(seed, purposeChannel, slot, user, aircraft)
	channel := &c.Physics.Channel
	link := channel.NLoS
	if d.uniform() < channel.LoSProbability(horizontalM, c.Physics.AltitudeM) {
		link = channel.LoS
	}
	db := link.ShadowDB*d.normal() - link.ExcessDB
	return channel.FreeSpaceGain(horizontalM, c.Physics.AltitudeM) * math.Exp(db*math.Ln10/10) * d.gamma(int(link.NakagamiM))
}

// FlightPowerW returns the power aircraft m draws in a slot at a speed:
// eq. (prop) times the multiplier in force and the slot's gust.
func (c *Config) FlightPowerW(seed uint64, slot, aircraft int, speedMPS float64) float64 {
	power := c.Physics.Propulsion.PowerW(speedMPS) * c.PropulsionFactor(slot)
	if c.Gust > 0 {
		d := newStream(seed, purposeGust, slot, 0, aircraft)
		power *= max(0, 1+c.Gust*d.normal())
	}
	return power
}

// Step settles the slot under an action, moves the aircraft, and draws the next
// slot. The outcome is valid until the next call. An action that violates the
// constraints C1, C3 or C4, or leaves the area, is limited to them.
func (w *World) Step(a Action) *Outcome {
	c := &w.Config
	o := &w.outcome
	o.DelayS, o.Missed = 0, 0
	clear(o.FlightJ)
	clear(o.EdgeJ)
	clear(w.served)
	for i := range w.Arrivals {
		if m := w.server(a, i); m >= 0 {
			w.served[m]++
		}
	}
	for i := range w.Arrivals {
		m := w.server(a, i)
		gain, served, rho := 0.0, 0, 0.0
		if m >= 0 {
			gain, served, rho = w.Arrivals[i].Gain[m], w.served[m], min(max(a.Offload[i], 0), 1)
		}
		completion, edgeJ := c.Settle(w.Arrivals[i].Task, gain, served, rho)
		o.DelayS += c.Physics.PenalizedDelayS(w.Arrivals[i].Task, completion)
		if completion > w.Arrivals[i].Task.DeadlineS {
			o.Missed++
		}
		if m >= 0 {
			o.EdgeJ[m] += edgeJ * c.EdgeEnergyFactor()
		}
	}
	for m := range w.Aircraft {
		aircraft := &w.Aircraft[m]
		aircraft.Served = w.served[m]
		if aircraft.Lost {
			aircraft.SpeedMPS = 0
			continue
		}
		to := aircraft.Position.Add(c.limitMove(a.Move[m]))
		to.EastM = min(max(to.EastM, 0), c.Physics.AreaSideM)
		to.NorthM = min(max(to.NorthM, 0), c.Physics.AreaSideM)
		aircraft.SpeedMPS = to.Sub(aircraft.Position).Norm()
		aircraft.Position = to
		o.FlightJ[m] = c.FlightPowerW(w.Seed, w.Slot, m, aircraft.SpeedMPS)
		aircraft.SpentJ += o.FlightJ[m] + o.EdgeJ[m]
	}
	w.Slot++
	if !w.Done() {
		w.drawArrivals()
	}
	return o
}

// server returns the aircraft, from 0, that serves arrival i, or -1.
func (w *World) server(a Action, i int) int {
	m := a.Server[i] - 1
	if m < 0 || m >= len(w.Aircraft) || w.Aircraft[m].Lost {
		return -1
	}
	return m
}

// limitMove limits a displacement to what V_max allows in a slot, C1.
func (c *Config) limitMove(move physics.Position) physics.Position {
	d := move.Norm()
	if d > c.Physics.SpeedMaxMPS {
		return move.Scale(c.Physics.SpeedMaxMPS / d)
	}
	if math.IsNaN(d) {
		return physics.Position{}
	}
	return move
}

// Settle returns a task's completion and edge energy when a fraction rho is
// offloaded to an aircraft that serves that many users; none served is local.
func (c *Config) Settle(t physics.Task, gain float64, served int, rho float64) (completionS, edgeJ float64) {
	if served == 0 {
		return t.LocalTimeS(c.UserCPUHz), 0
	}
	share := c.Physics.EqualShare(gain, c.Physics.EdgeCPUHz, float64(served))
	return physics.CompletionS(t.LocalTimeS(c.UserCPUHz), t.OffloadTimeS(share), rho), c.Physics.EdgeJ(t, share, rho)
}
