// Package record writes what truly happened in a flight, one line of JSON for each thing,
// and reads it again: simbridge/judge judges a flight by its record alone.
//
// Inputs: the simulators' truth, what aircraft received and sent by MAVLink, every message
// that the MQTT broker received, the faults that were simulated, and the leader's ledger
// after the flight. Output: a file of lines, see [Line].
// Callers: simbridge/chaos, simbridge/fly, and the judge.
//
// Positions are metres east, north and up of the fleet's origin; velocities are metres per second
// over the ground; times are mission seconds since the record began. Aircraft count from 1.
package record

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"sync"
	"time"

	"prefdt/firmware/ledger"
	"prefdt/inference/physics"
	"prefdt/simbridge/world"
)

// Version is of the lines' meaning. A file of another one is refused.
const Version = 1

// Line is one thing that happened. Besides the time, and the aircraft that it is about if any,
// exactly one field is set.
type Line struct {
	TimeS     float64    `json:"t"`
	Aircraft  int        `json:"aircraft,omitempty"`
	Flight    *Flight    `json:"flight,omitempty"` // of the first line, and of no other
	State     *State     `json:"state,omitempty"`
	Got       *Got       `json:"got,omitempty"`
	Heartbeat *Heartbeat `json:"heartbeat,omitempty"`
	MQTT      *Message   `json:"mqtt,omitempty"`
	Fault     *Fault     `json:"fault,omitempty"`
	Task      *Task      `json:"task,omitempty"`
	// Decided is a line of what the leader recorded of its decisions.
	Decided  json.RawMessage `json:"decided,omitempty"`
	End      *End            `json:"end,omitempty"` // of the last line, and of no other
	Computed *Computed       `json:"computed,omitempty"`
}

// Flight is what was set before it began.
type Flight struct {
	Version int               `json:"version"`
	Plan    string            `json:"plan"` // in words, for people
	Fleet   string            `json:"fleet"`
	Slots   int               `json:"slots"` // 0: as many as the leader's statuses say
	Speed   float64           `json:"speed"` // mission seconds per second
	Physics physics.Constants `json:"physics"`
	AMSLM   float64           `json:"amsl_m"`          // of the origin
	Slope   [2]float64        `json:"slope,omitzero"`  // metres that the ground rises for each metre east and north
	Users   []string          `json:"users,omitempty"` // whose reports count; empty: everybody's
	// Leader is how the leader's client ids begin; empty: "leader".
	Leader string `json:"leader,omitempty"`
	// OtherBroker: what the broker received is unknown, since it was another's.
	OtherBroker bool `json:"other_broker,omitempty"`
	// World and Seed are what draws users, tasks, wind and a shock of the flight power, if they were simulated.
	World    *world.Config `json:"world,omitempty"`
	Seed     uint64        `json:"seed,omitempty"`
	Aircraft []Aircraft    `json:"aircraft"`
	// SharedLink: every aircraft receives what is addressed to the others.
	SharedLink bool     `json:"shared_link,omitempty"`
	Absence    *Absence `json:"absence,omitempty"` // nil: unknown
}

// Absence is after which wall time without the crew's heartbeats, or without the broker, the leader holds
// and returns, by its configuration; 0: it is its default, which no flight waits for.
type Absence struct {
	CrewHoldS     float64 `json:"crew_hold_s,omitempty"`
	CrewReturnS   float64 `json:"crew_return_s,omitempty"`
	BrokerHoldS   float64 `json:"broker_hold_s,omitempty"`
	BrokerReturnS float64 `json:"broker_return_s,omitempty"`
}

// Aircraft is one aircraft of the fleet.
type Aircraft struct {
	Autopilot string `json:"autopilot"`           // px4 or ardupilot
	SystemID  int    `json:"system_id,omitempty"` // 0: its number
	// Unheard: what it received and its HEARTBEATs are unknown, and so are the parameters: it is a real one, or another simulator's.
	Unheard    bool               `json:"unheard,omitempty"`
	StandM     [3]float64         `json:"stand_m"` // before take-off
	StartM     [2]float64         `json:"start_m"` // where it is to begin the slots
	CapacityJ  float64            `json:"capacity_j"`
	Parameters map[string]float64 `json:"parameters"`            // the autopilot's own names and units, as far as they bound a flight
	SensorGain float64            `json:"sensor_gain,omitempty"` // what its sensor reads of a current of 1; 0: exactly that
	MonitorS   float64            `json:"monitor_s,omitempty"`   // between two readings of it
	// How wrong its receiver is, and how gusts push it: standard deviations, see simbridge/autopilot.
	ReceiverM   float64 `json:"receiver_m,omitempty"` // east and north, each
	ReceiverUpM float64 `json:"receiver_up_m,omitempty"`
	DriftM      float64 `json:"drift_m,omitempty"`    // how far the height that it measures, and flies by, is off at most
	LinkS       float64 `json:"link_s,omitempty"`     // the longest that a message is on its way
	LossShare   float64 `json:"loss_share,omitempty"` // of the messages that are sent to it
	ReceiverMPS float64 `json:"receiver_mps,omitempty"`
	GustMPS2    float64 `json:"gust_mps2,omitempty"`
	PowerLeast  float64 `json:"power_least,omitempty"` // what flying costs at least over the leader's formula, without a shock; 0: 1
	PowerMost   float64 `json:"power_most,omitempty"`  // and at most
	SpeedMaxMPS float64 `json:"speed_max_mps"`         // of the leader's configuration
}

