package ledger

import (
	"fmt"

	bolt "go.etcd.io/bbolt"

	"prefdt/firmware/energy"
	"prefdt/inference/goal"
)

// State is the mission as of the last transaction.
type State struct {
	Mission  string     `json:"mission"`
	Phase    string     `json:"phase"` // CONTRACT's state
	Next     int        `json:"next"`  // the slot that may be open; never opened again
	Missed   int        `json:"missed"`
	Seq      int64      `json:"seq"` // of the last status
	TransitJ float64    `json:"transit_j"`
	Goal     goal.State `json:"goal"`
	Price    float64    `json:"price_s_per_j"` // of the last decision
	LocalS   float64    `json:"local_s"`       // delay of the last slot had all computed locally
	Aircraft []Aircraft `json:"aircraft"`
}

// Aircraft is one aircraft's part of it.
type Aircraft struct {
	Number   int          `json:"number"`
	SystemID int          `json:"system_id"`
	Meter    energy.State `json:"meter"`
	BookedJ  float64      `json:"booked_j"` // of the meter, up to the last settlement
	SpentJ   float64      `json:"spent_j"`  // of it, from slot 0 on
	TransitJ float64      `json:"transit_j"`
	// How far off the meter may have been when slot 0 began.
	StartErrorJ float64      `json:"start_error_j"`
	Ours        bool         `json:"ours"`             // flew for us
	Homing      bool         `json:"homing,omitempty"` // was on its way home
	Taken       bool         `json:"taken"`            // belongs to its pilot
	Lost        bool         `json:"lost"`
	Home        *[2]float64  `json:"home_m,omitempty"` // where it took off
	Way         [][2]float64 `json:"way_m,omitempty"`  // on which it may be, in the air
	// The autopilot's time since boot when slot Next began, and how much of it
	// a slot takes: together they number the slots after a restart.
	BootMS    float64 `json:"boot_ms"`
	MSPerSlot float64 `json:"ms_per_slot"`
}

// Row is one slot as it was settled.
type Row struct {
	Slot       int       `json:"slot"`
	Mission    string    `json:"mission"` // Settle sets it
	DelayS     float64   `json:"delay_s"`
	EnergyJ    float64   `json:"energy_j"`
	EdgeJ      float64   `json:"edge_j"`
	Factor     float64   `json:"factor"`
	PriceSPerJ float64   `json:"price_s_per_j"`
	Heard      int       `json:"heard"`
	Offloaded  int       `json:"offloaded"`
	DecisionMS float64   `json:"decision_ms"`
	Aircraft   []Account `json:"aircraft"`
}

// Account is one aircraft's joules of a slot.
type Account struct {
	Number  int           `json:"number"`
	EnergyJ float64       `json:"energy_j"`
	SpentJ  float64       `json:"spent_j"`
	Source  energy.Source `json:"source"`
	ErrorJ  float64       `json:"error_j"` // how far off SpentJ may be
	EastM   float64       `json:"east_m"`
	NorthM  float64       `json:"north_m"`
}

// Load returns the state, and false for a ledger without a mission.
func (l *Ledger) Load() (s State, found bool, err error) {
	err = l.db.View(func(tx *bolt.Tx) error {
		raw := tx.Bucket(bucketState).Get(keyState)
		if raw == nil {
			return nil
		}
		found = true
		return l.unseal(raw, &s)
	})
	return s, found, err
}

// Begin replaces the last mission by a new one and puts that one's record
// among the earlier flights. Commands and keys stay.
func (l *Ledger) Begin(s State) error {
	return l.update(func(tx *bolt.Tx) error {
		if err := l.shelve(tx); err != nil {
			return err
		}
		return putState(tx, s)
	})
}

// Settle puts slots and the state they lead to on the disk, in one transaction.
func (l *Ledger) Settle(s State, rows []Row) error {
	return l.update(func(tx *bolt.Tx) error {
		slots := tx.Bucket(bucketSlots)
		slots.FillPercent = 0.95 // rows come in order
		for _, r := range rows {
			r.Mission = s.Mission
			raw, err := seal(r)
			if err != nil {
				return err
			}
			if err := slots.Put(number(uint64(r.Slot)), raw); err != nil {
				return err
			}
			if err := l.prune(slots, r.Slot, len(raw)); err != nil {
				return err
			}
		}
		return putState(tx, s)
	})
}

// Rows calls f with each settled slot in order.
func (l *Ledger) Rows(f func(Row) error) error {
	return l.db.View(func(tx *bolt.Tx) error {
		return tx.Bucket(bucketSlots).ForEach(func(_, raw []byte) error {
			var r Row
			if err := l.unseal(raw, &r); err != nil {
				return err
			}
			return f(r)
		})
	})
}

func (l *Ledger) update(f func(*bolt.Tx) error) error {
	if err := l.db.Update(f); err != nil {
		return fmt.Errorf("write ledger %s: %w", l.path, err)
	}
	return nil
}

func putState(tx *bolt.Tx, s State) error {
	raw, err := seal(stateRecord{s, tx.ID(), endsOf(tx), counters(tx)})
	if err != nil {
		return err
	}
	return tx.Bucket(bucketState).Put(keyState, raw)
}
