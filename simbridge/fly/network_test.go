package fly

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"prefdt/simbridge/simnet"
	"prefdt/telemetry"
	"prefdt/telemetry/command"
)

// inMemory has all of a flight's programs on a network in memory. It is for a [simnet.Test].
func (c *Config) inMemory() {
	c.network, c.crew, c.noPictures = simnet.New(1), sendCommand, true
	c.Ground = []string{"ground"}
	c.Broker.Listen = c.network.FreeAddress()
}

// sendCommand is the crew's tool, for the commands that these flights have.
func sendCommand(ctx context.Context, broker telemetry.Broker, c Command, id string) (answer string, err error) {
	flags := flag.NewFlagSet(c.Args[0], flag.ContinueOnError)
	energy := flags.String("energy", "", "")
	belowFloor := flags.Bool("below-floor", false, "")
	setting := flags.Float64("setting", 0, "")
	aircraft := flags.Int("aircraft", 0, "")
	var r command.Request
	rest := c.Args[1:]
	if telemetry.Kind(c.Args[0]) == telemetry.KindMission {
		r.Mission = &telemetry.Mission{ID: id, Action: rest[0]}
		rest = rest[1:]
	}
	if err := flags.Parse(rest); err != nil {
		return "", err
	}
	switch telemetry.Kind(c.Args[0]) {
	case telemetry.KindMission:
		if *aircraft > 0 {
			r.Mission.Aircraft = []int{*aircraft}
		}
	case telemetry.KindBudget:
		r.Budget = &telemetry.Budget{ID: id, Mode: telemetry.ModeTarget}
		if r.Budget.EnergyJ, err = command.ParseEnergy(*energy); err != nil {
			return "", err
		}
	case telemetry.KindPreference:
		r.Preference = &telemetry.Preference{ID: id, Setting: *setting}
	default:
		return "", fmt.Errorf("no command %q", c.Args)
	}
	x := command.Exchange{Request: r, BelowFloor: *belowFloor}
	if x.Topics, err = telemetry.NewTopics("test"); err != nil {
		return "", err
	}
	if err := x.Initialize(); err != nil {
		return "", err
	}
	const timeout = 10 * time.Second
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	ack, err := x.Send(ctx, broker, slog.New(slog.DiscardHandler))
	if err != nil {
		return "", err
	}
	answer = strings.ReplaceAll(x.Request.Answer(ack, x.Status()), "\n", " ")
	if !ack.Accepted {
		return "", errors.New(answer)
	}
	return answer, nil
}
