package fleet

import (
	"math"

	"prefdt/firmware/energy"
	"prefdt/inference/physics"
)

// View is one aircraft's state at a moment, a value for the slot loop.
type View struct {
	Number   int
	SystemID int
	Received bool
	AgeS     float64 // since anything was last received
	Located  bool
	Position physics.Position // extrapolated to this moment
	UpM      float64
	SpeedMPS float64 // measured
	Mode     Mode
	Armed    bool
	Landed   *bool
	Charge   float64 // NaN: unknown
	Phase    Phase
	Order    Order
	Reason   string // why it does not follow its order, with the autopilot's own text; empty once it flies
	Lost     bool
	Home     *physics.Position
	Params   Parameters

	Fresh    bool // position and HEARTBEAT are recent enough for setpoints
	Flying   bool // in OFFBOARD by the leader's setpoints, with a fresh state
	InAir    bool // and not lost: its flight costs joules
	OnGround bool // by its own report
	PreArm   PreArm
	// ClockRate is the autopilot's seconds per mission second, NaN until they were
	// compared for five seconds.
	ClockRate float64
	// BatteryIDs are the ids of BATTERY_STATUS; it is not to be changed.
	BatteryIDs []uint8

	TotalJ       float64 // drawn since the meter began
	ModelJ       float64 // propulsion since then by the closed form, at multiplier 1
	Source       energy.Source
	UncertaintyJ float64 // how far off TotalJ may be
	BootMS       float64 // autopilot's time since boot, at this moment
	ClockMSPerS  float64 // its rate, per mission second
}

// UnmeteredBatteries are the ids of batteries that its meter does not count.
func (v *View) UnmeteredBatteries() (ids []uint8) {
	for _, id := range v.BatteryIDs {
		if id != 0 && id != relayedBatteryID {
			ids = append(ids, id)
		}
	}
	return ids
}

// Views appends every aircraft, in order of number, to dst.
func (f *Fleet) Views(dst []View) []View {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	now := f.nowS()
	for _, a := range f.aircraft {
		dst = append(dst, View{
			Number: a.number, SystemID: a.conf.SystemID, Received: a.received, AgeS: now - a.receivedS,
			Located: a.located, Position: a.positionAt(now), UpM: a.upM, SpeedMPS: a.velocity.Norm(),
			Mode: a.mode, Armed: a.armed, Landed: a.landed, Charge: a.charge,
			Phase: a.phase, Order: a.order, Reason: a.reason(), Lost: a.lost, Home: a.home, Params: a.params,
			Fresh: a.fresh(now), Flying: a.phase == PhaseFlying && a.mode == ModeOffboard && a.fresh(now), InAir: a.inAir() && !a.lost,
			OnGround: a.onGround(), PreArm: PreArm{a.preArm.Known && a.inArmableMode() && !a.armed, a.preArm.OK}, ClockRate: a.clockRate.ratio(), BatteryIDs: a.batteryIDs,
			TotalJ: a.meter.DrawnJ(now), ModelJ: a.meter.ModelJ(now), Source: a.meter.Source(now), UncertaintyJ: a.meter.UncertaintyJ(now),
			BootMS: a.bootMS + (now-a.positionS)*a.clockRate.msPerS(), ClockMSPerS: a.clockRate.msPerS(),
		})
	}
	return dst
}

// BatteryReading returns an aircraft's last battery reading.
func (f *Fleet) BatteryReading(number int) (r energy.Reading) {
	f.withAircraft(number, func(a *aircraft, _ float64) { r = a.batteryReading })
	return r
}

// UpdateMeter enters the edge energy just decided and the measured propulsion
// multiplier into an aircraft's meter.
func (f *Fleet) UpdateMeter(number int, edgeJ, factor float64) {
	f.withAircraft(number, func(a *aircraft, now float64) {
		a.meter.SetFactor(now, factor)
		a.meter.AddEdge(now, edgeJ)
	})
}

// RestoreMeter restores an aircraft's meter from a state of gapS ago, NaN: unknown. The
// autopilot's own clock is more exact, unless it was rebooted.
func (f *Fleet) RestoreMeter(number int, s energy.State, gapS float64) {
	f.withAircraft(number, func(a *aircraft, now float64) {
		switch boot := a.bootS(now); {
		case boot == 0 || s.BootS == 0:
		case boot >= s.BootS:
			gapS = boot - s.BootS
		case math.IsNaN(gapS):
			gapS = boot
		}
		a.meter.Restore(now, s, gapS)
	})
}
