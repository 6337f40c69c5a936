package fleet

import (
	"errors"
	"fmt"
	"math"

	"prefdt/firmware/energy"
	"prefdt/firmware/height"
	"prefdt/inference/physics"
)

// View is one aircraft's state at a moment, a value for the slot loop.
type View struct {
	AtS      float64 // the moment, in mission seconds since the leader's clock started
	Number   int
	SystemID int
	Received bool
	AgeS     float64 // since anything was last received
	StaleS   float64 // since the older of its position and its HEARTBEAT
	Located  bool
	Position physics.Position // extrapolated to this moment
	UpM      height.AboveOrigin
	// HeightJumpedM is by how much its reported height jumped in this flight without that it climbed: it flies on at the height that
	// it had, and UpM is that.
	HeightJumpedM float64
	SpeedMPS      float64 // measured
	Mode          Mode
	ModeName      string // as its autopilot calls it
	Role          Role   // of its mode
	Armed         bool
	Landed        *bool
	Charge        float64 // NaN: unknown
	// LastCharge is the charge that its pack had when it was last received; nil: that is not known. After a restart nothing
	// else tells of what was drawn before the leader saw the pack.
	LastCharge *float64
	Phase      Phase
	Homeward   bool   // under control, on its way home or landing
	Foreign    string // its autopilot, if that is not one of those that are flown
	Reason     string // why it does not follow its order, with the autopilot's own text; empty once it flies
	SentHome   string // why the leader sent it home by itself, until it is ordered to fly again; empty: it did not
	Lost       bool
	Failsafe   bool // its autopilot reports that one acts
	Twin       bool // another autopilot sends with its system id
	// LinkTrouble is why it is not received, or does not answer, where that is known, and the cure.
	LinkTrouble string
	Home        *physics.Position
	// GroundUpM is how high the ground is where it is to land, or stands.
	GroundUpM height.AboveOrigin
	Params    Parameters
	// TransitMPS is the speed at which the fleet flies its transits, home too, and WaitS how
	// long it may wait there for those that land first.
	TransitMPS, WaitS float64

	Fresh    bool // position and HEARTBEAT are recent enough for commands
	Partly   bool // it is received, and cannot be commanded yet: a link that is back brings one of the two before the other
	Placed   bool // its position is recent
	Flying   bool // by the leader's setpoints, with a fresh state
	Climbs   bool // by them, to H from far below it, before it flies anywhere
	InAir    bool // and not lost: its flight costs joules
	Measured bool // position and current of the last second were received: neither flight nor joules are extrapolated far
	Obstacle bool // it is in the air or about to be, by its last messages, however old they are
	PreArm   PreArm
	// ClockRate is the autopilot's seconds per mission second, NaN until they were
	// compared for five seconds.
	ClockRate float64
	// BatteryIDs are the ids of BATTERY_STATUS, and UnmeteredBatteries those that its meter does not count; they are not to be
	// changed.
	BatteryIDs, UnmeteredBatteries []uint8

	CapacityJ     float64 // of its pack
	CapacityKnown bool    // by its autopilot or the configuration; else the airframe's is assumed
	FittedJ       float64 // TotalJ when the pack was fitted, if it was full then
	ChargeDrawnJ  float64 // drawn since Charge came to be what it is

	TotalJ       float64 // drawn since the meter began
	ModelJ       float64 // propulsion since then by the closed form, at multiplier 1
	energy.Mark          // both at the last battery reading
	Source       energy.Source
	UncertaintyJ float64 // how far off TotalJ may be
	BootMS       float64 // autopilot's time since boot, at this moment
	ClockMSPerS  float64 // its rate, per mission second
	LateS        float64 // by how much messages of the last seconds came later than the promptest
}

// Tolerances of an aircraft that takes off (docs/wire.md).
const (
	groundMaxUpM       = 20.0 // from the origin's altitude
	clockRateTolerance = 0.05 // of its clock from the mission's
)

// WithPilot is whether it is under pilot control.
func (v *View) WithPilot() bool { return v.Phase == PhasePilot }

// UnderCommand is whether it is to fly by the loop's setpoints.
func (v *View) UnderCommand() bool { return v.Phase.ordered() && !v.Homeward }

