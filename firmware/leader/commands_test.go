package leader_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"prefdt/simbridge/autopilot"
	"prefdt/simbridge/rig"
	"prefdt/simbridge/simnet"
	"prefdt/telemetry"
)

// TestTransitions walks through the mission's states by command: each refusal
// names the state and what it would accept.
func TestTransitions(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		r := rig.New(t, 1, 100000)
		r.ReplaceParameters(0, map[string]float64{"MPC_Z_VEL_MAX_UP": 1.5}) // it climbs still when the next command arrives
		r.StartLeader()
		r.Await("the leader", rig.AnyStatus)
		refused := func(action, why string) {
			t.Helper()
			if ack := r.SendAction(action); ack.Accepted || !strings.Contains(ack.Reason, why) {
				t.Errorf("%s: %+v, want refused for %q", action, ack, why)
			}
		}
		for _, action := range []string{"hold", "return", "stop"} {
			refused(action, "cannot "+action+": the mission is idle, which accepts start, clear, new")
		}
		refused("resume", "cannot resume: the mission is idle, which accepts start, clear, new")
		r.TakeOff()
		refused("start", "the mission is climbing, which accepts hold, resume, return, stop, launch, clear")
		r.Await("flying", rig.Flying)
		refused("start", "cannot start: the mission is flying, which accepts hold, resume, return, stop, launch, clear")
		refused("resume", "nothing to resume: the mission is flying, and no pilot has an aircraft in the air")
		refused("new", "") // without an id it is not a command at all
		r.MustSendAction("hold")
		held := r.Await("holding", rig.InState(telemetry.StateHolding))
		r.MustSendAction("hold") // again: nothing changes
		// A hold counts: slots and energy continue, and the aircraft hovers.
		later := r.Await("twenty slots on", rig.SlotSettled(held.Slot+20))
		if later.State != telemetry.StateHolding || later.SpentJ < held.SpentJ+1000 || *later.Aircraft[0].SpeedMPS > 1 {
			t.Errorf("while holding: %+v", later)
		}
		r.MustSendAction("resume")
		r.Await("flying", func(s telemetry.Status) bool { return rig.Flying(s) && *s.Aircraft[0].SpeedMPS > 5 })
		r.MustSendAction("return")
		if s := r.Await("done", rig.Done); s.FloorJ != s.SpentJ || *s.PredictedEndJ != s.SpentJ || s.Setting == 1 {
			t.Errorf("with nothing left to fly: floor %v, predicted %v, spent %v, setting %v", s.FloorJ, *s.PredictedEndJ, s.SpentJ,
				s.Setting)
		}
		refused("start", "cannot start: the mission is done, which accepts hold, resume, return, stop, clear, new")
		if ack := r.SendCommand(r.Topics.Preference(), `{"id":"late","setting":0.1}`, "late"); ack.Accepted {
			t.Error("a preference was accepted after the mission")
		}
	})
}

// A leader that ends with its mission says first that the mission is done: the status
// is retained, and a station or simulator waits for it.
func TestExitsOnceDoneIsPublished(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		r := rig.New(t, 1, 100000)
		r.Config.ExitWhenDone = true
		r.StartLeader()
		r.TakeOff()
		r.Await("flying", rig.Flying)
		r.MustSendAction("return")
		r.Await("done", rig.Done)
	})
}

