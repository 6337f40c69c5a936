package judge

import (
	"bytes"
	"cmp"
	"encoding/json"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"prefdt/inference/checkpoint"
	"prefdt/simbridge/autopilot"
	"prefdt/simbridge/record"
	"prefdt/simbridge/world"
	"prefdt/telemetry"
)

// flight is a whole record, in order of time.
type flight struct {
	record.Flight
	frozen    *checkpoint.Checkpoint // nil: unknown
	beside    func() (reference, bool)
	scenario  *world.Scenario // nil: not drawn yet
	aircraft  []*aircraft
	faults    []faultSpan
	beacons   []beacon
	statuses  []status
	decisions []decision
	reports   map[reportKey]report  // the first of each user and slot
	resultsS  map[reportKey]float64 // the longest that a user's result of a slot had
	orders    []*order              // in the order in which they were first published
	tasks     []record.Task
	recorded  [][]byte // what the leader recorded of its decisions, by start
	next      *flight  // what followed it on the ground; nil: nothing
	handled   string   // what was done for it to packs and leader
	computed  []computed
	// workerBeats are the heartbeats of each aircraft's worker.
	workerBeats map[int][]workerBeat
	end         record.End
	endS        float64 // time of the last line
	complete    bool    // it has an end
	heardS      float64 // a heartbeat of the crew's was first delivered to the leader; +Inf: never
	// heartbeatsS are when each was.
	heartbeatsS []float64
	epochS      float64 // start of slot 0, by the first beacon; NaN: there was none
}

// aircraft is one aircraft, by what the simulators knew and what it received.
type aircraft struct {
	record.Aircraft
	airframe
	number int
	states []state
	got    []arrival
	beats  []heartbeat

	inAir    spans // more than 1 m up
	aground  spans
	offboard spans      // armed and off the ground in OFFBOARD, which is an ArduCopter's GUIDED
	notLed   []takeOver // when its leader must not command it
	led      spans
	takeOffs []takeOff
}

type state struct {
	timeS float64
	record.State
	groundM float64 // below it
}

// heightM is over the ground.
func (s *state) heightM() float64 { return s.PositionM[2] - s.groundM }

// groundM is how high the ground is at a place.
func (f *flight) groundM(a *aircraft, p point) float64 {
	from := sub(p, a.StandM)
	return a.StandM[2] + f.Slope[0]*from[0] + f.Slope[1]*from[1]
}

type arrival struct {
	timeS     float64
	slowsMPSS float64 // see airframe
	*record.Got
}

type heartbeat struct {
	timeS float64
	*record.Heartbeat
}

// takeOver is a time in which an aircraft is its pilot's, or its autopilot's alone.
type takeOver struct {
	span
	cause  string
	knownS float64 // when the leader can know it; +Inf: never
}

// computed is how a task ended that an aircraft's worker was to compute.
type computed struct {
	timeS    float64
	aircraft int
	record.Computed
}

type takeOff struct {
	timeS float64
	homeM point
}

type beacon struct {
	timeS float64
	telemetry.Slot
}

type status struct {
	timeS float64
	telemetry.Status
}

type decision struct {
	timeS float64
	user  string
	telemetry.Decision
}

type report struct {
	timeS float64
	telemetry.Report
}

// reportKey is a user and the slot of its report.
type reportKey struct {
	user string
	slot int
}

// order is a command of the crew's.
type order struct {
	id, topic  string
	kind       telemetry.Kind
	body       string // without its signature
	sentS      float64
	deliveredS float64 // to the leader, for the last time before its answer; +Inf: never
	firstS     float64 // to that leader, for the first time since it started, and so that it may be obeyed; +Inf: never
	to         string  // that leader
	answeredS  float64 // +Inf: never
	accepted   bool
	answer     telemetry.Ack
	others     []telemetry.Ack   // later answers
	strange    []telemetry.Ack   // to another body with its id
	digests    map[string]bool   // of what was published of it
	mission    telemetry.Mission // of a mission command
	budget     telemetry.Budget
	preference telemetry.Preference
}