// State is the truth about an aircraft. There is one every 100 ms, and before and after each change of
// what is no number.
type State struct {
	PositionM   [3]float64 `json:"p"`
	VelocityMPS [3]float64 `json:"v"`
	Mode        string     `json:"mode"` // PX4's word, also of an ArduCopter
	Armed       bool       `json:"armed,omitempty"`
	OnGround    bool       `json:"on_ground,omitempty"`
	Landed      bool       `json:"landed,omitempty"`   // its land detector has noticed that
	Failsafe    bool       `json:"failsafe,omitempty"` // the mode is a failsafe's
	LowPack     bool       `json:"low_pack,omitempty"` // the mode is that of a failsafe for a low battery
	Unready     bool       `json:"unready,omitempty"`  // its checks fail, so that it does not arm
	SpentJ      float64    `json:"spent_j"`
	LeftJ       float64    `json:"left_j"`
	PackJ       float64    `json:"pack_j"` // that the pack holds when full
}

// Got is a MAVLink message that an aircraft received, before it acted on it.
type Got struct {
	Setpoint *Setpoint  `json:"setpoint,omitempty"` // that it can follow, or
	Command  string     `json:"command,omitempty"`  // as MAV_CMD_NAV_LAND, or
	Other    string     `json:"other,omitempty"`    // the name of any other message, also of one to another system
	Param    []Number   `json:"param,omitempty"`    // of the command
	Target   int        `json:"target"`             // system that it is addressed to: 0 is all, -1 a message without an address
	Harmless bool       `json:"harmless,omitempty"` // it changes nothing of a flight
	Mode     string     `json:"mode"`               // of the aircraft then
	Armed    bool       `json:"armed,omitempty"`
	Landed   bool       `json:"landed,omitempty"`
	Position [3]float64 `json:"p"`
	Velocity [3]float64 `json:"v"`
}

// Setpoint is a position and the velocity there.
type Setpoint struct {
	PositionM   [3]Number `json:"p"`
	VelocityMPS [3]Number `json:"v"`
}

// Heartbeat is a HEARTBEAT that an aircraft sent, and that was neither lost nor delayed.
type Heartbeat struct {
	Mode     string `json:"mode"`
	Armed    bool   `json:"armed,omitempty"`
	Failsafe bool   `json:"failsafe,omitempty"`
}

// Message is one that the broker received.
type Message struct {
	From    string `json:"from"` // the client's id
	Topic   string `json:"topic"`
	Payload string `json:"payload"`
	// To is the client that the broker sent it to; empty: the broker received it.
	To string `json:"to,omitempty"`
}

// Fault is a moment at which something that was simulated begins, or ends.
type Fault struct {
	Kind  string  `json:"kind"`
	Ends  bool    `json:"ends,omitempty"`
	Value float64 `json:"value,omitempty"` // how much, in the unit of its kind
	Text  string  `json:"text,omitempty"`
}

// Task is how a task of a user truly ended.
type Task struct {
	Slot     int     `json:"slot"`
	User     string  `json:"user"`
	By       string  `json:"by"`      // decision, offer or local
	Aircraft int     `json:"to"`      // which computed a part; 0: none
	DelayS   float64 `json:"delay_s"` // with the penalty of a missed deadline
	Missed   bool    `json:"missed,omitempty"`
}

// Computed is how a task ended of which an aircraft's worker was asked to compute a part.
type Computed struct {
	User    string  `json:"user"`
	Slot    int     `json:"slot"`
	By      string  `json:"by"`                // decision, offer or local
	Wrong   string  `json:"wrong,omitempty"`   // with the request, so that no worker may compute it
	Problem string  `json:"problem,omitempty"` // why the worker did not; empty: it did
	Bytes   int     `json:"bytes"`             // of the worker's part
	CPUHz   float64 `json:"cpu_hz"`            // granted for it
	EdgeS   float64 `json:"edge_s"`            // that it took
	TookS   float64 `json:"took_s"`            // until its user had the whole, or the answer
	WholeS  float64 `json:"whole_s,omitempty"` // that the whole takes on its user's device; 0: that computes nothing
	Garbled bool    `json:"garbled,omitempty"` // what came out is not the function's
}