// TestNewMission begins a second mission in the same leader: an id never used
// before, from done, with the defaults back and the commands of the first one
// remembered.
func TestNewMission(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		r := rig.New(t, 1, 30) // it flies still when the next command arrives
		f := r.StartLeader()
		r.Await("the leader", rig.AnyStatus)
		first := r.SendCommand(r.Topics.Budget(), `{"id":"b1","energy_j":9500,"mode":"target"}`, "b1")
		r.TakeOff()
		r.Await("flying", rig.Flying)
		if ack := r.SendMission(telemetry.Mission{Action: "new", Mission: "m-2"}); ack.Accepted {
			t.Fatalf("in flight: %+v", ack)
		}
		r.Await("landed", func(s telemetry.Status) bool { return rig.Done(s) && bothLanded(s) })
		if ack := r.SendMission(telemetry.Mission{Action: "new", Mission: r.Config.Mission}); ack.Accepted ||
			!strings.Contains(ack.Reason, "was used before") {
			t.Errorf("an id that was used: %+v", ack)
		}
		if ack := r.SendMission(telemetry.Mission{Action: "new", Mission: "m-2"}); !ack.Accepted || *ack.EffectiveSlot != 0 {
			t.Fatalf("new: %+v", ack)
		}
		s := r.Await("idle", rig.InState(telemetry.StateIdle))
		if s.Slot != -1 || s.SpentJ != 0 || s.TransitJ > 10 || s.BudgetJ != nil || s.Setting != r.Config.Request.Setting ||
			s.MissedSlots != 0 {
			t.Errorf("the new mission begins with %+v", s)
		}
		if repeat := r.SendCommand(r.Topics.Budget(), `{"id":"b1","energy_j":9500,"mode":"target"}`, "b1"); repeat.FloorJ == nil ||
			*repeat.FloorJ != *first.FloorJ {
			t.Errorf("a command of the mission before was answered with %+v, before with %+v", repeat, first)
		}
		f = f.Restart(nil) // the ledger's mission overrides the configuration's
		r.Await("the next leader", rig.AnyStatus)
		if m := f.Report().Mission; m != "m-2" {
			t.Errorf("after a restart the mission is %q", m)
		}
		r.TakeOff()
		if s := r.Await("done", rig.Done); s.Slot != 29 || s.SpentJ < 500 {
			t.Errorf("the second flight ended with %+v", s)
		}
		f.Kill()
	})
}

