package command

import (
	"strings"
	"testing"

	"prefdt/telemetry"
)

// What a command is said to do, before it is sent.
func TestConsequence(t *testing.T) {
	budget := func(energyJ float64, mode string) Request {
		return Request{Budget: &telemetry.Budget{ID: "b", EnergyJ: energyJ, Mode: mode}}
	}
	action := func(name string, aircraft ...int) Request {
		return Request{Mission: &telemetry.Mission{ID: "m", Action: name, Aircraft: aircraft, Mission: "m-2"}}
	}
	as := func(state string, modes ...string) func(s *telemetry.Status) {
		return func(s *telemetry.Status) {
			s.State = state
			for i, m := range modes {
				s.Aircraft[i].Mode = m
			}
		}
	}
	flying := as(telemetry.StateFlying)
	for name, c := range map[string]struct {
		request Request
		change  func(s *telemetry.Status)
		want    string
	}{
		"a budget": {budget(36000, "target"), flying,
			"The fleet is to end on 36 kJ (36000 J, 10 Wh) from slot 0 to the last, 7.1 kJ of it spent. It replaces 42 kJ."},
		"the same one": {budget(42000, "target"), flying,
			"The fleet is to end on 42 kJ (42000 J, 11.67 Wh) from slot 0 to the last, 7.1 kJ of it spent."},
		"a ceiling": {budget(42000, "ceiling"), flying, "The fleet must not exceed 42 kJ"},
		"below the floor": {budget(42, "target"), flying,
			"below the floor of 29 kJ. The fleet flies at least energy from now on"},
		"a preference": {Request{Preference: &telemetry.Preference{ID: "p", Setting: 0.35}}, flying,
			"at 0.35 between least delay (0) and least energy (1). The budget of 42 kJ is given up."},
		"a budget when all is over": {budget(42, "target"), as(telemetry.StateDone),
			"This mission has no slot left. Begin the next one with `new`, then send the request."},
		"landed, of packs": {Request{Budget: &telemetry.Budget{ID: "b", Scope: "landed", StandDown: "land",
			Packs: []telemetry.Pack{{Aircraft: 1}, {Aircraft: 2}}}}, flying,
			"No pack of aircraft 1 and 2 goes below its reserve from take-off to touchdown. Aircraft may come home for good, down to 1 " +
				"in the air while packs last. It replaces 42 kJ."},
		"to touchdown, after one of slots": {Request{Budget: &telemetry.Budget{ID: "b", EnergyJ: 90e3, Mode: "ceiling", Scope: "landed"}},
			func(s *telemetry.Status) { s.State, s.TransitJ = telemetry.StateFlying, 13.6e3 },
			"exceed 90 kJ (90000 J, 25 Wh) from take-off to touchdown, 20.7 kJ of it spent."},
		"of slots, after one to touchdown": {budget(36000, "target"),
			func(s *telemetry.Status) {
				s.State, s.Scope, s.TransitJ = telemetry.StateFlying, telemetry.ScopeLanded, 4e3
			},
			"from slot 0 to the last, 3.1 kJ of it spent."},
		"below the floor of all aloft": {Request{Budget: &telemetry.Budget{ID: "b", EnergyJ: 20000, Mode: "ceiling", StandDown: "land"}},
			flying,
			"The fleet must not exceed 20 kJ (20000 J, 5.556 Wh) from slot 0 to the last, 7.1 kJ of it spent. Aircraft may come home " +
				"for good"},
		"return of one": {action("return", 2), flying,
			"Aircraft 2 flies to where it took off and lands there; the mission goes on with the others."},
		"start": {action("start"), as(telemetry.StateIdle), "Aircraft 1 and 2 arm, take off and fly to their starts"},
		"hold":  {action("hold"), flying, "Aircraft 1 and 2 stay where they are. Slots and joules count on"},
		"return": {action("return"), flying,
			"Aircraft 1 and 2 fly to where they took off and land there. The mission is over."},
		"return, one with pilot": {action("return"), as(telemetry.StateFlying, "POSCTL"),
			"Aircraft 2 flies to where it took off and lands there. The mission is over. Aircraft 1 is with its pilot or autopilot, and " +
				"stays so."},
		"return, both on their way": {action("return"), func(s *telemetry.Status) {
			flying(s)
			for i := range s.Aircraft {
				s.Aircraft[i].Mode, s.Aircraft[i].Duty = "AUTO.LAND", telemetry.DutyLeaving
			}
		}, "Aircraft 1 and 2 are on their way home already. The mission is over."},
		"return, one on its way": {action("return"), func(s *telemetry.Status) {
			flying(s)
			s.Aircraft[0].Mode, s.Aircraft[0].Duty = "AUTO.LAND", telemetry.DutyLeaving
		}, "Aircraft 2 flies to where it took off and lands there. Aircraft 1 is on its way home already. The mission is over."},
		"stop while one begins to fly": {action("stop"), as(telemetry.StateFlying, "AUTO.LOITER"),
			"Aircraft 1 and 2 stay in the air where they are"},
		"stop, one held by its pilot": {action("stop"), func(s *telemetry.Status) {
			s.Aircraft[0].Mode, s.Aircraft[0].Reason = "AUTO.LOITER", "left OFFBOARD for AUTO.LOITER while flying"
		}, "Aircraft 1 is with its pilot or autopilot, and stays so."},
		"return after stop": {action("return"), as(telemetry.StateStopped, "AUTO.LOITER", "POSCTL"),
			"Aircraft 1 flies to where it took off and lands there. The mission is over. Aircraft 2 is with its pilot"},
		"stop": {action("stop"), flying,
			"Aircraft 1 and 2 stay in the air where they are, in their autopilots' Hold, until `return` or a pilot."},
		"stop while one lands": {action("stop"), as(telemetry.StateReturning, "AUTO.LAND"),
			"Aircraft 2 stays in the air where it is, in its autopilot's Hold, until `return` or a pilot. Aircraft 1 is landing, and " +
				"goes on. The mission is over."},
		"resume": {action("resume"), flying,
			"A hold ends, and aircraft in the air that are with their pilots fly for the leader again."},
		"resume of two": {action("resume", 2, 1), flying, "Aircraft 1 and 2 fly for the leader again, not for a pilot."},
		"resume when all is over": {action("resume"), as(telemetry.StateDone, "AUTO.LAND", "POSCTL"),
			"Aircraft in the air that are with their pilots fly to where they took off and land there."},
		"resume of one on the way home": {action("resume", 2), as(telemetry.StateReturning, "AUTO.LAND", "POSCTL"),
			"Aircraft 2 flies to where it took off and lands there."},
		"launch": {action("launch", 2), flying, "Aircraft 2 arms, takes off and joins the mission."},
		"clear":  {action("clear", 1, 2), flying, "The others no longer keep clear of aircraft 1 and 2, wherever that is."},
		"new": {action("new"), as(telemetry.StateDone),
			"Mission m-2 begins, idle, with nothing spent and the leader's configured request"},
		"before a status": {action("stop"), nil, "Every aircraft in the air that is not landing stays in the air where it is"},
	} {
		var s *telemetry.Status
		if c.change != nil {
			s = new(exampleStatus())
			c.change(s)
		}
		if got := c.request.Consequence(s); !strings.Contains(got, c.want) {
			t.Errorf("%s: %s\nwant %s", name, got, c.want)
		}
	}
}

