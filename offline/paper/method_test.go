package paper

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"prefdt/configs/cli"
	"prefdt/offline/offlinetest"
)

func runMethod(t *testing.T, args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	p := cli.Program{Name: "offline", Commands: []cli.Command{{Name: "method", Run: MethodCommand}}}
	code = p.Run(t.Context(), append([]string{"method"}, args...), &out, &errs)
	return code, out.String(), errs.String()
}

// writeFile writes a file of its own.
func writeFile(t *testing.T, text string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "file.yaml")
	offlinetest.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	return path
}

func TestMethodBadInput(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"no name":        {nil, "want the name of a method"},
		"unknown":        {[]string{"magic"}, `no method is called "magic"`},
		"training seeds": {[]string{"sca-mpc", "-seeds", "0:3"}, "seed 0 may have been trained on"},
		"evaluation training": {[]string{"ppo", "-recipe", writeFile(t, "ppo: {seeds: \"1000000:1000001\"}\n")},
			"seed 1000000 is not for search or training"},
		"settings": {[]string{"ppo", "-settings", "1"}, "-settings 1"},
		"budget":   {[]string{"ppo", "-budget", "0"}, "-budget is 0"},
	} {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := runMethod(t, append(c.args, "-out", out)...)
			if code != cli.ExitUsage || !strings.Contains(stderr, c.want) || strings.Count(stderr, "\n") != 1 || stdout != "" {
				t.Errorf("status %d, %q", code, stderr)
			}
			if _, err := os.Stat(out); err == nil {
				t.Error("something was written")
			}
		})
	}
}

// A method flies, keeps its outcomes, and does not mix them with those of other settings, seeds or worlds.
func TestMethodResumes(t *testing.T) {
	args := []string{"sca-mpc", "-json", "-config", writeFile(t, "slots: 3\n"), "-out", filepath.Join(t.TempDir(), "out"), "-settings", "3",
		"-seeds", "100000:100002"}
	code, first, stderr := runMethod(t, args...)
	var f methodFigures
	if err := json.Unmarshal([]byte(first), &f); code != 0 || err != nil || f.Hypervolume.N != 2 || len(f.MeanPoints) != 3 {
		t.Fatalf("status %d, %v, %q, %s", code, err, stderr, first)
	}
	if code, _, stderr := runMethod(t, args...); code != cli.ExitUsage || !strings.Contains(stderr, "add -resume") {
		t.Errorf("without -resume: %d, %q", code, stderr)
	}
	if code, again, stderr := runMethod(t, append(args, "-resume")...); code != 0 || again != first || stderr != "" {
		t.Errorf("the second time: %d, %q", code, stderr)
	}
	if code, _, stderr := runMethod(t, slices.Concat(args, []string{"-resume", "-config", ""})...); code != cli.ExitUsage ||
		!strings.Contains(stderr, "is of another method, world or settings") {
		t.Errorf("in another world: %d, %q", code, stderr)
	}
	for want, other := range map[string][]string{`"n": 3`: {"-seeds", "100000:100003"}, "0.3333333333333333,": {"-settings", "4"}} {
		code, more, _ := runMethod(t, slices.Concat(args, []string{"-resume"}, other)...)
		if err := json.Unmarshal([]byte(more), &f); code != 0 || err != nil || !strings.Contains(more, want) {
			t.Errorf("with %q: %d, %v, %s", other, code, err, more)
		}
	}
}

// -limit saves, in training and in flight: the same command with -resume ends with the
// outcomes of one that was not ended.
func TestMethodEndsAtItsLimit(t *testing.T) {
	dir := t.TempDir()
	world, recipe := writeFile(t, "slots: 3\n"), writeFile(t, "ppo: {preferences: 2, steps: 96, width: 16, user_width: 8}\n")
	for _, name := range []string{"sca-mpc", "ppo"} {
		args := []string{name, "-json", "-config", world, "-recipe", recipe, "-settings", "2", "-seeds", "100000:100002", "-resume"}
		out := filepath.Join(dir, name)
		code, stdout, stderr := runMethod(t, append(args, "-out", out, "-limit", "1ns")...)
		if code != cli.ExitResumable || stdout != "" ||
			!strings.HasSuffix(stderr, "offline method: -limit is reached; the same command with -resume continues\n") {
			t.Errorf("%s: status %d, %q", name, code, stderr)
		}
		whole, parts := filepath.Join(dir, name+"-whole"), out
		if code, stdout, stderr = runMethod(t, append(args, "-out", whole)...); code != 0 {
			t.Fatalf("%s: status %d, %q", name, code, stderr)
		}
		if code, again, stderr := runMethod(t, append(args, "-out", parts, "-limit", "10m")...); code != 0 || again != stdout {
			t.Errorf("%s continued: status %d, %q, %s, want %s", name, code, stderr, again, stdout)
		}
	}
}
