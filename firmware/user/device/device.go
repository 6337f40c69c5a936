// Package device is a user's side of tasks that run: it reports a task, follows the decision
// or else the offer, computes its own part, has the rest computed on an aircraft, and joins both.
//
// Inputs: the leader's beacons and decisions, tasks of the device, what it can compute, and
// answers of workers. Outputs: reports and results on MQTT, requests to workers, and each
// task's output. Program user is one use of it; an application may be another.
package device

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"prefdt/inference/dispatch"
	"prefdt/inference/physics"
	"prefdt/inference/slot"
	"prefdt/telemetry"
	"prefdt/telemetry/task"
)

// Function is a function of tasks: it maps each unit of input by itself.
type Function struct {
	ID           string
	Digest       string // SHA-256 that the aircraft's must have too; empty: any
	UnitBytes    int
	OutputBytes  int     // for a unit, at most
	CyclesPerBit float64 // as calibrated on the aircraft
}

// Task is one task of the device.
type Task struct {
	Input     []byte // whole units
	DeadlineS float64
}

// Outcome is how a task ended.
type Outcome struct {
	Slot        int      `json:"slot"`
	By          string   `json:"by"`       // telemetry.ByDecision, ByOffer or ByLocal
	Aircraft    int      `json:"aircraft"` // that computed a part; 0: none
	Chosen      int      `json:"chosen"`   // that was to compute a part
	Bytes       int      `json:"bytes"`
	EdgeBytes   int      `json:"edge_bytes"` // that were to be computed there
	CPUHz       float64  `json:"cpu_hz"`     // of the aircraft, as decided or expected
	CompletionS float64  `json:"completion_s"`
	LocalS      *float64 `json:"local_s,omitempty"`
	UploadS     *float64 `json:"upload_s,omitempty"`
	EdgeS       *float64 `json:"edge_s,omitempty"`
	Problem     string   `json:"problem,omitempty"` // why the aircraft did not compute its part
	Output      []byte   `json:"-"`
	Err         error    `json:"-"` // the task could not be computed at all
}

// Device is one user. Set the exported fields, then Initialize.
type Device struct {
	ID, Fleet string
	Broker    telemetry.Broker
	TLS       *tls.Config // for workers; nil: everything is computed here
	From      string      // address from which workers are reached; empty: any
	// Dial opens the connection to a worker; nil: over TCP
	Dial     func(ctx context.Context, network, address string) (net.Conn, error)
	Function Function
	CPUHz    float64 // that this device effectively has for the function
	Physics  physics.Constants

	Position func() [2]float64
	Gain     func(aircraft int) float64                    // power gain as measured; 0: not known. nil: none is
	Next     func(slot int) (t Task, ok bool)              // the task of a slot that opens
	Compute  func(input []byte) (output []byte, err error) // here
	Done     func(Outcome)
	Log      *slog.Logger

	topics  telemetry.Topics
	client  *telemetry.Client
	ctx     context.Context
	stop    context.CancelFunc
	running sync.WaitGroup

	mutex   sync.Mutex
	slot    int // of the last one that was opened
	pending *pending
	beacon  beacon           // the last one
	waking  *time.Timer      // opens the slot of the newest beacon; nil: none waits
	workers map[int]string   // address by aircraft, as last offered: one may be decided on that is not on offer
	links   map[string]*link // by address
}

// beacon is one with when it was received.
type beacon struct {
	telemetry.Slot
	received time.Time
}

// pending is a task between beacon and decision.
type pending struct {
	Task
	beacon   telemetry.Slot
	decideBy time.Time
	timer    *time.Timer
}

// Initialize connects to the broker.
func (d *Device) Initialize(ctx context.Context) (err error) {
	if d.topics, err = telemetry.NewTopics(d.Fleet); err != nil {
		return err
	}
	if !telemetry.ValidID(d.ID) || d.Function.UnitBytes < 1 || !(d.CPUHz > 0) {
		return fmt.Errorf("device %q: want an id, a function's unit_bytes and cpu_hz", d.ID)
	}
	if _, err := task.FunctionHash(d.Function.Digest); err != nil && d.Function.Digest != "" {
		return err
	}
	if d.Dial == nil {
		dialer := &net.Dialer{}
		if d.From != "" {
			dialer.LocalAddr = &net.TCPAddr{IP: net.ParseIP(d.From)}
		}
		d.Dial = dialer.DialContext
	}
	d.ctx, d.stop = context.WithCancel(context.Background())
	d.slot, d.links, d.workers = -1, map[string]*link{}, map[int]string{}
	d.client = &telemetry.Client{
		Broker: d.Broker, Name: "user", Log: d.Log,
		Subscriptions: []telemetry.Subscription{{Filter: d.topics.Slot()}, {Filter: d.topics.Decision(d.ID), QoS: 1}},
		Handle:        d.handle,
	}
	return d.client.Initialize(ctx)
}

