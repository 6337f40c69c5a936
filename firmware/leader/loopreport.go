package leader

import (
	"math"
	"time"

	"prefdt/firmware/account"
	"prefdt/firmware/fleet"
)

// LoopReport is the state of the loop after an iteration, for metrics and watchdog.
type LoopReport struct {
	At                time.Duration // on the leader's clock
	Mission, State    string
	HeldBy            string
	Slot, MissedSlots int
	Setting           float64
	SpentJ, FloorJ    float64
	BudgetJ           float64 // NaN: none
	PredictedEndJ     float64 // NaN: nothing settled yet
	TransitJ          float64
	Saturated         bool
	PriceSPerJ        float64
	LedgerMS          float64
	Connected         bool // to the broker
	LastRow           account.Row
	RejectedMessages  map[string]uint64 // MQTT messages refused, by kind
	DroppedMessages   map[string]uint64 // MQTT messages dropped for a full queue, by queue
	RejectedFrames    map[string]uint64 // MAVLink frames refused, by reason
	FleetCounts       fleet.Counts
	Aircraft          []AircraftReport
}

// AircraftReport is one aircraft of a LoopReport.
type AircraftReport struct {
	Number int
	AgeS   float64 // NaN: never received
	Charge float64 // NaN: unknown
	SpentJ float64
	Flying bool
	Source string
}

func (l *Leader) reportIteration() {
	if l.OnIteration == nil {
		return
	}
	o := l.account.Objective()
	r := LoopReport{
		At: l.Clock.Now(), Mission: l.mission.ID(), State: l.mission.Phase(), HeldBy: l.mission.HeldBy(), Slot: l.schedule.Current(), MissedSlots: l.schedule.Missed,
		Setting: o.Setting(), SpentJ: o.SpentJ(), FloorJ: o.FloorJ(), BudgetJ: math.NaN(), PredictedEndJ: math.NaN(), TransitJ: l.account.TransitJ(),
		Saturated: o.Saturated(), PriceSPerJ: l.users.PriceSPerJ(), LedgerMS: l.ledgerWriter.lastWriteMS, Connected: l.mqtt.Connected(), LastRow: l.current.lastRow,
		RejectedMessages: l.mqtt.Rejects.Counts(), DroppedMessages: l.mqtt.Dropped(), RejectedFrames: l.fleet.RejectedFrames(), FleetCounts: l.fleet.Counts(),
	}
	if o.Budgeted() {
		r.BudgetJ = o.BudgetJ()
	}
	if o.Slot() > 0 {
		r.PredictedEndJ = o.PredictedEndJ()
	}
	for i, v := range l.views {
		a := AircraftReport{Number: v.Number, AgeS: math.NaN(), Charge: v.Charge, SpentJ: l.account.SpentJ(i), Flying: v.Flying, Source: string(v.Source)}
		if v.Received {
			a.AgeS = math.Max(v.AgeS, 0)
		}
		r.Aircraft = append(r.Aircraft, a)
	}
	l.OnIteration(r)
}
