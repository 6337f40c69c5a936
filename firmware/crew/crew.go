// Package crew handles the ground crew's commands: each is applied once, in order, and
// acknowledged only when it is durable.
//
// Keys decodes and verifies messages where they arrive; it is used by package link.
// Handler is used by the leader's loop. Inputs: decoded commands and heartbeats, at
// any time of a slot. Outputs: changes of the mission, by way of Executor; entries of
// the ledger; acknowledgements, by way of Publish. A command's id is looked up first,
// since a repeat is answered and not applied; then its challenge and counter must be
// new; then the mission applies or refuses it; and once the ledger has it, it is
// acknowledged.
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

// Executor is the mission that commands change.
type Executor interface {
	// Apply executes a command and completes its acknowledgement, or returns why it
	// is refused and changes nothing.
	Apply(c *Command, ack *telemetry.Ack) error
	// State is the mission's present state, for the ledger.
	State() ledger.State
	// RequestSavepoint returns a function that undoes the requests applied since.
	RequestSavepoint() (undo func())
}

// Handler is the leader's side of the crew's commands. Set the exported fields,
// then Initialize.
type Handler struct {
	Executor Executor
	Ledger   *ledger.Ledger
	Clock    clock.Clock
	Log      *slog.Logger
	Publish  func(telemetry.Ack)

	challenges        challenges
	counters          map[string]uint64 // last accepted, by public key; the ledger has them too
	heartbeatCounters map[string]uint64 // last of heartbeats, not durable: a heartbeat expires with its challenge

	uncommitted []answer          // commands whose transaction is not written yet
	rollback    func()            // undoes their requests
	unpersisted map[string]answer // mission commands that were executed and could not be written

	refusedAt   map[string]time.Duration // when a refusal outside the ledger was last sent, by key
	lastCommand *telemetry.LastCommand
}

// answer is a command that was handled, and its acknowledgement.
type answer struct {
	entry            ledger.Command
	ack              telemetry.Ack
	isMissionCommand bool // it was executed and cannot be undone
	isRepeat         bool // answered only: the first of its id is written already, or in this batch
}

// maxBatch is how many commands share a transaction: a burst of them must not cost a
// slot.
const maxBatch = 256

// refusalInterval is the least time between refusals that are not in the ledger: per
// key for stale challenges and counters, and in all for what cannot be verified.
const refusalInterval = time.Second

// Initialize reads the keys' counters from the ledger.
func (c *Handler) Initialize(last *telemetry.LastCommand) error {
	counters, err := c.Ledger.Counters()
	if err != nil {
		return err
	}
	c.counters, c.heartbeatCounters, c.unpersisted, c.refusedAt = counters, map[string]uint64{}, map[string]answer{}, map[string]time.Duration{}
	c.lastCommand = last
	return nil
}

// Challenge is the text that a command must be signed over now.
func (c *Handler) Challenge() string { return c.challenges.currentAt(c.Clock.Now()) }

// LastCommand is the last command that was accepted, nil before the first.
func (c *Handler) LastCommand() *telemetry.LastCommand { return c.lastCommand }

// AcceptHeartbeat reports whether a heartbeat counts.
func (c *Handler) AcceptHeartbeat(h *Heartbeat) bool {
	if h.KeyName == "" {
		return true
	}
	if !c.challenges.valid(h.Challenge, c.Clock.Now()) || h.Counter <= c.heartbeatCounters[h.PublicKey] {
		return false
	}
	c.heartbeatCounters[h.PublicKey] = h.Counter
	return true
}

// HandleCommand executes a command, or answers why not. It reports whether the
// command was verified and is no repeat: evidence that the crew is there.
func (c *Handler) HandleCommand(m *Command) (alive bool) {
	if m.DeniedReason != "" {
		c.refuse("", m, telemetry.Ack{Reason: m.DeniedReason})
		return false
	}
	earlier, known, err := c.lookUp(m.ID)
	switch {
	case err != nil:
		c.Log.Error("command not executed", "id", m.ID, "reason", err)
		return false
	case known && earlier.entry.BodyDigest != m.BodyDigest:
		c.refuse(m.PublicKey, m, telemetry.Ack{Reason: fmt.Sprintf("id %s was used for another command; send this one with an id of its own", m.ID)})
		return false
	case known:
		c.answerRepeat(m, earlier)
		return false
	}
	now := c.Clock.Now()
	if last := c.counters[m.PublicKey]; m.KeyName != "" && (m.Counter <= last || !c.challenges.valid(m.Challenge, now)) {
		c.refuse(m.PublicKey, m, telemetry.Ack{Reason: "the challenge or the counter is not the present one; sign again", Challenge: c.challenges.currentAt(now), LastCounter: &last})
		return false
	}
	if m.Mission != nil && m.Mission.Action == telemetry.ActionNew {
		c.Commit() // what was handled in the mission before belongs to it
	}
	if len(c.uncommitted) == 0 {
		c.rollback = c.Executor.RequestSavepoint()
	}
	ack := telemetry.Ack{ID: m.ID, Accepted: true}
	if m.InvalidReason != "" {
		ack = telemetry.Ack{ID: m.ID, Reason: m.InvalidReason}
	} else if err := c.Executor.Apply(m, &ack); err != nil {
		ack = telemetry.Ack{ID: m.ID, Reason: err.Error()}
	}
	ack.Key = m.KeyName
	raw, err := telemetry.Encode(ack)
	if err != nil {
		c.Log.Error("acknowledgement not sent", "id", m.ID, "reason", err)
		return m.KeyName != ""
	}
	if m.InvalidReason == "" { // invalid ones are counted, and a burst of them must not fill the log
		c.Log.Info("command", "ack", string(raw))
	}
	if m.KeyName != "" {
		c.counters[m.PublicKey] = m.Counter
	}
	if ack.Accepted {
		c.lastCommand = &telemetry.LastCommand{ID: m.ID, Key: m.KeyName, Slot: *ack.EffectiveSlot, What: m.summary()}
	}
	entry := ledger.Command{ID: m.ID, Ack: json.RawMessage(raw), BodyDigest: m.BodyDigest, PublicKey: m.PublicKey, Counter: m.Counter, What: m.summary()}
	ack.Of = m.PayloadDigest
	c.uncommitted = append(c.uncommitted, answer{entry: entry, ack: ack, isMissionCommand: ack.Accepted && m.Mission != nil})
	if len(c.uncommitted) >= maxBatch {
		c.Commit()
	}
	return m.KeyName != ""
}

