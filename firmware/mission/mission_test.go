package mission

import (
	"slices"
	"strings"
	"testing"

	"prefdt/telemetry"
)

var limits = Limits{ClimbS: 180, BrokerHoldS: 30, BrokerReturnS: 120, CrewHoldS: 30, CrewReturnS: 120}

func inPhase(phase string) *Mission {
	m := &Mission{Limits: limits}
	m.Begin("m1")
	m.state.Phase = phase
	if phase == telemetry.StateHolding {
		m.state.HeldBy = HeldByCrew
	}
	return m
}

// tickFor advances mission and wall time by as many seconds, and returns the first change.
func tickFor(m *Mission, seconds int, f TickInput) TickResult {
	f.MissionS, f.WallS = 1, 1
	for range seconds {
		if c := m.Tick(f); c.Reason != "" {
			return c
		}
	}
	return TickResult{}
}

// TestCommands tries each action in each state.
func TestCommands(t *testing.T) {
	states := []string{"idle", "climbing", "flying", "holding", "returning", "done", "stopped"}
	for action, to := range map[string][]string{ // "": refused
		"start":  {"climbing", "", "", "", "", "", ""},
		"hold":   {"", "climbing", "holding", "holding", "stopped", "stopped", "stopped"},
		"resume": {"", "", "", "flying", "", "", ""},
		"return": {"", "returning", "returning", "returning", "returning", "returning", "returning"},
		"stop":   {"", "stopped", "stopped", "stopped", "stopped", "stopped", "stopped"},
		"new":    {"idle", "", "", "", "", "idle", "idle"},
	} {
		for i, from := range states {
			m := inPhase(from)
			_, err := m.Command(action)
			switch {
			case to[i] == "" && err == nil:
				t.Errorf("%s in %s was accepted", action, from)
			case to[i] == "" && (m.Phase() != from || !strings.Contains(err.Error(), "mission is "+from+", which accepts")):
				t.Errorf("%s in %s: %v, and the state is %s", action, from, err, m.Phase())
			case to[i] != "" && (err != nil || m.Phase() != to[i]):
				t.Errorf("%s in %s leads to %s, %v, want %s", action, from, m.Phase(), err, to[i])
			}
		}
	}
}

