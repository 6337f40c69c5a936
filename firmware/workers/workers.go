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
	"errors"
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
	key       *task.Key
	named     bool // in a beacon: users know its address
	last      telemetry.Worker
	at        time.Duration       // when last was received, if functions is not nil
	functions map[string]function // of last
}

// function is one of a worker's functions.
type function struct {
	digest       string
	hash         [12]byte // of digest, as grants have it
	cyclesPerBit float64
}

// Initialize reads the keys. A worker whose key cannot be read is sent no grants; the others are.
func (w *Workers) Initialize() (err error) {
	w.state = make([]state, len(w.Workers))
	for i, x := range w.Workers {
		w.configured = w.configured || x.Address != ""
		if x.GrantKey != "" {
			key, unread := task.ReadKey(x.GrantKey)
			if unread != nil {
				err = errors.Join(err, fmt.Errorf("grant_key of aircraft %d: %w", i+1, unread))
				continue
			}
			w.state[i].key = key
		}
	}
	return err
}

// Configured is whether any aircraft has a worker.
func (w *Workers) Configured() bool { return w.configured }

// Receive takes a heartbeat.
func (w *Workers) Receive(aircraft int, heartbeat *telemetry.Worker, at time.Duration) {
	if aircraft < 1 || aircraft > len(w.state) {
		return
	}
	s := &w.state[aircraft-1]
	s.last, s.at, s.functions = *heartbeat, at, map[string]function{}
	for _, f := range heartbeat.Functions {
		hash, _ := task.FunctionHash(f.Digest) // the decoder has checked it
		s.functions[f.ID] = function{f.Digest, hash, f.CyclesPerBit}
	}
	for _, c := range heartbeat.Costs {
		if f, ok := s.functions[c.Function]; ok && f.digest == c.Digest {
			f.cyclesPerBit = c.CyclesPerBit
			s.functions[c.Function] = f
		}
	}
}

// CPUHz is what an aircraft can compute at a time: 0 without a worker that was received lately.
func (w *Workers) CPUHz(aircraft int, now time.Duration) float64 {
	if !w.configured {
		return w.MaxCPUHz
	}
	s := &w.state[aircraft-1]
	if w.Workers[aircraft-1].Address == "" || s.functions == nil || now-s.at > Silent {
		return 0
	}
	return min(s.last.CPUHz, w.MaxCPUHz)
}

// Computes is whether an aircraft's worker has a function, with a digest unless that is empty. Without workers everything is computed.
func (w *Workers) Computes(aircraft int, function, digest string) bool {
	if !w.configured {
		return true
	}
	f, ok := w.state[aircraft-1].functions[function]
	return ok && (digest == "" || digest == f.digest)
}

// CyclesPerBit is the most that a function takes on a worker that has it and was received lately; 0: there is none.
func (w *Workers) CyclesPerBit(function, digest string, now time.Duration) (most float64) {
	for i := range w.state {
		if w.configured && w.CPUHz(i+1, now) > 0 && w.Computes(i+1, function, digest) {
			most = max(most, w.state[i].functions[function].cyclesPerBit)
		}
	}
	return most
}

// Refusal is why no worker that was received lately computes a function; empty: one does, or no aircraft has a worker.
func (w *Workers) Refusal(function, digest string, now time.Duration) string {
	switch {
	case !w.configured || function == "" || w.CyclesPerBit(function, digest, now) > 0:
		return ""
	case w.CyclesPerBit(function, "", now) > 0:
		return telemetry.RefusedDigest
	}
	return telemetry.RefusedFunction
}

// Address is where users reach an aircraft's worker; empty: nowhere.
func (w *Workers) Address(aircraft int) string { return w.Workers[aircraft-1].Address }

// Name is Address for a beacon, by which users know it from then on.
func (w *Workers) Name(aircraft int) string {
	w.state[aircraft-1].named = true
	return w.Address(aircraft)
}

// Named is whether users can know where an aircraft's worker is. One that begins to serve within a slot was in none of its beacons.
func (w *Workers) Named(aircraft int) bool { return !w.configured || w.state[aircraft-1].named }

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
		Mission: task.MissionHash(w.Fleet, mission), User: task.UserHash(user), Function: s.functions[function].hash, Slot: uint32(slot),
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
