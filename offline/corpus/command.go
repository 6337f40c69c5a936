package corpus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"

	"prefdt/configs/cli"
	"prefdt/offline/command"
	"prefdt/offline/pareto"
	"prefdt/offline/search"
	"prefdt/simbridge/world"
)

const usage = `offline corpus builds the flights that the policy imitates: it draws settings,
matches them to a teacher, flies them, and writes manifest.json, from which the
world replays every flight exactly.

  offline corpus                                    the shipped corpus, of the dispatch teacher
  offline corpus -archive out/search/archive.json   of the searched rules
  offline corpus -merge out/search/archive.json     of both: of the searched rules, those that dispatch leaves
  offline corpus -resume -shard 0/8                 an eighth of its rows, for eight jobs at a time in
                                                    one folder; then the same without -shard

Ctrl-C and SIGTERM keep the rows that are flown, 250 at a time, in the folder parts
of -out.

Flags:
`

// Command is "offline corpus".
func Command(ctx context.Context, call *cli.Call) error {
	f, stdout, stderr := call.Flags, call.Stdout, call.Stderr
	config := command.WorldFlag(f)
	out := f.String("out", "out/corpus", "`FOLDER` for manifest.json")
	rules := f.String("archive", "", "rule archive `FILE` of offline search, instead of the dispatch teacher")
	merge := f.String("merge", "", "rule archive `FILE` to merge with the dispatch teacher's")
	r := ShippedRecipe()
	for _, x := range r.fractions() {
		f.Float64Var(x.value, x.name, *x.value, "`fraction` of the flights "+x.description)
	}
	f.BoolVar(&r.HidePreviousAction, "forget", r.HidePreviousAction, "hide the previous action from the policy")
	f.IntVar(&r.WorldCount, "variety", r.WorldCount, "random worlds to choose from")
	flights := f.Int("flights", 64000, "flights (the paper: 50000)")
	seed := f.Uint64("seed", 0, "seed of the draws")
	prices := f.Int("prices", 101, "members of the dispatch archive")
	episodes := f.Int("episodes", 200, "training episodes that each member's outcome is a mean over")
	table := f.Bool("parquet", false, "also write flights.parquet, one row a flight")
	resume := f.Bool("resume", false, "keep the corpus in -out if it is of this recipe, this seed and as many flights, and replays, or "+
		"the parts of it; without either, start")
	force := f.Bool("force", false, "replace another corpus in -out, and what was fitted on it")
	shard := command.ShardFlag(f, "of the rows; the same command without it makes the corpus of all parts in -out")
	limit := command.LimitFlag(f)
	workers := f.Int("workers", runtime.GOMAXPROCS(0), "flights simulated at a time; changes no result")
	asJSON := call.JSONFlag()
	if _, err := call.Parse(usage, 0); err != nil {
		return err
	}
	ctx, stop := limit(ctx)
	defer stop()
	share, err := shard()
	if err != nil {
		return err
	}
	if *force && !share.Whole() {
		return cli.BadInputf("-force begins anew, -shard is a part of what others have begun: give one of them")
	}
	if *workers < 1 || *prices < 3 || *episodes < 1 || *flights < 1 {
		return cli.BadInputf("-workers, -episodes and -flights must be positive, -prices 3 at least")
	}
	if err := r.Check(); err != nil {
		return cli.BadInput(err)
	}
	if *rules != "" {
		r.PriceChange = 0 // a rule has no price to change
	}
	if *asJSON {
		stdout = stderr
	}
	c, err := config(world.Standard())
	if err != nil {
		return cli.BadInput(err)
	}
	if *rules != "" && *merge != "" {
		return cli.BadInputf("-archive and -merge exclude each other: one takes the rules in place of the dispatch teacher's flights, " +
			"the other beside them")
	}
	path := filepath.Join(*out, "manifest.json")
	old, err := Read(path)
	if *resume && err == nil && old.matches(c, r, *seed, *flights, *episodes, *prices) {
		return call.Result(*asJSON, old.summary(path), "%d flights in %s, made before, hash %.12s", len(old.Flights), path, old.Hash())
	}
	switch {
	case *force, errors.Is(err, os.ErrNotExist):
	case err != nil:
		return cli.BadInputf("%w; give another -out, or -force", err)
	// else the hashes are compared in the end
	case len(old.World.Differences(c)) > 0 || old.Recipe != r || old.Seed != *seed || len(old.Flights) != *flights:
		return cli.BadInput(anotherCorpus(path))
	}
	var teacherRules, merged *search.Archive
	if file := cmp.Or(*rules, *merge); file != "" {
		found, err := search.ReadArchive(file)
		if err == nil {
			err = command.CheckWorld("the rules were", found.Config.World, c)
		}
		if err != nil {
			return cli.BadInput(err)
		}
		if teacherRules = &found; *merge != "" {
			teacherRules, merged = nil, &found
		}
	}
	if err := command.CheckWritable(*out); err != nil {
		return cli.BadInput(err)
	}
	dir := filepath.Join(*out, "parts")
	if *force {
		if err := os.RemoveAll(dir); err != nil {
			return cli.BadInput(err)
		}
	}
	p, err := readParts(dir, command.Hash([]any{formatVersion, c, r, *seed, *flights, *prices, *episodes, teacherRules}), *flights)
	if err != nil {
		return cli.BadInput(err)
	}
	if (p.archive != nil || len(p.flown) > 0) && !*resume {
		return cli.BadInputf("%s holds a part of this corpus: add -resume to continue it, or -force to begin anew", dir)
	}
	if p.archive == nil {
		p.archive = &Archive{}
		if teacherRules != nil {
			*p.archive, err = RuleArchive(teacherRules, *episodes)
		} else {
			*p.archive, err = DispatchArchive(ctx, &c, *prices, *episodes, *workers,
				command.Progress(stderr, "archive episodes", *episodes))
		}
		if err == nil {
			err = command.ReplaceJSON(p.archivePath(), "", part{Key: p.key, Archive: p.archive})
		}
	}
	if command.Ended(ctx, err) {
		return command.Interrupted(ctx, " in the sweep of the teacher; the same command with -resume begins it anew")
	}
	if err != nil {
		return err
	}
	if merged != nil {
		if err := checkRulesAddLittle(&c, p.archive, merged, *merge, stdout); err != nil {
			return err
		}
	}
	m, err := newManifest(c, *p.archive, r, *flights, *seed)
	if err == nil {
		err = p.fly(ctx, m, share, *workers, command.Progress(stderr, "flights", p.rows(share)))
	}
	if command.Ended(ctx, err) {
		return command.Interrupted(ctx, "; the same command with -resume continues with what %s has", dir)
	}
	if err == nil && !share.Whole() {
		return call.Result(*asJSON, map[string]any{"parts": dir, "flights": p.rows(share)},
			"%v: %d flights in %s; the same command without -shard makes the corpus", share, p.rows(share), dir)
	}
	if err == nil {
		err = m.finish()
	}
	if err != nil {
		return fmt.Errorf("build corpus: %w", err)
	}
	if old != nil && old.Hash() != m.Hash() && !*force {
		return anotherCorpus(path)
	}
	if err := errors.Join(command.ReplaceFile(path, m.Write), os.RemoveAll(dir)); err != nil {
		return err
	}
	if *table {
		if err := command.ReplaceFile(filepath.Join(*out, "flights.parquet"), m.WriteParquet); err != nil {
			return err
		}
	}
	etaS, etaJ := m.Archive.ReturnScales()
	low, high := m.Archive.OmegaBand()
	return call.Result(*asJSON, m.summary(path), "%d flights in %s, eta %.1f s and %.0f J, band [%.3f, %.3f], %d members, hash %.12s",
		len(m.Flights), path, etaS, etaJ, low, high, len(m.Archive.Points), m.Hash())
}

