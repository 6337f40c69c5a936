package leader

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
)

// A count that cannot be read or written permits no HEARTBEAT; one that commands begins anew.
func TestAllowance(t *testing.T) {
	taken := func(dir string, disk func(func() error) error) (n int) {
		a := newAllowance(dir, disk, slog.New(slog.DiscardHandler))
		for a.fetch(); ; n++ {
			if a.writes.Wait(); !a.take() {
				break
			}
		}
		a.writes.Wait()
		return n
	}
	dir := t.TempDir()
	if first, second := taken(dir, nil), taken(dir, nil); first != earlyHeartbeats || second != 0 {
		t.Errorf("%d, and %d after a restart, want %d in all", first, second, earlyHeartbeats)
	}
	if n := taken(t.TempDir(), func(func() error) error { return errors.New("read-only") }); n != 0 {
		t.Errorf("%d that no disk has", n)
	}
	if err := os.WriteFile(filepath.Join(dir, "early-heartbeats"), []byte("\x00"), 0o600); err != nil {
		t.Fatal(err)
	}
	if n := taken(dir, nil); n != 0 {
		t.Errorf("%d with a count that is damaged", n)
	}
}
