package ledger

import (
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	bolt "go.etcd.io/bbolt"

	"prefdt/firmware/account"
	"prefdt/telemetry"
)

// Finished missions are files, for whatever copies files from a vehicle: each appears
// whole, under its final name, and does not change any more.

const (
	filesFolder = "missions" // in the state directory
	fileSuffix  = ".json.gz"
	unfinished  = ".part" // a file that is being written
)

// FilesPath returns the folder of finished missions in a state directory.
func FilesPath(dir string) string { return filepath.Join(dir, filesFolder) }

// WriteFiles writes a file for each mission of the ledger that has rows and no file yet;
// for the present one only once nothing is left of it to fly. A file is what `leader log export -json` writes
// of the mission, gzipped; its name begins with the time of the first row, UTC. The
// oldest are deleted beyond the bytes that rows may have. It may be called beside a write.
func (l *Ledger) WriteFiles() error {
	folder := FilesPath(filepath.Dir(l.path))
	if err := os.MkdirAll(folder, 0o750); err != nil {
		return err
	}
	commands, err := l.Commands()
	if err != nil {
		return err
	}
	err = l.db.View(func(tx *bolt.Tx) error {
		return eachFlight(tx, func(state []byte, slots *bolt.Bucket, present bool) error {
			f, err := l.flight(state, commands)
			if err != nil || present && telemetry.UnderWay(f.State.Phase) {
				return err
			}
			return l.writeFile(folder, &f, slots)
		})
	})
	if err != nil {
		return err
	}
	return dropOldFiles(folder, int64(l.maxRowBytes))
}

// writeFile writes one mission's file, unless it has one or no rows. Rows are copied as
// they are stored: a file costs no memory.
func (l *Ledger) writeFile(folder string, f *Flight, slots *bolt.Bucket) error {
	_, raw := slots.Cursor().First()
	if raw == nil {
		return nil
	}
	var first account.Row
	if err := l.decodeWithChecksum(raw, &first); err != nil {
		return err
	}
	path := filepath.Join(folder, time.UnixMilli(first.UnixMS).UTC().Format("20060102T150405Z-")+f.State.Mission+fileSuffix)
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	err := WriteWhole(path, func(w io.Writer) error {
		z := gzip.NewWriter(w)
		return errors.Join(l.writeFlight(z, f, slots), z.Close())
	})
	if err != nil {
		return fmt.Errorf("file of mission %s: %w", f.State.Mission, err)
	}
	return nil
}

// WriteWhole writes a file that is whole whenever it is read, also after a loss of power; until then the one before stays.
func WriteWhole(path string, write func(io.Writer) error) error {
	part := path + unfinished
	file, err := os.OpenFile(part, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o640)
	if err != nil {
		return err
	}
	defer os.Remove(part) // in vain once it is renamed
	if err := errors.Join(write(file), file.Sync(), file.Close()); err != nil {
		return err
	}
	if err := os.Rename(part, path); err != nil {
		return err
	}
	return syncFolder(filepath.Dir(path))
}

// writeFlight writes a flight as an array of one, with the rows of a bucket.
func (l *Ledger) writeFlight(w io.Writer, f *Flight, slots *bolt.Bucket) error {
	state, err := json.Marshal(f.State)
	if err != nil {
		return err
	}
	separator := fmt.Sprintf("[{\"state\":%s,\n\"rows\":[", state)
	err = slots.ForEach(func(_, raw []byte) error {
		if err := l.decodeWithChecksum(raw, nil); err != nil {
			return err
		}
		_, err := fmt.Fprintf(w, "%s\n%s", separator, raw[:len(raw)-4])
		separator = ","
		return err
	})
	if err != nil {
		return err
	}
	commands, err := json.Marshal(f.Commands)
	if err == nil {
		_, err = fmt.Fprintf(w, "],\n\"commands\":%s}]\n", commands)
	}
	return err
}

// dropOldFiles deletes the oldest files until the rest fit, and what a loss of power left
// incomplete. The newest stays.
func dropOldFiles(folder string, mostBytes int64) error {
	entries, err := os.ReadDir(folder) // by name, which is by time
	if err != nil {
		return err
	}
	total, newest := int64(0), true
	for _, e := range slices.Backward(entries) {
		path := filepath.Join(folder, e.Name())
		info, err := e.Info()
		switch {
		case err != nil: // an uploader moved it
		case strings.HasSuffix(path, fileSuffix+unfinished):
			err = os.Remove(path)
		case !strings.HasSuffix(path, fileSuffix):
		case !newest && total+info.Size() > mostBytes:
			err = os.Remove(path)
		default:
			total, newest = total+info.Size(), false
		}
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}

func syncFolder(dir string) error {
	d, err := os.Open(dir)
	if err == nil {
		defer d.Close()
		err = d.Sync()
	}
	return err
}
