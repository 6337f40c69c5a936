package leader

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"prefdt/firmware/account"
	"prefdt/firmware/config"
	"prefdt/firmware/fleet"
	"prefdt/firmware/ledger"
	"prefdt/firmware/mission"
	"prefdt/inference/physics"
	"prefdt/telemetry"
)

// checks is what a mission command is decided on, beyond the mission's state. Each method
// returns what aircraft are ordered, or why the command is refused; none changes anything.
type checks struct {
	config    *config.Config
	physics   *physics.Constants
	account   *account.Account
	mission   *mission.Mission
	fleet     *fleet.Fleet
	ledger    *ledger.Ledger
	views     []fleet.View
	effective int // the first slot that a command decided now can change
}

func (l *Leader) checks(views []fleet.View) *checks {
	effective := l.schedule.Current()
	if l.current.decided {
		effective = min(effective+1, l.Config.Slots)
	}
	return &checks{&l.Config, &l.Policy.Physics, &l.account, &l.mission, l.fleet, l.ledgerWriter.ledger, views, effective}
}

// takesRequests returns why no budget and no preference is accepted any more.
func (c *checks) takesRequests() error {
	switch {
	case c.mission.Ending():
		return fmt.Errorf("the mission is %s; begin the next one with `new`, then send the request", c.mission.Phase())
	case c.effective >= c.config.Slots:
		return fmt.Errorf("the last slot, %d, is decided; begin the next mission with `new`, then send the request", c.config.Slots-1)
	}
	return nil
}

func (c *checks) start(*telemetry.Mission) (all []fleet.Ordered, err error) {
	bounds := c.account.Bounds()
	if bounds != nil && bounds.TotalJ == 0 && !(c.account.PacksJ(c.views) > 0) {
		return nil, errors.New("packs hold nothing above their reserves; change batteries, or ask for less")
	}
	ofFleet := bounds == nil || bounds.TotalJ > 0
	// as configured, or sent with other packs fitted
	if budgetJ, most := c.account.RequestedJ(), packsJ(c.views); ofFleet && budgetJ > most {
		return nil, fmt.Errorf("the budget is %v J, want at most %v, the fleet's capacity; send another", budgetJ, most)
	}
	for _, v := range c.views {
		all = append(all, fleet.Ordered{Number: v.Number, Home: &v.Position, HomeUpM: v.UpM})
		start := c.config.StartPosition(v.Number, c.physics.AreaSideM)
		if err := c.ready(&v, start); err != nil {
			return nil, err
		}
		if err := c.nearStart(&v, start); err != nil {
			return nil, err
		}
	}
	if err := CheckSeparation(c.config, c.physics, c.views); err != nil {
		return nil, err
	}
	return all, c.fleet.Check(fleet.Launch, all) // with a later look than the views'
}

// nearStart refuses an aircraft that is too far from its start.
func (c *checks) nearStart(v *fleet.View, start physics.Position) error {
	off := v.Position.Sub(start).Norm()
	if off <= c.config.Flight.StartWithinM {
		return nil
	}
	area := ""
	if c.config.Aircraft[v.Number-1].StartM == nil { // the start follows from the area
		area = fmt.Sprintf("the checkpoint is for an area of %g m, in which aircraft %d starts at [%.0f, %.0f]: ", c.physics.AreaSideM,
			v.Number, start.EastM, start.NorthM)
	}
	return fmt.Errorf("%saircraft %d is %.0f m from its start, want at most flight.start_within_m, %v; carry it there", area, v.Number, off,
		c.config.Flight.StartWithinM)
}

// stay refuses to stop or hold, once the slots are over, where no aircraft is in the air that no pilot has.
func (c *checks) stay(*telemetry.Mission) ([]fleet.Ordered, error) {
	if c.mission.Ending() && !slices.ContainsFunc(c.views, func(v fleet.View) bool { return v.Obeys() || v.Hovers() }) {
		return nil, errors.New("no aircraft is in the air that no pilot has")
	}
	return nil, nil
}

