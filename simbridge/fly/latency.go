package fly

import (
	"math"
	"sync"
	"time"

	"prefdt/simbridge/autopilot"
	"prefdt/simbridge/geo"
	"prefdt/simbridge/report"
	"prefdt/telemetry"
)

// latency measures how long the leader takes, by what arrives here: what a
// board and its links can do is read from this.
type latency struct {
	mutex      sync.Mutex
	intervalMS float64 // between setpoints: a tenth of a slot
	slots      []slotDelays
	craft      []streamed
}

type slotDelays struct {
	beacon     telemetry.Slot
	at         time.Time
	jitterMS   float64
	decisionMS []float64
	streamMS   []float64
	setpointMS []float64 // by aircraft
}

// streamed is an aircraft's last setpoint.
type streamed struct {
	at       time.Time
	velocity geo.Local
}

func (l *latency) init(c *Config) {
	l.intervalMS = 100 / c.Speed
	l.craft = make([]streamed, len(c.Aircraft))
}

func (l *latency) beacon(b telemetry.Slot, at time.Time) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	s := slotDelays{beacon: b, at: at}
	if n := len(l.slots); n > 0 {
		last := &l.slots[n-1]
		s.jitterMS = ms(at.Sub(last.at)) - float64(b.Slot-last.beacon.Slot)*b.SlotMS
	}
	for range l.craft {
		s.setpointMS = append(s.setpointMS, math.NaN())
	}
	l.slots = append(l.slots, s)
}

func (l *latency) decision(slot int, at time.Time) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	for i := len(l.slots) - 1; i >= 0; i-- {
		if s := &l.slots[i]; s.beacon.Slot == slot {
			s.decisionMS = append(s.decisionMS, ms(at.Sub(s.at)))
			return
		}
	}
}

func (l *latency) setpoint(i int, h autopilot.Heard) {
	if h.Setpoint == nil {
		return
	}
	now := time.Now()
	l.mutex.Lock()
	defer l.mutex.Unlock()
	c := &l.craft[i]
	if n := len(l.slots); n > 0 {
		s := &l.slots[n-1]
		if ms(now.Sub(s.at)) < 2*s.beacon.SlotMS { // not after the last slot
			if gap := ms(now.Sub(c.at)); gap < 10*l.intervalMS { // the stream was on
				s.streamMS = append(s.streamMS, math.Abs(gap-l.intervalMS))
			}
			if c.velocity != h.Setpoint.Velocity && math.IsNaN(s.setpointMS[i]) {
				s.setpointMS[i] = ms(now.Sub(s.at))
			}
		}
	}
	c.at, c.velocity = now, h.Setpoint.Velocity
}

// report returns the figures of every slot, and of all.
func (l *latency) report() (slots []report.Delays, all report.Latency) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	var decisions, setpoints, beacons, streams []float64
	for i := range l.slots {
		s := &l.slots[i]
		late := 0
		for _, x := range s.decisionMS {
			if x > s.beacon.DecideByMS {
				late++
			}
		}
		for _, x := range s.setpointMS {
			if !math.IsNaN(x) {
				setpoints = append(setpoints, x)
			}
		}
		all.Late += late
		decisions, streams = append(decisions, s.decisionMS...), append(streams, s.streamMS...)
		beacons = append(beacons, math.Abs(s.jitterMS))
		slots = append(slots, report.Delays{
			Slot: s.beacon.Slot, Decisions: len(s.decisionMS), Late: late, DecisionMS: report.SpreadOf(s.decisionMS),
			SetpointMS: s.setpointMS, BeaconMS: s.jitterMS, StreamMS: report.SpreadOf(s.streamMS),
		})
	}
	all.DecisionMS, all.SetpointMS = report.SpreadOf(decisions), report.SpreadOf(setpoints)
	all.BeaconMS, all.StreamMS = report.SpreadOf(beacons), report.SpreadOf(streams)
	return slots, all
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
