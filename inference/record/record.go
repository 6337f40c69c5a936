// Package record writes and reads the complete inputs and outputs of a flight's
// decisions, so that the decisions can be repeated and checked.
//
// Inputs of a Writer: each decision with its snapshot and objective, and each event
// that changed the objective after it; the leader calls it in flight. Outputs of a
// Reader: the same, slot by slot, for replay in package rollout.
//
// A record is JSON, one value a line: the Header, then a Slot for each decision.
// Numbers are written so that they are read back to the last bit.
package record

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"prefdt/inference/belief/learned"
	"prefdt/inference/duty"
	"prefdt/inference/goal"
	"prefdt/inference/physics"
	"prefdt/inference/slot"
)

// Version is the version of the format.
const Version = 1

// Header identifies the policy, and the objective at the beginning.
type Header struct {
	Version           int               `json:"version"`
	GraphSHA256       string            `json:"graph_sha256"` // of the checkpoint's graph
	Decoder           string            `json:"decoder"`
	Physics           physics.Constants `json:"physics"`
	OutOfDistribution bool              `json:"elsewhere,omitempty"`
	Objective         goal.State        `json:"objective"` // kept at the first decision, whatever that was asked for; the Writer sets it
	// Expected is what the policy's estimator expected, without the constants above; nil:
	// it had none.
	Expected        *learned.Surroundings `json:"expected,omitempty"`
	EstimatorSHA256 string                `json:"estimator,omitempty"`
	// Claims is the most that a report weighed; zero: the checkpoint's.
	Claims slot.Claims `json:"claims,omitzero"`
}

// Slot is one decision, and the events between it and the next.
type Slot struct {
	Plans     []Plan        `json:"plans,omitempty"` // since the decision before
	Snapshot  slot.Snapshot `json:"snapshot"`
	Objective goal.State    `json:"objective"` // at the decision, before the events
	Decision  slot.Decision `json:"decision"`  // as the policy returned it
	Events    []Event       `json:"then"`      // in their order
}

// Plan is one plan of who is in the air until when.
type Plan struct {
	Begins *duty.State `json:"begins,omitempty"` // by a planner that began with this state; nil: by the one of the plan before
	Input  duty.Input  `json:"input"`            // with the greatest number where there is no limit
	Made   string      `json:"made"`             // the plan, in full: it is only to be compared
}

// Planned is a plan in full.
func Planned(p *duty.Plan) string { return fmt.Sprintf("%+v", *p) }

// Limits returns a plan's input with its limits as they were.
func (p *Plan) Limits() *duty.Input { return withLimits(&p.Input, math.MaxFloat64, math.Inf(1)) }

// withLimits has what is without a limit, which JSON has no number for, be another number.
func withLimits(in *duty.Input, none, other float64) *duty.Input {
	x := *in
	x.Aircraft = slices.Clone(in.Aircraft)
	for i := range x.Aircraft {
		if a := &x.Aircraft[i]; a.LeftJ == none {
			a.LeftJ = other
		}
	}
	if x.FleetJ == none {
		x.FleetJ = other
	}
	return &x
}

// Event is one change of an objective. Exactly one field is set, or BudgetJ and Mode.
type Event struct {
	Settle   *goal.Settlement `json:"settle,omitempty"`
	CorrectS *float64         `json:"correct_s,omitempty"` // added to the delay of slots already settled
	Setting  *float64         `json:"setting,omitempty"`
	BudgetJ  *float64         `json:"budget_j,omitempty"`
	Mode     goal.Mode        `json:"mode,omitempty"` // of the budget
	Restore  *goal.State      `json:"restore,omitempty"`
}

// Apply changes an objective as the event did.
func (e *Event) Apply(o *goal.Objective) error {
	switch {
	case e.Settle != nil:
		o.Settle(*e.Settle)
	case e.CorrectS != nil:
		o.CorrectDelay(*e.CorrectS)
	case e.Setting != nil:
		return o.SetPreference(*e.Setting)
	case e.BudgetJ != nil:
		return o.SetBudget(*e.BudgetJ, e.Mode)
	case e.Restore != nil:
		o.Restore(*e.Restore)
	default:
		return errors.New("record event has no field set, want one")
	}
	return nil
}

