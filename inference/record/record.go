// Package record keeps what a flight's decisions were made on, whole, so that
// they can be made again elsewhere: in flight what a policy was given and
// decided goes into a Writer, and offline a Reader returns it.
//
// A record is JSON, one value a line: the Header, then a Slot for each decision.
// Numbers are written so that they are read back to the last bit.
package record

import (
	"encoding/json"
	"fmt"
	"io"

	"prefdt/inference/goal"
	"prefdt/inference/physics"
	"prefdt/inference/slot"
)

// Version of the format.
const Version = 1

// Header says what decided, and from where.
type Header struct {
	Version           int               `json:"version"`
	GraphSHA256       string            `json:"graph_sha256"` // of the checkpoint
	Decoder           string            `json:"decoder"`
	Physics           physics.Constants `json:"physics"`
	OutOfDistribution bool              `json:"elsewhere,omitempty"`
	Objective         goal.State        `json:"objective"` // when the record began
}

// Slot is one decision, and what came to the objective between it and the next.
type Slot struct {
	Snapshot  slot.Snapshot `json:"snapshot"`
	Objective goal.State    `json:"objective"` // that the decision was given
	Decision  slot.Decision `json:"decision"`  // as the policy returned it
	Events    []Event       `json:"then"`      // in the order in which it came
}

// Event is one thing that sets an objective; one of its fields is in use.
type Event struct {
	Settle   *goal.Settlement `json:"settle,omitempty"`
	CorrectS *float64         `json:"correct_s,omitempty"` // of the delay of slots settled
	Setting  *float64         `json:"setting,omitempty"`
	BudgetJ  *float64         `json:"budget_j,omitempty"`
	Mode     goal.Mode        `json:"mode,omitempty"` // of the budget
	Flying   *int             `json:"flying,omitempty"`
	Restore  *goal.State      `json:"restore,omitempty"`
}

// Apply does to an objective what the event did.
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
	case e.Flying != nil:
		o.SetFlying(*e.Flying)
	case e.Restore != nil:
		o.Restore(*e.Restore)
	default:
		return fmt.Errorf("an event of a record says nothing, want one of its fields")
	}
	return nil
}

// Writer writes a record. Its first error ends it, and is what Close returns.
// A nil Writer writes nothing. It serves one goroutine.
type Writer struct {
	encoder    *json.Encoder
	hasPending bool // a decision was made
	pending    struct {
		Snapshot   json.RawMessage   `json:"snapshot"`
		Objective  json.RawMessage   `json:"objective"`
		Decision   json.RawMessage   `json:"decision"`
		WriteEvent []json.RawMessage `json:"then"`
	}
	err error
}

// NewWriter begins a record.
func NewWriter(w io.Writer, h Header) *Writer {
	r := &Writer{encoder: json.NewEncoder(w)}
	h.Version = Version
	r.err = r.encoder.Encode(h)
	return r
}

// WriteDecision notes a decision. What it is given may be changed afterwards.
func (w *Writer) WriteDecision(s *slot.Snapshot, o goal.Objective, d *slot.Decision) {
	if w == nil {
		return
	}
	w.flush()
	w.pending.Snapshot, w.pending.Objective, w.pending.Decision = w.encode("snapshot", s), w.encode("objective", o.State()), w.encode("decision", d)
	w.pending.WriteEvent, w.hasPending = []json.RawMessage{}, true
}

// WriteEvent notes what came to the objective after a decision. Before the first one
// it belongs into the Header.
func (w *Writer) WriteEvent(e Event) {
	if w == nil {
		return
	}
	if !w.hasPending {
		w.fail(fmt.Errorf("record: an event came before the first decision, want it in the header's objective"))
		return
	}
	w.pending.WriteEvent = append(w.pending.WriteEvent, w.encode("event", e))
}

// Close writes what is left. It does not close what it writes to.
func (w *Writer) Close() error {
	if w == nil {
		return nil
	}
	w.flush()
	return w.err
}

func (w *Writer) flush() {
	if w.hasPending && w.err == nil {
		w.fail(w.encoder.Encode(&w.pending))
	}
	w.hasPending = false
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

// NewReader reads the header.
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
