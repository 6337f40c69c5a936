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
// message is handled, and ends the leader's control; only Launch, Resume
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
	"github.com/bluenviron/gomavlib/v3/pkg/dialects/common"
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
			control: control{order: order{modeRequestedS: map[Mode]float64{}}},
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

// tick sends the commands that are due, and one setpoint to each aircraft under
// control; all setpoints are checked by the envelope together.
func (f *Fleet) tick() {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if f.readsFirst() {
		return
	}
	now := f.nowS()
	var vehicles []envelope.Vehicle
	var of []*aircraft
	var streamed []bool
	limits := f.Limits
	for _, a := range f.aircraft {
		commands, stream := a.steer(f, now)
		for _, m := range commands {
			f.send(a.link, a.channel, a, m)
		}
		if stream {
			a.expireTrajectory(f, now)
			stream = a.trajectory.kind != trajectoryNone && !a.trajectory.ended
		}
		if !a.isObstacle() {
			continue
		}
		path := a.possiblePath(now)
		v := envelope.Vehicle{
			Controlled: stream && !a.silent(now), Position: path[len(path)-1], PossiblePath: path, UpM: a.upM,
			Velocity: a.velocity, TargetUpM: f.Limits.AltitudeM, Loop: a.params.positionLoop(), HeldAt: a.heldAt,
		}
		v.LagS, v.StopsInM = a.params.kind().motion(&a.params)
		v.LagS += a.updateDelayS(now)
		if now-a.positionS > staleAfterS {
			v.Velocity = physics.Position{}
		}
		v.Target, v.FeedForwardMPS = a.reference(now)
		v.Stays = a.trajectory.kind == trajectoryHold
		if !stream || a.upM > f.bandFromM() {
			a.climbFrom = nil
		} else { // it climbs before it flies anywhere
			if a.climbFrom == nil {
				a.climbFrom = &path[len(path)-1]
			}
			v.Target, v.FeedForwardMPS = *a.climbFrom, physics.Position{}
		}
		if stream && a.params.SpeedMaxMPS > 0 {
			limits.SpeedMaxMPS = min(limits.SpeedMaxMPS, a.params.SpeedMaxMPS)
		}
		v.FenceExempt, v.Landing = a.homeward || a.climbFrom != nil, a.phase == PhaseLanding && a.role() == RoleLand
		vehicles, of, streamed = append(vehicles, v), append(of, a), append(streamed, stream)
	}
	verdicts := f.envelopeChecker.Check(vehicles, limits)
	for i, a := range of {
		v := &vehicles[i]
		switch {
		case !streamed[i]:
			verdicts[i] = envelope.Kept
		case !v.Controlled: // not received: the others give way, it holds
			v.Hold(limits)
			verdicts[i] = envelope.Held
		}
		a.updateHeldAt(now, verdicts[i], v)
		if !streamed[i] {
			continue
		}
		switch verdicts[i] {
		case envelope.Corrected:
			f.counts.Corrected++
		case envelope.Held:
			f.counts.Held++
		}
		if f.send(a.link, a.channel, a, f.setpointMessage(a, v)) {
			f.counts.Setpoints++
		}
	}
	f.checkMeasured(of)
}

// readsFirst is whether the leader stood still, stopped or swapped out, and has to read what was sent
// meanwhile: a pilot may have taken an aircraft. By then the autopilots have missed their setpoints in
// any case. It is through when the autopilots' clocks run no faster than time. What waited may have been
// dropped: each aircraft is commanded again after its next HEARTBEAT. Called with the mutex held.
func (f *Fleet) readsFirst() bool {
	const (
		readsFor   = 50 * time.Millisecond // by the host's clock, however fast the mission runs
		bufferedMS = 200
	)
	now := f.Clock.Now()
	mostMS := 2*1000*(now-f.tickedAt).Seconds()*f.Speed + bufferedMS
	behind := f.stoodStill(now)
	if behind {
		f.heartbeatsFromS = (now + readsFor).Seconds() * f.Speed
	}
	for _, a := range f.aircraft {
		behind = behind || now < f.readsUntil && a.bootMS-a.bootMSAtTick > mostMS
		a.bootMSAtTick = a.bootMS
	}
	if behind {
		f.readsUntil = now + readsFor
	}
	f.tickedAt = now
	return now < f.readsUntil
}

