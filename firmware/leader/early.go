package leader

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/bluenviron/gomavlib/v3"

	"prefdt/firmware/clock"
	"prefdt/firmware/config"
	"prefdt/firmware/fleet"
	"prefdt/firmware/ledger"
	"prefdt/inference/physics"
)

// HEARTBEATs of a leader that was restarted in flight, until it commands again. Some autopilots return home a few seconds
// after the last one, sooner than a checkpoint is loaded beside other work; and what keeps them up is no evidence yet
// that anything will ever command them.

// earlyHeartbeats is how many are sent before a leader commands, one a second, counted over restarts (docs/wire.md).
const earlyHeartbeats = 20

// allowance is how many of them are left. Each is on the disk before it is sent; where that fails, or does not answer,
// none is.
type allowance struct {
	path string
	disk func(write func() error) error // nil: the machine's
	log  *slog.Logger

	mutex       sync.Mutex
	sent, saved int
	writing     bool
	writes      sync.WaitGroup
}

func newAllowance(stateDir string, disk func(write func() error) error, log *slog.Logger) *allowance {
	a := &allowance{path: filepath.Join(stateDir, "early-heartbeats"), disk: disk, log: log}
	raw, err := os.ReadFile(a.path)
	if a.sent, _ = strconv.Atoi(strings.TrimSpace(string(raw))); err == nil && a.sent <= 0 {
		a.sent = earlyHeartbeats // what cannot be read is no permission
	}
	a.saved = a.sent
	return a
}

// take is whether one more may be sent now. It does not wait for the disk.
func (a *allowance) take() bool {
	a.mutex.Lock()
	left := a.sent < a.saved
	if left {
		a.sent++
	}
	a.mutex.Unlock()
	a.fetch()
	return left
}

// fetch has the next one on the disk, so that take need not wait for that.
func (a *allowance) fetch() {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if a.sent == a.saved && !a.writing && a.saved < earlyHeartbeats {
		a.writing = true
		next := a.saved + 1
		a.writes.Go(func() { a.save(next) })
	}
}

func (a *allowance) save(n int) {
	write := func() error {
		return ledger.WriteWhole(a.path, func(w io.Writer) error {
			_, err := fmt.Fprintln(w, n)
			return err
		})
	}
	var err error
	if a.disk != nil {
		err = a.disk(write)
	} else {
		err = write()
	}
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if a.writing = false; err != nil {
		a.log.Error("no HEARTBEAT is sent before the leader commands", "reason", err)
		a.saved, a.sent = earlyHeartbeats, earlyHeartbeats
		return
	}
	a.saved = n
}

// renew is called once the leader commands: the next restart has all of them.
func (a *allowance) renew() {
	go func() {
		a.writes.Wait()
		if err := os.Remove(a.path); err != nil && !os.IsNotExist(err) {
			a.log.Error("the next restart has fewer HEARTBEATs before it commands", "reason", err)
		}
	}()
}

// Early sends HEARTBEATs while the rest of the program is made ready.
type Early struct{ fleet *fleet.Fleet }

// StartEarly begins to send them if the ledger has a mission in flight, which needs neither a checkpoint nor a broker. It
// commands nothing. Run ends it as it opens the links itself; Close does where it does not come to that.
func StartEarly(c *config.Config, now clock.Clock, endpoint func(string) (gomavlib.EndpointConf, error),
	disk func(write func() error) error, log *slog.Logger) (*Early, error) {
	s, found := ledger.Peek(c.StateDir)
	if !found || !s.InFlight() {
		return nil, nil
	}
	// No limit of flight counts where nothing is commanded.
	f, err := NewFleet(c, physics.DefaultConstants(), now, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	left := newAllowance(c.StateDir, disk, log)
	left.fetch()
	f.Endpoint, f.MayBeat = endpoint, left.take
	if err := f.Start(); err != nil {
		return nil, fmt.Errorf("HEARTBEATs before the checkpoint is loaded: %w", err)
	}
	log.Info("in flight: HEARTBEATs are sent while the checkpoint is loaded", "mission", s.Mission)
	return &Early{f}, nil
}

// Close ends them, and the links; again, it does nothing.
func (e *Early) Close() {
	if e != nil && e.fleet != nil {
		e.fleet.Close()
		e.fleet = nil
	}
}
