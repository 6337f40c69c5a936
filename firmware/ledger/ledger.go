// Package ledger keeps in a bbolt file what must survive a restart of the leader, one
// durable transaction a slot: the mission's state, a row per settled slot, the
// commands handled.
//
// Inputs: the state with the rows of a settlement, or with a batch of commands.
// Outputs: after a restart the last state, earlier commands by id, and all flights; a file
// of each mission that is over.
// Called by the leader's loop: after a settlement, and before commands are
// acknowledged. Package logtool reads the file after the flight, damaged or not.
package ledger

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"runtime/debug"
	"syscall"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

const (
	fileName      = "ledger.db"
	formatVersion = 2
	openTimeout   = time.Second
	// maxFileBytes bounds the file that is read; a mission of a million slots is smaller.
	maxFileBytes = 4 << 30
)

var (
	bucketState    = []byte("state")
	bucketSlots    = []byte("slots")
	bucketCommands = []byte("commands") // sequence number -> Command
	bucketIDs      = []byte("ids")      // command id -> sequence number
	// ids ever used, so that none is used again
	bucketMissions = []byte("missions")
	// sequence number -> an earlier mission's state and slots
	bucketFlights = []byte("flights")
	buckets       = [][]byte{bucketState, bucketSlots, bucketCommands, bucketIDs, bucketMissions} // of every ledger
	keyState      = []byte("state")
	keyFormat     = []byte("format")
)

// Ledger is the open file. It is used by one goroutine.
type Ledger struct {
	TornReason string // why the last transaction was dropped; empty: it was not
	// ReadOnlyReason is why no transaction can be written; empty: it can.
	ReadOnlyReason string
	// Disk makes a transaction durable by write, or has it fail or wait as a disk may; nil: the machine's disk
	Disk func(write func() error) error

	path        string
	db          *bolt.DB
	maxRowBytes int    // of rows, see SetMaxRowBytes
	rowBytes    int    // of the present mission's rows
	sum         uint64 // of all entries but the state, see sumOf

	mission string // of the last transaction; empty: none since it was opened
}

// Open opens the ledger of a directory, or creates it. Where a loss of power tore the
// last transaction, it opens as of the one before. One that may only be read, as on a file
// system that was remounted after an error, opens with a reason, and its writes fail. Any
// other damage, and another format, is an error: a ledger is never reset.
func Open(dir string) (*Ledger, error) {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, fmt.Errorf("make state directory: %w", err)
	}
	path := filepath.Join(dir, fileName)
	if _, err := os.Stat(path); err != nil {
		l, err := openFile(path, &bolt.Options{Timeout: openTimeout})
		if err != nil {
			return nil, err
		}
		if err := l.create(dir); err != nil {
			l.Close()
			return nil, err
		}
		return l, nil
	}
	l, err := openVerified(path, &bolt.Options{Timeout: openTimeout})
	if errors.Is(err, syscall.EROFS) || errors.Is(err, syscall.EACCES) {
		read, e := OpenReadOnly(path)
		if e != nil {
			return nil, err
		}
		read.ReadOnlyReason = err.Error()
		return read, nil
	}
	if !errors.As(err, new(damageError)) {
		return l, err
	}
	if before, e := openPrevious(path); e == nil {
		before.TornReason = err.Error()
		return before, nil
	}
	return nil, fmt.Errorf("%w%s", err, describeRecoverable(path))
}

// OpenReadOnly opens an existing file, of any name, for reading.
func OpenReadOnly(path string) (*Ledger, error) {
	l, err := openVerified(path, &bolt.Options{Timeout: openTimeout, ReadOnly: true})
	if errors.As(err, new(damageError)) {
		return nil, fmt.Errorf("%w%s", err, describeRecoverable(path))
	}
	return l, err
}

// openVerified opens an existing file if its pages and checksums are consistent.
func openVerified(path string, options *bolt.Options) (*Ledger, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("read ledger: %w", err)
	}
	if info.Size() == 0 || info.Size() > maxFileBytes {
		return nil, damageError{path, fmt.Errorf("its size is %d bytes", info.Size())}
	}
	if err := lockAndCheckPages(path, info.Size()); err != nil {
		return nil, openError(path, err)
	}
	l, err := openFile(path, options)
	if err != nil {
		return nil, err
	}
	if err := guard(path, l.check); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

func openFile(path string, options *bolt.Options) (*Ledger, error) {
	l := &Ledger{path: path, maxRowBytes: defaultRowBytes}
	err := guard(path, func() (err error) {
		l.db, err = bolt.Open(path, 0o640, options)
		return err
	})
	if err != nil {
		return nil, openError(path, err)
	}
	return l, nil
}

