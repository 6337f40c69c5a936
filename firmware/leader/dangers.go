package leader

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"prefdt/firmware/account"
	"prefdt/firmware/fleet"
	"prefdt/firmware/mission"
	"prefdt/telemetry"
)

// Gravities of dangers. Those of what is in the air come before those on the ground.
const (
	mustActNow   = telemetry.MustAct + 2 // a pack or an autopilot that may not bring an aircraft home
	outOfReach   = telemetry.MustAct + 1 // an aircraft in the air that nobody here sees, or whose battery is nearly empty
	mustAct      = telemetry.MustAct     // nobody brings an aircraft down, or it lands below its reserve; a hold or return without an order
	flownByOther = 6                     // an aircraft in the air that does not fly as ordered, or whose battery is low
	unmet        = 5                     // a request that cannot be kept
	mayKnow      = 4                     // what comes by the plan
	onGround     = 3                     // of aircraft on the ground: the same, and nothing can fall
	unseen       = 2                     // an aircraft of which nothing was received yet
)

const (
	silentS       = 3.0  // without any message an aircraft is not seen any more
	lowCharge     = 0.2  // of a pack
	lowestCharge  = 0.1  // likewise
	heightJumpM   = 3.0  // of a reported height, which may be off by as much
	shownJ        = 50.0 // what two figures of kilojoules may differ by and read the same
	leavesWithin  = 60   // slots
	maxDangers    = 12   // in a status, see [telemetry.LongestStatus]
	maxDangerText = 160  // bytes of one
	maxRefusal    = 100  // bytes of why an action is refused
)

// dangerKey is what makes a danger the same as that of the slot before.
type dangerKey struct {
	aircraft int
	kind     string
}

// danger is one with what it is ordered by.
type danger struct {
	telemetry.Danger
	key   dangerKey
	leftJ float64 // in the pack of its aircraft
}

// dangerList collects the dangers of one status.
type dangerList struct {
	mission *mission.Mission
	account *account.Account
	status  *telemetry.Status
	anyUp   bool // an aircraft is in the air
	list    []danger
}

// add adds a danger of what is up in the air, or is on the ground.
func (d *dangerList) add(up bool, leftJ float64, gravity int, key dangerKey, text, do string) {
	if !up {
		gravity = min(gravity, onGround)
	}
	d.list = append(d.list, danger{telemetry.Danger{Gravity: gravity, Aircraft: key.aircraft, Text: text, Do: do}, key, leftJ})
}

// addFleet adds a danger of the whole fleet.
func (d *dangerList) addFleet(gravity int, kind, text, do string) {
	d.add(d.anyUp, math.Inf(1), gravity, dangerKey{0, kind}, text, do)
}

// dangers is what the crew must not miss, the gravest first, and since which slots, with those of the status before. It decides
// nothing: whoever shows a status shows these.
func dangers(s *telemetry.Status, before map[dangerKey]int, m *mission.Mission, a *account.Account, views []fleet.View) (
	out []telemetry.Danger, since map[dangerKey]int) {
	d := dangerList{mission: m, account: a, status: s, anyUp: slices.ContainsFunc(views, fleet.View.Up)}
	for i := range views {
		d.addAircraft(&s.Aircraft[i], &views[i])
	}
	d.addMission(s)
	slices.SortStableFunc(d.list, func(a, b danger) int {
		return cmp.Or(cmp.Compare(b.Gravity, a.Gravity), cmp.Compare(a.leftJ, b.leftJ))
	})
	since, out = map[dangerKey]int{}, []telemetry.Danger{}
	for _, x := range d.list {
		from, known := before[x.key]
		if !known {
			from = s.Slot
		}
		since[x.key], x.SinceSlot, x.Text = from, from, clip(x.Text, maxDangerText)
		out = append(out, x.Danger)
	}
	return out[:min(len(out), maxDangers)], since
}

// addAircraft adds the dangers of one aircraft.
func (d *dangerList) addAircraft(a *telemetry.StatusAircraft, v *fleet.View) {
	s, up, leftJ := d.status, v.Up(), d.account.ResidualJ(v)
	add := func(gravity int, kind, text, do string) {
		d.add(up, leftJ, gravity, dangerKey{v.Number, kind}, text, do)
	}
	home := "return"
	if v.Homeward || v.Role.ComesDown() {
		home = "" // it is on its way down
	}
	switch {
	case !v.Received:
		add(unseen, "silent", "nothing was received from it yet", "switch it on; see to its link")
	case v.AgeS > silentS:
		do := "see to its link"
		if v.Lost && up {
			do = aloneText(v) + "resume once received again, or clear it once it is down"
		}
		add(outOfReach, "silent", fmt.Sprintf("LINK LOST: nothing received for %.0f s", v.AgeS), do)
	}
	if v.Failsafe && up {
		add(mustActNow, "failsafe", fmt.Sprintf("its autopilot's failsafe is active, in %s at %.0f m", v.ModeName, v.UpM),
			"its pilot takes it, if it does not come home")
	}
	if jumpedM := v.HeightJumpedM; up && math.Abs(jumpedM) > heightJumpM {
		add(mustAct, "height", fmt.Sprintf("its reported height jumped by %+.0f m, and it did not climb; it flies on at the height it had",
			jumpedM), home)
	}
	if b := a.Battery; b != nil && *b < lowCharge {
		gravity, do := flownByOther, home
		if *b < lowestCharge {
			gravity = outOfReach
		}
		if !up {
			do = "change its battery"
		}
		add(gravity, "battery", fmt.Sprintf("battery %.0f %%", 100**b), do)
	}
	if left, kept := a.LeftAtTouchdownJ, a.ReserveJ; up && left != nil && kept != nil && *left < *kept-shownJ {
		add(mustAct, "reserve", fmt.Sprintf("is predicted to land below its reserve: with %.1f of %.1f kJ", *left/1000, *kept/1000), home)
	}
	over := d.mission.Ending() && v.InAir && !v.Obeys() && !v.Role.ComesDown()
	why := pilotText(v, a.Reason)
	switch {
	case over && v.Hovers():
		add(mustAct, "left", "is LEFT IN THE AIR, in its autopilot's "+v.ModeName, "return")
	case over && d.mission.Phase() == telemetry.StateStopped:
		add(flownByOther, "left", "is LEFT IN THE AIR with its pilot", "")
	case over:
		add(flownByOther, "left", "is LEFT IN THE AIR with its pilot", fmt.Sprintf("its pilot lands it, or resume aircraft %d", v.Number))
	case why != "" && v.WithPilot():
		add(flownByOther, "reason", why, d.takesBack(v))
	case why != "":
		add(unmet, "reason", why, "")
	}
	if until := a.FliesUntilSlot; until != nil && *until-s.Slot < leavesWithin && *until < s.Slots-1 {
		left, by := max(*until-s.Slot, 0), "by the plan"
		if a.UsableJ != nil && a.HomeJ != nil && a.ReserveJ != nil && *a.UsableJ-*a.HomeJ-*a.ReserveJ <= 200*float64(left+5) {
			by = "for its reserve"
		}
		add(mayKnow, "leaves", fmt.Sprintf("leaves for home in %d s, %s", left, by), "")
	}
}

