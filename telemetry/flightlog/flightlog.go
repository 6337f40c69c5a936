// Package flightlog reads the record of missions that were flown, and writes it in the
// formats of other tools.
//
// Inputs: a file of the leader's folder of finished missions, or what `leader log export
// -json` writes. Outputs: [Flight], with a [Slot] for each settled slot; MCAP, CSV and
// JSON of it. The program ground calls it, for `ground log` and for replays.
package flightlog

import (
	"bufio"
	"cmp"
	"compress/gzip"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"

	"prefdt/telemetry"
)

// Flight is one mission.
type Flight struct {
	Mission  string
	State    string  // after the last row
	Reason   string  // why it came to that without the crew's order; empty: by one, or at the end of its slots
	Place    *Place  // nil: not recorded
	Slots    []Slot  // in order
	Drawn    []Drawn // by aircraft, as last settled; nil: not recorded
	Commands []Command
}

// Drawn is what an aircraft drew from its take-off on.
type Drawn struct {
	SlotsJ   float64 `json:"spent_j"`   // in the slots
	TransitJ float64 `json:"transit_j"` // outside them: climb, and way home

	Way json.RawMessage `json:"way"` // that is being flown; empty: none
}

// Place is where and for whom a mission was flown.
type Place struct {
	Fleet  string     `json:"fleet"`
	SlotMS float64    `json:"slot_ms"`
	Origin Origin     `json:"origin"`
	AreaM  [2]float64 `json:"area_m"` // the fence, east and north of the origin
}

// Slot is one settled slot. What was not recorded is nil or empty.
type Slot struct {
	Mission          string   `json:"mission"`
	Slot             int      `json:"slot"`
	UnixMS           int64    `json:"unix_ms"` // when it was settled
	State            string   `json:"state,omitempty"`
	Setting          *float64 `json:"setting,omitempty"`
	BudgetJ          *float64 `json:"budget_j,omitempty"` // nil: a preference
	Mode             string   `json:"mode,omitempty"`
	Scope            string   `json:"scope,omitempty"` // of the joules up to transit_j: slots, or landed, which has transit_j in them
	SpentJ           *float64 `json:"spent_j,omitempty"`
	PredictedEndJ    *float64 `json:"predicted_end_j,omitempty"`
	FloorJ           *float64 `json:"floor_j,omitempty"`
	Saturated        *bool    `json:"saturated,omitempty"`
	TransitJ         *float64 `json:"transit_j,omitempty"`
	EnergyJ          float64  `json:"energy_j"` // of this slot
	EdgeJ            float64  `json:"edge_j"`   // computing in it
	PropulsionFactor float64  `json:"propulsion_factor"`
	DelayS           float64  `json:"delay_s"` // of all its tasks together
	PriceSPerJ       float64  `json:"price_s_per_j"`
	UsersHeard       int      `json:"users_heard"`
	UsersOffloaded   int      `json:"users_offloaded"`
	DecisionMS       float64  `json:"decision_ms"`
	Missed           bool     `json:"missed"` // no decision was made in it
	MissedSlots      *int     `json:"missed_slots,omitempty"`
	EnergySource     string   `json:"energy_source,omitempty"`

	// What the decision believed, with an estimator.
	WindEastMPS     *float64 `json:"wind_east_mps,omitempty"`
	WindNorthMPS    *float64 `json:"wind_north_mps,omitempty"`
	WindSDMPS       *float64 `json:"wind_sd_mps,omitempty"`
	PowerMultiplier *float64 `json:"power_multiplier,omitempty"`

	Aircraft []Aircraft `json:"aircraft,omitempty"`

	Status *telemetry.Status `json:"-"` // as published, without seq and challenge; nil: a missed slot
}

