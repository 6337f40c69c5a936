package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"prefdt/firmware/flightlog"
	"prefdt/firmware/ledger"
)

const logUsage = `leader log looks into a ledger that no leader is using.

  leader log -config FILE|-file LEDGER check [-json]
        says what is in it and whether it adds up
  leader log -config FILE|-file LEDGER export [-csv|-json] [-mission ID] [-out FILE]
        writes the settled slots, one line each
  leader log -config FILE|-file LEDGER recover -out FOLDER
        makes a new ledger of what a damaged one still holds; it stays as it is

Exit status: 0 done, 1 the ledger is damaged or does not add up, 2 the command
line is wrong.

`

// subcommand runs what is not a flight.
func subcommand(args []string, stdout, stderr io.Writer) (code int, ok bool) {
	if len(args) == 0 {
		return 0, false
	}
	switch args[0] {
	case "check":
		return runCheck(args[1:], stdout, stderr), true
	case "log":
		return runLog(args[1:], stdout, stderr), true
	}
	return 0, false
}

// logOptions are what leader log was asked.
type logOptions struct {
	path, out, mission string
	csv, json          bool
}

func runLog(args []string, stdout, stderr io.Writer) int {
	var o logOptions
	flags := flag.NewFlagSet("leader log", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	config := flags.String("config", "", "configuration `file`, for its state_dir")
	flags.StringVar(&o.path, "file", "", "ledger `file`")
	flags.StringVar(&o.out, "out", "", "`path` to write to (export: standard output if empty)")
	flags.StringVar(&o.mission, "mission", "", "export this mission only; all if empty")
	flags.BoolVar(&o.csv, "csv", false, "export CSV (the default)")
	flags.BoolVar(&o.json, "json", false, "JSON")
	action, err := parseAction(flags, args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(stdout, logUsage)
		flags.SetOutput(stdout)
		flags.PrintDefaults()
		return 0
	case err == nil && (*config == "") == (o.path == ""):
		err = errors.New("want -config FILE or -file LEDGER")
	case err == nil && o.csv && o.json:
		err = errors.New("want -csv or -json, not both")
	}
	do := map[string]func(*logOptions, io.Writer) error{"check": logCheck, "export": logExport, "recover": logRecover}[action]
	if err == nil && do == nil {
		err = fmt.Errorf("no action %q; want check, export or recover", action)
	}
	if err != nil {
		fmt.Fprintf(stderr, "leader log: %v; leader log -h explains\n", err)
		return 2
	}
	if *config != "" {
		c, err := Load(*config)
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
	l, err := ledger.Read(path)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	return l.Flights()
}

func logCheck(o *logOptions, stdout io.Writer) error {
	flights, err := readFlights(o.path)
	if err != nil {
		return err
	}
	faults := 0
	reports := []flightlog.Report{}
	for _, f := range flights {
		r := flightlog.Check(f)
		faults += len(r.Faults)
		reports = append(reports, r)
		if o.json {
			continue
		}
		fmt.Fprintf(stdout, "%s: %s, %d slots settled", r.Mission, r.Phase, r.Slots)
		if r.Rows > 0 {
			fmt.Fprintf(stdout, ", rows of slots %d to %d, %.0f J, %.1f s", r.First, r.Last, r.SpentJ, r.DelayS)
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

func logExport(o *logOptions, stdout io.Writer) (err error) {
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
	write := flightlog.CSV
	if o.json {
		write = flightlog.JSON
	}
	if err := write(w, flights); err != nil {
		return fmt.Errorf("export: %w", err)
	}
	return nil
}

func logRecover(o *logOptions, stdout io.Writer) error {
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
		fmt.Fprintf(stdout, "%s: %d rows, %d slots settled\n", f.State.Mission, len(f.Rows), f.State.Goal.Slot)
	}
	fmt.Fprintf(stdout, "%d commands; wrote %s\n", s.Commands(), filepath.Clean(ledger.Path(o.out)))
	return nil
}
