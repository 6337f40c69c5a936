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
	"sync/atomic"
	"time"

	"prefdt/simbridge/record"
	"prefdt/telemetry"
	"prefdt/telemetry/command"
)

// crew is a ground crew that checks the leader: it keeps its requests and their
// answers, and compares the status with them.
type crew struct {
	telemetry.Observer
	client   *telemetry.Client
	users    *telemetry.Client // what users send
	onBeacon func(telemetry.Slot, time.Time)
	onReport func(user string, r telemetry.Report)
	// leaderEnded reports whether the leader exited without being killed on purpose.
	leaderEnded func() bool
	// onAnswer is called with each mission command's answer, from one goroutine.
	onAnswer    func(*request)
	key         ed25519.PrivateKey // nil: nothing is signed
	radioOff    atomic.Bool        // the crew cannot reach the broker: it sends nothing
	diskStalled atomic.Bool        // the leader's disk finishes no write

	requests         map[string]*request
	lastAnswered     *request // the last command that was answered; nil: none
	challenge        string   // of the last status or acknowledgement
	statusReceivedAt time.Time
	state            State           // by the last acknowledgement, beacon or status
	signCounter      uint64          // of the station
	leader           *command.Leader // whose answers are signed; nil: without keys
	heartbeatsSent   int64
	otherStationAt   int64                            // so many sent, another station with the crew's key sends one; 0: never
	heartbeats       [][]byte                         // the last ones as they were sent, as anybody may have recorded them
	downAt           time.Time                        // the leader or the broker was last absent
	fleetJ           float64                          // what the fleet's packs hold: no budget is more; 0: any may be asked for
	packs            func(id string) telemetry.Budget // every budget is one of the packs; nil: of the fleet's total
}

// request is one command.
type request struct {
	id, topic   string
	payload     []byte
	budgetJ     float64 // 0: not a budget
	action      string  // of a mission command
	undo        func()  // of what was noted when it was sent
	endsHold    bool    // which is to go on
	sent        time.Time
	interrupted bool            // the leader or the broker was absent since
	digests     map[string]bool // of the payloads sent, one of which an answer names
	aircraft    []int           // named, from 0
	recorded    []byte          // the payload last sent, as anybody may have recorded it
	ack         *telemetry.Ack
	accepted    bool
	reason      string
}

// The values in a replay of an old id. No other command has them, so that any effect of
// a replay is visible.
const (
	replayBudgetJ = 77_777
	replaySetting = 0.777
)

// maxWait bounds every wait; it is longer than the longest return.
const maxWait = 45 * time.Second

// answerTimeout is the wall time in which a leader that is online answers.
const answerTimeout = 6 * time.Second

func newCrew(ctx context.Context, m *mission) (*crew, error) {
	topics, err := telemetry.NewTopics(fleetName)
	if err != nil {
		return nil, err
	}
	c := &crew{
		Observer: telemetry.Observer{Topics: topics}, requests: map[string]*request{},
		onBeacon: m.handleBeacon, onReport: m.watch.handleReport, onAnswer: func(*request) {},
	}
	c.Decode = c.decode
	if m.plan.OtherStation {
		const sent = 5
		c.otherStationAt = sent
	}
	if m.plan.LandsAtReserve || m.plan.lands() {
		c.packs = func(id string) telemetry.Budget { return m.plan.packsRequest(id, m.capacityJ) }
	}
	newClient := func(subscriptions ...telemetry.Subscription) *telemetry.Client {
		return &telemetry.Client{
			Broker: m.brokerOf("crew"), Name: "crew", Log: slog.New(slog.DiscardHandler), Retry: 100 * time.Millisecond,
			Handle:        c.handleMessage,
			Subscriptions: subscriptions,
		}
	}
	c.client = newClient(telemetry.Subscription{Filter: topics.AllAcks(), QoS: 1}, telemetry.Subscription{Filter: topics.Status()},
		telemetry.Subscription{Filter: topics.Online(), QoS: 1}, telemetry.Subscription{Filter: topics.Slot()})
	c.client.OnDisconnect = func(error) { c.noteOutage() }
	c.users = newClient(telemetry.Subscription{Filter: topics.AllReports()})
	if err := c.users.Initialize(ctx); err != nil {
		return nil, err
	}
	if err := c.client.Initialize(ctx); err != nil {
		c.users.Close()
		return nil, err
	}
	return c, nil
}

