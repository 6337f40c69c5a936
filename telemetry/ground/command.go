package main

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"prefdt/telemetry"
)

// resendEvery is how often an unanswered command is published again. The leader
// applies an id once and acknowledges it each time.
const resendEvery = 2 * time.Second

func (t *tool) commandFlags() (id *string) {
	t.flags.String("key", "", "sign with this key `file`")
	t.flags.Duration("timeout", time.Duration(t.config.TimeoutS*float64(time.Second)), "how long to wait for broker and leader")
	return t.flags.String("id", "", "command `id`; random unless given. A repeated id is applied once")
}

func budget(t *tool, args []string) int {
	id := t.commandFlags()
	energyJ := t.flags.Float64("energy", math.NaN(), "`joules` from slot 0 to the end")
	mode := t.flags.String("mode", telemetry.ModeTarget, "target: end on it; ceiling: never exceed it")
	if _, err := t.parse(args, 0); err != nil {
		return t.end(err)
	}
	if math.IsNaN(*energyJ) || math.IsInf(*energyJ, 0) {
		return t.end(usagef("-energy wants a number of joules above 0"))
	}
	c := telemetry.Budget{ID: newID(*id, "b"), EnergyJ: *energyJ, Mode: *mode}
	return command(t, t.topics.Budget(), c.ID, c, fmt.Sprintf("budget of %s (%s)", joules(c.EnergyJ), c.Mode))
}

func preference(t *tool, args []string) int {
	id := t.commandFlags()
	setting := t.flags.Float64("setting", math.NaN(), "0 is least delay, 1 least energy")
	if _, err := t.parse(args, 0); err != nil {
		return t.end(err)
	}
	if math.IsNaN(*setting) || math.IsInf(*setting, 0) {
		return t.end(usagef("-setting wants a number from 0 to 1"))
	}
	c := telemetry.Preference{ID: newID(*id, "p"), Setting: *setting}
	return command(t, t.topics.Preference(), c.ID, c, fmt.Sprintf("preference %g", c.Setting))
}

func mission(t *tool, args []string) int {
	id := t.commandFlags()
	words, err := t.parse(args, 1)
	if err != nil {
		return t.end(err)
	}
	if len(words) == 0 {
		return t.end(usagef("want one of start, hold, resume, return, stop"))
	}
	c := telemetry.Mission{ID: newID(*id, "m"), Action: words[0]}
	return command(t, t.topics.Mission(), c.ID, c, "mission "+c.Action)
}

func newID(given, kind string) string {
	if given != "" {
		return given
	}
	return kind + "-" + strings.ToLower(rand.Text()[:12])
}

// refusedError is the leader's no.
type refusedError struct{ error }

// command checks, sends and awaits one command. what names it to the user.
func command[T telemetry.Budget | telemetry.Preference | telemetry.Mission](t *tool, topic, id string, c T, what string) int {
	body, err := telemetry.Encode(c)
	if err != nil {
		return t.end(usageError{errors.New(strings.TrimPrefix(err.Error(), "encode "))})
	}
	var key ed25519.PrivateKey
	if t.config.Key != "" {
		if key, err = telemetry.ReadKey(t.config.Key); err != nil {
			return t.end(usageError{err})
		}
	}
	// A signed command needs a fresh counter each time it is sent.
	payload := func() ([]byte, error) {
		if key == nil {
			return body, nil
		}
		counter, err := telemetry.NextCounter(t.config.Key)
		if err != nil {
			return nil, err
		}
		return telemetry.Sign(keyName(t.config.Key), key, counter, telemetry.NewChallenge(), topic, body)
	}
	ack, err := t.send(topic, id, payload)
	if err != nil {
		return t.end(err)
	}
	if !ack.Accepted {
		return t.end(refusedError{fmt.Errorf("%s refused: %s (id %s)", what, printable(ack.Reason), id)})
	}
	line := fmt.Sprintf("%s accepted from slot %d", what, *ack.EffectiveSlot)
	if ack.Saturated != nil {
		line += map[bool]string{false: ", within reach", true: ", SATURATED: below what flying needs"}[*ack.Saturated]
	}
	if ack.FloorJ != nil {
		line += fmt.Sprintf(", floor %s", joules(*ack.FloorJ))
	}
	fmt.Fprintf(t.stdout, "%s (id %s)\n", line, id)
	return exitOK
}

// send publishes a command until it is acknowledged or time is up. The
// subscription to its acknowledgement stands before the first publication.
func (t *tool) send(topic, id string, payload func() ([]byte, error)) (telemetry.Ack, error) {
	timeout := time.Duration(t.config.TimeoutS * float64(time.Second))
	ctx, cancel := context.WithTimeout(t.ctx, timeout)
	defer cancel()
	acks := make(chan telemetry.Ack, 1)
	online := make(chan bool, 1)
	unreadable := make(chan error, 1)
	client := &telemetry.Client{Broker: t.config.Broker, Name: "ground", Log: t.log()}
	client.Subscriptions = []telemetry.Subscription{{Filter: t.topics.Ack(id), QoS: 1}, {Filter: t.topics.Online(), QoS: 1}}
	client.Handle = func(m telemetry.Message) {
		if m.Topic == t.topics.Online() {
			if up, err := telemetry.DecodeOnline(m.Payload); err != nil {
				replace(unreadable, err)
			} else {
				replace(online, up)
			}
			return
		}
		ack, err := telemetry.DecodeAck(m.Payload)
		switch {
		case err != nil:
			replace(unreadable, err)
		case ack.ID != id:
			replace(unreadable, fmt.Errorf("ack.id: %q, on the topic of %s", ack.ID, id))
		default:
			replace(acks, ack)
		}
	}
	if err := client.Initialize(ctx); err != nil {
		return telemetry.Ack{}, err
	}
	defer client.Close()
	again := time.NewTicker(resendEvery)
	defer again.Stop()
	for {
		p, err := payload()
		if err != nil {
			return telemetry.Ack{}, err
		}
		client.Publish(telemetry.Publication{Topic: topic, QoS: 1, Payload: p}) // dropped while the broker is away: sent again below
		select {
		case ack := <-acks:
			return ack, nil
		case <-again.C:
		case <-ctx.Done():
			if t.ctx.Err() != nil {
				return telemetry.Ack{}, fmt.Errorf("interrupted before the leader answered; command %s may still be applied", id)
			}
			return telemetry.Ack{}, fmt.Errorf("no acknowledgement within %v: %s; command %s may still be applied", timeout, whyNot(online, unreadable, t.config.Fleet), id)
		}
	}
}

// replace leaves v as the newest value of a channel of one. Only one goroutine
// writes to it.
func replace[T any](ch chan T, v T) {
	select {
	case <-ch:
	default:
	}
	ch <- v
}

// whyNot says what is known of a leader that does not answer.
func whyNot(online <-chan bool, unreadable <-chan error, fleet string) string {
	select {
	case err := <-unreadable:
		return "what came as an answer cannot be read: " + printable(err.Error())
	default:
	}
	select {
	case up := <-online:
		if up {
			return "the leader says it is online, but may not accept commands signed like this one"
		}
		return "the leader of fleet " + fleet + " is offline"
	default:
		return "no leader of fleet " + fleet + " was ever at this broker"
	}
}

// joules writes an energy as the crew reads it.
func joules(j float64) string { return fmt.Sprintf("%.0f J", j) }
