package chaos

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"prefdt/telemetry"
)

// crew is a ground crew that trusts nobody: it keeps what it asked for, what
// was answered, and holds the status against both.
type crew struct {
	client *telemetry.Client
	topics telemetry.Topics
	beacon func(telemetry.Slot, time.Time)
	// leaderGone returns what is closed when the leader ends, leaderEnded tells
	// whether it was not meant to.
	leaderGone  func() <-chan struct{}
	leaderEnded func() bool
	// said is called with each fresh status, from one goroutine.
	said func(telemetry.Status)
	// answered is called with each mission command's answer, from one goroutine.
	answered func(*ask)
	key      ed25519.PrivateKey // nil: nothing is signed

	mutex    sync.Mutex
	changed  chan struct{} // closed and replaced when anything was heard
	asked    map[string]*ask
	want     *ask // the last accepted one whose effect the status shows; nil: unknown
	settled  bool // the status has shown it
	waited   int  // statuses that have not
	status   telemetry.Status
	statuses int
	statusAt time.Time
	state    State // by acknowledgements, beacons and statuses, whichever came last
	online   bool
	slot     int
	counter  uint64    // of the key
	silent   bool      // the crew's radio is off: nothing is sent
	beats    int64     // heartbeats sent
	downAt   time.Time // when the leader or the broker was last gone
	slowest  time.Duration
	lost     []string
	doubled  []string
}

// ask is one command.
type ask struct {
	id, topic string
	payload   []byte
	budgetJ   float64 // 0: not a budget
	setting   float64 // of a preference
	mission   string  // action
	aircraft  []int   // that it names, from 1; none: as the action has it
	undo      func()  // takes back what sending it said to the judge
	sent      time.Time
	gap       bool // somebody was gone since
	resent    bool
	digests   map[string]bool // of what was sent, which an answer names
	ack       *telemetry.Ack
	accepted  bool
	reason    string
}

// What a replay of an old id asks for. No command does, so that any effect of
// it shows.
const (
	poisonJ       = 77_777
	poisonSetting = 0.777
)

// waitAtMost bounds every wait: longer than the longest way home.
const waitAtMost = 45 * time.Second

// answerWithin is wall time in which a leader that is there answers.
const answerWithin = 6 * time.Second

func newCrew(ctx context.Context, fleet, url string, beacon func(telemetry.Slot, time.Time)) (*crew, error) {
	topics, err := telemetry.NewTopics(fleet)
	if err != nil {
		return nil, err
	}
	c := &crew{
		topics: topics, beacon: beacon, changed: make(chan struct{}), asked: map[string]*ask{}, slot: -1, settled: true,
		counter: uint64(time.Now().UnixNano()), answered: func(*ask) {}, said: func(telemetry.Status) {},
	}
	c.client = &telemetry.Client{
		Broker: telemetry.Broker{URL: url}, Name: "crew", Log: slog.New(slog.DiscardHandler), Retry: 100 * time.Millisecond, Handle: c.hear,
		OnDisconnect: func(error) { c.down() },
		Subscriptions: []telemetry.Subscription{
			{Filter: topics.AllAcks(), QoS: 1}, {Filter: topics.Status()}, {Filter: topics.Online(), QoS: 1}, {Filter: topics.Slot()},
		},
	}
	return c, c.client.Initialize(ctx)
}

// down says that the leader or the broker is, or was, gone.
func (c *crew) down() {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.downAt = time.Now()
}

// up tells whether both are there, by a status that was not on its way when
// one went. Called with the mutex held.
func (c *crew) up() bool {
	return c.statusAt.Sub(c.downAt) > 50*time.Millisecond && c.client.Connected()
}

func (c *crew) hear(m telemetry.Message) {
	kind, id, _ := c.topics.Parse(m.Topic)
	var open *telemetry.Slot
	var answered *ask
	var fresh *telemetry.Status
	c.mutex.Lock()
	switch kind {
	case telemetry.KindSlot:
		if s, err := telemetry.DecodeSlot(m.Payload); err != nil {
			c.lost = append(c.lost, "beacon: "+err.Error())
		} else if s.ReportByMS == forgedMS {
			// ours
		} else if s.Slot > c.slot {
			if c.slot, open = s.Slot, &s; c.state == Climbing {
				c.state = Flying
			}
		} else {
			c.doubled = append(c.doubled, fmt.Sprintf("slot %d was opened again after %d", s.Slot, c.slot))
		}
	case telemetry.KindOnline:
		c.online, _ = telemetry.DecodeOnline(m.Payload)
	case telemetry.KindStatus:
		n := c.statuses
		if c.hearStatus(m); c.statuses > n {
			s := c.status
			fresh = &s
		}
	case telemetry.KindAck:
		answered = c.hearAck(id, m)
	}
	close(c.changed)
	c.changed = make(chan struct{})
	c.mutex.Unlock()
	if open != nil {
		c.beacon(*open, m.Received)
	}
	if answered != nil {
		c.answered(answered)
	}
	if fresh != nil {
		c.said(*fresh)
	}
}

