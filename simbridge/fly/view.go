package fly

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"

	"prefdt/simbridge/report"
	"prefdt/telemetry"
	"prefdt/telemetry/command"
)

// view shows the flight: on a terminal a few lines that are redrawn in place,
// elsewhere a line every ten slots.
type view struct {
	out      io.Writer
	terminal bool
	fd       int // of the terminal

	mutex      sync.Mutex
	drawnLines int // lines of the last drawing, to go back over
	lastSlot   int
	drawnAt    time.Time
}

const (
	redrawInterval = 100 * time.Millisecond
	plainLineSlots = 10 // slots
)

func newView(out io.Writer) *view {
	v := &view{out: out, lastSlot: -1}
	if f, ok := out.(*os.File); ok {
		v.fd = int(f.Fd())
		v.terminal = term.IsTerminal(v.fd)
	}
	return v
}

// printLine prints a line above the drawing.
func (v *view) printLine(text string) {
	v.mutex.Lock()
	defer v.mutex.Unlock()
	v.clear()
	fmt.Fprintln(v.out, text)
}

// leaveDrawing leaves the last drawing where it is.
func (v *view) leaveDrawing() {
	v.mutex.Lock()
	defer v.mutex.Unlock()
	v.drawnLines = 0
}

func (v *view) clear() {
	if v.drawnLines > 0 {
		fmt.Fprintf(v.out, "\x1b[%dA\x1b[J", v.drawnLines)
		v.drawnLines = 0
	}
}

// draw shows the panel on a terminal, or the line elsewhere when it is due.
func (v *view) draw(slot int, line string, panel func() []string) {
	v.mutex.Lock()
	defer v.mutex.Unlock()
	if !v.terminal {
		if slot/plainLineSlots != v.lastSlot/plainLineSlots || v.lastSlot < 0 && slot >= 0 {
			v.lastSlot = slot
			fmt.Fprintln(v.out, line)
		}
		return
	}
	if time.Since(v.drawnAt) < redrawInterval {
		return
	}
	v.drawnAt = time.Now()
	lines := panel()
	if width, _, err := term.GetSize(v.fd); err == nil && width > 0 {
		for i := range lines { // a line that wraps could not be drawn over
			lines[i] = lines[i][:min(len(lines[i]), width-1)]
		}
	}
	v.clear()
	fmt.Fprintln(v.out, strings.Join(lines, "\n"))
	v.drawnLines = len(lines)
}

// showStatus draws the flight as it stands.
func (f *flight) showStatus(s telemetry.Status) {
	if s.Slots == 0 {
		return
	}
	slot, number, price := max(s.Slot, -1), "-", twoDigits(1000*f.observer.beacon().Offer.PriceSPerJ)
	if slot >= 0 {
		number = strconv.Itoa(slot)
	}
	scope, end := command.ScopeText(s.Scope), "-"
	budget := " kJ " + scope + ", no budget"
	if s.BudgetJ != nil {
		budget = fmt.Sprintf(" of %s kJ %s", kilojoules(*s.BudgetJ), scope)
	}
	if s.PredictedEndJ != nil {
		end = kilojoules(*s.PredictedEndJ)
	}
	spentJ := f.fleet.spentJ(s.Slots, f.observer.inTransit)
	if s.Scope == telemetry.ScopeLanded { // its total runs from take-off to touchdown
		spentJ = 0
		for _, a := range f.fleet.vehicles {
			spentJ += a.State().Spent.J()
		}
	}
	spent := kilojoules(spentJ)
	f.view.draw(slot, fmt.Sprintf("slot %3s of %d  %-9s  spent %s%s, leader %s, predicts %s  reports %d  price %s s/kJ",
		number, s.Slots, s.State, spent, budget, kilojoules(s.SpentJ), end, s.UsersHeard, price), func() []string {
		const width = 40
		done := width * (slot + 1) / s.Slots
		lines := []string{
			fmt.Sprintf("slot %3s of %d  [%s%s]  %s", number, s.Slots, strings.Repeat("#", done), strings.Repeat(".", width-done), s.State),
			fmt.Sprintf("energy   spent %s%s   leader counts %s, predicts %s, floor %s   from %s",
				spent, budget, kilojoules(s.SpentJ), end, kilojoules(s.FloorJ), s.EnergySource),
			fmt.Sprintf("users    %d reported   price %s s/kJ   decision %.2f ms   missed slots %d", s.UsersHeard, price, s.DecisionMS,
				s.MissedSlots),
		}
		for i, a := range f.fleet.vehicles {
			state := a.State()
			lines = append(lines, fmt.Sprintf("aircraft %d  %-12s east %4.0f north %4.0f up %3.0f m   %4.1f m/s   %s kJ since take-off",
				i+1, state.ModeName, state.Position.EastM, state.Position.NorthM, state.Position.UpM, state.SpeedMPS(),
				kilojoules(state.Spent.J())))
		}
		return lines
	})
}

