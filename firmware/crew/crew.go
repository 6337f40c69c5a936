// Package crew carries out the ground crew's commands: each once, in order, and
// acknowledged only when it is on the disk.
//
// A command comes in verified (Keys), at any time of a slot. Its id is looked up
// first, since a repeat is answered and not applied; then its challenge and
// counter must be new; then the mission applies or refuses it; and once the
// ledger has it, the acknowledgement goes out.
package crew

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	"prefdt/firmware/clock"
	"prefdt/firmware/ledger"
	"prefdt/telemetry"
)

// Mission is what commands change.
type Mission interface {
	// Apply carries a command out and completes its acknowledgement, or says why
	// it is refused and changes nothing.
	Apply(c *Command, ack *telemetry.Ack) error
	// State is the mission as it is, for the ledger.
	State() ledger.State
	// Requested returns what takes requests applied since then back.
	Requested() (undo func())
}

// Crew is the leader's side of the crew's commands. Set the exported fields,
// then Initialize.
type Crew struct {
	Mission Mission
	Ledger  *ledger.Ledger
	Clock   clock.Clock
	Log     *slog.Logger
	Publish func(telemetry.Ack)

	challenges challenges
	counters   map[string]uint64 // last accepted, by public key; the ledger has them too
	heartbeats map[string]uint64 // the same of heartbeats, which need not outlive their challenge

	batch   []applied         // commands that wait for the disk
	undo    func()            // takes their requests back
	unsaved map[string]stored // orders to the fleet that were carried out and did not reach the disk

	answered map[string]time.Duration // when a refusal outside the ledger was last sent, by key
	last     *telemetry.LastCommand
}

// stored is an acknowledgement without what differs from answer to answer.
type stored struct {
	body string
	ack  telemetry.Ack
}

// applied is a command that waits for the disk, and then for its acknowledgement.
type applied struct {
	entry   ledger.Command
	ack     telemetry.Ack
	isOrder bool // to the fleet: it was carried out
	repeat  bool // another one of the same id is in the batch
}

// batchMost is how many commands share a transaction: a storm of them must not
// cost a slot.
const batchMost = 256

// answerEvery is how often at most a refusal goes out that the ledger does not
// have: to each key whose challenge or counter is old, and to all who cannot be
// verified together.
const answerEvery = time.Second

// Initialize reads what the ledger remembers.
func (c *Crew) Initialize(last *telemetry.LastCommand) error {
	counters, err := c.Ledger.Counters()
	if err != nil {
		return err
	}
	c.counters, c.heartbeats, c.unsaved, c.answered = counters, map[string]uint64{}, map[string]stored{}, map[string]time.Duration{}
	c.last = last
	return nil
}

// Challenge is what a command must be signed over now.
func (c *Crew) Challenge() string { return c.challenges.at(c.Clock.Now()) }

// Last is the last command that was accepted, nil before the first.
func (c *Crew) Last() *telemetry.LastCommand { return c.last }

// Heartbeat says whether a heartbeat counts.
func (c *Crew) Heartbeat(h *Heartbeat) bool {
	if h.Key == "" {
		return true
	}
	if !c.challenges.valid(h.Challenge, c.Clock.Now()) || h.Counter <= c.heartbeats[h.Public] {
		return false
	}
	c.heartbeats[h.Public] = h.Counter
	return true
}

