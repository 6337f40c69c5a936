package methods

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

func runCommand(t *testing.T, args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	p := cli.Program{Name: "offline", Commands: []cli.Command{{Name: "method", Run: Command}}}
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

func TestBadInput(t *testing.T) {
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
			code, stdout, stderr := runCommand(t, append(c.args, "-out", out)...)
			if code != cli.ExitUsage || !strings.Contains(stderr, c.want) || strings.Count(stderr, "\n") != 1 || stdout != "" {
				t.Errorf("status %d, %q", code, stderr)
			}
			if _, err := os.Stat(out); err == nil {
				t.Error("something was written")
			}
		})
	}
}

// A method flies, keeps its outcomes, and does not mix them with others.
func TestCommandResumes(t *testing.T) {
	args := []string{"sca-mpc", "-json", "-config", writeFile(t, "slots: 3\n"), "-out", filepath.Join(t.TempDir(), "out"), "-settings", "3",
		"-seeds", "100000:100002"}
	code, first, stderr := runCommand(t, args...)
	var f Figures
	if err := json.Unmarshal([]byte(first), &f); code != 0 || err != nil || f.Hypervolume.N != 2 || len(f.MeanPoints) != 3 {
		t.Fatalf("status %d, %v, %q, %s", code, err, stderr, first)
	}
	if code, _, stderr := runCommand(t, args...); code != cli.ExitUsage || !strings.Contains(stderr, "add -resume") {
		t.Errorf("without -resume: %d, %q", code, stderr)
	}
	if code, again, stderr := runCommand(t, append(args, "-resume")...); code != 0 || again != first || stderr != "" {
		t.Errorf("the second time: %d, %q", code, stderr)
	}
	for _, other := range [][]string{{"-settings", "4"}, {"-config", ""}} {
		if code, _, stderr := runCommand(t, slices.Concat(args, []string{"-resume"}, other)...); code != cli.ExitUsage ||
			!strings.Contains(stderr, "is of another method, world or settings") {
			t.Errorf("with %q: %d, %q", other, code, stderr)
		}
	}
	if code, more, _ := runCommand(t, append(args, "-resume", "-seeds", "100000:100003")...); code != 0 ||
		!strings.Contains(more, `"n": 3`) {
		t.Errorf("with another seed: %d, %s", code, more)
	}
}

// -limit saves, in training and in flight: the same command with -resume ends with the
// outcomes of one that was not ended.
func TestCommandEndsAtItsLimit(t *testing.T) {
	dir := t.TempDir()
	world, recipe := writeFile(t, "slots: 3\n"), writeFile(t, "ppo: {preferences: 2, steps: 96, width: 16, user_width: 8}\n")
	for _, name := range []string{"sca-mpc", "ppo"} {
		args := []string{name, "-json", "-config", world, "-recipe", recipe, "-settings", "2", "-seeds", "100000:100002", "-resume"}
		out := filepath.Join(dir, name)
		code, stdout, stderr := runCommand(t, append(args, "-out", out, "-limit", "1ns")...)
		if code != cli.ExitResumable || stdout != "" ||
			!strings.HasSuffix(stderr, "offline method: -limit is reached; the same command with -resume continues\n") {
			t.Errorf("%s: status %d, %q", name, code, stderr)
		}
		whole, parts := filepath.Join(dir, name+"-whole"), out
		if code, stdout, stderr = runCommand(t, append(args, "-out", whole)...); code != 0 {
			t.Fatalf("%s: status %d, %q", name, code, stderr)
		}
		if code, again, stderr := runCommand(t, append(args, "-out", parts, "-limit", "10m")...); code != 0 || again != stdout {
			t.Errorf("%s continued: status %d, %q, %s, want %s", name, code, stderr, again, stdout)
		}
	}
}

// Every method of the list is trained, on a budget that teaches nothing, and flies at its
// settings; what it spends is stated.
func TestEveryMethod(t *testing.T) {
	if testing.Short() {
		t.Skip("trains all of them")
	}
	r := toyRun(t, 1)
	r.World.Slots = 4
	r.PPO.Preferences, r.PPO.Steps, r.PPO.Episodes, r.PPO.Width, r.PPO.UserWidth = 5, 100, 2, 16, 8
	r.CMDP.PPO = r.PPO
	r.IQL.Width, r.IQL.UserWidth = 16, 8
	r.IQL.Corpus.Flights, r.PEDA.Corpus.Flights = 10, 10
	r.PGMORL.PPO = r.CMDP.PPO
	offlinetest.NoError(t, r.Config.Check())
	r.PPODir = t.TempDir()
	names := map[string]bool{}
	var archive []byte // searched once
	for _, m := range Methods(&r.Config) {
		t.Run(m.Name, func(t *testing.T) {
			own := *r
			own.Dir = t.TempDir()
			path := filepath.Join(own.Dir, "archive.json")
			if archive != nil {
				offlinetest.NoError(t, os.WriteFile(path, archive, 0o644))
			}
			newPolicy := offlinetest.Must(m.New(t.Context(), &own))(t)
			if found, err := os.ReadFile(path); err == nil {
				archive = found
			}
			at := []float64{0, 1}
			if m.BudgetsJ != nil {
				at = m.BudgetsJ(&own.Config)
			}
			outcomes := offlinetest.Must(Fly(t.Context(), &own, &m, newPolicy, at, []uint64{100_000}))(t)
			f := Measure(&own, &m, at, outcomes)
			if learns := !strings.HasPrefix(m.Name, "sca-"); names[m.Name] || m.Description == "" || (f.Budget != nil) != learns {
				t.Errorf("%+v", f)
			}
			if f.Budget != nil && (f.Budget.EnvironmentSteps > 0) == (f.Budget.Transitions+f.Budget.Tokens > 0) {
				t.Errorf("it spends %+v, want either steps or data", *f.Budget)
			}
			for _, p := range outcomes[0] {
				if !(p.DelayS > 0) || !(p.EnergyJ > 0) {
					t.Errorf("outcomes %+v", outcomes)
				}
			}
			names[m.Name] = true
		})
	}
}
