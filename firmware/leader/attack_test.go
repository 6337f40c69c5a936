package leader

import (
	"crypto/ed25519"
	"encoding/base64"
	"strings"
	"testing"

	"prefdt/telemetry"
)

// Each attack on the commands is refused, counted under its kind, not
// acknowledged, and changes nothing. The crew's client here is one that the
// broker lets in without a name and lets say everything: what a broker that was
// taken over amounts to. Who gets that far is configs/mosquitto's test.
func TestAttacks(t *testing.T) {
	r := newRig(t, 1, 100)
	public, private, _ := ed25519.GenerateKey(nil)
	_, stolen, _ := ed25519.GenerateKey(nil)
	r.config.Commands = Commands{Unsigned: "no", Keys: map[string]string{"crew-1": base64.StdEncoding.EncodeToString(public)}}
	f := r.launch()
	r.await("the leader", anyStatus)
	counter := uint64(10)
	sign := func(name string, key ed25519.PrivateKey, topic, body string) string {
		counter++
		payload, err := telemetry.Sign(name, key, counter, telemetry.NewChallenge(), topic, []byte(body))
		if err != nil {
			t.Fatal(err)
		}
		return string(payload)
	}
	budget := r.topics.Budget()
	genuine := sign("crew-1", private, budget, `{"id":"genuine","energy_j":30000,"mode":"target"}`)
	if ack := r.command(budget, genuine, "genuine"); !ack.Accepted {
		t.Fatalf("a signed command: %+v", ack)
	}
	before := r.await("the budget", func(s telemetry.Status) bool { return s.BudgetJ != nil })
	attack := `{"id":"attack","energy_j":299000,"mode":"target"}`
	for _, a := range []struct {
		name, topic, payload, kind string
	}{
		{"unsigned", budget, attack, "command: unsigned"},
		{"unsigned, deeply nested", budget, strings.Repeat("[", 60000), ""},
		{"wrongly signed", budget, sign("crew-1", stolen, budget, attack), "envelope: bad signature"},
		{"signature of another body", budget, strings.Replace(genuine, "30000", "299000", 1), "envelope: bad signature"},
		{"a name nobody has", budget, sign("crew-9", stolen, budget, attack), "envelope: unknown key"},
		{"replayed", budget, genuine, "envelope: old counter"},
		{"replayed as another command", r.topics.Mission(), genuine, "envelope: bad signature"},
		{"another fleet's", budget, sign("crew-1", private, "prefdt/other/command/budget", attack), "envelope: bad signature"},
		{"oversized", budget, `{"id":"attack","energy_j":299000,"mode":"target","x":"` + strings.Repeat("x", 90<<10) + `"}`, ""},
		{"no signature in it", budget, `{"key":"crew-1","counter":99,"challenge":"AAAAAAAAAAAAAAAAAAAAAA","body":"{}","signature":""}`, "envelope: bad signature"},
	} {
		counts, total := f.broker.rejects.Counts(), f.broker.rejects.Total()
		r.publishRaw(a.topic, a.payload)
		if !r.eventually(func() bool { return f.broker.rejects.Total() > total }) {
			t.Errorf("%s: not counted", a.name)
			continue
		}
		now := f.broker.rejects.Counts()
		if a.kind != "" && now[a.kind] != counts[a.kind]+1 {
			t.Errorf("%s: counted %v before, %v after, want one more %q", a.name, counts, now, a.kind)
		}
	}
	// The mark after them all is obeyed, so they were dealt with.
	if ack := r.command(r.topics.Preference(), sign("crew-1", private, r.topics.Preference(), `{"id":"mark","setting":0.5}`), "mark"); !ack.Accepted {
		t.Errorf("the crew afterwards: %+v", ack)
	}
	r.mutex.Lock()
	defer r.mutex.Unlock()
	for _, s := range r.status {
		if s.Seq > before.Seq && s.BudgetJ != nil && *s.BudgetJ != 30000 {
			t.Errorf("an attack set the budget to %v", *s.BudgetJ)
		}
	}
	if len(r.acks["attack"]) > 0 || len(r.acks["genuine"]) != 1 {
		t.Errorf("acknowledgements: %v", r.acks)
	}
}
