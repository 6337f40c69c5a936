package fly

import (
	"fmt"
	"log/slog"
	"math"
	"slices"
	"sync"
	"time"

	"prefdt/inference/physics"
	"prefdt/simbridge/autopilot"
)

// fleet is the simulated aircraft and what is true of them together.
type fleet struct {
	autopilots []*autopilot.Autopilot

	mutex       sync.Mutex
	slots       int // T, as far as known: what counts as in the mission
	body        []autopilot.Body
	trail       [][]physics.Position // ten points a slot
	steps       []int
	separationM float64 // least horizontal distance in the slots
	speedMPS    float64 // greatest in the slots
}

func newFleet(c *Config, log *slog.Logger) (*fleet, error) {
	n := len(c.Aircraft)
	f := &fleet{
		slots: math.MaxInt, body: make([]autopilot.Body, n), trail: make([][]physics.Position, n),
		steps: make([]int, n), separationM: math.Inf(1),
	}
	for i := range n {
		conf := c.autopilot(i)
		conf.Log = log
		f.body[i].Position = conf.Start
		conf.Moved = func(slot int, b autopilot.Body) { f.moved(i, slot, b) }
		f.autopilots = append(f.autopilots, &autopilot.Autopilot{Config: conf})
	}
	for i, a := range f.autopilots {
		if err := a.Initialize(); err != nil {
			f.autopilots = f.autopilots[:i]
			f.close()
			return nil, fmt.Errorf("aircraft %d: %w", i+1, err)
		}
	}
	return f, nil
}

func (f *fleet) close() {
	for _, a := range f.autopilots {
		a.Close()
	}
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

// home tells whether every aircraft is on the ground with its motors off.
func (f *fleet) home() bool {
	for _, a := range f.autopilots {
		if s := a.State(); !s.Landed || s.Armed {
			return false
		}
	}
	return true
}
