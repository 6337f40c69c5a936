package leader

import (
	"slices"
	"strings"
	"testing"

	"prefdt/firmware/account"
	"prefdt/firmware/fleet"
	"prefdt/telemetry"
)

// The gravest danger comes first, whatever the aircraft's number: in the air before on the ground, and of the same gravity the one
// with the least joules left. It is told since when, and what can be done.
func TestDangersInOrder(t *testing.T) {
	frozen := loadCheckpoint(t)
	l := newInPhase(t, telemetry.StateFlying, nil, frozen.Physics, &frozen.GoalConstants)
	landed := &l.views[0]
	landed.InAir, landed.Landed, landed.Phase, landed.Charge, landed.Role = false, new(true), fleet.PhaseIdle, 0.05, fleet.RoleArmable
	up := &l.views[1]
	up.Charge, up.Failsafe, up.ModeName, up.Role, up.Phase = 0.05, true, "AUTO.LOITER", fleet.RoleHold, fleet.PhasePilot
	up.Reason = "left OFFBOARD for AUTO.LOITER"
	texts := func() (lines []string) {
		s := l.status(l.views)
		for _, d := range s.Dangers {
			lines = append(lines, strings.Join([]string{string(rune('0' + d.Gravity)), string(rune('0' + d.Aircraft)), d.Text, d.Do}, "|"))
		}
		return lines
	}
	want := []string{
		"9|2|its autopilot's failsafe is active, in AUTO.LOITER at 100 m|its pilot takes it, if it does not come home",
		"8|2|battery 5 %|return",
		"6|2|left OFFBOARD for AUTO.LOITER, with its pilot|resume aircraft 2",
		"3|1|battery 5 %|change its battery",
	}
	if got := texts(); !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	before := l.current.dangerSince[dangerKey{2, "battery"}]
	l.account.Begin(l.Config.Slots, l.views)
	l.current.dangerSince[dangerKey{2, "battery"}] = before + 7
	if s := l.status(l.views); s.Dangers[1].SinceSlot != before+7 {
		t.Errorf("a danger that lasts is told since slot %d, want %d", s.Dangers[1].SinceSlot, before+7)
	}
	// Of two with the same gravity the one that has less left comes first.
	landed.InAir, landed.Landed, landed.Charge = true, new(false), 0.08
	up.Charge, up.Failsafe, up.Reason = 0.05, false, ""
	if s := l.status(l.views); len(s.Dangers) < 2 || s.Dangers[0].Aircraft != 2 || s.Dangers[1].Aircraft != 1 {
		t.Errorf("with 8 %% and 5 %%: %+v", s.Dangers)
	}
}

// A height that jumped is a danger in the air, and none on the ground or where it jumped back.
func TestDangersOfAHeight(t *testing.T) {
	frozen := loadCheckpoint(t)
	l := newInPhase(t, telemetry.StateFlying, nil, frozen.Physics, &frozen.GoalConstants)
	v := &l.views[0]
	for _, c := range []struct {
		jumpedM float64
		inAir   bool
		want    string
	}{{15, true, "jumped by +15 m"}, {-110, true, "jumped by -110 m"}, {1, true, ""}, {15, false, ""}} {
		v.HeightJumpedM, v.InAir, v.Obstacle = c.jumpedM, c.inAir, false
		said := ""
		for _, d := range l.status(l.views).Dangers {
			if d.Aircraft == 1 && strings.Contains(d.Text, "height") {
				said = d.Text
			}
		}
		if !strings.Contains(said, c.want) || (said == "") != (c.want == "") {
			t.Errorf("%+v: %q", c, said)
		}
	}
}

// An aircraft in the air is left by a mission that is over: what brings it down is said.
func TestDangersOfAnAircraftLeftInTheAir(t *testing.T) {
	frozen := loadCheckpoint(t)
	for _, c := range []struct {
		state    string
		role     fleet.Role
		want, do string
	}{
		{telemetry.StateStopped, fleet.RoleHold, "LEFT IN THE AIR, in its autopilot's", "return"},
		{telemetry.StateDone, fleet.RoleHold, "LEFT IN THE AIR, in its autopilot's", "return"},
		{telemetry.StateStopped, fleet.RoleOther, "LEFT IN THE AIR with its pilot", ""},
		{telemetry.StateDone, fleet.RoleOther, "LEFT IN THE AIR with its pilot", "its pilot lands it, or resume aircraft 1"},
		{telemetry.StateDone, fleet.RoleLand, "", ""},
		{telemetry.StateFlying, fleet.RoleHold, "", ""},
	} {
		l := newInPhase(t, c.state, nil, frozen.Physics, &frozen.GoalConstants)
		l.views[0].Phase, l.views[0].Role, l.views[1].InAir = fleet.PhasePilot, c.role, false
		s := l.status(l.views)
		i := slices.IndexFunc(s.Dangers, func(d telemetry.Danger) bool { return strings.Contains(d.Text, "LEFT IN THE AIR") })
		switch {
		case c.want == "" && i >= 0, c.want != "" && (i < 0 || !strings.Contains(s.Dangers[i].Text, c.want) || s.Dangers[i].Do != c.do):
			t.Errorf("%s, role %v: %+v, want %q, %q", c.state, c.role, s.Dangers, c.want, c.do)
		}
	}
}

