// User computes the files of a folder as tasks, on this device and on the fleet's aircraft.
// Package device has the library; this package has the command line, the folder (watcher.go), and the
// device's own executor (computer.go).
package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"slices"

	"prefdt/configs/cli"
	"prefdt/firmware/user/device"
	"prefdt/firmware/worker/executor"
	"prefdt/firmware/worker/function"
	"prefdt/inference/physics"
	"prefdt/telemetry"
	"prefdt/telemetry/task"
)

// Config is configs/user.yaml, where each key is explained.
type Config struct {
	ID        string           `yaml:"id"`
	Fleet     string           `yaml:"fleet"`
	Broker    telemetry.Broker `yaml:"broker"`
	CA        string           `yaml:"ca"`
	Cert      string           `yaml:"cert"`
	Key       string           `yaml:"key"`
	From      string           `yaml:"from"`
	PositionM [2]float64       `yaml:"position_m"`
	DeadlineS float64          `yaml:"deadline_s"`
	CPUHz     float64          `yaml:"cpu_hz"`
	GainFile  string           `yaml:"gain_file"`
	Functions []Function       `yaml:"functions"`
}

// Function is a function with its work, as the aircraft's worker was calibrated.
type Function struct {
	function.Config `yaml:",inline"`
	CyclesPerBit    float64 `yaml:"cycles_per_bit"`
	AircraftDigest  string  `yaml:"aircraft_digest"`
}

// aircraftDigest is what the aircraft's function must have: parts that two versions of a function computed are not joined. It is this
// device's own unless the configuration names another one, or any.
func (f *Function) aircraftDigest() (string, error) {
	switch f.AircraftDigest {
	case "":
		return f.Digest()
	case "any":
		return "", nil
	}
	return f.AircraftDigest, nil
}

// Check returns the first value that is wrong.
func (c *Config) Check() error {
	switch {
	case !telemetry.ValidID(c.ID) || !telemetry.ValidID(c.Fleet):
		return fmt.Errorf("id %q and fleet %q, want each 1 to 64 of A-Z a-z 0-9 . _ -", c.ID, c.Fleet)
	case !(c.DeadlineS > 0 && c.DeadlineS <= 3600):
		return fmt.Errorf("deadline_s is %v, want above 0 and at most 3600", c.DeadlineS)
	case !(c.CPUHz >= 0 && c.CPUHz <= 1e15):
		return fmt.Errorf("cpu_hz is %v, want 0, to have it measured, to 1e15", c.CPUHz)
	}
	for i := range c.Functions {
		f := &c.Functions[i]
		if err := f.Check(); err != nil {
			return err
		}
		if !(f.CyclesPerBit >= 1e-3 && f.CyclesPerBit <= 1e9) {
			return fmt.Errorf("function %s: cycles_per_bit is %v, want what `worker calibrate` printed", f.ID, f.CyclesPerBit)
		}
		if _, err := task.FunctionHash(f.AircraftDigest); err != nil && f.AircraftDigest != "" && f.AircraftDigest != "any" {
			return fmt.Errorf("function %s: aircraft_digest: %w", f.ID, err)
		}
	}
	return c.Broker.Check()
}

var program = cli.Program{
	Name:  "user",
	Usage: "user computes tasks on this device and on a fleet's aircraft.",
	Commands: []cli.Command{
		{Args: "-config FILE -watch FOLDER -function NAME",
			Summary: "compute each file that comes into a folder, one a slot, oldest first; the output is in FILE.out, and a line for " +
				"each is printed", Run: watchCommand},
	},
}

func main() { program.Main() }

func watchCommand(ctx context.Context, call *cli.Call) error {
	path := call.Flags.String("config", "", "YAML `file`; configs/user.yaml explains every key")
	folder := call.Flags.String("watch", "", "`folder` of the files")
	name := call.Flags.String("function", "", "`id` of the function that computes them")
	if _, err := call.Parse("", 0); err != nil {
		return err
	}
	if *path == "" || *folder == "" || *name == "" {
		return cli.BadInputf("want -config FILE, -watch FOLDER and -function NAME; user -h explains")
	}
	c := Config{Fleet: "demo", Broker: telemetry.Broker{URL: "tcp://127.0.0.1:1883"}, DeadlineS: 1}
	err := call.Config(*path, &c)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(c.Functions, func(f Function) bool { return f.ID == *name })
	if i < 0 {
		return cli.BadInputf("configuration %s has no function %s", *path, *name)
	}
	f := &c.Functions[i]
	digest, err := f.aircraftDigest()
	if err != nil {
		return err
	}
	own, err := newComputer(f, c.CPUHz)
	if err != nil {
		return err
	}
	defer own.close()
	log := slog.New(slog.NewTextHandler(call.Stderr, nil))
	log.Info("functions", "held", executor.Fence())
	w := newWatcher(*folder, f.UnitBytes, c.DeadlineS, call.Stdout, log)
	defer w.close()
	d := &device.Device{
		ID: c.ID, Fleet: c.Fleet, Broker: c.Broker, From: c.From, CPUHz: own.cpuHz, Physics: physics.DefaultConstants(),
		Function: device.Function{ID: f.ID, Digest: digest, UnitBytes: f.UnitBytes, OutputBytes: f.OutputBytes,
			CyclesPerBit: f.CyclesPerBit},
		Position: func() [2]float64 { return c.PositionM }, Next: w.next, Compute: own.compute, Done: w.done, Log: log,
	}
	if c.GainFile != "" {
		d.Gain = func(aircraft int) float64 { return readGain(c.GainFile, aircraft) }
	}
	if d.TLS, err = c.tls(); err != nil {
		return err
	}
	if err := d.Initialize(ctx); err != nil {
		return err
	}
	<-ctx.Done()
	own.close() // what it computes ends, however long it would have taken
	d.Close()
	return nil
}

// readGain is the power gain to an aircraft that the radio's driver measured, from a file of
// JSON by aircraft number that it keeps; 0: it is not known.
func readGain(path string, aircraft int) float64 {
	gains := map[int]float64{}
	raw, err := os.ReadFile(path)
	if err != nil || json.Unmarshal(raw, &gains) != nil {
		return 0
	}
	return gains[aircraft]
}

// tls is nil without an authority for the workers' certificates: everything is computed here.
func (c *Config) tls() (*tls.Config, error) {
	if c.CA == "" {
		return nil, nil
	}
	authorities, err := telemetry.LoadAuthorities("ca", c.CA)
	if err != nil {
		return nil, err
	}
	config := &tls.Config{RootCAs: authorities}
	if c.Cert != "" {
		pair, err := telemetry.LoadCertificate(c.Cert, c.Key)
		if err != nil {
			return nil, fmt.Errorf("cert %q and key %q: %w", c.Cert, c.Key, err)
		}
		config.Certificates = []tls.Certificate{*pair}
	}
	return config, nil
}