// Up is whether it is in the air, or may be.
func (v View) Up() bool { return v.InAir || v.Obstacle }

// Obeys is whether it is in the air by an order of the leader, on its way home or into its hold included.
func (v *View) Obeys() bool { return v.InAir && v.Phase != PhaseIdle && v.Phase != PhasePilot }

// Hovers is whether it is in its autopilot's hold, in which neither the leader nor a pilot flies it.
func (v *View) Hovers() bool { return v.InAir && v.Role == RoleHold && !v.Obeys() }

// Ready returns what keeps an aircraft from taking off, by its own reports.
func (v *View) Ready() error {
	switch {
	case v.LinkTrouble != "" && !v.Twin:
		return errors.New(v.LinkTrouble)
	case !v.Received:
		return errors.New("nothing was received from it yet; see that it is switched on and linked")
	case v.Foreign != "":
		return foreignError(v.Foreign)
	case v.Twin:
		return fmt.Errorf("two autopilots send as system %d; give each an id of its own (MAV_SYS_ID, SYSID_THISMAV)", v.SystemID)
	case !v.Located:
		return errors.New("no position was received from it yet; see to its position fix")
	case !v.Fresh:
		return fmt.Errorf("no position or no HEARTBEAT for %.1f s; see to its link and its position fix", v.StaleS)
	case !v.Params.Complete():
		return errors.New(v.Params.unreadReason() + "; send it again")
	case v.Armed:
		return fmt.Errorf("is armed, in %s; want it on the ground with its motors off", v.ModeName)
	case v.Landed == nil:
		return fmt.Errorf("it is not known whether it is on the ground: no EXTENDED_SYS_STATE says so for %v s; see that its autopilot "+
			"sends it", forgottenAfterS)
	case !*v.Landed:
		return errors.New("does not report that it is on the ground (EXTENDED_SYS_STATE); set it down and wait for that")
	case v.UpM.Off(0) > groundMaxUpM:
		return fmt.Errorf("is %.0f m above the origin's altitude, want within %v m: is the origin right?", v.UpM, groundMaxUpM)
	case math.IsNaN(v.ClockRate):
		return errors.New("was received for less than the 5 s that readiness takes; send it again")
	case math.Abs(v.ClockRate-1) > clockRateTolerance:
		return fmt.Errorf("its clock runs at %.3f of the mission's, want within %v %%; slot_ms must be that of its speed", v.ClockRate,
			100*clockRateTolerance)
	case len(v.UnmeteredBatteries) > 0:
		return fmt.Errorf("reports batteries with the ids %v, and of these %v are not metered; unplug them, or %s", v.BatteryIDs,
			v.UnmeteredBatteries, v.Params.kind().traits().otherBatteries)
	case v.PreArm == PreArmUnknown:
		return fmt.Errorf("its pre-arm checks are not known: no SYS_STATUS for %v s; see that its autopilot sends it", forgottenAfterS)
	case v.PreArm == PreArmFails:
		if v.Reason != "" {
			return fmt.Errorf("its pre-arm checks fail: %s; cure that", v.Reason)
		}
		return errors.New("its pre-arm checks fail; it has not said which yet: a ground station shows which")
	}
	return nil
}

// Autopilot is what flies the aircraft, as in status: px4 or ardupilot, empty before its
// first HEARTBEAT and for one that is not flown.
func (v *View) Autopilot() string {
	if v.Params.autopilot == nil {
		return ""
	}
	return v.Params.autopilot.traits().name
}

// viewRole is its mode's role; on the ground, that it can be armed in it.
func (a *aircraft) viewRole() Role {
	if !a.armed && a.onGround() && a.armable() {
		return RoleArmable
	}
	return a.role()
}

// Views returns every aircraft, in order of number.
func (f *Fleet) Views() (views []View) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	now, transitMPS := f.nowS(), f.transitSpeedMPS()
	views = make([]View, 0, len(f.aircraft))
	for _, a := range f.aircraft {
		a.forgetOld(now)
		v := a.view(now)
		v.TransitMPS, v.WaitS = transitMPS, f.landingWaitS(a)
		v.CapacityJ, v.CapacityKnown = a.capacityJ(&f.Physics), a.conf.PackJ > 0 || a.pack.CapacityJ > 0
		views = append(views, v)
	}
	return views
}

