package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// change is a text in a file of the standard library to replace; before stands in it once.
type change struct{ file, before, after string }

// buildLeader builds the leader with files replaced, by their path in this module, and
// with changes elsewhere.
func buildLeader(ctx context.Context, program string, overlay map[string][]byte, changes ...change) error {
	folder, err := os.MkdirTemp("", "leader")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	root, err := moduleRoot()
	if err != nil {
		return err
	}
	files := map[string][]byte{}
	for path, text := range overlay {
		files[filepath.Join(root, path)] = text
	}
	for _, c := range changes {
		original, text, err := c.apply()
		if err != nil {
			return err
		}
		files[original] = text
	}
	list, err := WriteOverlay(folder, files)
	if err != nil {
		return err
	}
	build := []string{"go", "build", "-ldflags", "-s -w", "-overlay", list, "-o", program, "prefdt/firmware"}
	if nice, err := exec.LookPath("nice"); err == nil { // missions may fly meanwhile
		build = append([]string{nice, "-n", "19"}, build...)
	}
	command := exec.CommandContext(ctx, build[0], build[1:]...)
	command.Cancel = func() error { return command.Process.Signal(os.Interrupt) } // Go removes its work folder
	command.WaitDelay = closingIn
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("build the leader: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}

// WriteOverlay writes files that stand in for others, by the path of those, and the list
// of them for go's -overlay, whose path it returns.
func WriteOverlay(folder string, files map[string][]byte) (list string, err error) {
	replace := map[string]string{}
	for original, text := range files {
		copied := filepath.Join(folder, fmt.Sprintf("%d.go", len(replace)))
		if err := os.WriteFile(copied, text, 0o644); err != nil {
			return "", err
		}
		replace[original] = copied
	}
	raw, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	list = filepath.Join(folder, "overlay.json")
	return list, os.WriteFile(list, raw, 0o644)
}

// apply returns the file's path and its changed text.
func (c *change) apply() (original string, text []byte, err error) {
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return "", nil, fmt.Errorf("find Go: %w", err)
	}
	original = filepath.Join(strings.TrimSpace(string(root)), "src", c.file)
	if text, err = os.ReadFile(original); err != nil {
		return "", nil, fmt.Errorf("read the standard library: %w", err)
	}
	if n := strings.Count(string(text), c.before); n != 1 {
		return "", nil, fmt.Errorf("%s has %q %d times, want once", original, c.before, n)
	}
	return original, []byte(strings.Replace(string(text), c.before, c.after, 1)), nil
}

func moduleRoot() (string, error) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return "", fmt.Errorf("find the repository: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}