// returnAll sends home, once the slots are over, what is left in the air. A silent one holds up the others until it is
// lost: a return that was accepted before would leave it there.
func (c *checks) returnAll(*telemetry.Mission) (hovering []fleet.Ordered, err error) {
	if !c.mission.Ending() {
		return nil, nil
	}
	obeys := false // one is on its way home, or into its hold, and obeys the order itself
	why := errors.New("no aircraft in the air is in its hold mode; in any other mode its pilot has it")
	for _, v := range c.views {
		switch {
		case v.Obeys():
			obeys = true
		case !v.Fresh || v.Partly: // after a restart it is not known yet whether it is in the air
			why = fmt.Errorf("nothing recent was received from aircraft %d; send it again once its messages are back", v.Number)
			// To pass over one that is just back would leave it up there.
			if stopped := c.mission.Phase() == telemetry.StateStopped; stopped && (v.StaleS < fleet.LostAfterS || v.Partly) {
				return nil, why
			}
		case v.Hovers():
			hovering = append(hovering, fleet.Ordered{Number: v.Number, Homeward: true, Engages: true})
		}
	}
	if len(hovering) == 0 && !obeys {
		return nil, why
	}
	return hovering, c.fleet.Check(fleet.Resume, hovering)
}

// returnNamed sends home aircraft that fly for the leader; the mission goes on with the others.
func (c *checks) returnNamed(m *telemetry.Mission) (ordered []fleet.Ordered, err error) {
	for _, number := range m.Aircraft {
		one := []fleet.Ordered{{Number: number, Homeward: true}}
		if err := c.fleet.Check(fleet.Return, one); err != nil {
			return nil, err
		}
		ordered = append(ordered, one...)
	}
	return ordered, nil
}

// comesDown is how an aircraft in the air gets to the ground once the mission is over, or before it starts.
func (c *checks) comesDown(v *fleet.View) string {
	switch {
	case v.Homeward:
		return "it is on its way down: wait until it has landed"
	case v.Hovers() && c.mission.Ending():
		return "`return` or its pilot brings it down"
	case c.mission.Phase() == telemetry.StateDone:
		return "`resume` or its pilot brings it down"
	}
	return "its pilot brings it down"
}

func (c *checks) newMission(m *telemetry.Mission) ([]fleet.Ordered, error) {
	for _, v := range c.views {
		switch {
		case !v.Received:
			return nil, fmt.Errorf("aircraft %d has sent nothing yet and may be in the air; switch it on", v.Number)
		case v.InAir:
			return nil, fmt.Errorf("aircraft %d is in the air; %s", v.Number, c.comesDown(&v))
		case v.Obstacle:
			return nil, fmt.Errorf("aircraft %d is lost, and its last message came from the air; `clear` it once it is down", v.Number)
		}
	}
	if m.Mission == "" { // whether there could be one
		return nil, nil
	}
	used, err := c.ledger.MissionUsed(m.Mission)
	switch {
	case err != nil:
		return nil, err
	case used:
		return nil, fmt.Errorf("mission id %s was used before; choose another", m.Mission)
	}
	return nil, nil
}

// resume ends pilots' control of aircraft in the air: of those named, or of
// all. It never arms an aircraft.
func (c *checks) resume(m *telemetry.Mission) (resumed []fleet.Ordered, err error) {
	for _, v := range c.views {
		named := slices.Contains(m.Aircraft, v.Number)
		switch {
		case !named && len(m.Aircraft) > 0:
		case v.WithPilot() && v.Fresh && !v.Partly && v.InAir:
			home := c.mission.Ending() || c.account.SpareJ(&v) < 0
			resumed = append(resumed, fleet.Ordered{Number: v.Number, Homeward: home, Engages: true})
		case named && !v.InAir && !v.Lost:
			return nil, fmt.Errorf("aircraft %d is on the ground; launch takes off", v.Number)
		case named && !v.WithPilot():
			return nil, fmt.Errorf("aircraft %d needs no resume: no pilot has it", v.Number)
		case named || v.WithPilot() && v.Obstacle && v.Partly: // as returnAll
			return nil, fmt.Errorf("aircraft %d: no position or no HEARTBEAT for %.1f s; send it again once its messages are back",
				v.Number, v.StaleS)
		}
	}
	if len(resumed) == 0 && !c.mission.Held() {
		return nil, fmt.Errorf("nothing to resume: the mission is %s, and no pilot has an aircraft in the air", c.mission.Phase())
	}
	return resumed, c.fleet.Check(fleet.Resume, resumed)
}

