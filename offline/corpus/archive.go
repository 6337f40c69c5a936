// Package corpus makes the flights that the policy imitates, Sec. IV-C of the
// paper, and reads them as examples.
//
// Inputs: a teacher's archive, a recipe, and training seeds. Outputs: a manifest
// of flights, each a seed, a member of the archive and the setting it is stored
// under; and, for training, an Example of each flight. The world replays a flight
// exactly from its row in the manifest, so trajectories are made anew while
// training and never stored. "offline corpus" builds a corpus, package train and
// the study read it.
package corpus

import (
	"context"
	"fmt"

	"prefdt/inference/checkpoint"
	"prefdt/inference/goal"
	"prefdt/offline/command"
	"prefdt/offline/pareto"
	"prefdt/offline/search"
	"prefdt/offline/seeds"
	"prefdt/offline/teacher"
	"prefdt/simbridge/world"
)

// Archive is a teacher's front as flown on training seeds: its members in order
// of delay, with their mean outcomes.
type Archive struct {
	Prices   []float64      `json:"prices_s_per_j,omitempty"` // the dispatch teacher's members
	Genes    [][]float64    `json:"genes,omitempty"`          // the rule teacher's members
	Points   []pareto.Point `json:"points"`
	Episodes int            `json:"episodes"` // per member
}

// RuleArchive returns a search's result as the archive of a teacher. episodes is
// how many each outcome is a mean over.
func RuleArchive(found *search.Archive, episodes int) (Archive, error) {
	a := Archive{Episodes: episodes}
	for _, m := range found.Members {
		a.Append(m.Point, 0, m.Genes)
	}
	return a, a.Check()
}

// DispatchArchive sweeps the dispatch teacher over so many prices, each member's
// outcome a mean over the first training episodes. progress, if not nil, is
// called with the episodes done.
func DispatchArchive(ctx context.Context, c *world.Config, prices, episodes, workers int, progress func(done int)) (Archive, error) {
	a := Archive{Episodes: episodes}
	if err := seeds.CheckTraining(uint64(episodes - 1)); err != nil {
		return a, err
	}
	sweep := teacher.PricesIn(c, prices)
	outcomes, err := teacher.Sweep(ctx, c, seeds.CheckTraining, seeds.List(0, episodes), sweep, workers, progress)
	if err != nil {
		return a, err
	}
	for k, p := range pareto.MeanPoints(outcomes) {
		a.Append(p, sweep[k], nil)
	}
	return a, a.Check()
}

// ReadArchive reads and checks an archive that was written as JSON.
func ReadArchive(path string) (Archive, error) {
	var a Archive
	err := command.ReadJSON(path, &a)
	if err == nil {
		err = a.Check()
	}
	if err != nil {
		return a, fmt.Errorf("archive %s: %w", path, err)
	}
	return a, nil
}

// Append appends a member, a price or a rule's genes, if its mean outcome
// continues the front: more delay and less energy than the last. One that does
// not is left out.
func (a *Archive) Append(p pareto.Point, priceSPerJ float64, genes []float64) {
	if n := len(a.Points); n > 0 && !(p.DelayS > a.Points[n-1].DelayS && p.EnergyJ < a.Points[n-1].EnergyJ) {
		return
	}
	a.Points = append(a.Points, p)
	if genes != nil {
		a.Genes = append(a.Genes, genes)
	} else {
		a.Prices = append(a.Prices, priceSPerJ)
	}
}

// Check returns what is wrong with an archive.
func (a *Archive) Check() error {
	if len(a.Points) < 2 || len(a.Points) != max(len(a.Prices), len(a.Genes)) {
		return fmt.Errorf("archive has %d outcomes for %d prices and %d rules, want one each and two at least", len(a.Points),
			len(a.Prices), len(a.Genes))
	}
	for i := 1; i < len(a.Points); i++ {
		if !(a.Points[i].DelayS > a.Points[i-1].DelayS && a.Points[i].EnergyJ < a.Points[i-1].EnergyJ) {
			return fmt.Errorf("archive member %d (%.2f s, %.0f J) does not follow member %d (%.2f s, %.0f J) on a front", i,
				a.Points[i].DelayS, a.Points[i].EnergyJ, i-1, a.Points[i-1].DelayS, a.Points[i-1].EnergyJ)
		}
	}
	return nil
}

// ReturnScales returns the scales of eq. (rtgnorm): the span of each return over the archive.
func (a *Archive) ReturnScales() (delayS, energyJ float64) {
	first, last := a.Points[0], a.Points[len(a.Points)-1]
	return last.DelayS - first.DelayS, first.EnergyJ - last.EnergyJ
}

// DelayShare returns the realised delay share of an outcome: what part of its
// normalised cost above the archive's ideal point is delay. It is 0 at the
// least delay and 1 at the least energy.
func (a *Archive) DelayShare(p pareto.Point) float64 {
	etaS, etaJ := a.ReturnScales()
	delay := max((p.DelayS-a.Points[0].DelayS)/etaS, 0)
	energy := max((p.EnergyJ-a.Points[len(a.Points)-1].EnergyJ)/etaJ, 0)
	if delay+energy == 0 {
		return 0
	}
	return delay / (delay + energy)
}

// FrontPosition returns the position y in [0, 1] of an outcome along the front,
// even in both objectives; see checkpoint.PriceCurve.
func (a *Archive) FrontPosition(p pareto.Point) float64 {
	etaS, etaJ := a.ReturnScales()
	y := (p.DelayS-a.Points[0].DelayS)/(2*etaS) + (a.Points[0].EnergyJ-p.EnergyJ)/(2*etaJ)
	return min(max(y, 0), 1)
}

// PriceCurve returns the price curve of a dispatch archive.
func (a *Archive) PriceCurve() checkpoint.PriceCurve {
	return checkpoint.PriceCurve{FrontPositions: a.each(a.FrontPosition), PricesSPerJ: a.Prices}
}

func (a *Archive) memberShares() []float64 { return a.each(a.DelayShare) }

// each returns a number of every member's outcome.
func (a *Archive) each(f func(pareto.Point) float64) []float64 {
	x := make([]float64, len(a.Points))
	for i, p := range a.Points {
		x[i] = f(p)
	}
	return x
}

// OmegaBand returns the least and the largest share that the members realise, the
// attainable band of eq. (omegastar).
func (a *Archive) OmegaBand() (low, high float64) {
	w := a.memberShares()
	return w[0], w[len(w)-1]
}

// interpolate reads ys at x between knots xs, which rise, and holds the ends.
func interpolate(xs, ys []float64, x float64) float64 {
	i, f := goal.HatBasis(xs, x)
	return ys[i] + f*(ys[i+1]-ys[i])
}