// None of the aircraft that land or return by their autopilots is said to stay in the air, before a stop and after it.
func TestConsequenceOfStopWhileLanding(t *testing.T) {
	for _, c := range []struct {
		state, want string
		roles       [2]string
		reason      string
	}{
		{telemetry.StateReturning, "Aircraft 1 and 2 are landing, and go on. The mission is over.", [2]string{"land", "land"}, ""},
		{telemetry.StateStopped, "Aircraft 1 and 2 are landing, and go on. The mission is over.", [2]string{"land", "land"},
			"stopped in AUTO.LAND"},
		{telemetry.StateFlying, "Aircraft 2 is landing, and goes on. Aircraft 1 is returning, and goes on. The mission is over.",
			[2]string{"return", "land"}, ""},
		{telemetry.StateReturning, "Aircraft 2 is landing, and goes on. The mission is over. Aircraft 1 is with its pilot or autopilot, " +
			"and stays so.", [2]string{"other", "land"}, "left OFFBOARD for POSCTL"},
	} {
		s := exampleStatus()
		s.State = c.state
		for i, role := range c.roles {
			s.Aircraft[i].Role, s.Aircraft[i].Reason = role, c.reason
		}
		if got := (Request{Mission: &telemetry.Mission{Action: telemetry.ActionStop}}).Consequence(&s); got != c.want {
			t.Errorf("%v in %s: %s\nwant %s", c.roles, c.state, got, c.want)
		}
	}
}

