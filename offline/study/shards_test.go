package study

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"prefdt/configs/cli"
	"prefdt/offline/command"
	"prefdt/offline/experiment"
)

// Every arm is in one shard, all arms of a training run in the same, and the work is
// spread as well as whole runs allow.
func TestShards(t *testing.T) {
	c := Default()
	all := c.planned(nil)
	cost := func(arms []experiment.Arm) (costS int) {
		made := map[string]bool{}
		for _, a := range arms {
			costS += a.CoreS
			for _, n := range a.Needs {
				if strings.HasPrefix(n.Path, "train/") && !made[n.Path] {
					made[n.Path] = true
					costS += n.CoreS
				}
			}
		}
		return costS
	}
	whole, dearest := cost(all), 0
	for _, arm := range all {
		if arm.TrainingRun != "" {
			dearest = max(dearest, cost(slices.DeleteFunc(c.planned(nil), func(a experiment.Arm) bool { return a.TrainingRun != arm.TrainingRun })))
		}
	}
	for _, n := range []int{1, 2, 3, 8, 100} {
		shardOf, shardOfRun := map[string]int{}, map[string]int{}
		for i := range n {
			arms, err := experiment.Select(all, experiment.Part{Shard: command.Shard{I: i, N: n}})
			if err != nil {
				t.Fatal(err)
			}
			for _, a := range arms {
				if at, twice := shardOf[a.Name]; twice {
					t.Errorf("%d shards: %s is in %d and %d", n, a.Name, at, i)
				}
				shardOf[a.Name] = i
				if at, known := shardOfRun[a.TrainingRun]; known && at != i && a.TrainingRun != "" {
					t.Errorf("%d shards: run %s is in %d and %d", n, a.TrainingRun, at, i)
				}
				shardOfRun[a.TrainingRun] = i
			}
			if most := max(whole/n*13/10, dearest+10); cost(arms) > most {
				t.Errorf("shard %d of %d takes %d s of %d s, want %d at most", i, n, cost(arms), whole, most)
			}
		}
		if len(shardOf) != len(all) {
			t.Errorf("%d shards have %d arms of %d", n, len(shardOf), len(all))
		}
	}
	few, err := experiment.Select(all, experiment.Part{Only: []string{"base-heads", "even", "base"}, Shard: command.Shard{I: 0, N: 2}})
	if err != nil || len(few) != 2 || few[0].Name != "base" || few[1].Name != "base-heads" {
		t.Errorf("of three arms the first of two shards has %v, %v", few, err)
	}
}

// The plan names the run of an arm, all that it needs, and what that costs.
func TestListAsJSON(t *testing.T) {
	var out bytes.Buffer
	call := cli.NewCall("offline study", []string{"-list", "-json", "-only", "even,paper-form,rules-50"}, &out, io.Discard)
	if err := Command(t.Context(), call); err != nil {
		t.Fatal(err)
	}
	var plan []experiment.Arm
	if err := json.Unmarshal(out.Bytes(), &plan); err != nil || len(plan) != 3 {
		t.Fatalf("%v: %s", err, &out)
	}
	for i, want := range []struct {
		name, run string
		needs     []string
	}{
		{"even", "", nil},
		{"rules-50", "", []string{"search/rules50.json"}},
		{"paper-form", "published", []string{"train/published"}},
	} {
		var needs []string
		for _, n := range plan[i].Needs {
			needs = append(needs, n.Path)
			if n.CoreS < 1 {
				t.Errorf("%s costs nothing", n.Path)
			}
		}
		if p := plan[i]; p.Name != want.name || p.TrainingRun != want.run || !slices.Equal(needs, want.needs) || p.CoreS < 1 {
			t.Errorf("%s, run %q, %d s, want %+v", p.Name, p.TrainingRun, p.CoreS, want)
		}
	}
}

// folderHash is of the names and the contents of all files below a folder.
func folderHash(t *testing.T, dir string) string {
	t.Helper()
	sum := sha256.New()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, _ := filepath.Rel(dir, path)
		raw, err := os.ReadFile(path)
		fmt.Fprintf(sum, "%s %d %s", name, len(raw), raw)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%x", sum.Sum(nil))
}

func copyFolder(t *testing.T, from string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "copy")
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	return to
}

