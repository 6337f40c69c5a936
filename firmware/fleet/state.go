package fleet

import (
	"math"

	"prefdt/firmware/energy"
	"prefdt/inference/physics"
)

// SavedAircraft is what a restart needs of an aircraft.
type SavedAircraft struct {
	Number       int          `json:"number"`
	SystemID     int          `json:"system_id"`
	Meter        energy.State `json:"meter"`
	UnderCommand bool         `json:"ours"`             // it flew for us
	Homing       bool         `json:"homing,omitempty"` // it was on its way home
	WithPilot    bool         `json:"pilot,omitempty"`  // it was with its pilot, for this reason
	Reason       string       `json:"reason,omitempty"`
	Lost         bool         `json:"lost,omitempty"`
	Home         *[2]float64  `json:"home_m,omitempty"` // where it took off
	PossiblePath [][2]float64 `json:"way_m,omitempty"`  // on which it may be, in the air
}

// SavedState returns what a restart needs of each aircraft.
func (f *Fleet) SavedState() (saved []SavedAircraft) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	now := f.nowS()
	for _, a := range f.aircraft {
		ours := a.phase != PhasePilot
		s := SavedAircraft{
			Number: a.number, SystemID: a.conf.SystemID, Meter: a.meter.State(now),
			UnderCommand: ours && a.order == OrderFly, Homing: ours && a.order == OrderHome, WithPilot: !ours, Reason: a.pilotReason, Lost: a.lost,
		}
		if a.home != nil {
			s.Home = &[2]float64{a.home.EastM, a.home.NorthM}
		}
		if a.isObstacle() {
			for _, p := range a.possiblePath(now) {
				s.PossiblePath = append(s.PossiblePath, [2]float64{p.EastM, p.NorthM})
			}
		}
		saved = append(saved, s)
	}
	return saved
}

// Restore gives each aircraft what a restart knows of it, before Start. One that
// was with its pilot stays there.
func (f *Fleet) Restore(saved []SavedAircraft) {
	for i := range saved {
		s := &saved[i]
		f.withAircraft(s.Number, func(a *aircraft, now float64) {
			a.meter.Restore(now, s.Meter, math.NaN())
			a.home, a.lastKnownTrack, a.restoredBootS = nil, nil, s.Meter.BootS
			if s.Home != nil {
				a.home = &physics.Position{EastM: s.Home[0], NorthM: s.Home[1]}
			}
			for _, p := range s.PossiblePath {
				a.lastKnownTrack = append(a.lastKnownTrack, physics.Position{EastM: p[0], NorthM: p[1]})
			}
			if s.WithPilot {
				a.order = OrderFly
				a.handToPilot(f, s.Reason)
			}
		})
	}
}