func TestRequests(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		r := rig.New(t, 2, 100)
		r.StartLeader()
		r.Await("the leader", rig.AnyStatus)
		for i, c := range []struct{ topic, body, reason string }{
			{r.Topics.Budget(), `{"id":"%s","energy_j":0,"mode":"target"}`, "energy_j"},
			{r.Topics.Budget(), `{"id":"%s","energy_j":-5,"mode":"target"}`, "energy_j"},
			{r.Topics.Budget(), `{"id":"%s","energy_j":300001,"mode":"target"}`, "energy_j"},
			{r.Topics.Budget(), `{"id":"%s","energy_j":1e400,"mode":"target"}`, "energy_j"},
			{r.Topics.Budget(), `{"id":"%s","energy_j":30000,"mode":"soft"}`, "mode"},
			{r.Topics.Budget(), `{"id":"%s","mode":"target"}`, "energy_j"},
			{r.Topics.Budget(), `{"id":"%s","energy_j":30000,"mode":"target","replaces_j":42000}`, "no budget is in force"},
			{r.Topics.Preference(), `{"id":"%s","setting":1.01}`, "setting"},
			{r.Topics.Preference(), `{"id":"%s","setting":"0.5"}`, "setting"},
			{r.Topics.Mission(), `{"id":"%s","action":"dance"}`, "action"},
			{r.Topics.Mission(), `{"id":"%s","action":"launch"}`, "aircraft"},
			{r.Topics.Mission(), `{"id":"%s","action":"launch","aircraft":[3]}`, "this fleet has 2"},
			{r.Topics.Mission(), `{"id":"%s","action":"new"}`, "mission"},
		} {
			id := fmt.Sprintf("bad%d", i)
			if ack := r.SendCommand(c.topic, fmt.Sprintf(c.body, id), id); ack.Accepted || !strings.Contains(ack.Reason, c.reason) {
				t.Errorf("%s: %+v", c.body, ack)
			}
		}
		if ack := r.SendCommand(r.Topics.Budget(), `{"id":"edge","energy_j":300000,"mode":"ceiling","future":1}`, "edge"); !ack.Accepted {
			t.Errorf("the whole capacity was refused: %+v", ack)
		}
		s := r.Await("a budget", func(s telemetry.Status) bool { return s.BudgetJ != nil })
		if *s.BudgetJ != 300000 || *s.Mode != "ceiling" || *s.RemainingJ != 300000 {
			t.Errorf("status %+v", s)
		}
		if c := s.LastCommand; c == nil || c.ID != "edge" || c.Key != "" || c.What == "" {
			t.Errorf("the last command is %+v", c)
		}
		if ack := r.SendCommand(r.Topics.Budget(), `{"id":"r1","energy_j":200000,"mode":"target","replaces_j":299999}`,
			"r1"); ack.Accepted ||
			!strings.Contains(ack.Reason, "the budget in force is of 300 kJ, not of ") {
			t.Errorf("a budget in place of another than that in force: %+v", ack)
		}
		if ack := r.SendCommand(r.Topics.Budget(), `{"id":"r2","energy_j":300000,"mode":"ceiling","replaces_j":300000}`,
			"r2"); !ack.Accepted {
			t.Errorf("a budget in place of that in force: %+v", ack)
		}
		// The same id and body again: the same answer. With another body: refused, and
		// nothing applied.
		before := r.Acks("edge")[0]
		if ack := r.SendCommand(r.Topics.Budget(), `{"id":"edge","energy_j":300000,"mode":"ceiling","future":1}`,
			"edge"); ack.FloorJ == nil {
			t.Errorf("a repeat got %+v", ack)
		}
		if a := r.Acks("edge"); a[len(a)-1] != before {
			t.Errorf("acknowledgements of a repeat: %q", a)
		}
		if ack := r.SendCommand(r.Topics.Preference(), `{"id":"edge","setting":0.2}`, "edge"); ack.Accepted ||
			!strings.Contains(ack.Reason, "id edge belongs to another command") {
			t.Errorf("the id of another command: %+v", ack)
		}
		if ack := r.SendCommand(r.Topics.Preference(), `{"id":"p","setting":0.35}`, "p"); !ack.Accepted || ack.Saturated != nil ||
			*ack.Setting != 0.35 {
			t.Errorf("a preference: %+v", ack)
		}
		s = r.Await("a preference", func(s telemetry.Status) bool { return s.BudgetJ == nil })
		if s.Setting < 0.349 || s.Setting > 0.351 || s.RemainingJ != nil {
			t.Errorf("after a preference: %+v", s)
		}
	})
}

// TestSignedCommands sends signed commands, over a restart: the challenge is a new one, under
// which counters begin anew.
func TestSignedCommands(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		r := rig.New(t, 1, 100)
		private := r.UseKey("crew-1")
		f := r.StartLeader()
		topic := r.Topics.Preference()
		if ack := r.SendCommand(topic, `{"id":"s1","setting":0.3}`, "s1"); !ack.Accepted || ack.Key != "crew-1" {
			t.Errorf("a signed command: %+v", ack)
		}
		if c := r.Await("it is shown", func(s telemetry.Status) bool { return s.LastCommand != nil }).LastCommand; c.ID != "s1" ||
			c.Key != "crew-1" {
			t.Errorf("the last command is %+v", c)
		}
		old, used := r.Challenge(), r.LastCounter()
		f = f.Restart(nil)
		present := r.Challenge()
		if present == old {
			t.Error("the challenge outlived its leader")
		}
		for _, c := range []struct {
			name, id  string
			counter   uint64
			challenge string
			accepted  bool
		}{
			{"a challenge of the leader before", "withheld", used + 100, old, false},
			{"a counter of the leader before", "counter", used, present, true},
			{"that counter again", "again", used, present, false},
		} {
			payload := r.SignAs("crew-1", private, c.counter, c.challenge, topic, fmt.Sprintf(`{"id":%q,"setting":0.7}`, c.id))
			if ack := r.SendPayload(topic, payload, c.id); ack.Accepted != c.accepted ||
				!c.accepted && (ack.Challenge == "" || ack.LastCounter == nil) {
				t.Errorf("%s: %+v, want accepted %v", c.name, ack, c.accepted)
			}
		}
		// Signed once more, with the same id: it was not used up.
		if ack := r.SendCommand(topic, `{"id":"withheld","setting":0.8}`, "withheld"); !ack.Accepted {
			t.Errorf("signed once more: %+v", ack)
		}
		s := r.Await("it is in force", func(s telemetry.Status) bool { return s.LastCommand != nil && s.LastCommand.ID == "withheld" })
		if s.Setting < 0.799 || s.Setting > 0.801 {
			t.Errorf("the setting is %v", s.Setting)
		}
		f.Kill()
	})
}