// pilotText is why an aircraft does not fly as commanded, with who has it; empty: it does, or was stopped.
func pilotText(v *fleet.View, reason string) string {
	why, lost := strings.CutPrefix(reason, telemetry.ReasonLost)
	switch {
	case reason == "stopped":
		return ""
	case strings.HasPrefix(reason, telemetry.ReasonLeft):
		return reason + ", with its pilot"
	case !lost || why != "" && why[0] != ':' || v.AgeS > silentS:
		return reason
	case why != "":
		return "was lost, received again, with its pilot (" + strings.TrimSpace(why[1:]) + ")"
	}
	return "was lost, received again, with its pilot"
}

// takesBack is the command that gives the leader an aircraft that is with its pilot; empty: there is none.
func (d *dangerList) takesBack(v *fleet.View) string {
	switch {
	case v.Landed != nil && *v.Landed && d.mission.AcceptsAircraft(telemetry.ActionLaunch):
		return fmt.Sprintf("launch aircraft %d", v.Number)
	case v.InAir && d.mission.AcceptsAircraft(telemetry.ActionResume):
		return fmt.Sprintf("resume aircraft %d", v.Number)
	}
	return ""
}

// addMission adds those of the mission and its budget.
func (d *dangerList) addMission(s *telemetry.Status) {
	if why := d.mission.Reason(); why != "" {
		do := ""
		if s.State == telemetry.StateHolding {
			do = "it ends by itself once that is cured; or return"
			if strings.HasPrefix(why, telemetry.ReasonNoCrew) {
				do = "it ends by itself once a watch is received again; or return"
			}
		}
		verb := s.State
		if verb == telemetry.StateDone {
			verb = "returned"
		}
		d.addFleet(mustAct, "state", verb+": "+why, do)
	}
	if why := d.account.FlightWarning(); why != "" && d.mission.InSlots() {
		d.addFleet(mayKnow, "flight", why, "")
	}
	if until := s.CoveredUntilSlot; until != nil && *until <= s.Slot && *until < s.Slots-1 && d.mission.InSlots() {
		do := "launch another, or ask for fewer"
		if !d.anyUp {
			do = "return ends the mission; then swap the packs"
		}
		d.addFleet(unmet, "covered", "NOT COVERED: too few are in the air for what the crew asked", do)
	}
	ask := "ask for a larger budget"
	switch holds := s.State == telemetry.StateHolding; {
	case s.State == telemetry.StateDone: // no budget is accepted any more
	case s.Saturated && s.CoveredUntilSlot != nil && s.BudgetJ != nil && *s.BudgetJ >= s.FloorJ:
		d.addFleet(unmet, "saturated", "SATURATED: the packs do not last to the last slot", d.packsDo())
	case s.Saturated:
		d.addFleet(unmet, "saturated", fmt.Sprintf("SATURATED: the budget is below the floor of %.1f kJ", s.FloorJ/1000), ask)
	case s.BudgetJ == nil || s.PredictedEndJ == nil:
	case holds && *s.PredictedEndJ > *s.BudgetJ+shownJ, *s.PredictedEndJ > 1.01**s.BudgetJ:
		if holds {
			ask = "resume: a hold spends joules as flight does"
		}
		d.addFleet(mayKnow, "over", fmt.Sprintf("predicted to end on %.1f kJ, above the budget of %.1f", *s.PredictedEndJ/1000,
			*s.BudgetJ/1000), ask)
	}
}

// aloneText is what a lost aircraft does by its parameters; empty: it stays, or they are not known.
func aloneText(v *fleet.View) string {
	switch v.Params.Alone(fleet.LeftByLink, fleet.RoleCommanded).Role {
	case fleet.RoleReturn:
		return "its autopilot flies it home; "
	case fleet.RoleLand:
		return "its autopilot lands it; "
	}
	return ""
}

// packsDo is what to do where packs do not last: no budget enlarges them.
func (d *dangerList) packsDo() string {
	if b := d.account.Bounds(); b != nil && b.MayLand() {
		return "nothing: each comes home for its reserve"
	}
	return "return, or a budget with -land"
}

// clip cuts a text to what a status carries.
func clip(text string, most int) string { return telemetry.Printable(text[:min(len(text), most)]) }
