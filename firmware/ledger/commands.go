package ledger

import (
	"cmp"
	"encoding/binary"
	"encoding/json"

	bolt "go.etcd.io/bbolt"
)

// MaxCommands is how many handled commands are kept.
const MaxCommands = 1024

// Command is one that was applied or refused, with its acknowledgement.
type Command struct {
	ID         string          `json:"id"`
	Ack        json.RawMessage `json:"ack"`
	BodyDigest string          `json:"body,omitempty"` // digest of the body, to tell a repeat from another command of the same id
	PublicKey  string          `json:"key,omitempty"`  // public key that signed it
	Counter    uint64          `json:"counter,omitempty"`
	Mission    string          `json:"mission,omitempty"` // in which it was handled; `new` in the one that it began
	What       string          `json:"what,omitempty"`    // what was requested, for people; empty: it could not be read
}

// Commands returns the commands that are kept, oldest first.
func (l *Ledger) Commands() (all []Command, err error) {
	err = l.db.View(func(tx *bolt.Tx) error {
		return tx.Bucket(bucketCommands).ForEach(func(_, raw []byte) error {
			var c Command
			err := l.decodeWithChecksum(raw, &c)
			all = append(all, c)
			return err
		})
	})
	return all, err
}

// Command returns an earlier command by its id.
func (l *Ledger) Command(id string) (c Command, found bool, err error) {
	err = l.db.View(func(tx *bolt.Tx) error {
		sequence := tx.Bucket(bucketIDs).Get([]byte(id))
		if sequence == nil {
			return nil
		}
		found = true
		return l.decodeWithChecksum(tx.Bucket(bucketCommands).Get(sequence), &c)
	})
	return c, found, err
}

// Counters returns the last counter accepted from each key.
func (l *Ledger) Counters() (last map[string]uint64, err error) {
	err = l.db.View(func(tx *bolt.Tx) error {
		last = readCounters(tx)
		return nil
	})
	return last, err
}

func readCounters(tx *bolt.Tx) map[string]uint64 {
	last := map[string]uint64{}
	tx.Bucket(bucketKeys).ForEach(func(key, value []byte) error {
		if len(value) == 8 {
			last[string(key)] = binary.BigEndian.Uint64(value)
		}
		return nil
	})
	return last
}

// WriteCommands writes commands, in order, and the state after them, in one durable
// transaction. Beyond MaxCommands the oldest are deleted.
func (l *Ledger) WriteCommands(s State, commands []Command) error {
	return l.update(s, func(tx *bolt.Tx) error {
		log, ids, keys := tx.Bucket(bucketCommands), tx.Bucket(bucketIDs), tx.Bucket(bucketKeys)
		for _, c := range commands {
			if c.PublicKey != "" {
				if err := l.put(keys, []byte(c.PublicKey), encodeUint64(c.Counter)); err != nil {
					return err
				}
			}
			sequence, err := log.NextSequence()
			if err != nil {
				return err
			}
			key := encodeUint64(sequence)
			if _, err := l.putWithChecksum(log, key, commandRecord{c, sequence}); err != nil {
				return err
			}
			if err := cmp.Or(l.put(ids, []byte(c.ID), key), l.dropOldCommand(log, ids, sequence)); err != nil {
				return err
			}
		}
		return nil
	})
}

// dropOldCommand deletes the command that is one too many beside the newest.
func (l *Ledger) dropOldCommand(log, ids *bolt.Bucket, newest uint64) error {
	key := encodeUint64(newest - MaxCommands) // no command has it while there are fewer
	raw := log.Get(key)
	if raw == nil {
		return nil
	}
	var old Command
	if err := l.decodeWithChecksum(raw, &old); err != nil {
		return err
	}
	return cmp.Or(l.remove(ids, []byte(old.ID)), l.remove(log, key))
}