// noteOutage notes that the leader or the broker is, or was, absent.
func (c *crew) noteOutage() {
	c.Lock()
	defer c.Unlock()
	c.downAt = time.Now()
}

// isUp reports whether both are present, by a status that was not on its way already
// when one left. Called with the lock held.
func (c *crew) isUp() bool {
	return c.statusReceivedAt.Sub(c.downAt) > 50*time.Millisecond && c.client.Connected()
}

func (c *crew) isDown() bool {
	c.Lock()
	defer c.Unlock()
	return !c.isUp()
}

func (c *crew) handleMessage(m telemetry.Message) {
	if kind, id, _ := c.Topics.Parse(m.Topic); kind == telemetry.KindReport {
		if r, err := telemetry.DecodeReport(m.Payload); err == nil {
			c.onReport(id, r)
		}
		return
	}
	notify := func() {} // the mission, without the lock
	c.Observe(m, func(id string, v any, err error) {
		switch v := v.(type) {
		case telemetry.Slot:
			if c.state == Climbing {
				c.state = Flying
			}
			notify = func() { c.onBeacon(v, m.Received) }
		case telemetry.Status:
			if c.challenge = v.Challenge; !m.Retained { // published after the subscription
				c.statusReceivedAt, c.state = m.Received, State(v.State)
			}
		case telemetry.Ack:
			if req := c.handleAck(id, v, m); req != nil {
				notify = func() { c.onAnswer(req) }
			}
		}
	})
	notify()
}

// decode checks the leader's signatures, and leaves out what this run forged.
func (c *crew) decode(kind telemetry.Kind, m telemetry.Message) (any, error) {
	v, _ := telemetry.DecodePublished(kind, m)
	if s, ok := v.(telemetry.Slot); ok && s.ReportByMS == forgedReportByMS {
		return nil, nil
	}
	if s, ok := v.(telemetry.Status); ok && s.Slots == forgedSlots {
		return nil, nil
	}
	return c.leader.Decode(kind, m)
}

// forgedReportByMS and forgedSlots mark the forged messages of this run.
const (
	forgedReportByMS = 1.25
	forgedSlots      = 987_654_321
)

// stateAfter is the state that an accepted action leads to.
var stateAfter = map[string]State{
	telemetry.ActionStart: Climbing, telemetry.ActionHold: Holding, telemetry.ActionReturn: Returning, telemetry.ActionStop: Stopped,
}

// handleAck returns the mission command that is answered, if any.
func (c *crew) handleAck(id string, ack telemetry.Ack, m telemetry.Message) *request {
	req := c.requests[id]
	switch {
	case ack.ID != id:
		return nil
	case !ack.Accepted && ack.Challenge != "" && (req != nil || ack.Key == crewKeyName): // the command is to be signed again
		c.signCounter = max(c.signCounter, *ack.LastCounter)
		c.challenge = ack.Challenge
		for _, b := range c.requests { // only one a second is answered with a challenge
			b.interrupted = b.interrupted || b.ack == nil
		}
		return nil
	case !ack.Accepted && (req == nil || ack.Of != "" && !req.digests[ack.Of]):
		return nil // for a message that was sent to be refused
	case req == nil || req.ack != nil:
		return nil
	}
	c.lastAnswered = req
	req.ack, req.accepted, req.reason = &ack, ack.Accepted, ack.Reason
	if req.action == "" {
		return nil
	}
	if s, ok := stateAfter[req.action]; ok && ack.Accepted {
		c.state = s
	}
	return req
}

// hasUnanswered reports whether a command was not answered. Called with the lock held.
func (c *crew) hasUnanswered() bool {
	return slices.ContainsFunc(slices.Collect(maps.Values(c.requests)), func(req *request) bool { return req.ack == nil })
}