// launch checks aircraft that are to take off from inside the area.
func (c *checks) launch(m *telemetry.Mission) (ordered []fleet.Ordered, err error) {
	for _, number := range m.Aircraft {
		v := &c.views[number-1]
		if err := c.ready(v, v.Position); err != nil {
			return nil, err
		}
		if p, area := v.Position, c.physics.AreaSideM; min(p.EastM, p.NorthM) < 0 || max(p.EastM, p.NorthM) > area {
			return nil, fmt.Errorf("aircraft %d is at %.0f m east, %.0f m north, outside the area of %v m; carry it inside", number,
				p.EastM, p.NorthM, area)
		}
		if err := c.besideAnother(v, m.Aircraft); err != nil {
			return nil, err
		}
		ordered = append(ordered, fleet.Ordered{Number: number, Home: &v.Position, HomeUpM: v.UpM})
	}
	return ordered, c.fleet.Check(fleet.Launch, ordered)
}

// besideAnother returns why an aircraft must not be launched where it stands: nearer than the
// separation another is to take off, hovers as its pilot's, or has the home to which it will
// return. For one that passes, or obeys, the take-off waits. A metre allows for position errors.
func (c *checks) besideAnother(v *fleet.View, launched []int) error {
	least := c.physics.SeparationM
	for i := range c.views {
		o := &c.views[i]
		d := v.Position.Sub(o.Position).Norm()
		switch {
		case o.Number == v.Number || !o.Located || d >= least-1:
		case !o.InAir && (slices.Contains(launched, o.Number) || o.Phase == fleet.PhaseClimbing):
			return fmt.Errorf("aircraft %d and %d are %.1f m apart on the ground, want at least %v; carry one away, or launch it later",
				v.Number, o.Number, d, least)
		case o.Obstacle && (o.WithPilot() || o.Phase == fleet.PhaseIdle) && o.SpeedMPS < 1:
			return fmt.Errorf("aircraft %d hovers %.1f m from aircraft %d, want at least %v; its pilot flies it away, or carry one",
				o.Number, d, v.Number, least)
		}
		if o.Number != v.Number && o.Home != nil && o.Up() {
			if d := v.Position.Sub(*o.Home).Norm(); d < least-1 {
				return fmt.Errorf("aircraft %d stands %.1f m from the home of aircraft %d, which is in the air, want at least %v; "+
					"carry it away", v.Number, d, o.Number, least)
			}
		}
	}
	return nil
}

// clear checks lost aircraft that are to be no obstacles any more, on the
// crew's responsibility.
func (c *checks) clear(m *telemetry.Mission) (ordered []fleet.Ordered, err error) {
	for _, number := range m.Aircraft {
		if v := &c.views[number-1]; !v.Lost && v.Received {
			return nil, fmt.Errorf("aircraft %d is not lost: its last message came %.1f s ago; the others keep clear of it", number, v.AgeS)
		}
		ordered = append(ordered, fleet.Ordered{Number: number, Clear: true})
	}
	return ordered, c.fleet.Check(fleet.Clear, ordered)
}

// refuses says why each action of the crew would be refused now.
func (c *checks) refuses() *telemetry.Refuses {
	r := &telemetry.Refuses{}
	for _, action := range []string{telemetry.ActionStart, telemetry.ActionHold, telemetry.ActionResume, telemetry.ActionReturn,
		telemetry.ActionStop, telemetry.ActionLaunch, telemetry.ActionClear, telemetry.ActionNew} {
		why := ""
		switch {
		case !c.mission.Accepts(action):
			why = "not while " + c.mission.Phase()
		case action == telemetry.ActionLaunch || action == telemetry.ActionClear:
			why = c.refusesNamed(action)
		default:
			why = c.refusal(action, nil)
		}
		*r.Of(action) = clip(why, maxRefusal)
	}
	if err := c.takesRequests(); err != nil {
		r.Budget = clip(err.Error(), maxRefusal)
	}
	return r
}

