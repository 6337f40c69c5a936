// Package report writes down what a simulated flight was: summary.json for
// programs, slots.csv and latency.csv for spreadsheets, energy.png, map.png and
// the moving flight.gif for people.
//
// Inputs: a Flight, the truth of the simulated world beside what the leader
// counted. Outputs: those files in one folder. simbridge/fly calls Write once,
// after the last slot.
package report

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"prefdt/inference/physics"
	"prefdt/simbridge/world"
	"prefdt/telemetry"
)

// Flight is all that a report is made of.
type Flight struct {
	Summary   Summary
	Rows      []Row // by slot, of those that were flown
	Latencies []SlotLatency
	Trails    [][]physics.Position
	Users     []physics.Position
	Tasks     []Task // how each ended; none is written without any
	Shock     *Shock
	States    []Event // what the mission's state became
	// Touchdowns are when each aircraft came down for good, in slots from the first one on; 0: not known.
	Touchdowns []float64
	AreaM      float64
	Slots      int // T
}

// SpentBeforeJ is what the fleet spent in the slots before one.
func (f *Flight) SpentBeforeJ(slot int) float64 {
	if slot = min(slot, len(f.Rows)); slot <= 0 {
		return 0
	}
	return f.Rows[slot-1].SpentJ
}

// Task is how one task of a user, numbered from 0, ended.
type Task struct {
	Slot, User int
	ByDecision bool // of the leader, which came in time
	DelayS     float64
}

// Budget is an accepted request.
type Budget struct {
	Slot    int              `json:"slot"`               // from which it was in force
	EnergyJ float64          `json:"energy_j"`           // 0: none any more, since a preference cleared it
	Landed  bool             `json:"landed,omitempty"`   // it runs from take-off to touchdown, not in the slots alone
	OfPacks bool             `json:"of_packs,omitempty"` // no total was asked for: it is what the packs hold above their reserves
	Packs   []telemetry.Pack `json:"packs,omitempty"`    // that it bounds
}

// KeptJ is what the budget has an aircraft keep of a pack of packJ; 0: nothing is asked.
func (b *Budget) KeptJ(number int, packJ float64) float64 {
	for _, p := range b.Packs {
		switch {
		case p.Aircraft != number:
		case p.ReserveJ != nil:
			return *p.ReserveJ
		case p.Reserve != nil:
			return *p.Reserve * packJ
		}
	}
	return 0
}

// Link is an aircraft and a user that it serves, both from 0.
type Link struct{ Aircraft, User int }

// Shock is the world's propulsion multiplier from a slot on.
type Shock struct {
	Slot   int
	Factor float64
}

// Row is one slot.
type Row struct {
	Slot                         int
	ReportsExpected, ReportsLost int
	ReportsReceived              int // by the leader
	Tasks                        int
	ByDecision                   int
	ByOffer                      int
	ByLocal                      int
	DelayS                       float64
	DeadlinesMissed              int
	MissedByOffloading           int // of these, as in Tasks
	FlightJ, EdgeJ               []float64
	Position                     []physics.Position // at the slot's start
	SpeedMPS                     []float64
	Served                       []Link  // who computed for whom in the slot
	SpentJ                       float64 // by the simulated batteries, from slot 0 to this slot's end
	// DrawnJ is what each of them gave from take-off to this slot's end.
	DrawnJ []float64
	Missed bool // no beacon opened it: what is of the leader below is its last status before

	// The leader's status after the slot. Landed: its joules, floor and budget run from take-off to
	// touchdown, with LeaderTransitJ in them; else in the slots.
	Landed                       bool
	LeaderSpentJ, LeaderTransitJ float64
	LeaderPredictedEndJ          float64
	FloorJ                       float64
	BudgetJ                      float64 // 0: none
	DecisionMS                   float64
}

