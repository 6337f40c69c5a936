package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"prefdt/inference/checkpoint"
	"prefdt/offline/command"
	"prefdt/offline/experiment"
	"prefdt/offline/offlinetest"
	"prefdt/offline/rollout"
)

// A smallTraining network, trained for a moment.
const smallTraining = `
arch: {width: 32, pair_width: 16, layers: 1, heads: 2, context: 1}
batch: 4
schedule: {rate: 0.004, warm_up: 10, steps: 60}
`

// runCommand runs one command of the pipeline.
func runCommand(t *testing.T, stdout io.Writer, args ...string) {
	t.Helper()
	var stderr bytes.Buffer
	if code := program.Run(t.Context(), args, stdout, &stderr); code != 0 {
		t.Fatalf("offline %v: status %d, %s", args, code, &stderr)
	}
}

// The whole pipeline, as make checkpoint runs it, leaves a checkpoint that loads
// and flies; from the same seeds the second, interrupted, is the same byte for
// byte.
func TestPipeline(t *testing.T) {
	if testing.Short() {
		t.Skip("a minute")
	}
	dir := t.TempDir()
	at := func(parts ...string) string { return filepath.Join(append([]string{dir}, parts...)...) }
	config := offlinetest.Write(t, smallTraining, at("train.yaml"))
	short := offlinetest.Write(t, "slots: 20\n", at("world.yaml")) // missions of a fifth of the standard world's
	runCommand(t, io.Discard, "search", "-config", short, "-out", at("search"), "-pop", "8", "-generations", "2", "-resume")
	var graphs []string
	for _, run := range []string{"first", "second"} {
		for _, again := range []string{"", "made before"} {
			var said bytes.Buffer
			if runCommand(t, &said, "corpus", "-config", short, "-out", at(run, "corpus"), "-flights", "400", "-episodes", "4", "-merge",
				at("search", "archive.json"), "-resume"); !strings.Contains(said.String(), again) {
				t.Errorf("resumed, the corpus is not the one that there is: %s", said.String())
			}
		}
		training := []string{"train", "-config", short, "-corpus", at(run, "corpus"), "-out", at(run, "train"), "-recipe", config,
			"-validate", "20", "-resume"}
		if run == "second" { // half of it, then the rest
			interrupted, stop := context.WithCancel(context.Background())
			defer stop()
			if code := program.Run(interrupted, training, &offlinetest.Log{Text: "step 50/", Stop: stop}, io.Discard); code != 75 {
				t.Fatalf("the training was not interrupted: status %d", code)
			}
		}
		runCommand(t, io.Discard, training...)
		if run == "first" {
			runCommand(t, io.Discard, "calibrate", "-config", short, "-corpus", at(run, "corpus"), "-train", at(run, "train"), "-seeds",
				"100000:100008", "-settings", "21", "-flights", "0")
		} else if err := os.Link(at("first", "train", "calibration.json"), at(run, "train", "calibration.json")); err != nil {
			t.Fatal(err)
		}
		var made bytes.Buffer
		runCommand(t, &made, "export", "-corpus", at(run, "corpus"), "-train", at(run, "train"), "-out", at(run, "checkpoint"), "-json")
		var result struct{ Parameters int }
		if err := json.Unmarshal(made.Bytes(), &result); err != nil || result.Parameters == 0 {
			t.Errorf("export -json: %v, %q", err, &made)
		}
		graph := offlinetest.Must(os.ReadFile(at(run, "checkpoint", checkpoint.GraphFile)))(t)
		sum := sha256.Sum256(graph)
		graphs = append(graphs, hex.EncodeToString(sum[:]))
		record, ck := experiment.Record{}, &checkpoint.Manifest{}
		if err := errors.Join(command.ReadJSON(at(run, "checkpoint", "record.json"), &record),
			command.ReadJSON(at(run, "checkpoint", checkpoint.ManifestFile), ck)); err != nil {
			t.Fatal(err)
		}
		if record.Made[checkpoint.GraphFile] != graphs[len(graphs)-1] || len(record.Made) != 5 || record.Version == "" ||
			record.Made[at(run, "corpus", "manifest.json")] == "" || record.World == "" || record.Seeds["train_last"] != "99999" {
			t.Errorf("what the checkpoint was made of: %+v", record)
		}
		if ck.Training["steps"] == 0 || ck.Training["batch"] == 0 || ck.Training["flights"] != 400 {
			t.Errorf("its training: %v", ck.Training)
		}
	}
	if graphs[0] != graphs[1] {
		t.Errorf("two runs end on graphs %.12s and %.12s", graphs[0], graphs[1])
	}
	runCommand(t, io.Discard, "evaluate", "-checkpoint", at("first", "checkpoint"), "-seeds", "1000000:1000002", "-settings", "5",
		"-prices", "5")
}

