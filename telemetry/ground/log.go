package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"prefdt/configs/cli"
	"prefdt/telemetry"
	"prefdt/telemetry/command"
	"prefdt/telemetry/flightlog"
)

// formats are the outputs of ground log, by flag.
var formats = []struct {
	name, usage string
	write       func(w io.Writer, flights []flightlog.Flight) error
}{
	{"mcap", "MCAP `file` to write, of one mission, for Lichtblick, Foxglove and PlotJuggler", writeMCAP},
	{"csv", "CSV `file` to write, a line for each slot and aircraft", flightlog.WriteCSV},
	{"json", "JSON `file` to write, an object on a line for each slot", flightlog.WriteJSON},
}

func writeMCAP(w io.Writer, flights []flightlog.Flight) error {
	return flightlog.WriteMCAP(w, &flights[0])
}

// logOfFlights writes the record of missions in other formats, and without any says what it has.
func logOfFlights(t *tool) error {
	mission := t.Flags.String("mission", "", "only this mission")
	paths := make([]string, len(formats))
	for i, f := range formats {
		t.Flags.StringVar(&paths[i], f.name, "", f.usage)
	}
	words, err := t.Parse("", 1)
	if err != nil {
		return err
	}
	if len(words) == 0 {
		return cli.BadInputf("want a mission's file, or what leader log export -json wrote")
	}
	flights, err := readFlights(words[0], *mission)
	if err != nil {
		return cli.BadInput(err)
	}
	if paths[0] != "" && len(flights) > 1 {
		return cli.BadInputf("-mcap: %s has %d missions; name one by -mission", words[0], len(flights))
	}
	for i, path := range paths {
		if path == "" {
			continue
		}
		if err := writeFile(path, func(w io.Writer) error { return formats[i].write(w, flights) }); err != nil {
			return err
		}
		fmt.Fprintln(t.Stdout, "wrote", path)
	}
	if slices.ContainsFunc(paths, func(path string) bool { return path != "" }) {
		return nil
	}
	for i := range flights {
		describe(t.Stdout, &flights[i])
	}
	return nil
}

// readFlights reads the missions of a file that have slots, all or one.
func readFlights(path, mission string) ([]flightlog.Flight, error) {
	flights, err := flightlog.ReadFile(path)
	if err != nil {
		return nil, err
	}
	flights = slices.DeleteFunc(flights, func(f flightlog.Flight) bool { return len(f.Slots) == 0 })
	if len(flights) == 0 {
		return nil, fmt.Errorf("%s has no slot of any mission", path)
	}
	var ids []string
	for i := range flights {
		if ids = append(ids, flights[i].Mission); flights[i].Mission == mission {
			return flights[i : i+1], nil
		}
	}
	if mission != "" {
		return nil, fmt.Errorf("%s has no slot of a mission %q; it has %s", path, mission, strings.Join(ids, ", "))
	}
	return flights, nil
}

// writeFile writes a file whole, or leaves none.
func writeFile(path string, write func(io.Writer) error) error {
	part := path + ".part"
	os.Remove(part)                                                       // left by one that was ended
	f, err := os.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666) // never through a link that is there
	if err != nil {
		return err
	}
	defer os.Remove(part) // in vain once it is renamed
	if err := errors.Join(write(f), f.Close()); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return os.Rename(part, path)
}

func describe(w io.Writer, f *flightlog.Flight) {
	first, last := f.Slots[0], f.Slots[len(f.Slots)-1]
	var sum flightlog.Drawn
	for _, a := range last.Aircraft {
		sum.SlotsJ += a.SpentJ
	}
	for _, d := range f.Drawn {
		sum.TransitJ += d.TransitJ
	}
	fmt.Fprintf(w, "%s: %s, slots %d to %d, from %s, %d aircraft, %s, %d commands\n", f.Mission, telemetry.Printable(f.State), first.Slot,
		last.Slot,
		time.UnixMilli(first.UnixMS).UTC().Format(time.RFC3339), len(last.Aircraft), drawnText(sum, f.Drawn != nil), len(f.Commands))
	if last.BudgetJ != nil {
		fmt.Fprintf(w, "   budget of %s %s\n", command.Kilojoules(*last.BudgetJ), command.ScopeText(last.Scope))
	}
	for _, line := range append(withoutOrder(f), told(f)...) {
		fmt.Fprintln(w, "  ", line)
	}
	for i, a := range last.Aircraft {
		d, text := flightlog.Drawn{SlotsJ: a.SpentJ}, ""
		if slot := leftSlot(f, i); slot > 0 {
			text = fmt.Sprintf("; left for home from slot %d on", slot)
		}
		if why := sentHome(f, i); why != "" {
			text += ", " + why
		}
		if i < len(f.Drawn) {
			d.TransitJ = f.Drawn[i].TransitJ
		}
		if a.ReserveJ != nil && a.LeftAtTouchdownJ != nil {
			text += fmt.Sprintf("; a reserve of %s, ", command.Kilojoules(*a.ReserveJ))
			if landed, ok := landedWith(f, i); ok {
				text += "landed with " + command.Kilojoules(landed)
			} else {
				text += fmt.Sprintf("lands with %s by the plan of slot %d", command.Kilojoules(*a.LeftAtTouchdownJ), last.Slot)
			}
		}
		fmt.Fprintf(w, "   aircraft %d: %s%s\n", a.Number, drawnText(d, i < len(f.Drawn)), text)
	}
	for _, c := range f.Commands {
		fmt.Fprintln(w, "  ", c.Answer())
	}
}

