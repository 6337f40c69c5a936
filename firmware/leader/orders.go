package leader

import (
	"fmt"
	"slices"

	"prefdt/firmware/config"
	"prefdt/firmware/crew"
	"prefdt/firmware/fleet"
	"prefdt/firmware/ledger"
	"prefdt/firmware/mission"
	"prefdt/inference/goal"
	"prefdt/inference/physics"
	"prefdt/telemetry"
)

// orders is the mission as the crew's commands change it.
type orders struct{ *Leader }

func (o orders) State() ledger.State { return o.state() }

func (o orders) Requested() (undo func()) {
	before := o.account.Objective().State()
	return func() { o.account.Undo(before) }
}

// Apply changes the mission, or says why not. A command that is refused changes
// nothing.
func (o orders) Apply(c *crew.Command, ack *telemetry.Ack) error {
	effective := o.effective()
	ack.EffectiveSlot = &effective
	objective := o.account.Objective()
	switch {
	case c.Mission != nil:
		ack.Action = c.Mission.Action
		err := o.order(c.Mission)
		effective = o.effective() // of a new mission: 0
		return err
	case o.mission.Ending():
		return fmt.Errorf("the mission is %s", o.mission.Phase())
	case effective >= o.Config.Slots:
		return fmt.Errorf("slot %d, the last, is decided", o.Config.Slots-1)
	case c.Preference != nil:
		ack.Setting = &c.Preference.Setting
		return o.account.Prefer(c.Preference.Setting)
	}
	b := c.Budget
	if most := o.Policy.Physics.CapacityJ * float64(len(o.Config.Aircraft)); !(b.EnergyJ > 0 && b.EnergyJ <= most) {
		return fmt.Errorf("energy_j is %v, want above 0 and at most %v, the fleet's capacity", b.EnergyJ, most)
	}
	if r := b.ReplacesJ; r != nil && !(objective.Budgeted() && objective.BudgetJ() == *r) {
		return fmt.Errorf("replaces_j is %v, but %s", *r, inForce(&objective))
	}
	if err := o.account.Budget(b.EnergyJ, goal.Mode(b.Mode)); err != nil {
		return err
	}
	objective = o.account.Objective()
	saturated, floor := objective.Saturated(), objective.FloorJ()
	ack.EnergyJ, ack.Mode, ack.Saturated, ack.FloorJ = &b.EnergyJ, b.Mode, &saturated, &floor
	return nil
}

func inForce(o *goal.Objective) string {
	if !o.Budgeted() {
		return "no budget is in force"
	}
	return fmt.Sprintf("%v J are in force", o.BudgetJ())
}

// effective is the first slot that a command applied now can change.
func (l *Leader) effective() int {
	if l.now.decided {
		return min(l.schedule.Open()+1, l.Config.Slots)
	}
	return l.schedule.Open()
}

// order carries out a mission command: what it needs beyond the mission's state
// is asked first.
func (l *Leader) order(m *telemetry.Mission) error {
	l.refresh()
	from := l.mission.Phase()
	for _, number := range m.Aircraft {
		if number > len(l.views) {
			return fmt.Errorf("cannot %s aircraft %d: this fleet has %d", m.Action, number, len(l.views))
		}
	}
	row := orderTable[m.Action]
	if row.needs != nil {
		if row.inState {
			if err := l.mission.Allows(m.Action); err != nil {
				return err
			}
		}
		if err := row.needs(l, m); err != nil {
			return fmt.Errorf("cannot %s: %w", m.Action, err)
		}
	}
	if row.aircraft || m.Action == telemetry.ActionResume && from != telemetry.StateHolding {
		return nil // it was about aircraft; the mission's state stays
	}
	effect, err := l.mission.Command(m.Action)
	if err != nil {
		return err
	}
	if effect == mission.Renew {
		if err := l.fresh(m.Mission); err != nil {
			l.Log.Error("the configuration's request does not hold", "reason", err) // checked at start
		}
	}
	l.perform(from, effect)
	return nil
}