// In another world than the standard one the corpus is of that world, and so is
// the checkpoint; what was made in one world is not trained in another, and a
// checkpoint that is evaluated in another says so.
func TestAnotherWorld(t *testing.T) {
	if testing.Short() {
		t.Skip("half a minute")
	}
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	offlinetest.Write(t, "slots: 20\nusers: 6\nphysics: {area_m: 600, propulsion: {blade_w: 40, induced_w: 50}}\n", at("world.yaml"))
	offlinetest.Write(t, smallTraining, at("train.yaml"))
	runCommand(t, io.Discard, "corpus", "-config", at("world.yaml"), "-out", at("corpus"), "-flights", "400", "-episodes", "3")
	training := []string{"-corpus", at("corpus"), "-out", at("train"), "-recipe", at("train.yaml"), "-validate", "0"}
	var refusal bytes.Buffer
	if code := program.Run(t.Context(), append([]string{"train", "-config", "../configs/world.yaml"}, training...), io.Discard,
		&refusal); code != 2 || !strings.Contains(refusal.String(), "users 6, here 10") {
		t.Errorf("trained in another world than the corpus's: status %d, %s", code, &refusal)
	}
	runCommand(t, io.Discard, append([]string{"train", "-config", at("world.yaml")}, training...)...)
	runCommand(t, io.Discard, "calibrate", "-config", at("world.yaml"), "-corpus", at("corpus"), "-train", at("train"), "-seeds",
		"100000:100004", "-settings", "21", "-flights", "0")
	runCommand(t, io.Discard, "export", "-corpus", at("corpus"), "-train", at("train"), "-out", at("checkpoint"))
	ck := offlinetest.Must(checkpoint.Load(at("checkpoint")))(t)
	if c, err := rollout.WorldOf(&ck.Manifest); err != nil || c.Users != 6 || c.Slots != 20 || c.Physics.AreaSideM != 600 ||
		c.Physics.Propulsion.BladeW != 40 {
		t.Errorf("the checkpoint is of the world %+v, %v", c, err)
	}
	for _, c := range []struct {
		args []string
		warn string
	}{
		{nil, ""}, {[]string{"-config", at("world.yaml")}, ""},
		{[]string{"-config", "../configs/world.yaml"},
			"warning: the checkpoint was trained in another world: physics.area_m 600, here 1000"},
	} {
		var log bytes.Buffer
		args := append([]string{"evaluate", "-checkpoint", at("checkpoint"), "-seeds", "1000000:1000001", "-settings", "3", "-prices", "3"},
			c.args...)
		if code := program.Run(t.Context(), args, io.Discard, &log); code != 0 {
			t.Fatalf("status %d, %s", code, &log)
		}
		if warned := strings.Contains(log.String(), "warning"); warned != (c.warn != "") || !strings.Contains(log.String(), c.warn) {
			t.Errorf("evaluate %q says %q, want %q", c.args, log.String(), c.warn)
		}
	}
}
