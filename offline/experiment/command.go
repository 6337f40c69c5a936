package experiment

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"prefdt/configs/cli"
	"prefdt/offline/command"
)

// Flags are those of every command that measures a set.
type Flags struct {
	Out *string

	kind               string
	resume, list, json *bool
	times              *bool
	only               *string
	shard              func() (command.Shard, error)
	limit              func(context.Context) (context.Context, context.CancelFunc)
}

// NewFlags declares them.
func NewFlags(call *cli.Call, kind, out string) *Flags {
	f := call.Flags
	return &Flags{
		kind:   kind,
		Out:    f.String("out", out, "`FOLDER` of all results"),
		resume: f.Bool("resume", false, "continue the "+kind+" in -out; without one, start"),
		only:   f.String("only", "", "only these `ARMS`, as in flagship,base"),
		shard:  command.ShardFlag(f, "whole training runs, and no report"),
		times:  f.Bool("times", true, "time decisions for the report; all else in it is the same in every run"),
		limit:  command.LimitFlag(f),
		list:   f.Bool("list", false, "print the arms, with -only and -shard those selected, and do nothing"),
		json:   call.JSONFlag(),
	}
}

// Report writes the report of a set from its results.
type Report func(ctx context.Context, timed bool) error

// Run measures a part, and without a shard writes the report over whatever has been
// measured so far. It continues what is in the set's folder.
func (s *Set) Run(ctx context.Context, p Part, report Report) error {
	arms, err := Select(s.Arms, p)
	if err != nil {
		return cli.BadInput(err)
	}
	read := s.Arms // by the report
	if !p.Shard.Whole() {
		read = arms
	}
	if err := s.measure(ctx, arms, read); err != nil {
		return err
	}
	if !p.Shard.Whole() {
		s.Logf("%v: %d arms are measured; offline %s merge writes the report", p.Shard, len(arms), s.Command)
		return nil
	}
	return report(ctx, !p.NoTimes)
}

// Merge merges folders and writes the report. It is an error if an arm of the part
// is then missing.
func (s *Set) Merge(ctx context.Context, folders []string, p Part, report Report) error {
	arms, err := Select(s.Arms, p)
	if err != nil {
		return cli.BadInput(err)
	}
	if err := s.takeOver(folders); err != nil {
		return err
	}
	if err := report(ctx, !p.NoTimes); err != nil {
		return err
	}
	return s.missing(arms)
}

// Do is a command after its own flags were read: the words after them, what plans the arms, and what
// opens the set, whose errors are the user's. What is wrong with the words and flags is said before either is called.
func (f *Flags) Do(ctx context.Context, call *cli.Call, words []string, arms func() []Arm, open func() (*Set, Report, error)) error {
	merge := len(words) > 0 && words[0] == "merge"
	switch {
	case len(words) > 0 && !merge:
		return cli.BadInputf("unexpected %q, want flags alone, or merge before folders (%s -h)", words[0], call.Flags.Name())
	case merge && (call.Given("shard") || *f.list):
		return cli.BadInputf("merge is of all shards: it takes neither -shard nor -list")
	}
	ctx, stop := f.limit(ctx)
	defer stop()
	part := Part{NoTimes: !*f.times}
	if *f.only != "" {
		part.Only = strings.Split(*f.only, ",")
	}
	var err error
	if part.Shard, err = f.shard(); err != nil {
		return err
	}
	selected, err := Select(arms(), part)
	if err != nil {
		return cli.BadInput(err)
	}
	if *f.list {
		if *f.json {
			return call.PrintJSON(selected)
		}
		for _, a := range selected {
			fmt.Fprintf(call.Stdout, "%-28s %s", a.Name, a.Description)
			if a.Spends != "" {
				fmt.Fprintf(call.Stdout, " (%s)", a.Spends)
			}
			fmt.Fprintln(call.Stdout)
		}
		return nil
	}
	if merge {
		for _, folder := range words[1:] {
			if _, _, archived := cutArchive(folder); archived { // unpacked once
				continue
			}
			if _, err := os.Stat(filepath.Join(folder, keyFile(f.kind))); errors.Is(err, os.ErrNotExist) {
				return cli.BadInput(holdsNone(folder, f.kind))
			}
		}
	} else {
		if _, err := os.Stat(filepath.Join(*f.Out, keyFile(f.kind))); err == nil && !*f.resume {
			return cli.BadInputf("%s holds a %s: add -resume to continue it, or give another -out", *f.Out, f.kind)
		} else if err != nil && !errors.Is(err, os.ErrNotExist) {
			return cli.BadInput(err)
		}
	}
	set, report, err := open()
	if err != nil {
		return cli.BadInput(err)
	}
	if *f.json {
		set.Log = call.Stderr
	}
	if merge {
		err = set.Merge(ctx, words[1:], part, report)
	} else {
		if err := command.CheckWritable(set.Dir); err != nil {
			return cli.BadInput(err)
		}
		err = set.Run(ctx, part, report)
	}
	if err != nil || !*f.json {
		return err
	}
	made := map[string]any{"arms": len(selected), "folder": set.Dir}
	if part.Shard.Whole() {
		made["report"] = filepath.Join(set.Dir, "report")
	}
	return call.PrintJSON(made)
}
