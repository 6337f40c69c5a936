// Package logtool is `leader log`: it checks, exports and recovers the ledger of
// missions that were flown. No leader may be using it.
package logtool

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"prefdt/firmware/config"
	"prefdt/firmware/flightlog"
	"prefdt/firmware/ledger"
)

const usage = `leader log looks into a ledger that no leader is using.

  leader log -config FILE|-file LEDGER check [-json]
        says what is in it and whether it adds up
  leader log -config FILE|-file LEDGER export [-csv|-json] [-mission ID] [-out FILE]
        writes the settled slots, one line each
  leader log -config FILE|-file LEDGER recover -out FOLDER
        makes a new ledger of what a damaged one still holds; it stays as it is

Exit status: 0 done, 1 the ledger is damaged or does not add up, 2 the command
line is wrong.

`

// options are what leader log was asked.
type options struct {
	path, out, mission string
	csv, json          bool
}

// Run runs `leader log` with these arguments and returns its exit status.
func Run(args []string, stdout, stderr io.Writer) int {
	var o options
	flags := flag.NewFlagSet("leader log", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	file := flags.String("config", "", "configuration `file`, for its state_dir")
	flags.StringVar(&o.path, "file", "", "ledger `file`")
	flags.StringVar(&o.out, "out", "", "`path` to write to (export: standard output if empty)")
	flags.StringVar(&o.mission, "mission", "", "export this mission only; all if empty")
	flags.BoolVar(&o.csv, "csv", false, "export CSV (the default)")
	flags.BoolVar(&o.json, "json", false, "JSON")
	action, err := parseAction(flags, args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(stdout, usage)
		flags.SetOutput(stdout)
		flags.PrintDefaults()
		return 0
	case err == nil && (*file == "") == (o.path == ""):
		err = errors.New("want -config FILE or -file LEDGER")
	case err == nil && o.csv && o.json:
		err = errors.New("want -csv or -json, not both")
	}
	do := map[string]func(*options, io.Writer) error{"check": check, "export": export, "recover": recoverLedger}[action]
	if err == nil && do == nil {
		err = fmt.Errorf("no action %q; want check, export or recover", action)
	}
	if err != nil {
		fmt.Fprintf(stderr, "leader log: %v; leader log -h explains\n", err)
		return 2
	}
	if *file != "" {
		c, err := config.Load(*file)
		if err != nil {
			fmt.Fprintln(stderr, "leader log:", err)
			return 1
		}
		o.path = ledger.Path(c.StateDir)
	}
	if err := do(&o, stdout); err != nil {
		fmt.Fprintln(stderr, "leader log:", err)
		return 1
	}
	return 0
}

// parseAction reads flags before and after one word.
func parseAction(flags *flag.FlagSet, args []string) (action string, err error) {
	for {
		if err := flags.Parse(args); err != nil {
			return "", err
		}
		if args = flags.Args(); len(args) == 0 {
			return action, nil
		}
		if action != "" {
			return "", fmt.Errorf("unexpected %q", args[0])
		}
		action, args = args[0], args[1:]
	}
}

func readFlights(path string) ([]ledger.Flight, error) {
	l, err := ledger.OpenReadOnly(path)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	return l.Flights()
}

func check(o *options, stdout io.Writer) error {
	flights, err := readFlights(o.path)
	if err != nil {
		return err
	}
	faults := 0
	reports := []flightlog.Audit{}
	for _, f := range flights {
		r := flightlog.Check(f)
		faults += len(r.Faults)
		reports = append(reports, r)
		if o.json {
			continue
		}
		fmt.Fprintf(stdout, "%s: %s, %d slots settled", r.Mission, r.Phase, r.SettledSlots)
		if r.Rows > 0 {
			fmt.Fprintf(stdout, ", rows of slots %d to %d, %.0f J, %.1f s", r.FirstSlot, r.LastSlot, r.SpentJ, r.DelayS)
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

func export(o *options, stdout io.Writer) (err error) {
	flights, err := readFlights(o.path)
	if err != nil {
		return err
	}
	if o.mission != "" {
		var kept []ledger.Flight
		for _, f := range flights {
			if f.State.Mission == o.mission {
				kept = append(kept, f)
			}
		}
		if flights = kept; len(flights) == 0 {
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
	write := flightlog.WriteCSV
	if o.json {
		write = flightlog.WriteJSON
	}
	if err := write(w, flights); err != nil {
		return fmt.Errorf("export: %w", err)
	}
	return nil
}

func recoverLedger(o *options, stdout io.Writer) error {
	if o.out == "" {
		return errors.New("recover: want -out FOLDER, where a new ledger goes")
	}
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
	fmt.Fprintf(stdout, "%d commands; wrote %s\n", s.Commands(), filepath.Clean(ledger.Path(o.out)))
	return nil
}
