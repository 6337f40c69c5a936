package leader_test

import (
	"bytes"
	"testing"

	"prefdt/inference"
	"prefdt/inference/record"
	"prefdt/offline/rollout"
	"prefdt/simbridge/rig"
	"prefdt/simbridge/simnet"
)

// TestLeaderDecidesAsRollout flies the shipped policy under each kind of request,
// records every slot completely, and has the rollout decide the recorded slots again:
// the decisions and the objectives that they were made for must be equal to the
// last bit.
func TestLeaderDecidesAsRollout(t *testing.T) {
	t.Parallel()
	frozen := loadCheckpoint(t)
	const slots = 60
	for _, c := range []struct {
		name, first, revised string
	}{
		{"preference", `{"id":"first","setting":0.2}`, `{"id":"revised","setting":0.6}`},
		{"target", `{"id":"first","energy_j":21000,"mode":"target"}`, `{"id":"revised","energy_j":19000,"mode":"target"}`},
		{"ceiling", `{"id":"first","energy_j":21000,"mode":"ceiling"}`, `{"id":"revised","energy_j":22000,"mode":"ceiling"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			simnet.Test(t, func(t *testing.T) {
				r := rig.New(t, 2, slots)
				flown := *frozen
				flown.Physics = r.Physics
				policy, err := inference.New(&flown, inference.DecoderDispatch)
				if err != nil {
					t.Fatal(err)
				}
				r.Policy, r.Scales = policy, &frozen.GoalConstants
				var out bytes.Buffer
				r.OpenRecord = func() *record.Writer {
					return record.NewWriter(&out, record.Header{GraphSHA256: frozen.GraphSHA256, Decoder: string(inference.DecoderDispatch),
						Physics: r.Physics})
				}
				topic := r.Topics.Budget()
				if c.name == "preference" {
					topic = r.Topics.Preference()
				}
				f := r.StartLeader()
				r.Await("the leader", rig.AnyStatus)
				if ack := r.SendCommand(topic, c.first, "first"); !ack.Accepted {
					t.Fatalf("%+v", ack)
				}
				r.TakeOff()
				r.Await("half of it", rig.SlotSettled(slots/2))
				if ack := r.SendCommand(topic, c.revised, "revised"); !ack.Accepted {
					t.Fatalf("%+v", ack)
				}
				missed := r.Await("done", rig.Done).MissedSlots
				f.Kill() // the record is whole once Run has returned
				decided, err := rollout.Replay(t.Context(), bytes.NewReader(out.Bytes()), frozen, nil)
				if err != nil {
					t.Fatal(err)
				}
				if want := slots - missed; decided != want {
					t.Errorf("%d slots were decided again, want %d", decided, want)
				}
				if c.name != "preference" && !bytes.Contains(out.Bytes(), []byte(`"edge_demand_slots":25`)) {
					t.Error("what 25 slots spend at the prices of the grid was not learned in flight")
				}
			})
		})
	}
}
