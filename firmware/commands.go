package main

import (
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"prefdt/firmware/ledger"
	"prefdt/inference/goal"
	"prefdt/telemetry"
)

// command is one with a usable id, signed as it had to be.
type command struct {
	id         string
	budget     *telemetry.Budget
	preference *telemetry.Preference
	mission    *telemetry.Mission
	key        string // that signed it
	counter    uint64
	fault      string // its fields are invalid: to be refused
}

// commandKeys opens commands. The counters are the last ones accepted; the
// ledger has them too.
type commandKeys struct {
	keys     map[string]ed25519.PublicKey
	unsigned bool
	counters *counters
}

type counters struct {
	mutex sync.Mutex
	last  map[string]uint64
}

// advance takes a counter if it exceeds the last one.
func (c *counters) advance(key string, n uint64) bool {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if n <= c.last[key] {
		return false
	}
	c.last[key] = n
	return true
}

func (c *counters) of(key string) uint64 {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.last[key]
}

func (l *Leader) commandKeys() (commandKeys, error) {
	keys, err := l.Config.keys()
	if err != nil {
		return commandKeys{}, err
	}
	last, err := l.ledger.Counters()
	if err != nil {
		return commandKeys{}, err
	}
	k := commandKeys{keys: keys, unsigned: l.Config.unsigned(), counters: &counters{last: last}}
	if !k.unsigned && len(keys) == 0 {
		l.Log.Warn("no commands will be obeyed: commands.keys is empty and unsigned ones are not accepted")
	}
	return k, nil
}

var errUnsigned = &telemetry.Invalid{Kind: "command: unsigned", Text: "a command without a signature, which commands.unsigned does not allow"}

// open verifies and reads a command. With an error the command is nil unless
// its id was usable.
func (k commandKeys) open(kind telemetry.Kind, m telemetry.Message) (*command, error) {
	c, body := &command{}, m.Payload
	if telemetry.Signed(m.Payload) {
		e, err := telemetry.Verify(m.Topic, m.Payload, k.keys, k.counters.of)
		if err != nil {
			return nil, err
		}
		if !k.counters.advance(e.Key, e.Counter) {
			return nil, &telemetry.Invalid{Kind: "envelope: old counter", Text: "a counter was used twice"}
		}
		c.key, c.counter, body = e.Key, e.Counter, []byte(e.Body)
	} else if !k.unsigned {
		return nil, errUnsigned
	}
	var err error
	switch kind {
	case telemetry.KindBudget:
		var b telemetry.Budget
		b, err = telemetry.DecodeBudget(body)
		c.id, c.budget = b.ID, &b
	case telemetry.KindPreference:
		var p telemetry.Preference
		p, err = telemetry.DecodePreference(body)
		c.id, c.preference = p.ID, &p
	case telemetry.KindMission:
		var a telemetry.Mission
		a, err = telemetry.DecodeMission(body)
		c.id, c.mission = a.ID, &a
	}
	if c.id == "" {
		if c.key == "" {
			return nil, err
		}
		return c, err // its counter is used up
	}
	if err != nil {
		c.fault = err.Error()
	}
	return c, err
}

// obey applies a command once and acknowledges it. The ledger has it before
// anyone hears that it was accepted.
//
// Those that come together go to the disk together: a storm of them must not
// cost a slot.
func (l *Leader) obey(c *command) {
	l.durable() // a settlement on its way is older than this command
	if len(l.batch) == 0 {
		l.beforeBatch = l.goal.State()
	}
	defer func() {
		if len(l.batch) >= batchMost || len(l.broker.inbox) == 0 {
			l.acknowledge()
		}
	}()
	if c.id == "" {
		l.batch = append(l.batch, applied{entry: ledger.Command{Key: c.key, Counter: c.counter}})
		return
	}
	for i := range l.batch {
		if l.batch[i].entry.ID == c.id {
			l.batch = append(l.batch, applied{entry: ledger.Command{Key: c.key, Counter: c.counter}, id: c.id, ack: l.batch[i].ack})
			return
		}
	}
	ack, repeat, err := l.ledger.Ack(c.id)
	if err != nil {
		l.Log.Error("command not obeyed", "id", c.id, "reason", err)
		return
	}
	if held, ok := l.unsaved[c.id]; ok && !repeat {
		l.Log.Error("command was not durable, not acknowledged again", "id", c.id, "ack", string(held))
		return
	}
	entry := ledger.Command{Key: c.key, Counter: c.counter}
	if !repeat {
		answer := telemetry.Ack{ID: c.id, Accepted: true}
		if err := l.apply(c, &answer); err != nil {
			answer = telemetry.Ack{ID: c.id, Reason: err.Error()}
		}
		if ack, err = telemetry.Encode(answer); err != nil {
			l.Log.Error("acknowledgement not sent", "id", c.id, "reason", err)
			return
		}
		if answer.Accepted {
			entry.ID, entry.Ack = c.id, json.RawMessage(ack)
		}
		if c.fault == "" { // faults are counted, and a storm of them must not fill the log
			l.Log.Info("command", "ack", string(ack))
		}
	}
	l.batch = append(l.batch, applied{entry, c.id, ack, c.mission != nil})
}

