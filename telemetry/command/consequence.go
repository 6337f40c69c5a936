package command

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"prefdt/telemetry"
)

// Consequence is what a command will do to the fleet of a status, in one sentence or
// two, to be read before it is sent. A nil status is one that was not received yet.
func (r Request) Consequence(s *telemetry.Status) string {
	if s == nil {
		s = &telemetry.Status{}
	}
	switch {
	case r.Mission == nil && Over(s):
		return "This mission has no slot left. Begin the next one with `new`, then send the request."
	case r.Budget != nil:
		return budgetConsequence(r.Budget, s)
	case r.Preference != nil:
		return preferenceConsequence(r.Preference, s)
	}
	return missionConsequence(r.Mission, s)
}

func budgetConsequence(b *telemetry.Budget, s *telemetry.Status) string {
	limit, span := "The fleet is to end on ", "from slot 0 to the last"
	if b.Mode != telemetry.ModeTarget {
		limit = "The fleet must not exceed "
	}
	if b.Scope == telemetry.ScopeLanded {
		span = "from take-off to touchdown"
	}
	text := fmt.Sprintf("%s%s %s, %s of it spent.", limit, inEveryUnit(b.EnergyJ), span, Kilojoules(spentJ(s, b.Scope)))
	if b.EnergyJ == 0 {
		text = fmt.Sprintf("No pack of %s goes below its reserve %s.", aircraftText(packNumbers(b)), span)
	} else if len(b.Packs) > 0 {
		text += fmt.Sprintf(" The packs of %s are bounded.", aircraftText(packNumbers(b)))
	}
	if b.StandDown == telemetry.StandDownLand {
		text += fmt.Sprintf(" Aircraft may come home for good, down to %d in the air while packs last.", max(leastUp(b), 1))
	}
	if s.BudgetJ != nil && *s.BudgetJ != b.EnergyJ {
		text += fmt.Sprintf(" It replaces %s.", Kilojoules(*s.BudgetJ))
	}
	if belowFloor(b, s) {
		text += fmt.Sprintf(" It is below the floor of %s. The fleet flies at least energy from now on, and ends at the floor.",
			Kilojoules(lowestFloorJ(b, s)))
	}
	if numbers := landAtOnce(b, s); numbers != nil {
		text += fmt.Sprintf(" The reserve leaves %s nothing to fly with: they come home at once.", aircraftText(numbers))
	}
	return text
}

func leastUp(b *telemetry.Budget) int {
	if b.LeastUp == nil {
		return 1
	}
	return *b.LeastUp
}

func preferenceConsequence(p *telemetry.Preference, s *telemetry.Status) string {
	text := fmt.Sprintf("The fleet flies at %g between least delay (0) and least energy (1).", p.Setting)
	if s.BudgetJ != nil {
		text += fmt.Sprintf(" The budget of %s is given up.", Kilojoules(*s.BudgetJ))
	}
	return text
}

func missionConsequence(m *telemetry.Mission, s *telemetry.Status) string {
	all, led, others := situation(s)
	if len(m.Aircraft) == 0 && allLanded(s) {
		switch m.Action {
		case telemetry.ActionHold:
			return "No aircraft is in the air. Slots run on until `resume`."
		case telemetry.ActionReturn, telemetry.ActionStop:
			return "No aircraft is in the air. The mission is over."
		}
	}
	switch m.Action {
	case telemetry.ActionStart:
		return sentence(all, "every aircraft", "arms, takes off and flies to its start", "arm, take off and fly to their starts") +
			"; then slots run."
	case telemetry.ActionHold:
		stay := sentence(led, "every aircraft in the air", "stays where it is", "stay where they are") + ". "
		switch {
		case Over(s):
			return stopText(s, led, others)
		case s.State == telemetry.StateClimbing:
			return stay + "No other takes off. The climb goes on with `resume`."
		}
		return stay + "Slots and joules count on until `resume`."
	case telemetry.ActionResume:
		switch {
		case Over(s) && len(m.Aircraft) > 0:
			return sentence(m.Aircraft, "", fliesHome, flyHome) + "."
		case Over(s):
			return "Aircraft in the air that are with their pilots " + flyHome + "."
		case len(m.Aircraft) > 0:
			return sentence(m.Aircraft, "", "flies", "fly") + " for the leader again, not for a pilot."
		}
		return "A hold ends, and aircraft in the air that are with their pilots fly for the leader again."
	case telemetry.ActionReturn:
		if len(m.Aircraft) > 0 {
			return sentence(m.Aircraft, "", fliesHome, flyHome) + "; the mission goes on with the others."
		}
		homeward, others := split(others, s, func(a *telemetry.StatusAircraft) bool { return a.Duty == telemetry.DutyLeaving })
		text := ""
		if len(led) > 0 || len(homeward) == 0 {
			text = sentence(led, "every aircraft in the air", fliesHome, flyHome) + ". "
		}
		if len(homeward) > 0 {
			text += sentence(homeward, "", "is on its way home already", "are on their way home already") + ". "
		}
		return text + "The mission is over." + withPilots(others)
	case telemetry.ActionStop:
		return stopText(s, led, others)
	case telemetry.ActionLaunch:
		return sentence(m.Aircraft, "", "arms, takes off and joins the mission", "arm, take off and join the mission") + "."
	case telemetry.ActionClear:
		return "The others no longer keep clear of " + aircraftText(m.Aircraft) + ", wherever that is."
	case telemetry.ActionNew:
		return fmt.Sprintf("Mission %s begins, idle, with nothing spent and the leader's configured request; what came before stays in "+
			"the ledger.", m.Mission)
	}
	return ""
}

