// Package logtool is `leader log`. Inputs: the ledger of missions that were flown,
// which no leader is using. Outputs: whether it is consistent, its rows as CSV or
// JSON, or a new ledger of what a damaged one still holds. The leader's main calls it.
package logtool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"prefdt/configs/cli"
	"prefdt/firmware/config"
	"prefdt/firmware/ledger"
)

// actions are the words of leader log, each with its own flags.
var actions = map[string]func(ctx context.Context, o *options, stdout io.Writer) error{"check": check, "commands": listCommands,
	"export": export, "recover": recoverLedger}

// options are the flags of leader log.
type options struct {
	path, out, mission string
	csv, json, users   bool
	notes              io.Writer // for what a person should know beside the output
}

// Command is `leader log`.
func Command(ctx context.Context, call *cli.Call) error {
	o := options{notes: call.Stderr}
	file := call.Flags.String("config", "", "configuration `file`, for its state_dir")
	call.Flags.StringVar(&o.path, "file", "", "ledger `file`")
	call.Flags.StringVar(&o.out, "out", "", "`path` to write to (export: a file, standard output if empty; recover: a folder)")
	call.Flags.StringVar(&o.mission, "mission", "", "export this mission only; all if empty")
	call.Flags.BoolVar(&o.csv, "csv", false, "export CSV (the default)")
	call.Flags.BoolVar(&o.users, "users", false, "export a line for each user's task instead of one for each slot: what was believed, "+
		"what its result showed")
	call.Flags.BoolVar(&o.json, "json", false, "JSON")
	words, err := call.Parse("", 1)
	if err != nil {
		return err
	}
	action := strings.Join(words, "")
	switch {
	case actions[action] == nil:
		return cli.BadInputf("no action %q; want check, commands, export or recover", action)
	case (*file == "") == (o.path == ""):
		return cli.BadInputf("want -config FILE or -file LEDGER")
	case o.csv && o.json:
		return cli.BadInputf("want -csv or -json, not both")
	case o.csv && action != "export", o.json && action == "recover":
		return cli.BadInputf("%s has no such output", action)
	case o.users && (o.json || action != "export"):
		return cli.BadInputf("-users is a table that export writes as CSV")
	case action == "recover" && o.out == "":
		return cli.BadInputf("recover: want -out FOLDER, where a new ledger goes")
	}
	if *file != "" {
		c, err := config.Load(*file)
		if err != nil {
			return cli.BadInput(err)
		}
		o.path = ledger.Path(c.StateDir)
	}
	return actions[action](ctx, &o, call.Stdout)
}

// read opens a ledger and returns one list of it.
func read[T any](path string, list func(*ledger.Ledger) ([]T, error)) ([]T, error) {
	l, err := ledger.OpenReadOnly(path)
	if errors.Is(err, ledger.ErrInUse) {
		return nil, fmt.Errorf("%w; copy the file, and read the copy", err)
	} else if err != nil {
		return nil, err
	}
	defer l.Close()
	return list(l)
}

func check(ctx context.Context, o *options, stdout io.Writer) error {
	flights, err := read(o.path, (*ledger.Ledger).Flights)
	if err != nil {
		return err
	}
	faults := 0
	reports := []audit{}
	for _, f := range flights {
		if ctx.Err() != nil {
			return errors.New("interrupted")
		}
		r := auditFlight(f)
		faults += len(r.Faults)
		reports = append(reports, r)
		if o.json {
			continue
		}
		fmt.Fprintf(stdout, "%s: %s, %d slots settled", r.Mission, r.Phase, r.SettledSlots)
		if r.Rows > 0 {
			fmt.Fprintf(stdout, ", rows of slots %d to %d, %.0f J, %.1f s of delay of users that were received", r.FirstSlot, r.LastSlot,
				r.SpentJ, r.DelayS)
		}
		fmt.Fprintln(stdout)
		for _, text := range r.Faults {
			fmt.Fprintln(stdout, "  ", text)
		}
	}
	if o.json {
		if err := json.NewEncoder(stdout).Encode(reports); err != nil {
			return err
		}
	}
	if faults > 0 {
		return fmt.Errorf("%s: %d faults", o.path, faults)
	}
	return nil
}

func export(ctx context.Context, o *options, stdout io.Writer) (err error) {
	flights, err := read(o.path, (*ledger.Ledger).Flights)
	if err != nil {
		return err
	}
	if o.mission != "" {
		flights = slices.DeleteFunc(flights, func(f ledger.Flight) bool { return f.State.Mission != o.mission })
		if len(flights) == 0 {
			return fmt.Errorf("%s has no mission %s", o.path, o.mission)
		}
	}
	w := stdout
	if o.out != "" {
		f, err := os.Create(o.out)
		if err != nil {
			return fmt.Errorf("export: %w", err)
		}
		defer func() {
			if closeErr := f.Close(); err == nil && closeErr != nil {
				err = fmt.Errorf("export: %w", closeErr)
			}
		}()
		w = f
	}
	write := writeCSV
	switch {
	case o.json:
		write = writeJSON
	case o.users:
		write = writeUsersCSV
		if !hasBeliefs(flights) {
			fmt.Fprintln(o.notes, "no user's task is recorded: no mission had `surroundings` for the policy's estimator")
		}
	}
	if err := write(interruptibleWriter{ctx, w}, flights); err != nil {
		return fmt.Errorf("export: %w", err)
	}
	return nil
}

// interruptibleWriter fails once ctx has ended.
type interruptibleWriter struct {
	ctx context.Context
	io.Writer
}

func (w interruptibleWriter) Write(p []byte) (int, error) {
	if w.ctx.Err() != nil {
		return 0, errors.New("interrupted")
	}
	return w.Writer.Write(p)
}

// recoverLedger is not interrupted: an incomplete new ledger is of no use. The
// original stays as it is.
func recoverLedger(_ context.Context, o *options, stdout io.Writer) error {
	s, err := ledger.Recover(o.path)
	if err != nil {
		return err
	}
	if err := s.Save(o.out); err != nil {
		return fmt.Errorf("recover %s: %w", o.path, err)
	}
	for _, f := range s.Flights {
		fmt.Fprintf(stdout, "%s: %d rows, %d slots settled\n", f.State.Mission, len(f.Rows), f.State.Account.Objective.Slot)
	}
	fmt.Fprintf(stdout, "%d commands; wrote %s\n", len(s.Commands), filepath.Clean(ledger.Path(o.out)))
	return nil
}
