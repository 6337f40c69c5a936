package rig

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"prefdt/telemetry"
)

// received is what crew and users received from the leader.
type received struct {
	statuses     []telemetry.Status
	killed       string              // challenge of the leader that was killed last: a status of its own may still be on its way
	acks         map[string][]string // payloads, by command
	onlineCount  int                 // how often online was set
	beacons      []int               // slots
	beaconsAt    []time.Time         // when they came
	offered      []int               // aircraft in the last beacon
	decisions    map[int]int         // by slot
	batteryLossJ map[int]float64     // what the batteries had lost when a slot's beacon came
}

// receive handles the leader's messages as crew and users: each user reports in every
// slot and sends a result after each decision.
func (r *Rig) receive(m telemetry.Message) {
	r.observer.Observe(m, func(id string, v any, err error) { r.record(m, id, v, err) })
}

func (r *Rig) record(m telemetry.Message, id string, v any, err error) {
	if checked := len(m.Payload) == 0 || strings.HasPrefix(string(m.Payload), "pre-flight check"); err != nil && !checked {
		r.test.Errorf("%s on %s: %v", m.Payload, m.Topic, err)
	}
	x := &r.received
	switch v := v.(type) {
	case telemetry.Status:
		if x.killed == "" || v.Challenge != x.killed {
			x.statuses = append(x.statuses, v)
		}
	case bool:
		if v {
			x.onlineCount++
		}
	case telemetry.Ack:
		x.acks[id] = append(x.acks[id], string(m.Payload))
	case telemetry.Decision:
		x.decisions[v.Slot]++
		if v.Aircraft > 0 { // the edge energy is drawn by the aircraft that computes
			r.Autopilots[v.Aircraft-1].AddEdgeJ(v.Slot, r.Physics.SwitchedCapacitance*v.CPUHz*v.CPUHz*v.Offload*1e9)
		}
		result := telemetry.Result{Slot: v.Slot, CompletionS: 0.5, By: telemetry.ByDecision}
		if r.TimedResults {
			localS := 0.45 * (1 - v.Offload) // of a CPU twice as fast as reported
			result.LocalS = &localS
			if v.Aircraft > 0 {
				result.UploadS = new(0.2)
			}
		}
		r.Publish(r.Topics.Result(id), result)
	case telemetry.Slot:
		x.batteryLossJ[v.Slot] = r.BatteryLossJ()
		x.beacons, x.beaconsAt, x.offered = append(x.beacons, v.Slot), append(x.beaconsAt, m.Received), x.offered[:0]
		for _, a := range v.Offer.Aircraft {
			x.offered = append(x.offered, a.Number)
		}
		for u := range r.offerUsers {
			r.Publish(r.Topics.Result(fmt.Sprintf("offer%d", u)), telemetry.Result{Slot: max(v.Slot-1, 0), CompletionS: 0.5,
				By: telemetry.ByOffer})
		}
		for u := range r.reportingUsers {
			r.Publish(r.Topics.Report(fmt.Sprintf("u%d", u)), telemetry.Report{
				Slot: v.Slot, PositionM: [2]float64{200 * float64(u+1), 450}, CPUHz: 1e9,
				Task: &telemetry.Task{Bits: 1e6, CyclesPerBit: 1000, DeadlineS: 0.9}, Gain: map[int]float64{1: 1e-9},
			})
		}
	}
}

// SetUsers sets how many users report in each slot, 4 at first, and how many further
// ones do not and send a result by its offer, none at first.
func (r *Rig) SetUsers(reporting, takingOffer int) {
	r.observer.Lock()
	defer r.observer.Unlock()
	r.reportingUsers, r.offerUsers = reporting, takingOffer
}

// Publish sends a message as the crew's client.
func (r *Rig) Publish(topic string, v any) {
	payload, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	r.PublishRaw(topic, string(payload))
}

// PublishRaw sends any payload as the crew's client, unsigned.
func (r *Rig) PublishRaw(topic, payload string) {
	r.crew.Publish(telemetry.Publication{Topic: topic, QoS: 1, Payload: []byte(payload)})
}

func (r *Rig) PublishRetained(topic, payload string) {
	r.crew.Publish(telemetry.Publication{Topic: topic, QoS: 1, Retained: true, Payload: []byte(payload)})
}

func (r *Rig) Statuses() []telemetry.Status {
	r.observer.Lock()
	defer r.observer.Unlock()
	return slices.Clone(r.received.statuses)
}

// LastStatus is the newest status, the zero Status before the first.
func (r *Rig) LastStatus() (s telemetry.Status) {
	r.observer.Lock()
	defer r.observer.Unlock()
	if n := len(r.received.statuses); n > 0 {
		s = r.received.statuses[n-1]
	}
	return s
}

// ForgetStatuses discards the statuses so far, as after a restart.
func (r *Rig) ForgetStatuses() {
	r.observer.Lock()
	defer r.observer.Unlock()
	r.received.statuses = nil
}