// End is how the flight ended.
type End struct {
	Failure string         `json:"failure,omitempty"`  // why it did not take its course
	Exit    string         `json:"exit,omitempty"`     // how the leader ended by itself; empty: it did not
	Ledger  *ledger.Flight `json:"ledger,omitempty"`   // of the leader, after it was stopped; nil: it was not, or there is an error
	Error   string         `json:"error,omitempty"`    // why the ledger could not be read
	WindMPS [][2]float64   `json:"wind_mps,omitempty"` // true, by slot; empty: calm
}

// Number is a number that may be none: null in JSON, NaN in Go.
type Number float64

// MarshalJSON implements json.Marshaler.
func (n Number) MarshalJSON() ([]byte, error) {
	if x := float64(n); !math.IsNaN(x) && !math.IsInf(x, 0) {
		return json.Marshal(x)
	}
	return []byte("null"), nil
}

// UnmarshalJSON implements json.Unmarshaler.
func (n *Number) UnmarshalJSON(raw []byte) error {
	if string(raw) == "null" {
		*n = Number(math.NaN())
		return nil
	}
	return json.Unmarshal(raw, (*float64)(n))
}

// Writer writes a record. Its methods may be called at any time by any goroutine; a nil Writer writes
// nothing.
type Writer struct {
	mutex  sync.Mutex
	file   *os.File
	buffer *bufio.Writer
	began  time.Time
	speed  float64
	err    error
	last   map[int]stateAt
}

// stateAt is the last state of an aircraft, which may not have been written.
type stateAt struct {
	timeS, writtenS float64
	state           State
}

// PeriodS is between two states of an aircraft that differ in numbers alone.
const PeriodS = 0.1

// Create begins a record in a file.
func Create(path string, f Flight) (*Writer, error) {
	file, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	w := &Writer{file: file, buffer: bufio.NewWriterSize(file, 1<<16), began: time.Now(), speed: f.Speed, last: map[int]stateAt{}}
	f.Version = Version
	w.Write(Line{Flight: &f})
	return w, nil
}

// TimeS is the time now, as lines have it.
func (w *Writer) TimeS() float64 { return time.Since(w.began).Seconds() * w.speed }

// Write appends a line, of now unless it has a time.
func (w *Writer) Write(l Line) {
	if w == nil {
		return
	}
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.write(l)
}

func (w *Writer) write(l Line) {
	if l.TimeS == 0 {
		l.TimeS = math.Round(w.TimeS()*1e6) / 1e6
	}
	raw, err := json.Marshal(l)
	if err == nil && w.buffer != nil {
		_, err = w.buffer.Write(append(raw, '\n'))
	}
	w.err = errors.Join(w.err, err)
}

// State appends the state of an aircraft, if it is time for one or something changed that is no number.
func (w *Writer) State(aircraft int, s State) {
	if w == nil {
		return
	}
	w.mutex.Lock()
	defer w.mutex.Unlock()
	now, last := w.TimeS(), w.last[aircraft]
	changed := s.Mode != last.state.Mode || s.Armed != last.state.Armed || s.OnGround != last.state.OnGround ||
		s.Landed != last.state.Landed || s.Failsafe != last.state.Failsafe || s.LowPack != last.state.LowPack
	if changed && last.timeS > last.writtenS {
		w.write(Line{TimeS: last.timeS, Aircraft: aircraft, State: &last.state})
	}
	written := last.writtenS
	if changed || now-written >= PeriodS-1e-6 {
		w.write(Line{TimeS: now, Aircraft: aircraft, State: &s})
		written = now
	}
	w.last[aircraft] = stateAt{now, written, s}
}

// Close ends the record.
func (w *Writer) Close(e End) error {
	if w == nil {
		return nil
	}
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.write(Line{End: &e})
	err := errors.Join(w.err, w.buffer.Flush(), w.file.Close())
	w.buffer = nil
	return err
}

// maxLine bounds a line: the last one has a whole ledger.
const maxLine = 64 << 20

// Read calls f with each line of a record. A record whose flight was cut off ends without an End.
func Read(r io.Reader, f func(Line) error) error {
	scanner := bufio.NewScanner(r)
	scanner.Buffer(nil, maxLine)
	for n := 1; scanner.Scan(); n++ {
		var l Line
		if err := json.Unmarshal(scanner.Bytes(), &l); err != nil {
			return fmt.Errorf("record, line %d: %w", n, err)
		}
		if n == 1 {
			switch {
			case l.Flight == nil:
				return errors.New("record, line 1: want the flight's description")
			case l.Flight.Version != Version:
				return fmt.Errorf("record of version %d, want %d", l.Flight.Version, Version)
			}
		}
		if l.Aircraft < 0 || math.IsNaN(l.TimeS) {
			return fmt.Errorf("record, line %d: aircraft %d at %v s", n, l.Aircraft, l.TimeS)
		}
		if err := f(l); err != nil {
			return fmt.Errorf("record, line %d: %w", n, err)
		}
	}
	return scanner.Err()
}
