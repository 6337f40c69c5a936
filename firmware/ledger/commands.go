package ledger

import (
	"encoding/binary"
	"encoding/json"

	bolt "go.etcd.io/bbolt"
)

// Remembered is how many applied commands are kept.
const Remembered = 1024

// Command is one that was applied or refused, with its acknowledgement.
type Command struct {
	ID      string          `json:"id"`
	Ack     json.RawMessage `json:"ack"`
	Key     string          `json:"key,omitempty"` // that signed it
	Counter uint64          `json:"counter,omitempty"`
}

// Ack returns the acknowledgement of an earlier command with this id.
func (l *Ledger) Ack(id string) (ack []byte, found bool, err error) {
	err = l.db.View(func(tx *bolt.Tx) error {
		sequence := tx.Bucket(bucketIDs).Get([]byte(id))
		if sequence == nil {
			return nil
		}
		var c Command
		if err := l.unseal(tx.Bucket(bucketCommands).Get(sequence), &c); err != nil {
			return err
		}
		ack, found = c.Ack, true
		return nil
	})
	return ack, found, err
}

// Counters returns the last counter accepted from each key.
func (l *Ledger) Counters() (last map[string]uint64, err error) {
	err = l.db.View(func(tx *bolt.Tx) error {
		last = counters(tx)
		return nil
	})
	return last, err
}

func counters(tx *bolt.Tx) map[string]uint64 {
	last := map[string]uint64{}
	tx.Bucket(bucketKeys).ForEach(func(key, value []byte) error {
		if len(value) == 8 {
			last[string(key)] = binary.BigEndian.Uint64(value)
		}
		return nil
	})
	return last
}

// Apply puts commands, in order, and the state they lead to on the disk, in
// one transaction. Beyond Remembered the oldest are forgotten.
func (l *Ledger) Apply(s State, commands []Command) error {
	return l.update(func(tx *bolt.Tx) error {
		log, ids, keys := tx.Bucket(bucketCommands), tx.Bucket(bucketIDs), tx.Bucket(bucketKeys)
		for _, c := range commands {
			if c.Key != "" {
				if err := keys.Put([]byte(c.Key), number(c.Counter)); err != nil {
					return err
				}
			}
			if c.ID == "" { // a repeat, signed anew: only its counter counts
				continue
			}
			sequence, err := log.NextSequence()
			if err != nil {
				return err
			}
			raw, err := seal(commandRecord{c, sequence})
			if err != nil {
				return err
			}
			if err := log.Put(number(sequence), raw); err != nil {
				return err
			}
			if err := ids.Put([]byte(c.ID), number(sequence)); err != nil {
				return err
			}
			if sequence > Remembered {
				if err := l.forget(log, ids, number(sequence-Remembered)); err != nil {
					return err
				}
			}
		}
		return putState(tx, s)
	})
}

func (l *Ledger) forget(log, ids *bolt.Bucket, sequence []byte) error {
	raw := log.Get(sequence)
	if raw == nil {
		return nil
	}
	var old Command
	if err := l.unseal(raw, &old); err != nil {
		return err
	}
	if err := ids.Delete([]byte(old.ID)); err != nil {
		return err
	}
	return log.Delete(sequence)
}
