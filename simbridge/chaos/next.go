package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"

	"prefdt/simbridge/battery"
	"prefdt/simbridge/record"
	"prefdt/telemetry"
)

// nextMission is what the crew does on the ground once a mission is over: to the packs, and then with the leader, of which it asks
// what must be refused.
type nextMission struct{ Pack, By string }

// What happens to the packs.
const (
	packKept      = "kept"
	packSwapped   = "swapped"   // for a full one, which reboots the autopilot
	packRebooted  = "rebooted"  // the autopilot is, and the pack is the same
	packRecharged = "recharged" // its charge reads full at rest while its counters go on, as PX4's simulator says
	packMisread   = "misread"   // two messages have it full, with a counter at 0 and its voltage
)

const misreadMessages = 2 // one or two decide nothing

// How the next mission begins.
const (
	byNew     = "new"     // by the crew's order
	byRestart = "restart" // the leader is started for it, with a request of its own
	byFresh   = "fresh"   // likewise, and it knows nothing of the mission before
)

// drawNext draws the next mission of a half of the missions, and whether monitors measure no charge, from a stream of its own. A leader
// cannot know of a pack what neither it nor a charge has told.
func (p *plan) drawNext(c *Config, k int) {
	r := rand.New(rand.NewPCG(c.Seed, 1<<55|uint64(k)))
	full := p.Packs == nil && (!p.BoundedPacks || p.SmallPacks) || p.Packs != nil && p.Packs.FullShare == 1
	p.NoCharge = r.IntN(4) == 0 && full && p.Site == nil && !p.hasFault(BatteryAbsent, BatteryHandover, BatterySwap, BatteryOutlier,
		SecondBattery, LowBattery, Reboot)
	x := nextMission{[]string{packKept, packSwapped, packRebooted, packRecharged, packMisread}[r.IntN(5)],
		[]string{byNew, byRestart, byFresh}[r.IntN(3)]}
	switch {
	case r.IntN(2) == 0 || c.Processes || p.hasFault(DiskRefuses, SecondLeader, UnsafeFailsafe) || p.losesCrewRadio():
		return
	case p.NoCharge: // what was drawn is all that is known of it
		x.By = []string{byNew, byRestart}[r.IntN(2)]
		x.Pack = []string{packKept, packMisread}[r.IntN(2)]
	case x.Pack == packRecharged && (x.By == byFresh || !full || p.hasFault(Reboot)): // a boot and a full charge are another pack's
		x.Pack = packKept
	}
	p.Next = &x
}

// beginNext has the next mission begin, up to its start, which is refused: a pack holds less than it takes.
func (m *mission) beginNext(ctx context.Context) error {
	const bootedSlots, readSlots, toldSlots = 15, 4, 4
	x := m.plan.Next
	if x == nil {
		return nil
	}
	m.noteFault(record.NextMission, 0, false, x.Pack+" "+x.By)
	for i := range m.autopilots {
		m.handlePack(i, x.Pack)
	}
	m.sleepSlots(ctx, bootedSlots)
	if err := m.orderNext(ctx, x.By); err != nil {
		return err
	}
	m.sleepSlots(ctx, bootedSlots)
	send := func(b telemetry.Budget) {
		req := &request{id: b.ID, topic: m.crew.Topics.Budget(), digests: map[string]bool{}}
		req.payload, _ = telemetry.Encode(b)
		m.crew.sendAndWait(ctx, req)
	}
	starts := func() bool { return m.crew.sendAndWait(ctx, m.newMissionRequest(telemetry.ActionStart)) }
	if x.By != byNew && starts() { // with the configuration's request
		return nil
	}
	const tooMuch = 1.05
	send(telemetry.Budget{ID: "next-much", EnergyJ: tooMuch * m.crew.fleetJ, Mode: telemetry.ModeCeiling})
	b := telemetry.Budget{ID: "next-packs", Scope: telemetry.ScopeLanded, StandDown: telemetry.StandDownLand}
	for i := range m.autopilots {
		b.Packs = append(b.Packs, telemetry.Pack{Aircraft: i + 1, Reserve: new(packReserve)})
	}
	send(b)
	m.sleepSlots(ctx, toldSlots)
	if !m.plan.NoCharge {
		m.autopilots[0].ChangeBattery(func(b *battery.Battery) { b.SetReadsJ(min(b.LeftJ(), m.tooLittleJ())) })
		m.sleepSlots(ctx, readSlots)
		starts()
	}
	return nil
}

// handlePack does to the pack of aircraft i what is done between two missions.
func (m *mission) handlePack(i int, what string) {
	a := m.autopilots[i]
	m.apart()
	switch what {
	case packSwapped:
		a.ChangeBattery((*battery.Battery).SwapPack)
	case packRecharged:
		a.ChangeBattery((*battery.Battery).TakeForFull)
	case packMisread:
		a.ChangeBattery(func(b *battery.Battery) { b.Misread(misreadMessages) })
	}
	if what == packSwapped || what == packRebooted {
		a.Reboot(false)
	}
}

// orderNext has the crew, or another configuration, begin it.
func (m *mission) orderNext(ctx context.Context, by string) error {
	const id = "m2"
	if by == byNew {
		req := m.crew.newMission(m.random, id)
		if !m.crew.sendAndWait(ctx, req) {
			return fmt.Errorf("the next mission does not begin: %s", req.reason)
		}
		return nil
	}
	name := map[string]string{byRestart: "leader", byFresh: "fresh"}[by]
	path, err := m.writeLeaderConfig(name, m.links, func(values map[string]any) {
		const tooMuch = 2
		values["mission"], values["request"] = id, map[string]any{"budget_j": tooMuch * m.crew.fleetJ}
	})
	if err != nil {
		return err
	}
	m.recordDecided()
	m.leaderConfigPath = path
	return m.restartLeader(ctx, 1, nil)
}

// tooLittleJ is what takes aircraft 1 home, but not up before.
func (m *mission) tooLittleJ() float64 {
	const climbShare, settlesS = 0.05, 8
	frame, h := m.plan.airframe(0, m.world.Physics.SpeedMaxMPS), m.world.Physics.AltitudeM
	climbS := 12.0
	if m.plan.StockRates {
		climbS = stockClimbS
	}
	hoverW := m.world.Physics.Propulsion.PowerW(0)
	return packReserve*m.capacityJ(0) + hoverW*(frame.descentS(h)+settlesS+m.landingWaitS(0)+climbShare*climbS)
}