// Close waits for the tasks in progress.
func (d *Device) Close() {
	d.mutex.Lock()
	if p := d.pending; p != nil {
		p.timer.Stop()
		d.pending = nil
	}
	if d.waking != nil {
		d.waking.Stop()
	}
	d.mutex.Unlock()
	d.stop()
	d.running.Wait()
	d.client.Close()
	for _, l := range d.links { // one may be connecting
		l.busy <- struct{}{}
		l.close()
		<-l.busy
	}
}

func (d *Device) handle(m telemetry.Message) {
	kind, _, ok := d.topics.Parse(m.Topic)
	if !ok || m.Retained {
		return
	}
	switch kind {
	case telemetry.KindSlot:
		if b, err := telemetry.DecodeSlot(m.Payload); err == nil {
			d.handleBeacon(beacon{b, m.Received})
		}
	case telemetry.KindDecision:
		if x, err := telemetry.DecodeDecision(m.Payload); err == nil {
			d.follow(x, m.Received)
		}
	}
}

// wakingMost is for how long a beacon waits at most for a newer one.
const wakingMost = 50 * time.Millisecond

// handleBeacon opens the beacon's slot. A device that was stopped, as a phone with its screen off, receives the beacons
// of that time all at once when it goes on: after a gap the newest alone opens a slot, once none has followed it for a
// quarter of the time in which reports are taken.
func (d *Device) handleBeacon(b beacon) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	slot := time.Duration(b.SlotMS * float64(time.Millisecond))
	gap := !d.beacon.received.IsZero() && b.received.Sub(d.beacon.received) > 3*slot/2
	if d.beacon = b; !gap && d.waking == nil {
		d.openSlot(b)
		return
	}
	wait := min(wakingMost, time.Duration(b.ReportByMS/4*float64(time.Millisecond)))
	if d.waking != nil {
		d.waking.Reset(wait)
		return
	}
	d.waking = time.AfterFunc(wait, func() {
		d.mutex.Lock()
		defer d.mutex.Unlock()
		if d.ctx.Err() == nil {
			d.openSlot(d.beacon)
		}
		d.waking = nil
	})
}

// openSlot reports the slot's task, and opens connections to the workers that are named.
func (d *Device) openSlot(b beacon) {
	if b.Slot.Slot == d.slot {
		return
	}
	d.slot = b.Slot.Slot
	if d.pending != nil {
		d.takeOffer(d.pending)
	}
	for _, a := range b.Offer.Aircraft {
		if d.TLS != nil && a.Worker != "" {
			d.workers[a.Number] = a.Worker
			d.link(a.Worker).open()
		}
	}
	t, ok := d.Next(d.slot)
	if !ok || len(t.Input) == 0 {
		return
	}
	report := telemetry.Report{
		Slot: d.slot, PositionM: d.Position(), CPUHz: d.CPUHz, Gain: map[int]float64{},
		Task: &telemetry.Task{Bits: 8 * float64(len(t.Input)), CyclesPerBit: d.Function.CyclesPerBit, DeadlineS: t.DeadlineS,
			Function: d.Function.ID, Digest: d.Function.Digest},
	}
	for _, a := range b.Offer.Aircraft {
		if g, ok := d.gain(a.Number); ok {
			report.Gain[a.Number] = g
		}
	}
	p := &pending{Task: t, beacon: b.Slot, decideBy: b.received.Add(time.Duration(b.DecideByMS * float64(time.Millisecond)))}
	p.timer = time.AfterFunc(time.Until(p.decideBy), func() {
		d.mutex.Lock()
		defer d.mutex.Unlock()
		if d.pending == p {
			d.takeOffer(p)
		}
	})
	d.pending = p
	if payload, err := telemetry.Encode(report); err == nil {
		d.client.Publish(telemetry.Publication{Topic: d.topics.Report(d.ID), Payload: payload})
	} else {
		d.Log.Error("report", "reason", err)
	}
}

