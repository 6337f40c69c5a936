package fly

import (
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"

	leaderconfig "prefdt/firmware/config"
	"prefdt/firmware/ledger"
	"prefdt/simbridge/autopilot"
	"prefdt/simbridge/judge"
	"prefdt/simbridge/record"
	"prefdt/simbridge/report"
	"prefdt/simbridge/sitl"
	"prefdt/simbridge/world"
)

// RecordFile, in a flight's folder, is what truly happened in it, for simbridge judge.
const RecordFile = "record.jsonl"

// recorder writes the record of a flight, from when it has begun until its end.
type recorder struct {
	writer  atomic.Pointer[record.Writer] // nil: it has not begun
	ended   atomic.Bool
	flight  record.Flight // before writer is set
	station int           // the leader's system id
}

// beginRecord begins the record, of a leader with these arguments. What is known of one that was started elsewhere are its defaults.
func (f *flight) beginRecord() error {
	l, own := leaderconfig.Defaults(), false
	if n := len(f.leaderArgs); n > 0 && f.Leader.Config != "" {
		if c, err := leaderconfig.Load(f.leaderArgs[n-1]); err == nil {
			l, own = c, true
		}
	}
	r := &f.record
	r.station = l.MAVLink.SystemID
	r.flight = record.Flight{Plan: fmt.Sprintf("%d aircraft, world's seed %d", len(f.Aircraft), f.Seed), Fleet: f.Fleet, Speed: f.Speed,
		Physics: f.World.Physics, AMSLM: f.Origin.AltM, World: &f.World, Seed: f.Seed, OtherBroker: f.Broker.Listen == ""}
	if own {
		r.flight.Slots, r.flight.Users, r.flight.Leader = l.Slots, l.Users.Allow, l.Broker.ClientID
	}
	for i, stand := range f.fleet.bodies() {
		conf := f.autopilotConfig(i, nil)
		start := f.World.Start(i)
		a := record.Aircraft{Autopilot: PX4, SystemID: f.Aircraft[i].SystemID, Unheard: f.Aircraft[i].Attach != "",
			StandM: record.Vector(stand.Position), StartM: [2]float64{start.EastM, start.NorthM},
			CapacityJ: conf.CapacityJ, MonitorS: f.Battery.EveryS, SpeedMaxMPS: min(l.Flight.SpeedMaxMPS, f.World.Physics.SpeedMaxMPS)}
		copter := conf.Copter
		if v, ok := f.fleet.vehicles[i].(*sitl.Vehicle); ok {
			copter, _ = v.OwnBattery()
		} else {
			a.Parameters = conf.ParameterValues()
		}
		if copter {
			a.Autopilot = ArduPilot
		}
		r.flight.Aircraft = append(r.flight.Aircraft, a)
	}
	w, err := record.Create(filepath.Join(f.Out, RecordFile), r.flight)
	if err != nil {
		return err
	}
	r.writer.Store(w)
	return nil
}

func (r *recorder) write(l record.Line) { r.writer.Load().Write(l) }

// noteState records the state of aircraft i. Of one that is attached to, the land detector alone tells that it is on the ground.
func (r *recorder) noteState(i int, s *autopilot.State) {
	w := r.writer.Load()
	if w == nil {
		return
	}
	x := record.StateOf(s)
	if a := &r.flight.Aircraft[i]; a.Unheard {
		x.OnGround, x.PackJ, x.LeftJ = x.Landed, a.CapacityJ, a.CapacityJ-x.SpentJ
	}
	w.State(i+1, x)
}

func (r *recorder) noteHeartbeat(i int, h autopilot.Heartbeat) {
	r.write(record.Line{Aircraft: i + 1, Heartbeat: record.HeartbeatOf(h)})
}

// noteReceived records what aircraft i received. On a second link there may be a pilot's ground station: what that
// commands is a pilot's act, and the rest nobody's concern.
func (r *recorder) noteReceived(i int, x *autopilot.Received, monitored bool) {
	if r.writer.Load() == nil {
		return
	}
	g := record.GotOf(x)
	switch {
	case !monitored || x.From == r.station:
		r.write(record.Line{Aircraft: i + 1, Got: g})
	case (g.Setpoint != nil || g.Command != "") && !g.Harmless:
		r.write(record.Line{Aircraft: i + 1, Fault: &record.Fault{Kind: record.PilotActs, Text: g.Command}})
	}
}