// What is said of packs that do not last, of a hold and of a lost aircraft is what helps.
func TestDangersSayWhatHelps(t *testing.T) {
	frozen := loadCheckpoint(t)
	grounded := func(l *inPhase) {
		for i := range l.views {
			l.views[i].InAir, l.views[i].Landed = false, new(true)
		}
	}
	short := func(standDown string) func(*inPhase) {
		return func(l *inPhase) { l.account.SetBounds(&account.Bounds{StandDown: standDown, LeastUp: 1}) }
	}
	for _, c := range []struct {
		set      func(*inPhase)
		until    int // covered until that slot
		text, do string
	}{
		{short(telemetry.StandDownLand), 5, "SATURATED: the packs do not last", "nothing: each comes home for its reserve"},
		{short(telemetry.StandDownNever), 5, "SATURATED: the packs do not last", "return, or a budget with -land"},
		{grounded, -1, "NOT COVERED: too few are in the air", "return ends the mission; then swap the packs"},
		{func(*inPhase) {}, -1, "NOT COVERED: too few are in the air", "launch another, or ask for fewer"},
	} {
		l := newInPhase(t, telemetry.StateFlying, nil, frozen.Physics, &frozen.GoalConstants)
		c.set(l)
		s := &telemetry.Status{State: telemetry.StateFlying, Slots: l.Config.Slots, Slot: 0, CoveredUntilSlot: new(c.until),
			Saturated: true, BudgetJ: new(2.0), FloorJ: 1}
		d := dangerList{mission: &l.mission, account: &l.account, status: s, anyUp: slices.ContainsFunc(l.views, fleet.View.Up)}
		d.addMission(s)
		i := slices.IndexFunc(d.list, func(x danger) bool { return strings.HasPrefix(x.Text, c.text) })
		if i < 0 || d.list[i].Do != c.do {
			t.Errorf("%s: %+v, want %q", c.text, d.list, c.do)
		}
	}
	l := newInPhase(t, telemetry.StateFlying, nil, frozen.Physics, &frozen.GoalConstants)
	l.views[0].AgeS = 5
	if s := l.status(l.views); len(s.Dangers) == 0 || s.Dangers[0].Do != "see to its link" {
		t.Errorf("not received for 5 s: %+v", s.Dangers)
	}
}

// A status with all that it can tell is not longer than what `leader check` tries on the broker.
func TestLongestStatus(t *testing.T) {
	frozen := loadCheckpoint(t)
	l := newInPhase(t, telemetry.StateDone, nil, frozen.Physics, &frozen.GoalConstants)
	for i := range l.views {
		v := &l.views[i]
		v.Reason, v.Failsafe, v.Charge, v.AgeS = strings.Repeat("r", 499), true, 0.05, 100
		v.Phase, v.Role, v.Lost, v.Obstacle = fleet.PhasePilot, fleet.RoleOther, true, true
	}
	s := l.status(l.views)
	s.Refuses, s.Challenge = l.checks(l.views).refuses(), strings.Repeat("A", 22)
	for len(s.Dangers) < maxDangers {
		s.Dangers = append(s.Dangers, telemetry.Danger{Gravity: 9, Aircraft: 64, SinceSlot: 1e6, Text: strings.Repeat("d", maxDangerText),
			Do: "its pilot lands it, or resume aircraft 64"})
	}
	for _, action := range []string{"start", "stop", "hold", "return", "resume", "launch", "clear", "new", "budget"} {
		if why := s.Refuses.Of(action); len(*why) > maxRefusal {
			t.Errorf("%s: %d bytes", action, len(*why))
		}
		*s.Refuses.Of(action) = strings.Repeat("w", maxRefusal)
	}
	payload, err := telemetry.Encode(s)
	if most := telemetry.LongestStatus(len(l.views)); err != nil || len(payload)+120 > most { // with a signature
		t.Errorf("%d bytes, %v; want at most %d", len(payload), err, most)
	}
}