// allLanded is whether every aircraft says that it is on the ground.
func allLanded(s *telemetry.Status) bool {
	return len(s.Aircraft) > 0 && !slices.ContainsFunc(s.Aircraft, func(a telemetry.StatusAircraft) bool {
		return a.Landed == nil || !*a.Landed
	})
}

// Brief is the consequence of `hold`, `return` and `stop` in a line, for a button: what ends comes first. For other
// commands it is [Request.Consequence].
func (r Request) Brief(s *telemetry.Status) string {
	m := r.Mission
	if s == nil || m == nil || len(m.Aircraft) > 0 {
		return r.Consequence(s)
	}
	_, led, others := situation(s)
	count := func(numbers []int) string { // the fleet's size decides, so that the line stays short
		if len(numbers) > 3 {
			return fmt.Sprintf("%d aircraft", len(numbers))
		}
		return strings.TrimPrefix(aircraftText(numbers), "aircraft ")
	}
	text, act := "Ends the mission: ", ""
	if Over(s) {
		text = ""
	}
	action := m.Action
	if action == telemetry.ActionHold && Over(s) { // it has autopilots hold
		action = telemetry.ActionStop
	}
	switch action {
	case telemetry.ActionHold:
		text, act = "", "wait where they are"
		if len(led) == 1 {
			act = "waits where it is"
		}
		if s.State != telemetry.StateClimbing {
			act += "; slots run on"
		}
	case telemetry.ActionReturn:
		act = "fly home"
		if len(led) == 1 {
			act = "flies home"
		}
	case telemetry.ActionStop:
		act = "stay up"
		if len(led) == 1 {
			act = "stays up"
		}
	default:
		return r.Consequence(s)
	}
	switch {
	case len(led) > 0:
		text += count(led) + " " + act
	case len(others) == 0:
		text += "nobody is in the air"
	default:
		text += "none obeys"
	}
	if len(others) > 0 {
		text += "; not " + count(others)
	}
	return text
}

// Refused is why the leader would refuse a command now, by its status; empty: it would not. What it says of launch and
// clear may hold for other aircraft than those named.
func (r Request) Refused(s *telemetry.Status) string {
	if s == nil || s.Refuses == nil {
		return ""
	}
	action := "budget" // a preference is a request, too
	if r.Mission != nil {
		action = r.Mission.Action
	}
	return *s.Refuses.Of(action)
}

// DangerText is a danger in a line.
func DangerText(d *telemetry.Danger) (text string) {
	if d.Aircraft > 0 {
		text = fmt.Sprintf("aircraft %d: ", d.Aircraft)
	}
	text += d.Text
	if d.Do != "" {
		text += ": " + d.Do
	}
	return telemetry.Printable(text)
}

