package main

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"prefdt/telemetry"
	"prefdt/telemetry/command"
)

// view is the state that watch displays, with the times at which it was received.
// Rendering takes the time as an argument and changes nothing.
type view struct {
	command.Link
	fleet           string
	leader          *command.Leader
	refusedMessages uint64
	station         string // name in the heartbeats; empty: none are sent
	colour          bool
}

// The terminal's colours.
const (
	red    = "31;1"
	yellow = "33;1"
	grey   = "90"
)

func (v *view) paint(code, text string) string {
	if !v.colour {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// alarm is why the display may be out of date; empty if it is current.
func (v *view) alarm(now time.Time) string {
	switch why := v.Lost(now); why {
	case "", command.NoLeader:
		return why
	case command.NoStatus:
		return "LINK LOST: no status for " + formatAge(v.Age(now))
	default:
		return "LINK LOST: " + why
	}
}

// render is the display in so many columns and rows; 0: any number.
func (v *view) render(now time.Time, columns, rows int) (out []string) {
	for _, p := range v.paragraphs(now) {
		for _, line := range p.lines(columns) {
			if p.colour != "" {
				line = v.paint(p.colour, line)
			}
			out = append(out, line)
		}
	}
	if rows > 1 && len(out) > rows-1 { // the last row keeps the cursor
		out = append(out[:rows-2], fmt.Sprintf("%d more lines", len(out)-(rows-2)))
	}
	return out
}

// paragraphs are the lines of the display: alarms first.
func (v *view) paragraphs(now time.Time) (out []paragraph) {
	alarm := v.alarm(now)
	if alarm != "" {
		out = append(out, paragraph{parts: []string{alarm}, colour: red})
	}
	s := v.Status
	if s == nil {
		return append(out, paragraph{parts: []string{"fleet " + v.fleet, "no status yet"}})
	}
	label := "status " + formatAge(v.Age(now)) + " old"
	if v.Retained {
		label = "STALE: retained by the broker, age unknown"
	} else if alarm != "" {
		label = "STALE: " + label
	}
	stale := strings.HasPrefix(label, "STALE")
	for i := range s.Dangers {
		colour := yellow
		if s.Dangers[i].Gravity >= telemetry.MustAct {
			colour = red
		}
		out = append(out, paragraph{parts: []string{command.DangerText(&s.Dangers[i])}, colour: colour})
	}
	grey := staleColour(stale)
	add := func(label string, parts ...string) { out = append(out, paragraph{label, parts, grey}) }
	add("", append([]string{"fleet " + v.fleet, s.State, fmt.Sprintf("slot %s of %d", slotText(s.Slot), s.Slots),
		fmt.Sprintf("mission %.0f s%s", s.MissionS, timeLeft(s))}, label)...)
	add("  request    ", requestText(s), settingText(s))
	add("  energy     ", append(energyParts(s), "from "+s.EnergySource)...)
	if s.CoveredUntilSlot != nil {
		add("  duty       ", dutyParts(s)...)
	}
	add("  slot       ", fmt.Sprintf("users reported %d", s.UsersHeard), fmt.Sprintf("missed slots %d", s.MissedSlots),
		fmt.Sprintf("decision %.2f ms", s.DecisionMS))
	add("  crew       ", v.crewParts(now)...)
	for _, a := range s.Aircraft {
		parts, old := aircraftParts(a, s.Scope, v.Age(now), v.StaleAfter)
		out = append(out, paragraph{"  ", parts, cmp.Or(grey, staleColour(old))})
	}
	if v.refusedMessages > 0 {
		out = append(out, paragraph{"  ", []string{fmt.Sprintf("%d malformed messages ignored", v.refusedMessages)}, yellow})
	}
	return out
}

// energyParts are the joules of the fleet, with what they count.
func energyParts(s *telemetry.Status) []string {
	return []string{command.ScopeText(s.Scope) + ": spent " + kilojoules(s.SpentJ), "remaining " + kilojoulesOrDash(s.RemainingJ),
		"predicted end " + kilojoulesOrDash(s.PredictedEndJ), "floor " + kilojoules(s.FloorJ),
		"transit (" + command.TransitText(s.Scope) + ") " + kilojoules(s.TransitJ)}
}

func staleColour(stale bool) string {
	if stale {
		return grey
	}
	return ""
}

// timeLeft is the mission seconds that are left to fly, of a mission that is not over.
func timeLeft(s *telemetry.Status) string {
	if command.Over(s) {
		return ""
	}
	return fmt.Sprintf(", %d s left", max(0, s.Slots-s.Slot-1))
}

// aircraftParts is one aircraft's line, with joules of a scope, and whether its last message is old.
func aircraftParts(a telemetry.StatusAircraft, scope string, since, stale time.Duration) (parts []string, old bool) {
	contact, old := "NO MESSAGE YET", true
	if a.AgeS != nil {
		age := time.Duration(*a.AgeS*float64(time.Second)) + since
		contact = "last message " + formatAge(age) + " ago"
		if old = age > stale; old {
			contact = "LINK LOST, " + contact
		}
	}
	mode := cmp.Or(a.Mode, "-")
	position, speed, battery := "-", "-", "-"
	if p := a.PositionM; p != nil {
		position = fmt.Sprintf("%.0f m east, %.0f m north, %.0f m up", p[0], p[1], p[2])
	}
	if a.SpeedMPS != nil {
		speed = fmt.Sprintf("%.1f m/s", *a.SpeedMPS)
	}
	if a.Battery != nil {
		battery = fmt.Sprintf("%.0f %%", *a.Battery*100)
	}
	if a.Landed != nil && *a.Landed {
		mode += " landed"
	}
	parts = []string{fmt.Sprintf("aircraft %d (system %d)", a.Number, a.SystemID), telemetry.Printable(mode), position, speed,
		"battery " + battery,
		"spent " + kilojoules(a.SpentJ) + " " + command.ScopeText(scope), "from " + a.EnergySource}
	if a.UsableJ != nil && a.ReserveJ != nil && a.HomeJ != nil && a.LeftAtTouchdownJ != nil {
		duty := ""
		if a.Duty != "" {
			duty = a.Duty + ", "
		}
		parts = append(parts, fmt.Sprintf("%spack %s to a reserve of %s, way home %s, lands with %s",
			duty, kilojoules(*a.UsableJ), kilojoules(*a.ReserveJ), kilojoules(*a.HomeJ), kilojoules(*a.LeftAtTouchdownJ)))
	}
	return append(parts, contact), old
}

// coveredText is until when as many are in the air as the budget asks for.
func coveredText(s *telemetry.Status) string {
	if until := *s.CoveredUntilSlot; until > s.Slot || until == s.Slots-1 {
		return fmt.Sprintf("covered until slot %d", until)
	}
	return "NOT COVERED: too few in the air"
}

// dutyParts are who is in the air until when, by the plan.
func dutyParts(s *telemetry.Status) []string {
	parts := []string{coveredText(s)}
	for _, a := range s.Aircraft {
		switch until := a.FliesUntilSlot; {
		case a.Duty == telemetry.DutyLeaving:
			parts = append(parts, fmt.Sprintf("%d is on its way home", a.Number))
		case until != nil && *until < s.Slots-1:
			parts = append(parts, fmt.Sprintf("%d leaves for home in %d s", a.Number, max(*until-s.Slot, 0)))
		}
	}
	return parts
}

// slotLine is the display of one slot if stdout is not a terminal.
func (v *view) slotLine(now time.Time) string {
	s := v.Status
	text := fmt.Sprintf("slot %s/%d %s  %s  setting %.3f  %s  users %d  missed %d  decision %.2f ms  %s",
		slotText(s.Slot), s.Slots, s.State, requestText(s), s.Setting, strings.Join(energyParts(s), "  "), s.UsersHeard, s.MissedSlots,
		s.DecisionMS, s.EnergySource)
	for i := range s.Dangers {
		text += "  " + command.DangerText(&s.Dangers[i])
	}
	if s.LastCommand != nil {
		text += "  " + lastCommandText(s)
	}
	if v.Retained {
		text += "  STALE: retained by the broker, age unknown"
	}
	return text
}

// aircraftState is what an aircraft does, and why it does not fly as ordered.
func (v *view) aircraftState(a *telemetry.StatusAircraft) string {
	text := fmt.Sprintf("aircraft %d: %s", a.Number, cmp.Or(telemetry.Printable(a.Mode), "no mode yet"))
	switch {
	case a.Landed == nil:
	case *a.Landed:
		text += ", landed"
	default:
		text += ", in the air"
	}
	if a.Duty != "" && !(a.Duty == telemetry.DutyLeaving && a.Landed != nil && *a.Landed) { // it is still to disarm
		text += ", " + a.Duty
	}
	if a.Reason != "" {
		text += ": " + telemetry.Printable(a.Reason)
	}
	return text
}

// crewParts are the name in the station's heartbeats and the leader's last command.
func (v *view) crewParts(now time.Time) []string {
	station := "no heartbeats sent"
	if v.station != "" {
		station = "heartbeats as " + v.station
	}
	parts := []string{station, "the leader receives no heartbeats"}
	if age := v.Status.CrewAgeS; age != nil {
		parts[1] = "last one received by the leader " + formatAge(time.Duration(*age*float64(time.Second))+v.Age(now)) + " ago"
	}
	if v.Status.LastCommand != nil {
		parts = append(parts, lastCommandText(v.Status))
	}
	return parts
}

// lastCommandText is the last command, with its age while slots are counted.
func lastCommandText(s *telemetry.Status) string {
	c := s.LastCommand
	by := "unsigned"
	if c.Key != "" {
		by = "by " + telemetry.Printable(c.Key)
	}
	when := ""
	if ago := s.Slot + 1 - c.Slot; ago > 0 && !command.Over(s) {
		when = fmt.Sprintf(", %d s ago", ago)
	}
	return fmt.Sprintf("last command: %s, from slot %d%s, %s, %s", telemetry.Printable(c.What), c.Slot, when, by, c.ID)
}

func slotText(slot int) string {
	if slot < 0 {
		return "-"
	}
	return fmt.Sprint(slot)
}

func requestText(s *telemetry.Status) string {
	if s.BudgetJ == nil {
		return "preference"
	}
	mode := ""
	if s.Mode != nil {
		mode = " (" + *s.Mode + ")"
	}
	return "budget " + kilojoules(*s.BudgetJ) + mode
}

// settingText has why a target may not be reached from below.
func settingText(s *telemetry.Status) string {
	text := fmt.Sprintf("setting %.3f", s.Setting)
	if b, end := s.BudgetJ, s.PredictedEndJ; s.Setting == 0 && b != nil && end != nil && s.Mode != nil && *s.Mode == telemetry.ModeTarget &&
		*end < 0.99**b {
		text += fmt.Sprintf(": even least delay takes only %s", kilojoules(*end))
	}
	return text
}

func kilojoulesOrDash(j *float64) string {
	if j == nil {
		return "-"
	}
	return kilojoules(*j)
}

// kilojoules is an energy as the display has it, with as many places at all times.
func kilojoules(energyJ float64) string { return fmt.Sprintf("%.1f kJ", energyJ/1000) }

func formatAge(d time.Duration) string {
	switch {
	case d < 10*time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < 2*time.Minute:
		return fmt.Sprintf("%.0f s", d.Seconds())
	}
	return fmt.Sprintf("%.0f min", d.Minutes())
}
