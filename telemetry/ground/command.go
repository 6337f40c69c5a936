package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"golang.org/x/term"

	"prefdt/configs/cli"
	"prefdt/telemetry"
	"prefdt/telemetry/command"
)

// commandFlags declares the flags of every command to the leader.
func (t *tool) commandFlags() {
	t.Flags.StringVar(&t.config.Key, "key", t.config.Key, "sign with this key `file`")
	t.Flags.Var((*seconds)(&t.config.TimeoutS), "timeout", "how `long` to wait for broker and leader")
	t.Flags.StringVar(&t.commandID, "id", "", "command `id`; random unless given. A repeated id is applied once")
	t.verbose = t.Flags.Bool("v", false, "say the command's id, and the key that signed it, too")
	t.asJSON = t.JSONFlag()
}

func budget(t *tool) error {
	t.commandFlags()
	energy := t.Flags.String("energy", "", "`total` from slot 0 to the end: 42kJ, 11.7Wh, 42000")
	mode := t.Flags.String("mode", telemetry.ModeTarget, "target: end on it; ceiling: never exceed it")
	replaces := t.Flags.String("replaces", "", "refuse unless this `total` is in force")
	landed := t.Flags.Bool("landed", false, "count each aircraft from take-off to touchdown, not the slots alone")
	land := t.Flags.Bool("land", false, "aircraft may come home for good before the end")
	leastUp := t.Flags.Int("least-up", 1, "how `many` stay in the air")
	packs := t.Flags.String("packs", "", "bound the packs of these `aircraft`: 1=40kJ,2=45kJ, or 1,2 for all that they hold; with "+
		"-reserve alone every aircraft's")
	reserve := t.Flags.String("reserve", "", "`what` is left in each bounded pack at the end: 20% or 8kJ")
	belowFloor := t.Flags.Bool("below-floor", false,
		"send a total below the floor too: least energy from then on; and a reserve that has all land at once")
	words, err := t.parse(1) // the unit of -energy 42 kJ
	if err != nil {
		return err
	}
	bounded := t.Given("packs") || t.Given("reserve")
	if *energy == "" && !bounded {
		return cli.BadInputf("-energy TOTAL is missing, as in -energy 42kJ; or bound the packs, as in -reserve 20%%")
	}
	if len(words) > 0 && t.Given("replaces") && !endsInLetter(*replaces) {
		return cli.BadInputf("which total has the unit %.40q? write it without a space, as in -energy 42kJ -replaces 45kJ", words[0])
	}
	b := telemetry.Budget{ID: t.newID("b"), Mode: *mode}
	switch {
	case *energy != "":
		if b.EnergyJ, err = parseEnergy(strings.Join(append([]string{*energy}, words...), " "), t.ask); err != nil {
			return cli.BadInputf("-energy %w", err)
		}
	case len(words) > 0:
		return cli.BadInputf("unexpected %.40q", words[0])
	case !t.Given("mode"):
		b.Mode = telemetry.ModeCeiling
	}
	if *landed {
		b.Scope = telemetry.ScopeLanded
	}
	if *land {
		b.StandDown = telemetry.StandDownLand
	}
	if t.Given("least-up") {
		b.LeastUp = leastUp
	}
	every, err := parseReserve(*reserve)
	if err != nil {
		return cli.BadInputf("-reserve %w", err)
	}
	if b.Packs, err = parsePacks(*packs, every); err != nil {
		return cli.BadInputf("-packs %w", err)
	}
	if t.Given("replaces") {
		replacesJ, err := parseEnergy(*replaces, t.ask)
		if err != nil {
			return cli.BadInputf("-replaces %w", err)
		}
		b.ReplacesJ = &replacesJ
	}
	x := &command.Exchange{Request: command.Request{Budget: &b}, BelowFloor: *belowFloor}
	if bounded && len(b.Packs) == 0 {
		x.EveryPack = &every
	}
	return t.send(x)
}