// TestRefusedStaysRefused checks that a refused command is not executed when the
// broker delivers it again in a state that would accept it.
func TestRefusedStaysRefused(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		r := rig.New(t, 1, 100000)
		f := r.StartLeader()
		r.Await("the leader", rig.AnyStatus)
		hold := `{"id":"h","action":"hold"}`
		if ack := r.SendCommand(r.Topics.Mission(), hold, "h"); ack.Accepted {
			t.Fatalf("hold when idle: %+v", ack)
		}
		r.TakeOff()
		r.Await("flying", rig.Flying)
		if ack := r.SendCommand(r.Topics.Mission(), hold, "h"); ack.Accepted || !strings.Contains(ack.Reason, "idle") {
			t.Errorf("delivered again in flight: %+v", ack)
		}
		r.AwaitSaved()
		f.Restart(nil)
		s := r.Await("the next leader flies", rig.Flying)
		if ack := r.SendCommand(r.Topics.Mission(), hold, "h"); ack.Accepted || !strings.Contains(ack.Reason, "idle") {
			t.Errorf("delivered again to the next leader: %+v", ack)
		}
		if later := r.Await("three slots on", rig.SlotSettled(s.Slot+3)); !rig.Flying(later) {
			t.Errorf("the mission is %s", later.State)
		}
	})
}

// TestCommandWithoutAnID is counted, not acknowledged.
func TestCommandWithoutAnID(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		r := rig.New(t, 1, 100)
		r.UseKey("crew-1")
		f := r.StartLeader()
		r.Await("the leader", rig.AnyStatus)
		r.PublishRaw(r.Topics.Preference(), r.Sign(r.Topics.Preference(), `{"setting":0.3}`))
		if !r.Eventually(func() bool { return f.RejectedMessages("") > 0 }) {
			t.Fatal("it was not counted")
		}
		if ack := r.SendCommand(r.Topics.Preference(), `{"id":"mark","setting":0.5}`, "mark"); !ack.Accepted {
			t.Errorf("the next one: %+v", ack)
		}
		if ids := r.AckIDs(); !slices.Equal(ids, []string{"mark"}) {
			t.Errorf("acknowledged: %v", ids)
		}
	})
}

func TestHostileInputChangesNothing(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		r := rig.New(t, 1, 100000)
		f := r.FlyToSlot(3)
		for i := range 3000 {
			switch i % 10 {
			case 0:
				r.PublishRaw(r.Topics.Budget(), `{"id":"`)
			case 1:
				r.PublishRaw(r.Topics.Budget(), `{"id":"not an id","energy_j":1,"mode":"target"}`)
			case 2:
				r.PublishRaw(r.Topics.Report("x"), `{"slot":NaN}`)
			case 3:
				r.PublishRaw(r.Topics.Report("x"), `{"slot":1,"position_m":[1e99,0],"queue_bits":0,"cpu_hz":1e9}`)
			case 4:
				r.PublishRaw("prefdt/test/users/a b/report", `{}`)
			case 5:
				r.PublishRaw(r.Topics.Result("u1"), `{"slot":3,"completion_s":86400,"by":"decision"}`)
			case 6:
				r.PublishRaw(r.Topics.Result("stranger"), `{"slot":3,"completion_s":1,"by":"local"}`)
			case 7:
				r.PublishRaw(r.Topics.Report(fmt.Sprintf("storm%d", i)),
					fmt.Sprintf(`{"slot":%d,"position_m":[1,1],"queue_bits":0,"cpu_hz":1e9}`, 4+i%20))
			case 8:
				r.PublishRaw(r.Topics.Preference(), string([]byte{0xff, 0xfe, 0}))
			case 9:
				r.PublishRaw(r.Topics.Online(), "false")
			}
		}
		before := r.Await("it flies on", rig.Flying)
		after := r.Await("twenty slots later", rig.SlotSettled(before.Slot+20))
		if after.State != telemetry.StateFlying || after.BudgetJ != nil || after.Setting != before.Setting {
			t.Errorf("after the storm: %+v", after)
		}
		if f.RejectedMessages("") == 0 {
			t.Error("nothing was counted")
		}
	})
}

