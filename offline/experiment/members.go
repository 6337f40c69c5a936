package experiment

import (
	"context"

	"prefdt/inference/motion"
	"prefdt/inference/physics"
	"prefdt/inference/slot"
	"prefdt/offline/baseline"
	"prefdt/offline/command"
	"prefdt/offline/corpus"
	"prefdt/offline/rollout"
	"prefdt/offline/search"
	"prefdt/offline/teacher"
	"prefdt/simbridge/world"
)

// Members are an archive's, as settings: of each its delay share and what it spends.
type Members struct {
	Omegas, EnergiesJ []float64
	archive           corpus.Archive
}

// NewMembers returns an archive's.
func NewMembers(a *corpus.Archive) *Members {
	m := &Members{archive: *a}
	for _, p := range a.Points {
		m.Omegas, m.EnergiesJ = append(m.Omegas, a.DelayShare(p)), append(m.EnergiesJ, p.EnergyJ)
	}
	return m
}

// Dispatch returns the exact-dispatch teacher as an archive that has a member for each price.
func Dispatch(c *physics.Constants, pricesSPerJ []float64) *baseline.Archive {
	scheduler := &teacher.Scheduler{}
	return &baseline.Archive{
		OnReset: func() { *scheduler = teacher.Scheduler{} },
		DecideAs: func(member int, s *slot.Snapshot, d *slot.Decision) {
			x := *s
			x.Users = s.LikelyUsers() // for motion
			scheduler.Decide(c, &x, pricesSPerJ[member], &motion.Air{}, d)
			d.Users = d.Users[:len(s.Users)]
		},
	}
}

// Rules returns the members of a search, which is made once.
func Rules(ctx context.Context, path string, c search.Config, s *Set) (*Members, error) {
	found, err := search.Ensure(ctx, path, c, s.Workers, command.Progress(s.Log, "  generations", c.Generations))
	if err != nil {
		return nil, err
	}
	archive, err := corpus.RuleArchive(&found, 0)
	return NewMembers(&archive), err
}

// New returns a policy of searched rules; replans: each slot of a budget is flown by the rule that the joules left pay for.
func (m *Members) New(c *world.Config, replans bool) (rollout.Policy, error) {
	decideAs, err := search.DecideAs(c, m.archive.Genes)
	return &baseline.Archive{Omegas: m.Omegas, EnergiesJ: m.EnergiesJ, DecideAs: decideAs, Replans: replans}, err
}
