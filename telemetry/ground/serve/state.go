package serve

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"prefdt/telemetry"
	"prefdt/telemetry/command"
)

// state is what is known of the fleet, with its history.
type state struct {
	mutex   sync.Mutex
	began   time.Time
	changed chan struct{} // closed, and replaced, with each change
	closed  bool

	link command.Link
	seq  uint64 // of changes to the link

	history int // counts histories: another mission begins another
	samples []sample

	users    map[string]user
	usersSeq uint64
	slot     int               // last one that a user reported in
	delays   map[int]slotDelay // by slot

	answers     []answer
	answersSeen int // all, also those that are not kept
}

// sample is the state after one slot, as JSON.
type sample struct {
	slot      int
	values    json.RawMessage // slot, spent, predicted end, floor, budget, setting, delay of slot-2, users; null: unknown
	positions json.RawMessage // slot, then number, east, north and height of each aircraft
}

// user is a user's last report, and what was last decided of it.
type user struct {
	e, n     float64
	slot     int
	idle     bool
	aircraft int // that serves it, 0: it computes itself
	decided  int // the slot of that
	result   int // slot of its last result that was counted
}

// serving is the user's aircraft as a page shows it, with the last slot of any report and the
// last that is settled. A decision comes after the report: until it is due, the one of the
// slot before stands.
func (u *user) serving(latest, settled int) int {
	switch {
	case u.idle || u.slot < latest-1: // or silent
		return noTask
	case u.decided < u.slot && settled >= u.slot:
		return undecided
	case u.decided < u.slot-1:
		return noTask
	}
	return u.aircraft
}

const (
	noTask     = -1
	undecided  = -2
	maxSamples = 7200 // two hours of slots
	maxUsers   = 4096
	maxTrail   = 600 // positions that a page receives at first
	userLasts  = 10  // slots without a report
	maxAnswers = 20
	// A result counts until the report window of the second slot after its own.
	resultSlots = 2
)

type slotDelay struct {
	sumS float64
	n    int
}

// answer is what became of a command, for every page.
type answer struct {
	AtMS     int64  `json:"at"`
	ID       string `json:"id"`
	By       string `json:"by"`
	Accepted bool   `json:"ok"`
	Text     string `json:"text"`
	Mission  string `json:"mission"` // in which it was given, where the status names it
}

func (s *state) start(now time.Time, staleAfter time.Duration) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.began, s.changed, s.link.StaleAfter = now, make(chan struct{}), staleAfter
	s.users, s.delays = map[string]user{}, map[int]slotDelay{}
}

// ms is a time on the server's scale. A monotonic clock's, so that a step of the wall clock
// makes nothing older or newer.
func (s *state) ms(now time.Time) int64 { return now.Sub(s.began).Milliseconds() }

func (s *state) close() {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.closed = true
	close(s.changed)
	s.changed = make(chan struct{})
}

// notify wakes every stream. The mutex is held.
func (s *state) notify() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// Connected notes that the broker is connected, or was lost.
func (s *Server) Connected(connected bool) {
	s.state.mutex.Lock()
	defer s.state.mutex.Unlock()
	s.state.link.SetBroker(connected, s.Clock())
	s.state.seq++
	s.state.notify()
}

// Subscriptions are what two clients of the server subscribe with: to the leader's messages, and
// to those of users, behind which no status waits.
func (s *Server) Subscriptions() (leader, users []telemetry.Subscription, err error) {
	t, err := telemetry.NewTopics(s.Fleet)
	leader = []telemetry.Subscription{{Filter: t.Status()}, {Filter: t.Online(), QoS: 1}}
	return leader, []telemetry.Subscription{{Filter: t.AllReports()}, {Filter: t.AllDecisions()}, {Filter: t.AllResults()}}, err
}

// Handle takes one MQTT message; an error is why it was rejected.
func (s *Server) Handle(m telemetry.Message) error {
	kind, id, ok := s.topics.Parse(m.Topic)
	if !ok {
		return nil
	}
	if m.Retained && kind != telemetry.KindStatus && kind != telemetry.KindOnline {
		return nil // of the past
	}
	switch kind {
	case telemetry.KindStatus:
		status, err := s.Leader.Status(m)
		if err == nil {
			s.state.takeStatus(&status, m)
		}
		return err
	case telemetry.KindOnline:
		return take(m, telemetry.DecodeOnline, s.state.takeOnline)
	case telemetry.KindReport:
		return take(m, telemetry.DecodeReport, func(r *telemetry.Report) { s.state.takeReport(id, r) })
	case telemetry.KindDecision:
		return take(m, telemetry.DecodeDecision, func(d *telemetry.Decision) { s.state.takeDecision(id, d) })
	case telemetry.KindResult:
		return take(m, telemetry.DecodeResult, func(r *telemetry.Result) { s.state.takeResult(id, r) })
	}
	return nil
}

