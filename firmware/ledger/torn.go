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

// A transaction writes free pages, syncs them, and then points one of two meta pages
// at them, in turns. A loss of power leaves the other meta page in force; on a disk
// that does not keep that order, a meta page may point at pages that were never
// written. The other one then leads to the transaction before: its pages are
// overwritten by the next transaction at the earliest.

// lastKeys are the keys of the last row and the last command: with the transaction's
// number they tell pages of different transactions from one another.
type lastKeys struct {
	Row     []byte `json:"row"`
	Command []byte `json:"command"`
}

func readLastKeys(tx *bolt.Tx) *lastKeys {
	row, _ := tx.Bucket(bucketSlots).Cursor().Last()
	command, _ := tx.Bucket(bucketCommands).Cursor().Last()
	return &lastKeys{bytes.Clone(row), bytes.Clone(command)}
}

// checkTransaction checks that state, rows and commands are of the last transaction.
func (l *Ledger) checkTransaction(tx *bolt.Tx) error {
	raw := tx.Bucket(bucketState).Get(keyState)
	if raw == nil {
		if tx.ID() > firstTxID {
			return damageError{l.path, errors.New("it has no state")}
		}
		return nil
	}
	var s stateRecord
	if err := l.decodeWithChecksum(raw, &s); err != nil {
		return err
	}
	if found := readLastKeys(tx); s.Tx != tx.ID() || s.LastKeys != nil && !reflect.DeepEqual(s.LastKeys, found) {
		return damageError{l.path, fmt.Errorf("its parts are of different transactions, the last is %d", tx.ID())}
	}
	return nil
}

// firstTxID is the transaction that creates the buckets, the only one without a state.
const firstTxID = 2

// openPrevious opens a damaged file as of the transaction before its last.
func openPrevious(path string) (*Ledger, error) {
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
	if err := writeAndSync(f, make([]byte, len(last.raw)), last.offset); err != nil {
		return nil, err
	}
	l, err := openVerified(path, &bolt.Options{Timeout: openTimeout})
	if err != nil {
		return nil, errors.Join(err, writeAndSync(f, last.raw, last.offset))
	}
	return l, nil
}

func writeAndSync(f *os.File, raw []byte, offset int64) error {
	if _, err := f.WriteAt(raw, offset); err != nil {
		return err
	}
	return f.Sync()
}

// describeRecoverable describes what a damaged file still contains, for its error.
func describeRecoverable(path string) string {
	s, err := Recover(path)
	if err != nil || len(s.Flights) == 0 {
		return ", of which nothing can be read"
	}
	f := s.Flights[len(s.Flights)-1]
	return fmt.Sprintf(", or take what leader log recover still finds: mission %s, %s, settled before slot %d, with %d rows",
		f.State.Mission, f.State.Phase, f.State.Schedule.Next, len(f.Rows))
}

type meta struct {
	offset, pageSize                int64
	raw                             []byte
	txid, root, freelist, highWater uint64
}

func uint64At(raw []byte, at int) uint64 { return binary.LittleEndian.Uint64(raw[at:]) }
