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
	"math/rand/v2"
	"slices"

	"prefdt/inference/physics"
	"prefdt/inference/reuse"
	"prefdt/inference/slot"
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
	// UserCPUMinHz and UserCPUMaxHz, if set, give each user a speed of its own, log-uniform.
	UserCPUMinHz float64    `json:"user_cpu_min_hz" yaml:"user_cpu_min_hz"`
	UserCPUMaxHz float64    `json:"user_cpu_max_hz" yaml:"user_cpu_max_hz"`
	Throttling   Throttling `json:"throttling" yaml:"throttling"`
	Walking      Walking    `json:"walking" yaml:"walking"`
	Groups       Groups     `json:"groups" yaml:"groups"`
	// ActiveMemory is the probability that the users active in a slot are those of the slot before. How many are active,
	// and who, has the same distribution with it as without.
	ActiveMemory float64 `json:"active_memory,omitempty" yaml:"active_memory"`
	// PathLossExponent is that of a gain's fall with distance, from 1 m on; 2, or 0 (unset), is free space, which is what
	// every scheduler reckons with.
	PathLossExponent float64 `json:"path_loss_exponent,omitempty" yaml:"path_loss_exponent"`

	// SkylineDeg is the correlation angle of line of sight over the azimuth of each
	// user: what stands around it blocks the sky as long as it stays. 0: sight is drawn
	// anew in each slot.
	SkylineDeg float64 `json:"skyline_deg" yaml:"skyline_deg"`
	// ShadowingDeg is that of shadowing.
	ShadowingDeg float64 `json:"shadowing_deg" yaml:"shadowing_deg"`
	// Sounding makes the gain of a report one sample of fading, while an upload
	// averages fading out: it runs at the typical one.
	Sounding bool `json:"sounding" yaml:"sounding"`

	// Shock multiplies propulsion power from a slot on (Sec. VI).
	Shock Shock `json:"shock" yaml:"shock"`
	// SecondShock replaces Shock from its slot on.
	SecondShock Shock `json:"second_shock" yaml:"second_shock"`
	// Gust is the relative standard deviation of flight power, drawn per slot and aircraft.
	Gust    float64 `json:"gust" yaml:"gust"`
	Wind    Wind    `json:"wind" yaml:"wind"`
	Payload Payload `json:"payload" yaml:"payload"`
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
	if err := checkBounds([]bound{
		{"aircraft", float64(c.Aircraft), 1, 64},
		{"users", float64(c.Users), 0, 4096},
		{"slots", float64(c.Slots), 1, 1e6},
		{"active_min", float64(c.ActiveMin), 0, float64(c.ActiveMax)},
		{"active_max", float64(c.ActiveMax), 0, 4096},
		{"task_probability", c.TaskProbability, 0, 1},
		{"active_memory", c.ActiveMemory, 0, 0.999},
		{"path_loss_exponent", c.PathLossExponent, 0, 6},
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
	}); err != nil {
		return err
	}
	if err := c.checkElements(); err != nil {
		return err
	}
	for _, l := range c.AircraftLosses {
		if l.Aircraft < 0 || l.Aircraft >= c.Aircraft {
			return fmt.Errorf("world loss of aircraft %d, want 0 to %d", l.Aircraft, c.Aircraft-1)
		}
	}
	if c.Trace != nil {
		return c.Trace.Check(c.Physics.AreaSideM, c.slowestUserHz())
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

// Arrival is a user that is active in a slot.
type Arrival struct {
	User   int          // index into World.Users
	Task   physics.Task // no bits: it is idle
	Gain   []float64    // power gain to each aircraft, as reported
	Upload []float64    // power gain to each aircraft that an upload runs at
}

// Aircraft is one aircraft's state at the start of a slot.
type Aircraft struct {
	Position physics.Position
	SpeedMPS float64    // in the slot before
	Served   int        // users served in the slot before
	Flown    slot.Flown // in the slot before
	SpentJ   float64    // in slots
	EdgeJ    float64    // of it, on computing
	Lost     bool
	Left     bool    // for home: Lost as well
	WayJ     float64 // on the way there, so far
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
	Idle     []Arrival // active users without a task

	scenario        Scenario
	active          []Arrival
	results         []slot.Result // that arrive before the present slot's decision
	lateResults     []slot.Result // and before the next one's
	gains, oldGains []float64     // gains of a slot stay as they are for one slot more
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
	w.scenario.Reset(c, seed)
	w.Users = reuse.Slice(w.Users, c.UserCount())
	w.results, w.lateResults = w.results[:0], w.lateResults[:0]
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
	return (homeS + 2) * w.bestSpeedPowerW * w.scenario.PowerFactor(w.Slot)
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
	for u := range w.Users {
		w.Users[u] = w.scenario.UserPosition(w.Slot, u)
	}
	w.gains, w.oldGains = w.oldGains[:0], w.gains
	w.active = w.scenario.Active(w.Slot, w.active[:0])
	w.Arrivals, w.Idle = w.Arrivals[:0], w.Idle[:0]
	for _, a := range w.active {
		w.drawGains(&a)
		if a.Task.Bits > 0 {
			w.Arrivals = append(w.Arrivals, a)
		} else {
			w.Idle = append(w.Idle, a)
		}
	}
}

// drawGains draws the gains of an arrival to every aircraft.
func (w *World) drawGains(a *Arrival) {
	n := len(w.Aircraft)
	both := slices.Grow(w.gains, 2*n)
	first := len(both)
	both = both[:first+2*n]
	w.gains, a.Gain, a.Upload = both, both[first:first+n:first+n], both[first+n:first+2*n:first+2*n]
	for m := range w.Aircraft {
		a.Gain[m], a.Upload[m] = w.scenario.Gain(w.Slot, a.User, m, w.Aircraft[m].Position.Sub(w.Users[a.User]))
	}
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
	w.results, w.lateResults = append(w.results[:0], w.lateResults...), w.lateResults[:0]
	for i := range w.Arrivals {
		if m := w.server(a, i); m >= 0 {
			w.served[m]++
		}
	}
	for i := range w.Arrivals {
		m, rho := w.server(a, i), 0.0
		if m >= 0 {
			rho = min(max(a.Offload[i], 0), 1)
		}
		completion, edgeJ := w.settle(&w.Arrivals[i], m, rho)
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
			aircraft.SpeedMPS, aircraft.Flown = 0, slot.Flown{}
			if aircraft.Left {
				w.flyHome(m)
			}
			continue
		}
		to := aircraft.Position.Add(c.limitMove(a.Move[m]))
		to.EastM = min(max(to.EastM, 0), c.Physics.AreaSideM)
		to.NorthM = min(max(to.NorthM, 0), c.Physics.AreaSideM)
		velocity := to.Sub(aircraft.Position)
		aircraft.SpeedMPS = velocity.Norm()
		aircraft.Position = to
		o.FlightJ[m] = w.scenario.FlightPowerW(w.Slot, m, velocity)
		aircraft.Flown = slot.Flown{EastMPS: velocity.EastM, NorthMPS: velocity.NorthM, FlightJ: o.FlightJ[m]}
		aircraft.SpentJ += o.FlightJ[m] + o.EdgeJ[m]
		aircraft.EdgeJ += o.EdgeJ[m]
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

// settle computes a task as decided, by the true speeds, and keeps its result: m is the
// serving aircraft from 0, or -1, and rho is what that computes of the task.
func (w *World) settle(a *Arrival, m int, rho float64) (completionS, edgeJ float64) {
	c, t := &w.Config, &a.Task
	localS := t.LocalTimeS(w.scenario.CPUHz(w.Slot, a.User))
	r := slot.Result{User: a.User, Slot: w.Slot, CompletionS: localS}
	var upload slot.Upload
	if m >= 0 {
		n := float64(w.served[m])
		share := c.Physics.EqualShare(a.Upload[m], c.Physics.EdgeCPUHz, n)
		r.CompletionS = physics.CompletionS(localS, t.OffloadTimeS(share), rho)
		r.Aircraft = m + 1
		edgeJ = c.Physics.EdgeJ(*t, share, rho)
		upload = slot.Upload{Bits: rho * t.Bits, S: rho * t.Bits / share.RateBPS, BandwidthShare: 1, User: w.Users[a.User],
			Aircraft: w.Aircraft[m].Position}
		if c.Physics.Contention {
			upload.BandwidthShare = 1 / n
		}
	}
	if c.HidesState() {
		r.LocalS, r.LocalCycles = (1-rho)*localS, (1-rho)*t.Cycles()
		if upload.Bits > 0 {
			r.Upload = upload
		}
	}
	switch { // a task is reported when it ends, and its result counts for two slots
	case r.CompletionS <= 1:
		w.results = append(w.results, r)
	case r.CompletionS <= 2:
		w.lateResults = append(w.lateResults, r)
	}
	return r.CompletionS, edgeJ
}

// ReportIsLost decides by seed, slot and user which reports are lost on the way to the leader.
func ReportIsLost(seed uint64, slot, user int, fraction float64) bool {
	return rand.New(rand.NewPCG(seed, uint64(slot)<<32|uint64(user))).Float64() < fraction
}