func take[T any](m telemetry.Message, decode func([]byte) (T, error), keep func(*T)) error {
	v, err := decode(m.Payload)
	if err == nil {
		keep(&v)
	}
	return err
}

func (s *state) takeOnline(online *bool) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.link.Online = online
	s.seq++
	s.notify()
}

// takeStatus keeps a status that is new.
func (s *state) takeStatus(status *telemetry.Status, m telemetry.Message) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	last := s.link.Status
	if !s.link.Take(status, m) {
		return
	}
	s.seq++
	s.usersSeq++ // whose decisions did not come shows now
	if last != nil && (status.Slot < last.Slot || status.Slots != last.Slots || status.SpentJ < last.SpentJ-1) {
		s.history++
		s.samples, s.users, s.delays = nil, map[string]user{}, map[int]slotDelay{}
		s.usersSeq++
	}
	if landed := func(q *telemetry.Status) bool { return q.Scope == telemetry.ScopeLanded }; last != nil && landed(last) != landed(status) {
		s.history++ // a chart has joules of one scope
		s.samples = nil
	}
	if !m.Retained && status.Slot >= 0 && (len(s.samples) == 0 || s.samples[len(s.samples)-1].slot < status.Slot) {
		s.addSample(status)
	}
	s.notify()
}

func (s *state) addSample(status *telemetry.Status) {
	var delayS *float64
	if d := s.delays[status.Slot-resultSlots]; d.n > 0 {
		mean := math.Round(d.sumS/float64(d.n)*1e4) / 1e4
		delayS = &mean
	}
	maps.DeleteFunc(s.delays, func(slot int, _ slotDelay) bool { return slot <= status.Slot-resultSlots })
	positions := []any{status.Slot}
	for _, a := range status.Aircraft {
		if p := a.PositionM; p != nil {
			positions = append(positions, [4]float64{float64(a.Number), math.Round(p[0]), math.Round(p[1]), math.Round(p[2])})
		}
	}
	if len(s.samples) == maxSamples {
		s.history++ // pages draw anew, from the later half
		s.samples = slices.Clone(s.samples[maxSamples/2:])
	}
	s.samples = append(s.samples, sample{
		status.Slot,
		encode([]any{status.Slot, joules(&status.SpentJ), joules(status.PredictedEndJ), joules(&status.FloorJ), joules(status.BudgetJ),
			status.Setting, delayS, status.UsersHeard}),
		encode(positions),
	})
}

// joules is a value to a tenth, since a page shows no more; nil stays nil.
func joules(j *float64) *float64 {
	if j == nil {
		return nil
	}
	x := math.Round(*j*10) / 10
	return &x
}

// encode is for values whose JSON cannot fail.
func encode(v any) json.RawMessage {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return raw
}

// takeReport keeps a user's report, of a slot that there can be: a single one of slot 1e9 would
// make the reports of all others look old.
func (s *state) takeReport(id string, r *telemetry.Report) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if q := s.link.Status; q != nil && (r.Slot < q.Slot || r.Slot > q.Slot+resultSlots) {
		return
	}
	u, known := s.users[id]
	if !known && len(s.users) >= maxUsers || known && r.Slot < u.slot {
		return
	}
	if !known {
		u.decided, u.result = math.MinInt, math.MinInt
	}
	u.e, u.n, u.slot, u.idle = r.PositionM[0], r.PositionM[1], r.Slot, r.Task == nil
	s.users[id] = u
	s.usersSeq++
	if r.Slot > s.slot || r.Slot < s.slot-userLasts {
		s.slot = r.Slot
		for id, u := range s.users {
			if u.slot < s.slot-userLasts || u.slot > s.slot {
				delete(s.users, id)
			}
		}
	}
}

func (s *state) takeDecision(id string, d *telemetry.Decision) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if u, known := s.users[id]; known && u.slot <= d.Slot {
		u.aircraft, u.decided = d.Aircraft, d.Slot
		s.users[id] = u
		s.usersSeq++
	}
}