// Summary is summary.json.
type Summary struct {
	State   string  `json:"state"`
	Landed  bool    `json:"landed"`
	Failure string  `json:"failure,omitempty"` // why the flight ended early or badly
	Seed    uint64  `json:"seed"`
	Speed   float64 `json:"speed"`
	Broker  string  `json:"broker"`
	// World is that of the flight.
	World      *world.Config `json:"world,omitempty"`
	ReportLoss float64       `json:"report_loss"`        // fraction of the reports that is lost on the simulated radio
	Budgets    []Budget      `json:"budgets,omitempty"`  // accepted, in the order they took effect
	Problems   []string      `json:"problems,omitempty"` // with which it ends with an error, though it was completed
	// RulesBroken are those of the contract that the flight's record shows to be broken, with how, the first time.
	RulesBroken []string `json:"rules_broken,omitempty"`
	// Of PlannedSlots, T, Slots were opened by a beacon and MissedSlots by none, and
	// RepeatedSlots are beacons too many: all as received here, not as the leader
	// reports. A mission that ended early missed none of the slots after its end.
	PlannedSlots      int               `json:"planned_slots"`
	Slots             int               `json:"slots"`
	MissedSlots       int               `json:"missed_slots"`
	RepeatedSlots     int               `json:"repeated_slots"`
	LeaderMissedSlots int               `json:"leader_missed_slots"`
	Reports           Reports           `json:"reports"`
	Decisions         int               `json:"decisions"`
	Tasks             Tasks             `json:"tasks"`
	Budget            Energy            `json:"budget"`
	DelayS            float64           `json:"delay_s"`
	EnergySource      string            `json:"energy_source"`
	DecisionMS        Quantiles         `json:"decision_ms"`
	MinSeparationM    *float64          `json:"min_separation_m"` // null: a single aircraft
	MaxSpeedMPS       float64           `json:"max_speed_mps"`
	Setpoints         int               `json:"setpoints"`
	Commands          []Command         `json:"commands"`
	Traffic           Traffic           `json:"traffic"`
	Aircraft          []AircraftSummary `json:"aircraft"`
	Latency           Latency           `json:"latency"`
	Executed          *Executed         `json:"executed,omitempty"` // tasks that were computed
}

// Executed is how tasks were computed, beside the model of them. Errors are relative, the
// measured time over the modelled one less 1, in the median; P90 are those of their sizes.
type Executed struct {
	Tasks     int `json:"tasks"`
	Decided   int `json:"decided"`   // decisions with an aircraft
	ByOffer   int `json:"by_offer"`  // parts that users sent to an aircraft without a decision
	Done      int `json:"done"`      // of both, computed there
	Identical int `json:"identical"` // outputs of all tasks that equal the whole's
	Found     int `json:"found"`     // blobs, in all pictures

	UploadError float64 `json:"upload_error"`
	LocalError  float64 `json:"local_error"`
	EdgeError   float64 `json:"edge_error"`
	UploadP90   float64 `json:"upload_p90"`
	LocalP90    float64 `json:"local_p90"`
	EdgeP90     float64 `json:"edge_p90"`

	// What the leader decided with: cycles of a bit, and the CPU of an aircraft, in the mean of
	// those that its beacons offered.
	CyclesPerBit float64 `json:"cycles_per_bit"`
	EdgeCPUHz    float64 `json:"edge_cpu_hz"`

	MeasuredDelayS float64        `json:"measured_delay_s"` // of the mission
	ModelledDelayS float64        `json:"modelled_delay_s"` // of the same decisions, by the world's closed forms
	Problems       map[string]int `json:"problems,omitempty"`
}

// Disturbed says what a busy machine did to a flight: of slots, reports or decisions more than one in a hundred were
// missed or late. Empty: nothing that counts.
func (s *Summary) Disturbed() string {
	var list []string
	for _, c := range []struct {
		n, of int
		what  string
	}{
		{s.MissedSlots, s.Slots + s.MissedSlots, "slots missed"},
		{s.Reports.Expected - s.Reports.Lost - s.Reports.Received, s.Reports.Expected, "reports not received in time"},
		{s.Latency.LateDecisions, s.Decisions, "decisions late"},
	} {
		if 100*c.n > c.of {
			list = append(list, fmt.Sprintf("%d of %d %s", c.n, c.of, c.what))
		}
	}
	return strings.Join(list, ", ")
}

type Reports struct {
	Expected int `json:"expected"` // by active users, the lost ones too
	Lost     int `json:"lost"`     // on the simulated radio
	Received int `json:"heard"`    // by the leader, in time
}

type Tasks struct {
	Total           int `json:"total"`
	ByDecision      int `json:"by_decision"`
	ByOffer         int `json:"by_offer"`
	ByLocal         int `json:"by_local"`
	DeadlinesMissed int `json:"deadlines_missed"`
	// MissedByOffloading is how many of these deadlines computing locally would have met.
	MissedByOffloading int `json:"deadlines_missed_by_offloading"`
}

// Energy is the budget and the joules of the slots from the simulated batteries.
type Energy struct {
	RequestedJ float64 `json:"requested_j"` // the first
	RevisedJ   float64 `json:"revised_j"`   // in force at the end; 0: none
	SpentJ     float64 `json:"spent_j"`
	Landed     bool    `json:"landed,omitempty"` // the one at the end runs from take-off to touchdown
	// (spent - revised) / revised, where landed with transit_j in spent; 0 without a budget at the end
	Error        float64 `json:"error"`
	FlightJ      float64 `json:"flight_j"`
	EdgeJ        float64 `json:"edge_j"`
	LeaderSpentJ float64 `json:"leader_spent_j"` // where landed to touchdown
	TransitJ     float64 `json:"transit_j"`      // outside the slots
	// LeaderTransitJ is the same by the leader's status.
	LeaderTransitJ float64 `json:"leader_transit_j"`
}

