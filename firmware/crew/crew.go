// Package crew handles the ground crew's commands: each is decided once, in order, and
// acknowledged only when it is durable.
//
// Keys decodes and verifies messages where they arrive; it is used by package link.
// Handler is used by the leader's loop. Inputs: decoded commands and heartbeats, at
// any time of a slot. Outputs: which commands are to be decided; entries of the ledger;
// acknowledgements, by way of Publish. A command's id is looked up first, since a repeat
// is answered and not decided again; then its challenge and counter must be new; then the
// leader decides it and has its answer queued; and once the ledger has it, it is
// acknowledged.
package crew

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"time"

	"prefdt/firmware/clock"
	"prefdt/firmware/ledger"
	"prefdt/telemetry"
)

// Handler is the leader's side of the crew's commands. Set the exported fields,
// then Initialize.
type Handler struct {
	Ledger  *ledger.Ledger
	Clock   clock.Clock
	Log     *slog.Logger
	Publish func(telemetry.Ack)

	challenges           challenges
	commands, heartbeats counters // used, of each kind of message

	decided []answer // not given to the ledger yet
	writing []answer // given to it, not durable yet

	refusedAt   map[string]time.Duration // when a refusal outside the ledger was last sent, by key
	lastCommand *telemetry.LastCommand   // accepted, and durable
}

// answer is a command that was decided, and its acknowledgement.
type answer struct {
	entry    ledger.Command
	ack      telemetry.Ack
	isRepeat bool // answered only: the first of its id is durable already, or precedes it
}

// MaxBatch is how many commands share a transaction: a burst of them must not cost a
// slot.
const MaxBatch = 256

// refusalInterval is the least time between refusals that are not in the ledger: per
// key for stale challenges and counters, and in all for what cannot be verified.
const refusalInterval = time.Second

// Initialize prepares for commands after the last one that the ledger has.
func (c *Handler) Initialize(last *telemetry.LastCommand) {
	c.commands, c.heartbeats, c.refusedAt, c.lastCommand = counters{}, counters{}, map[string]time.Duration{}, last
}

// Challenge is the text that a command must be signed over now.
func (c *Handler) Challenge() string { return c.challenges.currentAt(c.Clock.Now()) }

// LastCommand is the last command that was accepted and is durable, nil before the first.
func (c *Handler) LastCommand() *telemetry.LastCommand { return c.lastCommand }

// AcceptHeartbeat reports whether a heartbeat counts.
func (c *Handler) AcceptHeartbeat(h *Heartbeat) bool {
	if h.KeyName == "" {
		return true
	}
	now := c.Clock.Now()
	end, valid := c.challenges.end(h.Challenge, now)
	if !valid || h.Counter <= c.heartbeats.last(h.Signer, now) {
		return false
	}
	c.heartbeats.note(h.Signer, now, end)
	return true
}

// Admit reports whether a command is to be decided. Any other was answered: it is not
// verified, a repeat, or signed over what is not present any more. One that is not decided
// at once is admitted again, as it may have become a repeat; its counter counts as of the
// first time, whatever was decided in between.
func (c *Handler) Admit(m *Command) bool {
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
		c.refuse(m.PublicKey, m, telemetry.Ack{Reason: fmt.Sprintf("id %s belongs to another command; send this one with a new id", m.ID)})
		return false
	case known: // it gets its first answer
		earlier.ack.Of = m.PayloadDigest
		c.decided = append(c.decided, answer{entry: ledger.Command{ID: m.ID}, ack: earlier.ack, isRepeat: true})
		return false
	case c.challenges.usedID(m.ID):
		c.refuse(m.PublicKey, m, telemetry.Ack{Reason: fmt.Sprintf("id %s was used before, and its answer is no longer kept; send the "+
			"command with a new id", m.ID)})
		return false
	}
	now := c.Clock.Now()
	if m.KeyName != "" && !m.admitted {
		end, valid := c.challenges.end(m.Challenge, now)
		if last := c.commands.last(m.Signer, now); !valid || m.Counter <= last {
			c.refuse(m.PublicKey, m, telemetry.Ack{Reason: "the challenge or the counter is not the present one; sign again",
				Challenge: c.challenges.currentAt(now), LastCounter: &last})
			return false
		}
		c.commands.note(m.Signer, now, end)
	}
	m.admitted = true
	return true
}

// Answer queues the acknowledgement of a command that was decided.
func (c *Handler) Answer(m *Command, ack telemetry.Ack) {
	ack.ID, ack.Key = m.ID, m.KeyName
	raw, err := telemetry.Encode(ack)
	if err != nil {
		c.Log.Error("acknowledgement not sent", "id", m.ID, "reason", err)
		return
	}
	if m.InvalidReason == "" { // invalid ones are counted, and a burst of them must not fill the log
		c.Log.Info("command", "ack", string(raw))
	}
	entry := ledger.Command{ID: m.ID, Ack: json.RawMessage(raw), BodyDigest: m.BodyDigest, What: m.summary()}
	ack.Of = m.PayloadDigest
	c.decided = append(c.decided, answer{entry: entry, ack: ack})
}

