// Package flightlog reads the record of missions that were flown, and writes it in the
// formats of other tools.
//
// Inputs: a file of the leader's folder of finished missions, or what `leader log export
// -json` writes. Outputs: [Flight], with a [Slot] for each settled slot; MCAP, Parquet and
// CSV of it. The program ground calls it, for `ground log` and for replays.
package flightlog

import (
	"bufio"
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
	State    string // after the last row
	Place    *Place // nil: not recorded
	Slots    []Slot // in order
	Commands []Command
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
	Mission          string   `json:"mission" parquet:"mission,dict"`
	Slot             int      `json:"slot" parquet:"slot"`
	UnixMS           int64    `json:"unix_ms" parquet:"unix_ms,timestamp"` // when it was settled
	State            string   `json:"state,omitempty" parquet:"state,dict"`
	Setting          *float64 `json:"setting,omitempty" parquet:"setting,optional"`
	BudgetJ          *float64 `json:"budget_j,omitempty" parquet:"budget_j,optional"` // nil: a preference
	Mode             string   `json:"mode,omitempty" parquet:"mode,dict"`
	SpentJ           *float64 `json:"spent_j,omitempty" parquet:"spent_j,optional"`
	PredictedEndJ    *float64 `json:"predicted_end_j,omitempty" parquet:"predicted_end_j,optional"`
	FloorJ           *float64 `json:"floor_j,omitempty" parquet:"floor_j,optional"`
	Saturated        *bool    `json:"saturated,omitempty" parquet:"saturated,optional"`
	TransitJ         *float64 `json:"transit_j,omitempty" parquet:"transit_j,optional"`
	EnergyJ          float64  `json:"energy_j" parquet:"energy_j"` // of this slot
	EdgeJ            float64  `json:"edge_j" parquet:"edge_j"`     // computing in it
	PropulsionFactor float64  `json:"propulsion_factor" parquet:"propulsion_factor"`
	DelayS           float64  `json:"delay_s" parquet:"delay_s"` // of all its tasks together
	PriceSPerJ       float64  `json:"price_s_per_j" parquet:"price_s_per_j"`
	UsersHeard       int      `json:"users_heard" parquet:"users_heard"`
	UsersOffloaded   int      `json:"users_offloaded" parquet:"users_offloaded"`
	DecisionMS       float64  `json:"decision_ms" parquet:"decision_ms"`
	Missed           bool     `json:"missed" parquet:"missed"` // no decision was made in it
	MissedSlots      *int     `json:"missed_slots,omitempty" parquet:"missed_slots,optional"`
	EnergySource     string   `json:"energy_source,omitempty" parquet:"energy_source,dict"`

	// What the decision believed, with an estimator.
	WindEastMPS     *float64 `json:"wind_east_mps,omitempty" parquet:"wind_east_mps,optional"`
	WindNorthMPS    *float64 `json:"wind_north_mps,omitempty" parquet:"wind_north_mps,optional"`
	WindSDMPS       *float64 `json:"wind_sd_mps,omitempty" parquet:"wind_sd_mps,optional"`
	PowerMultiplier *float64 `json:"power_multiplier,omitempty" parquet:"power_multiplier,optional"`

	Aircraft []Aircraft `json:"aircraft,omitempty" parquet:"aircraft,list"`

	Status *telemetry.Status `json:"-" parquet:"-"` // as published, without seq and challenge; nil: a missed slot
}

// Aircraft is one aircraft's part of a slot.
type Aircraft struct {
	Number       int      `json:"number" parquet:"number"`
	EastM        *float64 `json:"east_m,omitempty" parquet:"east_m,optional"`
	NorthM       *float64 `json:"north_m,omitempty" parquet:"north_m,optional"`
	UpM          *float64 `json:"up_m,omitempty" parquet:"up_m,optional"`
	LatitudeDeg  *float64 `json:"latitude_deg,omitempty" parquet:"latitude_deg,optional"`
	LongitudeDeg *float64 `json:"longitude_deg,omitempty" parquet:"longitude_deg,optional"`
	AMSLM        *float64 `json:"amsl_m,omitempty" parquet:"amsl_m,optional"`
	BootMS       *float64 `json:"boot_ms,omitempty" parquet:"boot_ms,optional"` // the autopilot's time since boot
	SpeedMPS     *float64 `json:"speed_mps,omitempty" parquet:"speed_mps,optional"`
	Mode         string   `json:"mode,omitempty" parquet:"mode,dict"`
	Landed       *bool    `json:"landed,omitempty" parquet:"landed,optional"`
	Battery      *float64 `json:"battery,omitempty" parquet:"battery,optional"`
	AgeS         *float64 `json:"age_s,omitempty" parquet:"age_s,optional"`
	EnergyJ      float64  `json:"energy_j" parquet:"energy_j"` // in this slot
	SpentJ       float64  `json:"spent_j" parquet:"spent_j"`   // since slot 0
	ErrorJ       float64  `json:"error_j" parquet:"error_j"`   // how far off SpentJ may be
	EnergySource string   `json:"energy_source" parquet:"energy_source,dict"`
	Reason       string   `json:"reason,omitempty" parquet:"reason,dict"` // why it did not fly as asked
}

