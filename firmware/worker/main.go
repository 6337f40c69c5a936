// Worker computes users' tasks on an aircraft, beside the leader or on an aircraft that
// follows it. This package has the command line, the wiring, the heartbeat and the
// calibration; read serve/serve.go and share/share.go for what a task goes through.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"time"

	"prefdt/configs/cli"
	"prefdt/firmware/worker/executor"
	"prefdt/firmware/worker/serve"
	"prefdt/firmware/worker/share"
	"prefdt/telemetry"
	"prefdt/telemetry/task"
)

var program = cli.Program{
	Name:  "worker",
	Usage: "worker computes the tasks that a leader granted users on this aircraft.",
	Commands: []cli.Command{
		{Args: "-config FILE", Summary: "serve users until it is asked to end", Run: serveCommand},
		{Name: "check", Args: "-config FILE", Summary: "start each function as it would be served, and say what the kernel holds it to",
			Run: checkCommand},
		{Name: "calibrate", Args: "-config FILE [-tasks N]",
			Summary: "measure what each function takes here, one task a second as in a mission, and write it to the file that the " +
				"configuration names", Run: calibrateCommand},
	},
	Notes: `Exit status: 0 it was asked to end, 1 it cannot continue, 2 the command line or the configuration is wrong.`,
}

func main() { program.Main() }

func load(call *cli.Call) (c Config, err error) {
	path := call.Flags.String("config", "", "YAML `file`; configs/worker.yaml explains every key")
	if _, err := call.Parse("", 0); err != nil {
		return c, err
	}
	if *path == "" {
		return c, cli.BadInputf("want -config FILE; worker -h explains")
	}
	c = defaults()
	return c, call.Config(*path, &c)
}

// computers are the functions of a configuration, with the schedulers that run them: one for
// programs and modules, which share this computer, and one for each service.
type computers struct {
	config     *Config
	fences     []string // what functions are held to, in words
	functions  []serve.Function
	programs   *share.Scheduler
	schedulers []*share.Scheduler
}

func newComputers(c *Config) (*computers, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	module := filepath.Join(filepath.Dir(self), "worker-module")
	x := &computers{config: c, programs: &share.Scheduler{Cores: c.Cores, MaxTasks: c.MaxTasks}, fences: []string{executor.Fence()}}
	groups, err := executor.NewGroups()
	if err != nil {
		x.fences = append(x.fences, fmt.Sprintf("no groups, what a function starts may outlive it uncounted: %v", err))
	} else {
		x.fences = append(x.fences, groups.Holds())
	}
	x.schedulers = []*share.Scheduler{x.programs}
	for i := range c.Functions {
		f := &c.Functions[i]
		digest, err := f.Digest()
		if err != nil {
			return nil, err
		}
		run, err := f.New(module, c.Cache, groups)
		if err != nil {
			return nil, err
		}
		s := x.programs
		if f.HTTP != "" {
			s = &share.Scheduler{Cores: f.Concurrency, MaxTasks: c.MaxTasks}
			x.schedulers = append(x.schedulers, s)
		}
		x.functions = append(x.functions, serve.Function{ID: f.ID, Digest: digest, Function: run, Scheduler: s})
	}
	for _, s := range x.schedulers {
		s.Start()
	}
	return x, nil
}

func (x *computers) close() {
	for _, s := range x.schedulers {
		s.Close()
	}
}

// coreHz is the speed of what computes function i, of one core or one request at a time.
func (x *computers) coreHz(i int) float64 {
	if f := &x.config.Functions[i]; f.HTTP != "" {
		return f.CPUHz / float64(f.Concurrency)
	}
	return x.config.CoreHz
}

// heartbeat is what this worker can compute now.
func (x *computers) heartbeat(refused int64) telemetry.Worker {
	w := telemetry.Worker{Refused: refused}
	stats := x.programs.Stats()
	w.QueueCycles, w.CPUS = stats.QueuedNS*1e-9*x.config.CoreHz, stats.CPU.Seconds()
	coresHz := 0.0 // of those here, if anything runs on them
	for i := range x.functions {
		f := &x.functions[i]
		x.programs.Audit(f.Function)
		if service := x.config.Functions[i].HTTP != ""; service {
			w.CPUHz += x.config.Functions[i].CPUHz
		} else {
			coresHz = float64(x.config.Cores) * x.config.CoreHz * stats.Availability
		}
		density := f.Scheduler.NSPerByte(f.Function) * 1e-9 * x.coreHz(i) / 8
		density = min(max(density, 1e-3), 1e9)
		w.Functions = append(w.Functions, telemetry.WorkerFunction{ID: f.ID, Digest: f.Digest, CyclesPerBit: density})
		w.Costs = append(w.Costs, telemetry.WorkerCost{Function: f.ID, Digest: f.Digest, CyclesPerBit: density})
	}
	w.CPUHz += coresHz
	return w
}

