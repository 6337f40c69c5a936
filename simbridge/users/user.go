package users

import (
	"sync"
	"time"

	"prefdt/inference/dispatch"
	"prefdt/inference/physics"
	"prefdt/inference/slot"
	"prefdt/telemetry"
)

// Outcome is how one task really ended.
type Outcome struct {
	Slot           int
	User           int     // from 0
	By             string  // telemetry.ByDecision, ByOffer or ByLocal
	DelayS         float64 // with the penalty of a missed deadline
	DeadlineMissed bool
	LocalInTime    bool    // computed locally it would have met its deadline
	Aircraft       int     // which computed a part of it, by number; 0: none
	Bits           float64 // offloaded
}

// user is one ground user.
type user struct {
	simulator *Simulator
	index     int
	id        string
	position  physics.Position
	client    *telemetry.Client // a message that it cannot send is lost, as any report may be

	mutex    sync.Mutex
	lastSlot int          // of the last beacon received, -1 before
	opened   map[int]bool // slots that a beacon received has opened
	pending  *pendingTask // nil: none waits for a decision
}

// pendingTask is a task between the beacon and its decision.
type pendingTask struct {
	beacon   telemetry.Slot
	decideBy time.Time
	task     physics.Task
	gain     []float64 // as reported, by aircraft from 0
	upload   []float64 // that an upload runs at
	timer    *time.Timer
}

// handleBeacon opens a slot: the user's task in it becomes known, and is reported
// unless the report is drawn as lost.
func (u *user) handleBeacon(beacon telemetry.Slot, received time.Time) {
	u.mutex.Lock()
	defer u.mutex.Unlock()
	if beacon.Slot <= u.lastSlot {
		return
	}
	u.lastSlot, u.opened[beacon.Slot] = beacon.Slot, true
	u.settleByOffer()
	task, active := u.simulator.task(beacon.Slot, u.index)
	if !active {
		return
	}
	c, truth := &u.simulator.World, u.simulator.truth
	u.position = truth.UserPosition(beacon.Slot, u.index)
	report := telemetry.Report{
		Slot: beacon.Slot, PositionM: [2]float64{u.position.EastM, u.position.NorthM},
		CPUHz: truth.ReportedCPUHz(u.index), Gain: map[int]float64{},
	}
	gain, upload := make([]float64, c.Aircraft), make([]float64, c.Aircraft)
	for m := range gain {
		gain[m], upload[m] = truth.Gain(beacon.Slot, u.index, m, u.simulator.Position(m).Sub(u.position))
		if gain[m] > 0 && gain[m] <= 1 {
			report.Gain[m+1] = gain[m]
		}
	}
	if task.Bits > 0 {
		report.Task = &telemetry.Task{Bits: task.Bits, CyclesPerBit: task.CyclesPerBit, DeadlineS: task.DeadlineS,
			Function: u.simulator.Function}
		window := time.Duration(beacon.DecideByMS * float64(time.Millisecond))
		w := &pendingTask{beacon: beacon, decideBy: received.Add(window), task: task, gain: gain, upload: upload}
		w.timer = time.AfterFunc(time.Until(w.decideBy), func() {
			u.mutex.Lock()
			defer u.mutex.Unlock()
			if u.pending == w {
				u.settleByOffer()
			}
		})
		u.pending = w
	}
	lost := u.simulator.countReport(beacon.Slot, u.index, report.Task != nil)
	if payload, err := telemetry.Encode(report); err == nil && !lost {
		u.client.Publish(telemetry.Publication{Topic: u.simulator.topics.Report(u.id), Payload: payload,
			Retained: u.simulator.Retained})
	}
}

// computeUnopened computes the tasks of the slots before end that no beacon has opened.
func (u *user) computeUnopened(end int) {
	u.mutex.Lock()
	defer u.mutex.Unlock()
	for slot := range end {
		if u.opened[slot] {
			continue
		}
		u.opened[slot] = true
		task, _ := u.simulator.task(slot, u.index)
		if task.Bits == 0 {
			continue
		}
		localS := task.LocalTimeS(u.simulator.truth.CPUHz(slot, u.index))
		u.simulator.countTask(slot)
		u.record(slot, task, telemetry.ByLocal, localS, 0, 0)
	}
}

// record records how a task ended, of which an aircraft computed so many bits.
func (u *user) record(slot int, task physics.Task, by string, completionS float64, aircraft int, offloadedBits float64) {
	localS := task.LocalTimeS(u.simulator.truth.CPUHz(slot, u.index))
	u.simulator.recordOutcome(Outcome{
		Slot: slot, User: u.index, By: by, Aircraft: aircraft, Bits: offloadedBits,
		DelayS:         u.simulator.World.Physics.PenalizedDelayS(task, completionS),
		DeadlineMissed: completionS > task.DeadlineS, LocalInTime: localS <= task.DeadlineS,
	})
}