// view is what an aircraft knows of itself.
func (a *aircraft) view(now float64) View {
	commandable, msPerS := a.commandable(now), a.clockRate.msPerS()
	return View{
		AtS: now, Number: a.number, SystemID: a.conf.SystemID,
		Received: a.received, AgeS: now - a.receivedS, StaleS: now - min(a.positionS, a.heartbeatS),

		HeightJumpedM: a.heights.jumpedM,
		Located:       a.located, Position: a.positionAt(now), UpM: a.upM, SpeedMPS: a.velocity.Norm(), Home: a.home,
		GroundUpM: a.landsAtM(),
		Mode:      a.mode, ModeName: a.modeName(), Role: a.viewRole(), Armed: a.armed, Landed: a.hasLanded(),
		Phase: a.phase, Homeward: a.homeward, Foreign: a.foreign, Reason: a.reason(), SentHome: a.sentHome,
		Lost: a.lost, Failsafe: a.failsafe, Params: a.params,
		Twin: a.twinS > 0 && now-a.twinS < twinForgottenS, LinkTrouble: a.linkTrouble(now),

		Fresh: commandable, Partly: !(commandable && a.placedInMode() && !a.lost) && a.received && now-a.receivedS < staleAfterS,
		Placed: a.positionFresh(now),
		Flying: a.phase == PhaseFlying && a.role() == RoleCommanded && a.fresh(now), Climbs: a.climbFrom != nil,
		InAir: a.inAir() && !a.lost, Obstacle: a.isObstacle(), PreArm: a.preArmNow(),
		Measured:  a.located && !a.silent(now) && a.meter.Measured(now, silentAfterS),
		ClockRate: a.clockRate.ratio(), BootMS: a.bootMS + (now-a.positionS)*msPerS, ClockMSPerS: msPerS,
		LateS: a.lateness.at(now),

		Charge: a.charge, LastCharge: a.pack.Charge, ChargeDrawnJ: a.chargeDrawnJ(now), FittedJ: a.pack.fittedJ(a.meter.CapacityJ),
		BatteryIDs: a.batteryIDs, UnmeteredBatteries: a.unmeteredBatteries(now),
		TotalJ: a.meter.DrawnJ(now), ModelJ: a.meter.ModelJ(now), UncertaintyJ: a.meter.UncertaintyJ(now),
		Mark: a.meter.LastReading(), Source: a.meter.Source(now),
	}
}

// SavedAircraft is the state of an aircraft that a restart needs.
type SavedAircraft struct {
	Number       int          `json:"number"`
	SystemID     int          `json:"system_id"`
	Meter        energy.State `json:"meter"`
	Pack         Pack         `json:"pack,omitzero"`
	UnderCommand bool         `json:"ours"`               // it had the order to fly, or to hold, and was not under pilot control
	Homing       bool         `json:"homing,omitempty"`   // likewise, the order to return
	Engaged      bool         `json:"offboard,omitempty"` // it was engaged, or may be at any moment
	WithPilot    bool         `json:"pilot,omitempty"`    // it was under pilot control, for Reason
	Reason       string       `json:"reason,omitempty"`
	SentHome     string       `json:"sent_home,omitempty"` // why the leader sent it home by itself
	Lost         bool         `json:"lost,omitempty"`
	SpeedMaxMPS  float64      `json:"speed_max_mps,omitempty"` // its autopilot's limit, until that is read again; 0: not read
	Home         *[3]float64  `json:"home_m,omitempty"`        // where it took off; of earlier leaders without its height, the origin's
	PossiblePath [][2]float64 `json:"way_m,omitempty"`         // of an obstacle
	CameBy       [][2]float64 `json:"came_by_m,omitempty"`     // the way on which it came, where its autopilot may return on it
	SpeedMPS     float64      `json:"speed_mps,omitempty"`     // measured
	Height       *SavedHeight `json:"height,omitempty"`        // of one that flies
}

