package search

import (
	"fmt"
	"math"

	"prefdt/inference/physics"
	"prefdt/inference/reuse"
	"prefdt/inference/slot"
	"prefdt/simbridge/world"
)

// The genes, in order: four for the fleet, then three for each aircraft.
const (
	geneOffloadGate   = iota // offload where T_off <= gate x T_loc
	geneOffloadScale         // of the offloaded fraction
	geneServiceRadius        // metres on the ground within which an aircraft serves
	geneLoadExponent         // of the load in the offloaded fraction
	fleetGenes

	geneSpeed        = 0 // m/s
	geneCentroidGain = 1 // gain toward the served users
	geneOrbitGain    = 2 // gain around them, to the left where positive
	genesPerAircraft = 3
)

type geneBound struct{ low, high float64 }

// geneBounds returns the range of each gene of a fleet, 4+3M of them.
func geneBounds(aircraft int) []geneBound {
	b := []geneBound{geneOffloadGate: {0, 3}, geneOffloadScale: {0, 1.3}, geneServiceRadius: {50, 800}, geneLoadExponent: {-1, 1}}
	for range aircraft {
		b = append(b, geneBound{0, 30}, geneBound{0, 1}, geneBound{-1, 1})
	}
	return b
}

// Rule is the paper's teacher: four global genes and three per aircraft decide
// a slot from its snapshot alone. It reuses its memory, so one Rule serves one
// goroutine.
type Rule struct {
	genes   []float64
	physics *physics.Constants
	starts  []physics.Position // of each aircraft, by its number from 1

	candidateOf []int // per user: index of its aircraft where it is a candidate, or -1
	candidates  []int // per aircraft: its candidates
	served      []int // per aircraft: those that offload
	servedSum   []physics.Position
}

// NewRule returns the rule of some genes in a world.
func NewRule(c *world.Config, genes []float64) (*Rule, error) {
	r := &Rule{genes: genes, physics: &c.Physics}
	for m := range c.Aircraft {
		r.starts = append(r.starts, c.Start(m))
	}
	return r, checkGenes(genes, c.Aircraft)
}

func checkGenes(genes []float64, aircraft int) error {
	want := geneBounds(aircraft)
	if len(genes) != len(want) {
		return fmt.Errorf("a rule has %d genes, want %d for %d aircraft", len(genes), len(want), aircraft)
	}
	for i, g := range genes {
		if !(g >= want[i].low && g <= want[i].high) {
			return fmt.Errorf("a rule's gene %d is %v, want %v to %v", i, g, want[i].low, want[i].high)
		}
	}
	return nil
}

// Decide fills d with the rule's decision on a snapshot. What the decision should
// cost is left to Decision.Evaluate. Aircraft are identified by their Number, which must
// be one of the world's, so a lost one changes nothing for the others.
func (r *Rule) Decide(s *slot.Snapshot, d *slot.Decision) {
	d.Resize(s)
	r.candidateOf = reuse.Slice(r.candidateOf, len(s.Users))
	r.candidates = reuse.Slice(r.candidates, len(s.Aircraft))
	r.served = reuse.Slice(r.served, len(s.Aircraft))
	r.servedSum = reuse.Slice(r.servedSum, len(s.Aircraft))

	for i := range s.Users {
		r.candidateOf[i] = r.nearestInRadius(s, &s.Users[i])
		if m := r.candidateOf[i]; m >= 0 {
			r.candidates[m]++
		}
	}
	for i := range s.Users {
		u, m := &s.Users[i], r.candidateOf[i]
		if m < 0 {
			continue
		}
		// T_off takes the whole task offloaded and the CPU shared among all
		// candidates, since it is not decided yet which of them offload.
		share := r.physics.EqualShare(u.Gain[m], s.Aircraft[m].CPUHz, float64(r.candidates[m]))
		local, offload := u.Task.LocalTimeS(u.CPUHz), u.Task.OffloadTimeS(share)
		if !(offload <= r.genes[geneOffloadGate]*local) {
			continue
		}
		r.served[m]++
		r.servedSum[m] = r.servedSum[m].Add(u.Position)
		rho := r.genes[geneOffloadScale] * physics.BalancedOffload(local, offload) * math.Pow(float64(r.candidates[m])/3,
			r.genes[geneLoadExponent])
		// Offloading nothing, which only a scale of 0 yields, is computing
		// locally; the aircraft still flies to those users.
		if rho > 0 {
			d.Users[i] = slot.UserDecision{Server: m + 1, Offload: min(rho, 1)}
		}
	}
	for m := range s.Aircraft {
		d.Move[m] = r.move(&s.Aircraft[m], m)
	}
}

// nearestInRadius returns the index of the user's nearest aircraft on the ground, if
// it is within the radius, or -1.
func (r *Rule) nearestInRadius(s *slot.Snapshot, u *slot.User) int {
	nearest, least := -1, r.genes[geneServiceRadius]
	for m := range s.Aircraft {
		if d := u.Position.Sub(s.Aircraft[m].Position).Norm(); d < least || nearest < 0 && d == least {
			nearest, least = m, d
		}
	}
	return nearest
}

// move returns an aircraft's displacement: its speed along the gains' mix of
// the direction to its served users' centroid, or to its start if there are
// none, and the same turned left.
func (r *Rule) move(a *slot.Aircraft, m int) physics.Position {
	genes := r.genes[fleetGenes+genesPerAircraft*(a.Number-1):]
	to := r.starts[a.Number-1]
	if n := r.served[m]; n > 0 {
		to = r.servedSum[m].Scale(1 / float64(n))
	}
	toward := unitVector(to.Sub(a.Position))
	left := physics.Position{EastM: -toward.NorthM, NorthM: toward.EastM}
	heading := unitVector(toward.Scale(genes[geneCentroidGain]).Add(left.Scale(genes[geneOrbitGain])))
	return a.Position.Add(heading.Scale(genes[geneSpeed])).ClampToArea(r.physics.AreaSideM).Sub(a.Position)
}

// unitVector returns v at length 1, or zero where it has no direction.
func unitVector(v physics.Position) physics.Position {
	if n := v.Norm(); n > 0 {
		return v.Scale(1 / n)
	}
	return physics.Position{}
}

// DecideAs returns what decides as any of some rules, by their genes. It serves one goroutine.
func DecideAs(c *world.Config, genes [][]float64) (func(member int, s *slot.Snapshot, d *slot.Decision), error) {
	for i, g := range genes {
		if err := checkGenes(g, c.Aircraft); err != nil {
			return nil, fmt.Errorf("member %d: %w", i, err)
		}
	}
	rule, err := NewRule(c, genes[0])
	return func(member int, s *slot.Snapshot, d *slot.Decision) {
		rule.genes = genes[member]
		rule.Decide(s, d)
	}, err
}