// forgedMS and forgedSlots mark what we forge, so that we know it again.
const (
	forgedMS    = 1.25
	forgedSlots = 987_654_321
)

// stateAfter is the state that an accepted action leads to.
var stateAfter = map[string]State{
	telemetry.ActionStart: Climbing, telemetry.ActionHold: Holding, telemetry.ActionReturn: Returning, telemetry.ActionStop: Stopped,
}

func (c *crew) hearStatus(m telemetry.Message) {
	s, err := telemetry.DecodeStatus(m.Payload)
	if err != nil {
		c.lost = append(c.lost, "status: "+err.Error())
		return
	}
	if s.Slots == forgedSlots {
		return
	}
	c.status = s
	if m.Retained {
		return // from before
	}
	c.statuses++
	c.statusAt = m.Received
	c.state = State(s.State)
	switch {
	case s.BudgetJ != nil && *s.BudgetJ >= poisonJ && *s.BudgetJ < poisonJ+1, s.BudgetJ == nil && math.Abs(s.Setting-poisonSetting) < 1e-9:
		c.doubled = append(c.doubled, "a replay with another body took effect")
	case s.State == telemetry.StateStopped && !c.asksStop():
		c.doubled = append(c.doubled, "a replay with action stop took effect")
	}
	if c.want == nil || c.pending() {
		return
	}
	if shows(s, c.want) {
		c.settled = true
		return
	}
	// One may have been on its way when the answer was.
	if c.waited++; c.settled || c.waited > 3 {
		c.lost = append(c.lost, fmt.Sprintf("%s was accepted, and the status after it says budget %v setting %v", c.want.payload, value(s.BudgetJ), s.Setting))
		c.want = nil
	}
}

// shows tells whether a status says what a command asked for.
func shows(s telemetry.Status, a *ask) bool {
	if a.budgetJ > 0 {
		return s.BudgetJ != nil && *s.BudgetJ == a.budgetJ
	}
	return s.BudgetJ == nil && math.Abs(s.Setting-a.setting) < 1e-9
}

func value(x *float64) any {
	if x == nil {
		return "none"
	}
	return *x
}

// hearAck returns the mission command that is answered, if one is.
func (c *crew) hearAck(id string, m telemetry.Message) *ask {
	a := c.asked[id]
	ack, err := telemetry.DecodeAck(m.Payload)
	switch {
	case err != nil || ack.ID != id:
		c.lost = append(c.lost, fmt.Sprintf("acknowledgement %s on %s (%v)", m.Payload, m.Topic, err))
		return nil
	case !ack.Accepted && (a == nil || ack.Of != "" && !a.digests[ack.Of]):
		return nil // to somebody else, of what we or others sent to be refused
	case a == nil:
		c.doubled = append(c.doubled, fmt.Sprintf("acknowledgement %s of nothing that was asked", m.Payload))
		return nil
	case !ack.Accepted && ack.Challenge != "": // to be signed again
		c.counter = max(c.counter, *ack.LastCounter)
		c.status.Challenge = ack.Challenge
		for _, b := range c.asked { // only one a second is answered so
			b.gap = b.gap || b.ack == nil
		}
		return nil
	}
	ack.Of = "" // it differs where the same command was signed again
	if a.ack != nil {
		if a.accepted != ack.Accepted || a.reason != ack.Reason {
			c.doubled = append(c.doubled, fmt.Sprintf("%s was answered by %+v and by %+v", id, *a.ack, ack))
		}
		return nil
	}
	c.slowest = max(c.slowest, m.Received.Sub(a.sent))
	a.ack, a.accepted, a.reason = &ack, ack.Accepted, ack.Reason
	if a.mission != "" {
		if s, ok := stateAfter[a.mission]; ok && ack.Accepted {
			c.state = s
		}
		return a
	}
	if !ack.Accepted {
		return nil
	}
	c.want, c.settled, c.waited = a, false, 0
	if a.resent { // it may have been applied before what came after it
		c.want = nil
	}
	return nil
}

// asksStop tells whether the crew asked for a stop.
func (c *crew) asksStop() bool {
	for _, a := range c.asked {
		if a.mission == telemetry.ActionStop {
			return true
		}
	}
	return false
}

// pending tells whether an answer is still due.
func (c *crew) pending() bool {
	for _, a := range c.asked {
		if a.ack == nil {
			return true
		}
	}
	return false
}

