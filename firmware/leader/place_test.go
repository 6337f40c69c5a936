package leader

import (
	"strings"
	"testing"

	"prefdt/firmware/config"
	"prefdt/firmware/ledger"
	"prefdt/telemetry"
)

// Where, for whom and with what a mission is flown is compared whole: each part that differs
// is named, with what it was.
func TestPlaceIsComparedWhole(t *testing.T) {
	frozen := loadCheckpoint(t)
	side := frozen.Physics.AreaSideM
	for want, change := range map[string]func(c *config.Config, at *ledger.Place){
		"":                         func(*config.Config, *ledger.Place) {},
		"was begun with 100 slots": func(c *config.Config, _ *ledger.Place) { c.Slots++ },
		"the origin":               func(_ *config.Config, at *ledger.Place) { at.Origin.LongitudeDeg += 1e-6 },
		"AltitudeM":                func(_ *config.Config, at *ledger.Place) { at.Origin.AltitudeM += 10 },
		"slot_ms":                  func(_ *config.Config, at *ledger.Place) { at.SlotMS /= 2 },
		"an area of":               func(_ *config.Config, at *ledger.Place) { at.AreaM[1] += 1 },
		"the fleet":                func(_ *config.Config, at *ledger.Place) { at.Fleet += "x" },
		"2 aircraft": func(c *config.Config, _ *ledger.Place) {
			c.Aircraft = append(c.Aircraft, config.Aircraft{SystemID: 3})
		},
		"system 1 as aircraft 1": func(c *config.Config, _ *ledger.Place) {
			c.Aircraft[0], c.Aircraft[1] = c.Aircraft[1], c.Aircraft[0]
		},
	} {
		l := newInPhase(t, telemetry.StateFlying, nil, frozen.Physics, &frozen.GoalConstants)
		l.ledgerWriter.ledger = nil
		s := l.ledgerState()
		c := l.Config
		c.Aircraft = append([]config.Aircraft(nil), c.Aircraft...)
		here := place(&c, side)
		change(&c, here)
		err := checkConfigMatches(&c, here, &s)
		if (err == nil) != (want == "") || err != nil && (!strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), putBack)) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
