package corpus

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"

	"prefdt/offline/command"
	"prefdt/offline/pareto"
	"prefdt/offline/search"
	"prefdt/offline/seeds"
	"prefdt/offline/teacher"
	"prefdt/simbridge/world"
)

const usage = `offline corpus builds the flights that the policy imitates: it draws settings,
matches them to a teacher, flies them, and writes manifest.json, from which the
world replays every flight exactly.

  offline corpus                                    the shipped corpus, of the dispatch teacher
  offline corpus -archive out/search/archive.json   of the searched rules
  offline corpus -merge out/search/archive.json     of both: of the searched rules, those that dispatch leaves
  offline corpus -recipe paper                      by the recipe of the paper's Sec. IV-C

Flags:
`

// Command is "offline corpus".
func Command(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	f := command.Flags("corpus")
	config := command.WorldFlag(f)
	out := f.String("out", "out/corpus", "`FOLDER` for manifest.json")
	rules := f.String("archive", "", "rule archive `FILE` of offline search, instead of the dispatch teacher")
	merge := f.String("merge", "", "rule archive `FILE` to merge with the dispatch teacher's")
	recipe := f.String("recipe", "shipped", `"shipped", or "paper"`)
	r := ShippedRecipe()
	for _, x := range r.fractions() {
		f.Float64Var(x.value, x.name, *x.value, "`fraction` of the flights "+x.description)
	}
	f.BoolVar(&r.HidePreviousAction, "forget", r.HidePreviousAction, "hide the action before from the policy")
	f.IntVar(&r.WorldCount, "variety", r.WorldCount, "random worlds to choose from")
	flights := f.Int("flights", 64000, "flights (the paper: 50000)")
	seed := f.Uint64("seed", 0, "seed of the draws")
	prices := f.Int("prices", 101, "members of the dispatch archive")
	episodes := f.Int("episodes", 200, "training episodes that each member's outcome is a mean over")
	table := f.Bool("parquet", false, "also write flights.parquet, one row a flight")
	resume := f.Bool("resume", false, "keep the corpus in -out if it is of this recipe, this seed and as many flights, and replays")
	force := f.Bool("force", false, "replace another corpus in -out, and what was fitted on it")
	workers := f.Int("workers", runtime.GOMAXPROCS(0), "flights flown at a time; changes no result")
	if done, err := command.Parse(f, usage, args, stdout); done {
		return err
	}
	switch *recipe {
	case "shipped":
	case "paper":
		asked := map[string]bool{}
		f.Visit(func(x *flag.Flag) { asked[x.Name] = true })
		paper := PaperRecipe()
		r.Draw = paper.Draw
		if !asked["forget"] {
			r.HidePreviousAction = paper.HidePreviousAction
		}
		for i, x := range paper.fractions() {
			if !asked[x.name] {
				*r.fractions()[i].value = *x.value
			}
		}
	default:
		return fmt.Errorf(`offline corpus: -recipe is %q, want "shipped" or "paper"`, *recipe)
	}
	if *workers < 1 || *prices < 3 || *episodes < 1 {
		return errors.New("offline corpus: -workers and -episodes must be positive, -prices 3 at least")
	}
	c, err := config(world.Standard())
	if err != nil {
		return fmt.Errorf("offline corpus: %w", err)
	}
	path := filepath.Join(*out, "manifest.json")
	if old, err := Read(path); *resume && err == nil && old.matches(c, r, *seed, *flights, *episodes) {
		_, err := fmt.Fprintf(stdout, "%d flights in %s, made before, hash %.12s\n", len(old.Flights), path, old.Hash())
		return err
	}
	archive, err := loadOrSweepArchive(ctx, c, *rules, *prices, *episodes, *workers, stderr)
	if err != nil {
		return err
	}
	if *merge != "" {
		if err := checkRulesAddLittle(&c, &archive, *merge, stdout); err != nil {
			return err
		}
	}
	if archive.Genes != nil {
		r.PriceChange = 0 // a rule has no price to change
	}
	m, err := Build(ctx, c, archive, r, *flights, *seed, *workers, command.Progress(stderr, "flights", *flights))
	if ctx.Err() != nil {
		return errors.New("offline corpus: interrupted, nothing was written")
	}
	if err != nil {
		return err
	}
	if old, err := Read(path); err == nil && old.Hash() != m.Hash() && !*force {
		return fmt.Errorf("offline corpus: %s is another corpus, on which a conditioner may rest: give another -out, or -force", path)
	} else if err != nil && !errors.Is(err, os.ErrNotExist) && !*force {
		return fmt.Errorf("offline corpus: %w; give another -out, or -force", err)
	}
	if err := command.ReplaceFile(path, m.Write); err != nil {
		return err
	}
	if *table {
		if err := command.ReplaceFile(filepath.Join(*out, "flights.parquet"), m.WriteParquet); err != nil {
			return err
		}
	}
	etaS, etaJ := m.Archive.ReturnScales()
	low, high := m.Archive.OmegaBand()
	_, err = fmt.Fprintf(stdout, "%d flights in %s, eta %.1f s and %.0f J, band [%.3f, %.3f], %d members, hash %.12s\n",
		len(m.Flights), path, etaS, etaJ, low, high, len(m.Archive.Points), m.Hash())
	return err
}

