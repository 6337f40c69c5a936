// Leader flies a mission: slot by slot it receives users' tasks over MQTT, decides with
// a frozen policy, and commands users and autopilots, within a budget of joules. The
// loop is in package leader; read leader/slot.go first. This package has the command
// line, the wiring and the exit statuses.
package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/signal"
	"syscall"

	"prefdt/configs/cli"
	"prefdt/firmware/config"
	"prefdt/firmware/link"
	"prefdt/firmware/logtool"
	"prefdt/firmware/preflight"
	"prefdt/firmware/program"
)

const logArgs = "-config FILE|-file LEDGER "

var commands = cli.Program{
	Name:  "leader",
	Usage: "leader flies a mission: users over MQTT, autopilots over MAVLink, a frozen policy between.",
	Commands: []cli.Command{
		{Args: "-config FILE", Summary: "fly the mission of a configuration", Run: flyCommand},
		{Name: "check", Args: "-config FILE [-wait 15s] [-json]",
			Summary: "the pre-flight list: test on the ground what a flight needs, and print ok, warn or FAIL, what, and what was " +
				"found; it sends no aircraft anywhere", Run: preflight.Command},
		{Name: "log", Args: logArgs + "check [-json]",
			Summary: "report what is in a ledger that no leader is using, and whether it adds up", Run: logtool.Command},
		{Name: "log", Args: logArgs + "export [-csv|-json] [-users] [-mission ID] [-out FILE]",
			Summary: "write the settled slots, one line each"},
		{Name: "log", Args: logArgs + "recover -out FOLDER",
			Summary: "make a new ledger of what a damaged one still holds; it stays as it is"},
		{Name: "log", Args: logArgs + "commands [-json] [-mission ID]",
			Summary: "list the crew's last commands, who signed them, and their answers"},
	},
	Notes: `Exit status: 0 the mission is over or the leader was asked to end (check: nothing failed; log: done),
1 it cannot continue (check: something failed; log: the ledger is damaged or does not add up),
2 the command line or the configuration is wrong, 3 another leader flies this fleet.`,
}

func main() { commands.Main() }

// flyCommand flies the mission of a configuration.
//
// Bad input is only what the file alone decides: under systemd that is final, as
// the same file would be wrong again 200 ms later. A file, checkpoint or device
// that is missing may be on a mount that is not there yet, and is tried again.
func flyCommand(ctx context.Context, call *cli.Call) error {
	path := call.Flags.String("config", "", "YAML `file`; configs/leader.yaml explains every key")
	if _, err := call.Parse("", 0); err != nil {
		return err
	}
	if *path == "" {
		return cli.BadInputf("want -config FILE; leader -h explains")
	}
	c, err := config.Load(*path)
	if _, unreadable := errors.AsType[*fs.PathError](err); unreadable {
		return err
	} else if err != nil {
		return cli.BadInput(err)
	}
	// The first signal ends the leader in order, within a slot or so: slot results go
	// to the ledger, online becomes false on the broker, and the autopilots hold. A
	// second one, from an impatient hand or from a terminal and a supervisor at once,
	// must not cut that short while aircraft are in the air: it has no effect.
	// systemd has SIGKILL for a leader that does not end.
	signal.Notify(make(chan os.Signal, 1), os.Interrupt, syscall.SIGTERM)
	if err = program.Fly(ctx, c, program.Host{}, call.Stderr); errors.Is(err, link.ErrIncumbent) {
		return cli.WithCode(3, err)
	}
	return err
}
