package chaos

import (
	"context"
	cryptorand "crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"prefdt/simbridge/onboard"
	"prefdt/simbridge/simnet"
)

// MissionCommand is the argument with which this program flies the mission of a folder, and no more.
const MissionCommand = "mission"

// FlyFolder flies the mission that the order in a folder names, and writes there how it went and its record. It does not judge
// it: the program may be one with a planted fault.
//
// Virtual time is of package testing, whose bubbles need a test: this program becomes one, of one
// mission.
func FlyFolder(folder string) error {
	raw, err := os.ReadFile(filepath.Join(folder, orderFile))
	if err != nil {
		return err
	}
	var o order
	if err := json.Unmarshal(raw, &o); err != nil {
		return fmt.Errorf("%s: %w", orderFile, err)
	}
	m := newMission(o.Config, o.Mission, folder)
	if o.Config.Processes {
		m.run(context.Background())
	} else if err := simnet.RunAsTest(m.flyInBubble); err != nil {
		return err
	}
	if raw, err = json.Marshal(m.flown()); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, flownFile), raw, 0o644)
}

func newMission(c Config, number int, folder string) *mission {
	m := &mission{Config: c, plan: drawPlan(&c, number), number: number, random: rand.New(rand.NewPCG(c.Seed, uint64(number)<<32)),
		folder: folder}
	m.Aircraft = m.plan.Aircraft
	return m
}

// flyInBubble flies it in virtual time. What is random in the libraries is drawn from its seed.
func (m *mission) flyInBubble(t *testing.T) {
	cryptorand.Reader = &seededReader{from: rand.NewChaCha8([32]byte{byte(m.plan.Seed), byte(m.plan.Seed >> 8), byte(m.plan.Seed >> 16)})}
	simnet.Bubble(t, func(t *testing.T) {
		m.network = simnet.New(m.plan.Seed)
		m.board = &onboard.Board{Network: m.network, Name: "leader", DecisionS: m.plan.DecisionS}
		m.board.SetDisk(m.disk())
		m.setLinks()
		if m.plan.ClockJumps {
			m.board.Wall = jumpingClock
		}
		m.run(context.Background())
	})
}

// autopilotProgram is an aircraft's name on the network, from 0.
func autopilotProgram(i int) string { return fmt.Sprintf("autopilot-%d", i+1) }

// setLinks sets the links' conditions as the site has them. Of the aircraft that are named, from 0, nothing is received.
func (m *mission) setLinks(silent ...int) {
	x := m.plan.Site
	if x == nil || m.network == nil {
		return
	}
	for i := range m.plan.Aircraft {
		to, from := x.Radio, x.Radio
		to.Loss, from.Duplicate, from.Cut = x.Loss, x.Duplicate, slices.Contains(silent, i)
		m.network.Set(simnet.Any, autopilotProgram(i), &to)
		m.network.Set(autopilotProgram(i), simnet.Any, &from)
	}
}

// seededReader replaces the system's random numbers: a program that flies one mission and ends
// keeps no secret.
type seededReader struct {
	mutex sync.Mutex
	from  io.Reader
}

func (r *seededReader) Read(p []byte) (int, error) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return r.from.Read(p)
}

// disk is the leader's, without a fault.
func (m *mission) disk() onboard.Disk { return onboard.Disk{SlowS: m.plan.DiskS} }

// jumpingClock is a wall clock that is a day ahead every other 700 ms.
func jumpingClock() time.Time {
	const every, by = 700 * time.Millisecond, 24 * time.Hour
	now := time.Now()
	if now.UnixNano()/int64(every)%2 == 1 {
		return now.Add(by)
	}
	return now
}

// run flies the mission and ends its record.
func (m *mission) run(ctx context.Context) {
	began := time.Now()
	err := m.fly(ctx)
	if m.crew != nil && m.users != nil {
		exit := ""
		if m.leaderEnded() { // before it is stopped
			exit = m.leader.Load().Failure().Error()
		}
		m.endRecord(err, exit)
	} else {
		m.failure = err.Error()
	}
	m.close()
	m.tookS = time.Since(began).Seconds()
}

// flown is how the mission went, before it is judged.
func (m *mission) flown() *Flown {
	f := &Flown{Plan: m.plan.String(), First: m.plan.Faults[0].coverageCell, Met: m.met, Failure: m.failure, Resumed: m.resumed,
		MissionS: m.tookS}
	for _, x := range m.plan.Faults {
		f.Faults = append(f.Faults, x.Kind)
	}
	if m.plan.ClockJumps {
		f.Faults = append(f.Faults, ClockJump)
	}
	return f
}
