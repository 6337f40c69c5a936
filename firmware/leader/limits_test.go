package leader

import (
	"log/slog"
	"testing"

	"prefdt/firmware/config"
	"prefdt/firmware/envelope"
	"prefdt/firmware/height"
	"prefdt/inference/physics"
)

// The fleet is held to the paper's area, height and separation, and to the lesser of two
// speed limits.
func TestEnvelopeOfAMission(t *testing.T) {
	c, p := config.Defaults(), physics.DefaultConstants()
	c.Aircraft = []config.Aircraft{{SystemID: 1, Endpoint: "udp:127.0.0.1:14540"}}
	for _, speedMPS := range []float64{p.SpeedMaxMPS - 5, p.SpeedMaxMPS + 5} {
		c.Flight.SpeedMaxMPS = speedMPS
		f, err := NewFleet(&c, p, frozenClock{}, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		want := envelope.Limits{SpeedMaxMPS: min(speedMPS, p.SpeedMaxMPS), SeparationM: p.SeparationM + 2, AreaM: p.AreaSideM,
			AltitudeM: height.AboveOrigin(p.AltitudeM), BandM: 20, FenceM: 15}
		if f.Limits != want {
			t.Errorf("%+v, want %+v", f.Limits, want)
		}
	}
}