// newServer is the server of a configuration, with functions that are as calibrated, and started.
func newServer(c *Config, log *slog.Logger) (*serve.Server, *computers, error) {
	encryption, err := c.tls()
	if err != nil {
		return nil, nil, err
	}
	measured, err := c.readCalibration()
	if err != nil {
		return nil, nil, err
	}
	server := &serve.Server{Fleet: c.Fleet, Aircraft: c.Aircraft, TLS: encryption, OfferBytes: c.OfferBytes, Limits: serve.DefaultLimits(),
		Log: log}
	if c.GrantKey != "" {
		if server.Key, err = task.ReadKey(c.GrantKey); err != nil {
			return nil, nil, fmt.Errorf("grant_key: %w", err)
		}
	}
	x, err := newComputers(c)
	if err != nil {
		return nil, nil, err
	}
	for i := range x.functions {
		f := &x.functions[i]
		m := measured[f.ID]
		if m.Digest != f.Digest || !(m.NSPerByte > 0) {
			err = errors.New("it is not calibrated as it is now; `worker calibrate` does it")
		} else {
			f.Scheduler.SetNSPerByte(f.Function, m.NSPerByte)
			err = f.Scheduler.Warm(f.Function)
		}
		if err != nil {
			x.close()
			return nil, nil, fmt.Errorf("function %s: %w", f.ID, err)
		}
	}
	server.Functions = x.functions
	return server, x, nil
}

func checkCommand(_ context.Context, call *cli.Call) error {
	c, err := load(call)
	if err != nil {
		return err
	}
	_, x, err := newServer(&c, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	defer x.close()
	for _, held := range x.fences {
		fmt.Fprintln(call.Stdout, held)
	}
	return nil
}

func serveCommand(ctx context.Context, call *cli.Call) error {
	c, err := load(call)
	if err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(call.Stderr, nil))
	topics, err := telemetry.NewTopics(c.Fleet)
	if err != nil {
		return err
	}
	server, x, err := newServer(&c, log)
	if err != nil {
		return err
	}
	defer x.close()
	for _, held := range x.fences {
		log.Info("functions", "held", held)
	}
	listener, err := net.Listen("tcp", c.Listen)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	if err := server.Start(listener); err != nil {
		return err
	}
	defer server.Close()
	client := &telemetry.Client{
		Broker: c.Broker, Name: "worker", Log: log,
		Will:          &telemetry.Publication{Topic: topics.Worker(c.Aircraft), Payload: []byte("{}")},
		Subscriptions: []telemetry.Subscription{{Filter: topics.Slot()}, {Filter: topics.Status()}},
		Handle: func(m telemetry.Message) {
			switch kind, _, _ := topics.Parse(m.Topic); kind {
			case telemetry.KindSlot:
				if s, err := telemetry.DecodeSlot(m.Payload); err == nil && !m.Retained {
					server.OpenSlot(s)
				}
			case telemetry.KindStatus:
				if s, err := telemetry.DecodeStatus(m.Payload); err == nil && s.Mission != "" && !m.Retained { // a retained one may be old
					server.SetMission(s.Mission, s.State != telemetry.StateIdle && s.State != telemetry.StateClimbing)
				}
			}
		},
	}
	if err := client.Initialize(ctx); err != nil {
		return err
	}
	defer client.Close()
	log.Info("worker ready", "fleet", c.Fleet, "aircraft", c.Aircraft, "listen", server.Address())
	for tick := time.NewTicker(time.Second); ; {
		if payload, err := telemetry.Encode(x.heartbeat(server.Refused())); err == nil {
			client.Publish(telemetry.Publication{Topic: topics.Worker(c.Aircraft), Payload: payload})
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// sample is a task for calibration: the function's own sample, or random bytes.
func sample(path string, unitBytes int) ([]byte, error) {
	if path != "" {
		raw, err := os.ReadFile(path)
		if n := len(raw) / unitBytes * unitBytes; err == nil && n > 0 {
			return raw[:n], nil
		}
		return nil, fmt.Errorf("sample %s: want at least a unit of %d bytes: %w", path, unitBytes, err)
	}
	const usual = 1 << 17 // a megabit
	out := make([]byte, max(usual/unitBytes, 1)*unitBytes)
	r := rand.New(rand.NewPCG(1, 0))
	for i := range out {
		out[i] = byte(r.Uint32())
	}
	return out, nil
}
