package search

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"prefdt/configs/cli"
	"prefdt/offline/offlinetest"
	"prefdt/offline/seeds"
)

// command runs offline search and returns what it printed.
func runCommand(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out, log bytes.Buffer
	err := Command(t.Context(), cli.NewCall("offline search", args, &out, &log))
	return out.String(), err
}

func readFile(t *testing.T, path ...string) []byte {
	t.Helper()
	return offlinetest.Must(os.ReadFile(filepath.Join(path...)))(t)
}

func TestCommandSearchesResumesAndEvaluates(t *testing.T) {
	whole, cut := filepath.Join(t.TempDir(), "a", "b"), t.TempDir()
	flags := []string{"-pop", "10", "-generations", "5", "-seeds", "2", "-seed", "7"}
	text := offlinetest.Must(runCommand(t, append(flags, "-out", whole)...))(t)
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if want := "propulsion: 168.5 W at 0 m/s, 134.4 W at 8.4 m/s, 646.8 W at 30 m/s"; lines[0] != want {
		t.Errorf("first line %q, want %q", lines[0], want)
	}
	if len(lines) != 7 || !strings.HasPrefix(lines[5], "generation 5/5  evaluations 50  hypervolume ") ||
		!strings.HasSuffix(lines[5], "left 0s") {
		t.Errorf("printed %d lines:\n%s", len(lines), text)
	}

	ctx, cancel := context.WithCancel(t.Context())
	log := &offlinetest.Log{Text: "generation 3/5", Stop: cancel}
	err := Command(ctx, cli.NewCall("offline search", append(flags, "-out", cut), log, io.Discard))
	if err == nil || !strings.Contains(err.Error(), "interrupted after generation 3 of 5") {
		t.Fatalf("interrupted: %v", err)
	}
	if _, err := os.Stat(filepath.Join(cut, "archive.json")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("an unfinished search left an archive: %v", err)
	}
	if _, err := runCommand(t, append(flags, "-out", cut)...); err == nil || !strings.Contains(err.Error(), "-resume") {
		t.Errorf("without -resume: %v", err)
	}
	offlinetest.Must(runCommand(t, append(flags, "-out", cut, "-resume")...))(t)
	for _, name := range []string{"state.json", "archive.json"} {
		if !bytes.Equal(readFile(t, whole, name), readFile(t, cut, name)) {
			t.Errorf("%s of the resumed search differs", name)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(cut, "*.tmp")); len(left) > 0 {
		t.Errorf("temporary files stay: %v", left)
	}

	archive := offlinetest.Must(ReadArchive(filepath.Join(whole, "archive.json")))(t)
	path := filepath.Join(whole, "archive.json")
	text, err = runCommand(t, "-evaluate", path, "-seeds", "1000000:1000003", "-json")
	var got Evaluation
	if err != nil || json.Unmarshal([]byte(text), &got) != nil || got.Hypervolume.N != 3 || got.Hypervolume.Mean < 80e6 {
		t.Errorf("evaluation %+v, %v", got, err)
	}
	want, err := Evaluate(t.Context(), archive, seeds.List(1000000, 3), 1, nil)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("printed %+v, want %+v", got, want)
	}
	if text, err = runCommand(t, "-evaluate", path, "-seeds", "1000000:1000003"); err != nil || !strings.Contains(text, "corner, s") {
		t.Errorf("table %q, %v", text, err)
	}
}

// A mistake is one line that names the value and what would be right.
func TestCommandRefuses(t *testing.T) {
	dir := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		offlinetest.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		return path
	}
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"evaluation seeds":    {[]string{"-seeds", "1000000:1000003"}, "training"},
		"calibration seeds":   {[]string{"-seeds", "99999:100001"}, "training"},
		"seeds backwards":     {[]string{"-seeds", "5:5"}, `"5:5"`},
		"seeds negative":      {[]string{"-seeds", "-3"}, `"-3"`},
		"judged by its own":   {[]string{"-evaluate", "x", "-seeds", "3"}, "not for evaluation"},
		"population":          {[]string{"-pop", "1"}, "population is 1"},
		"generations":         {[]string{"-generations", "0"}, "generations is 0"},
		"workers":             {[]string{"-workers", "0"}, "-workers is 0"},
		"json of a search":    {[]string{"-json"}, "-json"},
		"search flag":         {[]string{"-evaluate", "x", "-pop", "3"}, "-pop"},
		"no archive":          {[]string{"-evaluate", filepath.Join(dir, "none.json")}, "none.json"},
		"archive cut":         {[]string{"-evaluate", file("cut.json", `{"version":1,`)}, "cut.json"},
		"archive version":     {[]string{"-evaluate", file("version.json", `{"version":9}`)}, "version is 9"},
		"archive empty":       {[]string{"-evaluate", file("empty.json", `{"version":1}`)}, "no members"},
		"unknown key":         {[]string{"-recipe", file("key.yaml", "populaton: 3\n")}, "populaton"},
		"world out of range":  {[]string{"-config", file("world.yaml", "aircraft: 0\n")}, "aircraft"},
		"a folder as archive": {[]string{"-evaluate", dir}, "archive"},
	} {
		_, err := runCommand(t, c.args...)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want one line with %q", name, err, c.want)
		}
	}
}