func (c *crew) newAsk(r *rand.Rand, kind string) *ask {
	a := &ask{id: fmt.Sprintf("%s-%08x", kind, r.Uint32())}
	switch kind {
	case "budget":
		a.budgetJ = 5000 + float64(r.IntN(40_000))
		a.topic = c.topics.Budget()
		a.payload, _ = telemetry.Encode(telemetry.Budget{ID: a.id, EnergyJ: a.budgetJ, Mode: []string{telemetry.ModeTarget, telemetry.ModeCeiling}[r.IntN(2)]})
	case "preference":
		a.setting = float64(r.IntN(700)) / 1000
		a.topic = c.topics.Preference()
		a.payload, _ = telemetry.Encode(telemetry.Preference{ID: a.id, Setting: a.setting})
	default: // a mission action
		a.mission, a.topic = kind, c.topics.Mission()
		a.payload, _ = telemetry.Encode(telemetry.Mission{ID: a.id, Action: kind})
	}
	return a
}

// naming is a mission command for named aircraft, from 0.
func (c *crew) naming(r *rand.Rand, action string, aircraft []int) *ask {
	a := c.newAsk(r, action)
	for _, i := range aircraft {
		a.aircraft = append(a.aircraft, i+1)
	}
	a.payload, _ = telemetry.Encode(telemetry.Mission{ID: a.id, Action: action, Aircraft: a.aircraft})
	return a
}

// send asks once; tend asks again where an answer cannot come.
func (c *crew) send(a *ask) {
	c.mutex.Lock()
	a.sent, a.gap = time.Now(), !c.up() // it may find no leader
	c.asked[a.id] = a
	c.mutex.Unlock()
	c.publishAsk(a)
}

func (c *crew) publishAsk(a *ask) {
	c.mutex.Lock()
	payload := c.sign(a.topic, a.payload)
	if a.digests == nil {
		a.digests = map[string]bool{}
	}
	a.digests[telemetry.Digest(payload)] = true
	c.mutex.Unlock()
	c.publish(a.topic, payload)
}

// sign signs a message as the crew has to. Called with the mutex held.
func (c *crew) sign(topic string, body []byte) []byte {
	if c.key == nil {
		return body
	}
	c.counter++
	payload, err := telemetry.Sign(crewKey, c.key, c.counter, c.status.Challenge, topic, body)
	if err != nil { // before the first status
		return body
	}
	return payload
}

// crewKey is the name of the crew's key and of its station.
const crewKey = "crew-1"

func (c *crew) publish(topic string, payload []byte) {
	c.client.Publish(telemetry.Publication{Topic: topic, QoS: 1, Payload: payload})
}

// heartbeat says that the station watches, unless its radio is off.
func (c *crew) heartbeat() {
	topic := c.topics.Heartbeat(crewKey)
	c.mutex.Lock()
	if c.silent || c.key != nil && c.status.Challenge == "" {
		c.mutex.Unlock()
		return
	}
	c.beats++
	body, _ := telemetry.Encode(telemetry.Heartbeat{Seq: c.beats})
	payload := c.sign(topic, body)
	c.mutex.Unlock()
	c.client.Publish(telemetry.Publication{Topic: topic, Payload: payload})
}

// radio turns the crew's radio on or off. Off, nothing of it is received.
func (c *crew) radio(on bool) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.silent = !on
}

// await sends a command and waits for its answer.
func (c *crew) await(ctx context.Context, a *ask) bool {
	c.send(a)
	c.wait(ctx, func() bool { return a.ack != nil })
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return a.accepted
}

// tend repeats what fell into a gap, as a crew's tool does, and finds what a
// leader that was there all the time left unanswered.
func (c *crew) tend() {
	c.mutex.Lock()
	var again []*ask
	now := time.Now()
	for _, id := range slices.Sorted(maps.Keys(c.asked)) {
		a := c.asked[id]
		switch {
		case a.ack != nil:
		case !c.up() || c.silent:
			a.gap = true
		case a.gap || c.downAt.After(a.sent):
			a.sent, a.gap, a.resent = now, false, true
			again = append(again, a)
		case now.Sub(a.sent) > answerWithin:
			c.lost = append(c.lost, fmt.Sprintf("%s was not answered within %v", a.payload, answerWithin))
			delete(c.asked, id)
		}
	}
	c.mutex.Unlock()
	for _, a := range again {
		c.publishAsk(a)
	}
}