// forgetKilled discards the statuses of a leader that was killed, also those that
// arrive after it has ended: the broker may not have delivered its last ones yet.
func (r *Rig) forgetKilled() {
	r.observer.Lock()
	defer r.observer.Unlock()
	x := &r.received
	if n := len(x.statuses); n > 0 {
		x.killed = x.statuses[n-1].Challenge
	}
	x.statuses = nil
}

// Acks returns the acknowledgements of a command so far, in order of arrival.
func (r *Rig) Acks(id string) []string {
	r.observer.Lock()
	defer r.observer.Unlock()
	return slices.Clone(r.received.acks[id])
}

// AckIDs returns the ids of the commands that were acknowledged.
func (r *Rig) AckIDs() []string {
	r.observer.Lock()
	defer r.observer.Unlock()
	return slices.Sorted(maps.Keys(r.received.acks))
}

// Beacons returns the slots that were opened, in order of arrival.
func (r *Rig) Beacons() []int {
	r.observer.Lock()
	defer r.observer.Unlock()
	return slices.Clone(r.received.beacons)
}

// BeaconAfter waits for the first beacon after a moment and returns when it came.
func (r *Rig) BeaconAfter(since time.Time) (at time.Time) {
	r.test.Helper()
	if !r.Eventually(func() bool {
		r.observer.Lock()
		defer r.observer.Unlock()
		for _, at = range r.received.beaconsAt {
			if at.After(since) {
				return true
			}
		}
		return false
	}) {
		r.test.Fatal("no beacon came after that")
	}
	return at
}

// SlotOpened is whether the beacon of a slot, or of a later one, came.
func (r *Rig) SlotOpened(n int) bool {
	b := r.Beacons()
	return len(b) > 0 && b[len(b)-1] >= n
}

// CheckSlotsInOrder fails the test if a slot was opened twice, or after a later one.
func (r *Rig) CheckSlotsInOrder() {
	r.test.Helper()
	b := r.Beacons()
	for i := 1; i < len(b); i++ {
		if b[i] <= b[i-1] {
			r.test.Errorf("slot %d after slot %d", b[i], b[i-1])
		}
	}
}

// OfferedAircraft returns the aircraft that the last beacon offered.
func (r *Rig) OfferedAircraft() []int {
	r.observer.Lock()
	defer r.observer.Unlock()
	return slices.Clone(r.received.offered)
}

// DecisionCount is how many users were sent a decision for a slot.
func (r *Rig) DecisionCount(n int) int {
	r.observer.Lock()
	defer r.observer.Unlock()
	return r.received.decisions[n]
}

// Online is the last payload of the online topic, and how often it was set so far.
func (r *Rig) Online() (online bool, times int) {
	r.observer.Lock()
	defer r.observer.Unlock()
	online = r.observer.Online != nil && *r.observer.Online
	return online, r.received.onlineCount
}

// AccountErrorJ is a status's energy less what the batteries had lost when the next
// slot's beacon came, which is a few milliseconds after its settlement. It is NaN if
// that beacon was not received.
func (r *Rig) AccountErrorJ(s telemetry.Status) float64 {
	r.observer.Lock()
	defer r.observer.Unlock()
	truthJ, known := r.received.batteryLossJ[s.Slot+1]
	if !known {
		return math.NaN()
	}
	return s.SpentJ + s.TransitJ - truthJ
}

// Await waits for a status that satisfies a condition: the last one, or a later one.
func (r *Rig) Await(what string, ok func(telemetry.Status) bool) telemetry.Status {
	r.test.Helper()
	next := len(r.Statuses())
	var met telemetry.Status
	if !r.wait(func() bool { // the condition may depend on the aircraft: that of the last one is checked again
		all := r.Statuses()
		i := max(min(next, len(all))-1, 0)
		next = len(all)
		if n := slices.IndexFunc(all[i:], ok); n >= 0 {
			met = all[i+n]
			return true
		}
		return false
	}) {
		r.test.Fatalf("no status with %s; the last is %+v", what, r.LastStatus())
	}
	return met
}

// wait waits until a condition holds, which is checked at each message, and reports whether it does.
func (r *Rig) wait(holds func() bool) bool {
	ctx, cancel := context.WithTimeout(context.Background(), r.timeout)
	defer cancel()
	return r.observer.Wait(ctx, 100*time.Millisecond, func() (bool, error) { return holds(), nil }) == nil
}

func AnyStatus(telemetry.Status) bool { return true }

var (
	Flying = InState(telemetry.StateFlying)
	Done   = InState(telemetry.StateDone)
)

func InState(state string) func(telemetry.Status) bool {
	return func(s telemetry.Status) bool { return s.State == state }
}

func SlotSettled(n int) func(telemetry.Status) bool {
	return func(s telemetry.Status) bool { return s.Slot >= n }
}

// StatusesAfter accepts a status n or more after another one.
func StatusesAfter(than telemetry.Status, n int64) func(telemetry.Status) bool {
	return func(s telemetry.Status) bool { return s.Seq >= than.Seq+n }
}

// Eventually waits for a condition, and reports whether it came true.
func (r *Rig) Eventually(ok func() bool) bool {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	late := time.After(r.timeout)
	for {
		if ok() {
			return true
		}
		select {
		case <-tick.C:
		case <-late:
			return false
		}
	}
}