func TestStatesOfOtherSearchesAreRefused(t *testing.T) {
	dir := t.TempDir()
	flags := []string{"-pop", "6", "-generations", "2", "-seeds", "1", "-out", dir}
	offlinetest.Must(runCommand(t, flags...))(t)
	path := filepath.Join(dir, "state.json")
	good := string(readFile(t, path))
	for name, c := range map[string]struct{ old, new, want string }{
		"cut":        {good[len(good)/2:], "", "unexpected end"},
		"version":    {`"version": 1`, `"version": 2`, "version is 2"},
		"generation": {`"generation": 2`, `"generation": 0`, "generation 0"},
		"genes":      {`"genes": [`, `"genes": [9e9,`, "genes"},
		"hash":       {`"config_sha256": "`, `"config_sha256": "0`, "belongs to configuration"},
		"beyond":     {`"generation": 2`, `"generation": 3`, "beyond"},
	} {
		offlinetest.NoError(t, os.WriteFile(path, []byte(strings.Replace(good, c.old, c.new, 1)), 0o600))
		if _, err := runCommand(t, append(flags, "-resume")...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	offlinetest.NoError(t, os.WriteFile(path, []byte(good), 0o600))
	if _, err := runCommand(t, append(flags, "-resume", "-seed", "1")...); err == nil || !strings.Contains(err.Error(), "same flags") {
		t.Errorf("another seed: %v", err)
	}
	// A finished search resumes to nothing but its archive.
	if text, err := runCommand(t, append(flags, "-resume")...); err != nil || strings.Contains(text, "generation ") {
		t.Errorf("finished: %q, %v", text, err)
	}
}

// Searches of a shard each make the archive of one run: the rules of all that none of the
// others dominates.
func TestRestarts(t *testing.T) {
	whole, shards := t.TempDir(), t.TempDir()
	flags := []string{"-pop", "8", "-generations", "2", "-seeds", "1", "-seed", "7", "-restarts", "3", "-resume"}
	offlinetest.Must(runCommand(t, append(flags, "-out", whole)...))(t)
	for _, shard := range []string{"1/2", "0/2"} {
		offlinetest.Must(runCommand(t, append(flags, "-out", shards, "-shard", shard)...))(t)
		if _, err := os.Stat(filepath.Join(shards, "archive.json")); err == nil {
			t.Error("a shard wrote an archive")
		}
	}
	if text, err := runCommand(t, append(flags, "-out", shards)...); err != nil || strings.Contains(text, "generation") {
		t.Fatalf("it was searched again: %v\n%s", err, text)
	}
	for _, name := range []string{"archive.json", "restart0/state.json", "restart2/state.json"} {
		if !bytes.Equal(readFile(t, whole, name), readFile(t, shards, name)) {
			t.Errorf("%s of the shards differs", name)
		}
	}
	single := t.TempDir()
	offlinetest.Must(runCommand(t, "-pop", "8", "-generations", "2", "-seeds", "1", "-seed", "8", "-out", single))(t)
	if !bytes.Equal(readFile(t, single, "state.json"), readFile(t, whole, "restart1", "state.json")) {
		t.Error("the second restart is not the search of the next seed")
	}
	archive, err := ReadArchive(filepath.Join(whole, "archive.json"))
	if err != nil || archive.Config.Restarts != 3 {
		t.Errorf("%+v, %v", archive.Config, err)
	}
	alone := offlinetest.Must(ReadArchive(filepath.Join(single, "archive.json")))(t)
	for _, x := range alone.Members {
		if !slices.ContainsFunc(archive.Members, func(y Member) bool { return y.DelayS <= x.DelayS && y.EnergyJ <= x.EnergyJ }) {
			t.Errorf("no member is as good as (%v s, %v J)", x.DelayS, x.EnergyJ)
		}
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"-shard", "0/2"}, "add -restarts 2"},
		{[]string{"-restarts", "3", "-shard", "3/3"}, "-shard is"},
		{[]string{"-restarts", "-1"}, "restarts is -1"},
		{[]string{"-restarts", "3", "-out", shards}, "add -resume"},
		{[]string{"-evaluate", "archive.json", "-shard", "0/2"}, "-shard does not go with -evaluate"},
	} {
		_, err := runCommand(t, append([]string{"-out", t.TempDir()}, c.args...)...)
		if c.args[0] == "-evaluate" {
			_, err = runCommand(t, c.args...)
		}
		if call := cli.NewCall("", nil, io.Discard, io.Discard); err == nil || call.Exit(err) != 2 ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %q", c.args, err, c.want)
		}
	}
}