// summary is what was requested; empty if a field of it was invalid.
func (m *Command) summary() string {
	switch {
	case m.InvalidReason != "":
		return ""
	case m.Budget != nil:
		return fmt.Sprintf("budget %g J, %s", m.Budget.EnergyJ, m.Budget.Mode)
	case m.Preference != nil:
		return fmt.Sprintf("setting %g", m.Preference.Setting)
	case m.Mission.Mission != "":
		return m.Mission.Action + " " + m.Mission.Mission
	case len(m.Mission.Aircraft) > 0:
		return fmt.Sprintf("%s aircraft %v", m.Mission.Action, m.Mission.Aircraft)
	}
	return m.Mission.Action
}

// lookUp finds the answer to an earlier command of the same id.
func (c *Handler) lookUp(id string) (a answer, known bool, err error) {
	for _, b := range c.uncommitted {
		if b.entry.ID == id && !b.isRepeat {
			return b, true, nil
		}
	}
	if a, known = c.unpersisted[id]; known {
		return a, true, nil
	}
	if a.entry, known, err = c.Ledger.Command(id); err == nil && known {
		a.ack, err = telemetry.DecodeAck(a.entry.Ack)
	}
	return a, known, err
}

// answerRepeat answers a command that was received before with its first answer.
func (c *Handler) answerRepeat(m *Command, earlier answer) {
	if _, held := c.unpersisted[m.ID]; held {
		c.Log.Error("command is not durable, not acknowledged again", "id", m.ID)
		return
	}
	ack := earlier.ack
	ack.Of = m.PayloadDigest
	c.uncommitted = append(c.uncommitted, answer{entry: ledger.Command{ID: m.ID}, ack: ack, isRepeat: true})
}

// refuse answers a command that is not written to the ledger: its id stays unused.
func (c *Handler) refuse(key string, m *Command, ack telemetry.Ack) {
	now := c.Clock.Now()
	if at, before := c.refusedAt[key]; before && now-at < refusalInterval {
		return
	}
	c.refusedAt[key] = now
	ack.ID, ack.Key, ack.Of = m.ID, m.KeyName, m.PayloadDigest
	c.Publish(ack)
}

// Commit writes what was applied to the ledger, and then acknowledges it.
func (c *Handler) Commit() {
	if len(c.uncommitted) == 0 {
		return
	}
	batch := c.uncommitted
	c.uncommitted = nil
	state := c.Executor.State()
	var entries []ledger.Command
	for _, b := range batch {
		if !b.isRepeat {
			b.entry.Mission = state.Mission
			entries = append(entries, b.entry)
		}
	}
	if len(entries) > 0 {
		if err := c.Ledger.WriteCommands(state, entries); err != nil {
			// Requests are undone; a mission command stays in effect, and is not
			// executed a second time.
			c.Log.Error("commands could not be written, not acknowledged", "commands", len(entries), "reason", err)
			c.rollback()
			for _, b := range batch {
				if b.isMissionCommand && len(c.unpersisted) < ledger.MaxCommands {
					c.unpersisted[b.entry.ID] = b
				}
			}
			return
		}
	}
	for _, b := range batch {
		c.Publish(b.ack)
	}
}

// challengeLifetimeS, wall time, is how long a challenge is the present one. It stays
// valid for as long again, so a recorded or withheld command is valid for at most
// twice that, and no clock but the leader's own is trusted.
const challengeLifetimeS = 30

// challenges are the present challenge and the one before.
type challenges struct {
	current, previous string
	since             time.Duration
}

// currentAt returns the present challenge, renewed if its time is over.
func (c *challenges) currentAt(now time.Duration) string {
	switch age := now - c.since; {
	case c.current == "" || age >= 2*challengeLifetimeS*time.Second: // both have expired
		c.previous, c.current, c.since = "", telemetry.NewChallenge(), now
	case age >= challengeLifetimeS*time.Second:
		c.previous, c.current, c.since = c.current, telemetry.NewChallenge(), now
	}
	return c.current
}

func (c *challenges) valid(challenge string, now time.Duration) bool {
	present := c.currentAt(now)
	return challenge != "" && (challenge == present || challenge == c.previous)
}