// parseReserve reads "20%" or "8kJ".
func parseReserve(text string) (p telemetry.Pack, err error) {
	text = strings.TrimSpace(text)
	if text == "" {
		return p, nil
	}
	if share, isShare := strings.CutSuffix(text, "%"); isShare {
		percent, err := strconv.ParseFloat(strings.TrimSpace(share), 64)
		if err != nil || !(percent >= 0 && percent < 100) {
			return p, fmt.Errorf("%.40q is no share of a pack; want 0%% to below 100%%", text)
		}
		p.Reserve = new(percent / 100)
		return p, nil
	}
	joules, err := command.ParseEnergy(text)
	if errors.Is(err, command.ErrUnitMissing) {
		if share, _ := strconv.ParseFloat(text, 64); share < 100 {
			return p, fmt.Errorf("%s has no unit; write %[1]s%%, %[1]sJ, %[1]skJ or %[1]sWh", text)
		}
	}
	p.ReserveJ = &joules
	return p, err
}

// parsePacks reads "1=40kJ,2", each with the reserve of a pack.
func parsePacks(text string, reserve telemetry.Pack) (packs []telemetry.Pack, err error) {
	if text == "" {
		return nil, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		number, usable, hasUsable := strings.Cut(part, "=")
		p := reserve
		if p.Aircraft, err = strconv.Atoi(strings.TrimSpace(number)); err != nil {
			return nil, fmt.Errorf("%.40q: want an aircraft's number and its joules, as in 1=40kJ", part)
		}
		if hasUsable {
			usableJ, err := command.ParseEnergy(usable)
			if err != nil {
				return nil, err
			}
			p.UsableJ = &usableJ
		}
		packs = append(packs, p)
	}
	return packs, nil
}

func endsInLetter(text string) bool {
	text = strings.TrimSpace(text)
	return strings.TrimRightFunc(text, unicode.IsLetter) != text
}

var errNotMeant = errors.New("was not meant; nothing was sent")

// parseEnergy is command.ParseEnergy, which asks for a missing unit where there is
// somebody to answer. ask is nil where there is nobody.
func parseEnergy(text string, ask func(question string) (answer string)) (energyJ float64, err error) {
	energyJ, err = command.ParseEnergy(text)
	if errors.Is(err, command.ErrUnitMissing) && ask != nil {
		switch answer := strings.TrimSpace(ask(fmt.Sprintf("%s of what? J, kJ or Wh: ", strings.TrimSpace(text)))); {
		case strings.ContainsFunc(answer, unicode.IsDigit): // a whole total, not a unit behind the first number
			return command.ParseEnergy(answer)
		case slices.Contains([]string{"n", "no"}, strings.ToLower(answer)):
			return 0, errNotMeant
		case answer != "":
			return command.ParseEnergy(text + answer)
		}
	}
	return energyJ, err
}

// askTerminal returns a function that asks the person at the terminal; nil if there is
// none.
func askTerminal(in *os.File, out io.Writer) func(question string) string {
	if f, ok := out.(*os.File); !ok || !term.IsTerminal(int(f.Fd())) || !term.IsTerminal(int(in.Fd())) {
		return nil
	}
	return func(question string) string {
		fmt.Fprint(out, question)
		answer, _ := bufio.NewReader(in).ReadString('\n') // an end of input is no answer
		return answer
	}
}

func preference(t *tool) error {
	t.commandFlags()
	setting := t.Flags.Float64("setting", math.NaN(), "0 is least delay, 1 least energy")
	words, err := t.parse(1)
	if err != nil {
		return err
	}
	if len(words) > 0 {
		return cli.BadInputf("unexpected %.40q; did you mean -setting %[1]s?", words[0])
	}
	if math.IsNaN(*setting) || math.IsInf(*setting, 0) {
		return cli.BadInputf("-setting wants a number from 0 to 1")
	}
	p := telemetry.Preference{ID: t.newID("p"), Setting: *setting}
	return t.send(&command.Exchange{Request: command.Request{Preference: &p}})
}

