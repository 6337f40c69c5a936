// Command ground is the crew's tool: it asks the leader for a budget, a
// preference or a change of the mission, and shows the fleet as it flies.
//
// In come the crew's words and the leader's status and acknowledgements; out go
// commands, over MQTT alone. It stands outside the slot: a command takes effect
// from the slot that its acknowledgement names.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"prefdt/configs"
	"prefdt/telemetry"
)

// Exit codes, as the help says.
const (
	exitOK      = 0
	exitFailed  = 1 // broker, or no acknowledgement
	exitUsage   = 2
	exitRefused = 3 // by the leader
)

// Config is configs/ground.yaml, which documents the fields.
type Config struct {
	Fleet    string           `yaml:"fleet"`
	Broker   telemetry.Broker `yaml:"broker"`
	Key      string           `yaml:"key"`
	Name     string           `yaml:"name"`
	TimeoutS float64          `yaml:"timeout_s"`
	StaleS   float64          `yaml:"stale_s"`
}

func defaults() Config {
	return Config{
		Fleet:    "demo",
		Broker:   telemetry.Broker{URL: "tcp://127.0.0.1:1883", ClientID: "ground"},
		TimeoutS: 10,
		StaleS:   3,
	}
}

// subcommand is one word after ground.
type subcommand struct {
	name, usage, summary string
	run                  func(t *tool, args []string) int
}

