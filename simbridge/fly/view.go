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

// printSummary prints the figures of a flight in a few lines.
func printSummary(w io.Writer, s *report.Summary, folder string) {
	early := ""
	if ended := s.Slots + s.MissedSlots; ended < s.PlannedSlots {
		early = fmt.Sprintf("; the mission ended after %d of %d", ended, s.PlannedSlots)
	}
	fmt.Fprintf(w, "\nslots      %d opened, %d missed, %d opened twice%s\n", s.Slots, s.MissedSlots, s.RepeatedSlots, early)
	fmt.Fprintf(w, "reports    %d sent: %d lost on the simulated radio, %d received by the leader in time, %d not in time\n",
		s.Reports.Expected, s.Reports.Lost, s.Reports.Received, max(0, s.Reports.Expected-s.Reports.Lost-s.Reports.Received))
	share := ""
	if w := s.World; w.TaskProbability < 1 && w.Groups.Count == 0 && w.Trace == nil {
		share = fmt.Sprintf(" (%g %% of the users that report have one)", 100*w.TaskProbability)
	}
	fmt.Fprintf(w, "tasks      %d%s: %d by decision, %d by the standing offer, %d locally without one; %d deadlines missed, %d of them by "+
		"offloading\n",
		s.Tasks.Total, share, s.Tasks.ByDecision, s.Tasks.ByOffer, s.Tasks.ByLocal, s.Tasks.DeadlinesMissed, s.Tasks.MissedByOffloading)
	if x := s.Executed; x != nil {
		fmt.Fprintf(w, "computed   %d tasks, %d parts on aircraft of %d decided and %d by the offer; %d outputs identical to the "+
			"whole's; %d blobs found\n",
			x.Tasks, x.Done, x.Decided, x.ByOffer, x.Identical, x.Found)
		fmt.Fprintf(w, "           measured over modelled, median (p90 of the size): upload %+.1f (%.1f) %%, own part %+.1f (%.1f) %%, "+
			"edge part %+.1f (%.1f) %%, delay %.1f of %.1f s\n",
			100*x.UploadError, 100*x.UploadP90, 100*x.LocalError, 100*x.LocalP90, 100*x.EdgeError, 100*x.EdgeP90, x.MeasuredDelayS,
			x.ModelledDelayS)
	}
	fmt.Fprintf(w, "delay      %.1f s\n", s.DelayS)
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
			fmt.Fprintf(w, "           aircraft %d: %s\n", a.Number, strings.Join(facts, "; "))
		}
	}
	fmt.Fprintf(w, "decision   %.2f ms median, %.2f ms 95th percentile\n", s.DecisionMS.P50, s.DecisionMS.P95)
	l := &s.Latency
	fmt.Fprintf(w, "latency    decisions %.1f ms median, %.1f 95th percentile, %.1f at most after their beacon; of those sent %d late\n",
		l.DecisionMS.P50, l.DecisionMS.P95, l.DecisionMS.Max, l.LateDecisions)
	if l.SetpointJitterMS != (report.Quantiles{}) {
		fmt.Fprintf(w, "           setpoint interval off by %.1f ms median, %.1f 95th percentile, %.1f at most\n", l.SetpointJitterMS.P50,
			l.SetpointJitterMS.P95, l.SetpointJitterMS.Max)
	}
	if s.MinSeparationM != nil {
		fmt.Fprintf(w, "flight     never closer than %.0f m, never faster than %.1f m/s\n", *s.MinSeparationM, s.MaxSpeedMPS)
	} else {
		fmt.Fprintf(w, "flight     never faster than %.1f m/s\n", s.MaxSpeedMPS)
	}
	fmt.Fprintf(w, "traffic    %d bytes of control, %.0f Mbit offloaded: %.1e\n", s.Traffic.ControlBytes, s.Traffic.OffloadedBits/1e6,
		s.Traffic.Ratio)
	for _, c := range s.Commands {
		if !c.Accepted && command.Transient(c.Reason) {
			continue // it was sent again
		}
		answer := "refused: " + c.Reason
		if c.Accepted {
			answer = fmt.Sprintf("accepted from slot %d", *c.EffectiveSlot)
		}
		fmt.Fprintf(w, "command    %s, %s\n", strings.Join(c.Args, " "), answer)
	}
	for _, p := range s.Problems {
		fmt.Fprintf(w, "problem    %s\n", p)
	}
	fmt.Fprintf(w, "pictures   %s/flight.gif, the flight slot by slot; energy.png, joules with budget and floor, and the delay that "+
		"they bought; map.png, where the aircraft flew\n", folder)
}

// printEnergy prints the joules of a flight beside its budget, in the budget's scope.
func printEnergy(w io.Writer, s *report.Summary, early bool) {
	e, last := &s.Budget, report.Budget{}
	if n := len(s.Budgets); n > 0 {
		last = s.Budgets[n-1]
	}
	spentJ, scope, span, inBudget := e.SpentJ, telemetry.ScopeSlots, fmt.Sprintf("for all %d slots ", s.PlannedSlots), "outside"
	if e.Landed {
		spentJ, scope, span, inBudget = e.SpentJ+e.TransitJ, telemetry.ScopeLanded, "to touchdown ", "inside"
	}
	counted := command.ScopeText(scope)
	first := ""
	if len(s.Budgets) > 1 {
		first = fmt.Sprintf(" (at first %s)", kilojoules(e.RequestedJ))
	}
	line := kilojoules(spentJ) + " kJ " + counted
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
	fmt.Fprintf(w, "energy     %s\n", line)
	fmt.Fprintf(w, "           the leader counts %s %s, from %s\n", kilojoules(e.LeaderSpentJ), counted, s.EnergySource)
	fmt.Fprintf(w, "           in slots %s kJ, of it %s flight and %s computing\n", kilojoules(e.SpentJ), kilojoules(e.FlightJ),
		kilojoules(e.EdgeJ))
	what := "climbs and ways home"
	if factor := s.World.PropulsionFactor(s.PlannedSlots); factor != 1 {
		what = fmt.Sprintf("climbs, and ways home at flight power x%.3g", factor)
	}
	fmt.Fprintf(w, "           transit (of all aircraft: %s), %s the budget: %s kJ; the leader counts %s\n", what, inBudget,
		kilojoules(e.TransitJ), kilojoules(e.LeaderTransitJ))
}
