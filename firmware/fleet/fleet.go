// Package fleet is the leader's side of the MAVLink links to the aircraft.
//
// Inputs: MAVLink frames (position, HEARTBEAT, battery, parameters, status text), and
// the loop's orders: Launch, Resume, Rejoin, SendHome, Stop, and each slot a Leg, Goto or
// Hold. Outputs: a View of each aircraft's measured state and joules; arming, take-off
// and mode commands; setpoints ten times a mission second, each checked by package
// envelope; STATUSTEXT for ground stations. Called by the leader's loop and preflight.
//
// Every outgoing message passes Fleet.send, which asks one function, the gate, whether
// the aircraft may be sent it now (gate.go). A pilot's action is detected when its
// message is handled (pilot.go), and ends the leader's control; only Launch, Resume
// and Rejoin begin it (orders.go).
package fleet

import (
	"fmt"
	"log/slog"
	"maps"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bluenviron/gomavlib/v3"
	"github.com/bluenviron/gomavlib/v3/pkg/dialect"
	"github.com/bluenviron/gomavlib/v3/pkg/frame"
	"github.com/bluenviron/gomavlib/v3/pkg/message"

	"prefdt/firmware/clock"
	"prefdt/firmware/energy"
	"prefdt/firmware/envelope"
	"prefdt/firmware/height"
	"prefdt/inference/physics"
)

// VehicleLink is the configuration of one link. Its place in the list, from 1, is
// the aircraft's number.
type VehicleLink struct {
	SystemID int
	Endpoint string  // udp-listen:host:port, udp:host:port or serial:device:baud
	PackJ    float64 // what its pack holds when full; 0: its autopilot says, or the airframe's
}

// Fleet is all aircraft. Set the exported fields, then Initialize, Start and Stream.
type Fleet struct {
	SystemID     int // the leader's
	Origin       Origin
	Physics      physics.Constants
	Limits       envelope.Limits
	Speed        float64 // mission seconds per second
	VehicleLinks []VehicleLink
	Key          *frame.V2Key // signs outgoing frames, and refuses unsigned incoming ones; nil: unsigned
	Clock        clock.Clock
	Log          *slog.Logger
	Endpoint     func(string) (gomavlib.EndpointConf, error) // nil: [ParseEndpoint]
	MayBeat      func() bool                                 // whether a HEARTBEAT may be sent before SetCommanding; nil: each may

	mutex           sync.Mutex
	aircraft        []*aircraft
	links           []*endpointLink
	rejectedFrames  map[string]uint64
	counts          Counts
	envelopeChecker envelope.Checker

	codec          dialect.ReadWriter
	signatureClock signatureClock

	announcementQueue chan []message.Message
	textMutex         sync.Mutex         // the next two
	textSentS         map[string]float64 // texts sent lately, on Clock
	textID            uint16

	streaming  atomic.Bool
	commanding atomic.Bool
	linkOpened atomic.Bool   // since the last HEARTBEAT
	knockedS   float64       // HEARTBEATs were last asked for where none may be sent
	tickedAt   time.Duration // the last tick, on Clock
	readsUntil time.Duration // until then the messages of a stall are read, see readsFirst
	// heartbeatsFromS is from when on a HEARTBEAT was sent after the last stall, mission seconds.
	heartbeatsFromS float64

	stop chan struct{}
	done sync.WaitGroup
}

// Counts are totals since the start.
type Counts struct {
	Setpoints        int // sent
	GateRefused      int // messages that the gate refused
	Corrected        int // setpoints changed by the envelope
	Held             int // setpoints turned into a hold by the envelope
	ExpiredSetpoints int // times that a setpoint was older than two slots
	Alarms           int // times that an aircraft was measured outside fence or altitude band, or closer than D_min
	// MinSeparationM is the least horizontal distance measured between two aircraft in
	// the air, +Inf before there were two.
	MinSeparationM float64
	MaxSpeedMPS    float64
}

// Initialize creates the aircraft, of which nothing was received yet.
func (f *Fleet) Initialize() error {
	f.rejectedFrames = map[string]uint64{}
	f.counts.MinSeparationM = math.Inf(1)
	f.stop = make(chan struct{})
	f.announcementQueue = make(chan []message.Message, announcementQueueSize)
	f.textSentS = map[string]float64{}
	f.codec.Dialect = leaderDialect
	if err := f.codec.Initialize(); err != nil {
		return fmt.Errorf("MAVLink dialect: %w", err)
	}
	f.signatureClock = signatureClock{clock: f.Clock, wall: time.Now} // they must be wall time
	p := f.Physics.Propulsion
	for i, c := range f.VehicleLinks {
		f.aircraft = append(f.aircraft, &aircraft{
			number: i + 1, conf: c, charge: math.NaN(), batteryReading: energy.Absent(),
			control: control{modeRequestedS: map[Mode]float64{}},
			params:  Parameters{leader: f.leaderFacts()},
			meter:   energy.Meter{PowerW: p.PowerW, MaxPowerW: 10 * p.PowerW(f.Physics.SpeedMaxMPS)},
		})
		f.aircraft[i].meter.CapacityJ = f.aircraft[i].capacityJ(&f.Physics)
	}
	return nil
}