// stopText is what `stop` does to the aircraft in the air that the leader commands, and to the others. One that lands or
// returns by its autopilot's mode goes on with that.
func stopText(s *telemetry.Status, led, others []int) (text string) {
	ofRole := func(role string) func(*telemetry.StatusAircraft) bool {
		return func(a *telemetry.StatusAircraft) bool { return roleOf(a) == role }
	}
	landing, rest := split(others, s, ofRole(roleLand))
	returning, rest := split(rest, s, ofRole(roleReturn))
	if len(led) > 0 || len(others) == 0 {
		text = sentence(led, "every aircraft in the air that is not landing", "stays in the air where it is, in its autopilot's Hold",
			"stay in the air where they are, in their autopilots' Hold") + ", until `return` or a pilot. "
	}
	if len(landing) > 0 {
		text += sentence(landing, "", "is landing, and goes on", "are landing, and go on") + ". "
	}
	if len(returning) > 0 {
		text += sentence(returning, "", "is returning, and goes on", "are returning, and go on") + ". "
	}
	return text + "The mission is over." + withPilots(rest)
}

// Over is whether no slot is flown any more.
func Over(s *telemetry.Status) bool {
	return s.State == telemetry.StateReturning || s.State == telemetry.StateDone || s.State == telemetry.StateStopped
}

const (
	fliesHome = "flies to where it took off and lands there"
	flyHome   = "fly to where they took off and land there"
)

// Roles of modes that decide who flies an aircraft, as in a status.
const (
	roleCommanded = "commanded"
	roleTakeoff   = "takeoff"
	roleHold      = "hold"
	roleReturn    = "return"
	roleLand      = "land"
)

// roleOf is what an aircraft's mode is for. A leader that does not say so flies PX4 alone.
func roleOf(a *telemetry.StatusAircraft) string {
	return cmp.Or(a.Role, map[string]string{
		"OFFBOARD": roleCommanded, "AUTO.TAKEOFF": roleTakeoff, "AUTO.LOITER": roleHold, "AUTO.RTL": roleReturn, "AUTO.LAND": roleLand,
	}[a.Mode])
}

// Roles of the aircraft in the air that the leader commands, or that no pilot has.
var (
	flightRoles = []string{roleCommanded, roleTakeoff}
	overRoles   = []string{roleHold, roleCommanded, roleTakeoff} // once no slot is flown any more
)

// situation has the numbers of all aircraft, of those in the air that the leader
// commands, and of the others in the air.
func situation(s *telemetry.Status) (all, led, others []int) {
	roles := flightRoles
	if Over(s) {
		roles = overRoles
	}
	for _, a := range s.Aircraft {
		role := roleOf(&a)
		all = append(all, a.Number)
		switch {
		case !inAir(a):
		case slices.Contains(roles, role), role == roleHold && a.Reason == "": // between two of the leader's modes
			led = append(led, a.Number)
		default:
			others = append(others, a.Number)
		}
	}
	return all, led, others
}

// split are those of the numbers whose aircraft match, and the rest.
func split(numbers []int, s *telemetry.Status, match func(*telemetry.StatusAircraft) bool) (matching, rest []int) {
	for _, a := range s.Aircraft {
		switch {
		case !slices.Contains(numbers, a.Number):
		case match(&a):
			matching = append(matching, a.Number)
		default:
			rest = append(rest, a.Number)
		}
	}
	return matching, rest
}

func withPilots(numbers []int) string {
	if len(numbers) == 0 {
		return ""
	}
	return " " + sentence(numbers, "", "is with its pilot or autopilot, and stays so", "are with their pilots or autopilots, and stay so") +
		"."
}

// inAir is whether an aircraft flies, by its last message.
func inAir(a telemetry.StatusAircraft) bool { return a.Landed != nil && !*a.Landed }

// sentence begins one about aircraft by their numbers, or about nobody by name.
func sentence(numbers []int, nobody, one, several string) string {
	switch len(numbers) {
	case 0:
		return upperFirst(nobody) + " " + one
	case 1:
		return upperFirst(aircraftText(numbers)) + " " + one
	}
	return upperFirst(aircraftText(numbers)) + " " + several
}

func upperFirst(text string) string { return strings.ToUpper(text[:1]) + text[1:] }

// aircraftText is "aircraft 1, 2 and 3".
func aircraftText(numbers []int) string {
	var list []string
	for _, n := range slices.Sorted(slices.Values(numbers)) {
		list = append(list, strconv.Itoa(n))
	}
	if n := len(list); n > 1 {
		list = append(list[:n-2], list[n-2]+" and "+list[n-1])
	}
	return "aircraft " + strings.Join(list, ", ")
}
