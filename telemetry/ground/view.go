package main

import (
	"fmt"
	"strings"
	"time"

	"prefdt/telemetry"
)

// view is what watch knows, and when it learned it. Rendering takes the time as
// an argument and changes nothing.
type view struct {
	fleet    string
	broker   bool      // connected
	since    time.Time // when that became so
	online   *bool     // what the leader or its will said last
	status   *telemetry.Status
	received time.Time
	retained bool // the status was published before we subscribed, we do not know when
	refused  uint64
	stale    time.Duration
	station  string // in our heartbeats; empty: none are sent
	colour   bool
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

// alarm is why nothing below it can be trusted to be current; empty if it can.
func (v *view) alarm(now time.Time) string {
	switch {
	case !v.broker:
		return "LINK LOST: the broker is away"
	case v.online == nil && now.Sub(v.since) <= v.stale: // what is retained is on its way
	case v.online == nil:
		return "NO LEADER was ever at this broker"
	case !*v.online:
		return "LINK LOST: the leader is offline"
	case v.status != nil && !v.retained && v.inFlight() && now.Sub(v.received) > v.stale:
		return fmt.Sprintf("LINK LOST: no status for %s", age(now.Sub(v.received)))
	}
	return ""
}

// inFlight tells whether silence is an alarm: between missions a status is merely
// old.
func (v *view) inFlight() bool {
	switch v.status.State {
	case telemetry.StateIdle, telemetry.StateDone, telemetry.StateStopped:
		return false
	}
	return true
}

// lines is the whole display.
func (v *view) lines(now time.Time) []string {
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
		out = append(out, v.paint(yellow, fmt.Sprintf("SATURATED: the budget is below the floor of %s", joules(s.FloorJ))))
	}
	label := "status " + age(now.Sub(v.received)) + " old"
	if v.retained {
		label = "STALE: kept by the broker, age unknown"
	} else if alarm != "" || now.Sub(v.received) > v.stale {
		label = "STALE: " + label
	}
	body := []string{
		fmt.Sprintf("fleet %s   %s   slot %s of %d   mission %.0f s   %s", v.fleet, s.State, slotText(s.Slot), s.Slots, s.MissionS, label),
		fmt.Sprintf("  request    %s   setting %.3f", request(s), s.Setting),
		fmt.Sprintf("  energy     spent %s   remaining %s   predicted end %s   floor %s   transit %s   from %s",
			joules(s.SpentJ), maybeJ(s.RemainingJ), maybeJ(s.PredictedEndJ), joules(s.FloorJ), joules(s.TransitJ), s.EnergySource),
		fmt.Sprintf("  slot       users heard %d   missed slots %d   decision %.2f ms", s.UsersHeard, s.MissedSlots, s.DecisionMS),
		"  crew       " + v.crew(),
	}
	stale := strings.HasPrefix(label, "STALE")
	for i, line := range body {
		if stale {
			body[i] = v.paint(grey, line)
		}
	}
	out = append(out, body...)
	for _, a := range s.Aircraft {
		line, old := aircraft(a, now.Sub(v.received), v.stale)
		if stale || old {
			line = v.paint(grey, line)
		}
		out = append(out, line)
		if a.Reason != "" {
			out = append(out, v.paint(yellow, "             "+printable(a.Reason)))
		}
	}
	if v.refused > 0 {
		out = append(out, v.paint(yellow, fmt.Sprintf("  %d malformed messages ignored", v.refused)))
	}
	return out
}

// aircraft is one aircraft's line, and whether it was not heard lately.
func aircraft(a telemetry.StatusAircraft, since, stale time.Duration) (line string, old bool) {
	heard := "NEVER HEARD"
	if a.AgeS != nil {
		total := time.Duration(*a.AgeS*float64(time.Second)) + since
		if old = total > stale; old {
			heard = "LINK LOST, heard " + age(total) + " ago"
		} else {
			heard = "heard " + age(total) + " ago"
		}
	} else {
		old = true
	}
	mode := a.Mode
	if mode == "" {
		mode = "-"
	}
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
		a.Number, a.SystemID, printable(mode), position, speed, battery, joules(a.SpentJ), a.EnergySource, heard), old
}

// line is the display of one slot where stdout is no terminal.
func (v *view) line(now time.Time) string {
	s := v.status
	text := fmt.Sprintf("slot %s/%d %s  %s  setting %.3f  spent %s  remaining %s  predicted end %s  floor %s  users %d  missed %d  decision %.2f ms  %s",
		slotText(s.Slot), s.Slots, s.State, request(s), s.Setting, joules(s.SpentJ), maybeJ(s.RemainingJ), maybeJ(s.PredictedEndJ),
		joules(s.FloorJ), s.UsersHeard, s.MissedSlots, s.DecisionMS, s.EnergySource)
	if s.Saturated {
		text += "  SATURATED"
	}
	for _, a := range s.Aircraft {
		if _, old := aircraft(a, now.Sub(v.received), v.stale); old {
			text += fmt.Sprintf("  aircraft %d LINK LOST", a.Number)
		}
		if a.Reason != "" {
			text += fmt.Sprintf("  aircraft %d: %s", a.Number, printable(a.Reason))
		}
	}
	if s.LastCommand != nil {
		text += "  " + lastCommand(s.LastCommand)
	}
	if v.retained {
		text += "  STALE: kept by the broker, age unknown"
	}
	return text
}

// crew is what the station says and what the leader did last.
func (v *view) crew() string {
	text := "no heartbeats sent"
	if v.station != "" {
		text = "heartbeats as " + v.station
	}
	if c := v.status.LastCommand; c != nil {
		text += "   " + lastCommand(c)
	}
	return text
}

func lastCommand(c *telemetry.LastCommand) string {
	by := ""
	if c.Key != "" {
		by = " by " + printable(c.Key)
	}
	return fmt.Sprintf("last command %s%s from slot %d: %s", c.ID, by, c.Slot, printable(c.What))
}

func slotText(slot int) string {
	if slot < 0 {
		return "-"
	}
	return fmt.Sprint(slot)
}

func request(s *telemetry.Status) string {
	if s.BudgetJ == nil {
		return "preference"
	}
	mode := ""
	if s.Mode != nil {
		mode = " (" + *s.Mode + ")"
	}
	return "budget " + joules(*s.BudgetJ) + mode
}

func maybeJ(j *float64) string {
	if j == nil {
		return "-"
	}
	return joules(*j)
}

// age is a duration as the crew reads it.
func age(d time.Duration) string {
	switch {
	case d < 10*time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < 2*time.Minute:
		return fmt.Sprintf("%.0f s", d.Seconds())
	}
	return fmt.Sprintf("%.0f min", d.Minutes())
}

// printable keeps a stranger's text from driving the terminal.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r < 0x20 || r >= 0x7f {
			return '?'
		}
		return r
	}, text)
}
