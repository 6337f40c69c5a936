package leader

import (
	"crypto/ed25519"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"prefdt/firmware/ledger"
	"prefdt/telemetry"
)

func anyStatus(telemetry.Status) bool { return true }

func TestTransitions(t *testing.T) {
	r := newRig(t, 1, 100000)
	r.launch()
	r.await("the leader", anyStatus)
	n := 0
	mission := func(action string, want bool, state string) {
		t.Helper()
		n++
		id := fmt.Sprintf("m%d", n)
		ack := r.command(r.topics.Mission(), fmt.Sprintf(`{"id":%q,"action":%q}`, id, action), id)
		if ack.Accepted != want || !want && !strings.Contains(ack.Reason, state) {
			t.Errorf("%s: %+v, want accepted %v with state %s", action, ack, want, state)
		}
	}
	for _, action := range []string{"hold", "resume", "return", "stop"} {
		mission(action, false, "idle")
	}
	r.takeOff()
	mission("start", false, "climbing")
	r.await("flying", flying)
	mission("start", false, "flying")
	mission("resume", false, "flying")
	mission("hold", true, "")
	held := r.await("holding", func(s telemetry.Status) bool { return s.State == telemetry.StateHolding })
	mission("hold", false, "holding")
	// A hold counts: slots and energy go on, and the aircraft stands.
	later := r.await("three slots on", at(held.Slot+20))
	if later.State != telemetry.StateHolding || later.SpentJ < held.SpentJ+1000 || *later.Aircraft[0].SpeedMPS > 1 {
		t.Errorf("while holding: %+v", later)
	}
	mission("resume", true, "")
	r.await("flying", func(s telemetry.Status) bool { return flying(s) && *s.Aircraft[0].SpeedMPS > 5 })
	mission("return", true, "")
	if s := r.await("done", done); s.FloorJ != s.SpentJ || *s.PredictedEndJ != s.SpentJ || s.Setting == 1 {
		t.Errorf("with nothing left to fly: floor %v, predicted %v, spent %v, setting %v", s.FloorJ, *s.PredictedEndJ, s.SpentJ, s.Setting)
	}
	mission("start", false, "done")
	if ack := r.command(r.topics.Preference(), `{"id":"late","setting":0.1}`, "late"); ack.Accepted {
		t.Error("a preference was accepted after the mission")
	}
}

func TestRequests(t *testing.T) {
	r := newRig(t, 2, 100)
	r.launch()
	r.await("the leader", anyStatus)
	for i, c := range []struct{ topic, body, reason string }{
		{r.topics.Budget(), `{"id":"%s","energy_j":0,"mode":"target"}`, "energy_j"},
		{r.topics.Budget(), `{"id":"%s","energy_j":-5,"mode":"target"}`, "energy_j"},
		{r.topics.Budget(), `{"id":"%s","energy_j":300001,"mode":"target"}`, "energy_j"},
		{r.topics.Budget(), `{"id":"%s","energy_j":1e400,"mode":"target"}`, "energy_j"},
		{r.topics.Budget(), `{"id":"%s","energy_j":30000,"mode":"soft"}`, "mode"},
		{r.topics.Budget(), `{"id":"%s","mode":"target"}`, "energy_j"},
		{r.topics.Preference(), `{"id":"%s","setting":1.01}`, "setting"},
		{r.topics.Preference(), `{"id":"%s","setting":"0.5"}`, "setting"},
		{r.topics.Mission(), `{"id":"%s","action":"dance"}`, "action"},
	} {
		id := fmt.Sprintf("bad%d", i)
		if ack := r.command(c.topic, fmt.Sprintf(c.body, id), id); ack.Accepted || !strings.Contains(ack.Reason, c.reason) {
			t.Errorf("%s: %+v", c.body, ack)
		}
	}
	if ack := r.command(r.topics.Budget(), `{"id":"edge","energy_j":300000,"mode":"ceiling","future":1}`, "edge"); !ack.Accepted {
		t.Errorf("the whole capacity was refused: %+v", ack)
	}
	s := r.await("a budget", func(s telemetry.Status) bool { return s.BudgetJ != nil })
	if *s.BudgetJ != 300000 || *s.Mode != "ceiling" || *s.RemainingJ != 300000 {
		t.Errorf("status %+v", s)
	}
	// The same id again, with another body: the same answer, and nothing applied.
	if ack := r.command(r.topics.Preference(), `{"id":"edge","setting":0.2}`, "edge"); ack.FloorJ == nil {
		t.Errorf("a repeat got %+v", ack)
	}
	r.mutex.Lock()
	if a := r.acks["edge"]; len(a) != 2 || a[0] != a[1] {
		t.Errorf("acknowledgements of a repeat: %q", a)
	}
	r.mutex.Unlock()
	if ack := r.command(r.topics.Preference(), `{"id":"p","setting":0.35}`, "p"); !ack.Accepted || ack.Saturated != nil {
		t.Errorf("a preference: %+v", ack)
	}
	s = r.await("a preference", func(s telemetry.Status) bool { return s.BudgetJ == nil })
	if s.Setting < 0.349 || s.Setting > 0.351 || s.RemainingJ != nil {
		t.Errorf("after a preference: %+v", s)
	}
}