// leftSlot is the slot from which on aircraft i, from 0, was on its way home while the mission went on; 0: it stayed.
func leftSlot(f *flightlog.Flight, i int) int {
	for _, x := range f.Slots {
		if s := x.Status; s != nil && !command.Over(s) && i < len(s.Aircraft) && s.Aircraft[i].Duty == telemetry.DutyLeaving {
			return x.Slot + 1 // what a settlement tells is of the slot that opens
		}
	}
	return 0
}

// sentHome is why the leader sent aircraft i, from 0, home; empty: it did not.
func sentHome(f *flightlog.Flight, i int) string {
	for _, x := range f.Slots {
		if s := x.Status; s != nil && i < len(s.Aircraft) && s.Aircraft[i].Duty == telemetry.DutyLeaving && s.Aircraft[i].Reason != "" {
			return s.Aircraft[i].Reason
		}
	}
	return ""
}

// withoutOrder has a line for each hold and return of the leader's own, with its reason.
func withoutOrder(f *flightlog.Flight) (lines []string) {
	last := ""
	for _, x := range f.Slots {
		if x.Status == nil {
			continue
		}
		if s := x.Status; s.Reason != "" && s.State+s.Reason != last {
			lines = append(lines, fmt.Sprintf("%s from slot %d on: %s", s.State, x.Slot+1, s.Reason))
		}
		last = x.Status.State + x.Status.Reason
	}
	if n := len(f.Slots); f.Reason != "" && (f.Slots[n-1].Status == nil || f.Slots[n-1].Status.Reason != f.Reason) {
		lines = append(lines, fmt.Sprintf("returned after slot %d: %s", f.Slots[n-1].Slot, f.Reason))
	}
	return lines
}

// told has a line for each danger of an aircraft that the crew was told of, with its slots, and for slots that were missed.
func told(f *flightlog.Flight) (lines []string) {
	type span struct {
		from, to int
		text     string
	}
	var spans []span
	at := map[string]int{} // the index of one by what it was, as long as it lasts
	add := func(key string, slot int, text string) {
		if i, known := at[key]; known && spans[i].to >= slot-2 { // a slot between may have been missed
			spans[i].to = slot
			return
		}
		at[key] = len(spans)
		spans = append(spans, span{slot, slot, text})
	}
	missed := 0
	for _, x := range f.Slots {
		if x.Status == nil {
			continue
		}
		if n := x.Status.MissedSlots - missed; n > 0 {
			missed += n
			add(fmt.Sprint("missed", missed), x.Slot, fmt.Sprintf("%d missed until then", n))
		}
		for _, d := range x.Status.Dangers {
			if d.Aircraft > 0 && d.Gravity > 4 { // what comes by the plan, and what stands on the ground, is no event
				add(fmt.Sprint(d.Aircraft, d.Gravity, d.Do), x.Slot, fmt.Sprintf("aircraft %d: %s", d.Aircraft, d.Text))
			}
		}
	}
	for _, s := range spans {
		slots := fmt.Sprintf("slot %d", s.from)
		if s.to > s.from {
			slots = fmt.Sprintf("slots %d to %d", s.from, s.to)
		}
		lines = append(lines, fmt.Sprintf("%s: %s", slots, telemetry.Printable(s.text)))
	}
	return lines
}

// landedWith is what an aircraft of a mission that is over had left of its pack at touchdown: what it had in the
// last slot, less what it drew since. Not ok: it may be in the air still, or joules were counted in slots alone.
func landedWith(f *flightlog.Flight, i int) (leftJ float64, ok bool) {
	last := f.Slots[len(f.Slots)-1]
	a := &last.Aircraft[i]
	if f.State != telemetry.StateDone || i >= len(f.Drawn) || len(f.Drawn[i].Way) > 0 || a.Reason != "" && sentHome(f, i) != a.Reason ||
		a.UsableJ == nil || last.Scope != telemetry.ScopeLanded {
		return 0, false
	}
	d := &f.Drawn[i]
	return max(*a.UsableJ-max(d.SlotsJ+d.TransitJ-*a.DrawnJ, 0), 0), true
}

// drawnText is what was drawn in the slots and, where that is recorded, outside them and from take-off on.
func drawnText(d flightlog.Drawn, whole bool) string {
	text := command.Kilojoules(d.SlotsJ) + " in slots"
	if whole {
		text += fmt.Sprintf(" and %s in transit: %s to touchdown", command.Kilojoules(d.TransitJ), command.Kilojoules(d.SlotsJ+d.TransitJ))
	}
	return text
}