// newRequest is a command: a budget, a preference, or an action of the mission for named
// aircraft, from 0, or for none.
func (c *crew) newRequest(r *rand.Rand, kind string, aircraft ...int) *request {
	req := &request{id: fmt.Sprintf("%s-%08x", kind, r.Uint32()), digests: map[string]bool{}}
	if c.packs != nil && (kind == "budget" || kind == "preference") { // nothing else is asked for
		kind = "packs"
	}
	switch kind {
	case "packs":
		req.topic = c.Topics.Budget()
		req.payload, _ = telemetry.Encode(c.packs(req.id))
	case "budget":
		req.budgetJ = 5000 + float64(r.IntN(40_000))
		if c.fleetJ > 0 {
			req.budgetJ = min(req.budgetJ, math.Floor(c.fleetJ))
		}
		req.topic = c.Topics.Budget()
		mode := []string{telemetry.ModeTarget, telemetry.ModeCeiling}[r.IntN(2)]
		req.payload, _ = telemetry.Encode(telemetry.Budget{ID: req.id, EnergyJ: req.budgetJ, Mode: mode})
	case "preference":
		req.topic = c.Topics.Preference()
		req.payload, _ = telemetry.Encode(telemetry.Preference{ID: req.id, Setting: float64(r.IntN(700)) / 1000})
	default: // a mission action
		req.action, req.topic = kind, c.Topics.Mission()
		var numbers []int
		req.aircraft = aircraft
		for _, i := range aircraft {
			numbers = append(numbers, i+1)
		}
		req.payload, _ = telemetry.Encode(telemetry.Mission{ID: req.id, Action: kind, Aircraft: numbers})
	}
	return req
}

// newMission is the command that begins another mission.
func (c *crew) newMission(r *rand.Rand, id string) *request {
	req := c.newRequest(r, telemetry.ActionNew)
	req.payload, _ = telemetry.Encode(telemetry.Mission{ID: req.id, Action: telemetry.ActionNew, Mission: id})
	return req
}

// send sends a command once; resendUnanswered sends it again if no answer is possible.
func (c *crew) send(req *request) {
	c.Lock()
	req.sent, req.interrupted = time.Now(), !c.isUp() // the leader may not receive it
	c.requests[req.id] = req
	c.Unlock()
	c.publishRequest(req)
}

func (c *crew) publishRequest(req *request) {
	c.Lock()
	payload := c.sign(req.topic, req.payload)
	req.digests[telemetry.Digest(payload)], req.recorded = true, payload
	c.Unlock()
	c.publish(req.topic, payload)
}

// sendOvertaken sends a command, and then one that was signed before it and has been
// withheld: its counter is not the present one any more.
func (c *crew) sendOvertaken(r *rand.Rand, req *request) {
	withheld := c.withhold(r, 0)
	c.send(req)
	if withheld != nil {
		c.publish(c.Topics.Budget(), withheld)
	}
}

// withhold signs a command that must not take effect once it is sent: nil without a key.
// ahead is by how much its counter is ahead.
func (c *crew) withhold(r *rand.Rand, ahead uint64) []byte {
	c.Lock()
	defer c.Unlock()
	if c.key == nil || c.challenge == "" {
		return nil
	}
	c.signCounter++
	payload, err := c.envelope(crewStation, c.signCounter+ahead, forgedBudget(r)).Sign(c.key, c.Topics.Budget())
	if err != nil {
		return nil
	}
	return payload
}

// forgedBudget is a command that must not take effect.
func forgedBudget(r *rand.Rand) []byte {
	return fmt.Appendf(nil, `{"id":"`+record.Forged+`%08x","energy_j":%v,"mode":"target"}`, r.Uint32(), replayBudgetJ+r.Float64())
}

// envelope is a message to be signed. Called with the lock held.
func (c *crew) envelope(station string, counter uint64, body []byte) telemetry.Envelope {
	return telemetry.Envelope{Key: crewKeyName, Station: station, Counter: counter, Challenge: c.challenge, Body: string(body)}
}

// sign signs a message if the crew has a key. Called with the lock held.
func (c *crew) sign(topic string, body []byte) []byte {
	if c.key == nil {
		return body
	}
	c.signCounter++
	payload, err := c.envelope(crewStation, c.signCounter, body).Sign(c.key, topic)
	if err != nil { // before the first status
		return body
	}
	return payload
}

// crewKeyName is the name of the crew's key and of its station.
const crewKeyName = "crew-1"

// crewStation is the crew's, of which there is one in a mission.
const crewStation = "chaos-crew"

