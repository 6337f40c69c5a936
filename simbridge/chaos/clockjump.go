package chaos

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// BuildJump builds a leader whose wall clock jumps by a day forward and back every 700
// ms, by a changed time.Now in its copy of the standard library. There is no other way to
// give a Go process a wrong clock: Go reads it without a system call. The monotonic part
// of a time is unchanged.
func BuildJump(program string) error {
	out, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return fmt.Errorf("find Go: %w", err)
	}
	original := filepath.Join(strings.TrimSpace(string(out)), "src", "time", "time.go")
	text, err := os.ReadFile(original)
	if err != nil {
		return fmt.Errorf("read the standard library: %w", err)
	}
	folder, err := os.MkdirTemp("", "jump")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	const read = "sec, nsec, mono := runtimeNow()"
	if strings.Count(string(text), read) != 1 {
		return fmt.Errorf("%s does not read the clock as expected: want one %q", original, read)
	}
	changed := strings.Replace(string(text), read, read+"\n\tif mono/700e6%2 == 1 {\n\t\tsec += 86400\n\t}", 1)
	copied, overlay := filepath.Join(folder, "time.go"), filepath.Join(folder, "overlay.json")
	raw, err := json.Marshal(map[string]any{"Replace": map[string]string{original: copied}})
	if err != nil {
		return err
	}
	if err := cmp.Or(os.WriteFile(copied, []byte(changed), 0o644), os.WriteFile(overlay, raw, 0o644)); err != nil {
		return err
	}
	if out, err := exec.Command("go", "build", "-overlay", overlay, "-o", program, "prefdt/firmware").CombinedOutput(); err != nil {
		return fmt.Errorf("build the leader: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}
