package fleet

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/bluenviron/gomavlib/v3/pkg/dialects/common"

	"prefdt/firmware/height"
	"prefdt/inference/physics"
)

// estimated is an aircraft that follows setpoints in height by its own estimate, which is off.
type estimated struct {
	*simVehicle
	trueUpM, offM float64
	climbRates    bool // its climb rate is measured; else it is 0
}

// fly lets it follow the leader's setpoints for a while, at most 2 m/s up or down.
func (e *estimated) fly(d time.Duration, each func()) {
	for ; d > 0; d -= 100 * time.Millisecond {
		e.sent.frames = nil
		e.Hold(e.number)
		e.persist()
		e.tick()
		e.climbMPS = 0
		for _, m := range e.sent.drain() {
			if s, ok := m.(*common.MessageSetPositionTargetGlobalInt); ok {
				climbM := math.Max(-0.2, math.Min(0.2, float64(s.Alt)-float64(e.Origin.AltitudeM)-e.trueUpM-e.offM))
				if e.trueUpM += climbM; e.climbRates {
					e.climbMPS = climbM / 0.1
				}
			}
		}
		if each != nil {
			each()
		}
		e.send()
	}
}

func (e *estimated) send() {
	e.clock.Advance(100 * time.Millisecond)
	if e.bootMS += 100; e.bootMS%1000 == 0 {
		e.sendHeartbeat()
	}
	e.transmit(&common.MessageExtendedSysState{LandedState: common.MAV_LANDED_STATE_IN_AIR})
	e.upM = height.AboveOrigin(e.trueUpM + e.offM)
	e.transmit(e.positionMessage())
}

func newEstimated(t *testing.T) *estimated {
	v := newSimVehicle(newFixture(t), 1, physics.Position{EastM: 300, NorthM: 300})
	v.simulate(time.Second, nil)
	fly(v)
	v.cruise(2*time.Second, nil)
	return &estimated{v, 100, 0, true}
}

// The height that an autopilot reports jumps in flight, for good, as its estimator changes its source, and its climb rate does not
// show it. Setpoints are heights above sea level: the aircraft must not sink or climb by the jump, not after a restart either, and
// the crew is told. A jump back ends it.
func TestHeightJumps(t *testing.T) {
	for _, jumpM := range []float64{12, 15, 25, 60, 110, -30} {
		for _, climbRates := range []bool{false, true} {
			t.Run(fmt.Sprintf("%+.0f m, %v", jumpM, climbRates), func(t *testing.T) {
				e := newEstimated(t)
				e.climbRates = climbRates
				e.offM = jumpM
				e.fly(time.Minute, func() {
					if math.Abs(e.trueUpM-100) > 4 {
						t.Fatalf("at %.0f m", e.trueUpM)
					}
				})
				if got := e.view(); !got.Flying || math.Abs(got.HeightJumpedM-jumpM) > 2 || got.UpM.Off(100) > 4 {
					t.Errorf("%s, jumped by %.1f m, at %.1f m", got.Phase, got.HeightJumpedM, got.UpM)
				}
				e.restart(true)
				e.fly(10*time.Second, nil)
				if got := e.view(); !got.Flying || math.Abs(e.trueUpM-100) > 4 {
					t.Errorf("after a restart %s, at %.1f m", got.Phase, e.trueUpM)
				}
				e.offM = 0
				e.fly(time.Minute, nil)
				if got := e.view(); math.Abs(got.HeightJumpedM) > 2 || math.Abs(e.trueUpM-100) > 4 {
					t.Errorf("jumped back, it is at %.0f m, off by %.1f m", e.trueUpM, got.HeightJumpedM)
				}
			})
		}
	}
}

// A radio that packs frames delivers the last position without the jump together with the first ones with it.
func TestHeightJumpsInPackedFrames(t *testing.T) {
	for _, jumpM := range []float64{15, 110, -90} {
		e := newEstimated(t)
		e.fly(time.Second, nil)
		for n := range 60 {
			if n == 3 {
				e.upM += height.AboveOrigin(jumpM)
			}
			e.bootMS += 50
			e.transmit(e.positionMessage())
			if n%6 == 5 {
				e.clock.Advance(300 * time.Millisecond)
			}
		}
		if got := e.view(); math.Abs(got.HeightJumpedM-jumpM) > 2 || got.UpM.Off(100) > 4 {
			t.Errorf("%+.0f m: jumped by %.1f m, at %.1f m", jumpM, got.HeightJumpedM, got.UpM)
		}
	}
}

// A leader that was stopped reads at once what waited: the newest of it was sent long before, and is no newer position's time.
func TestHeightJumpsAfterAStall(t *testing.T) {
	for _, jumpM := range []float64{-85, 60} {
		e := newEstimated(t)
		e.fly(20*time.Second, nil)
		e.clock.Advance(8 * time.Second)
		for range 10 {
			e.bootMS += 100
			e.transmit(e.positionMessage())
		}
		e.bootMS += 7000
		e.fly(time.Second, nil)
		e.offM = jumpM
		e.fly(20*time.Second, nil)
		if got := e.view(); math.Abs(e.trueUpM-100) > 4 || math.Abs(got.HeightJumpedM-jumpM) > 2 {
			t.Errorf("%+.0f m: at %.0f m, jumped by %.1f m", jumpM, e.trueUpM, got.HeightJumpedM)
		}
	}
}

