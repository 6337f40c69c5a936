package command

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"prefdt/offline/offlinetest"
	"prefdt/offline/seeds"
)

// A write that fails leaves the file as it was.
func TestReplaceKeepsTheOldFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "folder", "f")
	broken := errors.New("disk full")
	offlinetest.NoError(t, ReplaceFile(path, func(w io.Writer) error { _, err := w.Write([]byte("old")); return err }))
	err := ReplaceFile(path, func(w io.Writer) error { w.Write([]byte("ne")); return broken })
	raw, _ := os.ReadFile(path)
	if !errors.Is(err, broken) || string(raw) != "old" {
		t.Errorf("%v, the file is %q", err, raw)
	}
	if left, _ := os.ReadDir(filepath.Dir(path)); len(left) != 1 {
		t.Errorf("temporary files stay: %v", left)
	}
}

func TestRange(t *testing.T) {
	for _, c := range []struct {
		text  string
		first uint64
		n     int
	}{{"3", 0, 3}, {"5:8", 5, 3}, {"99999:100000", 99999, 1}} {
		list, err := ParseSeeds(c.text, seeds.CheckTraining)
		if err != nil || len(list) != c.n || list[0] != c.first {
			t.Errorf("%q: %v, %v", c.text, list, err)
		}
	}
	for _, text := range []string{"", "x", "5:5", "9:3", "-1:2", "1:2:3", "0:9999999", "99999:100001", "1000000:1000001"} {
		if list, err := ParseSeeds(text, seeds.CheckTraining); err == nil {
			t.Errorf("%q gives %d seeds", text, len(list))
		}
	}
}