// follow begins what was decided. One for another slot, or after decide_by_ms, is ignored.
func (d *Device) follow(x telemetry.Decision, received time.Time) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	p := d.pending
	if p == nil || x.Slot != p.beacon.Slot || x.ReportSlot != nil || received.After(p.decideBy) {
		return
	}
	way := way{by: telemetry.ByDecision, aircraft: x.Aircraft, offload: x.Offload, cpuHz: x.CPUHz}
	switch x.Refused {
	case telemetry.RefusedFunction:
		way.problem = "no aircraft has the function " + d.Function.ID
	case telemetry.RefusedDigest:
		way.problem = "aircraft have another version of the function " + d.Function.ID + " than this device's, " + d.Function.Digest
	}
	way.worker = d.workers[x.Aircraft]
	if x.Grant != "" {
		way.grant, _ = base64.StdEncoding.DecodeString(x.Grant) // the decoder has checked its form
	}
	d.begin(p, way, received)
}

// gain is the measured gain to an aircraft, if there is one that a report may carry.
func (d *Device) gain(aircraft int) (gain float64, ok bool) {
	if d.Gain == nil {
		return 0, false
	}
	gain = d.Gain(aircraft)
	return gain, gain > 0 && gain <= 1
}

// takeOffer begins what is best by the beacon's offer. Workers know a user without a
// decision by its certificate.
func (d *Device) takeOffer(p *pending) {
	way := way{by: telemetry.ByLocal}
	if d.TLS != nil && len(d.TLS.Certificates) > 0 {
		o := dispatch.Offer{PriceSPerJ: p.beacon.Offer.PriceSPerJ}
		position := d.Position()
		self := slot.User{
			Position: physics.Position{EastM: position[0], NorthM: position[1]}, CPUHz: d.CPUHz,
			Task: physics.Task{Bits: 8 * float64(len(p.Input)), CyclesPerBit: d.Function.CyclesPerBit, DeadlineS: p.DeadlineS},
		}
		var offered []telemetry.OfferAircraft
		for _, a := range p.beacon.Offer.Aircraft {
			if a.Worker == "" {
				continue
			}
			gain, ok := d.gain(a.Number)
			if !ok {
				gain = -1 // the closed-form mean counts
			}
			self.Gain = append(self.Gain, gain)
			o.Aircraft = append(o.Aircraft, dispatch.OfferAircraft{
				Number: a.Number, Position: physics.Position{EastM: a.PositionM[0], NorthM: a.PositionM[1]}, CPUHz: a.CPUHz,
				ExpectedUsers: a.ExpectedUsers,
			})
			offered = append(offered, a)
		}
		if choice := o.Choose(&d.Physics, &self); choice.Server > 0 {
			a := offered[choice.Server-1]
			way.by, way.aircraft, way.offload, way.cpuHz, way.worker = telemetry.ByOffer, a.Number, choice.Offload, choice.CPUHz, a.Worker
		}
	}
	from := time.Now()
	if from.After(p.decideBy) {
		from = p.decideBy
	}
	d.begin(p, way, from)
}

// way is where a task is computed.
type way struct {
	by       string
	aircraft int
	offload  float64
	cpuHz    float64
	worker   string
	grant    []byte
	problem  string // why no aircraft may compute it
}

// begin computes a task. The mutex is held.
func (d *Device) begin(p *pending, w way, from time.Time) {
	d.pending = nil
	p.timer.Stop()
	var l *link
	if w.worker != "" && d.TLS != nil {
		l = d.link(w.worker)
	}
	d.running.Go(func() { d.run(p, w, l, from) })
}