// Order is the state once an aircraft has been ordered something.
func (s *SavedAircraft) Order(o Ordered) {
	if o.Clear {
		s.PossiblePath = nil
		return
	}
	s.UnderCommand, s.Homing, s.Engaged = !o.Homeward, o.Homeward, o.Engages
	s.WithPilot, s.Reason, s.Lost, s.SentHome = false, "", false, ""
	if o.Home != nil {
		s.Home = &[3]float64{o.Home.EastM, o.Home.NorthM, float64(o.HomeUpM)}
	}
}

// SendHome is the state once an aircraft under command is sent home; any other stays as it is.
func (s *SavedAircraft) SendHome() {
	s.Homing = s.Homing || s.UnderCommand
	s.UnderCommand = false
}

// SetDurable tells what the ledger has of each aircraft. One is engaged only if a restart
// would know that, or would leave it to its pilot: else a hold that its pilot chose in
// between would be taken for the end of its take-off.
func (f *Fleet) SetDurable(saved []SavedAircraft) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	for i, a := range f.aircraft {
		a.mayEngage = saved[i].Engaged || !saved[i].UnderCommand && !saved[i].Homing
	}
}

// SavedState returns the state of each aircraft that a restart needs.
func (f *Fleet) SavedState() (saved []SavedAircraft) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	now := f.nowS()
	for _, a := range f.aircraft {
		s := SavedAircraft{
			Number: a.number, SystemID: a.conf.SystemID, Meter: a.meter.State(now), Pack: a.pack,
			UnderCommand: (a.phase.ordered() || a.phase == PhaseStopping && a.inAir()) && !a.homeward, Homing: a.homeward,
			Engaged: a.engaged(), WithPilot: a.phase == PhasePilot, Reason: a.pilotReason, SentHome: a.sentHome, Lost: a.lost,
			SpeedMaxMPS: a.params.SpeedMaxMPS, SpeedMPS: a.velocity.Norm(), Height: a.heights.saved(),
		}
		if a.home != nil {
			s.Home = &[3]float64{a.home.EastM, a.home.NorthM, float64(a.homeUpM)}
		}
		if a.isObstacle() {
			for _, p := range a.possiblePath(now) {
				s.PossiblePath = append(s.PossiblePath, [2]float64{p.EastM, p.NorthM})
			}
		}
		for _, p := range corners(a.cameBy) {
			s.CameBy = append(s.CameBy, [2]float64{math.Round(10*p.EastM) / 10, math.Round(10*p.NorthM) / 10})
		}
		saved = append(saved, s)
	}
	return saved
}

// engaged is whether it was engaged in its order, or may be at any moment.
func (a *aircraft) engaged() bool {
	if a.phase == PhaseRejoining {
		return a.restoredEngaged
	}
	return a.phase != PhasePilot && a.engagedS > 0
}

// Restore restores the aircraft's saved state, before Start. An aircraft under pilot
// control stays so; one that had an order waits for Rejoin.
func (f *Fleet) Restore(saved []SavedAircraft) {
	for i := range saved {
		s := &saved[i]
		f.withAircraft(s.Number, func(a *aircraft, now float64) {
			a.restorePack(f, s.Pack)
			a.meter.Restore(now, s.Meter, math.NaN())
			a.params.SpeedMaxMPS = s.SpeedMaxMPS
			a.home, a.lastKnownTrack, a.restoredBootS, a.restoredEngaged = nil, nil, s.Meter.BootS, s.Engaged
			a.sentHome, a.heights = s.SentHome, s.Height.restored()
			if s.Home != nil {
				a.home = &physics.Position{EastM: s.Home[0], NorthM: s.Home[1]}
				a.homeUpM = height.AboveOrigin(s.Home[2])
			}
			for _, p := range s.PossiblePath {
				a.lastKnownTrack = append(a.lastKnownTrack, physics.Position{EastM: p[0], NorthM: p[1]})
			}
			a.cameBy = nil
			for _, p := range s.CameBy {
				a.cameBy = appendWay(a.cameBy, physics.Position{EastM: p[0], NorthM: p[1]})
			}
			a.leftAt, a.leftMPS = a.lastKnownTrack, s.SpeedMPS
			switch {
			case s.WithPilot:
				a.handToPilot(f, s.Reason)
			case s.Homing, s.UnderCommand:
				a.phase, a.homeward = PhaseRejoining, s.Homing
			}
		})
	}
}
