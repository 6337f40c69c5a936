package experiment

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"prefdt/offline/offlinetest"
)

// A folder within an archive is its files; an archive that is damaged, or holds what is no file below it, is refused.
func TestOpenFolder(t *testing.T) {
	file := &tar.Header{Name: "arms/a/result.json", Typeflag: tar.TypeReg, Size: 2, Mode: 0o644}
	for name, c := range map[string]struct {
		header *tar.Header
		spoil  bool
		want   string
	}{
		"a folder":       {file, false, ""},
		"damaged":        {file, true, "is damaged: its hash is"},
		"out of it":      {&tar.Header{Name: "../a", Typeflag: tar.TypeReg, Size: 2}, false, `holds "../a"`},
		"a link":         {&tar.Header{Name: "a", Typeflag: tar.TypeSymlink, Linkname: "/"}, false, `holds "a"`},
		"without an end": {&tar.Header{Name: "a", Typeflag: tar.TypeReg, Size: 1 << 40}, false, "of 1099511627776 bytes"},
	} {
		var raw bytes.Buffer
		plain := gzip.NewWriter(&raw)
		files := tar.NewWriter(plain)
		offlinetest.NoError(t, files.WriteHeader(c.header))
		files.Write([]byte("{}")[:min(c.header.Size, 2)])
		if c.header.Size < 1<<20 {
			files.Close()
		}
		plain.Close()
		folder := t.TempDir()
		sum := fmt.Sprintf("%x  results.tar.gz\n", sha256.Sum256(raw.Bytes()))
		if c.spoil {
			raw.Bytes()[20] ^= 1
		}
		offlinetest.Write(t, sum, folder, "results.tar.gz.sha256")
		path := offlinetest.Write(t, raw.String(), folder, "results.tar.gz")
		dir, done, err := OpenFolder(filepath.Join(path, "arms"))
		if c.want != "" {
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v, want %q", name, err, c.want)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if text, err := os.ReadFile(filepath.Join(dir, "a", "result.json")); err != nil || string(text) != "{}" {
			t.Errorf("%s: %q, %v", name, text, err)
		}
		done()
		if _, err := os.Stat(dir); err == nil {
			t.Errorf("%s stays", dir)
		}
	}
	if dir, _, err := OpenFolder("out/results"); err != nil || dir != "out/results" {
		t.Errorf("a folder on disk: %q, %v", dir, err)
	}
}
