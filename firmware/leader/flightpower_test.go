package leader_test

import (
	"strings"
	"testing"

	"prefdt/simbridge/autopilot"
	"prefdt/simbridge/geo"
	"prefdt/simbridge/rig"
	"prefdt/simbridge/simnet"
	"prefdt/telemetry"
)

// Aircraft that take 2.1 times what the checkpoint expects are told of after ten slots, and the floor of the next
// mission's budget is by what was measured.
func TestFlightThatCostsMoreIsToldOf(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		r := rig.New(t, 2, 60)
		for i := range r.Autopilots {
			r.ReplaceAutopilot(i, func(c *autopilot.Config) {
				modelW := c.PowerW
				c.PowerW = func(slot int, v geo.Local) float64 { return 2.1 * modelW(slot, v) }
			})
		}
		f := r.StartLeader()
		r.Await("the leader", rig.AnyStatus)
		first := r.SendCommand(r.Topics.Budget(), `{"id":"b1","energy_j":30000,"mode":"target"}`, "b1")
		r.TakeOff()
		r.Await("a warning", func(s telemetry.Status) bool {
			return rig.Flying(s) && s.Slot < 15 && strings.Contains(s.Reason, "flight takes 2.1 times")
		})
		r.MustSendAction("return")
		r.Await("done", rig.Done)
		floor := func(id string) float64 {
			t.Helper()
			ack := r.SendCommand(r.Topics.Budget(), `{"id":"`+id+`","energy_j":30000,"mode":"target"}`, id)
			return *ack.FloorJ / *first.FloorJ
		}
		if ack := r.SendMission(telemetry.Mission{Action: "new", Mission: "next"}); !ack.Accepted {
			t.Fatalf("%+v", ack)
		}
		if ratio := floor("b2"); ratio < 1.9 || ratio > 2.3 {
			t.Errorf("the next mission's floor is %.2f times that of the first", ratio)
		}
		r.AwaitSaved()
		f.Restart(func() { r.Config.Mission = "another" })
		r.Await("the next leader", rig.AnyStatus)
		if ratio := floor("b3"); ratio < 1.9 || ratio > 2.3 {
			t.Errorf("and %.2f times after a restart", ratio)
		}
	})
}