// Command carries a command out, or answers why not. It says whether it was a
// verified one that is no repeat: a sign of life of the crew's.
func (c *Crew) Command(m *Command) (alive bool) {
	if m.Denied != "" {
		c.refuse("", m, telemetry.Ack{Reason: m.Denied})
		return false
	}
	earlier, known, err := c.lookUp(m.ID)
	switch {
	case err != nil:
		c.Log.Error("command not obeyed", "id", m.ID, "reason", err)
		return false
	case known && earlier.body != m.Body:
		c.refuse(m.Public, m, telemetry.Ack{Reason: fmt.Sprintf("id %s was used for another command", m.ID)})
		return false
	case known:
		c.repeat(m, earlier)
		return false
	}
	now := c.Clock.Now()
	if last := c.counters[m.Public]; m.Key != "" && (m.Counter <= last || !c.challenges.valid(m.Challenge, now)) {
		c.refuse(m.Public, m, telemetry.Ack{Reason: "the challenge or the counter is not the present one; sign again", Challenge: c.challenges.at(now), LastCounter: &last})
		return false
	}
	if len(c.batch) == 0 {
		c.undo = c.Mission.Requested()
	}
	ack := telemetry.Ack{ID: m.ID, Accepted: true}
	if m.Fault != "" {
		ack = telemetry.Ack{ID: m.ID, Reason: m.Fault}
	} else if err := c.Mission.Apply(m, &ack); err != nil {
		ack = telemetry.Ack{ID: m.ID, Reason: err.Error()}
	}
	ack.Key = m.Key
	raw, err := telemetry.Encode(ack)
	if err != nil {
		c.Log.Error("acknowledgement not sent", "id", m.ID, "reason", err)
		return m.Key != ""
	}
	if m.Fault == "" { // invalid ones are counted, and a storm of them must not fill the log
		c.Log.Info("command", "ack", string(raw))
	}
	if m.Key != "" {
		c.counters[m.Public] = m.Counter
	}
	if ack.Accepted {
		c.last = &telemetry.LastCommand{ID: m.ID, Key: m.Key, Slot: *ack.EffectiveSlot, What: m.what()}
	}
	entry := ledger.Command{ID: m.ID, Ack: json.RawMessage(raw), Body: m.Body, Key: m.Public, Counter: m.Counter}
	ack.Of = m.Digest
	c.batch = append(c.batch, applied{entry: entry, ack: ack, isOrder: ack.Accepted && m.Mission != nil})
	if len(c.batch) >= batchMost {
		c.Commit()
	}
	return m.Key != ""
}

// what is a command in words, for the status.
func (m *Command) what() string {
	switch {
	case m.Budget != nil:
		return fmt.Sprintf("budget %g J, %s", m.Budget.EnergyJ, m.Budget.Mode)
	case m.Preference != nil:
		return fmt.Sprintf("setting %g", m.Preference.Setting)
	case len(m.Mission.Aircraft) > 0:
		return fmt.Sprintf("%s aircraft %v", m.Mission.Action, m.Mission.Aircraft)
	}
	return m.Mission.Action
}

// lookUp finds the answer to an earlier command of the same id.
func (c *Crew) lookUp(id string) (s stored, known bool, err error) {
	for i := range c.batch {
		if b := &c.batch[i]; b.entry.ID == id && !b.repeat {
			return stored{b.entry.Body, b.ack}, true, nil
		}
	}
	if s, known = c.unsaved[id]; known {
		return s, true, nil
	}
	entry, known, err := c.Ledger.Command(id)
	if err != nil || !known {
		return s, false, err
	}
	ack, err := telemetry.DecodeAck(entry.Ack)
	return stored{entry.Body, ack}, true, err
}

// repeat answers a command that was received before as it was answered then.
func (c *Crew) repeat(m *Command, earlier stored) {
	if _, held := c.unsaved[m.ID]; held {
		c.Log.Error("command did not reach the disk, not acknowledged again", "id", m.ID)
		return
	}
	ack := earlier.ack
	ack.Of = m.Digest
	c.batch = append(c.batch, applied{entry: ledger.Command{ID: m.ID}, ack: ack, repeat: true})
}

// refuse answers what the ledger is not to have: it may come again.
func (c *Crew) refuse(key string, m *Command, ack telemetry.Ack) {
	now := c.Clock.Now()
	if at, before := c.answered[key]; before && now-at < answerEvery {
		return
	}
	c.answered[key] = now
	ack.ID, ack.Key, ack.Of = m.ID, m.Key, m.Digest
	c.Publish(ack)
}

// Commit puts what was applied on the disk, and then acknowledges it.
func (c *Crew) Commit() {
	if len(c.batch) == 0 {
		return
	}
	batch := c.batch
	c.batch = nil
	var entries []ledger.Command
	for i := range batch {
		if !batch[i].repeat {
			entries = append(entries, batch[i].entry)
		}
	}
	if len(entries) > 0 {
		if err := c.Ledger.Apply(c.Mission.State(), entries); err != nil {
			// Requests are taken back; an order to the fleet stands, and is not
			// carried out a second time.
			c.Log.Error("commands not on the disk, not acknowledged", "commands", len(entries), "reason", err)
			c.undo()
			for i := range batch {
				if b := &batch[i]; b.isOrder && len(c.unsaved) < ledger.Remembered {
					c.unsaved[b.entry.ID] = stored{b.entry.Body, b.ack}
				}
			}
			return
		}
	}
	for i := range batch {
		c.Publish(batch[i].ack)
	}
}