// loadOrSweepArchive reads a rule archive, or sweeps the dispatch teacher's prices.
func loadOrSweepArchive(ctx context.Context, c world.Config, rules string, prices, episodes, workers int, stderr io.Writer) (Archive, error) {
	a := Archive{Episodes: episodes}
	if rules != "" {
		found, err := search.ReadArchive(rules)
		if err != nil {
			return a, err
		}
		for _, m := range found.Members {
			a.appendMember(m.Point, 0, m.Genes)
		}
		if err := command.CheckWorld("the rules were", found.Config.World, c); err != nil {
			return a, fmt.Errorf("offline corpus: %w", err)
		}
		return a, a.Check()
	}
	list, err := command.ParseSeeds(fmt.Sprint(episodes), seeds.CheckTraining)
	if err != nil {
		return a, err
	}
	sweep := teacher.PricesIn(&c, prices)
	outcomes, err := teacher.Sweep(ctx, &c, seeds.CheckTraining, list, sweep, workers, command.Progress(stderr, "archive episodes", len(list)))
	if err != nil {
		return a, err
	}
	for k, p := range teacher.MeanPoints(outcomes) {
		a.appendMember(p, sweep[k], nil)
	}
	return a, a.Check()
}

// maxAddedHypervolume is the part of the teacher's hypervolume that rules may add to it
// unnoticed; both are means over episodes.
const maxAddedHypervolume = 1e-4

// checkRulesAddLittle merges a rule archive into the dispatch teacher's. Every rule found so
// far lies behind that front but for a joule at its far end, so merging means
// to make sure of it; rules that add to it would be worth a teacher of their own.
func checkRulesAddLittle(c *world.Config, a *Archive, path string, stdout io.Writer) error {
	found, err := search.ReadArchive(path)
	if err != nil {
		return err
	}
	if err := command.CheckWorld("the rules were", found.Config.World, *c); err != nil {
		return fmt.Errorf("offline corpus: %w", err)
	}
	all := slices.Clone(a.Points)
	for _, m := range found.Members {
		all = append(all, m.Point)
	}
	reference, _ := pareto.References(c, a.Points)
	added := pareto.Hypervolume(all, reference)/pareto.Hypervolume(a.Points, reference) - 1
	if added > maxAddedHypervolume {
		return fmt.Errorf("offline corpus: the rules of %s add %.3g of its hypervolume to the dispatch teacher's front, %g at most is chance: build a corpus of them with -archive", path, added, maxAddedHypervolume)
	}
	_, err = fmt.Fprintf(stdout, "merged with %d rules of %s: they add %.2g of its hypervolume to the dispatch teacher's front\n", len(found.Members), path, added)
	return err
}

// appendMember appends a member that goes on along the front; one that does not is left out.
func (a *Archive) appendMember(p pareto.Point, price float64, genes []float64) {
	if n := len(a.Points); n > 0 && !(p.DelayS > a.Points[n-1].DelayS && p.EnergyJ < a.Points[n-1].EnergyJ) {
		return
	}
	a.Points = append(a.Points, p)
	if genes != nil {
		a.Genes = append(a.Genes, genes)
	} else {
		a.Prices = append(a.Prices, price)
	}
}
