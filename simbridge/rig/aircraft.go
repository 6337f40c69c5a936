package rig

import (
	"maps"
	"sync"
	"time"

	"github.com/bluenviron/gomavlib/v3"
	"github.com/bluenviron/gomavlib/v3/pkg/dialects/common"

	"prefdt/simbridge/autopilot"
)

// CloseAutopilot ends an aircraft, counted from 0, for good.
func (r *Rig) CloseAutopilot(i int) { r.closeAutopilot[i]() }

// ReplaceParameters replaces an aircraft by one with other parameters.
func (r *Rig) ReplaceParameters(i int, parameters map[string]float64) {
	r.test.Helper()
	r.ReplaceAutopilot(i, func(c *autopilot.Config) { maps.Copy(c.Parameters, parameters) })
}

// ReplaceAutopilot replaces an aircraft by a changed one, before a leader is started.
func (r *Rig) ReplaceAutopilot(i int, change func(*autopilot.Config)) {
	r.test.Helper()
	r.closeAutopilot[i]()
	c := r.Autopilots[i].Config
	c.Parameters = maps.Clone(c.Parameters)
	change(&c)
	r.startAutopilot(i, c)
}

func (r *Rig) startAutopilot(i int, c autopilot.Config) {
	r.test.Helper()
	a := &autopilot.Autopilot{Config: c}
	if err := a.Initialize(); err != nil {
		r.test.Fatal(err)
	}
	r.Autopilots[i], r.closeAutopilot[i] = a, sync.OnceFunc(a.Close)
	r.test.Cleanup(r.closeAutopilot[i])
}

// BatteryLossJ is the true energy that the batteries lost.
func (r *Rig) BatteryLossJ() (sum float64) {
	for _, a := range r.Autopilots {
		sum += a.State().Spent.J()
	}
	return sum
}

// Landed is whether an aircraft is on the ground with its motors off.
func (r *Rig) Landed(i int) bool {
	s := r.Autopilots[i].State()
	return s.Landed && !s.Armed
}

// HomeDistanceM is how far from its take-off an aircraft is.
func (r *Rig) HomeDistanceM(i int) float64 {
	return r.Autopilots[i].State().Position.Sub(r.Autopilots[i].Start).HorizontalM()
}

// CommandCount is how many setpoints, and commands to arm, take off or change mode,
// an aircraft received.
func (r *Rig) CommandCount(i int) int64 { return r.commandCounts[i].Load() }

// LastMoveAt is when an aircraft last received a setpoint to move.
func (r *Rig) LastMoveAt(i int) time.Time { return time.Unix(0, r.lastMoveNS[i].Load()) }

// WaitAllMove waits until every aircraft received a setpoint to move after a moment.
func (r *Rig) WaitAllMove(since time.Time) bool {
	return r.Eventually(func() bool {
		for i := range r.Autopilots {
			if !r.LastMoveAt(i).After(since) {
				return false
			}
		}
		return true
	})
}

// SetModeAsPilot changes an aircraft's mode as another station on the link would.
func (r *Rig) SetModeAsPilot(i int, mode autopilot.Mode) {
	r.test.Helper()
	node := &gomavlib.Node{
		Endpoints: []gomavlib.EndpointConf{r.Endpoint("pilot", "udp:"+r.Autopilots[i].Addr())},
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
	if !r.Eventually(func() bool {
		node.WriteMessageAll(&common.MessageSetMode{TargetSystem: uint8(i + 1), BaseMode: common.MAV_MODE_FLAG_CUSTOM_MODE_ENABLED,
			CustomMode: uint32(mode)})
		return r.Autopilots[i].State().Mode == mode
	}) {
		r.test.Fatalf("aircraft %d did not change to %s", i+1, mode)
	}
}
