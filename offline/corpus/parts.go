package corpus

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"prefdt/offline/command"
)

// parts is a corpus that is being built, in a folder: the teacher's archive and ranges of
// rows. Work that is ended early goes on from them, and several processes may make a
// share each; a row depends on the archive, the recipe and its number alone.
type parts struct {
	dir     string
	key     string // of all that the corpus depends on
	flights int
	archive *Archive          // nil: not yet made
	flown   map[int][]Episode // by the number of their first row
}

// partRows is the number of rows in a part, a second or two of one core.
const partRows = 250

// part is one file. It has either.
type part struct {
	Key     string    `json:"key"`
	Archive *Archive  `json:"archive,omitempty"`
	Flights []Episode `json:"flights,omitempty"`
}

func (p *parts) archivePath() string { return filepath.Join(p.dir, "archive.json") }
func (p *parts) path(first int) string {
	return filepath.Join(p.dir, fmt.Sprintf("rows%07d.json", first))
}

// readParts reads all parts in a folder. Its error is bad input.
func readParts(dir, key string, flights int) (*parts, error) {
	p := &parts{dir: dir, key: key, flights: flights, flown: map[int][]Episode{}}
	archive, err := p.read(p.archivePath())
	if p.archive = archive.Archive; err == nil && p.archive != nil {
		err = p.archive.Check()
	}
	for first := 0; first < flights && err == nil; first += partRows {
		var x part
		if x, err = p.read(p.path(first)); err != nil || x.Flights == nil {
			continue
		}
		if want := min(partRows, flights-first); len(x.Flights) != want {
			err = fmt.Errorf("%s has %d rows, want %d: remove it", p.path(first), len(x.Flights), want)
		}
		p.flown[first] = x.Flights
	}
	return p, err
}

// read reads a part, an empty one if there is none.
func (p *parts) read(path string) (x part, err error) {
	err = command.ReadJSON(path, &x)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return part{}, nil
	case err != nil:
		err = fmt.Errorf("%s is damaged (%w): remove it, and it is made again", path, err)
	case x.Key != p.key:
		err = fmt.Errorf("%s is a part of another corpus: give that one's flags, another -out, or -force", path)
	}
	return x, err
}

// fly flies the rows of m's shard that there are not. progress is called with the number of rows done.
func (p *parts) fly(ctx context.Context, m *Manifest, shard command.Shard, workers int, progress func(done int)) error {
	done := 0
	for first := 0; first < p.flights; first += partRows {
		if !shard.Has(first / partRows) {
			continue
		}
		rows := m.Flights[first:min(first+partRows, p.flights)]
		if copy(rows, p.flown[first]) == 0 {
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
