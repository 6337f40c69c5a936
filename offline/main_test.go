package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"prefdt/offline/offlinetest"
)

// What a user gets wrong is found before any work begins: one line, status 2.
func TestBadInput(t *testing.T) {
	dir := t.TempDir()
	file := func(text string, path ...string) string {
		return offlinetest.Write(t, text, append([]string{dir}, path...)...)
	}
	none, blocked := filepath.Join(dir, "none"), filepath.Join(file("", "file"), "out")
	checkpoint := []string{"-checkpoint", "../configs/checkpoint"}
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"no command":       {[]string{"fly"}, `no command "fly"; want one of search, corpus, train`},
		"no such flag":     {[]string{"corpus", "-size", "3"}, "-size"},
		"stray word":       {[]string{"export", "now"}, `unexpected "now"`},
		"search in a file": {[]string{"search", "-out", blocked}, "file"},
		"search of a fraction": {[]string{"search", "-recipe", file("population: 2.5\n", "search.yaml")},
			`population is "2.5", want an integer`},
		"corpus of no flights":     {[]string{"corpus", "-flights", "0"}, "-flights must be positive"},
		"corpus in a file":         {[]string{"corpus", "-out", blocked}, "file"},
		"corpus of a bad recipe":   {[]string{"corpus", "-out", none, "-gust", "2"}, "gust is 2"},
		"corpus over what is none": {[]string{"corpus", "-out", filepath.Dir(file("{", "damaged", "manifest.json"))}, "-force"},
		"corpus of no rules":       {[]string{"corpus", "-out", none, "-merge", none}, "none"},
		"train over a run":         {[]string{"train", "-out", filepath.Dir(file("", "run", "state.bin"))}, "add -resume"},
		"train backwards":          {[]string{"train", "-steps", "-1"}, "-steps -1"},
		"train on nothing":         {[]string{"train", "-corpus", none, "-out", filepath.Join(dir, "t")}, "none"},
		"an estimator of nothing":  {[]string{"train-estimator", "-window", "0"}, "a memory of 0 slots"},
		"an estimator over a run": {[]string{"train-estimator", "-out",
			filepath.Dir(filepath.Dir(file("", "est", "first", "state.bin")))}, "add -resume"},
		"an estimator on other seeds": {[]string{"train-estimator", "-recipe", file("seeds: \"1000000:1000010\"\n", "est.yaml")},
			"1000000"},
		"an estimator from nothing":         {[]string{"train-estimator", "-from", none}, "none"},
		"an estimator in a file":            {[]string{"train-estimator", "-out", blocked}, "file"},
		"calibrate on evaluation seeds":     {append([]string{"calibrate", "-seeds", "1000000:1000010"}, checkpoint...), "1000000"},
		"calibrate for no promise":          {append([]string{"calibrate", "-flights", "50"}, checkpoint...), "50 flights cannot"},
		"calibrate beyond its seeds":        {append([]string{"calibrate", "-seeds", "109000:109700"}, checkpoint...), "110000"},
		"calibrate on less than no flights": {append([]string{"calibrate", "-flights", "-1"}, checkpoint...), "-flights"},
		"reserve of a training run":         {[]string{"calibrate", "-reserve"}, "add -checkpoint"},
		"reserve on evaluation seeds": {append([]string{"calibrate", "-reserve", "-seeds", "1000000:1000010"}, checkpoint...),
			"not for calibration"},
		"reserve of no probability": {append([]string{"calibrate", "-reserve", "-probabilities", "0.1,,2"}, checkpoint...),
			`-probabilities has ""`},
		"reserve of too large a share": {append([]string{"calibrate", "-reserve", "-shares", "0.1,2"}, checkpoint...),
			`-shares has "2"`},
		"export of nothing":          {[]string{"export", "-corpus", none}, "none"},
		"export of no estimator":     {[]string{"export", "-estimator", none}, "none"},
		"export into a checkpoint":   {append([]string{"export"}, checkpoint...), "add -estimator"},
		"evaluate nothing":           {[]string{"evaluate", "-checkpoint", none}, "none"},
		"evaluate on training seeds": {append([]string{"evaluate", "-seeds", "0:5"}, checkpoint...), "seed 0 is not for evaluation"},
		"evaluate by no decoder":     {append([]string{"evaluate", "-decoder", "magic"}, checkpoint...), "-decoder"},
		"evaluate no fleet":          {append([]string{"evaluate", "-fleet", "2,x"}, checkpoint...), "-fleet"},
		"evaluate one setting":       {append([]string{"evaluate", "-settings", "1"}, checkpoint...), "-settings"},
		"evaluate and draw several policies": {append([]string{"evaluate", "-world", "phones", "-plot", none}, checkpoint...),
			"-plot is of one policy"},
		"evaluate budgets by no arm":    {append([]string{"evaluate", "-budget", "-arms", "frugal"}, checkpoint...), `-arms has "frugal"`},
		"evaluate budgets of no energy": {append([]string{"evaluate", "-budget", "-cells", "lots"}, checkpoint...), `"lots" is no`},
		"evaluate own budgets, revised": {append([]string{"evaluate", "-budget", "-cells", "30kJ", "-perturbation", "revised"},
			checkpoint...), `contains "revised"`},
		"evaluate cells of nothing": {append([]string{"evaluate", "-cells", "30kJ"}, checkpoint...), "or of -budget"},
		"evaluate cells of a field world": {append([]string{"evaluate", "-budget", "-world", "wind", "-cells", "30kJ"}, checkpoint...),
			"-cells"},
		"evaluate in two worlds": {append([]string{"evaluate", "-config", none, "-world", "phones"}, checkpoint...),
			"-config and -world"},
		"evaluate in a file's world": {append([]string{"evaluate", "-world", "mine.yaml"}, checkpoint...), "-config has a file"},
		"evaluate no pack":           {append([]string{"evaluate", "-packs", "-cells", "20J"}, checkpoint...), `-cells has "20J"`},
		"evaluate packs by no arm":   {append([]string{"evaluate", "-packs", "-arms", "best"}, checkpoint...), `-arms has "best"`},
		"evaluate budgets under nothing": {append([]string{"evaluate", "-budget", "-perturbation", "earthquake"}, checkpoint...),
			`contains "earthquake"`},
		"evaluate no estimator":         {append([]string{"evaluate", "-world", "field", "-estimator", none}, checkpoint...), "none"},
		"evaluate an estimator nowhere": {append([]string{"evaluate", "-estimator", none}, checkpoint...), "-world"},
		"evaluate memories nowhere":     {append([]string{"evaluate", "-contexts", none}, checkpoint...), "-world"},
		"evaluate a memory of nothing":  {append([]string{"evaluate", "-world", "field", "-contexts", none}, checkpoint...), "none"},
		"evaluate no field world":       {append([]string{"evaluate", "-world", "moor"}, checkpoint...), "moor"},
		"evaluate less than no worlds":  {append([]string{"evaluate", "-random-worlds", "-2"}, checkpoint...), "-random-worlds"},
		"train-prefdt over a run":       {[]string{"papertrain", "-out", filepath.Dir(file("", "paper", "state.bin"))}, "add -resume"},
		"train-prefdt on a damaged state": {[]string{"train-prefdt", "-resume", "-out",
			filepath.Dir(file("PREFDTT1", "damaged paper", "state.bin"))}, "state.bin"},
		"train-prefdt of no tokens": {[]string{"train-prefdt", "-tokens", "1", "-out", none}, "-tokens is 1"},
		"train-prefdt of an odd width": {[]string{"train-prefdt", "-config", file("form: {width: 130}\n", "odd.yaml"), "-out", none},
			"not a multiple"},
		"train-prefdt exports nothing":  {[]string{"train-prefdt", "-export", filepath.Join(dir, "x"), "-out", none}, "cooldown.bin"},
		"train-prefdt of a state alone": {[]string{"train-prefdt", "-state", "x", "-out", none}, "-export"},
		"study of less than no seeds":   {[]string{"study", "-seeds", "-2"}, "-seeds"},
		"study of one seed":             {append([]string{"study", "-seeds", "1"}, checkpoint...), "study seeds is 1"},
		"study of no file":              {[]string{"study", "-config", none}, "none"},
		"study over a study":            {[]string{"study", "-out", filepath.Dir(file("{}", "made", "study.json"))}, "add -resume"},
		"study of a shard beyond n":     {[]string{"study", "-shard", "8/8"}, `-shard is "8/8"`},
		"study of no arm":               {[]string{"study", "-shard", "0/8", "-only", "best"}, `no arm is called "best"`},
		"study merge of nothing": {append([]string{"study", "merge", none, "-out", filepath.Join(dir, "merged")}, checkpoint...),
			"none holds no study"},
		"search in more shards than it has": {[]string{"search", "-out", none, "-shard", "0/2"}, "add -restarts 2"},
		"corpus of a shard beyond n":        {[]string{"corpus", "-out", none, "-shard", "2/2"}, `-shard is "2/2"`},
		"replay nothing":                    {[]string{"replay"}, "-record"},
		"replay of nothing":                 {append([]string{"replay", "-record", none}, checkpoint...), "none"},
		"bench of nothing":                  {[]string{"bench", "-only", "nothing"}, `-only has "nothing"`},
		"bench of no slots":                 {[]string{"bench", "-slots", "0"}, "-slots is 0"},
		"bench of no checkpoint":            {[]string{"bench", "-checkpoint", none, "-out", none}, "none"},
	} {
		t.Run(name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			code := program.Run(t.Context(), c.args, &stdout, &stderr)
			if text := stderr.String(); code != 2 || stdout.Len() > 0 || !strings.Contains(text, c.want) ||
				strings.Count(text, "\n") != 1 || !strings.HasPrefix(text, "offline") {
				t.Errorf("status %d, %q, %q; want 2 and one line with %q", code, &stdout, text, c.want)
			}
		})
	}
}

