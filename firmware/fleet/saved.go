package fleet

import (
	"math"

	"prefdt/firmware/energy"
	"prefdt/inference/physics"
)

// Saved is what a restart needs of an aircraft.
type Saved struct {
	Number   int          `json:"number"`
	SystemID int          `json:"system_id"`
	Meter    energy.State `json:"meter"`
	Ours     bool         `json:"ours"`             // it flew for us
	Homing   bool         `json:"homing,omitempty"` // it was on its way home
	Pilot    bool         `json:"pilot,omitempty"`  // it was with its pilot, for this reason
	Reason   string       `json:"reason,omitempty"`
	Lost     bool         `json:"lost,omitempty"`
	Home     *[2]float64  `json:"home_m,omitempty"` // where it took off
	Way      [][2]float64 `json:"way_m,omitempty"`  // on which it may be, in the air
}

// State returns what a restart needs of each aircraft.
func (f *Fleet) State() (saved []Saved) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	now := f.nowS()
	for _, a := range f.aircraft {
		ours := a.phase != PhaseTaken
		s := Saved{
			Number: a.number, SystemID: a.conf.SystemID, Meter: a.meter.State(now),
			Ours: ours && a.order == OrderFly, Homing: ours && a.order == OrderHome, Pilot: !ours, Reason: a.why, Lost: a.lost,
		}
		if a.home != nil {
			s.Home = &[2]float64{a.home.EastM, a.home.NorthM}
		}
		if a.inTheWay() {
			for _, p := range a.whereabouts(now) {
				s.Way = append(s.Way, [2]float64{p.EastM, p.NorthM})
			}
		}
		saved = append(saved, s)
	}
	return saved
}

// Restore gives each aircraft what a restart knows of it, before Start. One that
// was with its pilot stays there.
func (f *Fleet) Restore(saved []Saved) {
	for i := range saved {
		s := &saved[i]
		f.with(s.Number, func(a *aircraft, now float64) {
			a.meter.Restore(now, s.Meter, math.NaN())
			a.home, a.ghost, a.restoredS = nil, nil, s.Meter.BootS
			if s.Home != nil {
				a.home = &physics.Position{EastM: s.Home[0], NorthM: s.Home[1]}
			}
			for _, p := range s.Way {
				a.ghost = append(a.ghost, physics.Position{EastM: p[0], NorthM: p[1]})
			}
			if s.Pilot {
				a.order = OrderFly
				a.take(f, s.Reason)
			}
		})
	}
}