// takeResult counts a result of a user that reported, once, as the leader does.
func (s *state) takeResult(id string, r *telemetry.Result) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	u, known := s.users[id]
	if q := s.link.Status; q == nil || r.Slot <= q.Slot-resultSlots || !known || r.Slot > u.slot || r.Slot <= u.result {
		return
	}
	u.result = r.Slot
	s.users[id] = u
	d := s.delays[r.Slot]
	s.delays[r.Slot] = slotDelay{d.sumS + r.CompletionS, d.n + 1}
}

func (s *state) addAnswer(a answer) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.answers = append(s.answers, a)
	s.answersSeen++
	if len(s.answers) > maxAnswers {
		s.answers = slices.Delete(s.answers, 0, 1)
	}
	s.notify()
}

// latest is the last status, nil before the first.
func (s *state) latest() *telemetry.Status {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.link.Status
}

// event is one server-sent event: all that is known at first, then what changed.
type event struct {
	T       int64    `json:"t"` // ms since the server's start, when this was composed
	Welcome *welcome `json:"welcome,omitempty"`
	Link    *link    `json:"link,omitempty"`

	State   *stateEvent       `json:"state,omitempty"`
	History int               `json:"history"` // with another number, earlier samples are of another mission
	Samples []json.RawMessage `json:"samples,omitempty"`
	Trail   []json.RawMessage `json:"trail,omitempty"`
	Users   json.RawMessage   `json:"users,omitempty"` // id, east, north, aircraft of each
	Answers []answer          `json:"answers,omitempty"`
}

// link is how current the status is. A page that hears nothing more lets the age grow to its limit.
type link struct {
	Lost     string `json:"lost"` // why; empty: it is not
	Retained bool   `json:"retained"`
	AgeMS    int64  `json:"age"` // of the status
	LimitMS  int64  `json:"limit"`
}

// stateEvent is the last status with what is known beside it.
type stateEvent struct {
	Status *telemetry.Status `json:"status"`
	Before map[string]string `json:"before"` // what each action would do now
}

// cursor is how much a page has received.
type cursor struct {
	begun            bool
	history, samples int
	seq, usersSeq    uint64
	answers          int
}

// judge is the link as a page is told of it. The mutex is held.
func (s *state) judge(now time.Time) *link {
	return &link{s.link.Lost(now), s.link.Retained, s.link.Age(now).Milliseconds(), s.link.Limit().Milliseconds()}
}

// blind is whether nobody here sees the fleet.
func (s *state) blind(now time.Time) bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.link.Blind(now)
}

// next returns what a page has not received yet, and moves its cursor. A page that reads
// slowly gets fewer events, and never old ones from a queue.
func (s *state) next(c *cursor, now time.Time) (e event, changed <-chan struct{}, closed bool) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	e = event{T: s.ms(now), History: s.history, Link: s.judge(now)}
	if !c.begun || c.seq != s.seq {
		c.seq = s.seq
		q := s.link.Status
		e.State = &stateEvent{withoutChallenge(q), consequences(q)}
	}
	if c.history != s.history {
		c.history, c.samples = s.history, 0
	}
	for i := c.samples; i < len(s.samples); i++ {
		e.Samples = append(e.Samples, s.samples[i].values)
		if i >= len(s.samples)-maxTrail {
			e.Trail = append(e.Trail, s.samples[i].positions)
		}
	}
	c.samples = len(s.samples)
	if !c.begun || c.usersSeq != s.usersSeq {
		c.usersSeq = s.usersSeq
		e.Users = s.encodeUsers()
	}
	if n := s.answersSeen - c.answers; n > 0 {
		e.Answers = slices.Clone(s.answers[max(0, len(s.answers)-n):])
		c.answers = s.answersSeen
	}
	c.begun = true
	return e, s.changed, s.closed
}

// encodeUsers lists those who reported lately. Ids have no character that JSON escapes.
func (s *state) encodeUsers() json.RawMessage {
	settled := -1
	if s.link.Status != nil {
		settled = s.link.Status.Slot
	}
	list := []byte{'['}
	for id, u := range s.users {
		if len(list) > 1 {
			list = append(list, ',')
		}
		list = fmt.Appendf(list, `["%s",%.0f,%.0f,%d]`, id, u.e, u.n, u.serving(s.slot, settled))
	}
	return append(list, ']')
}

func withoutChallenge(s *telemetry.Status) *telemetry.Status {
	if s == nil {
		return nil
	}
	c := *s
	c.Challenge, c.Signature = "", "" // a page signs nothing
	return &c
}