// Every aircraft that a mission which is over leaves in the air is named, those that the same
// act brings down in one line.
// Who flies an aircraft is told by the role of its mode, whatever its autopilot calls that.
// A hold that the crew did not order says for how long nothing was received from it.
// The buttons that are always at hand say in a line what becomes of whom, what ends first.
func TestBrief(t *testing.T) {
	aircraft := func(modes ...string) (list []telemetry.StatusAircraft) {
		for i, mode := range modes {
			list = append(list, telemetry.StatusAircraft{Number: i + 1, Mode: mode, Landed: new(mode == "landed"), Reason: "x"})
		}
		return list
	}
	for _, c := range []struct {
		action, want string
		modes        []string
	}{
		{"hold", "1 and 2 wait where they are; slots run on", []string{"OFFBOARD", "OFFBOARD"}},
		{"return", "Ends the mission: 1 and 2 fly home", []string{"OFFBOARD", "OFFBOARD"}},
		{"stop", "Ends the mission: 1 and 2 stay up", []string{"OFFBOARD", "OFFBOARD"}},
		{"stop", "Ends the mission: 1 stays up; not 2", []string{"OFFBOARD", "POSCTL"}},
		{"return", "Ends the mission: 4 aircraft fly home", []string{"OFFBOARD", "OFFBOARD", "OFFBOARD", "OFFBOARD"}},
		{"return", "Ends the mission: nobody is in the air", []string{"landed", "landed"}},
		{"stop", "Ends the mission: none obeys; not 1", []string{"POSCTL", "landed"}},
	} {
		s := &telemetry.Status{State: telemetry.StateFlying, Aircraft: aircraft(c.modes...)}
		if got := (Request{Mission: &telemetry.Mission{Action: c.action}}).Brief(s); got != c.want {
			t.Errorf("%s of %q: %q, want %q", c.action, c.modes, got, c.want)
		}
	}
	s := &telemetry.Status{State: telemetry.StateStopped, Aircraft: aircraft("AUTO.LOITER", "landed")}
	if got := (Request{Mission: &telemetry.Mission{Action: "return"}}).Brief(s); strings.Contains(got, "Ends the mission") {
		t.Errorf("after a stop: %q", got)
	}
	s = &telemetry.Status{State: telemetry.StateFlying, Aircraft: aircraft("landed", "landed")}
	if got := (Request{Mission: &telemetry.Mission{Action: "return"}}).Consequence(s); got !=
		"No aircraft is in the air. The mission is over." {
		t.Error(got)
	}
}

// What is said of ticked aircraft before a press is what the leader would answer.
// What the leader does without the crew's order has its reason; a hold for want of the crew its present age.
// Of an aircraft that was lost the leader says so until `resume` or `launch`: once it is received again, the words say which.

// What the leader would refuse is said by its status alone: a leader that says nothing is asked.
func TestRefused(t *testing.T) {
	s := &telemetry.Status{Refuses: &telemetry.Refuses{Return: "nobody is in the air", Budget: "the last slot is decided"}}
	for want, r := range map[string]Request{
		"nobody is in the air":     {Mission: &telemetry.Mission{Action: telemetry.ActionReturn}},
		"":                         {Mission: &telemetry.Mission{Action: telemetry.ActionStop}},
		"the last slot is decided": {Preference: &telemetry.Preference{}},
	} {
		if got := r.Refused(s); got != want {
			t.Errorf("%+v: %q, want %q", r, got, want)
		}
		if got := r.Refused(&telemetry.Status{}); got != "" {
			t.Errorf("%+v of a leader that does not say: %q", r, got)
		}
	}
}