func subcommands() []subcommand {
	return []subcommand{
		{"budget", "-energy JOULES [-mode target|ceiling] [-replaces JOULES]", "ask for a total of joules from slot 0 to the end", budget},
		{"preference", "-setting 0..1", "ask for a point between least delay (0) and least energy (1)", preference},
		{"mission", "start|hold|return|stop", "start, hold or end the mission", mission},
		{"mission", "resume [-aircraft 2,3]", "end a hold, or a pilot's turn in the air; it never arms", mission},
		{"mission", "launch -aircraft 2,3", "start aircraft that stand on the ground inside the area", mission},
		{"mission", "clear -aircraft 2,3", "aircraft that were lost are no obstacle any more", mission},
		{"mission", "new -mission ID", "begin another mission, with nothing in the air", mission},
		{"watch", "[-json] [-silent]", "show the fleet's status as it changes, and tell the leader once a second that the crew watches", watch},
		{"keygen", "-out NAME.key", "make a key to sign commands with", keygen},
	}
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// tool is what a subcommand works with.
type tool struct {
	ctx            context.Context
	stdout, stderr io.Writer
	flags          *flag.FlagSet
	config         Config
	topics         telemetry.Topics
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if len(args) > 0 {
		for _, s := range subcommands() {
			if s.name == args[0] {
				t := &tool{ctx: ctx, stdout: stdout, stderr: stderr, config: defaults()}
				t.flags = flag.NewFlagSet("ground "+s.name, flag.ContinueOnError)
				t.flags.SetOutput(io.Discard) // one line is enough for a mistake
				t.flags.Usage = func() {}
				t.flags.String("config", "", "`file` of settings, see configs/ground.yaml")
				t.flags.String("fleet", t.config.Fleet, "`name` of the fleet")
				t.flags.String("broker", t.config.Broker.URL, "`URL` of the broker, tcp:// or tls://")
				return s.run(t, args[1:])
			}
		}
	}
	help := len(args) > 0 && (args[0] == "-h" || args[0] == "-help" || args[0] == "--help" || args[0] == "help")
	if !help && len(args) > 0 {
		fmt.Fprintf(stderr, "ground: no command %q; want one of budget, preference, mission, watch, keygen (ground -h)\n", args[0])
		return exitUsage
	}
	out := stderr
	if help {
		out = stdout
	}
	fmt.Fprintln(out, "ground speaks to the leader of a fleet.")
	for _, s := range subcommands() {
		fmt.Fprintf(out, "  ground %s %s\n        %s\n", s.name, s.usage, s.summary)
	}
	fmt.Fprintln(out, "ground COMMAND -h shows a command's flags.")
	fmt.Fprintln(out, "With -key, commands and heartbeats are signed over the challenge in the leader's status; a leader with keys obeys no others.")
	fmt.Fprintln(out, "When a watch that the leader counted falls silent, it holds after 30 s and returns after 120 s, as configured; one that is ended (Ctrl-C) says so, and is not missed.")
	fmt.Fprintln(out, "Exit status: 0 done, 1 no broker or no answer, 2 bad input, 3 refused by the leader.")
	if help {
		return exitOK
	}
	return exitUsage
}

// usageError is a mistake of the user's, found before anything was sent.
type usageError struct{ error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// errHelp ends a command whose help was printed.
var errHelp = errors.New("help")

// parse reads flags and configuration. Words that are no flags may stand
// anywhere; want says how many there are.
func (t *tool) parse(args []string, want int) (words []string, err error) {
	for rest := args; ; {
		if err := t.flags.Parse(rest); errors.Is(err, flag.ErrHelp) {
			t.help()
			return nil, errHelp
		} else if err != nil {
			return nil, usageError{err}
		}
		if rest = t.flags.Args(); len(rest) == 0 {
			break
		}
		words, rest = append(words, rest[0]), rest[1:]
	}
	if len(words) > want {
		return nil, usagef("unexpected %q", words[want])
	}
	if path := t.flags.Lookup("config").Value.String(); path != "" {
		if err := configs.Load(path, &t.config); err != nil {
			return nil, usageError{err}
		}
	}
	t.flags.Visit(func(f *flag.Flag) {
		switch f.Name {
		case "fleet":
			t.config.Fleet = f.Value.String()
		case "broker":
			t.config.Broker.URL = f.Value.String()
		case "key":
			t.config.Key = f.Value.String()
		case "name":
			t.config.Name = f.Value.String()
		case "timeout":
			t.config.TimeoutS = f.Value.(flag.Getter).Get().(time.Duration).Seconds()
		case "stale":
			t.config.StaleS = f.Value.(flag.Getter).Get().(time.Duration).Seconds()
		}
	})
	if !(t.config.TimeoutS > 0 && t.config.TimeoutS <= 3600) {
		return nil, usagef("timeout: %g s is outside (0, 3600]", t.config.TimeoutS)
	}
	if !(t.config.StaleS > 0 && t.config.StaleS <= 3600) {
		return nil, usagef("stale: %g s is outside (0, 3600]", t.config.StaleS)
	}
	if t.topics, err = telemetry.NewTopics(t.config.Fleet); err != nil {
		return nil, usageError{err}
	}
	if err := t.config.Broker.Check(); err != nil {
		return nil, usageError{err}
	}
	return words, nil
}

// flagGiven tells whether a flag stands on the command line.
func (t *tool) flagGiven(name string) (given bool) {
	t.flags.Visit(func(f *flag.Flag) { given = given || f.Name == name })
	return given
}

func (t *tool) help() {
	for _, s := range subcommands() {
		if "ground "+s.name == t.flags.Name() {
			fmt.Fprintf(t.stdout, "%s %s\n        %s\n", t.flags.Name(), s.usage, s.summary)
		}
	}
	t.flags.SetOutput(t.stdout)
	t.flags.PrintDefaults()
}

// exitStatus reports a command's error on one line and returns the exit status.
func (t *tool) exitStatus(err error) int {
	switch {
	case err == nil, errors.Is(err, errHelp):
		return exitOK
	case errors.As(err, &usageError{}):
		fmt.Fprintf(t.stderr, "%s: %v\n", t.flags.Name(), err)
		return exitUsage
	}
	fmt.Fprintf(t.stderr, "%s: %v\n", t.flags.Name(), err)
	if errors.As(err, &refusedError{}) {
		return exitRefused
	}
	return exitFailed
}

func (t *tool) log() *slog.Logger {
	return slog.New(slog.NewTextHandler(t.stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

func keygen(t *tool, args []string) int {
	out := t.flags.String("out", "", "key `file` to write, NAME.key; NAME is the key's name")
	if _, err := t.parse(args, 0); err != nil {
		return t.exitStatus(err)
	}
	if *out == "" {
		return t.exitStatus(usagef("-out NAME.key is missing"))
	}
	name := keyName(*out)
	if !telemetry.ValidID(name) || !strings.HasSuffix(*out, ".key") {
		return t.exitStatus(usagef("-out %q: want NAME.key, NAME of A-Z a-z 0-9 . _ -", *out))
	}
	public, err := telemetry.NewKey(*out)
	if err != nil {
		return t.exitStatus(err)
	}
	fmt.Fprintf(t.stdout, "wrote %s, which stays here; the leader's configuration gets\n%s: %s\n", *out, name, public)
	return exitOK
}

// keyName is the name the leader knows a key file by.
func keyName(path string) string { return strings.TrimSuffix(filepath.Base(path), ".key") }
