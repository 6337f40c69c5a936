// Package command is the crew's side of a command, for every station that sends one:
// what was meant, what it would do, its signature, its answer, and the heartbeats of a
// station that watches.
//
// Inputs: what a person entered, the leader's status, its acknowledgement. Outputs: the
// payloads to publish, and sentences. A command of the crew goes through four steps:
//
//	energyJ, err := command.ParseEnergy("42 kJ")        // never a guess: 42 alone is an error
//	r := command.Request{Budget: &telemetry.Budget{ID: command.NewID("b"), EnergyJ: energyJ, Mode: telemetry.ModeTarget}}
//	before := r.Consequence(status)                     // shown before it is sent
//	x := command.Exchange{Request: r, Topics: topics, Signer: signer}
//	err = x.Initialize()                                // a field out of range; nothing is sent
//	ack, err := x.Send(ctx, broker, log)                // checks the floor, signs, sends, waits
//	after := r.Answer(ack)                              // with value, mode and slot; Origin(ack) has id and key
//
// Programs ground and its page use it; the leader does not.
package command

import (
	"crypto/rand"
	"errors"
	"fmt"
	"strings"

	"prefdt/telemetry"
)

// Request is one command. One of the fields is set.
type Request struct {
	Budget     *telemetry.Budget
	Preference *telemetry.Preference
	Mission    *telemetry.Mission
}

// NewID returns an id never used before, which begins with a letter for the command's kind.
func NewID(kind string) string { return kind + "-" + strings.ToLower(rand.Text()[:12]) }

// ID is the command's id.
func (r Request) ID() string {
	switch {
	case r.Budget != nil:
		return r.Budget.ID
	case r.Preference != nil:
		return r.Preference.ID
	}
	return r.Mission.ID
}

// Topic is where the command is published.
func (r Request) Topic(t telemetry.Topics) string {
	switch {
	case r.Budget != nil:
		return t.Budget()
	case r.Preference != nil:
		return t.Preference()
	}
	return t.Mission()
}

// Encode returns the command's JSON, or an error that names the field out of range.
func (r Request) Encode() (body []byte, err error) {
	switch {
	case r.Budget != nil:
		body, err = telemetry.Encode(*r.Budget)
	case r.Preference != nil:
		body, err = telemetry.Encode(*r.Preference)
	default:
		body, err = telemetry.Encode(*r.Mission)
	}
	if err != nil {
		return nil, errors.New(strings.TrimPrefix(err.Error(), "encode "))
	}
	return body, nil
}

// String names the command.
func (r Request) String() string {
	switch {
	case r.Budget != nil:
		if r.Budget.EnergyJ == 0 {
			return fmt.Sprintf("budget of the packs of %s", aircraftText(packNumbers(r.Budget)))
		}
		return budgetText(r.Budget.EnergyJ, r.Budget.Mode)
	case r.Preference != nil:
		return preferenceText(r.Preference.Setting)
	}
	text := "mission " + r.Mission.Action
	if len(r.Mission.Aircraft) > 0 {
		text += " " + aircraftText(r.Mission.Aircraft)
	}
	if r.Mission.Mission != "" {
		text += " " + r.Mission.Mission
	}
	return text
}

func budgetText(energyJ float64, mode string) string {
	return fmt.Sprintf("budget of %s (%s)", Kilojoules(energyJ), mode)
}

// packNumbers are the aircraft whose packs a budget bounds.
func packNumbers(b *telemetry.Budget) (numbers []int) {
	for _, p := range b.Packs {
		numbers = append(numbers, p.Aircraft)
	}
	return numbers
}

// keepsAllAloft is whether a budget is of the slots alone, with every aircraft in them to the end,
// as the floor of a status is.
func keepsAllAloft(b *telemetry.Budget) bool {
	return len(b.Packs) == 0 && b.Scope != telemetry.ScopeLanded && b.StandDown != telemetry.StandDownLand
}

func preferenceText(setting float64) string { return fmt.Sprintf("preference %g", setting) }

// ErrBelowFloor is a budget that no flight can keep any more.
var ErrBelowFloor = errors.New("the mission cannot end below it")

// Check returns why a command must not be sent without being asked for twice: a budget
// below the floor of the leader's status makes the fleet fly at the least energy from
// then on, whatever that costs its users. After the last slot the leader says what to do.
func (r Request) Check(s *telemetry.Status) error {
	if r.Budget != nil && !over(s) && keepsAllAloft(r.Budget) && r.Budget.EnergyJ < s.FloorJ {
		return fmt.Errorf("%s is below the floor of %s: %w; ask for at least the floor, or confirm a lower total", inEveryUnit(r.Budget.EnergyJ), inEveryUnit(s.FloorJ), ErrBelowFloor)
	}
	return nil
}

// Origin is a command's id, and the key that the leader verified.
func Origin(a telemetry.Ack) string {
	if a.Key == "" {
		return "(id " + a.ID + ", unsigned)"
	}
	return "(id " + a.ID + ", key " + a.Key + ")"
}

// Answer is an acknowledgement in words: what was applied and from which slot on, or
// why it was refused.
func (r Request) Answer(a telemetry.Ack) string {
	if !a.Accepted {
		again := ""
		if a.Challenge != "" {
			again = ", also when signed again"
		}
		return fmt.Sprintf("%s refused%s: %s", r, again, telemetry.Printable(a.Reason))
	}
	line := fmt.Sprintf("%s accepted from slot %d", r.applied(a), *a.EffectiveSlot)
	if a.Saturated != nil && *a.Saturated {
		line += ", SATURATED: below what flying needs"
	}
	if a.Saturated != nil && a.FloorJ != nil {
		line += "; the floor is " + Kilojoules(*a.FloorJ)
	}
	if a.CoveredUntilSlot != nil {
		line += fmt.Sprintf(", covered until slot %d", *a.CoveredUntilSlot)
	}
	for _, x := range a.Aircraft {
		line += fmt.Sprintf(", aircraft %d lands with %s", x.Number, Kilojoules(x.LeftAtTouchdownJ))
	}
	return line
}

// applied is what the leader applied by its answer; the request if the answer does not
// name it.
func (r Request) applied(a telemetry.Ack) string {
	switch {
	case a.EnergyJ != nil:
		return budgetText(*a.EnergyJ, a.Mode)
	case a.Setting != nil:
		return preferenceText(*a.Setting)
	case a.Action != "" && (r.Mission == nil || a.Action != r.Mission.Action):
		return "mission " + a.Action
	}
	return r.String()
}