// openError tells a file in use, and a file system that refuses, whatever the file holds,
// from damage.
func openError(path string, err error) error {
	switch {
	case errors.Is(err, ErrInUse), errors.Is(err, bolterrors.ErrTimeout):
		return fmt.Errorf("ledger %s is %w", path, ErrInUse)
	case errors.As(err, new(damageError)):
		return err
	case errors.As(err, new(syscall.Errno)):
		return fmt.Errorf("open ledger %s: %w; the leader must be able to read and write it", path, err)
	}
	return damageError{path, err}
}

// guard calls a function that reads the file as mapped by bbolt: a page fault or a
// panic in it is damage.
func guard(path string, f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = damageError{path, fmt.Errorf("%v", r)}
		}
	}()
	return f()
}

func lockAndCheckPages(path string, size int64) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	// bbolt's own lock: pages that another process is writing look damaged.
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return ErrInUse
	}
	return checkPages(f, size)
}

// ErrInUse is a ledger that another process has open.
var ErrInUse = errors.New("in use by another leader")

// Close releases the file.
func (l *Ledger) Close() error { return l.db.Close() }

// damageError is a file that is not consistent.
type damageError struct {
	path string
	err  error
}

func (d damageError) Error() string {
	return fmt.Sprintf("ledger %s is damaged: %v; move it away to give up that mission's record", d.path, d.err)
}

func (l *Ledger) create(dir string) error {
	err := l.db.Update(func(tx *bolt.Tx) error {
		for _, name := range buckets {
			if _, err := tx.CreateBucketIfNotExists(name); err != nil {
				return err
			}
		}
		return tx.Bucket(bucketState).Put(keyFormat, []byte{formatVersion})
	})
	if err != nil {
		return fmt.Errorf("make ledger %s: %w", l.path, err)
	}
	if err := syncFolder(dir); err != nil { // the file's name must survive too
		return fmt.Errorf("sync state directory: %w", err)
	}
	return nil
}

func (l *Ledger) check() error {
	return l.db.View(func(tx *bolt.Tx) error {
		if b := tx.Bucket(bucketState); b != nil { // another format has other buckets, and is no damage
			if got := b.Get(keyFormat); len(got) == 1 && got[0] != formatVersion {
				return fmt.Errorf("ledger %s has format %v, this leader reads %d; move it away to begin a new one", l.path, got,
					formatVersion)
			}
		}
		for _, name := range buckets {
			if tx.Bucket(name) == nil {
				return damageError{l.path, fmt.Errorf("it has no %s", name)}
			}
		}
		if err := l.checkTransaction(tx); err != nil {
			return err
		}
		if got := tx.Bucket(bucketState).Get(keyFormat); !bytes.Equal(got, []byte{formatVersion}) {
			return damageError{l.path, fmt.Errorf("its format is %v", got)}
		}
		if err := tx.Bucket(bucketCommands).ForEach(func(_, encoded []byte) error { return l.decodeWithChecksum(encoded, nil) }); err !=
			nil {
			return err
		}
		l.rowBytes = 0
		return eachFlight(tx, func(state []byte, slots *bolt.Bucket, present bool) error {
			if err := l.decodeWithChecksum(state, nil); err != nil {
				return err
			}
			return slots.ForEach(func(_, encoded []byte) error {
				if present {
					l.rowBytes += rowCost(encoded)
				}
				return l.decodeWithChecksum(encoded, nil)
			})
		})
	})
}

// encodeWithChecksum encodes a value and appends a checksum: bbolt's own checksums
// cover its meta pages, not the values.
func encodeWithChecksum(v any) ([]byte, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("write ledger: %w", err)
	}
	return binary.BigEndian.AppendUint32(raw, crc32.ChecksumIEEE(raw)), nil
}

func (l *Ledger) putWithChecksum(b *bolt.Bucket, key []byte, v any) (raw []byte, err error) {
	if raw, err = encodeWithChecksum(v); err == nil {
		err = l.put(b, key, raw)
	}
	return raw, err
}

func (l *Ledger) decodeWithChecksum(encoded []byte, v any) error {
	if len(encoded) < 4 {
		return damageError{l.path, errors.New("a value is cut short")}
	}
	raw, sum := encoded[:len(encoded)-4], binary.BigEndian.Uint32(encoded[len(encoded)-4:])
	if crc32.ChecksumIEEE(raw) != sum {
		return damageError{l.path, errors.New("a checksum does not match")}
	}
	if v == nil {
		return nil
	}
	if err := json.Unmarshal(raw, v); err != nil {
		return damageError{l.path, err}
	}
	return nil
}

func encodeUint64(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }
