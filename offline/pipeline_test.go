package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"prefdt/inference/checkpoint"
)

// A smallTraining network, trained for a moment.
const smallTraining = `
arch: {width: 32, pair_width: 16, layers: 1, heads: 2, context: 1}
batch: 8
schedule: {rate: 0.004, warm_up: 10, steps: 80}
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
	config := at("train.yaml")
	if err := os.WriteFile(config, []byte(smallTraining), 0o644); err != nil {
		t.Fatal(err)
	}
	runCommand(t, io.Discard, "search", "-out", at("search"), "-pop", "8", "-generations", "2", "-resume")
	var graphs []string
	for _, run := range []string{"first", "second"} {
		for _, again := range []string{"", "made before"} {
			var said bytes.Buffer
			if runCommand(t, &said, "corpus", "-out", at(run, "corpus"), "-flights", "1000", "-episodes", "20", "-merge", at("search", "archive.json"), "-resume"); !strings.Contains(said.String(), again) {
				t.Errorf("resumed, the corpus is not the one that there is: %s", said.String())
			}
		}
		training := []string{"train", "-corpus", at(run, "corpus"), "-out", at(run, "train"), "-config", config, "-validate", "60", "-resume"}
		if run == "second" { // half of it, then the rest
			interrupted, stop := context.WithCancel(context.Background())
			defer stop()
			if code := program.Run(interrupted, training, cancelOnLine{"step 50/", stop}, io.Discard); code != 1 {
				t.Fatalf("the training was not interrupted: status %d", code)
			}
		}
		runCommand(t, io.Discard, training...)
		if run == "first" {
			runCommand(t, io.Discard, "calibrate", "-corpus", at(run, "corpus"), "-train", at(run, "train"), "-seeds", "100000:100008", "-settings", "21", "-flights", "0")
		} else if err := os.Link(at("first", "train", "calibration.json"), at(run, "train", "calibration.json")); err != nil {
			t.Fatal(err)
		}
		var made bytes.Buffer
		runCommand(t, &made, "export", "-corpus", at(run, "corpus"), "-train", at(run, "train"), "-out", at(run, "checkpoint"), "-json")
		var result struct{ Parameters int }
		if err := json.Unmarshal(made.Bytes(), &result); err != nil || result.Parameters == 0 {
			t.Errorf("export -json: %v, %q", err, &made)
		}
		graph, err := os.ReadFile(at(run, "checkpoint", checkpoint.GraphFile))
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(graph)
		graphs = append(graphs, hex.EncodeToString(sum[:]))
	}
	if graphs[0] != graphs[1] {
		t.Errorf("two runs end on graphs %.12s and %.12s", graphs[0], graphs[1])
	}
	runCommand(t, io.Discard, "evaluate", "-checkpoint", at("first", "checkpoint"), "-seeds", "1000000:1000002", "-settings", "5", "-prices", "5")
}

// cancelOnLine calls stop once something is written.
type cancelOnLine struct {
	prefix string
	cancel func()
}

func (s cancelOnLine) Write(p []byte) (int, error) {
	if len(p) >= len(s.prefix) && string(p[:len(s.prefix)]) == s.prefix {
		s.cancel()
	}
	return len(p), nil
}