// noteMessage records a message of the broker's. What it sends is recorded for the leader alone.
func (r *recorder) noteMessage(from, to, topic string, payload []byte) {
	if r.writer.Load() != nil && (to == "" || r.flight.IsLeader(to)) {
		r.write(record.Line{MQTT: &record.Message{From: from, To: to, Topic: topic, Payload: string(payload)}})
	}
}

// noteFault records that something began to be wrong with aircraft i, or ended.
func (r *recorder) noteFault(i int, kind string, ends bool) {
	r.write(record.Line{Aircraft: i + 1, Fault: &record.Fault{Kind: kind, Ends: ends}})
}

func (r *recorder) noteLeaderDown(ends bool) {
	r.write(record.Line{Fault: &record.Fault{Kind: record.LeaderDown, Ends: ends}})
}

// endRecord ends the record, and the leader before it if it was started here. The users' tasks are counted by then.
func (f *flight) endRecord(failure error) error {
	w := f.record.writer.Load()
	if w == nil || f.record.ended.Swap(true) {
		return nil
	}
	for _, o := range f.users.Outcomes() {
		w.Write(record.Line{Task: &record.Task{Slot: o.Slot, User: userID(o.User), By: o.By, Aircraft: o.Aircraft, DelayS: o.DelayS,
			Missed: o.DeadlineMissed}})
	}
	var e record.End
	if failure != nil {
		e.Failure = failure.Error()
	}
	if f.leader != nil {
		if f.leader.Ended() && f.leader.ExitCode() != 0 {
			e.Exit = f.leader.Failure().Error()
		}
		f.leader.Stop()
	}
	if f.leader != nil && f.Leader.Config != "" {
		var err error
		if e.Ledger, err = lastFlight(filepath.Join(f.Out, "leader", "ledger.db")); err != nil {
			e.Error = err.Error()
		}
	}
	if f.World.Wind.MeanMaxMPS > 0 {
		truth := world.NewScenario(&f.World, f.Seed)
		for n := range f.observer.lastSlot() + 1 {
			wind := truth.WindMPS(n)
			e.WindMPS = append(e.WindMPS, [2]float64{wind.EastM, wind.NorthM})
		}
	}
	return w.Close(e)
}

// lastFlight is the ledger's latest.
func lastFlight(path string) (*ledger.Flight, error) {
	l, err := ledger.OpenReadOnly(path)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	flights, err := l.Flights()
	if len(flights) == 0 && err == nil {
		err = fmt.Errorf("%s: no mission", path)
	}
	if err != nil {
		return nil, err
	}
	return &flights[len(flights)-1], nil
}

// addJudgement ends the record, and adds to the summary what it says. How the flight failed is there already.
func (f *flight) addJudgement(s *report.Summary, failure error) error {
	if err := f.endRecord(failure); err != nil {
		return fmt.Errorf("record: %w", err)
	}
	broken, err := f.rulesBroken()
	if err != nil {
		return fmt.Errorf("judge: %w", err)
	}
	for _, text := range broken {
		if failure != nil && strings.HasPrefix(text, "course,") {
			continue
		}
		s.RulesBroken = append(s.RulesBroken, text)
	}
	if n := len(s.RulesBroken); n > 0 {
		s.Problems = append(s.Problems, fmt.Sprintf("%d rules broken (simbridge judge %s): %s", n, filepath.Join(f.Out, RecordFile),
			strings.Join(s.RulesBroken, "; ")))
	}
	return nil
}

// rulesBroken judges the record that has ended. In real time a busy machine can break rules of time, or seem to.
func (f *flight) rulesBroken() (broken []string, err error) {
	if f.unjudged || f.Broker.Listen == "" {
		return nil, nil
	}
	found, err := judge.Judge(filepath.Join(f.Out, RecordFile), nil)
	if err != nil {
		return nil, err
	}
	for _, x := range found.Findings {
		if x.Broken > 0 && (f.network != nil || !judge.IsTimed(x.Rule)) {
			broken = append(broken, fmt.Sprintf("%s, %d times, first at %s", x.Rule, x.Broken, x.First))
		}
	}
	return broken, nil
}