// Aircraft is one aircraft's part of a slot.
type Aircraft struct {
	Number       int      `json:"number"`
	EastM        *float64 `json:"east_m,omitempty"`
	NorthM       *float64 `json:"north_m,omitempty"`
	UpM          *float64 `json:"up_m,omitempty"`
	LatitudeDeg  *float64 `json:"latitude_deg,omitempty"`
	LongitudeDeg *float64 `json:"longitude_deg,omitempty"`
	AMSLM        *float64 `json:"amsl_m,omitempty"`
	BootMS       *float64 `json:"boot_ms,omitempty"` // the autopilot's time since boot
	SpeedMPS     *float64 `json:"speed_mps,omitempty"`
	Mode         string   `json:"mode,omitempty"`
	Landed       *bool    `json:"landed,omitempty"`
	Battery      *float64 `json:"battery,omitempty"`
	AgeS         *float64 `json:"age_s,omitempty"`
	EnergyJ      float64  `json:"energy_j"` // in this slot
	SpentJ       float64  `json:"spent_j"`  // in slots, whatever the scope
	ErrorJ       float64  `json:"error_j"`  // how far off SpentJ may be
	EnergySource string   `json:"energy_source"`
	Reason       string   `json:"reason,omitempty"` // why it did not fly as asked

	DrawnJ *float64 `json:"-"` // in the slot's scope, as published

	// Of a budget that bounds its pack, or has it land: as in [telemetry.StatusAircraft].
	UsableJ          *float64 `json:"usable_j,omitempty"`
	ReserveJ         *float64 `json:"reserve_j,omitempty"`
	LeftAtTouchdownJ *float64 `json:"left_at_touchdown_j,omitempty"`
}

// Command is one of the crew's, with its answer.
type Command struct {
	ID, What string
	Ack      telemetry.Ack
}

// stored has the fields of a file's mission that are read. Lists stay JSON until each element is
// read, so that a file of empty elements takes no more memory than an honest one.
type stored struct {
	State struct {
		Mission string `json:"mission"`
		Phase   string `json:"phase"`
		Reason  string `json:"reason"`
		Place   *Place `json:"place"`
		Account struct {
			Aircraft []Drawn `json:"aircraft"`
		} `json:"account"`
	} `json:"state"`
	Rows     []json.RawMessage `json:"rows"`
	Commands []json.RawMessage `json:"commands"`
}

type storedRow struct {
	Slot       int             `json:"slot"`
	UnixMS     int64           `json:"unix_ms"`
	DelayS     float64         `json:"delay_s"`
	EnergyJ    float64         `json:"energy_j"`
	EdgeJ      float64         `json:"edge_j"`
	Factor     float64         `json:"factor"`
	PriceSPerJ float64         `json:"price_s_per_j"`
	Heard      int             `json:"heard"`
	Offloaded  int             `json:"offloaded"`
	DecisionMS float64         `json:"decision_ms"`
	Missed     bool            `json:"missed"`
	Aircraft   json.RawMessage `json:"aircraft"` // of storedAircraft
	Seen       *struct {
		Believed struct {
			WindMPS         *[2]float64 `json:"wind_mps"`
			WindSDMPS       float64     `json:"wind_sd_mps"`
			PowerMultiplier float64     `json:"power"`
		} `json:"believed"`
	} `json:"seen"`
	Status json.RawMessage `json:"status"`
}

type storedAircraft struct {
	Number  int     `json:"number"`
	EnergyJ float64 `json:"energy_j"`
	SpentJ  float64 `json:"spent_j"`
	Source  string  `json:"source"`
	ErrorJ  float64 `json:"error_j"`
	EastM   float64 `json:"east_m"`
	NorthM  float64 `json:"north_m"`
	UpM     float64 `json:"up_m"`
	BootMS  float64 `json:"boot_ms"`
}

// Bounds of a file that anyone may have made.
const (
	maxBytes  = 1 << 28 // uncompressed
	maxRows   = 1 << 18 // of all missions
	maxUnixMS = 1e13    // in the year 2286: MCAP's nanoseconds go to 2554
	maxFigure = 1e12    // as in a status
)

