// Command ground is the crew's tool: it requests a budget, a preference or a change
// of the mission from the leader, and shows the fleet as it flies.
//
// Inputs: the command line, and the leader's status and acknowledgements. Outputs:
// commands, over MQTT alone. A command takes effect from the slot that its
// acknowledgement names.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"prefdt/configs/cli"
	"prefdt/telemetry"
	"prefdt/telemetry/command"
)

// ownConfig is the configuration that is read where none is named: of the folder.
const ownConfig = "ground.yaml"

// exitRefused is the exit status when the leader refuses a command.
const exitRefused = 3

// Config is configs/ground.yaml, which documents the fields.
type Config struct {
	Fleet      string            `yaml:"fleet"`
	Broker     telemetry.Broker  `yaml:"broker"`
	Key        string            `yaml:"key"`
	LeaderKeys map[string]string `yaml:"leader_keys"`
	Name       string            `yaml:"name"`
	TimeoutS   float64           `yaml:"timeout_s"`
	StaleS     float64           `yaml:"stale_s"`
}

func defaults() Config {
	return Config{
		Fleet:      "demo",
		Broker:     telemetry.Broker{URL: "tcp://127.0.0.1:1883", ClientID: "ground"},
		LeaderKeys: map[string]string{},
		TimeoutS:   10,
		StaleS:     3,
	}
}

// Check returns the first value that is out of range.
func (c *Config) Check() error {
	for _, x := range []struct {
		key    string
		valueS float64
	}{{"timeout", c.TimeoutS}, {"stale", c.StaleS}} {
		if !(x.valueS > 0 && x.valueS <= 3600) {
			return fmt.Errorf("%s: %g s is outside (0, 3600]", x.key, x.valueS)
		}
	}
	if _, err := telemetry.NewTopics(c.Fleet); err != nil {
		return err
	}
	return c.Broker.Check()
}

// host is what the program runs on; the zero value is this machine.
type host struct {
	dial   func(ctx context.Context, network, address string) (net.Conn, error) // to the broker
	listen func(network, address string) (net.Listener, error)                  // for browsers
}

// program is the program on a host.
func program(h host) *cli.Program {
	return &cli.Program{
		Name:  "ground",
		Usage: "ground sends commands to the leader of a fleet, and shows its status.",
		Commands: []cli.Command{
			{Name: "budget", Args: "-energy 42kJ [-mode target|ceiling] [-replaces 45kJ] [-below-floor]",
				Summary: "request a total from slot 0 to the end; in J unless a unit says otherwise: kJ, MJ, Wh, kWh",
				Run:     h.withTool(budget)},
			{Name: "budget", Args: "-reserve 20% [-packs 1=40kJ,2] [-energy 42kJ] [-landed] [-land] [-least-up 1]",
				Summary: "bound packs: what is left in each; -landed counts from take-off to touchdown, -land lets aircraft come " +
					"home for good"},
			{Name: "preference", Args: "-setting 0..1", Summary: "request a point between least delay (0) and least energy (1)",
				Run: h.withTool(preference)},
			{Name: "mission", Args: "start|hold|return|stop [-wait 60s]",
				Summary: "start, hold or end the mission; start waits until the autopilots are ready", Run: h.withTool(mission)},
			{Name: "mission", Args: "resume [-aircraft 2,3]", Summary: "end a hold, or a pilot's control in the air; it never arms"},
			{Name: "mission", Args: "launch -aircraft 2,3", Summary: "start aircraft that stand on the ground inside the area"},
			{Name: "mission", Args: "clear -aircraft 2,3", Summary: "aircraft that were lost are no obstacle any more"},
			{Name: "mission", Args: "new [-mission ID]", Summary: "begin the next mission, with nothing in the air"},
			{Name: "watch", Args: "[-json] [-silent]", Summary: "show the fleet's status as it changes, and send the leader a heartbeat " +
				"each second", Run: h.withTool(watch)},
			{Name: "serve", Args: "[-listen ADDRESS] [-silent]", Summary: "serve a web page that shows the fleet and sends commands",
				Run: h.withTool(serveConsole)},
			{Name: "serve", Args: "-fleets NAME,NAME [-silent]", Summary: "serve a list of fleets, and a page of each"},
			{Name: "serve", Args: "-replay FILE [-mission ID]",
				Summary: "serve the same page of a mission that is over, with a scrubber; nothing is sent"},
			{Name: "log", Args: "FILE [-mission ID] [-mcap F] [-csv F] [-json F]",
				Summary: "write the record of missions for other tools, or say what it has", Run: h.withTool(logOfFlights)},
			{Name: "keygen", Args: "-out NAME.key", Summary: "make a key to sign commands with", Run: h.withTool(keygen)},
			{Name: "certs", Args: "[-out FOLDER] [-host NAMES] [-crew NAMES] [-users N] [-check]",
				Summary: "make the certificates of the broker and its clients, or try them at the broker", Run: h.withTool(certs)},
		},
		Notes: `With -key, commands and heartbeats are signed over the challenge in the leader's status; a leader with keys accepts no
others.
When the heartbeats of a watch cease, the leader holds after 30 s and returns after 120 s, as configured.
A watch that is ended (Ctrl-C) announces it, and neither follows.
Exit status: 0 done, 1 no broker or no answer, 2 bad input, 3 refused by the leader.`,
	}
}