// wait waits until a condition on what the crew knows holds. It is called with
// the mutex held.
func (c *crew) wait(ctx context.Context, ok func() bool) bool {
	ctx, cancel := context.WithTimeout(ctx, waitAtMost)
	defer cancel()
	poll := time.NewTicker(50 * time.Millisecond)
	defer poll.Stop()
	for {
		c.mutex.Lock()
		met, changed := ok(), c.changed
		c.mutex.Unlock()
		if met {
			return true
		}
		select {
		case <-changed:
		case <-poll.C:
			c.tend()
		case <-c.leaderGone():
			if c.leaderEnded() {
				return false
			}
		case <-ctx.Done():
			return false
		}
	}
}

// storm sends thousands of messages: new commands, repeats of them and of
// earlier ones with other bodies, and what is no command at all.
func (c *crew) storm(r *rand.Rand, count int) {
	c.mutex.Lock()
	var old, fresh []*ask
	for _, id := range slices.Sorted(maps.Keys(c.asked)) {
		if a := c.asked[id]; a.accepted {
			old = append(old, a)
		}
	}
	c.mutex.Unlock()
	for range count {
		switch x := r.Float64(); {
		case x < 0.06:
			a := c.newAsk(r, []string{"budget", "preference"}[r.IntN(2)])
			c.send(a)
			fresh = append(fresh, a)
		case x < 0.08: // well-formed, and to be refused
			a := c.newAsk(r, "budget")
			a.payload = fmt.Appendf(nil, `{"id":%q,"energy_j":%s,"mode":"target"}`, a.id, []string{"1e300", "-5", "0", "1e12"}[r.IntN(4)])
			c.send(a)
		case x < 0.25 && len(fresh) > 0: // with another body it might come first, and count
			c.publishAsk(fresh[r.IntN(len(fresh))])
		case x < 0.5 && len(old) > 0:
			c.replay(r, old[r.IntN(len(old))])
		default:
			topic := []string{c.topics.Budget(), c.topics.Preference(), c.topics.Mission()}[r.IntN(3)]
			c.publish(topic, malformed(r))
		}
	}
	if r.IntN(2) == 0 {
		c.oversize()
	}
	c.send(c.newAsk(r, "budget"))
}

// oversize sends what a broker ends a connection for, on one of its own.
func (c *crew) oversize() {
	i := &telemetry.Client{Broker: c.client.Broker, Name: "intruder", Log: slog.New(slog.DiscardHandler)}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if i.Initialize(ctx) == nil {
		i.Publish(telemetry.Publication{Topic: c.topics.Budget(), QoS: 1, Payload: bytes.Repeat([]byte("x"), 200<<10)})
		i.Close()
	}
}

// replay sends an accepted id again, with its own body or another's.
func (c *crew) replay(r *rand.Rand, a *ask) {
	var topic string
	var body []byte
	switch r.IntN(4) {
	case 0:
		c.publishAsk(a)
		return
	case 1:
		topic, body = c.topics.Budget(), fmt.Appendf(nil, `{"id":%q,"energy_j":%v,"mode":"target"}`, a.id, poisonJ+r.Float64())
	case 2:
		topic, body = c.topics.Preference(), fmt.Appendf(nil, `{"id":%q,"setting":%v}`, a.id, poisonSetting)
	case 3:
		topic, body = c.topics.Mission(), fmt.Appendf(nil, `{"id":%q,"action":"stop"}`, a.id)
	}
	if r.IntN(2) == 0 { // signed, where that is done; or else not
		c.mutex.Lock()
		body = c.sign(topic, body)
		c.mutex.Unlock()
	}
	c.publish(topic, body)
}

// malformed is what no leader must answer, or fall over.
func malformed(r *rand.Rand) []byte {
	texts := []string{
		``, `{`, `null`, `[]`, `"stop"`, `{"id":"","action":"stop"}`, `{"id":7,"action":"stop"}`, `{"action":"stop"}`,
		`{"id":"../../x","action":"stop"}`, `{"id":"a b","energy_j":1}`, `{"energy_j":77777,"mode":"target"}`, `{"setting":0.777}`,
		`{"key":"crew-1","counter":1,"body":"{}","signature":"AAAA"}`, strings.Repeat("[", 3000), strings.Repeat(`{"a":`, 500),
		"\xff\xfe\x00", `{"id":"` + strings.Repeat("x", 65) + `","action":"stop"}`,
	}
	return []byte(texts[r.IntN(len(texts))])
}

// failures returns the commands lost and applied twice, and the last status.
func (c *crew) failures() (lost, doubled []string, slowest time.Duration) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return slices.Clone(c.lost), slices.Clone(c.doubled), c.slowest
}

// off tells whether the crew's radio is off.
func (c *crew) off() bool {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.silent
}

func (c *crew) now() (telemetry.Status, int) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.status, c.statuses
}