func kilojoules(joules float64) string { return fmt.Sprintf("%.2f", joules/1000) }

// twoDigits prints two significant digits, without an exponent.
func twoDigits(x float64) string {
	if x >= 100 {
		return fmt.Sprintf("%.0f", x)
	}
	return fmt.Sprintf("%.2g", x)
}

// printSummary prints the figures of a flight that a crew asks for; summary.json has all.
func printSummary(w io.Writer, s *report.Summary, folder string) {
	early, again := "", ""
	if ended := s.Slots + s.MissedSlots; ended < s.PlannedSlots {
		early = fmt.Sprintf("; the mission ended after %d of %d", ended, s.PlannedSlots)
	}
	if s.RepeatedSlots > 0 {
		again = fmt.Sprintf(", %d opened twice", s.RepeatedSlots)
	}
	fmt.Fprintf(w, "\nslots      %d opened, %d missed%s%s\n", s.Slots, s.MissedSlots, again, early)
	fmt.Fprintf(w, "delay      %.1f s of %d tasks; %d deadlines missed\n", s.DelayS, s.Tasks.Total, s.Tasks.DeadlinesMissed)
	if x := s.Executed; x != nil {
		fmt.Fprintf(w, "computed   %d tasks, %d parts on aircraft of %d decided and %d by the offer; %d outputs identical to the "+
			"whole's; %d blobs found\n",
			x.Tasks, x.Done, x.Decided, x.ByOffer, x.Identical, x.Found)
	}
	printEnergy(w, s, early != "")
	for _, a := range s.Aircraft {
		if a.OwnBattery {
			fmt.Fprintf(w, "           aircraft %d: joules of its autopilot's own battery; %s kJ of computing are not in them\n",
				a.Number, kilojoules(a.UndrawnEdgeJ))
		}
		var facts []string
		if a.PackJ > 0 {
			facts = append(facts, fmt.Sprintf("%.1f %% of %s kJ left in its pack", 100*a.LeftJ/a.PackJ, kilojoules(a.PackJ)))
		}
		if a.KeptJ > 0 {
			facts = append(facts, fmt.Sprintf("the budget asks for %.1f %%", 100*a.KeptJ/a.PackJ))
		}
		if a.LeftSlot > 0 {
			facts = append(facts, fmt.Sprintf("%s at slot %d", report.LeftForHome, a.LeftSlot))
		}
		if len(facts) > 0 {
			fmt.Fprintf(w, "pack       aircraft %d: %s\n", a.Number, strings.Join(facts, "; "))
		}
	}
	for _, p := range s.Problems {
		fmt.Fprintf(w, "problem    %s\n", p)
	}
	fmt.Fprintf(w, "more       %s/summary.json; flight.gif, energy.png and map.png beside it\n", folder)
}

// printEnergy prints the joules of a flight beside its budget, in the budget's scope.
func printEnergy(w io.Writer, s *report.Summary, early bool) {
	e, last := &s.Budget, report.Budget{}
	if n := len(s.Budgets); n > 0 {
		last = s.Budgets[n-1]
	}
	spentJ, scope, span := e.SpentJ, telemetry.ScopeSlots, fmt.Sprintf("for all %d slots ", s.PlannedSlots)
	if e.Landed {
		spentJ, scope, span = e.SpentJ+e.TransitJ, telemetry.ScopeLanded, "to touchdown "
	}
	first := ""
	if len(s.Budgets) > 1 {
		first = fmt.Sprintf(" (at first %s)", kilojoules(e.RequestedJ))
	}
	line := kilojoules(spentJ) + " kJ " + command.ScopeText(scope)
	switch {
	case e.RevisedJ > 0 && last.OfPacks:
		line += fmt.Sprintf(" of the %s that the packs hold above their reserves%s", kilojoules(e.RevisedJ), first)
	case e.RevisedJ > 0 && early:
		line += fmt.Sprintf("; the budget %swas %s", span, kilojoules(e.RevisedJ))
	case e.RevisedJ > 0:
		line += fmt.Sprintf(" of a budget of %s%s: %+.2f %%", kilojoules(e.RevisedJ), first, 100*e.Error)
	case e.RequestedJ > 0:
		before := s.Budgets[len(s.Budgets)-2] // a preference has no budget, and clears one
		line += fmt.Sprintf("; the budget of %s was cleared by a preference", kilojoules(before.EnergyJ))
	}
	fmt.Fprintf(w, "energy     %s; the leader counts %s\n", line, kilojoules(e.LeaderSpentJ))
}