// Shards that were measured in folders of their own make, merged, the files that one run
// makes. What cannot be merged is refused on one line, status 2, and nothing is written.
func TestMerge(t *testing.T) {
	c := tinyConfig()
	only := []string{"even", "controller", "flagship-heads", "random"}
	whole, merged := t.TempDir(), filepath.Join(t.TempDir(), "merged")
	if err := run(t.Context(), c, whole, experiment.Part{Only: only, NoTimes: true}, io.Discard); err != nil {
		t.Fatal(err)
	}
	shards := []string{t.TempDir(), t.TempDir()}
	for i, dir := range shards {
		if err := run(t.Context(), c, dir, experiment.Part{Only: only, Shard: command.Shard{I: i, N: 2}}, io.Discard); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(filepath.Join(dir, "report")); err == nil {
			t.Error("a shard wrote a report")
		}
	}
	merge := func(out string, folders ...string) (status int, text string) {
		var stderr bytes.Buffer
		call := cli.NewCall("offline study", nil, io.Discard, &stderr)
		s, err := open(c, out, io.Discard)
		if err == nil {
			err = s.Merge(t.Context(), folders, experiment.Part{Only: only, NoTimes: true}, s.report)
		}
		status = call.Exit(err)
		return status, stderr.String()
	}
	if status, text := merge(filepath.Join(t.TempDir(), "half"), shards[0]); status != 1 || !strings.Contains(text, "of 4 arms are not measured yet") {
		t.Errorf("half of it: status %d, %s", status, text)
	}
	if status, text := merge(merged, shards...); status != 0 || text != "" {
		t.Fatalf("status %d, %s", status, text)
	}
	if status, text := merge(merged); status != 0 || text != "" { // again, in place
		t.Fatalf("status %d, %s", status, text)
	}
	if folderHash(t, merged) != folderHash(t, whole) {
		t.Error("merged shards and one run differ")
	}

	armOf := func(dir string) string {
		for _, name := range only {
			if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
				return filepath.Join(dir, name, "result.json")
			}
		}
		t.Fatal("no arm")
		return ""
	}
	change := func(path func(dir string) string, f func([]byte) []byte) string {
		dir := copyFolder(t, shards[0])
		raw, err := os.ReadFile(path(dir))
		if err == nil {
			err = os.WriteFile(path(dir), f(raw), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
		return dir
	}
	key := func(dir string) string { return filepath.Join(dir, "study.json") }
	half := func(raw []byte) []byte { return raw[:len(raw)/2] }
	for name, bad := range map[string]struct{ dir, want string }{
		"another study":         {change(key, func(raw []byte) []byte { return bytes.Replace(raw, []byte(`"seeds": 3`), []byte(`"seeds": 4`), 1) }), "another configuration"},
		"half-written":          {change(armOf, half), "is damaged (unexpected end of JSON input)"},
		"another version":       {change(armOf, func(raw []byte) []byte { return bytes.Replace(raw, []byte(`"key":"`), []byte(`"key":"0`), 1) }), "another version"},
		"another outcome":       {change(armOf, func(raw []byte) []byte { return append(raw, ' ') }), "differ"},
		"no study":              {t.TempDir(), "holds no study"},
		"a folder that is none": {filepath.Join(t.TempDir(), "none"), "holds no study"},
	} {
		before, bent := folderHash(t, merged), ""
		if bad.dir != "" {
			if _, err := os.Stat(bad.dir); err == nil {
				bent = folderHash(t, bad.dir)
			}
		}
		status, text := merge(merged, shards[1], bad.dir)
		if status != 2 || strings.Count(text, "\n") != 1 || !strings.Contains(text, bad.want) {
			t.Errorf("%s: status %d, %q, want 2 and one line with %q", name, status, text, bad.want)
		}
		if folderHash(t, merged) != before || bent != "" && folderHash(t, bad.dir) != bent {
			t.Errorf("%s: a file was changed", name)
		}
	}
	if status, text := merge(filepath.Join(t.TempDir(), "nothing")); status != 2 || !strings.Contains(text, "holds no study") {
		t.Errorf("nothing to merge: status %d, %s", status, text)
	}
}

// A run that finds a half-written result, or another study's folder, ends with status 2
// before it writes anything.
func TestRunRefuses(t *testing.T) {
	c := tinyConfig()
	dir := t.TempDir()
	file := func(name, text string) {
		os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755)
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	run := func(args ...string) (status int, text string) {
		config := filepath.Join(t.TempDir(), "study.yaml")
		os.WriteFile(config, []byte("checkpoint: "+c.Checkpoint+"\n"), 0o644)
		var stderr bytes.Buffer
		call := cli.NewCall("offline study", append([]string{"-config", config, "-out", dir}, args...), io.Discard, &stderr)
		return call.Exit(Command(t.Context(), call)), stderr.String()
	}
	file("even/result.json", `{"key": "a`)
	if status, text := run("-only", "even"); status != 2 || !strings.Contains(text, "even/result.json is damaged") {
		t.Errorf("in a folder that is no study's yet: status %d, %s", status, text)
	}
	file("study.json", experiment.NewSet("study", "study", "", Default(), nil, nil).Key)
	for name, bad := range map[string]struct {
		args []string
		want string
	}{
		"half-written result":  {[]string{"-resume", "-only", "even"}, "even/result.json is damaged"},
		"of a shard":           {[]string{"-resume", "-only", "even", "-shard", "0/1"}, "even/result.json is damaged"},
		"another study's":      {[]string{"-resume", "-seeds", "50"}, "another configuration"},
		"shard beyond n":       {[]string{"-resume", "-shard", "8/8"}, `-shard is "8/8"`},
		"arm of a shard":       {[]string{"-resume", "-shard", "0/2", "-only", "best"}, `no arm is called "best"`},
		"merge of a shard":     {[]string{"merge", "-shard", "0/2"}, "neither -shard"},
		"a word":               {[]string{"merged"}, `unexpected "merged"`},
		"less than no limit":   {[]string{"-resume", "-limit", "-1m"}, "-limit"},
		"merge of half-writes": {[]string{"merge"}, "even/result.json is damaged"},
		"no checkpoint":        {[]string{"-resume", "-checkpoint", dir}, "manifest.json"},
	} {
		before := folderHash(t, dir)
		if status, text := run(bad.args...); status != 2 || strings.Count(text, "\n") != 1 || !strings.Contains(text, bad.want) {
			t.Errorf("%s: status %d, %q, want 2 and one line with %q", name, status, text, bad.want)
		}
		if folderHash(t, dir) != before {
			t.Errorf("%s: a file was changed", name)
		}
	}
}