// refusal is why a mission command would be refused now; empty: it would not.
func (c *checks) refusal(action string, aircraft []int) string {
	if _, err := c.command(&telemetry.Mission{Action: action, Aircraft: aircraft}); err != nil {
		return strings.TrimPrefix(err.Error(), "cannot "+action+": ")
	}
	return ""
}

// refusesNamed is why an action would be refused of the aircraft that it could be for: those on the ground are launched, lost ones
// cleared.
func (c *checks) refusesNamed(action string) string {
	none := map[string]string{telemetry.ActionLaunch: "every aircraft is in the air", telemetry.ActionClear: "no aircraft is lost"}[action]
	var reasons []string
	some := false
	for i := range c.views {
		v := &c.views[i]
		if launch := action == telemetry.ActionLaunch; launch && (v.InAir || v.Obeys()) || !launch && !v.Lost && v.Received {
			continue
		}
		some = true
		if why := c.refusal(action, []int{v.Number}); why != "" {
			reasons = append(reasons, why)
		}
	}
	if !some {
		return none
	}
	return strings.Join(reasons, "; ")
}

// CheckSeparation returns an error that names two aircraft too close to take off
// together, or whose starts are too close. A metre allows for position errors.
func CheckSeparation(c *config.Config, p *physics.Constants, views []fleet.View) error {
	least := p.SeparationM
	for i := range views {
		for j := range i {
			a, b := &views[j], &views[i]
			if d := a.Position.Sub(b.Position).Norm(); a.Located && b.Located && d < least-1 {
				return fmt.Errorf("aircraft %d and %d are %.1f m apart, want at least %v; carry one away", a.Number, b.Number, d, least)
			}
			if d := c.StartPosition(a.Number, p.AreaSideM).Sub(c.StartPosition(b.Number, p.AreaSideM)).Norm(); d < least {
				return fmt.Errorf("start_m of aircraft %d and %d are %.1f m apart, want at least %v", a.Number, b.Number, d, least)
			}
		}
	}
	return nil
}

// ready returns why an aircraft may not take off to fly to a place.
func (c *checks) ready(v *fleet.View, to physics.Position) error {
	if err := v.Ready(); err != nil {
		return fmt.Errorf("aircraft %d: %w", v.Number, err)
	}
	unsafe := v.Params.UnsafeReason()
	switch {
	case unsafe != "" && c.config.Flight.Failsafe == "refuse":
		return fmt.Errorf("aircraft %d has an unsafe failsafe: %s", v.Number, unsafe)
	case c.account.ResidualJ(v) < c.account.TakeOffJ(v, to):
		return fmt.Errorf("aircraft %d has %.0f J left of its pack's %.0f; the climb, its reserve and the way home take %.0f; change "+
			"its battery", v.Number, c.account.ResidualJ(v), v.CapacityJ, c.account.TakeOffJ(v, to))
	}
	return nil
}

// logDoubts logs what is doubtful of the aircraft that take off.
func logDoubts(log *slog.Logger, views []fleet.View, action *missionAction, ordered []fleet.Ordered) {
	if action.order != &fleet.Launch {
		return
	}
	for _, o := range ordered {
		v := &views[o.Number-1]
		if reason := v.Params.UnsafeReason(); reason != "" {
			log.Error("unsafe failsafe", "aircraft", v.Number, "reason", reason)
		}
		if !v.CapacityKnown {
			log.Warn("capacity of its pack not known, the airframe's is assumed; set pack_j", "aircraft", v.Number,
				"capacity_j", v.CapacityJ)
		}
		for _, reason := range v.Params.Warnings(v.CapacityJ) {
			log.Warn("doubtful parameter", "aircraft", v.Number, "reason", reason)
		}
	}
}