func main() { program(host{}).Main() }

// tool is what a command works with.
type tool struct {
	*cli.Call
	host   host
	ctx    context.Context
	config Config
	topics telemetry.Topics

	commandID string // of a command to the leader
	asJSON    *bool  // print the leader's acknowledgement
	verbose   *bool  // and its id and key

	ask func(question string) (answer string) // the person at the terminal; nil: there is none
}

func (h host) withTool(run func(t *tool) error) func(context.Context, *cli.Call) error {
	return func(ctx context.Context, c *cli.Call) error {
		t := h.newTool(ctx, c)
		err := run(t)
		url := defaults().Broker.URL
		if err != nil && t.config.Broker.URL == url && !t.Given("broker") && strings.Contains(err.Error(), url) {
			return fmt.Errorf("%w; that is the default: set GROUND_BROKER, or give -broker", err)
		}
		return err
	}
}

func (h host) newTool(ctx context.Context, c *cli.Call) *tool {
	t := &tool{Call: c, host: h, ctx: ctx, config: defaults(), ask: askTerminal(os.Stdin, c.Stderr)}
	t.Flags.String("config", "", "`file` of settings, see configs/ground.yaml; ground.yaml of this folder unless given")
	t.Flags.StringVar(&t.config.Fleet, "fleet", t.config.Fleet, "`name` of the fleet")
	t.Flags.StringVar(&t.config.Broker.URL, "broker", t.config.Broker.URL,
		"`URL` of the broker, tcp:// or tls://; $GROUND_BROKER unless given")
	return t
}

// parse reads flags and configuration, and at most so many words.
func (t *tool) parse(most int) (words []string, err error) {
	if words, err = t.Parse("", most); err != nil {
		return nil, err
	}
	if url := os.Getenv("GROUND_BROKER"); url != "" && !t.Given("broker") && !t.Given("replay") {
		t.Flags.Set("broker", url) // as though it were given: it wins over the file
	}
	path := t.Flags.Lookup("config").Value.String()
	if _, err := os.Stat(ownConfig); path == "" && err == nil {
		path = ownConfig
	}
	if err := t.Config(path, &t.config); err != nil {
		return nil, err
	}
	t.config.Broker.Dial = t.host.dial
	t.topics, err = telemetry.NewTopics(t.config.Fleet)
	return words, cli.BadInput(err)
}

// seconds is a duration flag of a field in seconds: a number without a unit is seconds too.
type seconds float64

func (s *seconds) String() string {
	return time.Duration(float64(*s) * float64(time.Second)).String()
}

func (s *seconds) Set(text string) error {
	if _, err := strconv.ParseFloat(text, 64); err == nil {
		text += "s" // as in the configuration
	}
	d, err := time.ParseDuration(text)
	*s = seconds(d.Seconds())
	return err
}

func (t *tool) timeout() time.Duration {
	return time.Duration(t.config.TimeoutS * float64(time.Second))
}

func (t *tool) stale() time.Duration {
	return time.Duration(t.config.StaleS * float64(time.Second))
}

func (t *tool) log() *slog.Logger {
	return slog.New(slog.NewTextHandler(t.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

func keygen(t *tool) error {
	out := t.Flags.String("out", "", "key `file` to write, NAME.key; NAME is the key's name")
	if _, err := t.parse(0); err != nil {
		return err
	}
	if *out == "" {
		return cli.BadInputf("-out NAME.key is missing")
	}
	name := command.KeyName(*out)
	if !telemetry.ValidID(name) || !strings.HasSuffix(*out, ".key") {
		return cli.BadInputf("-out %q: want NAME.key, NAME of A-Z a-z 0-9 . _ -", *out)
	}
	public, err := telemetry.NewKey(*out)
	if err != nil {
		return err
	}
	fmt.Fprintf(t.Stdout, "wrote %s, which stays here, and its public key beside it (.pub)\nIf a crew signs with it, commands.keys in "+
		"leader.yaml gets\n  %s: %s\nIf it is the "+
		"leader's own (leader_key), leader_keys in each ground.yaml gets, with the fleet's name,\n  FLEET: %[3]s\n", *out, name, public)
	return nil
}
