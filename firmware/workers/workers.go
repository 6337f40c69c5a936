// Package workers is what the leader knows of the workers of its aircraft: who can compute
// now, how much and which functions, and the grants with which users go there.
//
// Inputs: heartbeats, and decisions. Outputs: each aircraft's CPU for the policy and the
// offer, addresses, grants, and the state in the status. Called by the leader's loop alone.
//
// Where no aircraft is configured with a worker, nothing is computed, as in simulation: every
// aircraft then has the checkpoint's CPU.
package workers

import (
	"fmt"
	"math"
	"time"

	"prefdt/telemetry"
	"prefdt/telemetry/task"
)

// Silent is for how long of wall time an aircraft computes without a heartbeat.
const Silent = 3 * time.Second

// Worker is the worker of one aircraft, as configured.
type Worker struct {
	Address  string // host:port for users; empty: none
	GrantKey string // file of the key that it shares with the leader; empty: it is sent no grants
}

// Workers are those of a fleet. Set the exported fields, then Initialize.
type Workers struct {
	Fleet    string
	MaxCPUHz float64  // the most that a heartbeat may claim
	Workers  []Worker // of aircraft 1 and so on

	configured bool
	state      []state
}

// state is the worker of one aircraft.
type state struct {
	key    *task.Key
	last   telemetry.Worker
	at     time.Duration       // when last was received, if hashes is not nil
	hashes map[string][12]byte // of the functions in last
}

// Initialize reads the keys.
func (w *Workers) Initialize() (err error) {
	w.state = make([]state, len(w.Workers))
	for i, x := range w.Workers {
		w.configured = w.configured || x.Address != ""
		if x.GrantKey != "" {
			if w.state[i].key, err = task.ReadKey(x.GrantKey); err != nil {
				return fmt.Errorf("grant_key of aircraft %d: %w", i+1, err)
			}
		}
	}
	return nil
}

// Configured is whether any aircraft has a worker.
func (w *Workers) Configured() bool { return w.configured }

// Receive takes a heartbeat.
func (w *Workers) Receive(aircraft int, heartbeat *telemetry.Worker, at time.Duration) {
	if aircraft < 1 || aircraft > len(w.state) {
		return
	}
	s := &w.state[aircraft-1]
	s.last, s.at, s.hashes = *heartbeat, at, map[string][12]byte{}
	for _, f := range heartbeat.Functions {
		s.hashes[f.ID], _ = task.FunctionHash(f.Digest) // the decoder has checked it
	}
}

// CPUHz is what an aircraft can compute at a time: 0 without a worker that was received lately.
func (w *Workers) CPUHz(aircraft int, now time.Duration) float64 {
	if !w.configured {
		return w.MaxCPUHz
	}
	s := &w.state[aircraft-1]
	if w.Workers[aircraft-1].Address == "" || s.hashes == nil || now-s.at > Silent {
		return 0
	}
	return min(s.last.CPUHz, w.MaxCPUHz)
}

// Computes is whether an aircraft's worker has a function. Without workers everything is
// computed.
func (w *Workers) Computes(aircraft int, function string) bool {
	if !w.configured {
		return true
	}
	_, ok := w.state[aircraft-1].hashes[function]
	return ok
}

// Address is where users reach an aircraft's worker; empty: nowhere.
func (w *Workers) Address(aircraft int) string { return w.Workers[aircraft-1].Address }

// Grant lets a user compute so many bits of its task on an aircraft with a share of the CPU that the
// aircraft has; empty without a key.
func (w *Workers) Grant(mission, user, function string, aircraft, slot int, bits, cpuHz float64, now time.Duration) string {
	if !w.configured {
		return ""
	}
	s, hz := &w.state[aircraft-1], w.CPUHz(aircraft, now)
	if s.key == nil || hz == 0 || bits > 8*task.MaxBytes {
		return ""
	}
	g := task.Grant{
		Mission: task.MissionHash(w.Fleet, mission), User: task.UserHash(user), Function: s.hashes[function], Slot: uint32(slot),
		Bytes: uint32(math.Ceil(bits / 8)), Aircraft: uint8(aircraft), Share: uint16(math.Round(65535 * min(cpuHz/hz, 1))),
	}
	return g.Text(s.key)
}

// Status is the state of an aircraft's worker; nil if no aircraft has one.
func (w *Workers) Status(aircraft int, now time.Duration) *telemetry.StatusWorker {
	if !w.configured {
		return nil
	}
	switch hz := w.CPUHz(aircraft, now); {
	case w.Workers[aircraft-1].Address == "":
		return &telemetry.StatusWorker{State: telemetry.WorkerNone}
	case hz == 0:
		return &telemetry.StatusWorker{State: telemetry.WorkerSilent}
	default:
		return &telemetry.StatusWorker{State: telemetry.WorkerOK, CPUHz: &hz}
	}
}