func anotherCorpus(path string) error {
	return fmt.Errorf("%s is another corpus, on which a conditioner may rest: give another -out, or -force", path)
}

// summary is what -json prints.
func (m *Manifest) summary(path string) map[string]any {
	return map[string]any{"manifest": path, "flights": len(m.Flights), "members": len(m.Archive.Points), "hash": m.Hash()}
}

// maxAddedHypervolume is the part of the teacher's hypervolume that rules may add to it
// unnoticed; both are means over episodes.
const maxAddedHypervolume = 1e-4

// checkRulesAddLittle merges a rule archive into the dispatch teacher's. Every rule found so
// far is dominated by that front but for a joule at its far end, so merging is to
// confirm that; rules that add to it would deserve a corpus of their own.
func checkRulesAddLittle(c *world.Config, a *Archive, found *search.Archive, path string, stdout io.Writer) error {
	all := slices.Clone(a.Points)
	for _, m := range found.Members {
		all = append(all, m.Point)
	}
	reference, _ := pareto.References(c, a.Points)
	added := pareto.Hypervolume(all, reference)/pareto.Hypervolume(a.Points, reference) - 1
	if added > maxAddedHypervolume {
		return fmt.Errorf("the rules of %s add %.3g of its hypervolume to the dispatch teacher's front, %g at most is chance: build a "+
			"corpus of them with -archive", path, added, maxAddedHypervolume)
	}
	_, err := fmt.Fprintf(stdout, "merged with %d rules of %s: they add %.2g of its hypervolume to the dispatch teacher's front\n",
		len(found.Members), path, added)
	return err
}
