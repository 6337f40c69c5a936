package ledger

import (
	"bytes"
	"fmt"
	"path/filepath"
	"slices"

	bolt "go.etcd.io/bbolt"

	"prefdt/firmware/account"
)

// Flight is one mission's record: its last state and the rows that are kept.
type Flight struct {
	State    State         `json:"state"`
	Rows     []account.Row `json:"rows"`
	Commands []Command     `json:"commands,omitempty"` // handled in it, of those that are kept
}

const (
	defaultRowBytes    = 64e6
	minRowBytes        = 1e6
	entryOverheadBytes = 32 // of an entry beyond key and value, about
)

// SetMaxRowBytes bounds the rows in bytes: half for the present mission, whose oldest
// rows are deleted first, half for the earlier flights, of which the oldest are
// deleted first. Everything else in the file is small and of constant size.
func (l *Ledger) SetMaxRowBytes(n float64) { l.maxRowBytes = int(max(n, minRowBytes)) }

// rowCost is what a row of the ledger takes of the bound.
func rowCost(raw []byte) int { return len(raw) + 8 + entryOverheadBytes }

// dropOldRows deletes the oldest rows beyond the bound, and returns what the rest take of
// the total that all of them take. The newest row always stays.
func (l *Ledger) dropOldRows(slots *bolt.Bucket, total int) (int, error) {
	c := slots.Cursor()
	last, _ := slots.Cursor().Last()
	for total > l.maxRowBytes/2 {
		key, raw := c.First()
		if len(key) != 8 || bytes.Equal(key, last) {
			break
		}
		total -= rowCost(raw)
		l.sum -= sumOf(key, raw)
		if err := c.Delete(); err != nil {
			return total, err
		}
	}
	return total, nil
}

// archiveFlight moves the present mission's record, if it has rows, to the earlier
// flights, and frees space for the next.
func (l *Ledger) archiveFlight(tx *bolt.Tx) error {
	flights, err := tx.CreateBucketIfNotExists(bucketFlights)
	if err != nil {
		return err
	}
	state := bytes.Clone(tx.Bucket(bucketState).Get(keyState))
	if first, _ := tx.Bucket(bucketSlots).Cursor().First(); state == nil || first == nil {
		return nil
	}
	sequence, err := flights.NextSequence()
	if err != nil {
		return err
	}
	flight, err := flights.CreateBucket(encodeUint64(sequence))
	if err != nil {
		return err
	}
	if err := l.put(flight, keyState, state); err != nil {
		return err
	}
	if err := tx.MoveBucket(bucketSlots, nil, flight); err != nil {
		return fmt.Errorf("archive the last mission: %w", err)
	}
	if _, err := tx.CreateBucket(bucketSlots); err != nil {
		return err
	}
	return l.dropOldFlights(flights)
}

// dropOldFlights deletes the oldest flights until the rest fit.
func (l *Ledger) dropOldFlights(flights *bolt.Bucket) error {
	var names [][]byte
	var sizes []int
	total := 0
	err := flights.ForEachBucket(func(name []byte) error {
		n := 0
		flights.Bucket(name).Bucket(bucketSlots).ForEach(func(key, value []byte) error {
			n += len(key) + len(value) + entryOverheadBytes
			return nil
		})
		names, sizes, total = append(names, bytes.Clone(name)), append(sizes, n), total+n
		return nil
	})
	for i := 0; err == nil && total > l.maxRowBytes/2; i++ {
		l.sum -= sumUnder(flights.Bucket(names[i]))
		err = flights.DeleteBucket(names[i])
		total -= sizes[i]
	}
	return err
}

// eachFlight calls f with the stored state and rows of every flight: the earlier ones, the
// oldest first, and then the present mission, if one was begun.
func eachFlight(tx *bolt.Tx, f func(state []byte, slots *bolt.Bucket, present bool) error) error {
	if flights := tx.Bucket(bucketFlights); flights != nil { // nil: a ledger of one mission
		if err := flights.ForEachBucket(func(name []byte) error {
			b := flights.Bucket(name)
			return f(b.Get(keyState), b.Bucket(bucketSlots), false)
		}); err != nil {
			return err
		}
	}
	if state := tx.Bucket(bucketState).Get(keyState); state != nil {
		return f(state, tx.Bucket(bucketSlots), true)
	}
	return nil
}

// flight decodes a flight without its rows.
func (l *Ledger) flight(state []byte, commands []Command) (f Flight, err error) {
	err = l.decodeWithChecksum(state, &f.State)
	for _, c := range commands {
		if c.Mission == f.State.Mission {
			f.Commands = append(f.Commands, c)
		}
	}
	return f, err
}

// Flights returns all records, the earliest first and the present mission last.
func (l *Ledger) Flights() (all []Flight, err error) {
	commands, err := l.Commands()
	if err != nil {
		return nil, err
	}
	err = l.db.View(func(tx *bolt.Tx) error {
		return eachFlight(tx, func(state []byte, slots *bolt.Bucket, _ bool) error {
			f, err := l.flight(state, commands)
			if err != nil {
				return err
			}
			err = slots.ForEach(func(_, raw []byte) error {
				var r account.Row
				err := l.decodeWithChecksum(raw, &r)
				f.Rows = append(f.Rows, r)
				return err
			})
			all = append(all, f)
			return err
		})
	})
	return all, err
}

// LastRows returns the present mission's last rows, n at most, in order.
func (l *Ledger) LastRows(n int) (rows []account.Row, err error) {
	err = l.db.View(func(tx *bolt.Tx) error {
		c := tx.Bucket(bucketSlots).Cursor()
		for key, raw := c.Last(); key != nil && len(rows) < n; key, raw = c.Prev() {
			var r account.Row
			if err := l.decodeWithChecksum(raw, &r); err != nil {
				return err
			}
			rows = append(rows, r)
		}
		slices.Reverse(rows)
		return nil
	})
	return rows, err
}

// Path returns the ledger's file in a state directory.
func Path(dir string) string { return filepath.Join(dir, fileName) }