// A start is accepted only if every aircraft would take off: one whose HEARTBEAT is too old
// for that is named, and none leaves the ground.
func TestStartNeedsRecentHeartbeats(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		const lostS, oldS = 60, 8 // a take-off needs one of 2 s
		r := rig.New(t, 2, 20)
		r.StartLeader()
		r.Autopilots[1].DenyArming("Compass needs calibration")
		var ack telemetry.Ack
		if !r.Eventually(func() bool { // until all that is checked before is in order
			time.Sleep(100 * time.Millisecond)
			ack = r.SendAction(telemetry.ActionStart)
			return strings.Contains(ack.Reason, "pre-arm")
		}) {
			t.Fatalf("%+v", ack)
		}
		r.Autopilots[1].DenyArming("")
		r.Autopilots[1].LoseHeartbeats(lostS, 1, 1)
		fromS := r.Autopilots[1].TimeS()
		r.Await("it is old", func(telemetry.Status) bool { return r.Autopilots[1].TimeS() > fromS+oldS })
		if ack := r.SendAction(telemetry.ActionStart); ack.Accepted || !strings.Contains(ack.Reason, "aircraft 2") ||
			!strings.Contains(ack.Reason, "HEARTBEAT") {
			t.Errorf("%+v", ack)
		}
		if s := r.LastStatus(); s.State != telemetry.StateIdle || !r.Landed(0) {
			t.Errorf("%s, and aircraft 1 on the ground: %v", s.State, r.Landed(0))
		}
	})
}

// A pack that holds less than its reserve and the way home take is not flown.
func TestStartNeedsAReserve(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		r := rig.New(t, 1, 20)
		r.Config.Flight.ReserveJ = 151e3 // a whole pack, and more
		r.StartLeader()
		var ack telemetry.Ack
		answered := r.Eventually(func() bool { // until all that is checked before is in order
			time.Sleep(100 * time.Millisecond)
			ack = r.SendAction(telemetry.ActionStart)
			return ack.Accepted || strings.Contains(ack.Reason, "its reserve and the way home take")
		})
		if !answered || ack.Accepted {
			t.Errorf("%+v", ack)
		}
	})
}

// A pack that does not hold what a flight takes is refused, by its own capacity: what its
// autopilot says, and before that what the configuration does.
func TestStartNeedsAPack(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			configuredJ float64
			accepted    bool
		}{{0, false}, {60e3, true}} {
			r := rig.New(t, 1, 20)
			r.ReplaceAutopilot(0, func(c *autopilot.Config) { c.CapacityJ = 17e3 }) // full
			r.Config.Aircraft[0].PackJ = c.configuredJ
			f := r.StartLeader()
			var ack telemetry.Ack
			answered := r.Eventually(func() bool {
				time.Sleep(100 * time.Millisecond)
				ack = r.SendAction(telemetry.ActionStart)
				return ack.Accepted || strings.Contains(ack.Reason, "J left of its pack's 17000")
			})
			if !answered || ack.Accepted != c.accepted {
				t.Errorf("pack_j %v: %+v", c.configuredJ, ack)
			}
			f.Kill()
		}
	})
}