type Quantiles struct {
	P50 float64 `json:"p50"`
	P95 float64 `json:"p95"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

// Latency is in wall time, measured at the simulator: with the links both ways.
type Latency struct {
	DecisionMS     Quantiles `json:"decision_ms"`    // from a beacon's arrival to each decision's
	LateDecisions  int       `json:"late_decisions"` // after decide_by_ms
	BeaconJitterMS Quantiles `json:"beacon_jitter_ms"`
	// What is sent to a real autopilot does not pass here, and is left out.
	FirstSetpointMS  Quantiles `json:"setpoint_ms,omitzero"`        // from a beacon's arrival to the slot's first new velocity
	SetpointJitterMS Quantiles `json:"setpoint_jitter_ms,omitzero"` // of the interval between setpoints
}

// SlotLatency is one slot's part of it.
type SlotLatency struct {
	Slot             int
	Decisions        int
	LateDecisions    int
	DecisionMS       Quantiles
	FirstSetpointMS  []float64 // by aircraft; NaN: no new one
	BeaconJitterMS   float64
	SetpointJitterMS Quantiles
}

// Command is a command of the crew, and its acknowledgement.
type Command struct {
	Slot          int      `json:"slot"` // when it was sent, -1 before the mission
	Args          []string `json:"run"`
	ID            string   `json:"id"`
	Accepted      bool     `json:"accepted"`
	EffectiveSlot *int     `json:"effective_slot,omitempty"`
	Saturated     *bool    `json:"saturated,omitempty"`
	FloorJ        *float64 `json:"floor_j,omitempty"`
	Reason        string   `json:"reason,omitempty"`
}

// Traffic compares the control messages with what is offloaded.
type Traffic struct {
	ControlBytes  int64   `json:"control_bytes"` // topics and payloads of all MQTT messages, from slot 0 to the last settlement
	OffloadedBits float64 `json:"offloaded_bits"`
	Ratio         float64 `json:"ratio"` // bits over bits
}

// LeftForHome is what an aircraft did that came home before the mission's end, in words.
const LeftForHome = "left for home"

type AircraftSummary struct {
	Number           int     `json:"number"`
	FlightJ          float64 `json:"flight_j"` // in the slots
	EdgeJ            float64 `json:"edge_j"`
	TransitJ         float64 `json:"transit_j"`
	PackJ            float64 `json:"pack_j,omitzero"`    // what its pack holds, where it is simulated
	LeftJ            float64 `json:"left_j,omitzero"`    // in it at the end
	KeptJ            float64 `json:"kept_j,omitzero"`    // what the budget at the end has it keep of its pack
	LeftSlot         int     `json:"left_slot,omitzero"` // from which on it was on its way home, before the mission's end; 0: none
	Setpoints        int     `json:"setpoints"`
	SetpointsRefused int     `json:"setpoints_refused"`
	MAVLinkCommands  int     `json:"mavlink_commands"`
	MalformedFrames  int     `json:"malformed_frames"`
	ClockRate        float64 `json:"clock_rate,omitzero"` // of an attached autopilot's clock against the wall's
	Lost             bool    `json:"lost,omitempty"`      // no link to it, for good
	// OwnBattery: its joules are an attached autopilot's own, by its counter. UndrawnEdgeJ of
	// computing are in none of them.
	OwnBattery   bool    `json:"own_battery,omitempty"`
	UndrawnEdgeJ float64 `json:"undrawn_edge_j,omitzero"`
}

// QuantilesOf returns the median, the 95th and the 99th percentile (nearest rank) and the greatest.
func QuantilesOf(x []float64) Quantiles {
	if len(x) == 0 {
		return Quantiles{}
	}
	x = slices.Clone(x)
	slices.Sort(x)
	rank := func(p float64) float64 { return x[max(int(math.Ceil(p*float64(len(x))))-1, 0)] }
	return Quantiles{rank(0.5), rank(0.95), rank(0.99), x[len(x)-1]}
}

// Write makes the summary and the tables in a folder.
func Write(folder string, f *Flight) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	raw, err := json.MarshalIndent(f.Summary, "", "  ")
	if err != nil {
		return fmt.Errorf("write summary: %w", err)
	}
	return cmp.Or(
		writeFile(filepath.Join(folder, "summary.json"), append(raw, '\n')),
		writeSlots(filepath.Join(folder, "slots.csv"), f),
		writeTasks(filepath.Join(folder, TasksFile), f),
		writeLatencies(filepath.Join(folder, "latency.csv"), f),
	)
}

func writeFile(path string, raw []byte) error {
	if err := os.WriteFile(path, raw, 0o644); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

// writeTable writes lines of comma-separated values, the first of them the names.
func writeTable(path string, lines [][]string) error {
	var text bytes.Buffer
	if err := csv.NewWriter(&text).WriteAll(lines); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return writeFile(path, text.Bytes())
}

// ReadTable reads such a table of numbers: a row by name for each line, without the fields
// that are empty.
func ReadTable(path string) (rows []map[string]float64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read table: %w", err)
	}
	defer f.Close()
	lines, err := csv.NewReader(f).ReadAll()
	if err == nil && len(lines) == 0 {
		err = errors.New("it is empty")
	}
	if err != nil {
		return nil, fmt.Errorf("read table %s: %w", path, err)
	}
	for n, line := range lines[1:] {
		row := map[string]float64{}
		for i, name := range lines[0] {
			if line[i] == "" {
				continue
			}
			if row[name], err = strconv.ParseFloat(line[i], 64); err != nil {
				return nil, fmt.Errorf("read table %s: line %d: %s: %w", path, n+2, name, err)
			}
		}
		rows = append(rows, row)
	}
	return rows, nil
}

func writeSlots(path string, f *Flight) error {
	head := []string{"slot", "missed", "reports_expected", "reports_lost", "reports_heard", "tasks", "by_decision", "by_offer", "by_local",
		"delay_s", "deadlines_missed", "spent_j", "leader_spent_j", "leader_end_j", "floor_j", "budget_j", "decision_ms"}
	for m := range f.Trails {
		for _, name := range []string{"flight_j", "edge_j", "east_m", "north_m", "speed_mps"} {
			head = append(head, fmt.Sprintf("%s_%d", name, m+1))
		}
	}
	lines := [][]string{head}
	for _, r := range f.Rows {
		missed := 0
		if r.Missed {
			missed = 1
		}
		var line []string
		for _, n := range []int{r.Slot, missed, r.ReportsExpected, r.ReportsLost, r.ReportsReceived, r.Tasks, r.ByDecision, r.ByOffer,
			r.ByLocal} {
			line = append(line, strconv.Itoa(n))
		}
		line = append(line, formatFloat(r.DelayS), strconv.Itoa(r.DeadlinesMissed))
		line = appendFloats(line, r.SpentJ, r.LeaderSpentJ, r.LeaderPredictedEndJ, r.FloorJ, r.BudgetJ, r.DecisionMS)
		for m := range f.Trails {
			line = appendFloats(line, r.FlightJ[m], r.EdgeJ[m], r.Position[m].EastM, r.Position[m].NorthM, r.SpeedMPS[m])
		}
		lines = append(lines, line)
	}
	return writeTable(path, lines)
}

// LogFile is what the leader logged in a world that hides something, or in which tasks were
// computed, as leader log export -json writes it.
const LogFile = "leader.json"

// TasksFile is the table of tasks.
const TasksFile = "tasks.csv"

func writeTasks(path string, f *Flight) error {
	if len(f.Tasks) == 0 {
		return nil
	}
	lines := [][]string{{"slot", "user", "by_decision", "delay_s"}}
	for _, t := range f.Tasks {
		by := "0"
		if t.ByDecision {
			by = "1"
		}
		lines = append(lines, []string{strconv.Itoa(t.Slot), strconv.Itoa(t.User), by, formatFloat(t.DelayS)})
	}
	return writeTable(path, lines)
}

func writeLatencies(path string, f *Flight) error {
	head := []string{"slot", "beacon_jitter_ms", "decisions", "late", "decision_p50_ms", "decision_p95_ms", "decision_max_ms",
		"setpoint_jitter_p50_ms", "setpoint_jitter_p95_ms", "setpoint_jitter_max_ms"}
	for m := range f.Trails {
		head = append(head, fmt.Sprintf("setpoint_ms_%d", m+1))
	}
	lines := [][]string{head}
	for _, d := range f.Latencies {
		line := []string{strconv.Itoa(d.Slot), formatFloat(d.BeaconJitterMS), strconv.Itoa(d.Decisions), strconv.Itoa(d.LateDecisions)}
		line = appendFloats(line, d.DecisionMS.P50, d.DecisionMS.P95, d.DecisionMS.Max, d.SetpointJitterMS.P50, d.SetpointJitterMS.P95,
			d.SetpointJitterMS.Max)
		lines = append(lines, appendFloats(line, d.FirstSetpointMS...))
	}
	return writeTable(path, lines)
}

// formatFloat keeps every digit: the totals of aircraft and slots are exact.
func formatFloat(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }

// appendFloats leaves the field of a NaN empty.
func appendFloats(line []string, values ...float64) []string {
	for _, x := range values {
		if math.IsNaN(x) {
			line = append(line, "")
			continue
		}
		line = append(line, formatFloat(x))
	}
	return line
}