// run computes both parts of a task at a time, and then the aircraft's part too where the aircraft is late.
func (d *Device) run(p *pending, w way, l *link, from time.Time) {
	speed := p.beacon.Speed
	seconds := func(t time.Duration) *float64 { return new(t.Seconds() * speed) }
	units := len(p.Input) / d.Function.UnitBytes
	cut := int(w.offload*float64(units)) * d.Function.UnitBytes
	out := Outcome{Slot: p.beacon.Slot, By: w.by, Chosen: w.aircraft, Bytes: len(p.Input), EdgeBytes: cut, CPUHz: w.cpuHz,
		Problem: w.problem}
	var there answer
	edge := make(chan struct{})
	ctx, cancel := context.WithCancel(d.ctx)
	defer cancel()
	go func() {
		defer close(edge)
		if cut > 0 {
			r := task.Request{Slot: p.beacon.Slot, Function: d.Function.ID, Grant: w.grant, Bytes: cut}
			if d.Function.Digest != "" {
				r.Digest, _ = task.FunctionHash(d.Function.Digest) // Initialize has checked it
			}
			there = l.compute(ctx, &r, p.Input[:cut], cut/d.Function.UnitBytes*d.Function.OutputBytes)
		}
	}()
	began := time.Now()
	here, err := d.Compute(p.Input[cut:])
	out.LocalS = seconds(time.Since(began))
	// By then the whole could have been computed here: an aircraft that has not answered was a bad bargain.
	wholeS := 8 * float64(len(p.Input)) * d.Function.CyclesPerBit / d.CPUHz / speed
	patience := time.NewTimer(time.Until(began.Add(time.Duration(min(wholeS, answerTimeout.Seconds()) * float64(time.Second)))))
	defer patience.Stop()
	select {
	case <-edge:
	case <-patience.C:
	}
	var first []byte
	if err == nil && cut > 0 {
		want := -1 // any number of bytes
		if cut < len(p.Input) && len(here) == (units-cut/d.Function.UnitBytes)*d.Function.OutputBytes {
			want = cut / d.Function.UnitBytes * d.Function.OutputBytes
		}
		first, err = d.computeUnless(edge, &there, p.Input[:cut], want)
	}
	switch {
	case err != nil || cut == 0:
	case first == nil:
		out.Aircraft, out.UploadS, out.EdgeS = w.aircraft, seconds(there.upload), seconds(there.edge)
		first = there.output
	default:
		out.By, out.Problem, out.LocalS = telemetry.ByLocal, errLate.Error(), nil
		select {
		case <-edge:
			if there.err != nil {
				out.Problem = there.err.Error()
			}
		default:
		}
	}
	if err == nil {
		out.Output = append(first, here...)
	}
	out.CompletionS, out.Err = *seconds(time.Since(from)), err
	if err == nil {
		d.publish(&out)
	}
	d.Done(out)
}

// computeUnless computes the aircraft's part here, piece by piece, until the aircraft has computed it: then it
// returns nil. there is the aircraft's answer once edge is closed. Where every unit had its most output here, so many
// bytes are wanted of the aircraft's too, and others are not joined; below 0: as many as there are.
func (d *Device) computeUnless(edge chan struct{}, there *answer, input []byte, want int) ([]byte, error) {
	piece := max(len(input)/d.Function.UnitBytes/pieces, 1) * d.Function.UnitBytes
	output := make([]byte, 0, len(input)/d.Function.UnitBytes*d.Function.OutputBytes+1)
	for at := 0; ; at += piece {
		select {
		case <-edge:
			if there.err == nil && want >= 0 && len(there.output) != want {
				there.err = fmt.Errorf("the aircraft has %d bytes of output, %d are those of its part", len(there.output), want)
			}
			if there.err == nil {
				return nil, nil
			}
		default:
		}
		if at >= len(input) {
			return output, nil
		}
		o, err := d.Compute(input[at:min(at+piece, len(input))])
		if err != nil {
			return nil, err
		}
		output = append(output, o...)
	}
}

func (d *Device) publish(o *Outcome) {
	r := telemetry.Result{Slot: o.Slot, CompletionS: o.CompletionS, By: o.By, LocalS: o.LocalS, UploadS: o.UploadS}
	payload, err := telemetry.Encode(r)
	if err != nil {
		d.Log.Error("result", "reason", err)
		return
	}
	d.client.Publish(telemetry.Publication{Topic: d.topics.Result(d.ID), QoS: 1, Payload: payload})
}

// link is the connection to a worker. The mutex is held.
func (d *Device) link(address string) *link {
	l := d.links[address]
	if l == nil {
		l = &link{address: address, tls: d.TLS, dial: d.Dial, busy: make(chan struct{}, 1)}
		d.links[address] = l
	}
	return l
}

// pieces are those of an aircraft's part that is computed here.
const pieces = 8

// errLate is why a part is computed here that an aircraft may still be computing.
var errLate = errors.New("the aircraft took longer than the whole takes here")

// Why a part is computed here that was decided to be elsewhere.
var (
	errNoWorker = errors.New("the aircraft's worker has no address")
	errInFlight = errors.New("the aircraft has not answered the request before")
)