func (c *crew) publish(topic string, payload []byte) {
	c.client.Publish(telemetry.Publication{Topic: topic, QoS: 1, Payload: payload})
}

// sendHeartbeat sends a heartbeat, unless the crew's radio is off.
func (c *crew) sendHeartbeat() {
	topic := c.Topics.Heartbeat(crewKeyName)
	c.Lock()
	if c.radioOff.Load() || c.key != nil && c.challenge == "" {
		c.Unlock()
		return
	}
	c.heartbeatsSent++
	if c.heartbeatsSent == c.otherStationAt && c.key != nil { // far ahead: each station counts by itself
		const aheadBy = 1_000_000
		body, _ := telemetry.Encode(telemetry.Heartbeat{Seq: 1})
		if payload, err := c.envelope(crewStation+"-2", c.signCounter+aheadBy, body).Sign(c.key, topic); err == nil {
			defer c.client.Publish(telemetry.Publication{Topic: topic, Payload: payload})
		}
	}
	body, _ := telemetry.Encode(telemetry.Heartbeat{Seq: c.heartbeatsSent})
	payload := c.sign(topic, body)
	c.heartbeats = append(c.heartbeats[max(len(c.heartbeats)-3, 0):], payload)
	c.Unlock()
	c.client.Publish(telemetry.Publication{Topic: topic, Payload: payload})
}

// replayContact sends signed heartbeats, and a signed command, that were recorded: as
// anybody can who is connected to the broker, whom nobody else can tell from the crew.
func (c *crew) replayContact() {
	c.Lock()
	recorded, command := slices.Clone(c.heartbeats), c.lastAnswered
	c.Unlock()
	if c.key == nil {
		return
	}
	for _, payload := range recorded {
		c.client.Publish(telemetry.Publication{Topic: c.Topics.Heartbeat(crewKeyName), Payload: payload})
	}
	if command != nil {
		c.publish(command.topic, command.recorded)
	}
}

// sendAndWait sends a command and waits for its answer.
func (c *crew) sendAndWait(ctx context.Context, req *request) bool {
	c.send(req)
	c.waitFor(ctx, func() bool { return req.ack != nil })
	c.Lock()
	defer c.Unlock()
	return req.accepted
}

// resendUnanswered repeats the commands that an outage may have lost, as the crew's tool
// does, and finds those that a leader left unanswered without an outage.
func (c *crew) resendUnanswered() {
	c.Lock()
	var again []*request
	now := time.Now()
	for _, id := range slices.Sorted(maps.Keys(c.requests)) {
		req := c.requests[id]
		switch {
		case req.ack != nil:
		case !c.isUp() || c.radioOff.Load():
			req.interrupted = true
		case req.interrupted || c.downAt.After(req.sent):
			req.sent, req.interrupted = now, false
			again = append(again, req)
		case c.diskStalled.Load(): // no answer is possible
		case now.Sub(req.sent) > answerTimeout:
			delete(c.requests, id) // what that means is the judge's to say
		}
	}
	c.Unlock()
	for _, req := range again {
		c.publishRequest(req)
	}
}

// pollInterval is how often what a wait depends on beside messages is checked.
const pollInterval = 50 * time.Millisecond

// waitFor waits until a condition on the crew's state holds, for at most maxWait. The
// condition is called with the lock held.
func (c *crew) waitFor(ctx context.Context, ok func() bool) bool {
	ctx, cancel := context.WithTimeout(ctx, maxWait)
	defer cancel()
	checkedAt := time.Now()
	met := false
	c.Wait(ctx, pollInterval, func() (end bool, err error) {
		c.Lock()
		met = ok()
		c.Unlock()
		if end = met; !met && time.Since(checkedAt) >= pollInterval {
			checkedAt = time.Now()
			c.resendUnanswered()
			end = c.leaderEnded()
		}
		return end, nil
	})
	return met
}

