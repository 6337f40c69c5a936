package compare

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/goccy/go-yaml"

	"prefdt/inference"
	"prefdt/inference/checkpoint"
	"prefdt/inference/goal"
	"prefdt/inference/slot"
	"prefdt/offline/command"
	"prefdt/offline/rollout"
	"prefdt/simbridge/report"
	"prefdt/simbridge/world"
)

// Flight is a flight that simbridge flew, read from its folder. Snapshot, Users, Followed and Believed of its
// slots are set only if its world hides something (world.Config.HidesState).
type Flight struct {
	Summary report.Summary
	World   world.Config
	Request rollout.Request
	Slots   []Slot // by number; of one that was missed only the cost is known
	Leader  LeaderFiles
}

// LeaderFiles are the files that the flight's leader decided with.
type LeaderFiles struct {
	Checkpoint string `yaml:"checkpoint"`
	Decoder    string `yaml:"decoder"`
}

// load loads the leader's checkpoint.
func (l *LeaderFiles) load() (*checkpoint.Checkpoint, error) {
	frozen, err := checkpoint.Load(l.Checkpoint)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("the flight's leader had its checkpoint in %s, which is not here: run this in the folder that the flight "+
			"was started in, or name in the flight's leader.yaml where it is now", l.Checkpoint)
	}
	return frozen, err
}

// loadBelieving loads a checkpoint that has an estimator.
func (l *LeaderFiles) loadBelieving() (*checkpoint.Checkpoint, error) {
	frozen, err := l.load()
	if err == nil && frozen.Beliefs == nil {
		err = fmt.Errorf("checkpoint %s has no estimator", l.Checkpoint)
	}
	return frozen, err
}

// Slot is what is known of one slot of a flight.
type Slot struct {
	Missed   bool    // no beacon opened it
	Decided  bool    // the leader logged its decision: not if it was killed in the slot
	DelayS   float64 // true, summed over users
	EnergyJ  float64 // true
	Snapshot slot.Snapshot
	Users    []int // indices in the world, from 0: of Snapshot.Users, then of Snapshot.IdleUsers
	Followed []int // indices in the world of the users whose decision came in time
	Believed believed
}

// believed is what a leader logs of its beliefs.
type believed struct {
	WindMPS         *[2]float64 `json:"wind_mps"`
	WindSDMPS       float64     `json:"wind_sd_mps"`
	PowerMultiplier float64     `json:"power"`
	Gain            [][]float64 `json:"gain"`
}

// loggedFlight is a flight as leader log export -json writes it.
type loggedFlight struct {
	State struct {
		Account struct {
			Goal goal.State `json:"goal"`
		} `json:"account"`
	} `json:"state"`
	Rows []struct {
		Slot int `json:"slot"`
		Seen *struct {
			Snapshot slot.Snapshot `json:"snapshot"`
			Names    []string      `json:"names"`
			Believed believed      `json:"believed"`
		} `json:"seen"`
	} `json:"rows"`
}

func readJSON(path string, v any) error {
	if err := command.ReadJSON(path, v); err != nil {
		return fmt.Errorf("read flight: %s: %w", path, err)
	}
	return nil
}

// ReadFlight reads the folder of a flight: what it was and cost, what its leader decided with, and its request. In
// a world that hides something it also reads what the leader saw and believed.
func ReadFlight(folder string) (*Flight, error) {
	f := &Flight{}
	if err := readJSON(filepath.Join(folder, "summary.json"), &f.Summary); err != nil {
		return nil, err
	}
	if f.Summary.World == nil {
		return nil, fmt.Errorf("read flight: the summary in %s names no world: fly it anew", folder)
	}
	f.World = *f.Summary.World
	if f.Summary.PlannedSlots > 0 { // the leader's, which may have been told another number
		f.World.Slots = f.Summary.PlannedSlots
	}
	raw, err := os.ReadFile(filepath.Join(folder, "leader.yaml"))
	if err == nil {
		f.Leader = LeaderFiles{Checkpoint: checkpoint.DefaultFolder, Decoder: string(inference.DecoderDispatch)} // the leader's defaults
		err = yaml.Unmarshal(raw, &f.Leader)
	}
	if err != nil {
		return nil, fmt.Errorf("read flight: the leader's configuration: %w", err)
	}
	if f.Slots, err = readCosts(filepath.Join(folder, "slots.csv"), f.World.Aircraft); err != nil {
		return nil, err
	}
	if !f.World.HidesState() && f.Summary.Executed == nil { // simbridge exports no leader's log of such a flight
		return f, f.readBudgets()
	}
	if err := f.readLog(folder); err != nil {
		return nil, err
	}
	return f, nil
}