func TestSignedCommands(t *testing.T) {
	r := newRig(t, 1, 100)
	public, private, _ := ed25519.GenerateKey(nil)
	r.config.Commands = Commands{Unsigned: "no", Keys: map[string]string{"crew-1": base64.StdEncoding.EncodeToString(public)}}
	f := r.launch()
	r.await("the leader", anyStatus)
	sign := func(counter uint64, topic, body string) string {
		payload, err := telemetry.Sign("crew-1", private, counter, telemetry.NewChallenge(), topic, []byte(body))
		if err != nil {
			t.Fatal(err)
		}
		return string(payload)
	}
	body := `{"id":"s1","setting":0.3}`
	r.publishRaw(r.topics.Preference(), `{"id":"plain","setting":0.9}`)
	r.publishRaw(r.topics.Preference(), strings.Replace(sign(4, r.topics.Preference(), `{"id":"forged","setting":0.3}`), "0.3", "0.4", 1))
	r.publishRaw(r.topics.Budget(), sign(5, r.topics.Preference(), `{"id":"elsewhere","setting":0.3}`))
	if ack := r.command(r.topics.Preference(), sign(7, r.topics.Preference(), body), "s1"); !ack.Accepted {
		t.Errorf("a signed command: %+v", ack)
	}
	f.kill(t)
	r.mutex.Lock()
	r.status = nil
	r.mutex.Unlock()
	r.launch()
	r.await("the leader again", anyStatus)
	// The counter survived: a recording is not obeyed, nor answered. Messages
	// arrive in order, so the next acknowledgement shows that it was dealt with.
	r.publishRaw(r.topics.Preference(), sign(7, r.topics.Preference(), `{"id":"recorded","setting":0.8}`))
	if ack := r.command(r.topics.Preference(), sign(8, r.topics.Preference(), `{"id":"s2","setting":0.4}`), "s2"); !ack.Accepted {
		t.Errorf("the next signed command: %+v", ack)
	}
	r.mutex.Lock()
	defer r.mutex.Unlock()
	for _, id := range []string{"plain", "forged", "elsewhere", "recorded"} {
		if len(r.acks[id]) > 0 {
			t.Errorf("command %s was acknowledged", id)
		}
	}
}

// A counter is used up by a command without a usable id too, also over a restart.
func TestCounterOfACommandWithoutAnID(t *testing.T) {
	r := newRig(t, 1, 100)
	public, private, _ := ed25519.GenerateKey(nil)
	r.config.Commands = Commands{Unsigned: "no", Keys: map[string]string{"crew-1": base64.StdEncoding.EncodeToString(public)}}
	f := r.launch()
	r.await("the leader", anyStatus)
	payload, err := telemetry.Sign("crew-1", private, 41, telemetry.NewChallenge(), r.topics.Preference(), []byte(`{"setting":0.3}`))
	if err != nil {
		t.Fatal(err)
	}
	r.publishRaw(r.topics.Preference(), string(payload))
	if !r.eventually(func() bool { return f.broker.rejects.Total() > 0 }) {
		t.Fatal("it was not counted")
	}
	s := r.await("status", anyStatus)
	r.await("two beats", func(n telemetry.Status) bool { return n.Seq > s.Seq+2 })
	f.kill(t)
	l, err := ledger.Open(r.config.StateDir)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if last, err := l.Counters(); err != nil || last["crew-1"] != 41 {
		t.Errorf("the ledger has the counters %v, %v", last, err)
	}
	if len(r.acks) > 0 {
		t.Errorf("acknowledged: %v", r.acks)
	}
}

func TestHostileInputChangesNothing(t *testing.T) {
	r := newRig(t, 1, 100000)
	f := r.launch()
	r.await("the leader", anyStatus)
	r.takeOff()
	r.await("slot 3", at(3))
	for i := range 3000 {
		switch i % 10 {
		case 0:
			r.publishRaw(r.topics.Budget(), `{"id":"`)
		case 1:
			r.publishRaw(r.topics.Budget(), `{"id":"not an id","energy_j":1,"mode":"target"}`)
		case 2:
			r.publishRaw(r.topics.Report("x"), `{"slot":NaN}`)
		case 3:
			r.publishRaw(r.topics.Report("x"), `{"slot":1,"position_m":[1e99,0],"queue_bits":0,"cpu_hz":1e9}`)
		case 4:
			r.publishRaw("prefdt/test/users/a b/report", `{}`)
		case 5:
			r.publishRaw(r.topics.Result("u1"), `{"slot":3,"completion_s":86400,"by":"decision"}`)
		case 6:
			r.publishRaw(r.topics.Result("stranger"), `{"slot":3,"completion_s":1,"by":"local"}`)
		case 7:
			r.publishRaw(r.topics.Report(fmt.Sprintf("storm%d", i)), fmt.Sprintf(`{"slot":%d,"position_m":[1,1],"queue_bits":0,"cpu_hz":1e9}`, 4+i%20))
		case 8:
			r.publishRaw(r.topics.Preference(), string([]byte{0xff, 0xfe, 0}))
		case 9:
			r.publishRaw(r.topics.Online(), "false")
		}
	}
	before := r.await("it flies on", flying)
	after := r.await("twenty slots later", func(s telemetry.Status) bool { return s.Slot > before.Slot+20 })
	if after.State != telemetry.StateFlying || after.BudgetJ != nil || after.Setting != before.Setting {
		t.Errorf("after the storm: %+v", after)
	}
	if f.broker.rejects.Total() == 0 {
		t.Error("nothing was counted")
	}
}

func (r *rig) publishRaw(topic, payload string) {
	r.crew.Publish(telemetry.Publication{Topic: topic, QoS: 1, Payload: []byte(payload)})
}
