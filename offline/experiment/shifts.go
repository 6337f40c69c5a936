package experiment

import (
	"fmt"

	"prefdt/offline/corpus"
	"prefdt/simbridge/world"
)

// Shift is an operating point away from the standard one.
type Shift struct {
	Name  string
	Apply func(*world.Config)
}

// Shifts are the fifteen shifted operating points.
var Shifts = []Shift{
	{"bandwidth x0.5", func(c *world.Config) { c.Physics.Channel.BandwidthHz *= 0.5 }},
	{"bandwidth x2", func(c *world.Config) { c.Physics.Channel.BandwidthHz *= 2 }},
	{"noise +10 dB", func(c *world.Config) { c.Physics.Channel.NoiseDBm += 10 }},
	{"suburban channel", func(c *world.Config) { setChannel(c, 4.88, 0.43, 0.1, 21) }},
	{"dense urban channel", func(c *world.Config) { setChannel(c, 12.08, 0.11, 1.6, 23) }},
	{"tasks x0.7", func(c *world.Config) { c.BitsMin, c.BitsMax = 0.7*c.BitsMin, 0.7*c.BitsMax }},
	{"tasks x1.4", func(c *world.Config) { c.BitsMin, c.BitsMax = 1.4*c.BitsMin, 1.4*c.BitsMax }},
	{"deadlines x0.7", func(c *world.Config) { c.DeadlineMinS, c.DeadlineMaxS = 0.7*c.DeadlineMinS, 0.7*c.DeadlineMaxS }},
	{"deadlines x1.4", func(c *world.Config) { c.DeadlineMinS, c.DeadlineMaxS = 1.4*c.DeadlineMinS, 1.4*c.DeadlineMaxS }},
	{"edge CPU x0.6", func(c *world.Config) { c.Physics.EdgeCPUHz *= 0.6 }},
	{"edge CPU x1.5", func(c *world.Config) { c.Physics.EdgeCPUHz *= 1.5 }},
	{"user CPU x1.5", func(c *world.Config) { c.UserCPUHz *= 1.5 }},
	{"users x2", func(c *world.Config) { c.Users, c.ActiveMin, c.ActiveMax = 2*c.Users, 2*c.ActiveMin, 2*c.ActiveMax }},
	{"airframe power x1.3", func(c *world.Config) {
		c.Physics.Propulsion.BladeW *= 1.3
		c.Physics.Propulsion.InducedW *= 1.3
	}},
	{"area 2000 m", func(c *world.Config) { c.Physics.AreaSideM = 2000 }},
}

func setChannel(c *world.Config, a, b, los, nlos float64) {
	ch := &c.Physics.Channel
	ch.UrbanA, ch.UrbanB, ch.LoS.ExcessDB, ch.NLoS.ExcessDB = a, b, los, nlos
}

// MissionShifts are other lengths, numbers of users and fleets.
var MissionShifts = []Shift{
	{"T 50", func(c *world.Config) { c.Slots = 50 }},
	{"T 300", func(c *world.Config) { c.Slots = 300 }},
	{"T 1200", func(c *world.Config) { c.Slots, c.Physics.BatteryCapacityJ = 1200, 500e3 }},
	{"U 50, M 4", func(c *world.Config) { c.Users, c.Aircraft, c.ActiveMin, c.ActiveMax = 50, 4, 20, 40 }},
	{"U 100, M 8", func(c *world.Config) { c.Users, c.Aircraft, c.ActiveMin, c.ActiveMax = 100, 8, 40, 80 }},
	{"one of 2 lost at slot 50", func(c *world.Config) { c.AircraftLosses = []world.AircraftLoss{{Aircraft: 0, Slot: 50}} }},
	{"one of 4 lost at slot 50", func(c *world.Config) { c.Aircraft, c.AircraftLosses = 4, []world.AircraftLoss{{Aircraft: 1, Slot: 50}} }},
	{"crowded, M 4", func(c *world.Config) { c.Aircraft, c.DenseStart = 4, true }},
	{"crowded, M 8", func(c *world.Config) { c.Aircraft, c.DenseStart = 8, true }},
	{"battery of 12 kJ", func(c *world.Config) { c.Physics.BatteryCapacityJ = 12e3 }},
}

// OutsideWorlds are those that the generator of training's flights does not draw.
func OutsideWorlds() (list []Shift) {
	for _, name := range world.OutsideNames() {
		list = append(list, Shift{name, func(c *world.Config) {
			if err := c.Load(name); err != nil {
				panic(err) // a name of its own
			}
		}})
	}
	return list
}

// RandomWorlds draws worlds as training does, about one that is given.
func RandomWorlds(base *world.Config, n int) (list []Shift) {
	for i := range n {
		w := corpus.RandomWorld(*base, 1<<50, i)
		name := fmt.Sprintf("world %d: M %d, U %d, T %d, %.0f m", i, w.Aircraft, w.Users, w.Slots, w.Physics.AreaSideM)
		list = append(list, Shift{name, func(c *world.Config) { *c = w }})
	}
	return list
}
