package leader_test

import (
	"crypto/ed25519"
	"strings"
	"testing"

	"prefdt/simbridge/rig"
	"prefdt/simbridge/simnet"
	"prefdt/telemetry"
)

// Each attack on the commands is refused, counted under its kind, and changes
// nothing; refusals are answered at most once a second. The attacker is a client
// that the broker accepts without a name and lets publish on every topic, as a
// compromised broker would. configs/mosquitto tests which clients get that far.
func TestAttacks(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		r := rig.New(t, 1, 100)
		private := r.UseKey("crew-1")
		_, stolen, _ := ed25519.GenerateKey(nil)
		f := r.StartLeader()
		budget := r.Topics.Budget()
		if ack := r.SendCommand(budget, `{"id":"genuine","energy_j":30000,"mode":"target"}`, "genuine"); !ack.Accepted {
			t.Fatalf("a signed command: %+v", ack)
		}
		before := r.Await("the budget", func(s telemetry.Status) bool { return s.BudgetJ != nil })
		attack := `{"id":"attack","energy_j":299000,"mode":"target"}`
		sign := func(name string, key ed25519.PrivateKey, topic, body string) string {
			return r.SignAs(name, key, r.LastCounter()+1000, r.Challenge(), topic, body)
		}
		honest := sign("crew-1", private, budget, attack)
		for _, a := range []struct {
			name, topic, payload, kind string
		}{
			{"unsigned", budget, attack, "command: unsigned"},
			{"unsigned, deeply nested", budget, strings.Repeat("[", 60000), ""},
			{"wrongly signed", budget, sign("crew-1", stolen, budget, attack), "envelope: bad signature"},
			{"signature of another body", budget, strings.Replace(honest, "299000", "298000", 1), "envelope: bad signature"},
			{"signature under another counter", budget, strings.Replace(honest, `"counter":`, `"counter":9`, 1), "envelope: bad signature"},
			{"signature over another challenge", budget, strings.Replace(honest, r.Challenge(), telemetry.NewChallenge(), 1),
				"envelope: bad signature"},
			{"an unknown key name", budget, sign("crew-9", stolen, budget, attack), "envelope: unknown key"},
			{"replayed as another command", r.Topics.Mission(), honest, "envelope: bad signature"},
			{"another fleet's", budget, sign("crew-1", private, "prefdt/other/command/budget", attack), "envelope: bad signature"},
			{"oversized", budget, `{"id":"attack","energy_j":299000,"mode":"target","x":"` + strings.Repeat("x", 60<<10) + `"}`, ""},
			{"no signature in it", budget, `{"key":"crew-1","counter":99,"challenge":"` + telemetry.NewChallenge() +
				`","body":"{}","signature":""}`, "envelope: bad signature"},
		} {
			counts, total := f.Report().RejectedMessages, f.RejectedMessages("")
			r.PublishRaw(a.topic, a.payload)
			if !r.Eventually(func() bool { return f.RejectedMessages("") > total }) {
				t.Errorf("%s: not counted", a.name)
				continue
			}
			if a.kind != "" && f.RejectedMessages(a.kind) != counts[a.kind]+1 {
				t.Errorf("%s: counted %v before, %v after, want one more %q", a.name, counts, f.Report().RejectedMessages, a.kind)
			}
		}
		// A command sent after all of them is accepted, so they were handled.
		if ack := r.SendCommand(r.Topics.Preference(), `{"id":"mark","setting":0.5}`, "mark"); !ack.Accepted {
			t.Errorf("the crew afterwards: %+v", ack)
		}
		for _, s := range r.Statuses() {
			if s.Seq > before.Seq && s.BudgetJ != nil && *s.BudgetJ != 30000 {
				t.Errorf("an attack set the budget to %v", *s.BudgetJ)
			}
		}
		for _, raw := range r.Acks("attack") {
			if ack, err := telemetry.DecodeAck([]byte(raw)); err != nil || ack.Accepted {
				t.Errorf("an attack was answered with %s, %v", raw, err)
			}
		}
	})
}

// Unsigned commands are never accepted where keys are configured or autopilots are
// real, whatever the configuration's default and the broker's address.
func TestUnsignedIsNeverAccepted(t *testing.T) {
	for name, set := range map[string]func(*rig.Rig){
		"keys": func(r *rig.Rig) { r.UseKey("crew-1") },
		"real": func(r *rig.Rig) { r.Config.MAVLink.RealAircraft = true },
	} {
		t.Run(name, func(t *testing.T) {
			simnet.Test(t, func(t *testing.T) {
				r := rig.New(t, 1, 100)
				set(r)
				r.Config.Commands.Unsigned = "yes"
				f := r.StartLeader()
				r.Await("the leader", rig.AnyStatus)
				ack := r.SendPayload(r.Topics.Preference(), `{"id":"p","setting":0.1}`, "p")
				if ack.Accepted || !strings.Contains(ack.Reason, "no signature") {
					t.Errorf("unsigned: %+v", ack)
				}
				if s := r.Await("two statuses on", rig.StatusesAfter(r.LastStatus(), 2)); s.Setting != r.Config.Request.Setting ||
					s.LastCommand != nil {
					t.Errorf("it led to %+v", s)
				}
				if f.RejectedMessages("command: unsigned") == 0 {
					t.Error("it was not counted")
				}
			})
		})
	}
}
