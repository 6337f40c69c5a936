package fly

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"sync"
	"time"

	"prefdt/inference/physics"
	"prefdt/simbridge/autopilot"
	"prefdt/simbridge/battery"
	"prefdt/simbridge/px4"
)

// craft is one aircraft of the flight, simulated here or attached to.
type craft interface {
	State() autopilot.State
	SetSlot(slot int, at time.Time)
	AddEdgeJ(slot int, joules float64)
	BySlot() map[int]battery.Spent
}

// fleet is the aircraft and what is true of them together.
type fleet struct {
	autopilots []craft
	attached   []*px4.Vehicle
	closers    []func()
	latency    latency

	mutex       sync.Mutex
	slots       int // T, as far as known: what counts as in the mission
	body        []autopilot.Body
	trail       [][]physics.Position // ten points a slot
	steps       []int
	lost        []bool  // for good, also if it is heard again
	separationM float64 // least horizontal distance in the slots
	speedMPS    float64 // greatest in the slots
}

func newFleet(c *Config, log *slog.Logger) (*fleet, error) {
	n := len(c.Aircraft)
	f := &fleet{
		slots: math.MaxInt, body: make([]autopilot.Body, n), trail: make([][]physics.Position, n),
		steps: make([]int, n), lost: make([]bool, n), separationM: math.Inf(1),
	}
	f.latency.init(c)
	var links []*px4.Link
	for i := range n {
		conf := c.autopilot(i)
		conf.Log = log
		conf.Moved = func(slot int, b autopilot.Body) { f.moved(i, slot, b) }
		conf.Heard = func(h autopilot.Heard) { f.latency.setpoint(i, h) }
		if at := c.Aircraft[i].Attach; at != "" {
			v := &px4.Vehicle{Config: px4.Config{
				SystemID: conf.SystemID, Origin: conf.Origin, Speed: conf.Speed, CapacityJ: conf.CapacityJ,
				PowerW: conf.PowerW, Moved: conf.Moved, Log: log,
			}}
			f.attached, f.autopilots = append(f.attached, v), append(f.autopilots, v)
			k := slices.IndexFunc(links, func(l *px4.Link) bool { return l.Address == at })
			if k < 0 {
				k, links = len(links), append(links, &px4.Link{Address: at})
			}
			links[k].Vehicles = append(links[k].Vehicles, v)
			continue
		}
		f.body[i].Position = conf.Start
		a := &autopilot.Autopilot{Config: conf}
		if err := a.Initialize(); err != nil {
			f.close()
			return nil, fmt.Errorf("aircraft %d: %w", i+1, err)
		}
		f.closers, f.autopilots = append(f.closers, a.Close), append(f.autopilots, a)
	}
	for _, l := range links {
		if err := l.Initialize(); err != nil {
			f.close()
			return nil, err
		}
		f.closers = append(f.closers, l.Close)
	}
	return f, nil
}

func (f *fleet) close() {
	for _, c := range f.closers {
		c()
	}
}

// await waits until the attached autopilots can fly.
func (f *fleet) await(ctx context.Context) error {
	poll := time.NewTicker(50 * time.Millisecond)
	defer poll.Stop()
	for _, v := range f.attached {
		for {
			missing, err := v.Ready(time.Now())
			if err != nil {
				return err
			}
			if missing == nil {
				break
			}
			select {
			case <-poll.C:
			case <-ctx.Done():
				return missing
			}
		}
	}
	return nil
}

// lose finds attached autopilots that have died since the last call, and says
// whether any is left.
func (f *fleet) lose(now time.Time) (numbers []int, left bool) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	for i, a := range f.autopilots {
		if v, ok := a.(*px4.Vehicle); ok && !f.lost[i] && v.Lost(now) {
			f.lost[i] = true
			numbers = append(numbers, i+1)
		}
	}
	return numbers, slices.Contains(f.lost, false)
}

// isLost tells whether autopilot i has died.
func (f *fleet) isLost(i int) bool {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	return f.lost[i]
}

// moved is called by autopilot i after each step of its dynamics.
func (f *fleet) moved(i, slot int, b autopilot.Body) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.body[i] = b
	if slot < 0 || slot >= f.slots {
		return
	}
	f.speedMPS = max(f.speedMPS, b.SpeedMPS())
	for j := range f.body {
		if j != i {
			f.separationM = min(f.separationM, at(b).Sub(at(f.body[j])).Norm())
		}
	}
	if f.steps[i]%10 == 0 {
		f.trail[i] = append(f.trail[i], at(b))
	}
	f.steps[i]++
}

func at(b autopilot.Body) physics.Position {
	return physics.Position{EastM: b.Position.EastM, NorthM: b.Position.NorthM}
}

// position is where aircraft i truly is.
func (f *fleet) position(i int) physics.Position {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	return at(f.body[i])
}

func (f *fleet) bodies() []autopilot.Body {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	return slices.Clone(f.body)
}

// seen returns where the aircraft flew in the slots, how close they came and
// how fast they were.
func (f *fleet) seen() (trails [][]physics.Position, separationM, speedMPS float64) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	for _, t := range f.trail {
		trails = append(trails, slices.Clone(t))
	}
	return trails, f.separationM, f.speedMPS
}

// setSlot books what follows a moment in a slot; T is after the mission.
func (f *fleet) setSlot(slot int, at time.Time) {
	for _, a := range f.autopilots {
		a.SetSlot(slot, at)
	}
}

func (f *fleet) setSlots(slots int) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.slots = slots
}

// spentJ is what the slots 0 to T-1 have cost so far.
func (f *fleet) spentJ(slots int) (joules float64) {
	for _, a := range f.autopilots {
		for slot, s := range a.BySlot() {
			if slot >= 0 && slot < slots {
				joules += s.J()
			}
		}
	}
	return joules
}

// home tells whether every aircraft that has not died is on the ground with its
// motors off.
func (f *fleet) home() bool {
	for i, a := range f.autopilots {
		if s := a.State(); !f.isLost(i) && (!s.Landed || s.Armed) {
			return false
		}
	}
	return true
}
