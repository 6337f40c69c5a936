// User computes the files of a folder as tasks, on this device and on the fleet's aircraft.
// Package device has the library; this package has the command line, the folder, and the
// device's own executor.
package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"prefdt/configs/cli"
	"prefdt/firmware/user/device"
	"prefdt/firmware/worker/function"
	"prefdt/firmware/worker/share"
	"prefdt/inference/physics"
	"prefdt/telemetry"
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
	if err := call.Config(*path, &c); err != nil {
		return err
	}
	i := slices.IndexFunc(c.Functions, func(f Function) bool { return f.ID == *name })
	if i < 0 {
		return cli.BadInputf("configuration %s has no function %s", *path, *name)
	}
	f := &c.Functions[i]
	own, err := newComputer(f, c.CPUHz)
	if err != nil {
		return err
	}
	defer own.executor.Kill()
	w := &watcher{folder: *folder, unitBytes: f.UnitBytes, deadlineS: c.DeadlineS, out: json.NewEncoder(call.Stdout),
		taken: map[string]bool{}, slots: map[int]string{}}
	d := &device.Device{
		ID: c.ID, Fleet: c.Fleet, Broker: c.Broker, From: c.From, CPUHz: own.cpuHz, Physics: physics.DefaultConstants(),
		Function: device.Function{ID: f.ID, UnitBytes: f.UnitBytes, OutputBytes: f.OutputBytes, CyclesPerBit: f.CyclesPerBit},
		Position: func() [2]float64 { return c.PositionM }, Next: w.next, Compute: own.compute, Done: w.done,
		Log: slog.New(slog.NewTextHandler(call.Stderr, nil)),
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

// computer is this device's own executor.
type computer struct {
	executor  share.Executor
	function  *Function
	cpuHz     float64
	nsPerByte float64 // as measured, for the size of chunks
	paced     bool    // to cpuHz, which is less than it could
	mutex     sync.Mutex
}

// measureBytes is how much the device computes to know its speed.
const measureBytes = 1 << 16

func newComputer(f *Function, cpuHz float64) (*computer, error) {
	run, err := f.New("", "")
	if err != nil {
		return nil, err
	}
	x, err := run.Start()
	if err != nil {
		return nil, fmt.Errorf("function %s: %w", f.ID, err)
	}
	c := &computer{executor: x, function: f, cpuHz: cpuHz, paced: cpuHz > 0}
	sample := make([]byte, max(measureBytes/f.UnitBytes, 1)*f.UnitBytes)
	for range 2 { // the first one starts it
		began := time.Now()
		if _, _, err := x.Run(uint32(f.Index), sample, len(sample)/f.UnitBytes*f.OutputBytes); err != nil {
			return nil, fmt.Errorf("function %s: %w", f.ID, err)
		}
		c.nsPerByte = float64(time.Since(began)) / float64(len(sample))
	}
	if !c.paced {
		c.cpuHz = 8 * f.CyclesPerBit / (c.nsPerByte * 1e-9)
	}
	return c, nil
}

// chunk is how long the device computes before it waits, where it is paced.
const chunk = 5 * time.Millisecond

// compute computes whole units.
func (c *computer) compute(input []byte) (output []byte, err error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	f := c.function
	began, done := time.Now(), 0
	units := max(1, int(float64(chunk)/(c.nsPerByte*float64(f.UnitBytes))))
	if !c.paced {
		units = max(1, len(input)/f.UnitBytes)
	}
	for done < len(input) {
		n := min(units*f.UnitBytes, len(input)-done)
		part, _, err := c.executor.Run(uint32(f.Index), input[done:done+n], n/f.UnitBytes*f.OutputBytes)
		if err != nil {
			return nil, err
		}
		output, done = append(output, part...), done+n
		if c.paced {
			took := float64(done) * 8 * f.CyclesPerBit / c.cpuHz
			time.Sleep(time.Until(began.Add(time.Duration(took * float64(time.Second)))))
		}
	}
	return output, nil
}

// watcher makes tasks of the files of a folder.
type watcher struct {
	folder    string
	unitBytes int
	deadlineS float64
	out       *json.Encoder

	mutex sync.Mutex
	taken map[string]bool
	slots map[int]string // the file of each task in progress
}

// next is the oldest file that was not taken yet; files of one time by their names.
func (w *watcher) next(slot int) (t device.Task, ok bool) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	entries, err := os.ReadDir(w.folder)
	if err != nil {
		return t, false
	}
	oldest, at := "", time.Time{}
	for _, e := range entries {
		name := e.Name()
		if !e.Type().IsRegular() || strings.HasPrefix(name, ".") || strings.HasSuffix(name, ".out") || w.taken[name] {
			continue
		}
		if info, err := e.Info(); err == nil && (oldest == "" || info.ModTime().Before(at)) {
			oldest, at = name, info.ModTime()
		}
	}
	if oldest == "" {
		return t, false
	}
	w.taken[oldest] = true
	if _, err := os.Stat(filepath.Join(w.folder, oldest+".out")); err == nil {
		return t, false // of an earlier run
	}
	input, err := os.ReadFile(filepath.Join(w.folder, oldest))
	if err != nil || len(input) == 0 {
		return t, false
	}
	w.slots[slot] = oldest
	if rest := len(input) % w.unitBytes; rest > 0 { // the last unit is filled up
		input = append(input, make([]byte, w.unitBytes-rest)...)
	}
	return device.Task{Input: input, DeadlineS: w.deadlineS}, true
}

// done writes a task's output, whole or not at all, and prints its line.
func (w *watcher) done(o device.Outcome) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	name := w.slots[o.Slot]
	delete(w.slots, o.Slot)
	if o.Err == nil {
		temporary := filepath.Join(w.folder, "."+name+".new")
		if o.Err = os.WriteFile(temporary, o.Output, 0o644); o.Err == nil {
			o.Err = os.Rename(temporary, filepath.Join(w.folder, name+".out"))
		}
	}
	if o.Err != nil {
		o.Problem = o.Err.Error()
	}
	w.out.Encode(struct {
		File string `json:"file"`
		device.Outcome
	}{name, o})
}
