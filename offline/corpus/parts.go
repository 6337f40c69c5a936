package corpus

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"prefdt/offline/command"
	"prefdt/offline/search"
	"prefdt/simbridge/world"
)

// parts is a corpus that is being built, in a folder: the teacher's archive and ranges of
// rows. Work that is ended early goes on from them, and several processes may make a
// share each; a row depends on the archive, the recipe and its number alone.
type parts struct {
	dir     string
	key     string // of all that the corpus depends on
	flights int
}

// partRows is the number of rows in a part, a second or two of one core.
const partRows = 250

// part is one file. It has either.
type part struct {
	Key     string    `json:"key"`
	Archive *Archive  `json:"archive,omitempty"`
	Flights []Episode `json:"flights,omitempty"`
}

// partsKey identifies a corpus by what it is made from; rules is nil where the teacher is
// the dispatch teacher.
func partsKey(c world.Config, r Recipe, seed uint64, flights, prices, episodes int, rules *search.Archive) string {
	return command.Hash([]any{formatVersion, c, r, seed, flights, prices, episodes, rules})
}

func (p *parts) archivePath() string { return filepath.Join(p.dir, "archive.json") }
func (p *parts) path(first int) string {
	return filepath.Join(p.dir, fmt.Sprintf("rows%07d.json", first))
}

// read reads a part, os.ErrNotExist if there is none.
func (p *parts) read(path string) (x part, err error) {
	err = command.ReadJSON(path, &x)
	switch {
	case errors.Is(err, os.ErrNotExist):
	case err != nil:
		err = fmt.Errorf("%s is damaged (%w): remove it, and it is made again", path, err)
	case x.Key != p.key:
		err = fmt.Errorf("%s is a part of another corpus: give that one's flags, another -out, or -force", path)
	}
	return x, err
}

// check reads every part. Its error is bad input.
func (p *parts) check() (found int, err error) {
	paths := []string{p.archivePath()}
	for first := 0; first < p.flights; first += partRows {
		paths = append(paths, p.path(first))
	}
	for _, path := range paths {
		switch _, err := p.read(path); {
		case err == nil:
			found++
		case !errors.Is(err, os.ErrNotExist):
			return found, err
		}
	}
	return found, nil
}

// archive returns the archive, made once.
func (p *parts) archive(build func() (Archive, error)) (Archive, error) {
	x, err := p.read(p.archivePath())
	if err == nil {
		return *x.Archive, x.Archive.Check()
	} else if !errors.Is(err, os.ErrNotExist) {
		return Archive{}, err
	}
	a, err := build()
	if err != nil {
		return a, err
	}
	return a, command.ReplaceJSON(p.archivePath(), "", part{Key: p.key, Archive: &a})
}

// fly reads or flies a shard of m's rows. progress is called with the number of rows done.
func (p *parts) fly(ctx context.Context, m *Manifest, shard command.Shard, workers int, progress func(done int)) error {
	done := 0
	for first := 0; first < p.flights; first += partRows {
		if !shard.Has(first / partRows) {
			continue
		}
		rows := m.Flights[first:min(first+partRows, p.flights)]
		x, err := p.read(p.path(first))
		switch {
		case err == nil && len(x.Flights) == len(rows):
			copy(rows, x.Flights)
		case err == nil:
			return fmt.Errorf("%s has %d rows, want %d: remove it", p.path(first), len(x.Flights), len(rows))
		case !errors.Is(err, os.ErrNotExist):
			return err
		default:
			if err := m.fly(ctx, first, len(rows), workers, func(n int) { progress(done + n) }); err != nil {
				return err
			}
			if err := command.ReplaceJSON(p.path(first), "", part{Key: p.key, Flights: rows}); err != nil {
				return err
			}
		}
		done += len(rows)
		progress(done)
	}
	return nil
}

// rows returns how many rows a shard has.
func (p *parts) rows(shard command.Shard) (n int) {
	for first := 0; first < p.flights; first += partRows {
		if shard.Has(first / partRows) {
			n += min(partRows, p.flights-first)
		}
	}
	return n
}

// remove removes the parts, when the corpus is made of them.
func (p *parts) remove() error { return os.RemoveAll(p.dir) }
