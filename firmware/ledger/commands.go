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
	Body    string          `json:"body,omitempty"` // digest of the command, to tell a repeat from another one of the same id
	Key     string          `json:"key,omitempty"`  // public key that signed it
	Counter uint64          `json:"counter,omitempty"`
}

// Command returns an earlier command by its id.
func (l *Ledger) Command(id string) (c Command, found bool, err error) {
	err = l.db.View(func(tx *bolt.Tx) error {
		sequence := tx.Bucket(bucketIDs).Get([]byte(id))
		if sequence == nil {
			return nil
		}
		found = true
		return l.unseal(tx.Bucket(bucketCommands).Get(sequence), &c)
	})
	return c, found, err
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
	return l.update(s, func(tx *bolt.Tx) error {
		log, ids, keys := tx.Bucket(bucketCommands), tx.Bucket(bucketIDs), tx.Bucket(bucketKeys)
		for _, c := range commands {
			if c.Key != "" {
				if err := keys.Put([]byte(c.Key), number(c.Counter)); err != nil {
					return err
				}
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
		return nil
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
