package leader

import (
	"math"
	"time"

	"prefdt/firmware/account"
	"prefdt/firmware/fleet"
)

// Report is how the loop stands after a turn: a value, for whoever shows it.
type Report struct {
	At             time.Duration // on the leader's clock
	Mission, State string
	HeldBy         string
	Slot, Missed   int
	Setting        float64
	SpentJ, FloorJ float64
	BudgetJ        float64 // NaN: none
	PredictedEndJ  float64 // NaN: nothing settled yet
	TransitJ       float64
	Saturated      bool
	PriceSPerJ     float64
	LedgerMS       float64
	Connected      bool // to the broker
	Last           account.Row
	Rejects        map[string]uint64 // MQTT messages refused, by kind
	Dropped        map[string]uint64 // MQTT messages that a full queue cost, by queue
	Frames         map[string]uint64 // MAVLink frames refused, by reason
	Counts         fleet.Counts
	Aircraft       []AircraftReport
}

// AircraftReport is one aircraft of a Report.
type AircraftReport struct {
	Number  int
	AgeS    float64 // NaN: never received
	Charge  float64 // NaN: unknown
	SpentJ  float64
	Flying  bool
	Source  string
	Reason  string
	InPilot bool
}

// turned reports a turn of the loop.
func (l *Leader) turned() {
	if l.Turned == nil {
		return
	}
	o := l.account.Objective()
	r := Report{
		At: l.Clock.Now(), Mission: l.mission.ID(), State: l.mission.Phase(), HeldBy: l.mission.HeldBy(), Slot: l.schedule.Open(), Missed: l.schedule.Missed,
		Setting: o.Setting(), SpentJ: o.SpentJ(), FloorJ: o.FloorJ(), BudgetJ: math.NaN(), PredictedEndJ: math.NaN(), TransitJ: l.account.TransitJ(),
		Saturated: o.Saturated(), PriceSPerJ: l.users.PriceSPerJ(), LedgerMS: l.journal.tookMS, Connected: l.link.Connected(), Last: l.now.lastRow,
		Rejects: l.link.Rejects.Counts(), Dropped: l.link.Dropped(), Frames: l.fleet.Rejects(), Counts: l.fleet.Counts(),
	}
	if o.Budgeted() {
		r.BudgetJ = o.BudgetJ()
	}
	if o.Slot() > 0 {
		r.PredictedEndJ = o.PredictedEndJ()
	}
	for i := range l.views {
		v := &l.views[i]
		a := AircraftReport{Number: v.Number, AgeS: math.NaN(), Charge: v.Charge, SpentJ: l.account.SpentJ(i), Flying: v.Flying, Source: string(v.Source), Reason: v.Reason, InPilot: v.Pilot()}
		if v.Heard {
			a.AgeS = math.Max(v.AgeS, 0)
		}
		r.Aircraft = append(r.Aircraft, a)
	}
	l.Turned(r)
}