// Command is one of the crew's, with its answer.
type Command struct {
	ID, What string
	Ack      telemetry.Ack
}

// stored has the fields of the file that are read.
type stored struct {
	State struct {
		Mission string `json:"mission"`
		Phase   string `json:"phase"`
		Place   *Place `json:"place"`
	} `json:"state"`
	Rows []struct {
		Slot       int     `json:"slot"`
		UnixMS     int64   `json:"unix_ms"`
		DelayS     float64 `json:"delay_s"`
		EnergyJ    float64 `json:"energy_j"`
		EdgeJ      float64 `json:"edge_j"`
		Factor     float64 `json:"factor"`
		PriceSPerJ float64 `json:"price_s_per_j"`
		Heard      int     `json:"heard"`
		Offloaded  int     `json:"offloaded"`
		DecisionMS float64 `json:"decision_ms"`
		Missed     bool    `json:"missed"`
		Aircraft   []struct {
			Number  int     `json:"number"`
			EnergyJ float64 `json:"energy_j"`
			SpentJ  float64 `json:"spent_j"`
			Source  string  `json:"source"`
			ErrorJ  float64 `json:"error_j"`
			EastM   float64 `json:"east_m"`
			NorthM  float64 `json:"north_m"`
			UpM     float64 `json:"up_m"`
			BootMS  float64 `json:"boot_ms"`
		} `json:"aircraft"`
		Seen *struct {
			Believed struct {
				WindMPS         *[2]float64 `json:"wind_mps"`
				WindSDMPS       float64     `json:"wind_sd_mps"`
				PowerMultiplier float64     `json:"power"`
			} `json:"believed"`
		} `json:"seen"`
		Status *telemetry.Status `json:"status"`
	} `json:"rows"`
	Commands []struct {
		ID   string          `json:"id"`
		Ack  json.RawMessage `json:"ack"`
		What string          `json:"what"`
	} `json:"commands"`
}

const (
	maxBytes  = 1 << 30 // of what is read, uncompressed
	maxUnixMS = 1e13    // in the year 2286: MCAP's nanoseconds go to 2554
)

