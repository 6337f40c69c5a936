package corpus

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"prefdt/configs/cli"
	"prefdt/offline/offlinetest"
)

// A corpus of shards, and one that was interrupted and continued, is the corpus of one
// run, byte for byte; parts of another corpus and damaged ones are refused, and stay.
func TestPartsMakeTheCorpus(t *testing.T) {
	if testing.Short() {
		t.Skip("flies a corpus twice")
	}
	dir := t.TempDir()
	short := offlinetest.Write(t, "slots: 25\n", t.TempDir(), "world.yaml") // missions of a quarter of the standard world's
	run := func(ctx context.Context, log io.Writer, out string, args ...string) (status int, text string) {
		var stderr bytes.Buffer
		args = append([]string{"-config", short, "-flights", "520", "-episodes", "2", "-prices", "8", "-worlds", "0", "-out",
			filepath.Join(dir, out)}, args...)
		call := cli.NewCall("offline corpus", args, io.Discard, io.MultiWriter(log, &stderr))
		status = call.Exit(Command(ctx, call))
		lines := strings.Split(strings.TrimSpace(stderr.String()), "\n")
		return status, lines[len(lines)-1]
	}
	manifest := func(out string) string {
		raw := offlinetest.Must(os.ReadFile(filepath.Join(dir, out, "manifest.json")))(t)
		return string(raw)
	}
	if status, text := run(t.Context(), io.Discard, "whole"); status != 0 {
		t.Fatal(text)
	}

	// One shard is made alone; the rest is interrupted when its first part is done.
	if status, text := run(t.Context(), io.Discard, "parts", "-shard", "1/2"); status != 0 {
		t.Fatal(text)
	}
	rows := filepath.Join(dir, "parts", "parts", "rows0000250.json")
	if found, _ := filepath.Glob(filepath.Join(dir, "parts", "parts", "rows*")); len(found) != 1 || found[0] != rows {
		t.Errorf("the second of two shards has %v", found)
	}
	good := offlinetest.Must(os.ReadFile(rows))(t)
	for name, bad := range map[string]struct {
		args []string
		rows []byte
		want string
	}{
		"not resumed":    {nil, good, "add -resume"},
		"another seed":   {[]string{"-resume", "-seed", "4"}, good, "another corpus"},
		"half-written":   {[]string{"-resume"}, good[:len(good)/2], "is damaged"},
		"beyond n":       {[]string{"-resume", "-shard", "2/2"}, good, "-shard"},
		"a shard, anew":  {[]string{"-force", "-shard", "0/2"}, good, "-force"},
		"no time at all": {[]string{"-resume", "-limit", "-1s"}, good, "-limit"},
	} {
		offlinetest.NoError(t, os.WriteFile(rows, bad.rows, 0o644))
		if status, text := run(t.Context(), io.Discard, "parts", bad.args...); status != 2 || !strings.Contains(text, bad.want) {
			t.Errorf("%s: status %d, %s", name, status, text)
		}
		if raw, err := os.ReadFile(rows); err != nil || !bytes.Equal(raw, bad.rows) {
			t.Errorf("%s: the part was changed, %v", name, err)
		}
	}
	offlinetest.NoError(t, os.WriteFile(rows, good, 0o644))
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	log := &offlinetest.Log{Text: "archive episodes 2/2", Stop: stop}
	if status, text := run(ctx, log, "parts", "-resume", "-shard", "0/2"); status != 0 {
		t.Errorf("with the archive of the first shard, nothing is swept: status %d, %s", status, text)
	}
	offlinetest.NoError(t, os.Remove(filepath.Join(dir, "parts", "parts", "rows0000500.json")))
	stop()
	if status, text := run(ctx, io.Discard, "parts", "-resume"); status != 75 || !strings.Contains(text, "-resume continues") {
		t.Errorf("interrupted: status %d, %s", status, text)
	}
	if status, text := run(t.Context(), io.Discard, "parts", "-resume"); status != 0 {
		t.Fatal(text)
	}
	if manifest("parts") != manifest("whole") {
		t.Error("the corpus of parts differs")
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*", "parts")); len(left) > 0 {
		t.Errorf("%v stay", left)
	}
}