// A refusal lists what docs/wire.md has for the state, single aircraft's actions included.
func TestRefusalNamesAcceptedActions(t *testing.T) {
	for state, c := range map[string]struct{ action, want string }{
		"idle":      {"hold", "start, clear, new"},
		"climbing":  {"start", "hold, resume, return, stop, launch, clear"},
		"flying":    {"start", "hold, resume, return, stop, launch, clear"},
		"holding":   {"start", "hold, resume, return, stop, launch, clear"}, // by the crew
		"returning": {"start", "hold, resume, return, stop, clear"},
		"done":      {"start", "hold, resume, return, stop, clear, new"},
		"stopped":   {"start", "hold, return, stop, clear, new"},
	} {
		_, err := inPhase(state).Command(c.action)
		if want := "cannot " + c.action + ": the mission is " + state + ", which accepts " + c.want; err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	m := inPhase("flying")
	tickFor(m, 30, TickInput{}) // the broker is lost, and the crew may still take the hold over
	if _, err := m.Command("start"); err == nil || err.Error() != "cannot start: the mission is holding, which accepts hold, resume, "+
		"return, stop, launch, clear" {
		t.Error(err)
	}
}

func TestBrokerLostHoldsThenReturns(t *testing.T) {
	m := inPhase("flying")
	if c := tickFor(m, 29, TickInput{}); c.Reason != "" {
		t.Fatalf("after 29 s: %+v", c)
	}
	if c := tickFor(m, 1, TickInput{}); c.Effect != HoldFleet || m.HeldBy() != HeldByBrokerLost {
		t.Fatalf("after 30 s: %+v, %+v", c, m.State())
	}
	if want := "the broker was gone for 30 s of the mission"; m.Reason() != want {
		t.Errorf("it holds: %q, want %q", m.Reason(), want)
	}
	if c := tickFor(m, 90, TickInput{}); c.Effect != ReturnFleet || m.Phase() != "returning" {
		t.Fatalf("after 120 s: %+v, %+v", c, m.State())
	}
	var restarted Mission
	restarted.Limits = limits
	restarted.Restore(m.State())
	tickFor(&restarted, 1, TickInput{AllLanded: true})
	if want := "the broker was gone for 120 s of the mission"; restarted.Phase() != "done" || restarted.Reason() != want {
		t.Errorf("it has returned: %s, %q, want %q", restarted.Phase(), restarted.Reason(), want)
	}
}

// The crew's own order, contact and the last slot end the reason of a hold; that of lost contact is told likewise.
func TestReasonEnds(t *testing.T) {
	for name, end := range map[string]func(m *Mission){
		"hold":         func(m *Mission) { m.Command("hold") },
		"return":       func(m *Mission) { m.Command("return") },
		"stop":         func(m *Mission) { m.Command("stop") },
		"the last":     func(m *Mission) { m.SlotsOver() },
		"contact":      func(m *Mission) { tickFor(m, 6, TickInput{Connected: true}) },
		"a new flight": func(m *Mission) { m.Begin("m-2") },
	} {
		m := inPhase("flying")
		tickFor(m, 30, TickInput{})
		if m.Reason() == "" {
			t.Fatalf("a hold without its reason: %+v", m.State())
		}
		if end(m); m.Reason() != "" {
			t.Errorf("%s: %s for %q", name, m.Phase(), m.Reason())
		}
	}
	crew := inPhase("flying")
	crew.Heartbeat("crew-1", false, 0)
	tickFor(crew, 31, TickInput{Connected: true})
	if want := "no contact with the crew for 30 s"; crew.Phase() != "holding" || crew.Reason() != want {
		t.Errorf("%s for %q, want %q", crew.Phase(), crew.Reason(), want)
	}
	disk := inPhase("flying")
	if disk.DiskFailed(); disk.Reason() != "the disk failed" {
		t.Errorf("returns for %q", disk.Reason())
	}
	if over := inPhase("done"); over.DiskFailed() != None || over.Reason() != "" {
		t.Errorf("on the ground: %q", over.Reason())
	}
}

func TestBrokerBackEndsItsHold(t *testing.T) {
	m := inPhase("flying")
	tickFor(m, 40, TickInput{})
	if c := tickFor(m, 5, TickInput{Connected: true}); c.Reason != "" {
		t.Fatalf("it has not lasted yet: %+v", c)
	}
	if tickFor(m, 1, TickInput{Connected: true}); m.Phase() != "flying" {
		t.Error(m.State())
	}
}

// Five seconds of contact in ten end a hold, also with a gap between them; in eleven they do
// not. A tick that finds the broker connected again counts from the next one on.
func TestContactOfFiveSecondsInTen(t *testing.T) {
	for gap, want := range map[int]string{0: "flying", 4: "flying", 5: "holding"} { // seconds away after three of contact
		broker := inPhase("flying")
		tickFor(broker, 40, TickInput{})
		tickFor(broker, 4, TickInput{Connected: true})
		tickFor(broker, gap, TickInput{})
		if tickFor(broker, 3, TickInput{Connected: true}); broker.Phase() != want {
			t.Errorf("the broker away for %d s: %s, want %s", gap, broker.Phase(), want)
		}
	}
	for gap, want := range map[int]string{4: "flying", 5: "flying", 6: "holding"} { // seconds between two heartbeats
		crew := inPhase("flying")
		crew.Heartbeat("crew-1", false, 0)
		tickFor(crew, 40, TickInput{Connected: true})
		for range 4 {
			crew.Heartbeat("crew-1", false, 0)
			tickFor(crew, 1, TickInput{Connected: true})
		}
		tickFor(crew, gap-1, TickInput{Connected: true})
		for range 3 {
			crew.Heartbeat("crew-1", false, 0)
			tickFor(crew, 1, TickInput{Connected: true})
		}
		if crew.Phase() != want {
			t.Errorf("no heartbeat for %d s: %s, want %s", gap, crew.Phase(), want)
		}
	}
}

// A broker or a crew's radio that is there for 4 s in 20 is contact with nobody: both
// failsafes act as if it were away all the time.
func TestContactMustLast(t *testing.T) {
	here := func(s int) bool { return s%20 >= 8 && s%20 < 12 }
	for name, c := range map[string]struct {
		step         func(m *Mission, s int) TickResult
		hold, comeBy int // the latest seconds at which it holds and returns
	}{
		"a broker that flaps": {func(m *Mission, s int) TickResult {
			return m.Tick(TickInput{MissionS: 1, WallS: 1, Connected: here(s)})
		}, 32, 128},
		"a radio that flaps": {func(m *Mission, s int) TickResult {
			if s == 0 || here(s) {
				m.Heartbeat("crew-1", false, 0.9)
			}
			return m.Tick(TickInput{MissionS: 1, WallS: 1, Connected: true})
		}, 36, 136},
	} {
		t.Run(name, func(t *testing.T) {
			m := inPhase("flying")
			var at []int
			for s := range 200 {
				if r := c.step(m, s); r.Reason != "" {
					at = append(at, s)
				}
			}
			if len(at) != 2 || at[0] < 29 || at[0] > c.hold || at[1] < 119 || at[1] > c.comeBy || m.Phase() != "returning" {
				t.Errorf("changes at %v s, then %s", at, m.Phase())
			}
		})
	}
	// One lost heartbeat of three is no loss, and the first one of a mission begins the time.
	m := inPhase("flying")
	for s := range 500 {
		if s > 300 && s%3 > 0 {
			m.Heartbeat("crew-1", false, 0)
		}
		if r := m.Tick(TickInput{MissionS: 1, WallS: 1, Connected: true}); r.Reason != "" {
			t.Fatalf("at %d s: %+v", s, r)
		}
	}
}

// TestOwnHoldSurvivesContact: a crew's hold lasts until its resume, also one
// commanded while the fleet was already held for a lost broker.
func TestOwnHoldSurvivesContact(t *testing.T) {
	m := inPhase("flying")
	m.Heartbeat("c", false, 0)
	tickFor(m, 40, TickInput{Connected: true})
	if m.Phase() != "holding" || m.HeldBy() != HeldByCrewLost {
		t.Fatal(m.State())
	}
	if _, err := m.Command("hold"); err != nil {
		t.Fatal(err)
	}
	m.Heartbeat("c", false, 0)
	tickFor(m, 20, TickInput{Connected: true})
	if m.Phase() != "holding" {
		t.Error(m.State())
	}
}

// TestCrewsRadioLost holds and returns although the broker, on the aircraft
// itself, stays connected.
func TestCrewsRadioLost(t *testing.T) {
	m := inPhase("flying")
	if c := tickFor(m, 1000, TickInput{Connected: true}); c.Reason != "" {
		t.Fatalf("no station was ever received: %+v", c)
	}
	m.Heartbeat("crew-1", false, 0)
	if c := tickFor(m, 29, TickInput{Connected: true}); c.Reason != "" {
		t.Fatal(c)
	}
	if c := tickFor(m, 1, TickInput{Connected: true}); c.Effect != HoldFleet || m.HeldBy() != HeldByCrewLost {
		t.Fatalf("%+v, %+v", c, m.State())
	}
	for range 6 { // any station's suffice
		m.Heartbeat("crew-2", false, 0)
		tickFor(m, 1, TickInput{Connected: true})
	}
	if m.Phase() != "flying" {
		t.Fatal(m.State())
	}
	if c := tickFor(m, 200, TickInput{Connected: true}); c.Effect != HoldFleet {
		t.Fatal(c)
	}
	if c := tickFor(m, 200, TickInput{Connected: true}); c.Effect != ReturnFleet || m.Phase() != "returning" {
		t.Fatalf("%+v, %+v", c, m.State())
	}
}

func TestStationThatLeftIsNotMissed(t *testing.T) {
	m := inPhase("flying")
	m.Heartbeat("crew-1", false, 0)
	m.Heartbeat("crew-1", true, 0)
	if c := tickFor(m, 1000, TickInput{Connected: true}); c.Reason != "" {
		t.Error(c)
	}
}

// A station whose heartbeats do not come, as one whose name is not its certificate's, is not heard; of one that
// came, the silence since is known, and of one that left nothing.
func TestCrewAge(t *testing.T) {
	m := inPhase("flying")
	tickFor(m, 10, TickInput{Connected: true})
	if got := m.CrewAgeS(); got != nil {
		t.Errorf("no station was heard: %v s", *got)
	}
	m.Heartbeat("crew-1", false, 0)
	if got := m.CrewAgeS(); got == nil || *got != 0 {
		t.Errorf("heard now: %v", got)
	}
	tickFor(m, 7, TickInput{Connected: true})
	if got := m.CrewAgeS(); got == nil || *got != 7 {
		t.Errorf("7 s later: %v", got)
	}
	m.Heartbeat("crew-1", true, 0)
	if got := m.CrewAgeS(); got != nil {
		t.Errorf("it left: %v s", *got)
	}
}

func TestCommandCountsAsContact(t *testing.T) {
	m := inPhase("flying")
	m.Heartbeat("crew-1", false, 0)
	for range 10 {
		if c := tickFor(m, 25, TickInput{Connected: true}); c.Reason != "" {
			t.Fatal(c)
		}
		m.CommandReceived()
	}
}

// TestRestartCountsDowntime counts the leader's own downtime, and changes nothing
// before broker and crew could be received again.
func TestRestartCountsDowntime(t *testing.T) {
	m := inPhase("flying")
	m.Heartbeat("crew-1", false, 0)
	tickFor(m, 20, TickInput{Connected: true})
	r := &Mission{Limits: limits}
	r.Restore(m.State())
	r.AddDowntime(15, 15)
	if c := tickFor(r, 3, TickInput{}); c.Reason != "" {
		t.Fatalf("before the broker is reached: %+v", c)
	}
	if c := tickFor(r, 4, TickInput{Connected: true}); c.Reason != "" {
		t.Fatalf("within five seconds of it: %+v", c)
	}
	if c := tickFor(r, 1, TickInput{Connected: true}); c.Effect != HoldFleet {
		t.Fatalf("after it: %+v, %+v", c, r.State())
	}
	b := inPhase("flying")
	tickFor(b, 20, TickInput{})
	r = &Mission{Limits: limits}
	r.Restore(b.State())
	r.AddDowntime(8, 8)
	if c := tickFor(r, 4, TickInput{}); c.Reason != "" {
		t.Fatal(c)
	}
	if c := tickFor(r, 1, TickInput{}); c.Effect != HoldFleet {
		t.Fatalf("the broker was lost for 33 s: %+v", c)
	}
}

func TestClimb(t *testing.T) {
	for _, c := range []struct {
		name           string
		ready, waiting int
		seconds        int
		want           Effect
	}{
		{"all there", 2, 0, 1, BeginSlots},
		{"one still climbs", 1, 1, 179, None},
		{"one is late", 1, 1, 180, BeginSlots},
		{"none in time", 0, 2, 180, ReturnFleet},
		{"all with their pilots", 0, 0, 179, None},
	} {
		if got := tickFor(inPhase("climbing"), c.seconds,
			TickInput{Connected: true, AtStart: c.ready, EnRoute: c.waiting}); got.Effect != c.want {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
}

func TestClimbTimeSurvivesRestart(t *testing.T) {
	m := inPhase("climbing")
	tickFor(m, 100, TickInput{Connected: true, EnRoute: 1})
	r := &Mission{Limits: limits}
	r.Restore(m.State())
	r.AddDowntime(50, 50)
	if c := tickFor(r, 30, TickInput{Connected: true, EnRoute: 1}); c.Effect != ReturnFleet {
		t.Error(c, r.State())
	}
}

func TestEnds(t *testing.T) {
	m := inPhase("flying")
	if m.SlotsOver() != ReturnFleet || m.Phase() != "done" {
		t.Error(m.State())
	}
	m = inPhase("returning")
	if tickFor(m, 1, TickInput{Connected: true, AllLanded: true}); m.Phase() != "done" {
		t.Error(m.State())
	}
	m = inPhase("stopped")
	if m.SlotsOver() != None || m.DiskFailed() != None || m.Phase() != "stopped" {
		t.Error(m.State())
	}
	m = inPhase("holding")
	if m.DiskFailed() != ReturnFleet || m.Phase() != "returning" || m.HeldBy() != "" {
		t.Error(m.State())
	}
}

// TestTableNamesStates checks that the table has only states of the wire, and all of them.
func TestTableNamesStates(t *testing.T) {
	states := []string{"idle", "climbing", "flying", "holding", "returning", "done", "stopped"}
	for _, r := range transitions {
		for _, s := range append(slices.Clone(r.from), r.to) {
			if !slices.Contains(states, s) {
				t.Errorf("%s: no state %q", r.event, s)
			}
		}
	}
}

// The least crew_hold_s is a slot of a second: contact that lasts is not older than its last
// heartbeat, however much time the next tick adds, and ends the hold.
func TestShortestHoldEnds(t *testing.T) {
	m := inPhase("flying")
	m.Limits.CrewHoldS = 1
	tick := func(heartbeats int) {
		for k := range heartbeats {
			m.Heartbeat("crew-1", false, 0.1*float64(k))
		}
		m.Tick(TickInput{MissionS: 1, WallS: 1, Connected: true})
	}
	for range 8 {
		tick(10)
	}
	for range 3 {
		tick(0)
	}
	if m.Phase() != "holding" {
		t.Fatalf("without contact it is %s", m.Phase())
	}
	for range 3 {
		tick(10)
	}
	if m.Phase() != "flying" {
		t.Errorf("with contact again it is %s", m.Phase())
	}
}

// A held climb waits for the crew's resume: no slot begins at the starts, and the time that a climb may take stands.
func TestHeldClimb(t *testing.T) {
	m := inPhase("climbing")
	if effect, err := m.Command("hold"); effect != HoldFleet || err != nil || m.Phase() != "climbing" || m.HeldBy() != HeldByCrew {
		t.Fatalf("%v, %v, %+v", effect, err, m.State())
	}
	if c := tickFor(m, 1000, TickInput{Connected: true, AtStart: 1, EnRoute: 1}); c.Reason != "" {
		t.Fatalf("held: %+v", c)
	}
	if c := tickFor(m, 10, TickInput{Connected: true, AtStart: 2}); c.Reason != "" {
		t.Fatalf("held at the starts: %+v", c)
	}
	if _, err := m.Command("resume"); err != nil || m.HeldBy() != "" {
		t.Fatalf("resume: %v, %+v", err, m.State())
	}
	if c := tickFor(m, 1, TickInput{Connected: true, AtStart: 2}); c.Effect != BeginSlots {
		t.Fatalf("resumed at the starts: %+v", c)
	}
	if _, err := inPhase("climbing").Command("resume"); err == nil {
		t.Error("a climb that nobody holds was resumed")
	}
}
