package ledger

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"reflect"

	bolt "go.etcd.io/bbolt"
)

// A transaction writes pages that are free, has them on the disk, and then
// points a meta page at them, in turns one of two. A loss of power leaves the
// meta page before in force; on a disk that does not keep that order, a meta
// page may point at what was never written. The one before then leads to the
// transaction before: its pages are written over by the next one at the earliest.

// ends are the keys of the last row and the last command: with the transaction's
// number they tell pages of different transactions from one another.
type ends struct {
	Row     []byte `json:"row"`
	Command []byte `json:"command"`
}

func endsOf(tx *bolt.Tx) *ends {
	row, _ := tx.Bucket(bucketSlots).Cursor().Last()
	command, _ := tx.Bucket(bucketCommands).Cursor().Last()
	return &ends{bytes.Clone(row), bytes.Clone(command)}
}

// whole is whether what the file holds was written by its last transaction.
func (l *Ledger) whole(tx *bolt.Tx) error {
	raw := tx.Bucket(bucketState).Get(keyState)
	if raw == nil {
		if tx.ID() > firstTx {
			return damaged(l.path, errors.New("it has no state"))
		}
		return nil
	}
	var s stateRecord
	if err := l.unseal(raw, &s); err != nil {
		return err
	}
	if found := endsOf(tx); s.Tx != tx.ID() || s.Ends != nil && !reflect.DeepEqual(s.Ends, found) {
		return damaged(l.path, fmt.Errorf("its parts are of different transactions, the last is %d", tx.ID()))
	}
	return nil
}

// firstTx makes the buckets, and is the only one that writes no state.
const firstTx = 2

// openBefore opens a damaged file as of the transaction before its last.
func openBefore(path string) (*Ledger, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	metas := readMetas(f)
	if len(metas) < 2 {
		return nil, errors.New("it has no other meta page")
	}
	last := metas[0]
	if err := write(f, make([]byte, len(last.raw)), last.offset); err != nil {
		return nil, err
	}
	l, err := openSound(path, &bolt.Options{Timeout: openTimeout})
	if err != nil {
		return nil, errors.Join(err, write(f, last.raw, last.offset))
	}
	return l, nil
}

func write(f *os.File, raw []byte, offset int64) error {
	if _, err := f.WriteAt(raw, offset); err != nil {
		return err
	}
	return f.Sync()
}

// remains says what a damaged file still holds.
func remains(path string) string {
	s, err := Recover(path)
	if err != nil || len(s.Flights) == 0 {
		return ", of which nothing can be read"
	}
	f := s.Flights[len(s.Flights)-1]
	return fmt.Sprintf(", or take what leader log recover still finds: mission %s, %s, settled before slot %d, with %d rows",
		f.State.Mission, f.State.Phase, f.State.Schedule.Next, len(f.Rows))
}

// meta is a valid meta page.
type meta struct {
	offset, pageSize           int64
	raw                        []byte
	txid, root, freelist, high uint64
}

func field(raw []byte, at int) uint64 { return binary.LittleEndian.Uint64(raw[at:]) }
