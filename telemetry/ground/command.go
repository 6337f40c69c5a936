package main

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"prefdt/configs/cli"
	"prefdt/telemetry"
)

// commandFlags declares the flags of every command to the leader.
func (t *tool) commandFlags() {
	t.Flags.StringVar(&t.config.Key, "key", t.config.Key, "sign with this key `file`")
	t.Flags.Var((*seconds)(&t.config.TimeoutS), "timeout", "how `long` to wait for broker and leader")
	t.Flags.StringVar(&t.commandID, "id", "", "command `id`; random unless given. A repeated id is applied once")
	t.asJSON = t.JSONFlag()
}

func budget(t *tool) error {
	t.commandFlags()
	energyJ := t.Flags.Float64("energy", math.NaN(), "`joules` from slot 0 to the end")
	mode := t.Flags.String("mode", telemetry.ModeTarget, "target: end on it; ceiling: never exceed it")
	replacesJ := t.Flags.Float64("replaces", 0, "refuse unless this total of `joules` is in force")
	if _, err := t.parse(0); err != nil {
		return err
	}
	if math.IsNaN(*energyJ) || math.IsInf(*energyJ, 0) {
		return cli.BadInputf("-energy wants a number of joules above 0")
	}
	c := telemetry.Budget{ID: newID(t.commandID, "b"), EnergyJ: *energyJ, Mode: *mode}
	if t.Given("replaces") {
		c.ReplacesJ = replacesJ
	}
	return sendCommand(t, t.topics.Budget(), c.ID, c, budgetText(c.EnergyJ, c.Mode))
}

func preference(t *tool) error {
	t.commandFlags()
	setting := t.Flags.Float64("setting", math.NaN(), "0 is least delay, 1 least energy")
	if _, err := t.parse(0); err != nil {
		return err
	}
	if math.IsNaN(*setting) || math.IsInf(*setting, 0) {
		return cli.BadInputf("-setting wants a number from 0 to 1")
	}
	c := telemetry.Preference{ID: newID(t.commandID, "p"), Setting: *setting}
	return sendCommand(t, t.topics.Preference(), c.ID, c, preferenceText(c.Setting))
}

func mission(t *tool) error {
	t.commandFlags()
	aircraft := t.Flags.String("aircraft", "", "`numbers` of the aircraft, as in 2,3: for launch and clear; resume without it: all in the air")
	next := t.Flags.String("mission", "", "`id` of the mission that new begins, never used before")
	words, err := t.parse(1)
	if err != nil {
		return err
	}
	if len(words) == 0 {
		return cli.BadInputf("want one of %s", missionActions)
	}
	c := telemetry.Mission{ID: newID(t.commandID, "m"), Action: words[0], Mission: *next}
	what := "mission " + c.Action
	if t.Given("aircraft") {
		if c.Aircraft, err = parseNumbers(*aircraft); err != nil {
			return cli.BadInputf("-aircraft %q: %v", *aircraft, err)
		}
		what += " aircraft " + *aircraft
	}
	if c.Mission != "" {
		what += " " + c.Mission
	}
	return sendCommand(t, t.topics.Mission(), c.ID, c, what)
}

const missionActions = "start, hold, resume, return, stop, launch, clear, new"

// parseNumbers reads "2,3".
func parseNumbers(text string) (list []int, err error) {
	for part := range strings.SplitSeq(text, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(part))
		if err != nil {
			return nil, errors.New("want numbers with commas between them, as in 2,3")
		}
		list = append(list, n)
	}
	return list, nil
}

func newID(given, kind string) string {
	return cmp.Or(given, kind+"-"+strings.ToLower(rand.Text()[:12]))
}

// sendCommand checks and sends one command and waits for its answer. what names it to
// the user.
func sendCommand[T telemetry.Budget | telemetry.Preference | telemetry.Mission](t *tool, topic, id string, c T, what string) error {
	body, err := telemetry.Encode(c)
	if err != nil {
		return cli.BadInput(errors.New(strings.TrimPrefix(err.Error(), "encode ")))
	}
	sign, err := t.loadSigner()
	if err != nil {
		return cli.BadInput(err)
	}
	ack, err := t.runExchange(&exchange{topic: topic, id: id, body: body, signer: sign, topics: t.topics})
	if err != nil {
		return err
	}
	if !ack.Accepted {
		if *t.asJSON {
			t.PrintJSON(ack)
		}
		again := ""
		if ack.Challenge != "" {
			again = ", also when signed again"
		}
		return cli.WithCode(exitRefused, fmt.Errorf("%s refused%s: %s (%s)", what, again, telemetry.Printable(ack.Reason), ackOrigin(ack)))
	}
	line := fmt.Sprintf("%s accepted from slot %d", appliedText(ack, what), *ack.EffectiveSlot)
	switch {
	case ack.Saturated != nil && *ack.Saturated:
		line += ", SATURATED: below what flying needs"
		if ack.FloorJ != nil {
			line += ", floor " + joules(*ack.FloorJ)
		}
	case ack.Saturated != nil && ack.FloorJ != nil:
		line += fmt.Sprintf(", not below the floor of %s", joules(*ack.FloorJ))
	}
	return t.Result(*t.asJSON, ack, "%s (%s)", line, ackOrigin(ack))
}

// appliedText is what the leader applied by its answer; the request if the answer does
// not name it.
func appliedText(ack telemetry.Ack, request string) string {
	switch {
	case ack.EnergyJ != nil:
		return budgetText(*ack.EnergyJ, ack.Mode)
	case ack.Setting != nil:
		return preferenceText(*ack.Setting)
	case ack.Action != "" && !strings.HasPrefix(request+" ", "mission "+ack.Action+" "):
		return "mission " + ack.Action
	}
	return request
}

// ackOrigin is the id of an answered command and the key that signed it.
func ackOrigin(ack telemetry.Ack) string {
	if ack.Key == "" {
		return "id " + ack.ID
	}
	return "id " + ack.ID + ", key " + ack.Key
}

func budgetText(energyJ float64, mode string) string {
	return fmt.Sprintf("budget of %s (%s)", joules(energyJ), mode)
}

func preferenceText(setting float64) string { return fmt.Sprintf("preference %g", setting) }

func joules(j float64) string { return fmt.Sprintf("%.0f J", j) }