// readLog reads the request from the leader's log and, in a world that hides something, what the leader saw,
// believed and had followed.
func (f *Flight) readLog(folder string) error {
	var logged []loggedFlight
	if err := readJSON(filepath.Join(folder, report.LogFile), &logged); err != nil {
		return err
	}
	if len(logged) == 0 || len(logged[len(logged)-1].Rows) == 0 {
		return fmt.Errorf("read flight: %s logs no slot", report.LogFile)
	}
	last := logged[len(logged)-1]
	if g := last.State.Account.Goal; g.Mode == goal.Preference {
		f.Request = rollout.Request{Mode: g.Mode, Omega: g.Omega}
	} else {
		f.Request = rollout.Request{Mode: g.Mode, BudgetJ: g.BudgetJ}
	}
	if !f.World.HidesState() {
		return nil
	}
	tasks, err := report.ReadTable(filepath.Join(folder, report.TasksFile))
	if err != nil {
		return fmt.Errorf("read flight: %w", err)
	}
	for _, task := range tasks {
		if n := int(task["slot"]); task["by_decision"] == 1 && n >= 0 && n < len(f.Slots) {
			f.Slots[n].Followed = append(f.Slots[n].Followed, int(task["user"]))
		}
	}
	for _, r := range last.Rows {
		if r.Slot < 0 || r.Slot >= len(f.Slots) || r.Seen == nil {
			continue
		}
		s := &f.Slots[r.Slot]
		s.Decided, s.Snapshot, s.Believed = true, r.Seen.Snapshot, r.Seen.Believed
		if len(r.Seen.Names) != len(s.Snapshot.Users)+len(s.Snapshot.IdleUsers) {
			return fmt.Errorf("read flight: slot %d of %s has %d names for %d users", r.Slot, report.LogFile, len(r.Seen.Names),
				len(s.Snapshot.Users)+len(s.Snapshot.IdleUsers))
		}
		for _, name := range r.Seen.Names {
			var n int
			if _, err := fmt.Sscanf(name, "u%d", &n); err != nil || n < 1 || n > f.World.UserCount() {
				return fmt.Errorf("read flight: user %q is none of simbridge's", name)
			}
			s.Users = append(s.Users, n-1)
		}
	}
	return nil
}

// readBudgets sets the request of a flight from the budgets that it was given: packs, or a total that was revised
// once at most. Where a budget counts climb and way home, what the flight spent on them is taken off: the request
// is for the slots alone.
func (f *Flight) readBudgets() error {
	b := f.Summary.Budgets
	switch {
	case len(f.Slots) < f.World.Slots:
		return fmt.Errorf("read flight: it ended after %d of %d slots", len(f.Slots), f.World.Slots)
	case len(b) == 0 || len(b) > 2 || b[0].Slot != 0 || b[len(b)-1].EnergyJ == 0:
		return errors.New("read flight: want a budget from slot 0 on, revised once at most: there is nothing to compare")
	case len(b) == 1 && b[0].OfPacks:
		return f.readPacks(&b[0])
	case slices.ContainsFunc(b, func(b report.Budget) bool { return len(b.Packs) > 0 }):
		return errors.New("read flight: want either packs from slot 0 on or a total: there is nothing to compare")
	}
	var slotsJ []float64
	for i := range b {
		if slotsJ = append(slotsJ, b[i].EnergyJ); b[i].Landed {
			slotsJ[i] -= f.transitJ()
		}
		if !(slotsJ[i] > 0) {
			return errors.New("read flight: climb and ways home took all of the budget: there is nothing to compare")
		}
	}
	f.Request = rollout.Request{Mode: goal.Target, BudgetJ: slotsJ[0]}
	if len(b) == 2 {
		f.Request.ReviseSlot, f.Request.RevisedBudgetJ = b[1].Slot, slotsJ[1]
	}
	return nil
}

// readCosts reads what each slot truly cost.
func readCosts(path string, aircraft int) (slots []Slot, err error) {
	table, err := report.ReadTable(path)
	if err != nil {
		return nil, err
	}
	for _, row := range table {
		missed, known := row["missed"]
		if !known {
			return nil, fmt.Errorf("read table %s: it does not say which slots were missed; fly again", path)
		}
		s := Slot{DelayS: row["delay_s"], Missed: missed == 1}
		for m := range aircraft {
			s.EnergyJ += row["flight_j_"+strconv.Itoa(m+1)] + row["edge_j_"+strconv.Itoa(m+1)]
		}
		slots = append(slots, s)
	}
	return slots, nil
}

// missed reports whether the n-th slot was missed. None is after the end of a flight that ended early.
func (f *Flight) missed(n int) bool { return n < len(f.Slots) && f.Slots[n].Missed }

// Link is the link that the flight had: which reports arrived, which decisions came in time, which slots were
// missed, and for which slots an aircraft's flight energy was measured.
func (f *Flight) Link() rollout.ReportLink {
	l := rollout.ReportLink{Fallback: rollout.FallbackOffer}
	l.Received = func(n, user int) bool { return n < len(f.Slots) && slices.Contains(f.Slots[n].Users, user) }
	l.Followed = func(n, user int) bool { return n < len(f.Slots) && slices.Contains(f.Slots[n].Followed, user) }
	l.Missed = f.missed
	l.Measured = func(n, number int) bool {
		return n < len(f.Slots) && slices.ContainsFunc(f.Slots[n].Snapshot.Aircraft,
			func(a slot.Aircraft) bool { return a.Number == number && a.Flown.FlightJ > 0 })
	}
	return l
}
