package search

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"prefdt/configs/cli"
	"prefdt/offline/command"
	"prefdt/offline/pareto"
)

// Archive is a finished search: the non-dominated rules of its last
// generation, by delay, and the search's configuration.
type Archive struct {
	Version int      `json:"version"`
	Config  Config   `json:"config"`
	Members []Member `json:"members"` // outcomes are means over the training seeds
}

// Archive returns the non-dominated members of a search's population.
func (s *State) Archive(c Config) Archive { return archiveOf(c, s.Population) }

// archiveOf returns the non-dominated of some members.
func archiveOf(c Config, members []Member) Archive {
	outcomes := memberPoints(members)
	a := Archive{Version: stateVersion, Config: c}
	for _, p := range pareto.NonDominated(outcomes) {
		a.Members = append(a.Members, members[slices.Index(outcomes, p)])
	}
	return a
}

func memberPoints(members []Member) []pareto.Point {
	p := make([]pareto.Point, len(members))
	for i := range members {
		p[i] = members[i].Point
	}
	return p
}

// ReadArchive reads and checks the archive at path.
func ReadArchive(path string) (Archive, error) {
	var a Archive
	err := command.ReadJSON(path, &a)
	switch {
	case err != nil:
	case a.Version != stateVersion:
		err = fmt.Errorf("its version is %d, this program reads %d", a.Version, stateVersion)
	case len(a.Members) == 0:
		err = errors.New("it has no members")
	default:
		if err = a.Config.Check(); err == nil {
			err = checkMembers(a.Members, a.Config.World.Aircraft)
		}
	}
	if err != nil {
		return Archive{}, cli.BadInputf("archive %s: %w", path, err)
	}
	return a, nil
}

// ReadState reads the state at path and checks that it belongs to the
// configuration.
func ReadState(path string, c Config) (State, error) {
	var s State
	err := command.ReadJSON(path, &s)
	switch {
	case err != nil:
	case s.Version != stateVersion:
		err = fmt.Errorf("its version is %d, this program resumes %d", s.Version, stateVersion)
	case s.ConfigHash != c.Hash():
		err = fmt.Errorf("it belongs to configuration %.12q, this one is %.12q: give the same flags or another -out", s.ConfigHash,
			c.Hash())
	case s.Generation < 1 || len(s.Population) != c.Population:
		err = fmt.Errorf("it holds %d members after generation %d, want %d after at least 1", len(s.Population), s.Generation, c.Population)
	default:
		err = checkMembers(s.Population, c.World.Aircraft)
	}
	if err != nil {
		return State{}, fmt.Errorf("search state %s: %w", path, err)
	}
	return s, nil
}

func checkMembers(members []Member, aircraft int) error {
	for i, m := range members {
		if err := checkGenes(m.Genes, aircraft); err != nil {
			return fmt.Errorf("member %d: %w", i, err)
		}
		if math.IsNaN(m.DelayS-m.DelayS) || math.IsNaN(m.EnergyJ-m.EnergyJ) {
			return fmt.Errorf("member %d: its outcome is %v s, %v J, want finite numbers", i, m.DelayS, m.EnergyJ)
		}
	}
	return nil
}
