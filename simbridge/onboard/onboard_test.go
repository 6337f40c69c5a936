package onboard_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"prefdt/simbridge/onboard"
	"prefdt/simbridge/rig"
	"prefdt/simbridge/simnet"
	"prefdt/telemetry"
)

// flight is a leader on a board, with a fleet of one on the ground.
type flight struct {
	*rig.Rig
	board  *onboard.Board
	config string
	test   *testing.T
}

func newFlight(t *testing.T) *flight {
	r := rig.New(t, 1, 100)
	return &flight{r, &onboard.Board{Network: r.Network, Name: "leader"}, r.WriteConfig(""), t}
}

// start starts the leader, and waits until it is online.
func (f *flight) start() *onboard.Leader {
	f.test.Helper()
	_, times := f.Online()
	l, err := onboard.Start(f.config, f.board, filepath.Join(f.test.TempDir(), "leader.log"))
	if err != nil {
		f.test.Fatal(err)
	}
	f.test.Cleanup(func() { l.Stop() })
	if !f.Eventually(func() bool { online, now := f.Online(); return online && now > times || l.Ended() }) || l.Ended() {
		f.test.Fatal(l.Failure())
	}
	return l
}

// request asks for a budget, which has its id, and does not wait for the answer.
func (f *flight) request(id string, joules float64) {
	f.PublishRaw(f.Topics.Budget(), fmt.Sprintf(`{"id":%q,"energy_j":%g,"mode":"target"}`, id, joules))
}

// answered reports whether a request is answered within a while.
func (f *flight) answered(id string, within time.Duration) bool {
	for until := time.Now().Add(within); time.Now().Before(until); time.Sleep(10 * time.Millisecond) {
		if len(f.Acks(id)) > 0 {
			return true
		}
	}
	return false
}

// files are those of the leader's state.
func (f *flight) files() map[string]string {
	f.test.Helper()
	all := map[string]string{}
	if err := filepath.WalkDir(f.Config.StateDir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		raw, err := os.ReadFile(path)
		all[path] = string(raw)
		return err
	}); err != nil || len(all) == 0 {
		f.test.Fatalf("%d files, %v", len(all), err)
	}
	return all
}

// A killed leader leaves its ledger as it was: what waits for the disk is not in it. The broker is
// told, and nobody is told of a loss of power. What was answered is in force when it starts again.
func TestKill(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(*onboard.Leader) error
		told bool
	}{"kill": {(*onboard.Leader).Kill, true}, "power": {(*onboard.Leader).LosePower, false}} {
		t.Run(name, func(t *testing.T) {
			simnet.Test(t, func(t *testing.T) {
				f := newFlight(t)
				l := f.start()
				f.request("a", 60e3)
				if !f.answered("a", 10*time.Second) {
					t.Fatal("no answer")
				}
				f.board.SetDisk(onboard.Disk{HangUntil: make(chan struct{})})
				f.request("b", 90e3)
				if f.answered("b", 10*time.Second) {
					t.Error("a request was answered that no disk has")
				}
				before := f.files()
				if err := c.end(l); err != nil {
					t.Fatal(err)
				}
				if after := f.files(); !l.Ended() || !reflect.DeepEqual(after, before) {
					t.Errorf("ended: %v, and its files changed", l.Ended())
				}
				time.Sleep(time.Second)
				if online, _ := f.Online(); online == c.told {
					t.Errorf("online after a second: %v", online)
				}
				if !f.Eventually(func() bool { online, _ := f.Online(); return !online }) {
					t.Error("it is online for ever")
				}
				if err := c.end(l); err != nil || !l.Ended() {
					t.Errorf("again: %v", err)
				}

				f.board.SetDisk(onboard.Disk{})
				f.start()
				f.Await("the budget that was answered", func(s telemetry.Status) bool { return s.BudgetJ != nil && *s.BudgetJ == 60e3 })
			})
		})
	}
}

// A disk is slow, hangs and refuses, until it does not.
func TestDisk(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		f := newFlight(t)
		f.start()
		took := func(id string, disk onboard.Disk) time.Duration {
			f.board.SetDisk(disk)
			began := time.Now()
			f.request(id, 60e3)
			if !f.answered(id, time.Minute) {
				t.Fatalf("no answer to %s", id)
			}
			return time.Since(began)
		}
		if fast := took("fast", onboard.Disk{}); fast >= time.Second {
			t.Errorf("an answer took %v", fast)
		}
		if slow := took("slow", onboard.Disk{SlowS: 3}); slow < 3*time.Second {
			t.Errorf("on a disk that takes 3 s an answer took %v", slow)
		}
		hang := make(chan struct{})
		time.AfterFunc(10*time.Second, func() { close(hang) })
		if hung := took("hung", onboard.Disk{HangUntil: hang}); hung < 10*time.Second || hung > 12*time.Second {
			t.Errorf("on a disk that hangs for 10 s an answer took %v", hung)
		}
		before := f.files()
		f.board.SetDisk(onboard.Disk{Error: errors.New("no space left on device")})
		f.request("refused", 70e3)
		if f.answered("refused", 10*time.Second) && strings.Contains(strings.Join(f.Acks("refused"), ""), `"accepted":true`) {
			t.Errorf("a request was accepted that no disk has: %s", f.Acks("refused"))
		}
		if !reflect.DeepEqual(f.files(), before) {
			t.Error("a disk that refuses has written")
		}
	})
}

// A leader that is paused says nothing, and goes on.
func TestPause(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		f := newFlight(t)
		l := f.start()
		f.Await("any content", rig.AnyStatus)
		l.Pause()
		time.Sleep(time.Second) // what is on its way
		last := f.LastStatus().Seq
		time.Sleep(4 * time.Second)
		if now := f.LastStatus().Seq; now != last {
			t.Errorf("%d statuses while it was paused", now-last)
		}
		l.Continue()
		f.Await("a higher number", func(s telemetry.Status) bool { return s.Seq > last })
	})
}

// A leader that ends says how, by its error and by its exit status.
func TestEnds(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		f := newFlight(t)
		f.config = f.WriteConfig("checkpoint: " + t.TempDir())
		log := filepath.Join(t.TempDir(), "leader.log")
		l, err := onboard.Start(f.config, f.board, log)
		if err != nil {
			t.Fatal(err)
		}
		<-l.Over()
		text, _ := os.ReadFile(log)
		if why := l.Failure().Error(); l.ExitCode() != 1 || !strings.Contains(why, "manifest") || !strings.Contains(why, log) ||
			!strings.Contains(string(text), "manifest") || l.Shutdown() == nil {
			t.Errorf("status %d, %q, and its log is %q", l.ExitCode(), why, text)
		}

		f.config = f.WriteConfig("")
		first := f.start()
		second, err := onboard.Start(f.WriteConfig("state_dir: "+t.TempDir()), &onboard.Board{Network: f.Network, Name: "second"}, log)
		if err != nil {
			t.Fatal(err)
		}
		if <-second.Over(); second.ExitCode() != 3 {
			t.Errorf("a second leader ends with status %d: %v", second.ExitCode(), second.Failure())
		}
		if err := first.Shutdown(); err != nil || first.ExitCode() != 0 {
			t.Errorf("status %d, %v", first.ExitCode(), err)
		}
	})
}
