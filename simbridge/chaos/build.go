package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// BuildFlyer builds the program that flies missions, simbridge, with files of this module replaced,
// by their path in it.
func BuildFlyer(ctx context.Context, program string, overlay map[string][]byte) error {
	folder, err := os.MkdirTemp("", "flyer")
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
	list, err := WriteOverlay(folder, files)
	if err != nil {
		return err
	}
	command := exec.CommandContext(ctx, "go", "build", "-ldflags", "-s -w", "-overlay", list, "-o", program, "prefdt/simbridge")
	command.Cancel = func() error { return command.Process.Signal(os.Interrupt) } // Go removes its work folder
	command.WaitDelay = time.Second
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("build simbridge: %w: %s", err, strings.TrimSpace(string(out)))
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

func moduleRoot() (string, error) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return "", fmt.Errorf("find the repository: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}
