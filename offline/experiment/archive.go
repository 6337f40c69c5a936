package experiment

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

const (
	archiveSuffix = ".tar.gz"
	archiveMax    = 1 << 28 // bytes, unpacked
)

// OpenFolder returns where a folder is on disk, and a function that ends its use. Of one within an
// archive, as in results.tar.gz/arms, that is a copy, which the function removes.
func OpenFolder(path string) (dir string, done func(), err error) {
	archive, inside, found := cutArchive(path)
	if !found {
		return path, func() {}, nil
	}
	if dir, err = os.MkdirTemp("", "prefdt-results-"); err != nil {
		return "", nil, err
	}
	done = func() { os.RemoveAll(dir) }
	if err := unpack(archive+archiveSuffix, dir); err != nil {
		done()
		return "", nil, err
	}
	return filepath.Join(dir, inside), done, nil
}

// cutArchive divides a path into that of an archive and what is inside of it, if it has one.
func cutArchive(path string) (archive, inside string, found bool) {
	archive, inside, found = strings.Cut(filepath.Clean(path), archiveSuffix)
	return archive, inside, found && (inside == "" || os.IsPathSeparator(inside[0]))
}

// unpack writes the files of an archive to a folder. Beside the archive is its hash, as sha256sum writes it.
func unpack(archive, dir string) error {
	raw, err := os.ReadFile(archive)
	if err != nil {
		return err
	}
	want, err := os.ReadFile(archive + ".sha256")
	if err != nil {
		return err
	}
	if have := fmt.Sprintf("%x", sha256.Sum256(raw)); !bytes.HasPrefix(want, []byte(have)) {
		return fmt.Errorf("%s is damaged: its hash is %s, want %.64s", archive, have, want)
	}
	plain, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		return fmt.Errorf("%s: %w", archive, err)
	}
	files, left := tar.NewReader(plain), int64(archiveMax)
	for {
		h, err := files.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("%s: %w", archive, err)
		case h.Typeflag == tar.TypeDir:
			continue
		}
		if left -= h.Size; h.Typeflag != tar.TypeReg || !filepath.IsLocal(h.Name) || left < 0 {
			return fmt.Errorf("%s holds %q, of %d bytes: want plain files below it, of %d bytes together", archive, h.Name, h.Size,
				archiveMax)
		}
		path := filepath.Join(dir, h.Name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		f, err := os.Create(path)
		if err != nil {
			return err
		}
		_, err = io.Copy(f, files)
		if err := errors.Join(err, f.Close()); err != nil {
			return fmt.Errorf("%s: %w", archive, err)
		}
	}
}