// ReadFile reads a file, see Read.
func ReadFile(path string) ([]Flight, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.IsDir() {
		return nil, fmt.Errorf("%s is a folder; a mission that is over is a file in `missions` of the leader's state_dir, any other is in its ledger.db", path)
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
	limited := &io.LimitedReader{R: r, N: maxBytes}
	d := json.NewDecoder(limited)
	var list []stored
	if err := d.Decode(&list); err != nil {
		if limited.N == 0 {
			return nil, fmt.Errorf("more than %d bytes", maxBytes)
		}
		return nil, fmt.Errorf("not a mission's file or an export of them: %w", err)
	}
	flights := make([]Flight, len(list))
	for i := range list {
		if err := list[i].flight(&flights[i]); err != nil {
			return nil, fmt.Errorf("mission %s: %w", telemetry.Printable(list[i].State.Mission), err)
		}
	}
	return flights, nil
}

func (s *stored) flight(f *Flight) error {
	if !telemetry.ValidID(s.State.Mission) {
		return errors.New("no mission's id")
	}
	*f = Flight{Mission: s.State.Mission, State: s.State.Phase, Place: s.State.Place}
	if p := f.Place; p != nil {
		if err := p.check(); err != nil {
			return err
		}
	}
	for i := range s.Rows {
		x, err := s.slot(i)
		if err == nil && i > 0 && x.Slot <= s.Rows[i-1].Slot {
			err = fmt.Errorf("after slot %d", s.Rows[i-1].Slot)
		}
		if err != nil {
			return fmt.Errorf("slot %d: %w", s.Rows[i].Slot, err)
		}
		f.Slots = append(f.Slots, x)
	}
	for _, c := range s.Commands {
		ack, err := telemetry.DecodeAck(c.Ack)
		if err != nil {
			return fmt.Errorf("command %s: %w", telemetry.Printable(c.ID), err)
		}
		ack.Reason = telemetry.Printable(ack.Reason) // it may quote an autopilot
		f.Commands = append(f.Commands, Command{telemetry.Printable(c.ID), telemetry.Printable(c.What), ack})
	}
	return nil
}

func (p *Place) check() error {
	switch o := p.Origin; {
	case !telemetry.ValidID(p.Fleet):
		return errors.New("no fleet's name")
	case !(p.SlotMS > 0 && p.SlotMS <= 60e3) || !(p.AreaM[0] > 0 && p.AreaM[0] <= 1e5 && p.AreaM[1] > 0 && p.AreaM[1] <= 1e5):
		return fmt.Errorf("slots of %g ms in an area of %v m", p.SlotMS, p.AreaM)
	case !(o.LatitudeDeg >= -85 && o.LatitudeDeg <= 85 && o.LongitudeDeg >= -180 && o.LongitudeDeg <= 180 && o.AMSLM >= -9e3 && o.AMSLM <= 9e3):
		return fmt.Errorf("origin %+v", o)
	}
	return nil
}

// slot turns row i, with its status, into a Slot.
func (s *stored) slot(i int) (x Slot, err error) {
	r := &s.Rows[i]
	if r.Slot < 0 || r.Slot > 1e9 || r.UnixMS < 0 || r.UnixMS > maxUnixMS || len(r.Aircraft) > telemetry.MaxAircraft {
		return x, fmt.Errorf("at %d ms, with %d aircraft", r.UnixMS, len(r.Aircraft))
	}
	x = Slot{
		Mission: s.State.Mission, Slot: r.Slot, UnixMS: r.UnixMS, DelayS: r.DelayS, EnergyJ: r.EnergyJ, EdgeJ: r.EdgeJ, PropulsionFactor: r.Factor,
		PriceSPerJ: r.PriceSPerJ, UsersHeard: r.Heard, UsersOffloaded: r.Offloaded, DecisionMS: r.DecisionMS, Missed: r.Missed, Status: r.Status,
	}
	if q := r.Status; q != nil {
		if err := checkStatus(*q, r.Slot); err != nil {
			return x, err
		}
		x.State, x.Setting, x.BudgetJ, x.SpentJ, x.PredictedEndJ, x.FloorJ = q.State, &q.Setting, q.BudgetJ, &q.SpentJ, q.PredictedEndJ, &q.FloorJ
		x.Saturated, x.TransitJ, x.MissedSlots, x.EnergySource = &q.Saturated, &q.TransitJ, &q.MissedSlots, q.EnergySource
		if q.Mode != nil {
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
	measured := !r.Missed || i+1 == len(s.Rows) || s.Rows[i+1].UnixMS != r.UnixMS
	for _, a := range r.Aircraft {
		if a.Number < 1 || a.Number > telemetry.MaxAircraft {
			return x, fmt.Errorf("aircraft %d", a.Number)
		}
		y := Aircraft{Number: a.Number, EnergyJ: a.EnergyJ, SpentJ: a.SpentJ, ErrorJ: a.ErrorJ, EnergySource: a.Source}
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
		if q := r.Status; q != nil {
			for k := range q.Aircraft {
				if b := &q.Aircraft[k]; b.Number == a.Number {
					y.SpeedMPS, y.Mode, y.Landed, y.Battery, y.AgeS, y.Reason = b.SpeedMPS, b.Mode, b.Landed, b.Battery, b.AgeS, b.Reason
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

// checkStatus is telemetry's check of a status that was kept without its challenge.
func checkStatus(s telemetry.Status, slot int) error {
	if s.Slot != slot {
		return fmt.Errorf("status of slot %d", s.Slot)
	}
	_, err := EncodeStatus(s, 0)
	return err
}

// EncodeStatus returns a recorded status as a payload, with a sequence number and a
// challenge that is nobody's.
func EncodeStatus(s telemetry.Status, seq int64) ([]byte, error) {
	s.Seq, s.Challenge = seq, strings.Repeat("A", 22)
	return telemetry.Encode(s)
}