// bandFromM and highestM are the ends of the altitude band.
func (f *Fleet) bandFromM() height.AboveOrigin {
	return f.Limits.AltitudeM - height.AboveOrigin(f.Limits.BandM)
}
func (f *Fleet) highestM() height.AboveOrigin {
	return f.Limits.AltitudeM + height.AboveOrigin(f.Limits.BandM)
}

// Start opens the links and listens. A link that cannot be opened is tried again: it keeps no aircraft of another one on the ground.
// Call Restore before it, if at all.
func (f *Fleet) Start() error {
	byEndpoint := map[string]*endpointLink{}
	for _, a := range f.aircraft {
		l := byEndpoint[a.conf.Endpoint]
		if l == nil {
			l = &endpointLink{fleet: f, endpoint: a.conf.Endpoint, channels: map[*gomavlib.Channel]*byte{},
				signatureLinkID: byte(rand.Uint32())}
			if _, err := l.parse(); err != nil {
				f.links = nil
				return fmt.Errorf("aircraft %d: %w", a.number, err)
			}
			byEndpoint[a.conf.Endpoint] = l
			f.links = append(f.links, l)
		}
		a.link = l
		l.aircraft = append(l.aircraft, a)
	}
	tried := make(chan struct{}, len(f.links))
	for _, l := range f.links {
		f.done.Go(func() { l.serve(tried) })
	}
	f.awaitLinks(tried)
	f.done.Go(f.run)
	return nil
}

// awaitLinks waits until each link was tried, but not for one whose name is looked up for long.
func (f *Fleet) awaitLinks(tried <-chan struct{}) {
	late := f.Clock.After(openWithin)
	for range f.links {
		select {
		case <-tried:
		case <-late:
			return
		}
	}
}

// StartStreaming begins to send requests, commands and setpoints.
func (f *Fleet) StartStreaming() { f.streaming.Store(true) }

// SetCommanding says that the leader commands: its HEARTBEATs need no other permission any more.
func (f *Fleet) SetCommanding() { f.commanding.Store(true) }

// mayBeat is whether a HEARTBEAT may be sent now.
func (f *Fleet) mayBeat() bool { return f.commanding.Load() || f.MayBeat == nil || f.MayBeat() }

// Close ends the streams and the links and waits for them. The autopilots'
// own failsafe follows for any aircraft that still flies by setpoints.
func (f *Fleet) Close() {
	close(f.stop)
	f.done.Wait()
}

// nowS is the mission time in seconds since the leader's clock started.
func (f *Fleet) nowS() float64 { return f.Clock.Now().Seconds() * f.Speed }

// run ticks at 10 Hz of mission time; a tick that a stall delays comes once.
func (f *Fleet) run() {
	period, next := max(time.Millisecond, time.Duration(float64(100*time.Millisecond)/f.Speed)), f.Clock.Now()
	announcedS := math.Inf(-1)
	for {
		next = max(next+period, f.Clock.Now())
		select {
		case <-f.stop:
			return
		case <-f.Clock.After(next - f.Clock.Now()):
			if now := f.nowS(); now-announcedS >= 1 || f.linkOpened.Load() {
				f.linkOpened.Store(false)
				f.mutex.Lock()
				if f.beat(now) {
					announcedS = now
				}
				f.mutex.Unlock()
			}
			if f.streaming.Load() {
				f.tick()
				f.sendAnnouncements()
			}
		}
	}
}

// RejectedFrames returns how many frames were refused, by reason.
func (f *Fleet) RejectedFrames() map[string]uint64 {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	return maps.Clone(f.rejectedFrames)
}

// Counts returns the totals so far.
func (f *Fleet) Counts() Counts {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	return f.counts
}

// rejectFrame counts a refused frame and logs the first of its reason. Called with
// the mutex held.
func (f *Fleet) rejectFrame(reason string) {
	f.rejectedFrames[reason]++
	if f.rejectedFrames[reason] == 1 {
		f.Log.Warn("mavlink frame refused; further ones for this reason are only counted", "reason", reason)
	}
}