// sendStorm sends thousands of messages: new commands, repeats of them, replays of
// earlier ones with other bodies, and malformed ones.
func (c *crew) sendStorm(r *rand.Rand, count int) {
	c.Lock()
	var old, fresh []*request
	for _, id := range slices.Sorted(maps.Keys(c.requests)) {
		if req := c.requests[id]; req.accepted {
			old = append(old, req)
		}
	}
	c.Unlock()
	for range count {
		switch x := r.Float64(); {
		case x < 0.06:
			req := c.newRequest(r, []string{"budget", "preference"}[r.IntN(2)])
			c.send(req)
			fresh = append(fresh, req)
		case x < 0.08: // well-formed, and to be refused
			req := c.newRequest(r, "budget")
			req.payload = fmt.Appendf(nil, `{"id":%q,"energy_j":%s,"mode":"target"}`, req.id,
				[]string{"1e300", "-5", "0", "1e12"}[r.IntN(4)])
			c.send(req)
		case x < 0.25 && len(fresh) > 0: // not with another body, which might arrive first and be applied
			c.publishRequest(fresh[r.IntN(len(fresh))])
		case x < 0.5 && len(old) > 0:
			c.replay(r, old[r.IntN(len(old))])
		case x < 0.53 && c.key != nil:
			c.forge(r)
		default:
			topic := []string{c.Topics.Budget(), c.Topics.Preference(), c.Topics.Mission()}[r.IntN(3)]
			c.publish(topic, malformedPayload(r))
		}
	}
	if r.IntN(2) == 0 {
		c.sendOversized()
	}
	c.send(c.newRequest(r, "budget"))
}

// sendOversized sends a message for which a broker closes the connection, on a
// connection of its own.
func (c *crew) sendOversized() {
	intruder := &telemetry.Client{Broker: c.client.Broker, Name: "intruder", Log: slog.New(slog.DiscardHandler)}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if intruder.Initialize(ctx) == nil {
		intruder.Publish(telemetry.Publication{Topic: c.Topics.Budget(), QoS: 1, Payload: bytes.Repeat([]byte("x"), 200<<10)})
		intruder.Close()
	}
}

// replay sends an accepted id again, with its own body or another's.
func (c *crew) replay(r *rand.Rand, req *request) {
	var topic string
	var body []byte
	switch r.IntN(4) {
	case 0:
		if r.IntN(2) > 0 {
			c.publishRequest(req)
			return
		}
		c.Lock()
		recorded := req.recorded
		c.Unlock()
		c.publish(req.topic, recorded)
		return
	case 1:
		topic, body = c.Topics.Budget(), fmt.Appendf(nil, `{"id":%q,"energy_j":%v,"mode":"target"}`, req.id, replayBudgetJ+r.Float64())
	case 2:
		topic, body = c.Topics.Preference(), fmt.Appendf(nil, `{"id":%q,"setting":%v}`, req.id, replaySetting)
	case 3:
		topic, body = c.Topics.Mission(), fmt.Appendf(nil, `{"id":%q,"action":"stop"}`, req.id)
	}
	if r.IntN(2) == 0 { // signed, if the crew has a key
		c.Lock()
		body = c.sign(topic, body)
		c.Unlock()
	}
	c.publish(topic, body)
}

// forge sends a budget that nobody with the crew's key gave: without a signature, or with
// another's.
func (c *crew) forge(r *rand.Rand) {
	topic, body := c.Topics.Budget(), forgedBudget(r)
	if r.IntN(2) == 0 {
		c.Lock()
		envelope := c.envelope(crewStation, c.signCounter+1_000_000, body)
		c.Unlock()
		key := ed25519.NewKeyFromSeed(fmt.Appendf(nil, "%032d", r.Uint64()))
		if signed, err := envelope.Sign(key, topic); err == nil {
			body = signed
		}
	}
	c.publish(topic, body)
}

// malformedPayload is a payload that a leader must neither answer nor fail on.
func malformedPayload(r *rand.Rand) []byte {
	texts := []string{
		``, `{`, `null`, `[]`, `"stop"`, `{"id":"","action":"stop"}`, `{"id":7,"action":"stop"}`, `{"action":"stop"}`,
		`{"id":"../../x","action":"stop"}`, `{"id":"a b","energy_j":1}`, `{"energy_j":77777,"mode":"target"}`, `{"setting":0.777}`,
		`{"key":"crew-1","counter":1,"body":"{}","signature":"AAAA"}`, strings.Repeat("[", 3000), strings.Repeat(`{"a":`, 500),
		"\xff\xfe\x00", `{"id":"` + strings.Repeat("x", 65) + `","action":"stop"}`,
	}
	return []byte(texts[r.IntN(len(texts))])
}