func mission(t *tool) error {
	t.commandFlags()
	aircraft := t.Flags.String("aircraft", "", "`numbers` of the aircraft, as in 2,3: for launch and clear; resume and return without "+
		"it: all in the air")
	next := t.Flags.String("mission", "", "`id` of the mission that new begins, never used before; the time unless given")
	wait := seconds(60)
	t.Flags.Var(&wait, "wait", "how `long` start and launch are sent again while autopilots are not ready; 0s: once")
	words, err := t.parse(2)
	switch {
	case err != nil:
		return err
	case len(words) == 0:
		return cli.BadInputf("want one of %s", missionActions)
	case len(words) == 2:
		name := "aircraft"
		if words[0] == telemetry.ActionNew {
			name = "mission"
		}
		return cli.BadInputf("unexpected %.40q; did you mean -%s %[1]s?", words[1], name)
	}
	m := telemetry.Mission{ID: t.newID("m"), Action: words[0], Mission: *next}
	if t.Given("aircraft") {
		if m.Aircraft, err = parseNumbers(*aircraft); err != nil {
			return cli.BadInputf("-aircraft %q: %v", *aircraft, err)
		}
	}
	if m.Action == telemetry.ActionNew && m.Mission == "" {
		m.Mission = "m-" + time.Now().UTC().Format("20060102-150405")
	}
	switch starts := m.Action == telemetry.ActionStart || m.Action == telemetry.ActionLaunch; {
	case !(wait >= 0 && wait <= 3600):
		return cli.BadInputf("-wait %v is outside [0, 1h]", &wait)
	case t.Given("wait") && !starts:
		return cli.BadInputf("-wait is for start and launch")
	case starts && t.commandID == "": // the leader answers an id once
		return t.sendUntilReady(m, time.Duration(float64(wait)*float64(time.Second)))
	}
	return t.send(&command.Exchange{Request: command.Request{Mission: &m}})
}

// sendUntilReady sends a start or launch again, each time with a new id, while the leader
// refuses it for something that time cures.
func (t *tool) sendUntilReady(m telemetry.Mission, wait time.Duration) error {
	const between = time.Second
	until, last := time.Now().Add(wait), ""
	for {
		x := command.Exchange{Request: command.Request{Mission: &m}}
		err := t.send(&x)
		refused, ok := errors.AsType[refusedError](err)
		if !ok || !command.Transient(refused.reason) || time.Now().Add(between).After(until) {
			return err
		}
		aircraft := 0
		if s := x.Status(); s != nil {
			aircraft = len(s.Aircraft)
		}
		text := command.Waiting(refused.reason, aircraft)
		if kind := numbers.ReplaceAllString(text, "#"); kind != last { // seconds that pass are no news
			fmt.Fprintln(t.Stderr, text)
			last = kind
		}
		select {
		case <-time.After(between):
		case <-t.ctx.Done():
			return fmt.Errorf("interrupted: %w", err)
		}
		m.ID = t.newID("m")
	}
}

var numbers = regexp.MustCompile(`[0-9]+(\.[0-9]+)?`)

// refusedError is the leader's refusal of a command.
type refusedError struct{ text, reason string }

func (e refusedError) Error() string { return e.text }

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

func (t *tool) newID(kind string) string {
	if t.commandID != "" {
		return t.commandID
	}
	return command.NewID(kind)
}

// explained are the actions whose consequence is printed with their acceptance: they
// decide where aircraft end up.
var explained = []string{telemetry.ActionReturn, telemetry.ActionStop, telemetry.ActionNew}

// send sends one command, waits for its answer and prints it.
func (t *tool) send(x *command.Exchange) (err error) {
	x.Topics = t.topics
	if err := x.Initialize(); err != nil {
		return cli.BadInput(err)
	}
	if x.Signer, err = command.NewSigner(t.config.Key); err == nil {
		x.Leader, err = command.NewLeader(t.config.LeaderKeys, t.config.Fleet)
	}
	if err != nil {
		return cli.BadInput(err)
	}
	ctx, cancel := context.WithTimeout(t.ctx, t.timeout())
	defer cancel()
	ack, err := x.Send(ctx, t.config.Broker, t.log())
	switch {
	case errors.Is(err, command.ErrBelowFloor), errors.Is(err, command.ErrLandsAtOnce):
		return cli.BadInputf("%w with -below-floor; nothing was sent", err)
	case err != nil:
		return err
	}
	answer := x.Request.Answer(ack, x.Status())
	if *t.verbose {
		answer += " " + command.Origin(ack)
	}
	if !ack.Accepted {
		if *t.asJSON {
			t.PrintJSON(ack)
		}
		return cli.WithCode(exitRefused, refusedError{answer, ack.Reason})
	}
	if !x.BelowFloor && ack.Saturated != nil && *ack.Saturated {
		answer += "\nThis could not be told before it was sent. If it is not meant, send another budget now."
	}
	if m := x.Request.Mission; m != nil && slices.Contains(explained, m.Action) {
		answer += "\n" + x.Request.Consequence(x.Status())
	}
	return t.Result(*t.asJSON, ack, "%s", answer)
}