// Writer writes a record. After its first error it writes no more, and Close returns
// that error. A nil Writer writes nothing. A Writer must not be used concurrently.
type Writer struct {
	encoder *json.Encoder
	header  *Header           // nil: it is written
	begins  *duty.State       // of a planner that has planned nothing yet
	plans   []json.RawMessage // since the last decision
	pending *encodedSlot      // nil before the first decision
	err     error
}

// encodedSlot is a Slot, encoded at once because the caller reuses what it holds.
type encodedSlot struct {
	Plans     []json.RawMessage `json:"plans,omitempty"`
	Snapshot  json.RawMessage   `json:"snapshot"`
	Objective json.RawMessage   `json:"objective"`
	Decision  json.RawMessage   `json:"decision"`
	Events    []json.RawMessage `json:"then"`
}

// NewWriter begins a record.
func NewWriter(w io.Writer, h Header) *Writer {
	h.Version = Version
	return &Writer{encoder: json.NewEncoder(w), header: &h}
}

// Begin says from which objective the first decision goes on, where that may be asked for another.
func (w *Writer) Begin(o goal.Objective) {
	if w != nil && w.header != nil && w.pending == nil {
		w.header.Objective = o.State()
	}
}

// WriteDecision adds a decision. Its arguments may be changed afterwards.
func (w *Writer) WriteDecision(s *slot.Snapshot, o goal.Objective, d *slot.Decision) {
	if w == nil {
		return
	}
	if w.header != nil && w.header.Objective == (goal.State{}) {
		w.header.Objective = o.State()
	}
	w.flush()
	w.pending = &encodedSlot{w.plans, w.encode("snapshot", s), w.encode("objective", o.State()), w.encode("decision", d),
		[]json.RawMessage{}}
	w.plans = nil
}

// BeginPlanner adds that the plans that follow are of a planner that begins with a state.
func (w *Writer) BeginPlanner(s duty.State) {
	if w != nil {
		w.begins = &s
	}
}

// WritePlan adds a plan. Its arguments may be changed afterwards.
func (w *Writer) WritePlan(in *duty.Input, p *duty.Plan) {
	if w == nil {
		return
	}
	w.plans = append(w.plans, w.encode("plan", Plan{w.begins, *withLimits(in, math.Inf(1), math.MaxFloat64), Planned(p)}))
	w.begins = nil
}

// WriteEvent adds an event after a decision. What changes the objective before the first one is in the header.
func (w *Writer) WriteEvent(e Event) {
	if w == nil || w.pending == nil {
		return
	}
	w.pending.Events = append(w.pending.Events, w.encode("event", e))
}

// Close writes what is pending. It does not close the underlying writer.
func (w *Writer) Close() error {
	if w == nil {
		return nil
	}
	w.flush()
	return w.err
}

func (w *Writer) flush() {
	if w.header != nil {
		w.fail(w.encoder.Encode(w.header))
		w.header = nil
	}
	if w.pending != nil && w.err == nil {
		w.fail(w.encoder.Encode(w.pending))
	}
	w.pending = nil
}

func (w *Writer) encode(what string, x any) json.RawMessage {
	raw, err := json.Marshal(x)
	if err != nil {
		w.fail(fmt.Errorf("record: encode %s: %w", what, err))
	}
	return raw
}

func (w *Writer) fail(err error) {
	if w.err == nil {
		w.err = err
	}
}

// Reader reads a record.
type Reader struct {
	Header    Header
	decoder   *json.Decoder
	slotsRead int
}

// NewReader reads the header and checks its version.
func NewReader(r io.Reader) (*Reader, error) {
	d := &Reader{decoder: json.NewDecoder(r)}
	d.decoder.DisallowUnknownFields()
	if err := d.decoder.Decode(&d.Header); err != nil {
		return nil, fmt.Errorf("record: header: %w", err)
	}
	if d.Header.Version != Version {
		return nil, fmt.Errorf("record: version is %d, want %d", d.Header.Version, Version)
	}
	return d, nil
}

// Next returns the next slot, and io.EOF after the last.
func (r *Reader) Next() (s Slot, err error) {
	if err = r.decoder.Decode(&s); err == io.EOF {
		return s, err
	} else if err != nil {
		return s, fmt.Errorf("record: slot line %d: %w", r.slotsRead+1, err)
	}
	r.slotsRead++
	return s, nil
}