// What a signal or -limit ends says what continues it, and ends with status 75; an
// evaluation keeps nothing, and fails.
func TestEndedEarly(t *testing.T) {
	dir := t.TempDir()
	shipped := filepath.Join(dir, "checkpoint")
	offlinetest.NoError(t, os.CopyFS(shipped, os.DirFS("../configs/checkpoint")))
	signalled, signal := context.WithCancel(t.Context())
	signal()
	for name, c := range map[string]struct {
		args   string
		status int
		want   string
	}{
		"search":    {"search -out OUT", 75, "-resume continues"},
		"corpus":    {"corpus -flights 10 -out OUT", 75, "-resume begins it anew"},
		"calibrate": {"calibrate -checkpoint SHIPPED", 75, "the same command continues"},
		"study":     {"study -checkpoint SHIPPED -only even -out OUT", 75, "in arm even; the same command with -resume continues"},
		"evaluate":  {"evaluate -checkpoint SHIPPED", 1, "interrupted before"},
	} {
		run := func(ctx context.Context, args string) (int, string) {
			var stderr bytes.Buffer
			args = strings.NewReplacer("SHIPPED", shipped, "OUT", t.TempDir()).Replace(args)
			return program.Run(ctx, strings.Fields(args), io.Discard, &stderr), stderr.String()
		}
		if status, text := run(signalled, c.args); status != c.status || !strings.Contains(text, "interrupted") ||
			!strings.Contains(text, c.want) {
			t.Errorf("%s, by a signal: status %d, %q", name, status, text)
		}
		if c.status != 75 {
			continue
		}
		if status, text := run(t.Context(), c.args+" -limit 1ns"); status != 75 || !strings.Contains(text, "-limit is reached") ||
			!strings.Contains(text, c.want) {
			t.Errorf("%s, by -limit: status %d, %q", name, status, text)
		}
	}
}

func TestHelp(t *testing.T) {
	for _, c := range program.Commands {
		var stdout, stderr bytes.Buffer
		if code := program.Run(t.Context(), []string{c.Name, "-h"}, &stdout, &stderr); code != 0 || stderr.Len() > 0 ||
			!strings.Contains(stdout.String(), "Flags:") && c.Name != "replay" {
			t.Errorf("%s -h: status %d, %q, %q", c.Name, code, &stdout, &stderr)
		}
	}
}