// One that jumps while no leader lives: what was saved shows it.
func TestHeightJumpsDuringARestart(t *testing.T) {
	e := newEstimated(t)
	e.fly(time.Second, nil)
	e.offM, e.upM = 110, 210
	e.bootMS += 3000
	e.restart(true)
	e.fly(time.Minute, nil)
	if got := e.view(); !got.Flying || math.Abs(e.trueUpM-100) > 4 {
		t.Errorf("%s at %.0f m, jumped by %.1f m", got.Phase, e.trueUpM, got.HeightJumpedM)
	}
}

// A reboot in the air ends a jump, or does not: its height is the one that is nearer to where it was.
func TestHeightJumpedBeforeAReboot(t *testing.T) {
	for _, jumpM := range []float64{26, -30, 110} {
		for _, ends := range []bool{false, true} {
			t.Run(fmt.Sprintf("%+.0f m, %v", jumpM, ends), func(t *testing.T) {
				e := newEstimated(t)
				e.offM = jumpM
				e.fly(5*time.Second, nil)
				e.clock.Advance(5 * time.Second)
				e.bootMS = 4500
				if ends {
					e.offM = 0
				}
				e.fly(3*time.Second, nil)
				if got := e.view(); got.Reason != "rebooted" || got.UpM.Off(100) > 4 || math.Abs(got.HeightJumpedM-e.offM) > 4 {
					t.Errorf("%q, jumped by %.1f m, at %.1f m", got.Reason, got.HeightJumpedM, got.UpM)
				}
			})
		}
	}
}

// A climb, with or without a rate of it, a drift, a height that is wrong for less than a second, and positions that are late or missing
// are no jump.
func TestNoHeightJump(t *testing.T) {
	for name, c := range map[string]struct {
		climbRates bool
		offM       func(s float64) float64
		climbsMPS  float64
	}{
		"drift":          {true, func(s float64) float64 { return 10 * math.Min(s/30, 1) }, 0},
		"climb":          {true, func(float64) float64 { return 0 }, 5},
		"climb, no rate": {false, func(float64) float64 { return 0 }, 5},
		"sample":         {true, func(s float64) float64 { return 500 * float64(int(s*10)%50/49) }, 0},
		"wrong":          {true, func(s float64) float64 { return 60 * float64(int(s*10)%100/92) }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEstimated(t)
			e.climbRates = c.climbRates
			s := 0.0
			e.fly(30*time.Second, func() {
				s += 0.1
				e.offM = c.offM(s)
				if got := e.view(); got.HeightJumpedM != 0 {
					t.Fatalf("jumped by %.1f m", got.HeightJumpedM)
				}
				if e.trueUpM += c.climbsMPS / 10; c.climbRates {
					e.climbMPS += c.climbsMPS
				}
			})
		})
	}
}

// An aircraft that was disarmed in the air says at once that it has landed. It falls from where it was.
func TestHeightJumpedBeforeAFall(t *testing.T) {
	e := newEstimated(t)
	e.offM = -95
	e.fly(3*time.Second, nil)
	e.armed, e.landed, e.climbMPS = false, true, 0
	for e.trueUpM > 30 {
		e.trueUpM += e.climbMPS / 10
		e.climbMPS = math.Max(e.climbMPS-1, -20)
		e.clock.Advance(100 * time.Millisecond)
		e.bootMS += 100
		e.upM = height.AboveOrigin(e.trueUpM + e.offM)
		e.sendHeartbeat()
		e.transmit(&common.MessageExtendedSysState{LandedState: common.MAV_LANDED_STATE_ON_GROUND})
		e.transmit(e.positionMessage())
		if got := e.view(); got.UpM.Off(height.AboveOrigin(e.trueUpM)) > 4 || !got.Obstacle {
			t.Fatalf("at %.0f m, it is at %.0f m, obstacle: %v", got.UpM, e.trueUpM, got.Obstacle)
		}
	}
}

// Between two launches nothing of it is left: its estimator has settled, and arming sets it.
func TestHeightJumpEndsOnTheGround(t *testing.T) {
	e := newEstimated(t)
	e.offM = 60
	if e.fly(5*time.Second, nil); e.view().HeightJumpedM < 50 {
		t.Fatalf("jumped by %.1f m", e.view().HeightJumpedM)
	}
	e.armed, e.landed, e.mode, e.upM = false, true, ModeHold, 60
	e.simulate(5*time.Second, nil)
	if got := e.view(); got.HeightJumpedM != 0 || got.UpM != 60 {
		t.Errorf("jumped by %.1f m, at %.1f m", got.HeightJumpedM, got.UpM)
	}
}
