package ledger

import (
	"bytes"
	"cmp"
	"encoding/json"

	bolt "go.etcd.io/bbolt"
)

// MaxCommands is how many handled commands are kept.
const MaxCommands = 1024

// Command is one that was applied or refused, with its acknowledgement.
type Command struct {
	ID         string          `json:"id"`
	Ack        json.RawMessage `json:"ack"`
	BodyDigest string          `json:"body,omitempty"`    // digest of the body, to tell a repeat from another command of the same id
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

// WriteCommands writes commands, in order, and the state after them, in one durable
// transaction. Beyond MaxCommands the oldest are deleted.
func (l *Ledger) WriteCommands(s State, commands []Command) error {
	return l.update(s, func(tx *bolt.Tx) error {
		log, ids := tx.Bucket(bucketCommands), tx.Bucket(bucketIDs)
		for _, c := range commands {
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
	if !bytes.Equal(ids.Get([]byte(old.ID)), key) { // it was answered anew
		return l.remove(log, key)
	}
	return cmp.Or(l.remove(ids, []byte(old.ID)), l.remove(log, key))
}