// ReadFile reads a file, see Read.
func ReadFile(path string) ([]Flight, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.IsDir() {
		return nil, fmt.Errorf("%s is a folder; a mission that is over is a file in `missions` of the leader's state_dir, any other is "+
			"in its ledger.db", path)
	}
	flights, err := Read(f)
	switch {
	case errors.Is(err, errLedger):
		return nil, fmt.Errorf("%s: %w, which `leader log export -json -file %[1]s -out missions.json` makes readable here", path, err)
	case err != nil:
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return flights, nil
}

var errLedger = errors.New("the leader's ledger itself")

// Read reads missions, gzipped or not, and checks them.
func Read(r io.Reader) ([]Flight, error) {
	in := bufio.NewReader(r)
	switch head, _ := in.Peek(20); {
	case len(head) > 1 && head[0] == 0x1f && head[1] == 0x8b:
		z, err := gzip.NewReader(in)
		if err != nil {
			return nil, err
		}
		r = z
	case len(head) == 20 && binary.LittleEndian.Uint32(head[16:]) == 0xED0CDAED: // bbolt's meta page
		return nil, errLedger
	default:
		r = in
	}
	text, err := io.ReadAll(io.LimitReader(r, maxBytes+1)) // to the end, where gzip has its checksum
	if err == nil && len(text) > maxBytes {
		err = fmt.Errorf("more than %d bytes", maxBytes)
	}
	var list []json.RawMessage
	if err == nil {
		err = json.Unmarshal(text, &list)
	}
	if err != nil {
		return nil, fmt.Errorf("not a mission's file or an export of them: %w", err)
	}
	var flights []Flight
	rows := 0
	for _, raw := range list {
		var s stored
		err := json.Unmarshal(raw, &s)
		if rows += len(s.Rows); err == nil && rows > maxRows {
			err = fmt.Errorf("more than %d slots", maxRows)
		}
		var f Flight
		if err == nil {
			f, err = s.flight()
		}
		if err != nil {
			return nil, fmt.Errorf("mission %s: %w", telemetry.Printable(s.State.Mission), err)
		}
		flights = append(flights, f)
	}
	return flights, nil
}

func (s *stored) flight() (f Flight, err error) {
	if !telemetry.ValidID(s.State.Mission) {
		return f, errors.New("no mission's id")
	}
	f = Flight{Mission: s.State.Mission, State: telemetry.Printable(s.State.Phase), Reason: telemetry.Printable(s.State.Reason),
		Place: s.State.Place, Drawn: s.State.Account.Aircraft}
	for _, d := range f.Drawn {
		if !(math.Abs(d.SlotsJ) <= maxFigure && math.Abs(d.TransitJ) <= maxFigure) || len(f.Drawn) > telemetry.MaxAircraft {
			return f, fmt.Errorf("%d aircraft drew %g and %g J", len(f.Drawn), d.SlotsJ, d.TransitJ)
		}
	}
	if p := f.Place; p != nil {
		if err := p.check(); err != nil {
			return f, err
		}
	}
	rows := make([]storedRow, len(s.Rows))
	for i, raw := range s.Rows {
		if err := json.Unmarshal(raw, &rows[i]); err != nil {
			return f, err
		}
	}
	for i := range rows {
		r := &rows[i]
		x, err := s.slot(r, i+1 == len(rows) || rows[i+1].UnixMS != r.UnixMS)
		if err == nil && i > 0 && x.Slot <= f.Slots[i-1].Slot {
			err = fmt.Errorf("after slot %d", f.Slots[i-1].Slot)
		}
		if err != nil {
			return f, fmt.Errorf("slot %d: %w", r.Slot, err)
		}
		f.Slots = append(f.Slots, x)
	}
	for _, raw := range s.Commands {
		var c struct {
			ID   string          `json:"id"`
			Ack  json.RawMessage `json:"ack"`
			What string          `json:"what"`
		}
		if err := json.Unmarshal(raw, &c); err != nil {
			return f, err
		}
		ack, err := telemetry.DecodeAck(c.Ack)
		if err != nil {
			return f, fmt.Errorf("command %s: %w", telemetry.Printable(c.ID), err)
		}
		ack.Reason = telemetry.Printable(ack.Reason) // it may quote an autopilot
		f.Commands = append(f.Commands, Command{telemetry.Printable(c.ID), telemetry.Printable(c.What), ack})
	}
	return f, nil
}

func (p *Place) check() error {
	switch o := p.Origin; {
	case !telemetry.ValidID(p.Fleet):
		return errors.New("no fleet's name")
	case !(p.SlotMS > 0 && p.SlotMS <= 60e3) || !(p.AreaM[0] > 0 && p.AreaM[0] <= 1e5 && p.AreaM[1] > 0 && p.AreaM[1] <= 1e5):
		return fmt.Errorf("slots of %g ms in an area of %v m", p.SlotMS, p.AreaM)
	case !(o.LatitudeDeg >= -85 && o.LatitudeDeg <= 85 && o.LongitudeDeg >= -180 && o.LongitudeDeg <= 180 && o.AMSLM >= -9e3 &&
		o.AMSLM <= 9e3):
		return fmt.Errorf("origin %+v", o)
	}
	return nil
}

// slot turns a row, with its status, into a Slot; alone is whether no other was settled with it.
func (s *stored) slot(r *storedRow, alone bool) (x Slot, err error) {
	var aircraft []storedAircraft
	var q *telemetry.Status
	if err := cmp.Or(decodePart(r.Aircraft, &aircraft), decodePart(r.Status, &q), r.checkFigures(aircraft)); err != nil {
		return x, err
	}
	if r.Slot < 0 || r.Slot > 1e9 || r.UnixMS < 0 || r.UnixMS > maxUnixMS || len(aircraft) > telemetry.MaxAircraft {
		return x, fmt.Errorf("at %d ms, with %d aircraft", r.UnixMS, len(aircraft))
	}
	x = Slot{
		Mission: s.State.Mission, Slot: r.Slot, UnixMS: r.UnixMS, DelayS: r.DelayS, EnergyJ: r.EnergyJ, EdgeJ: r.EdgeJ,
		PropulsionFactor: r.Factor,
		PriceSPerJ:       r.PriceSPerJ, UsersHeard: r.Heard, UsersOffloaded: r.Offloaded, DecisionMS: r.DecisionMS, Missed: r.Missed,
		Status: q,
	}
	if q != nil {
		if err := checkStatus(q, r.Slot); err != nil {
			return x, err
		}
		x.State, x.Setting, x.BudgetJ, x.SpentJ, x.PredictedEndJ, x.FloorJ = q.State, &q.Setting, q.BudgetJ, &q.SpentJ, q.PredictedEndJ,
			&q.FloorJ
		x.Saturated, x.TransitJ, x.MissedSlots, x.EnergySource = &q.Saturated, &q.TransitJ, &q.MissedSlots, q.EnergySource
		if x.Scope = cmp.Or(q.Scope, telemetry.ScopeSlots); q.Mode != nil {
			x.Mode = *q.Mode
		}
	}
	if r.Seen != nil {
		b := &r.Seen.Believed
		if w := b.WindMPS; w != nil {
			x.WindEastMPS, x.WindNorthMPS, x.WindSDMPS = &w[0], &w[1], &b.WindSDMPS
		}
		if b.PowerMultiplier != 0 {
			x.PowerMultiplier = &b.PowerMultiplier
		}
	}
	// A slot that was missed was settled with the next one, and has the places of that moment.
	measured := !r.Missed || alone
	for _, a := range aircraft {
		if a.Number < 1 || a.Number > telemetry.MaxAircraft {
			return x, fmt.Errorf("aircraft %d", a.Number)
		}
		y := Aircraft{Number: a.Number, EnergyJ: a.EnergyJ, SpentJ: a.SpentJ, ErrorJ: a.ErrorJ, EnergySource: telemetry.Printable(a.Source)}
		if measured && a.BootMS > 0 {
			y.BootMS = &a.BootMS
		}
		if p := [3]float64{a.EastM, a.NorthM, a.UpM}; measured && isPosition(p, a.BootMS) {
			y.EastM, y.NorthM, y.UpM = &p[0], &p[1], &p[2]
			if x := s.State.Place; x != nil {
				latitude, longitude, amsl := x.Origin.Geodetic(p[0], p[1], p[2])
				y.LatitudeDeg, y.LongitudeDeg, y.AMSLM = &latitude, &longitude, &amsl
			}
		}
		if q != nil {
			for k := range q.Aircraft {
				if b := &q.Aircraft[k]; b.Number == a.Number {
					y.SpeedMPS, y.Mode, y.Landed, y.Battery, y.AgeS, y.Reason = b.SpeedMPS, b.Mode, b.Landed, b.Battery, b.AgeS, b.Reason
					y.DrawnJ, y.UsableJ, y.ReserveJ, y.LeftAtTouchdownJ = &b.SpentJ, b.UsableJ, b.ReserveJ, b.LeftAtTouchdownJ
				}
			}
		}
		x.Aircraft = append(x.Aircraft, y)
	}
	return x, nil
}

// isPosition is whether metres of a row are a position. Before an aircraft's first one a row
// has zeros, at no time since boot; and an autopilot may report one that it cannot be at,
// which a status does not have either.
func isPosition(p [3]float64, bootMS float64) bool {
	if p == [3]float64{} && bootMS == 0 {
		return false
	}
	return !slices.ContainsFunc(p[:], func(m float64) bool { return math.Abs(m) > 1e5 })
}

// decodePart reads a part of a row, which is no longer than a status may be.
func decodePart(raw json.RawMessage, v any) error {
	if len(raw) == 0 {
		return nil
	}
	if len(raw) > telemetry.MaxStatus {
		return fmt.Errorf("%d bytes of aircraft or status", len(raw))
	}
	return json.Unmarshal(raw, v)
}

// checkFigures returns which of a row's numbers none has: later arithmetic must not overflow.
func (r *storedRow) checkFigures(aircraft []storedAircraft) error {
	figures := []float64{r.DelayS, r.EnergyJ, r.EdgeJ, r.Factor, r.PriceSPerJ, float64(r.Heard), float64(r.Offloaded), r.DecisionMS}
	for _, a := range aircraft {
		figures = append(figures, a.EnergyJ, a.SpentJ, a.ErrorJ, a.BootMS) // positions: see isPosition
	}
	if r.Seen != nil {
		b := &r.Seen.Believed
		figures = append(figures, b.WindSDMPS, b.PowerMultiplier)
		if b.WindMPS != nil {
			figures = append(figures, b.WindMPS[:]...)
		}
	}
	for _, x := range figures {
		if !(math.Abs(x) <= maxFigure) {
			return fmt.Errorf("%g, want at most %g", x, maxFigure)
		}
	}
	return nil
}

// checkStatus is telemetry's check of a status that was kept without its challenge, and has its
// texts as telemetry reads them.
func checkStatus(s *telemetry.Status, slot int) error {
	if s.Slot != slot {
		return fmt.Errorf("status of slot %d", s.Slot)
	}
	payload, err := EncodeStatus(*s, 0)
	if err == nil {
		*s, err = telemetry.DecodeStatus(payload)
	}
	s.Challenge = ""
	return err
}

// EncodeStatus returns a recorded status as a payload, with a sequence number and a
// challenge that is nobody's.
func EncodeStatus(s telemetry.Status, seq int64) ([]byte, error) {
	s.Seq, s.Challenge = seq, strings.Repeat("A", 22)
	return telemetry.Encode(s)
}
