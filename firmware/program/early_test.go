package program_test

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"prefdt/firmware/config"
	"prefdt/firmware/program"
	"prefdt/simbridge/autopilot"
	"prefdt/simbridge/rig"
	"prefdt/simbridge/simnet"
	"prefdt/telemetry"
)

// flight is the leader's program on a rig's network, where reading its checkpoint takes a while.
type flight struct {
	test *testing.T
	rig  *rig.Rig
	kill func()
}

// newFlight is two ArduCopters that were switched on long ago, and no leader yet.
func newFlight(t *testing.T) *flight {
	r := rig.New(t, 2, 200)
	r.Config.Checkpoint, r.Config.LogLevel = "../../configs/checkpoint", "error"
	for i := range r.Autopilots {
		r.ReplaceAutopilot(i, func(c *autopilot.Config) { c.Copter, c.BootedS = true, 60 })
	}
	return &flight{t, r, func() {}}
}

// start runs the program.
func (f *flight) start(loading time.Duration) {
	p := f.rig.Network.Program("leader")
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	host := program.Host{Clock: p, Dial: p.Dial, Endpoint: p.Endpoint, Load: func() error {
		select {
		case <-p.After(loading):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}}
	go func() {
		defer close(ended)
		program.Fly(ctx, f.config(), host, io.Discard) // whatever it says of links that are cut
	}()
	f.kill = func() {
		p.Crash()
		cancel()
		<-ended
	}
	f.test.Cleanup(func() { f.kill() })
}

func (f *flight) config() config.Config { return f.rig.Config }

// away is that an aircraft has left GUIDED.
func (f *flight) away() bool {
	for _, a := range f.rig.Autopilots {
		if a.State().Mode != autopilot.ModeOffboard {
			return true
		}
	}
	return false
}

// A restart that takes longer than an ArduCopter waits for its leader's HEARTBEAT brings nobody home: HEARTBEATs need
// neither checkpoint nor broker.
func TestSlowRestartBringsNobodyHome(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		f := newFlight(t)
		f.start(0)
		f.rig.TakeOff()
		f.rig.Await("slots", rig.SlotSettled(3))
		f.kill()
		time.Sleep(time.Second)
		f.start(12 * time.Second) // FS_GCS_TIMEOUT is 5 s
		f.rig.ForgetStatuses()
		s := f.rig.Await("it flies on", func(s telemetry.Status) bool { return rig.Flying(s) && s.Slot > 18 })
		for i, a := range s.Aircraft {
			if a.Reason != "" || a.Mode != "GUIDED" {
				t.Errorf("aircraft %d: %q, in %s", i+1, a.Reason, a.Mode)
			}
		}
		if left, _ := filepath.Glob(filepath.Join(f.rig.Config.StateDir, "early*")); len(left) > 0 {
			t.Errorf("the next restart has fewer: %v", left)
		}
	})
}

// What never commands does not keep them up: 20 s of HEARTBEATs, then five of silence, however often it starts.
func TestLeaderThatNeverCommandsIsDead(t *testing.T) {
	for name, loading := range map[string]time.Duration{"in one start": time.Hour, "in starts of 7 s": 7 * time.Second} {
		t.Run(name, func(t *testing.T) {
			simnet.Test(t, func(t *testing.T) {
				f := newFlight(t)
				f.start(0)
				f.rig.TakeOff()
				f.rig.Await("slots", rig.SlotSettled(3))
				f.kill()
				began := time.Now()
				for !f.away() && time.Since(began) < 2*time.Minute {
					f.start(time.Hour)
					for at := time.Now(); !f.away() && time.Since(at) < loading; {
						time.Sleep(time.Second / 4)
					}
					f.kill()
				}
				if took := time.Since(began).Seconds(); took < 15 || took > 28 {
					raw, _ := os.ReadFile(filepath.Join(f.rig.Config.StateDir, "early-heartbeats"))
					t.Errorf("they went home after %.1f s; sent %s", took, strings.TrimSpace(string(raw)))
				}
			})
		})
	}
}
