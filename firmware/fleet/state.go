package fleet

import (
	"math"

	"prefdt/firmware/energy"
	"prefdt/firmware/height"
	"prefdt/inference/physics"
)

// SavedAircraft is the state of an aircraft that a restart needs.
type SavedAircraft struct {
	Number       int          `json:"number"`
	SystemID     int          `json:"system_id"`
	Meter        energy.State `json:"meter"`
	Pack         Pack         `json:"pack,omitzero"`
	UnderCommand bool         `json:"ours"`               // it had the order to fly, or to hold, and was not under pilot control
	Homing       bool         `json:"homing,omitempty"`   // likewise, the order to return
	Engaged      bool         `json:"offboard,omitempty"` // it was engaged, or may be at any moment
	WithPilot    bool         `json:"pilot,omitempty"`    // it was under pilot control, for Reason
	Reason       string       `json:"reason,omitempty"`
	SentHome     string       `json:"sent_home,omitempty"` // why the leader sent it home by itself
	Lost         bool         `json:"lost,omitempty"`
	SpeedMaxMPS  float64      `json:"speed_max_mps,omitempty"` // its autopilot's limit, until that is read again; 0: not read
	Home         *[3]float64  `json:"home_m,omitempty"`        // where it took off; of earlier leaders without its height, the origin's
	PossiblePath [][2]float64 `json:"way_m,omitempty"`         // of an obstacle
	CameBy       [][2]float64 `json:"came_by_m,omitempty"`     // the way on which it came, where its autopilot may return on it
	SpeedMPS     float64      `json:"speed_mps,omitempty"`     // measured
	Height       *SavedHeight `json:"height,omitempty"`        // of one that flies
}

// Order is the state once an aircraft has been ordered something.
func (s *SavedAircraft) Order(o Ordered) {
	if o.Clear {
		s.PossiblePath = nil
		return
	}
	s.UnderCommand, s.Homing, s.Engaged = !o.Homeward, o.Homeward, o.Engages
	s.WithPilot, s.Reason, s.Lost, s.SentHome = false, "", false, ""
	if o.Home != nil {
		s.Home = &[3]float64{o.Home.EastM, o.Home.NorthM, float64(o.HomeUpM)}
	}
}

// SendHome is the state once an aircraft under command is sent home; any other stays as it is.
func (s *SavedAircraft) SendHome() {
	s.Homing = s.Homing || s.UnderCommand
	s.UnderCommand = false
}

// SetDurable tells what the ledger has of each aircraft. One is engaged only if a restart
// would know that, or would leave it to its pilot: else a hold that its pilot chose in
// between would be taken for the end of its take-off.
func (f *Fleet) SetDurable(saved []SavedAircraft) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	for i, a := range f.aircraft {
		a.mayEngage = saved[i].Engaged || !saved[i].UnderCommand && !saved[i].Homing
	}
}

// SavedState returns the state of each aircraft that a restart needs.
func (f *Fleet) SavedState() (saved []SavedAircraft) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	now := f.nowS()
	for _, a := range f.aircraft {
		s := SavedAircraft{
			Number: a.number, SystemID: a.conf.SystemID, Meter: a.meter.State(now), Pack: a.pack,
			UnderCommand: (a.phase.ordered() || a.phase == PhaseStopping && a.inAir()) && !a.homeward, Homing: a.homeward,
			Engaged: a.engaged(), WithPilot: a.phase == PhasePilot, Reason: a.pilotReason, SentHome: a.sentHome, Lost: a.lost,
			SpeedMaxMPS: a.params.SpeedMaxMPS, SpeedMPS: a.velocity.Norm(), Height: a.heights.saved(),
		}
		if a.home != nil {
			s.Home = &[3]float64{a.home.EastM, a.home.NorthM, float64(a.homeUpM)}
		}
		if a.isObstacle() {
			for _, p := range a.possiblePath(now) {
				s.PossiblePath = append(s.PossiblePath, [2]float64{p.EastM, p.NorthM})
			}
		}
		for _, p := range corners(a.cameBy) {
			s.CameBy = append(s.CameBy, [2]float64{math.Round(10*p.EastM) / 10, math.Round(10*p.NorthM) / 10})
		}
		saved = append(saved, s)
	}
	return saved
}

// engaged is whether it was engaged in its order, or may be at any moment.
func (a *aircraft) engaged() bool {
	if a.phase == PhaseRejoining {
		return a.restoredEngaged
	}
	return a.phase != PhasePilot && a.engagedS > 0
}

// Restore restores the aircraft's saved state, before Start. An aircraft under pilot
// control stays so; one that had an order waits for Rejoin.
func (f *Fleet) Restore(saved []SavedAircraft) {
	for i := range saved {
		s := &saved[i]
		f.withAircraft(s.Number, func(a *aircraft, now float64) {
			a.restorePack(f, s.Pack)
			a.meter.Restore(now, s.Meter, math.NaN())
			a.params.SpeedMaxMPS = s.SpeedMaxMPS
			a.home, a.lastKnownTrack, a.restoredBootS, a.restoredEngaged = nil, nil, s.Meter.BootS, s.Engaged
			a.sentHome, a.heights = s.SentHome, s.Height.restored()
			if s.Home != nil {
				a.home = &physics.Position{EastM: s.Home[0], NorthM: s.Home[1]}
				a.homeUpM = height.AboveOrigin(s.Home[2])
			}
			for _, p := range s.PossiblePath {
				a.lastKnownTrack = append(a.lastKnownTrack, physics.Position{EastM: p[0], NorthM: p[1]})
			}
			a.cameBy = nil
			for _, p := range s.CameBy {
				a.cameBy = appendWay(a.cameBy, physics.Position{EastM: p[0], NorthM: p[1]})
			}
			a.leftAt, a.leftMPS = a.lastKnownTrack, s.SpeedMPS
			switch {
			case s.WithPilot:
				a.handToPilot(f, s.Reason)
			case s.Homing, s.UnderCommand:
				a.phase, a.homeward = PhaseRejoining, s.Homing
			}
		})
	}
}
