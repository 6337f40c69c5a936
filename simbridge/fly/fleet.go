package fly

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/bluenviron/gomavlib/v3/pkg/frame"

	firmwarefleet "prefdt/firmware/fleet"
	"prefdt/inference/physics"
	"prefdt/simbridge/autopilot"
	"prefdt/simbridge/battery"
	"prefdt/simbridge/sitl"
	"prefdt/simbridge/world"
)

// vehicle is one aircraft of the flight, simulated here or attached to.
type vehicle interface {
	State() autopilot.State
	SetSlot(slot int, at time.Time)
	AddEdgeJ(slot int, joules float64)
	BySlot() map[int]battery.Spent
	CutLinks(seconds float64)
	SetModeByRC(m autopilot.Mode)
}

// fleet is the aircraft of a flight, with the true state of all of them.
type fleet struct {
	vehicles []vehicle
	attached []*sitl.Vehicle
	closers  []func()
	latency  latency

	mutex          sync.Mutex
	slots          int // T, as far as known: what counts as in the mission
	lastBodies     []autopilot.Body
	trails         [][]physics.Position // ten points a slot
	steps          []int
	grounds        []groundContact
	lost           []bool  // for good, also if it is in contact again
	minSeparationM float64 // least horizontal distance in the slots
	maxSpeedMPS    float64 // greatest in the slots
}

