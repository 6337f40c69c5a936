package ledger

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"

	bolt "go.etcd.io/bbolt"
)

// A transaction writes free pages, syncs them, and then points one of two meta pages
// at them, in turns. A loss of power leaves the other meta page in force; on a disk
// that does not keep that order, a meta page may point at pages that were never
// written. The other one then leads to the transaction before: its pages are
// overwritten by the next transaction at the earliest.

// A page that was not written holds what an earlier transaction wrote there, all of it
// valid. So the state names its transaction and the sum of all other entries.

// sumOf is an entry's part of the sum of all entries, which does not depend on their order.
func sumOf(key, value []byte) uint64 {
	return uint64(crc32.Update(crc32.ChecksumIEEE(key), crc32.IEEETable, value))
}

// put writes an entry and counts it in the sum.
func (l *Ledger) put(b *bolt.Bucket, key, value []byte) error {
	if old := b.Get(key); old != nil {
		l.sum -= sumOf(key, old)
	}
	l.sum += sumOf(key, value)
	return b.Put(key, value)
}

// remove deletes an entry and no longer counts it in the sum.
func (l *Ledger) remove(b *bolt.Bucket, key []byte) error {
	if old := b.Get(key); old != nil {
		l.sum -= sumOf(key, old)
	}
	return b.Delete(key)
}

// sumUnder is the sum of a bucket's entries, those of the buckets in it included.
func sumUnder(b *bolt.Bucket) (sum uint64) {
	b.ForEach(func(key, value []byte) error {
		if value == nil {
			sum += sumUnder(b.Bucket(key))
		} else {
			sum += sumOf(key, value)
		}
		return nil
	})
	return sum
}

// checkTransaction checks that all entries are of the last transaction.
func (l *Ledger) checkTransaction(tx *bolt.Tx) error {
	l.sum = 0
	tx.ForEach(func(name []byte, b *bolt.Bucket) error {
		if !bytes.Equal(name, bucketState) {
			l.sum += sumUnder(b)
		}
		return nil
	})
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
	if s.Tx != tx.ID() || s.Sum != nil && *s.Sum != l.sum { // an older leader wrote no sum
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