type faultSpan struct {
	span
	kind     string
	aircraft int // 0: all
	text     string
}

// point is a place, or a difference of two, in metres east, north and up.
type point = [3]float64

func sub(a, b point) point { return point{a[0] - b[0], a[1] - b[1], a[2] - b[2]} }

func horizontalM(v point) float64 { return math.Hypot(v[0], v[1]) }

func newFlight() *flight {
	return &flight{reports: map[reportKey]report{},
		workerBeats: map[int][]workerBeat{}, resultsS: map[reportKey]float64{}, epochS: math.NaN(), heardS: math.Inf(1)}
}

// begin enters what was set before.
func (f *flight) begin(set *record.Flight) {
	f.Flight = *set
	for i, x := range set.Aircraft {
		f.aircraft = append(f.aircraft, &aircraft{Aircraft: x, number: i + 1, airframe: airframeOf(&x)})
	}
}

// load reads a whole record.
func load(r io.Reader) (*flight, error) {
	f := newFlight()
	var topics telemetry.Topics
	open := map[reportKey]int{} // of faults, by kind and aircraft
	now := f                    // the mission, or what follows it on the ground
	err := record.Read(r, func(l record.Line) (err error) {
		now.endS = max(now.endS, l.TimeS)
		var a *aircraft
		if l.Aircraft > 0 && l.Aircraft <= len(now.aircraft) {
			a = now.aircraft[l.Aircraft-1]
		}
		switch {
		case l.Flight != nil:
			f.begin(l.Flight)
			topics, err = telemetry.NewTopics(f.Fleet)
			return err
		case l.State != nil && a != nil:
			a.states = append(a.states, state{timeS: l.TimeS, State: *l.State})
		case l.Got != nil && a != nil:
			a.got = append(a.got, arrival{l.TimeS, a.slowsMPSS, l.Got})
		case l.Heartbeat != nil && a != nil:
			a.beats = append(a.beats, heartbeat{l.TimeS, l.Heartbeat})
		case l.MQTT != nil:
			now.addMessage(topics, l.TimeS, l.MQTT)
		case l.Fault != nil && l.Fault.Kind == record.NextMission:
			f.next, f.handled = newFlight(), l.Fault.Text
			f.next.begin(&f.Flight)
			now = f.next
		case l.Fault != nil && now == f:
			key := reportKey{l.Fault.Kind, l.Aircraft}
			if k, begun := open[key]; begun && l.Fault.Ends {
				const shortestS = 1e-3 // of one that begins and ends at the same moment
				f.faults[k].toS = max(l.TimeS, f.faults[k].fromS+shortestS)
				delete(open, key)
			} else if !l.Fault.Ends {
				open[key] = len(f.faults)
				f.faults = append(f.faults, faultSpan{span{l.TimeS, math.Inf(1)}, l.Fault.Kind, l.Aircraft, l.Fault.Text})
			}
		case l.Task != nil:
			f.tasks = append(f.tasks, *l.Task)
		case l.Decided != nil:
			if n := len(f.recorded); n == 0 || bytes.HasPrefix(l.Decided, []byte(`{"version"`)) {
				f.recorded = append(f.recorded, nil)
			}
			f.recorded[len(f.recorded)-1] = append(f.recorded[len(f.recorded)-1], l.Decided...)
		case l.Computed != nil:
			now.computed = append(now.computed, computed{l.TimeS, l.Aircraft, *l.Computed})
		case l.End != nil:
			f.end, f.complete = *l.End, true
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if n := len(f.statuses); f.Slots == 0 && n > 0 {
		f.Slots = f.statuses[n-1].Slots
	}
	if len(f.beacons) > 0 {
		f.epochS = f.beacons[0].timeS - float64(f.beacons[0].Slot.Slot)
	}
	for _, a := range f.aircraft {
		a.derive(f)
	}
	return f, nil
}

// addMessage adds a message of the broker's.
func (f *flight) addMessage(topics telemetry.Topics, timeS float64, m *record.Message) {
	kind, id, ok := topics.Parse(m.Topic)
	if !ok {
		return
	}
	payload := []byte(m.Payload)
	switch kind {
	case telemetry.KindBudget, telemetry.KindPreference, telemetry.KindMission:
		f.addOrder(kind, timeS, m)
		return
	case telemetry.KindHeartbeat:
		if m.To != "" && f.IsLeader(m.To) {
			f.heardS, f.heartbeatsS = min(f.heardS, timeS), append(f.heartbeatsS, timeS)
		}
	}
	if m.To != "" {
		return
	}
	switch kind {
	case telemetry.KindReport:
		// One of a slot that is not open counts for nothing.
		if r, err := telemetry.DecodeReport(payload); err == nil && len(f.beacons) > 0 && r.Slot <= f.beacons[len(f.beacons)-1].Slot.Slot {
			if _, before := f.reports[reportKey{id, r.Slot}]; !before {
				f.reports[reportKey{id, r.Slot}] = report{timeS, r}
			}
		}
	case telemetry.KindResult:
		if r, err := telemetry.DecodeResult(payload); err == nil {
			key := reportKey{id, r.Slot}
			f.resultsS[key] = max(f.resultsS[key], r.CompletionS)
		}
	case telemetry.KindWorker:
		if w, err := telemetry.DecodeWorker(payload); err == nil {
			number, _ := strconv.Atoi(id)
			f.workerBeats[number] = append(f.workerBeats[number], workerBeat{timeS, w})
		}
	}
	if v, err := telemetry.DecodePublished(kind, telemetry.Message{Payload: payload}); err == nil && f.IsLeader(m.From) {
		switch v := v.(type) {
		case telemetry.Slot:
			f.beacons = append(f.beacons, beacon{timeS, v})
		case telemetry.Decision:
			f.decisions = append(f.decisions, decision{timeS, id, v})
		case telemetry.Status:
			f.statuses = append(f.statuses, status{timeS, v})
		case telemetry.Ack:
			f.addAnswer(timeS, v)
		}
	}
}

// addOrder adds a command as it was published, or delivered.
func (f *flight) addOrder(kind telemetry.Kind, timeS float64, m *record.Message) {
	body := m.Payload
	var envelope struct {
		Body string `json:"body"`
	}
	if json.Unmarshal([]byte(body), &envelope) == nil && envelope.Body != "" {
		body = envelope.Body
	}
	var named struct {
		ID string `json:"id"`
	}
	if json.Unmarshal([]byte(body), &named) != nil || named.ID == "" {
		return
	}
	o := f.order(named.ID)
	if o == nil {
		if m.To != "" {
			return
		}
		o = &order{id: named.ID, topic: m.Topic, kind: kind, body: body, sentS: timeS, deliveredS: math.Inf(1), firstS: math.Inf(1),
			answeredS: math.Inf(1),
			digests:   map[string]bool{}}
		json.Unmarshal([]byte(body), &o.mission)
		json.Unmarshal([]byte(body), &o.budget)
		json.Unmarshal([]byte(body), &o.preference)
		f.orders = append(f.orders, o)
	}
	// Of a replay with another body nothing may take effect.
	o.digests[telemetry.Digest([]byte(m.Payload))] = body == o.body
	if m.To != "" && f.IsLeader(m.To) && body == o.body && math.IsInf(o.answeredS, 1) {
		if o.deliveredS = timeS; math.IsInf(o.firstS, 1) || o.to != m.To {
			o.firstS, o.to = timeS, m.To
		}
	}
}

func (f *flight) order(id string) *order {
	k := slices.IndexFunc(f.orders, func(o *order) bool { return o.id == id })
	if k < 0 {
		return nil
	}
	return f.orders[k]
}

// addAnswer adds an answer of the leader's, but for one that asks for the command to be signed again.
func (f *flight) addAnswer(timeS float64, a telemetry.Ack) {
	o := f.order(a.ID)
	switch {
	case o != nil && !a.Accepted && a.Challenge != "":
		o.firstS = math.Inf(1)
	case o == nil:
	case a.Of != "" && !o.digests[a.Of]:
		o.strange = append(o.strange, a)
	case math.IsInf(o.answeredS, 1):
		o.answeredS, o.accepted, o.answer = timeS, a.Accepted, a
	default:
		o.others = append(o.others, a)
	}
}

// missionOrders are the accepted commands of some actions, at the time at which they were delivered.
func (f *flight) missionOrders(actions ...string) []*order {
	return slices.DeleteFunc(slices.Clone(f.orders), func(o *order) bool {
		return o.kind != telemetry.KindMission || !o.accepted || !slices.Contains(actions, o.mission.Action)
	})
}

// takesOff reports whether it has aircraft take off, if it is obeyed.
func (o *order) takesOff() bool {
	return o.kind == telemetry.KindMission && (o.mission.Action == telemetry.ActionStart || o.mission.Action == telemetry.ActionLaunch)
}

// names reports whether a mission command is for an aircraft.
func (o *order) names(number int) bool {
	return len(o.mission.Aircraft) == 0 || slices.Contains(o.mission.Aircraft, number)
}

// fault is when faults of some kinds last that concern an aircraft, from 1, or with 0 any.
func (f *flight) fault(number int, kinds ...string) spans {
	return f.widened(&assumption{faults: kinds}, number)
}

// jumpedM is by how much the height that an aircraft measures has jumped.
func (f *flight) jumpedM(a *aircraft, timeS float64) (metres float64) {
	for _, x := range f.faults {
		if x.kind == record.HeightJump && x.aircraft == a.number && x.fromS <= timeS {
			metres, _ = strconv.ParseFloat(x.text, 64)
		}
	}
	return metres
}

// jumpUnknownS is for how long a leader may not know of a jump of an aircraft's height: positions show it for a second, and for
// another there are none if the receiver had no fix then.
func (f *flight) jumpUnknownS(a *aircraft, jumpS float64) float64 {
	const shownS, noFixS = 1.2, 1
	if slices.ContainsFunc(f.faults, func(x faultSpan) bool {
		return x.kind == record.WrongSample && x.aircraft == a.number && x.text == "no_fix" &&
			x.fromS+noFixS > jumpS && x.fromS < jumpS+shownS
	}) {
		return shownS + noFixS
	}
	return shownS
}

// jumpIsNew reports whether an aircraft's height jumped so lately that setpoints and statuses may be of the height that was reported.
func (c *check) jumpIsNew(a *aircraft, timeS float64) bool {
	return c.excuses("height jumped", a.number, timeS) || slices.ContainsFunc(c.faults, func(x faultSpan) bool {
		return x.kind == record.HeightJump && x.aircraft == a.number && x.fromS <= timeS && timeS <= x.fromS+c.jumpUnknownS(a, x.fromS)
	})
}

// followsJumpM is how far an aircraft may be off its height because its autopilot followed a jump that its leader did not know yet. It
// gets faster until then, slower for as long, and comes back.
func (f *flight) followsJumpM(a *aircraft, timeS float64) (metres float64) {
	const accelerationMPS2, back = 4, 4
	for _, x := range f.faults {
		if x.kind != record.HeightJump || x.aircraft != a.number || x.fromS > timeS {
			continue
		}
		if unknownS := f.jumpUnknownS(a, x.fromS); timeS < x.fromS+back*unknownS {
			byM := f.jumpedM(a, x.fromS) - f.jumpedM(a, math.Nextafter(x.fromS, 0))
			metres = max(metres, min(math.Abs(byM), accelerationMPS2*unknownS*unknownS))
		}
	}
	return metres
}

// fades reports whether a reported gain is one sample of fading: what was decided follows beliefs, and what a task takes
// is known by its result.
func (f *flight) fades() bool { return f.World != nil && f.World.Sounding }

// computes reports whether tasks are computed by workers: what they take is measured, and known by their results.
func (f *flight) computes() bool {
	return slices.ContainsFunc(f.beacons, func(b beacon) bool {
		return slices.ContainsFunc(b.Offer.Aircraft, func(a telemetry.OfferAircraft) bool { return a.Worker != "" })
	})
}

// truth is the world as it was.
func (f *flight) truth() *world.Scenario {
	if f.scenario == nil {
		f.scenario = world.NewScenario(f.World, f.Seed)
	}
	return f.scenario
}

// has reports whether there was a fault of some kinds.
func (f *flight) has(kinds ...string) bool {
	return slices.ContainsFunc(f.faults, func(x faultSpan) bool { return slices.Contains(kinds, x.kind) })
}

// slotAt is the slot of a moment, by the first beacon; before it -1 or less.
func (f *flight) slotAt(timeS float64) float64 {
	if math.IsNaN(f.epochS) {
		return -1
	}
	return timeS - f.epochS
}

// at is the state at a moment: the last one before it.
func (a *aircraft) at(timeS float64) *state { return &a.states[a.index(timeS)] }

// index is that of the state at a moment.
func (a *aircraft) index(timeS float64) int {
	k, found := slices.BinarySearchFunc(a.states, timeS, func(s state, t float64) int { return cmp.Compare(s.timeS, t) })
	if !found {
		k--
	}
	return max(k, 0)
}

// spentJ is what it has drawn until a moment, between two states in proportion.
func (a *aircraft) spentJ(timeS float64) float64 {
	k := a.index(timeS)
	s := &a.states[k]
	for k < len(a.states) && !(a.states[k].timeS > timeS) {
		k++
	}
	if k == 0 || k == len(a.states) || a.states[k].timeS <= s.timeS {
		return s.SpentJ
	}
	next := &a.states[k]
	return s.SpentJ + (next.SpentJ-s.SpentJ)*(timeS-s.timeS)/(next.timeS-s.timeS)
}

// homeAt is where it took off last before a moment.
func (a *aircraft) homeAt(timeS float64) (home point, ok bool) {
	for _, t := range a.takeOffs {
		if t.timeS <= timeS {
			home, ok = t.homeM, true
		}
	}
	return home, ok
}

// in is when something holds of its state.
func (a *aircraft) in(holds func(*state) bool) spans {
	return spansOf(a.states, func(s *state) float64 { return s.timeS }, holds)
}

// Modes, by PX4's words, which the simulated ArduCopter's are given in as well.
const (
	offboard = "OFFBOARD"
	takeoff  = "AUTO.TAKEOFF"
	hold     = "AUTO.LOITER"
	land     = "AUTO.LAND"
	rtl      = "AUTO.RTL"
	posctl   = "POSCTL"
)

func (s *state) speedMPS() float64 { return math.Hypot(s.VelocityMPS[0], s.VelocityMPS[1]) }

// derive finds out what follows from a record.
func (a *aircraft) derive(f *flight) {
	const offGroundM = 1
	for k := range a.states {
		a.states[k].groundM = f.groundM(a, a.states[k].PositionM)
	}
	a.inAir = a.in(func(s *state) bool { return s.heightM() > offGroundM })
	a.aground = a.in(func(s *state) bool { return s.OnGround })
	a.offboard = a.in(func(s *state) bool { return s.Mode == offboard && s.Armed && !s.OnGround })
	armed := false // since it last took off: one that touches the ground with its motors on has no other home for that
	for k := 1; k < len(a.states); k++ {
		armed = armed && a.states[k].Armed
		if a.states[k-1].OnGround && !a.states[k].OnGround && !armed {
			armed = a.states[k].Armed
			home := a.states[k].PositionM
			home[2] = f.groundM(a, home)
			a.takeOffs = append(a.takeOffs, takeOff{a.states[k].timeS, home})
		}
	}
	a.deriveTakeOvers(f)
	all := make([]span, 0, len(a.notLed))
	for _, t := range a.notLed {
		all = append(all, t.span)
	}
	a.led = newSpans(all...).not().and(spans{{0, f.endS}})
}

const (
	lostS = 10 // without any message an aircraft counts as lost
	bootS = 5  // an autopilot sends nothing while it boots
)

// deriveTakeOvers finds when its leader must not command it: from a pilot's act, a reboot, a link that was
// lost for ten seconds or an ArduCopter's own failsafe on, until the crew gives it back (docs/wire.md).
func (a *aircraft) deriveTakeOvers(f *flight) {
	for _, x := range f.faults {
		if x.aircraft != a.number {
			continue
		}
		t := takeOver{span: x.span, cause: x.kind, knownS: math.Inf(1)}
		switch {
		case x.kind == "station_flies":
			const movesM, watchedS, hoversMPS = 10.0, 1.5, 2.0 // one that hovers where it was left shows nothing of it
			from, to := a.at(x.fromS).PositionM, a.at(x.toS).PositionM
			moves := slices.ContainsFunc(a.states, func(s state) bool {
				return s.timeS > x.toS-watchedS && s.timeS <= x.toS && s.speedMPS() > hoversMPS
			})
			if !moves && math.Hypot(to[0]-from[0], to[1]-from[1]) < movesM {
				continue
			}
			t.knownS = a.shownS(t.fromS+1, func(heartbeat) bool { return true })
		case x.kind == record.PilotActs:
			mode, armed := "", true
			if s := a.after(x.fromS); s != nil {
				mode, armed = s.Mode, s.Armed
			}
			t.knownS = a.shownS(x.fromS, func(h heartbeat) bool {
				return h.Mode == mode && mode != offboard && mode != takeoff || !armed && !h.Armed
			})
		case x.kind == "autopilot_reboot":
			t.knownS = a.shownS(t.fromS+bootS, func(heartbeat) bool { return true })
		case x.kind == "link_loss" && min(x.toS, f.endS)-max(x.fromS, f.leaderUpSince(x.toS)) > lostS+1:
			t.fromS = x.toS
			t.knownS = a.shownS(t.fromS, func(heartbeat) bool { return true })
		default:
			continue
		}
		a.notLed = append(a.notLed, t)
	}
	leaderDown := f.fault(0, record.LeaderDown)
	for k := 1; k < len(a.states) && a.isCopter(); k++ {
		s, before := &a.states[k], &a.states[k-1]
		if s.Failsafe && !before.Failsafe && s.Mode != offboard { // one that changes nothing is none
			if down, ok := leaderDown.at(s.timeS); ok && a.at(down.toS).Mode == offboard {
				continue // another station ended it before the leader was back
			}
			mode := s.Mode
			a.notLed = append(a.notLed, takeOver{span: span{s.timeS, math.Inf(1)}, cause: "failsafe",
				knownS: a.shownS(s.timeS, func(h heartbeat) bool { return h.Mode == mode })})
		}
	}
	for k := range a.notLed {
		a.notLed[k].toS = f.givenBackS(a, a.notLed[k].fromS)
	}
}

// after is the first state after a moment; nil: there is none.
func (a *aircraft) after(timeS float64) *state {
	const soonS = 0.02 // an act shows in the next step
	for k := range a.states {
		if a.states[k].timeS >= timeS+soonS {
			return &a.states[k]
		}
	}
	return nil
}

// shownS is when a HEARTBEAT first showed something, from a moment on; +Inf: never.
func (a *aircraft) shownS(fromS float64, shows func(heartbeat) bool) float64 {
	for _, h := range a.beats {
		if h.timeS >= fromS && shows(h) {
			return h.timeS
		}
	}
	return math.Inf(1)
}

// givenBackS is when the crew gave an aircraft back to its leader after a moment; +Inf: never.
func (f *flight) givenBackS(a *aircraft, fromS float64) float64 {
	first := math.Inf(1)
	for _, o := range f.missionOrders(telemetry.ActionStart, telemetry.ActionLaunch, telemetry.ActionResume, telemetry.ActionReturn) {
		if o.deliveredS < fromS || !o.names(a.number) {
			continue
		}
		s := a.at(o.deliveredS)
		// A return takes aircraft in Hold from their pilots once the slots are over alone, and if it names none.
		if o.mission.Action == telemetry.ActionReturn && (len(o.mission.Aircraft) > 0 || s.Mode != hold || !f.isOver(o.deliveredS)) {
			continue
		}
		if !s.Armed && !s.OnGround { // it falls
			continue
		}
		first = min(first, o.deliveredS)
	}
	return first
}

// leaderUpSince is since when the leader has been running at a moment.
func (f *flight) leaderUpSince(timeS float64) float64 {
	since := 0.0
	for _, x := range f.fault(0, record.LeaderDown) {
		if x.toS <= timeS {
			since = x.toS
		}
	}
	return since
}

func (a *aircraft) isCopter() bool { return strings.HasPrefix(a.Autopilot, "ardu") }

// commanded is when it flies by its leader's setpoints.
func (a *aircraft) commanded() spans { return a.offboard.and(a.led) }

// isLed reports whether an aircraft is its leader's to command.
func (a *aircraft) isLed(timeS float64) bool { return a.led.contains(timeS) }

// airframe is what an aircraft can do by its autopilot's parameters.
type airframe struct {
	speedMPS   float64 // the lesser of configuration and autopilot
	descentMPS float64 // 0: unknown
	landMPS    float64 // below slowBelowM
	slowBelowM float64
	climbMPS   float64 // by setpoints
	stopsInM   float64 // an ArduCopter that is to hold, beyond what PX4 takes
	slowsMPSS  float64 // an ArduCopter's position loop approaches a target no faster than it can slow down by
}

func airframeOf(a *record.Aircraft) (f airframe) {
	const cm, lagM, slowLagM, slowClimbMPS, accelMPSS = 0.01, 13, 27, 0.5, 5
	x, copter := a.Parameters, strings.HasPrefix(a.Autopilot, "ardu")
	switch {
	case a.Unheard && copter: // nothing bounds a descent, and an ArduCopter may be the slowest
		return airframe{speedMPS: a.SpeedMaxMPS, landMPS: math.Inf(1), climbMPS: slowClimbMPS, stopsInM: slowLagM}
	case a.Unheard:
		return airframe{speedMPS: a.SpeedMaxMPS, landMPS: math.Inf(1)}
	case copter:
		f = airframe{cm * x["WPNAV_SPEED"], cm * x["WPNAV_SPEED_DN"], cm * x["LAND_SPEED"], cm * x["LAND_ALT_LOW"],
			cm * x["WPNAV_SPEED_UP"], lagM, accelMPSS / 2}
		if x["WPNAV_ACCEL"] > 0 {
			f.stopsInM, f.slowsMPSS = slowLagM, cm*x["WPNAV_ACCEL"]/2
		}
	default:
		f = airframe{speedMPS: x["MPC_XY_VEL_MAX"], descentMPS: autopilot.DescentShare * x["MPC_Z_V_AUTO_DN"],
			landMPS: x["MPC_LAND_SPEED"], slowBelowM: x["MPC_LAND_ALT1"], climbMPS: 0.8 * x["MPC_Z_VEL_MAX_UP"]}
	}
	f.speedMPS = min(f.speedMPS, a.SpeedMaxMPS)
	return f
}
