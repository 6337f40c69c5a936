package built

import (
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// Tests that want a program at once all get it, and an error says what does not build.
func TestProgram(t *testing.T) {
	var group sync.WaitGroup
	for range 3 {
		file := filepath.Join(t.TempDir(), "folder", "blobs")
		group.Go(func() {
			if err := Program(file, "prefdt/firmware/worker/blobs"); err != nil {
				t.Error(err)
			} else if err := exec.Command(file).Run(); err != nil {
				t.Errorf("blobs with nothing to do: %v", err)
			}
		})
	}
	group.Wait()
	if err := Program(filepath.Join(t.TempDir(), "none"), "prefdt/none"); err == nil {
		t.Error("built a package that is not there")
	}
}
