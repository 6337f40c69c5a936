package real

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"prefdt/simbridge/fly"
	"prefdt/simbridge/record"
	"prefdt/simbridge/report"
)

// Result is how a flight went.
type Result struct {
	Name    string `json:"name"`
	Repeat  int    `json:"repeat"`
	Program string `json:"program"` // digest of what flew, and of the table

	Broken    []string   `json:"broken"` // what failed it; empty: nothing
	Done      []string   `json:"done"`   // to it, in order
	Modes     [][]string `json:"modes"`  // of each aircraft, in order, by PX4's names; "!" after one that a failsafe chose
	Slots     int        `json:"slots"`
	Missed    int        `json:"missed_slots"`
	LedgerJ   float64    `json:"ledger_j"`   // from take-off to touchdown
	BatteryJ  float64    `json:"battery_j"`  // what was fed to a PX4, and an ArduCopter's own account
	DistanceM float64    `json:"distance_m"` // least of two in the air
	LeftShare []float64  `json:"left_share"` // of the pack of each PX4
	Seconds   float64    `json:"seconds"`
	CPUS      float64    `json:"cpu_s"`
	Notes     []string   `json:"notes,omitempty"` // problems that a busy machine may be the reason of

	flight Flight
	lowJ   map[int]float64 // left in the pack of an aircraft as it came down to lowM
}

func (r *Result) is(o *Result) bool {
	return r.Name == o.Name && r.Repeat == o.Repeat && r.Program == o.Program
}

// What a flight must keep.
const (
	ledgerMost   = 0.003 // of the battery's joules
	busyMost     = 0.01  // the same where an autopilot's clock ran slow, as it does where it stands still for seconds
	slowestRate  = 0.97
	distanceM    = 10
	failsafeS    = 60   // so soon after the leader or a link was lost a failsafe is asked for
	missedMost   = 0.02 // with more the machine was too busy to judge what depends on time
	reserveSlack = 0.002
	airborneM    = 1
	hoverW       = 168
	// From so low on a landing takes 8 s at PX4's own rates, 5 of them on the ground with motors that turn. Its simulation takes
	// up to 15 to see that it stands, since its height drifts: no leader can know of that.
	lowM, highM, landS = 2, 50, 8
	unmet              = 1e9 // a distance: there never were two in the air
)

func (r *Result) fail(format string, args ...any) {
	r.Broken = append(r.Broken, fmt.Sprintf(format, args...))
}

// judge judges the flight in a folder.
func (r *Result) judge(folder string) {
	paths, _ := filepath.Glob(filepath.Join(folder, "out", "*", "summary.json"))
	if len(paths) != 1 {
		log, _ := os.ReadFile(filepath.Join(folder, logFile))
		lines := strings.Split(strings.TrimSpace(string(log)), "\n")
		r.fail("it did not fly: %s", lines[len(lines)-1])
		return
	}
	var s report.Summary
	raw, err := os.ReadFile(paths[0])
	if err == nil {
		err = json.Unmarshal(raw, &s)
	}
	path := filepath.Join(filepath.Dir(paths[0]), fly.RecordFile)
	if err := errors.Join(err, r.read(path)); err != nil {
		r.fail("%v", err)
		return
	}
	r.Slots, r.Missed = s.Slots, s.MissedSlots
	for _, a := range s.Aircraft {
		r.BatteryJ += a.FlightJ + a.EdgeJ + a.TransitJ
		if a.PackJ == 0 { // an ArduCopter's own
			continue
		}
		r.LeftShare = append(r.LeftShare, a.LeftJ/a.PackJ)
		left := max(a.LeftJ, r.lowJ[a.Number]-landS*hoverW)
		if left < a.KeptJ-reserveSlack*a.PackJ {
			r.fail("aircraft %d lands with %.1f %% of its pack, want %.1f %%", a.Number, 100*left/a.PackJ, 100*a.KeptJ/a.PackJ)
		}
	}
	r.LedgerJ = s.Budget.LeaderSpentJ
	if !s.Budget.Landed { // else it is in it
		r.LedgerJ += s.Budget.LeaderTransitJ
	}
	switch {
	case s.Failure != "":
		r.fail("%s", s.Failure)
	case !s.Landed:
		r.fail("not all have landed")
	}
	r.Broken = append(r.Broken, s.RulesBroken...)
	r.Notes = s.Problems
	if off := math.Abs(r.LedgerJ-r.BatteryJ) / r.BatteryJ; !(off <= ledgerMost) {
		text := fmt.Sprintf("the ledger has %.0f J, the batteries %.0f", r.LedgerJ, r.BatteryJ)
		if off <= busyMost && slices.ContainsFunc(s.Aircraft, func(a report.AircraftSummary) bool { return a.ClockRate < slowestRate }) {
			r.Notes = append(r.Notes, text)
		} else {
			r.fail("%s", text)
		}
	}
	if r.DistanceM < distanceM {
		r.fail("two aircraft were %.1f m apart", r.DistanceM)
	}
	if r.flight.Recipe && float64(s.MissedSlots) <= missedMost*float64(s.Slots) && s.Failure == "" {
		r.Broken = append(r.Broken, s.Problems...)
	}
}

