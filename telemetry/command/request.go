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
//	after := r.Answer(ack, status)                      // with value, mode and slot; Origin(ack) has id and key
//
// Programs ground and its page use it; the leader does not.
package command

import (
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
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

// lowestFloorJ is the least that a budget's own floor can be, by the status of the one in force; 0: not
// known before the leader's answer. With fewer aircraft to the end, least_up of them fly their share of
// the slots left; of a status whose budget has fewer up already, that share is not known.
func lowestFloorJ(b *telemetry.Budget, s *telemetry.Status) float64 {
	n := len(s.Aircraft)
	switch up := max(leastUp(b), 1); {
	case b.StandDown != telemetry.StandDownLand || up >= n:
		return s.FloorJ
	case s.CoveredUntilSlot == nil:
		return s.SpentJ + (s.FloorJ-s.SpentJ)*float64(up)/float64(n)
	}
	return 0
}

// belowFloor is whether a budget's total is below its own floor, as far as a status tells.
func belowFloor(b *telemetry.Budget, s *telemetry.Status) bool {
	return b.EnergyJ > 0 && b.EnergyJ < lowestFloorJ(b, s)
}

// leastShare of its pack is kept above the reserve for climb and way home, where a status does not say
// what these take.
const leastShare = 0.1

// landAtOnce are the aircraft of a budget whose packs have all of them come home before they fly a slot;
// nil if one stays.
func landAtOnce(b *telemetry.Budget, s *telemetry.Status) (numbers []int) {
	if b.StandDown != telemetry.StandDownLand {
		return nil
	}
	for i := range s.Aircraft {
		a := &s.Aircraft[i]
		if s.State != telemetry.StateIdle && !inAir(*a) {
			continue
		}
		k := slices.IndexFunc(b.Packs, func(p telemetry.Pack) bool { return p.Aircraft == a.Number })
		if k < 0 || !usedUp(&b.Packs[k], a) {
			return nil
		}
		numbers = append(numbers, a.Number)
	}
	return numbers
}

// usedUp is whether an aircraft has nothing to fly with beyond a pack's reserve and its way home.
func usedUp(p *telemetry.Pack, a *telemetry.StatusAircraft) bool {
	if inAir(*a) && a.UsableJ != nil && a.HomeJ != nil && a.Battery != nil && *a.Battery > 0 {
		reserveJ := 0.0
		switch {
		case p.ReserveJ != nil:
			reserveJ = *p.ReserveJ
		case p.Reserve != nil:
			reserveJ = *p.Reserve * *a.UsableJ / *a.Battery
		}
		return *a.UsableJ-reserveJ <= *a.HomeJ
	}
	return p.Reserve != nil && a.Battery != nil && *a.Battery-*p.Reserve < leastShare
}

func preferenceText(setting float64) string { return fmt.Sprintf("preference %g", setting) }

// ErrBelowFloor is a budget that no flight can keep any more.
var ErrBelowFloor = errors.New("the mission cannot end below it")

// ErrLandsAtOnce is a budget whose reserves leave nothing to fly with.
var ErrLandsAtOnce = errors.New("they come home at once")

// Check returns why a command must not be sent without being asked for twice: a budget
// below its floor makes the fleet fly at the least energy from then on, whatever that costs
// its users, and reserves that hold all there is have it land. What a status does not tell is
// in the leader's answer. After the last slot the leader says what to do.
func (r Request) Check(s *telemetry.Status) error {
	if r.Budget == nil || Over(s) {
		return nil
	}
	if belowFloor(r.Budget, s) {
		return fmt.Errorf("%s is below the floor of %s: %w; ask for at least the floor, or confirm a lower total",
			inEveryUnit(r.Budget.EnergyJ), inEveryUnit(lowestFloorJ(r.Budget, s)), ErrBelowFloor)
	}
	if numbers := landAtOnce(r.Budget, s); numbers != nil {
		return fmt.Errorf("the reserve leaves %s nothing to fly with: %w; ask for less, or confirm that", aircraftText(numbers),
			ErrLandsAtOnce)
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
// why it was refused. The status, nil if none was received, tells how long the mission is.
func (r Request) Answer(a telemetry.Ack, s *telemetry.Status) string {
	if !a.Accepted {
		again := ""
		if a.Challenge != "" {
			again = ", also when signed again"
		}
		return fmt.Sprintf("%s refused%s: %s", r, again, telemetry.Printable(a.Reason))
	}
	line := fmt.Sprintf("%s accepted from slot %d", r.applied(a), *a.EffectiveSlot)
	floor, said := "; the floor is ", false
	switch saturated := a.Saturated != nil && *a.Saturated; {
	case saturated && a.CoveredUntilSlot != nil && a.EnergyJ != nil && a.FloorJ != nil && *a.EnergyJ >= *a.FloorJ:
		line += ", SATURATED: the packs do not last to the last slot"
		said = true
	case saturated:
		line += ", SATURATED: below what flying needs"
		floor = "; it ends at the floor of "
	}
	if a.Saturated != nil && a.FloorJ != nil {
		line += floor + Kilojoules(*a.FloorJ)
		if s != nil && s.Slot < 0 {
			line += " (not yet measured)"
		}
	}
	switch c := a.CoveredUntilSlot; {
	case c != nil && *c < *a.EffectiveSlot:
		line += ", NOT COVERED: too few stay in the air from the first slot on"
	case c != nil:
		line += fmt.Sprintf(", covered until slot %d", *c)
		if s != nil && *c < s.Slots-1 {
			line += fmt.Sprintf(" of %d", s.Slots)
			if !said {
				line += fmt.Sprintf(": %s not last", r.runsOut())
			}
		}
	}
	for _, x := range a.Aircraft {
		line += fmt.Sprintf(", aircraft %d lands with %s", x.Number, Kilojoules(x.LeftAtTouchdownJ))
	}
	return line
}

// runsOut is what a budget leaves too few in the air without.
func (r Request) runsOut() string {
	if r.Budget != nil && r.Budget.EnergyJ > 0 {
		return "the budget does"
	}
	return "the packs do"
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
