package study

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"prefdt/inference/model"
	"prefdt/inference/token"
	"prefdt/offline/command"
	"prefdt/offline/corpus"
	"prefdt/offline/experiment"
	"prefdt/offline/nn"
	"prefdt/offline/train"
)

// teacherArchive returns the dispatch teacher's front, which corpora are matched to.
func (s *study) teacherArchive(ctx context.Context) (corpus.Archive, error) {
	if s.dispatchArchive == nil {
		path := filepath.Join(s.Dir, dispatchArchivePath)
		a, err := corpus.ReadArchive(path)
		if errors.Is(err, os.ErrNotExist) {
			a, err = corpus.DispatchArchive(ctx, &s.world, 101, s.ArchiveEpisodes, s.Workers, s.progress("archive episodes",
				s.ArchiveEpisodes))
			if err == nil {
				err = command.ReplaceJSON(path, "", a)
			}
		}
		if err != nil {
			return a, err
		}
		s.dispatchArchive = &a
	}
	return *s.dispatchArchive, nil
}

func (s *study) progress(what string, total int) func(int) {
	return command.Progress(s.Log, "  "+what, total)
}

// corpus returns the corpus of a recipe, built once. It is verified by
// replaying some of its flights.
func (s *study) corpus(ctx context.Context, recipe string) (*corpus.Manifest, error) {
	if m := s.corpora[recipe]; m != nil {
		return m, nil
	}
	path := filepath.Join(s.Dir, corpusPath(recipe))
	m, err := corpus.Read(path)
	if err == nil {
		err = m.Verify(4)
	}
	if errors.Is(err, os.ErrNotExist) {
		var a corpus.Archive
		if a, err = s.teacherArchive(ctx); err != nil {
			return nil, err
		}
		if m, err = corpus.Build(ctx, s.world, a, recipes[recipe](), s.CorpusFlights, 0, s.Workers, s.progress("flights, "+recipe,
			s.CorpusFlights)); err != nil {
			return nil, err
		}
		err = command.ReplaceFile(path, m.Write)
	}
	if err == nil {
		s.corpora[recipe] = m
	}
	return m, err
}

// hidingStdDev is a standard deviation that makes a feature zero; the largest that a
// checkpoint's statistics may have is 1e12.
const hidingStdDev = 9e11

// hideFeatures returns statistics that make some features always zero.
func hideFeatures(s token.Statistics, hide token.Layout) (token.Statistics, error) {
	all := token.Features()
	for _, r := range []struct {
		m           *token.Moments
		names, have []string
	}{
		{&s.Aircraft, hide.Aircraft, all.Aircraft}, {&s.Pair, hide.Pair, all.Pair}, {&s.State, hide.State, all.State},
		{&s.Return, hide.Return, all.Return}, {&s.Action, hide.Action, all.Action},
	} {
		r.m.Mean, r.m.Std = slices.Clone(r.m.Mean), slices.Clone(r.m.Std)
		for _, name := range r.names {
			i := slices.Index(r.have, name)
			if i < 0 {
				return s, fmt.Errorf("there is no feature %q", name)
			}
			r.m.Mean[i], r.m.Std[i] = 0, hidingStdDev
		}
	}
	return s, nil
}

// historySlots is the context, in slots, of networks that see their history (the
// paper's).
const historySlots = 20

type trainingResult struct {
	manifest *corpus.Manifest
	standard token.Statistics
	arch     model.Arch
	params   []float32
}

// trainRun completes a training run, from where it was interrupted if it was.
func (s *study) trainRun(ctx context.Context, name string) (*trainingResult, error) {
	r := s.trainingRun(name)
	if r == nil {
		return nil, fmt.Errorf("there is no training run %q", name)
	}
	m, err := s.corpus(ctx, r.Recipe)
	if err != nil {
		return nil, err
	}
	t := &trainingResult{manifest: m}
	if t.standard, err = hideFeatures(m.Statistics, r.Hidden); err != nil {
		return nil, err
	}
	c := s.Train
	if r.SeesHistory {
		c.Arch.Context = historySlots
	} else {
		t.standard.Action.Ablate()
	}
	if r.arch != (model.Arch{}) {
		c.Arch = r.arch
	}
	if r.NoPrice {
		c.LossWeights.Price = 0
	}
	readers := make([]*corpus.ExampleReader, c.Workers)
	for k := range readers {
		readers[k] = corpus.NewExampleReader(m, &t.standard)
	}
	source := func(worker, i int, ep *corpus.Example) error {
		err := readers[worker].Read(&m.Flights[i%len(m.Flights)], ep)
		if err == nil {
			r.adjust(&ep.Labels)
		}
		return err
	}
	run, err := train.New(c, source)
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(s.Dir, trainingPath(name))
	err = experiment.WriteOnce(filepath.Join(dir, "corpus.txt"), m.Hash(), func(have string) error {
		return fmt.Errorf("%s was trained on corpus %.12s, the present one is %.12s: remove it, or give another -out", dir, have, m.Hash())
	})
	if err != nil {
		return nil, err
	}
	if err := run.Run(ctx, nn.Files{Dir: dir, Save: 100}, s.Log); err != nil {
		return nil, err
	}
	t.arch, t.params = c.Arch, run.Params.Data
	return t, nil
}