// orderTable is what each action needs, and does to single aircraft.
var orderTable = map[string]struct {
	needs    func(*Leader, *telemetry.Mission) error
	inState  bool // asked only in a state that allows the action
	aircraft bool // it is about aircraft alone
}{
	telemetry.ActionStart:  {needs: (*Leader).mayStart, inState: true},
	telemetry.ActionReturn: {needs: (*Leader).mayReturn, inState: true},
	telemetry.ActionNew:    {needs: (*Leader).mayRenew, inState: true},
	telemetry.ActionResume: {needs: (*Leader).resume},
	telemetry.ActionLaunch: {needs: (*Leader).launch, aircraft: true},
	telemetry.ActionClear:  {needs: (*Leader).clear, aircraft: true},
}

func (l *Leader) mayStart(*telemetry.Mission) error {
	for i := range l.views {
		v := &l.views[i]
		if err := l.ready(v); err != nil {
			return err
		}
		start := l.Config.Start(v.Number, l.Policy.Physics.AreaM)
		if off := v.Position.Sub(start).Norm(); off > l.Config.Flight.StartWithinM {
			return fmt.Errorf("aircraft %d is %.0f m from its start, want at most flight.start_within_m, %v", v.Number, off, l.Config.Flight.StartWithinM)
		}
	}
	return Crowded(&l.Config, &l.Policy.Physics, l.views)
}

// mayReturn brings back what a stop has left in the air.
func (l *Leader) mayReturn(*telemetry.Mission) error {
	if l.mission.Phase() != telemetry.StateStopped {
		return nil
	}
	var left []*fleet.View
	for i := range l.views {
		if v := &l.views[i]; v.InAir && v.Fresh && v.Mode == fleet.ModeHold {
			left = append(left, v)
		}
	}
	if len(left) == 0 {
		return fmt.Errorf("no aircraft is in the air in its Hold mode")
	}
	return l.giveBack(left, func(*fleet.View) fleet.Order { return fleet.OrderHome })
}

func (l *Leader) mayRenew(m *telemetry.Mission) error {
	for i := range l.views {
		if v := &l.views[i]; v.InAir {
			return fmt.Errorf("aircraft %d is in the air", v.Number)
		}
	}
	used, err := l.journal.ledger.Used(m.Mission)
	switch {
	case err != nil:
		return err
	case used:
		return fmt.Errorf("mission id %s was used before", m.Mission)
	}
	return nil
}

// resume gives aircraft back that are with their pilots in the air: those named,
// or all. It arms nobody.
func (l *Leader) resume(m *telemetry.Mission) error {
	order := fleet.OrderFly
	switch l.mission.Phase() {
	case telemetry.StateClimbing, telemetry.StateFlying, telemetry.StateHolding:
	case telemetry.StateReturning, telemetry.StateDone:
		order = fleet.OrderHome
	default:
		return fmt.Errorf("the mission is %s", l.mission.Phase())
	}
	var given []*fleet.View
	for i := range l.views {
		v := &l.views[i]
		named := slices.Contains(m.Aircraft, v.Number)
		switch {
		case !named && len(m.Aircraft) > 0:
		case v.Pilot() && v.Fresh && v.InAir:
			given = append(given, v)
		case named && !v.InAir && !v.Lost:
			return fmt.Errorf("aircraft %d is on the ground; launch takes off", v.Number)
		case named && !v.Pilot():
			return fmt.Errorf("aircraft %d is not with its pilot", v.Number)
		case named:
			return fmt.Errorf("aircraft %d: nothing received for %.0f s", v.Number, v.AgeS)
		}
	}
	if len(given) == 0 && l.mission.Phase() != telemetry.StateHolding {
		return fmt.Errorf("the mission is %s, and no aircraft in the air is with its pilot", l.mission.Phase())
	}
	return l.giveBack(given, func(v *fleet.View) fleet.Order {
		if l.account.SpareJ(v) < 0 {
			return fleet.OrderHome
		}
		return order
	})
}