// stoodStill is whether the leader did nothing for so long that its autopilots may have acted: what it
// decided at the last tick is not sent any more.
func (f *Fleet) stoodStill(now time.Duration) bool {
	const stallS = 1.5
	return (now-f.tickedAt).Seconds()*f.Speed > stallS
}

// updateDelayS returns how much later than usual its positions came, or its setpoints were sent,
// lately: as much later it follows.
func (a *aircraft) updateDelayS(now float64) float64 {
	const tickS, remembered = 0.1, 0.95 // the share of it that is left a tick later
	late := now - a.positionS - tickS
	if gap := now - a.setpointSentS; a.setpointSentS > 0 && gap < silentAfterS { // else none was to be sent
		late = max(late, gap-tickS)
	}
	a.delayS = min(max(late, remembered*a.delayS, 0), silentAfterS)
	return a.delayS
}

// checkMeasured keeps the least separation measured and raises alarms, once for each
// time that a limit is left.
func (f *Fleet) checkMeasured(obstacles []*aircraft) {
	for i, a := range obstacles {
		if !a.inAir() || a.lost {
			continue // about to take off, or not measured
		}
		alarm := ""
		if a.phase == PhaseFlying && !a.homeward {
			alarm = f.Limits.Alarm(a.position, a.upM)
		}
		for _, b := range obstacles[:i] {
			if !b.inAir() || b.lost {
				continue
			}
			d := a.position.Sub(b.position).Norm()
			f.counts.MinSeparationM = min(f.counts.MinSeparationM, d)
			if d < f.Limits.SeparationM && a.upM.Off(b.upM) < f.Limits.SeparationM && a.phase == PhaseFlying &&
				b.phase == PhaseFlying {
				alarm = "closer to another than the least separation"
			}
		}
		if alarm != a.alarm {
			if alarm != "" {
				f.counts.Alarms++
				f.Log.Error("flight alarm", "aircraft", a.number, "alarm", alarm,
					"east_m", a.position.EastM, "north_m", a.position.NorthM, "up_m", a.upM)
			}
			a.alarm = alarm
		}
	}
}

// setpointMessage is a position with velocity feed-forward in the global frame: the
// local frame is relative to each vehicle's own origin.
func (f *Fleet) setpointMessage(a *aircraft, v *envelope.Vehicle) message.Message {
	lat, lon, alt := f.Origin.Geodetic(v.Target, a.reportedM(v.TargetUpM))
	return &common.MessageSetPositionTargetGlobalInt{
		TimeBootMs:      uint32(int64(a.bootMS)), // it wraps there, too
		CoordinateFrame: common.MAV_FRAME_GLOBAL_INT,
		TypeMask: common.POSITION_TARGET_TYPEMASK_AX_IGNORE | common.POSITION_TARGET_TYPEMASK_AY_IGNORE |
			common.POSITION_TARGET_TYPEMASK_AZ_IGNORE | common.POSITION_TARGET_TYPEMASK_YAW_IGNORE |
			common.POSITION_TARGET_TYPEMASK_YAW_RATE_IGNORE,
		LatInt: int32(math.Round(lat * 1e7)), LonInt: int32(math.Round(lon * 1e7)), Alt: float32(alt),
		Vx: float32(v.FeedForwardMPS.NorthM), Vy: float32(v.FeedForwardMPS.EastM),
	}
}

// steer advances the control of the aircraft by one tick. It returns the commands to send and
// whether a setpoint is due; the gate decides whether they may be sent.
func (a *aircraft) steer(f *Fleet, now float64) (out []message.Message, stream bool) {
	a.checkReception(f, now)
	if !a.hasWayToGo() || a.velocity.Norm() > slowMPS {
		a.slowSinceS = now
	}
	if !a.fresh(now) || !a.controlled() {
		return nil, false
	}
	switch {
	case a.phase == PhaseStopping:
		a.hold(now)
		return a.stop(f, now)
	case a.homeward:
		return a.flyHome(f, now)
	}
	return a.fly(f, now)
}

// updateHeldAt keeps the position where the envelope holds an aircraft.
func (a *aircraft) updateHeldAt(now float64, verdict envelope.Verdict, v *envelope.Vehicle) {
	if verdict != envelope.Held { // one that others keep a little off its home has arrived all the same
		a.heldAt = nil
		return
	}
	a.arrivedS = now
	if a.heldAt == nil || v.HeldAt == nil { // the envelope gave that place up
		a.heldAt = new(v.Target)
	}
}
