package fly

import (
	"math"
	"slices"
	"sync"
	"time"

	"prefdt/simbridge/autopilot"
	"prefdt/simbridge/geo"
	"prefdt/simbridge/report"
	"prefdt/telemetry"
)

// latency measures how long the leader takes from a beacon to its decisions and
// setpoints, as they arrive here: links and board together.
type latency struct {
	mutex         sync.Mutex
	intervalMS    float64 // between setpoints: a tenth of a slot
	slots         []slotLatency
	lastSetpoints []lastSetpoint
}

type slotLatency struct {
	beacon           telemetry.Slot
	receivedAt       time.Time
	beaconJitterMS   float64
	decisionMS       []float64
	setpointJitterMS []float64
	firstSetpointMS  []float64 // by aircraft
}

// lastSetpoint is an aircraft's last setpoint.
type lastSetpoint struct {
	receivedAt time.Time
	velocity   geo.Local
}

func (l *latency) noteBeacon(b telemetry.Slot, at time.Time) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	s := slotLatency{beacon: b, receivedAt: at, firstSetpointMS: slices.Repeat([]float64{math.NaN()}, len(l.lastSetpoints))}
	if n := len(l.slots); n > 0 {
		last := &l.slots[n-1]
		s.beaconJitterMS = ms(at.Sub(last.receivedAt)) - float64(b.Slot-last.beacon.Slot)*b.SlotMS
	}
	l.slots = append(l.slots, s)
}

func (l *latency) noteDecision(slot int, at time.Time) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	for i := len(l.slots) - 1; i >= 0; i-- {
		if s := &l.slots[i]; s.beacon.Slot == slot {
			s.decisionMS = append(s.decisionMS, ms(at.Sub(s.receivedAt)))
			return
		}
	}
}

func (l *latency) noteSetpoint(i int, h autopilot.Received) {
	if h.Setpoint == nil {
		return
	}
	now := time.Now()
	l.mutex.Lock()
	defer l.mutex.Unlock()
	c := &l.lastSetpoints[i]
	if n := len(l.slots); n > 0 {
		s := &l.slots[n-1]
		if ms(now.Sub(s.receivedAt)) < 2*s.beacon.SlotMS { // not after the last slot
			if gap := ms(now.Sub(c.receivedAt)); gap < 10*l.intervalMS { // the stream was on
				s.setpointJitterMS = append(s.setpointJitterMS, math.Abs(gap-l.intervalMS))
			}
			if c.velocity != h.Setpoint.Velocity && math.IsNaN(s.firstSetpointMS[i]) {
				s.firstSetpointMS[i] = ms(now.Sub(s.receivedAt))
			}
		}
	}
	c.receivedAt, c.velocity = now, h.Setpoint.Velocity
}

// summarize returns the figures of every slot, and of all.
func (l *latency) summarize() (slots []report.SlotLatency, all report.Latency) {
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
		setpoints = append(setpoints, slices.DeleteFunc(slices.Clone(s.firstSetpointMS), math.IsNaN)...)
		all.LateDecisions += late
		decisions, streams = append(decisions, s.decisionMS...), append(streams, s.setpointJitterMS...)
		beacons = append(beacons, math.Abs(s.beaconJitterMS))
		slots = append(slots, report.SlotLatency{
			Slot: s.beacon.Slot, Decisions: len(s.decisionMS), LateDecisions: late, DecisionMS: report.QuantilesOf(s.decisionMS),
			FirstSetpointMS: s.firstSetpointMS, BeaconJitterMS: s.beaconJitterMS, SetpointJitterMS: report.QuantilesOf(s.setpointJitterMS),
		})
	}
	all.DecisionMS, all.FirstSetpointMS = report.QuantilesOf(decisions), report.QuantilesOf(setpoints)
	all.BeaconJitterMS, all.SetpointJitterMS = report.QuantilesOf(beacons), report.QuantilesOf(streams)
	return slots, all
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
