package rig

import (
	"maps"
	"math"
	"sync"
	"time"

	"github.com/bluenviron/gomavlib/v3"
	"github.com/bluenviron/gomavlib/v3/pkg/dialects/common"

	"prefdt/simbridge/autopilot"
)

// Lose ends an aircraft, counted from 0, for good.
func (r *Rig) Lose(i int) { r.lose[i]() }

// Replace puts an aircraft with other parameters in one's place.
func (r *Rig) Replace(i int, parameters map[string]float64) {
	r.test.Helper()
	r.Change(i, func(c *autopilot.Config) { maps.Copy(c.Parameters, parameters) })
}

// Change puts a changed aircraft in one's place, before a leader is launched.
func (r *Rig) Change(i int, change func(*autopilot.Config)) {
	r.test.Helper()
	r.lose[i]()
	c := r.Craft[i].Config
	c.Parameters = maps.Clone(c.Parameters)
	change(&c)
	a := &autopilot.Autopilot{Config: c}
	if err := a.Initialize(); err != nil {
		r.test.Fatal(err)
	}
	r.Craft[i], r.lose[i] = a, sync.OnceFunc(a.Close)
	r.test.Cleanup(r.lose[i])
}

// TrueJ is what the batteries really lost.
func (r *Rig) TrueJ() (sum float64) {
	for _, a := range r.Craft {
		sum += a.State().Spent.J()
	}
	return sum
}

// ApartM is the distance of the first two aircraft, in truth.
func (r *Rig) ApartM() float64 {
	a, b := r.Craft[0].State().Position, r.Craft[1].State().Position
	return math.Hypot(a.EastM-b.EastM, a.NorthM-b.NorthM)
}

// LandedAt is whether an aircraft stands with its motors off.
func (r *Rig) LandedAt(i int) bool {
	s := r.Craft[i].State()
	return s.Landed && !s.Armed
}

// OffHomeM is how far from its take-off an aircraft is.
func (r *Rig) OffHomeM(i int) float64 {
	p, home := r.Craft[i].State().Position, r.Craft[i].Config.Start
	return math.Hypot(p.EastM-home.EastM, p.NorthM-home.NorthM)
}

// Commanded is how many setpoints, and commands to arm, take off or change mode,
// an aircraft got.
func (r *Rig) Commanded(i int) int64 { return r.commanded[i].Load() }

// MovedAt is when an aircraft last got a setpoint to move.
func (r *Rig) MovedAt(i int) time.Time { return time.Unix(0, r.legs[i].Load()) }

// Moved waits until every aircraft got setpoints to move that were sent after a moment.
func (r *Rig) Moved(since time.Time) bool {
	return Eventually(func() bool {
		for i := range r.Craft {
			if !r.MovedAt(i).After(since) {
				return false
			}
		}
		return true
	})
}

// Pilot changes an aircraft's mode as another station on the link would.
func (r *Rig) Pilot(i int, mode autopilot.Mode) {
	r.test.Helper()
	node := &gomavlib.Node{
		Endpoints: []gomavlib.EndpointConf{gomavlib.EndpointUDPClient{Address: r.Craft[i].Addr()}},
		Dialect:   common.Dialect, OutVersion: gomavlib.V2, OutSystemID: 255, HeartbeatDisable: true,
	}
	if err := node.Initialize(); err != nil {
		r.test.Fatal(err)
	}
	defer node.Close()
	go func() {
		for range node.Events() {
		}
	}()
	if !Eventually(func() bool {
		node.WriteMessageAll(&common.MessageSetMode{TargetSystem: uint8(i + 1), BaseMode: common.MAV_MODE_FLAG_CUSTOM_MODE_ENABLED, CustomMode: uint32(mode)})
		return r.Craft[i].State().Mode == mode
	}) {
		r.test.Fatalf("aircraft %d did not change to %s", i+1, mode)
	}
}