// read takes from the record what was done and what the autopilots did.
func (r *Result) read(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	r.DistanceM = unmet
	t := track{Result: r, last: map[int]string{}, up: map[int][3]float64{}, high: map[int]bool{}, lostS: map[int]float64{},
		lowJ: map[int]float64{}}
	r.lowJ = t.lowJ
	return record.Read(file, func(l record.Line) error {
		switch {
		case l.Flight != nil:
			r.Modes = make([][]string, len(l.Flight.Aircraft))
		case l.Fault != nil && !l.Fault.Ends:
			r.Done = append(r.Done, fmt.Sprintf("%.0f s %s %d", l.TimeS, l.Fault.Kind, l.Aircraft))
			if l.Fault.Kind != record.PilotActs {
				t.lostS[l.Aircraft] = l.TimeS
			}
		case l.MQTT != nil && l.MQTT.To == "" && strings.Contains(l.MQTT.Topic, "/command/"):
			t.noteOrder(l.TimeS, ordered(l.MQTT))
		case l.State != nil:
			t.noteState(l.TimeS, l.Aircraft, l.State)
		}
		return nil
	})
}

// track is a record as far as it was read. Aircraft count from 1; 0 is the crew, or the leader.
type track struct {
	*Result
	last  map[int]string     // mode, or order
	up    map[int][3]float64 // where those in the air are
	high  map[int]bool       // well up since they were low
	lowJ  map[int]float64
	lostS map[int]float64 // when the leader or a link was lost last
}

// noteOrder notes a command. A start is sent again until all is ready.
func (t *track) noteOrder(timeS float64, text string) {
	line := fmt.Sprintf("%.0f s %s", timeS, text)
	if text == t.last[0] {
		t.Done[len(t.Done)-1] = line
		return
	}
	t.last[0], t.Done = text, append(t.Done, line)
}

func (t *track) noteState(timeS float64, n int, s *record.State) {
	switch upM := s.PositionM[2]; {
	case upM > highM:
		t.high[n] = true
	case t.high[n] && upM < lowM:
		t.high[n], t.lowJ[n] = false, s.LeftJ
	}
	if delete(t.up, n); s.PositionM[2] > airborneM {
		for _, p := range t.up {
			t.DistanceM = min(t.DistanceM, math.Hypot(p[0]-s.PositionM[0], p[1]-s.PositionM[1]))
		}
		t.up[n] = s.PositionM
	}
	mode := s.Mode
	switch {
	case !s.Armed:
		mode = "ground"
	case s.Failsafe:
		mode += "!"
	}
	if mode == t.last[n] {
		return
	}
	t.last[n] = mode
	t.Modes[n-1] = append(t.Modes[n-1], fmt.Sprintf("%s %.0f s", mode, timeS))
	asked := false
	for _, of := range []int{0, n} {
		lostS, lost := t.lostS[of]
		asked = asked || lost && timeS-lostS <= failsafeS
	}
	if s.Armed && s.Failsafe && !asked {
		t.fail("a failsafe of aircraft %d that nothing asked for, %.0f s: %s", n, timeS, mode)
	}
}

// ordered is a command as the crew said it.
func ordered(m *record.Message) string {
	var body struct {
		Body     string  `json:"body"`
		Action   string  `json:"action"`
		Aircraft []int   `json:"aircraft"`
		EnergyJ  float64 `json:"energy_j"`
	}
	if json.Unmarshal([]byte(m.Payload), &body) == nil && body.Body != "" {
		json.Unmarshal([]byte(body.Body), &body)
	}
	switch {
	case body.Action != "" && len(body.Aircraft) > 0:
		return fmt.Sprintf("%s %v", body.Action, body.Aircraft)
	case body.Action != "":
		return body.Action
	case body.EnergyJ > 0:
		return fmt.Sprintf("budget %.0f J", body.EnergyJ)
	}
	return "budget of packs"
}

// verdict is a flight's result in a line.
func (r *Result) verdict() string {
	if len(r.Broken) > 0 {
		return "FAILED: " + strings.Join(r.Broken, "; ")
	}
	return fmt.Sprintf("kept: %.0f J by the ledger, %.0f by the batteries (%+.2f %%); %.0f m apart; %d slots missed; %.0f s",
		r.LedgerJ, r.BatteryJ, 100*(r.LedgerJ/r.BatteryJ-1), r.DistanceM, r.Missed, r.Seconds)
}

// printTable prints what was flown, and returns how many flights failed.
func printTable(out io.Writer, flown []Result) (failed int) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "flight\tverdict\tJ\tledger\tm\tmissed\ts\tCPU s\tdone")
	for _, r := range flown {
		verdict := "kept"
		if len(r.Broken) > 0 {
			failed++
			verdict = "FAILED"
		}
		fmt.Fprintf(w, "%s %d\t%s\t%.0f\t%+.2f %%\t%.0f\t%d\t%.0f\t%.0f\t%s\n", r.Name, r.Repeat, verdict, r.BatteryJ,
			100*(r.LedgerJ-r.BatteryJ)/max(r.BatteryJ, 1), r.DistanceM, r.Missed, r.Seconds, r.CPUS, strings.Join(r.Done, ", "))
	}
	w.Flush()
	return failed
}