// applied is a command that waits for the disk, and then for its acknowledgement.
type applied struct {
	entry ledger.Command
	id    string // to acknowledge; empty: none
	ack   []byte
	order bool // to the fleet: it was carried out
}

// batchMost is how many commands share a transaction.
const batchMost = 256

// acknowledge puts what was applied on the disk and says so.
func (l *Leader) acknowledge() {
	if len(l.batch) == 0 {
		return
	}
	batch := l.batch
	l.batch = nil
	var entries []ledger.Command
	for i := range batch {
		if batch[i].entry.ID != "" || batch[i].entry.Key != "" {
			entries = append(entries, batch[i].entry)
		}
	}
	if len(entries) > 0 {
		if err := l.ledger.Apply(l.ledgerState(), entries); err != nil {
			// Requests are taken back; an order to the fleet stands, and is not
			// carried out a second time.
			l.Log.Error("commands not durable, not acknowledged", "commands", len(entries), "reason", err)
			l.goal.Restore(l.beforeBatch)
			for i := range batch {
				if batch[i].order && batch[i].entry.ID != "" && len(l.unsaved) < ledger.Remembered {
					l.unsaved[batch[i].id] = batch[i].ack
				}
			}
			return
		}
	}
	for i := range batch {
		if batch[i].id != "" {
			l.broker.send(telemetry.Publication{Topic: l.broker.topics.Ack(batch[i].id), QoS: 1, Payload: batch[i].ack})
		}
	}
}

// apply changes the mission, or says why not. A command that is refused
// changes nothing.
func (l *Leader) apply(c *command, ack *telemetry.Ack) error {
	if c.fault != "" {
		return errors.New(c.fault)
	}
	effective := l.effective()
	ack.EffectiveSlot = &effective
	if c.mission != nil {
		return l.transition(c.mission.Action)
	}
	if l.ending() {
		return fmt.Errorf("the mission is %s", l.state)
	}
	if effective >= l.Config.Slots {
		return fmt.Errorf("slot %d, the last, is decided", l.Config.Slots-1)
	}
	if c.preference != nil {
		return l.goal.Prefer(c.preference.Setting)
	}
	most := l.Physics.CapacityJ * float64(len(l.Config.Aircraft))
	if !(c.budget.EnergyJ > 0 && c.budget.EnergyJ <= most) {
		return fmt.Errorf("energy_j is %v, want above 0 and at most %v, the fleet's capacity", c.budget.EnergyJ, most)
	}
	if err := l.goal.Budget(c.budget.EnergyJ, goal.Mode(c.budget.Mode)); err != nil {
		return err
	}
	saturated, floor := l.goal.Saturated(), l.goal.FloorJ()
	ack.Saturated, ack.FloorJ = &saturated, &floor
	return nil
}

// ending is whether no slot is flown any more.
func (l *Leader) ending() bool {
	return l.state == telemetry.StateReturning || l.state == telemetry.StateDone || l.state == telemetry.StateStopped
}

// effective is the first slot that a command applied now can change.
func (l *Leader) effective() int {
	if l.decided {
		return min(l.open+1, l.Config.Slots)
	}
	return l.open
}
