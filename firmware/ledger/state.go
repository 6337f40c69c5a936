package ledger

import (
	"errors"
	"fmt"
	"os"
	"slices"

	bolt "go.etcd.io/bbolt"

	"prefdt/firmware/account"
	"prefdt/firmware/fleet"
	"prefdt/firmware/mission"
	"prefdt/firmware/schedule"
	"prefdt/firmware/users"
	"prefdt/inference/duty"
	"prefdt/telemetry"
)

// State is the mission as of the last transaction: the states of the leader's packages
// that a restart needs.
type State struct {
	mission.State
	ConfiguredMission string                 `json:"configured"` // the configuration's mission at that time
	StatusSeq         int64                  `json:"seq"`        // of the last status
	Schedule          schedule.State         `json:"schedule"`
	Account           account.State          `json:"account"`
	Users             users.State            `json:"users"`
	Fleet             []fleet.SavedAircraft  `json:"fleet"`
	LastCommand       *telemetry.LastCommand `json:"last_command,omitempty"`
	Place             *Place                 `json:"place,omitempty"`
	Duty              *duty.State            `json:"duty,omitempty"` // where aircraft may land early
}

// Place is where and for whom a mission is flown: what its record means on a map.
type Place struct {
	Fleet  string       `json:"fleet"`
	SlotMS float64      `json:"slot_ms"`
	Origin fleet.Origin `json:"origin"` // of positions
	AreaM  [2]float64   `json:"area_m"` // the fence, east and north of it
}

// InFlight is whether an aircraft has an order.
func (s *State) InFlight() bool {
	return slices.ContainsFunc(s.Fleet, func(a fleet.SavedAircraft) bool { return a.UnderCommand || a.Homing })
}

// InTheAir is whether an aircraft was in the air, whoever flew it, or lost there.
func (s *State) InTheAir() bool {
	return slices.ContainsFunc(s.Fleet, func(a fleet.SavedAircraft) bool { return len(a.PossiblePath) > 0 })
}

// Load returns the state, and false for a ledger without a mission.
func (l *Ledger) Load() (s State, found bool, err error) {
	err = l.db.View(func(tx *bolt.Tx) error {
		raw := tx.Bucket(bucketState).Get(keyState)
		if raw == nil {
			return nil
		}
		found = true
		return l.decodeWithChecksum(raw, &s)
	})
	return s, found, err
}

// Peek returns the state of a directory's ledger as it stands there, without the checks of Open and without keeping the
// file; false: there is none, it is damaged, or another leader has it.
func Peek(dir string) (s State, found bool) {
	path := Path(dir)
	if _, err := os.Stat(path); err != nil {
		return s, false
	}
	l, err := openFile(path, &bolt.Options{Timeout: openTimeout, ReadOnly: true})
	if err != nil {
		return s, false
	}
	defer l.Close()
	err = guard(path, func() error {
		if l.db.View(func(tx *bolt.Tx) error {
			found = tx.Bucket(bucketState) != nil
			return nil
		}) != nil || !found {
			return damageError{path, errors.New("it has no state")}
		}
		s, found, err = l.Load()
		return err
	})
	return s, found && err == nil
}

// MissionUsed is whether a mission of this id was ever begun.
func (l *Ledger) MissionUsed(mission string) (used bool, err error) {
	err = l.db.View(func(tx *bolt.Tx) error {
		used = tx.Bucket(bucketMissions).Get([]byte(mission)) != nil
		return nil
	})
	return used, err
}

// WriteRows writes settled slots and the state after them, in one durable transaction.
func (l *Ledger) WriteRows(s State, rows []account.Row) error {
	total := 0
	err := l.update(s, func(tx *bolt.Tx) (err error) {
		slots := tx.Bucket(bucketSlots)
		slots.FillPercent = 0.95 // rows come in order
		if first, _ := slots.Cursor().First(); first != nil {
			total = l.rowBytes
		}
		for _, r := range rows {
			r.Mission = s.Mission
			key := encodeUint64(uint64(r.Slot))
			if old := slots.Get(key); old != nil {
				total -= rowCost(old)
			}
			raw, err := l.putWithChecksum(slots, key, r)
			if err != nil {
				return err
			}
			if total, err = l.dropOldRows(slots, total+rowCost(raw)); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		l.rowBytes = total
	}
	return err
}

// update writes a transaction that ends with a state. The first transaction of
// another mission archives the record of the one before.
func (l *Ledger) update(s State, f func(*bolt.Tx) error) error {
	before := l.sum
	write := func() error {
		return l.db.Update(func(tx *bolt.Tx) error {
			if s.Mission != l.mission {
				if err := l.beginMission(tx, s.Mission); err != nil {
					return err
				}
			}
			if err := f(tx); err != nil {
				return err
			}
			raw, err := encodeWithChecksum(stateRecord{s, tx.ID(), &l.sum})
			if err != nil {
				return err
			}
			return tx.Bucket(bucketState).Put(keyState, raw)
		})
	}
	disk := l.Disk
	if disk == nil {
		disk = func(write func() error) error { return write() }
	}
	if err := disk(write); err != nil {
		l.sum = before
		return fmt.Errorf("write ledger %s: %w", l.path, err)
	}
	l.mission = s.Mission
	return nil
}

// beginMission makes a mission the present one, unless it is already.
func (l *Ledger) beginMission(tx *bolt.Tx, mission string) error {
	if raw := tx.Bucket(bucketState).Get(keyState); raw != nil {
		var s State
		if err := l.decodeWithChecksum(raw, &s); err != nil {
			return err
		}
		if s.Mission == mission {
			return nil
		}
	}
	if err := l.archiveFlight(tx); err != nil {
		return err
	}
	return l.put(tx.Bucket(bucketMissions), []byte(mission), []byte{})
}