// handleDecision follows a decision. One for another slot, or after decide_by_ms,
// is ignored; so is one made from an old report, of another task, than which the
// offer is better.
func (u *user) handleDecision(d telemetry.Decision, received time.Time) {
	u.mutex.Lock()
	defer u.mutex.Unlock()
	w := u.pending
	if w == nil || d.Slot != w.beacon.Slot || d.ReportSlot != nil || received.After(w.decideBy) {
		u.simulator.ignoredDecisions.Add(1)
		return
	}
	c := &u.simulator.World
	choice := slot.UserDecision{Server: d.Aircraft, Offload: d.Offload, CPUHz: min(d.CPUHz, c.Physics.EdgeCPUHz)}
	if choice.Server > c.Aircraft { // no such aircraft
		choice = slot.UserDecision{}
	}
	u.takePending()
	u.simulator.takeShare(d.Slot, choice)
	u.settle(w, choice, telemetry.ByDecision, received)
}

// takePending ends the wait for a decision.
func (u *user) takePending() *pendingTask {
	w := u.pending
	u.pending = nil
	w.timer.Stop()
	return w
}

// settleByOffer takes the standing offer. An aircraft that more users come to than it
// expected has no more than one CPU: it is shared once all had the time to come.
func (u *user) settleByOffer() {
	if u.pending == nil {
		return
	}
	w := u.takePending()
	c := &u.simulator.World
	offer := dispatch.Offer{PriceSPerJ: w.beacon.Offer.PriceSPerJ}
	self := slot.User{ID: u.index, Position: u.position, Task: w.task, CPUHz: u.simulator.truth.ReportedCPUHz(u.index)}
	for _, a := range w.beacon.Offer.Aircraft {
		if a.Number > c.Aircraft {
			continue
		}
		offer.Aircraft = append(offer.Aircraft, dispatch.OfferAircraft{
			Number: a.Number, Position: physics.Position{EastM: a.PositionM[0], NorthM: a.PositionM[1]},
			CPUHz: a.CPUHz, ExpectedUsers: a.ExpectedUsers,
		})
		self.Gain = append(self.Gain, w.gain[a.Number-1])
	}
	choice := offer.Choose(&c.Physics, &self)
	if choice.Server == 0 {
		u.settle(w, choice, telemetry.ByLocal, w.decideBy)
		return
	}
	choice.Server = offer.Aircraft[choice.Server-1].Number
	u.simulator.takeShare(w.beacon.Slot, choice)
	time.AfterFunc(time.Duration(allCameSlots*w.beacon.SlotMS*float64(time.Millisecond)), func() {
		u.mutex.Lock()
		defer u.mutex.Unlock()
		choice.CPUHz /= u.simulator.overcommitted(w.beacon.Slot, choice.Server-1)
		u.settle(w, choice, telemetry.ByOffer, w.decideBy)
	})
}

// allCameSlots is how much of a slot users of the offer may be apart.
const allCameSlots = 0.05

// settle computes the task as chosen: the time it takes by the true gain, the decided
// share and the true speed of the user's CPU is published when it is over, and the
// edge energy is added to the aircraft's.
func (u *user) settle(w *pendingTask, choice slot.UserDecision, by string, from time.Time) {
	c := &u.simulator.World.Physics
	localS := w.task.LocalTimeS(u.simulator.truth.CPUHz(w.beacon.Slot, u.index))
	result := telemetry.Result{Slot: w.beacon.Slot, CompletionS: localS, By: by}
	partS, uploadS, offloadedBits := localS, 0.0, 0.0
	if choice.Server > 0 {
		bandwidth := c.Channel.BandwidthHz
		if c.Contention {
			bandwidth *= choice.CPUHz / c.EdgeCPUHz
		}
		share := physics.Share{CPUHz: choice.CPUHz, RateBPS: c.Channel.RateBPS(w.upload[choice.Server-1], bandwidth)}
		result.CompletionS = physics.CompletionS(localS, w.task.OffloadTimeS(share), choice.Offload)
		offloadedBits = choice.Offload * w.task.Bits
		partS, uploadS = (1-choice.Offload)*localS, offloadedBits/share.RateBPS
		u.simulator.AddEdgeJ(choice.Server-1, w.beacon.Slot, c.EdgeJ(w.task, share, choice.Offload)*u.simulator.World.EdgeEnergyFactor())
	}
	if u.simulator.World.HidesState() {
		result.LocalS = &partS
		if offloadedBits > 0 {
			result.UploadS = &uploadS
		}
	}
	u.record(w.beacon.Slot, w.task, by, result.CompletionS, choice.Server, offloadedBits)
	payload, err := telemetry.Encode(result)
	if err != nil {
		return // it takes longer than a result can hold
	}
	wall := time.Duration(result.CompletionS / w.beacon.Speed * float64(time.Second))
	time.AfterFunc(time.Until(from.Add(wall)), func() {
		if !u.simulator.closed.Load() {
			u.client.Publish(telemetry.Publication{Topic: u.simulator.topics.Result(u.id), QoS: 1, Payload: payload})
		}
	})
}