func newFleet(c *Config, r *recorder, log *slog.Logger) (*fleet, error) {
	n := len(c.Aircraft)
	f := &fleet{
		slots: math.MaxInt, lastBodies: make([]autopilot.Body, n), trails: make([][]physics.Position, n),
		steps: make([]int, n), lost: make([]bool, n), grounds: slices.Repeat([]groundContact{{told: -1, slot: -1}}, n),
		minSeparationM: math.Inf(1),
		latency:        latency{intervalMS: 100 / c.Speed, lastSetpoints: make([]lastSetpoint, n)},
	}
	truth := world.NewScenario(&c.World, c.Seed)
	var key *frame.V2Key
	if c.MAVLinkKey != "" {
		var err error
		if key, err = firmwarefleet.ReadKey(c.MAVLinkKey); err != nil {
			return nil, fmt.Errorf("mavlink_key: %w", err)
		}
	}
	var links []*sitl.Endpoint
	for i := range n {
		conf := c.autopilotConfig(i, truth)
		conf.Log = log
		conf.OnMotion = func(slot int, s autopilot.State) {
			r.noteState(i, &s)
			f.handleMotion(i, slot, s)
		}
		conf.OnReceived = func(h autopilot.Received) {
			r.noteReceived(i, &h, c.Aircraft[i].Monitor != "")
			f.latency.noteSetpoint(i, h)
		}
		conf.OnHeartbeatSent = func(h autopilot.Heartbeat) { r.noteHeartbeat(i, h) }
		if at := c.Aircraft[i].Attach; at != "" {
			v := &sitl.Vehicle{Config: conf, Relay: c.Aircraft[i].Relay, Radio: c.Aircraft[i].Radio, PackKnown: c.Aircraft[i].PackJ > 0}
			f.attached, f.vehicles = append(f.attached, v), append(f.vehicles, v)
			k := slices.IndexFunc(links, func(l *sitl.Endpoint) bool { return l.Address == at })
			if k < 0 {
				link := &sitl.Endpoint{Address: at, Key: key}
				if c.network != nil {
					link.Open = c.network.Program("bridge").Socket
				}
				k, links = len(links), append(links, link)
			}
			links[k].Vehicles = append(links[k].Vehicles, v)
			continue
		}
		f.lastBodies[i].Position = conf.Start
		a := &autopilot.Autopilot{Config: conf}
		if err := a.Initialize(); err != nil {
			f.close()
			return nil, fmt.Errorf("aircraft %d: %w", i+1, c.adviseInUse(err, "autopilot", conf.Listen, "aircraft.listen"))
		}
		f.closers, f.vehicles = append(f.closers, a.Close), append(f.vehicles, a)
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

// waitUntilReady waits until the attached autopilots can fly, and says for what.
func (f *fleet) waitUntilReady(ctx context.Context, say func(string)) error {
	said := ""
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
			if text := missing.Error(); text != said {
				said = text
				say("waiting for the autopilots: " + text)
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

// findLost returns the attached autopilots that were lost since the last call.
func (f *fleet) findLost(now time.Time) (numbers []int) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	for i, a := range f.vehicles {
		if v, ok := a.(*sitl.Vehicle); ok && !f.lost[i] && v.Lost(now) {
			f.lost[i] = true
			numbers = append(numbers, i+1)
		}
	}
	return numbers
}

// allLost reports whether no autopilot is left, as of the last findLost.
func (f *fleet) allLost() bool {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	return !slices.Contains(f.lost, false)
}

// nameOf says which autopilot aircraft i is attached to.
func (f *fleet) nameOf(i int) string { return f.vehicles[i].(*sitl.Vehicle).Name() }

func (f *fleet) isLost(i int) bool {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	return f.lost[i]
}

// handleMotion is called by autopilot i after each step of its dynamics.
func (f *fleet) handleMotion(i, slot int, s autopilot.State) {
	b := s.Body
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.lastBodies[i] = b
	f.grounds[i].note(slot, f.slots, &s)
	if slot < 0 || slot >= f.slots {
		return
	}
	f.maxSpeedMPS = max(f.maxSpeedMPS, b.SpeedMPS())
	for j := range f.lastBodies {
		if j != i {
			f.minSeparationM = min(f.minSeparationM, positionOf(b).Sub(positionOf(f.lastBodies[j])).Norm())
		}
	}
	if f.steps[i]%10 == 0 {
		f.trails[i] = append(f.trails[i], positionOf(b))
	}
	f.steps[i]++
}

// groundContact is when one aircraft came down, in slots from the first one on.
type groundContact struct {
	told      int     // the slot of the last step; T: after the mission's last
	slot      int     // the same, but after the last slot flown the next one
	openedS   float64 // when it opened, in the aircraft's mission time
	touchdown float64 // 0: it is in the air, or has not left the ground in the mission
	flew      bool
}

// note enters a step. T is the number of the mission's slots.
func (g *groundContact) note(slot, slots int, s *autopilot.State) {
	if slot < 0 {
		return
	}
	if slot != g.told {
		g.told, g.openedS = slot, s.TimeS
		if g.slot++; slot < slots {
			g.slot = slot
		}
	}
	switch {
	case !s.OnGround:
		g.flew, g.touchdown = true, 0
	case g.flew && g.touchdown == 0:
		g.touchdown = float64(g.slot) + s.TimeS - g.openedS
	}
}

func positionOf(b autopilot.Body) physics.Position {
	return physics.Position{EastM: b.Position.EastM, NorthM: b.Position.NorthM}
}

// position returns the true position of aircraft i.
func (f *fleet) position(i int) physics.Position {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	return positionOf(f.lastBodies[i])
}

func (f *fleet) bodies() []autopilot.Body {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	return slices.Clone(f.lastBodies)
}

// touchdowns are when each aircraft came down for good.
func (f *fleet) touchdowns() (list []float64) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	for _, g := range f.grounds {
		list = append(list, g.touchdown)
	}
	return list
}

// flown returns the tracks of the aircraft in the slots, their least separation
// and their greatest speed.
func (f *fleet) flown() (trails [][]physics.Position, separationM, speedMPS float64) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	for _, t := range f.trails {
		trails = append(trails, slices.Clone(t))
	}
	return trails, f.minSeparationM, f.maxSpeedMPS
}

// setSlot counts energy from a moment on as a slot's; T is after the mission.
func (f *fleet) setSlot(slot int, at time.Time) {
	for _, a := range f.vehicles {
		a.SetSlot(slot, at)
	}
}

func (f *fleet) setSlots(slots int) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.slots = slots
}

// spentJ returns the energy of slots 0 to T-1 so far, but for those in which an aircraft was in transit.
func (f *fleet) spentJ(slots int, inTransit func(slot, m int) bool) (joules float64) {
	for m, a := range f.vehicles {
		for slot, s := range a.BySlot() {
			if slot >= 0 && slot < slots && !inTransit(slot, m) {
				joules += s.J()
			}
		}
	}
	return joules
}

// allLanded reports whether every aircraft that is not lost is on the ground with
// its motors off.
func (f *fleet) allLanded() bool {
	for i, a := range f.vehicles {
		if s := a.State(); !f.isLost(i) && (!s.Landed || s.Armed) {
			return false
		}
	}
	return true
}
