package serve

import (
	"errors"
	"fmt"
	"strings"

	"prefdt/telemetry"
	"prefdt/telemetry/command"
)

// request is a command as a page gives it.
type request struct {
	ID   string         `json:"id"`
	Kind telemetry.Kind `json:"kind"` // budget, preference or mission
	AtMS int64          `json:"at"`   // when it was given, on the scale of event.T

	Energy     string   `json:"energy"` // as typed, "42 kJ"
	Mode       string   `json:"mode"`
	BelowFloor bool     `json:"below_floor"`
	ReplacesJ  *float64 `json:"replaces_j"` // the total that the page showed in force; null: none

	Setting float64 `json:"setting"`

	Action   string `json:"action"`
	Aircraft []int  `json:"aircraft"`
	Mission  string `json:"mission"`
}

// command returns what was meant. An error is why it may not be sent.
func (q *request) command(s *telemetry.Status) (r command.Request, err error) {
	switch q.Kind {
	case telemetry.KindBudget:
		if q.Action == keepUp {
			r.Budget, err = q.keepUp(s)
			break
		}
		energyJ, err := command.ParseEnergy(q.Energy)
		if err != nil {
			return r, err
		}
		r.Budget = &telemetry.Budget{ID: q.ID, EnergyJ: energyJ, Mode: q.Mode, ReplacesJ: q.ReplacesJ}
	case telemetry.KindPreference:
		r.Preference = &telemetry.Preference{ID: q.ID, Setting: q.Setting}
	case telemetry.KindMission:
		r.Mission = &telemetry.Mission{ID: q.ID, Action: q.Action, Aircraft: q.Aircraft, Mission: q.Mission}
	default:
		return r, fmt.Errorf("kind %q: want budget, preference or mission", q.Kind)
	}
	if err != nil {
		return r, err
	}
	if _, err := r.Encode(); err != nil {
		return r, err
	}
	if s != nil && !q.mayBeBelowFloor() {
		return r, r.Check(s)
	}
	return r, nil
}

// mayBeBelowFloor is whether a budget below its floor is meant: the button that keeps all up says so.
func (q *request) mayBeBelowFloor() bool { return q.BelowFloor || q.Action == keepUp }

// keepUp, as a budget's action, has no aircraft land before the end.
const keepUp = "keep"

// keepUp is the budget in force, of which no aircraft may land. Each pack keeps its reserve in it as
// far as it lasts.
func (q *request) keepUp(s *telemetry.Status) (*telemetry.Budget, error) {
	if s == nil || s.BudgetJ == nil || s.CoveredUntilSlot == nil {
		return nil, errors.New("no budget in force lets aircraft land")
	}
	b := &telemetry.Budget{ID: q.ID, EnergyJ: *s.BudgetJ, Mode: *s.Mode, Scope: s.Scope, StandDown: telemetry.StandDownNever,
		ReplacesJ: q.ReplacesJ}
	for _, a := range s.Aircraft {
		if a.ReserveJ != nil {
			b.Packs = append(b.Packs, telemetry.Pack{Aircraft: a.Number, ReserveJ: a.ReserveJ})
		}
	}
	return b, nil
}

// checkReplaced returns an error if another total is in force than the page showed. The leader
// does so for a budget that replaces one; on the wire neither one that replaces none nor a
// preference can name what it replaces.
func (q *request) checkReplaced(s *telemetry.Status) error {
	switch {
	case s == nil || q.Kind == telemetry.KindMission || q.Kind == telemetry.KindBudget && q.ReplacesJ != nil:
	case s.BudgetJ != nil && (q.ReplacesJ == nil || *q.ReplacesJ != *s.BudgetJ):
		return fmt.Errorf("a budget of %s is in force, which the page did not show; read again what this does",
			command.Kilojoules(*s.BudgetJ))
	}
	return nil
}

// consequences has what each action without further words would do now.
func consequences(s *telemetry.Status) map[string]string {
	if s == nil {
		return nil
	}
	list := map[string]string{}
	for _, action := range []string{telemetry.ActionStart, telemetry.ActionHold, telemetry.ActionResume, telemetry.ActionReturn,
		telemetry.ActionStop} {
		list[action] = pageWords.Replace(command.Request{Mission: &telemetry.Mission{Action: action}}.Brief(s))
	}
	if r := (request{Action: keepUp, Kind: telemetry.KindBudget}); s.CoveredUntilSlot != nil {
		if b, err := r.keepUp(s); err == nil {
			list[keepUp] = "No aircraft comes home before the last slot, which may use up reserves; one whose pack does not last " +
				"computes nothing, and battery low still sends it home. " + command.Request{Budget: b}.Consequence(s)
		}
	} else {
		list[keepUp] = "No budget in force lets aircraft land."
	}
	return list
}

// pageWords names the page's buttons in place of the actions of the command line.
var pageWords = strings.NewReplacer("`mission return`", "“return and land”", "`return`", "“return and land”",
	"`mission resume`", "“resume”", "`resume`", "“resume”", "`new`", "“Next mission”")
