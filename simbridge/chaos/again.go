package chaos

import (
	"context"
	"math/rand/v2"
	"slices"

	"prefdt/simbridge/autopilot"
	"prefdt/telemetry"
)

// drawAgain draws whether the crew holds the climb, and how it keeps up a fleet on its way home, from a stream of its own. Nothing
// else happens there, and no pack is short.
func (p *plan) drawAgain(c *Config, k int) {
	r := rand.New(rand.NewPCG(c.Seed, 1<<61|uint64(k)))
	climb, home := r.IntN(5) == 0, r.IntN(5) == 0
	if p.Packs != nil || p.LandsAtReserve || p.Loops > 0 || p.Nobody || p.EmptyBattery || p.losesCrewRadio() ||
		p.hasFault(BrokerGoneHold, BrokerGoneReturn, DiskStall, DiskRefuses, LowBattery, ArmingDenied, ArmingRefused, UnsafeFailsafe) {
		return
	}
	p.HoldsClimb = climb && !p.hasFaultIn(Idle, Climbing, Engaging)
	if home && !p.hasFaultIn(Returning, Landing, Stopped, Done) && p.Ending != endStop && !p.StopsLanding {
		p.KeepsUp, p.ReturnAfterStop = []string{telemetry.ActionHold, telemetry.ActionStop}[r.IntN(2)], true
	}
}

// holdClimb has the crew hold the climb for a while, once all are in the air, and one is on its way to its start.
func (m *mission) holdClimb(ctx context.Context) error {
	const forSlots = 12
	flies := func(a *autopilot.Autopilot) bool { return a.State().Mode == autopilot.ModeOffboard }
	up := func() bool {
		return !m.isIn(Climbing, Engaging) || len(m.airborne()) == m.Aircraft && slices.ContainsFunc(m.autopilots, flies)
	}
	if err := m.runUntil(ctx, "the fleet does not take off", up); err != nil {
		return err
	}
	for _, action := range []string{telemetry.ActionHold, telemetry.ActionResume} {
		m.crew.sendAndWait(ctx, m.crew.newRequest(m.random, action))
		m.sleepSlots(ctx, forSlots)
	}
	return nil
}

// keepUp has the crew hold or stop a fleet on its way home, if one is still high.
func (m *mission) keepUp(ctx context.Context) error {
	const highM, soonSlots = 30, 3
	m.sleepSlots(ctx, soonSlots)
	flies := func(a *autopilot.Autopilot) bool {
		s := a.State()
		return s.Mode == autopilot.ModeOffboard && s.HeightM > highM
	}
	if !m.isIn(Returning, Done) || !slices.ContainsFunc(m.autopilots, flies) {
		return nil
	}
	if !m.crew.sendAndWait(ctx, m.newMissionRequest(m.plan.KeepsUp)) { // another station flies it
		return nil
	}
	return m.runUntil(ctx, "the fleet is not stopped", func() bool { return m.state() == Stopped })
}
