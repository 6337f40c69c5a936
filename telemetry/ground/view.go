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
	fleet           string
	brokerConnected bool
	brokerChangedAt time.Time // connected or lost since
	leaderOnline    *bool     // last published by the leader or its will; nil: nothing
	status          *telemetry.Status
	statusReceived  time.Time
	statusRetained  bool // the status was published before the subscription, at an unknown time
	refusedMessages uint64
	staleAfter      time.Duration
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
	switch {
	case !v.brokerConnected:
		return "LINK LOST: the broker is unreachable"
	case v.leaderOnline == nil && now.Sub(v.brokerChangedAt) <= v.staleAfter: // retained messages are on their way
	case v.leaderOnline == nil:
		return "NO LEADER was ever at this broker"
	case !*v.leaderOnline:
		return "LINK LOST: the leader is offline"
	case v.status != nil && !v.statusRetained && telemetry.UnderWay(v.status.State) && now.Sub(v.statusReceived) > v.staleAfter:
		return fmt.Sprintf("LINK LOST: no status for %s", formatAge(now.Sub(v.statusReceived)))
	}
	return ""
}

func (v *view) render(now time.Time) []string {
	var out []string
	alarm := v.alarm(now)
	if alarm != "" {
		out = append(out, v.paint(red, alarm))
	}
	s := v.status
	if s == nil {
		return append(out, fmt.Sprintf("fleet %s   no status yet", v.fleet))
	}
	if s.Saturated {
		out = append(out, v.paint(yellow, fmt.Sprintf("SATURATED: the budget is below the floor of %s", command.Joules(s.FloorJ))))
	}
	label := "status " + formatAge(now.Sub(v.statusReceived)) + " old"
	if v.statusRetained {
		label = "STALE: retained by the broker, age unknown"
	} else if alarm != "" || now.Sub(v.statusReceived) > v.staleAfter {
		label = "STALE: " + label
	}
	body := []string{
		fmt.Sprintf("fleet %s   %s   slot %s of %d   mission %.0f s   %s", v.fleet, s.State, slotText(s.Slot), s.Slots, s.MissionS, label),
		fmt.Sprintf("  request    %s   setting %.3f", requestText(s), s.Setting),
		fmt.Sprintf("  energy     spent %s   remaining %s   predicted end %s   floor %s   transit %s   from %s",
			command.Joules(s.SpentJ), joulesOrDash(s.RemainingJ), joulesOrDash(s.PredictedEndJ), command.Joules(s.FloorJ), command.Joules(s.TransitJ), s.EnergySource),
		fmt.Sprintf("  slot       users reported %d   missed slots %d   decision %.2f ms", s.UsersHeard, s.MissedSlots, s.DecisionMS),
		"  crew       " + v.crewLine(),
	}
	stale := strings.HasPrefix(label, "STALE")
	for i, line := range body {
		if stale {
			body[i] = v.paint(grey, line)
		}
	}
	out = append(out, body...)
	for _, a := range s.Aircraft {
		line, old := aircraftLine(a, now.Sub(v.statusReceived), v.staleAfter)
		if stale || old {
			line = v.paint(grey, line)
		}
		out = append(out, line)
		if a.Reason != "" {
			out = append(out, v.paint(yellow, "             "+telemetry.Printable(a.Reason)))
		}
	}
	if v.refusedMessages > 0 {
		out = append(out, v.paint(yellow, fmt.Sprintf("  %d malformed messages ignored", v.refusedMessages)))
	}
	return out
}

// aircraftLine is one aircraft's line, and whether its last message is old.
func aircraftLine(a telemetry.StatusAircraft, since, stale time.Duration) (line string, old bool) {
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
		position = fmt.Sprintf("%.0f %.0f up %.0f m", p[0], p[1], p[2])
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
	return fmt.Sprintf("  aircraft %d (system %d)   %s   %s   %s   battery %s   spent %s from %s   %s",
		a.Number, a.SystemID, telemetry.Printable(mode), position, speed, battery, command.Joules(a.SpentJ), a.EnergySource, contact), old
}

// slotLine is the display of one slot if stdout is not a terminal.
func (v *view) slotLine(now time.Time) string {
	s := v.status
	text := fmt.Sprintf("slot %s/%d %s  %s  setting %.3f  spent %s  remaining %s  predicted end %s  floor %s  users %d  missed %d  decision %.2f ms  %s",
		slotText(s.Slot), s.Slots, s.State, requestText(s), s.Setting, command.Joules(s.SpentJ), joulesOrDash(s.RemainingJ), joulesOrDash(s.PredictedEndJ),
		command.Joules(s.FloorJ), s.UsersHeard, s.MissedSlots, s.DecisionMS, s.EnergySource)
	if s.Saturated {
		text += "  SATURATED"
	}
	for _, a := range s.Aircraft {
		if _, old := aircraftLine(a, now.Sub(v.statusReceived), v.staleAfter); old {
			text += fmt.Sprintf("  aircraft %d LINK LOST", a.Number)
		}
		if a.Reason != "" {
			text += fmt.Sprintf("  aircraft %d: %s", a.Number, telemetry.Printable(a.Reason))
		}
	}
	if s.LastCommand != nil {
		text += "  " + lastCommandText(s.LastCommand)
	}
	if v.statusRetained {
		text += "  STALE: retained by the broker, age unknown"
	}
	return text
}

// crewLine is the name in the station's heartbeats and the leader's last command.
func (v *view) crewLine() string {
	text := "no heartbeats sent"
	if v.station != "" {
		text = "heartbeats as " + v.station
	}
	if c := v.status.LastCommand; c != nil {
		text += "   " + lastCommandText(c)
	}
	return text
}

func lastCommandText(c *telemetry.LastCommand) string {
	by := ""
	if c.Key != "" {
		by = " by " + telemetry.Printable(c.Key)
	}
	return fmt.Sprintf("last command %s%s from slot %d: %s", c.ID, by, c.Slot, telemetry.Printable(c.What))
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
	return "budget " + command.Joules(*s.BudgetJ) + mode
}

func joulesOrDash(j *float64) string {
	if j == nil {
		return "-"
	}
	return command.Joules(*j)
}

func formatAge(d time.Duration) string {
	switch {
	case d < 10*time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < 2*time.Minute:
		return fmt.Sprintf("%.0f s", d.Seconds())
	}
	return fmt.Sprintf("%.0f min", d.Minutes())
}