// Overtaken refuses commands that were accepted but are not adopted, since one that acts at once came before them. Those that
// are written already are written again.
func (c *Handler) Overtaken(ids []string, reason string) {
	refused := func(b answer) answer {
		b.ack = telemetry.Ack{ID: b.ack.ID, Key: b.ack.Key, Of: b.ack.Of, Reason: reason}
		raw, err := telemetry.Encode(telemetry.Ack{ID: b.ack.ID, Key: b.ack.Key, Reason: reason})
		if err != nil {
			c.Log.Error("acknowledgement not sent", "id", b.ack.ID, "reason", err)
		}
		b.entry.Ack = raw
		c.Log.Info("command", "ack", string(raw))
		return b
	}
	for i, b := range c.decided {
		if slices.Contains(ids, b.entry.ID) {
			c.decided[i] = refused(b)
		}
	}
	var adopted []answer
	for _, b := range c.writing {
		if slices.Contains(ids, b.entry.ID) {
			c.decided = append(c.decided, refused(b))
		} else {
			adopted = append(adopted, b)
		}
	}
	c.writing = adopted
}

// Waiting is how many answers wait to be written.
func (c *Handler) Waiting() int { return len(c.decided) }

// summary is what was requested; empty if a field of it was invalid.
func (m *Command) summary() string {
	switch {
	case m.InvalidReason != "":
		return ""
	case m.Budget != nil:
		return budgetSummary(m.Budget)
	case m.Preference != nil:
		return fmt.Sprintf("setting %g", m.Preference.Setting)
	case m.Mission.Mission != "":
		return m.Mission.Action + " " + m.Mission.Mission
	case len(m.Mission.Aircraft) > 0:
		numbers := strings.Trim(fmt.Sprint(m.Mission.Aircraft), "[]")
		return m.Mission.Action + " aircraft " + strings.ReplaceAll(numbers, " ", ", ")
	}
	return m.Mission.Action
}

// budgetSummary is what a budget asks for: without a total, of how many packs.
func budgetSummary(b *telemetry.Budget) string {
	text := fmt.Sprintf("budget %g kJ, %s", math.Round(b.EnergyJ/10)/100, b.Mode)
	if b.EnergyJ == 0 {
		text = fmt.Sprintf("budget of %d packs", len(b.Packs))
	}
	if b.Scope == telemetry.ScopeLanded {
		text += ", to touchdown"
	}
	if b.StandDown == telemetry.StandDownLand {
		text += ", aircraft may land"
	}
	return text
}

// lookUp finds the answer to an earlier command of the same id.
func (c *Handler) lookUp(id string) (a answer, known bool, err error) {
	for _, batch := range [][]answer{c.writing, c.decided} {
		for _, b := range batch {
			if b.entry.ID == id && !b.isRepeat {
				return b, true, nil
			}
		}
	}
	if a.entry, known, err = c.Ledger.Command(id); err == nil && known {
		a.ack, err = telemetry.DecodeAck(a.entry.Ack)
	}
	return a, known, err
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

// TakeDecided returns the ledger's entries of the answers that wait, and the last command
// accepted once they are durable. The caller writes them and then calls Written.
func (c *Handler) TakeDecided() (entries []ledger.Command, last *telemetry.LastCommand) {
	c.writing, c.decided = c.decided, nil
	for _, b := range c.writing {
		if !b.isRepeat {
			entries = append(entries, b.entry)
		}
	}
	return entries, c.lastAccepted()
}

// lastAccepted is the last command accepted once what is being written is durable.
func (c *Handler) lastAccepted() (last *telemetry.LastCommand) {
	last = c.lastCommand
	for _, b := range c.writing {
		if !b.isRepeat && b.ack.Accepted {
			last = &telemetry.LastCommand{ID: b.entry.ID, Key: b.ack.Key, Slot: *b.ack.EffectiveSlot, What: b.entry.What}
		}
	}
	return last
}

// Written acknowledges what TakeDecided returned, now that it is durable. What could not
// be written is not acknowledged: sent again, it is decided again.
func (c *Handler) Written(err error) {
	last, batch := c.lastAccepted(), c.writing
	c.writing = nil
	if err != nil {
		c.Log.Error("commands could not be written, not acknowledged", "commands", len(batch), "reason", err)
		return
	}
	c.lastCommand = last
	for _, b := range batch {
		if b.ack.Key != "" && !b.isRepeat {
			c.challenges.noteID(b.entry.ID)
		}
		c.Publish(b.ack)
	}
}

// challengeLifetimeS, wall time, is how long a challenge is the present one. It stays
// valid for as long again, so a recorded or withheld command is valid for at most
// twice that, and no clock but the leader's own is trusted.
const challengeLifetimeS = 30

// challenges are the present challenge and the one before, each with the ids of the signed
// commands that were handled under it: of more commands than the ledger keeps, none may be
// applied again while its challenge is valid.
type challenges struct {
	current, previous string
	since             time.Duration
	ids, previousIDs  map[string]bool
}

// currentAt returns the present challenge, renewed if its time is over.
func (c *challenges) currentAt(now time.Duration) string {
	switch age := now - c.since; {
	case c.current == "" || age >= 2*challengeLifetimeS*time.Second: // both have expired
		c.previous, c.current, c.since = "", telemetry.NewChallenge(), now
		c.previousIDs, c.ids = nil, map[string]bool{}
	case age >= challengeLifetimeS*time.Second:
		c.previous, c.current, c.since = c.current, telemetry.NewChallenge(), now
		c.previousIDs, c.ids = c.ids, map[string]bool{}
	}
	return c.current
}

// end returns until when a challenge is valid; false: it is not.
func (c *challenges) end(challenge string, now time.Duration) (time.Duration, bool) {
	present := c.currentAt(now)
	if challenge == present {
		return c.since + 2*challengeLifetimeS*time.Second, true
	}
	return c.since + challengeLifetimeS*time.Second, challenge != "" && challenge == c.previous
}

func (c *challenges) noteID(id string)      { c.ids[id] = true }
func (c *challenges) usedID(id string) bool { return c.ids[id] || c.previousIDs[id] }