// giveBack makes aircraft in the air ours again. It fails only if it does for all:
// what one of them has done since it was last received does not keep the others.
func (l *Leader) giveBack(views []*fleet.View, order func(*fleet.View) fleet.Order) (err error) {
	given := 0
	for _, v := range views {
		if e := l.fleet.Resume(v.Number, order(v)); e != nil {
			l.Log.Error("aircraft was not given back", "aircraft", v.Number, "reason", e)
			err = e
			continue
		}
		given++
	}
	if given > 0 || len(views) == 0 {
		return nil
	}
	return err
}

// launch has named aircraft take off from inside the area.
func (l *Leader) launch(m *telemetry.Mission) error {
	switch l.mission.Phase() {
	case telemetry.StateClimbing, telemetry.StateFlying, telemetry.StateHolding:
	default:
		return fmt.Errorf("the mission is %s; launch is for climbing, flying and holding", l.mission.Phase())
	}
	for _, number := range m.Aircraft {
		v := &l.views[number-1]
		if err := l.ready(v); err != nil {
			return err
		}
		if p, area := v.Position, l.Policy.Physics.AreaM; min(p.EastM, p.NorthM) < 0 || max(p.EastM, p.NorthM) > area {
			return fmt.Errorf("aircraft %d is at %.0f m east, %.0f m north, outside the area of %v m", number, p.EastM, p.NorthM, area)
		}
	}
	for _, number := range m.Aircraft {
		if err := l.fleet.Launch(number); err != nil {
			return err
		}
	}
	return nil
}

// clear takes the crew's word that lost aircraft are in nobody's way.
func (l *Leader) clear(m *telemetry.Mission) error {
	for _, number := range m.Aircraft {
		if v := &l.views[number-1]; !v.Lost && v.Heard {
			return fmt.Errorf("aircraft %d is not lost: received %.1f s ago", number, v.AgeS)
		}
	}
	for _, number := range m.Aircraft {
		if err := l.fleet.Clear(number); err != nil {
			return err
		}
		l.Log.Warn("cleared: no obstacle to the others until it is received again", "aircraft", number)
	}
	return nil
}

// Crowded names two aircraft that stand too close to take off together, or whose
// starts are too close. A metre is what their positions may be off.
func Crowded(c *config.Config, p *physics.Constants, views []fleet.View) error {
	least := p.SeparationM
	for i := range views {
		for j := range i {
			a, b := &views[j], &views[i]
			if d := a.Position.Sub(b.Position).Norm(); d < least-1 {
				return fmt.Errorf("aircraft %d and %d are %.1f m apart, want at least %v", a.Number, b.Number, d, least)
			}
			if d := c.Start(a.Number, p.AreaM).Sub(c.Start(b.Number, p.AreaM)).Norm(); d < least {
				return fmt.Errorf("start_m of aircraft %d and %d are %.1f m apart, want at least %v", a.Number, b.Number, d, least)
			}
		}
	}
	return nil
}

// ready says what keeps an aircraft from taking off.
func (l *Leader) ready(v *fleet.View) error {
	if err := v.Ready(); err != nil {
		return fmt.Errorf("aircraft %d: %w", v.Number, err)
	}
	unsafe := v.Params.Unsafe()
	switch {
	case unsafe != "" && l.Config.Flight.Failsafe == "refuse":
		return fmt.Errorf("aircraft %d has an unsafe failsafe: %s", v.Number, unsafe)
	case l.account.SpareJ(v) < 0:
		return fmt.Errorf("aircraft %d has %.0f J left, which its reserve and the way home take", v.Number, l.account.ResidualJ(v))
	case unsafe != "":
		l.Log.Error("unsafe failsafe", "aircraft", v.Number, "reason", unsafe)
	}
	for _, reason := range v.Params.Doubtful(l.Policy.Physics.CapacityJ) {
		l.Log.Warn("doubtful parameter", "aircraft", v.Number, "reason", reason)
	}
	return nil
}
