// Package preflight is `leader check`: it tests on the ground what a flight needs.
// It commands no aircraft.
//
// Inputs: the leader's configuration, and what it names: checkpoint, state directory,
// keys, broker, autopilots. Outputs: a list of findings. The leader's main calls it.
package preflight

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/bluenviron/gomavlib/v3"
	"github.com/bluenviron/gomavlib/v3/pkg/frame"

	"prefdt/configs/cli"
	"prefdt/firmware/account"
	"prefdt/firmware/clock"
	"prefdt/firmware/config"
	"prefdt/firmware/energy"
	"prefdt/firmware/fleet"
	"prefdt/firmware/height"
	"prefdt/firmware/leader"
	"prefdt/firmware/ledger"
	"prefdt/inference/checkpoint"
	"prefdt/inference/goal"
	"prefdt/inference/motion"
	"prefdt/inference/physics"
	"prefdt/inference/slot"
	"prefdt/telemetry"
)

// Finding is one line of the list.
type Finding struct {
	Item   string `json:"item"`
	Result string `json:"result"` // ok, warn or FAIL
	Detail string `json:"detail"`
}

const (
	ResultOK   = "ok"
	ResultWarn = "warn"
	ResultFail = "FAIL"
)

// preflight is one run down the list.
type preflight struct {
	network    Network
	config     config.Config
	checkpoint *checkpoint.Checkpoint
	wait       time.Duration
	lines      io.Writer // gets each finding as a line
	findings   []Finding
	counts     map[string]int        // of findings, by result
	mavlinkKey *frame.V2Key          // of MAVLink, nil: unsigned
	leaderKey  ed25519.PrivateKey    // nil: none, or it cannot be read
	saved      []fleet.SavedAircraft // by the ledger: what was drawn from the packs
}

// Network is what broker and aircraft are reached by. The zero value is this machine's.
type Network struct {
	Dial     func(ctx context.Context, network, address string) (net.Conn, error) // to the broker
	Endpoint func(string) (gomavlib.EndpointConf, error)                          // of MAVLink
}

// Command is `leader check`.
func Command(ctx context.Context, call *cli.Call) error { return Network{}.Command(ctx, call) }

// Command is `leader check` on this network. A fault of the configuration is a line of the list,
// like any other, and not bad input.
func (n Network) Command(ctx context.Context, call *cli.Call) error {
	path := call.Flags.String("config", "", "configuration `file`")
	wait := call.Flags.Duration("wait", 15*time.Second,
		"how `long` to wait for the broker, then for autopilots, then for workers: each so long at most")
	asJSON := call.JSONFlag()
	if _, err := call.Parse("", 0); err != nil {
		return err
	}
	if *path == "" {
		return cli.BadInputf("want -config FILE")
	}
	if !(*wait >= 100*time.Millisecond && *wait <= 10*time.Minute) {
		return cli.BadInputf("-wait is %v, want 100ms to 10m", *wait)
	}
	p := &preflight{network: n, wait: *wait, lines: call.Stdout, counts: map[string]int{}}
	if *asJSON {
		p.lines = io.Discard
	}
	p.run(ctx, *path)
	if ctx.Err() != nil {
		return errors.New("interrupted")
	}
	warned, failed := p.counts[ResultWarn], p.counts[ResultFail]
	result := map[string]any{"checks": p.findings, "failed": failed, "warned": warned}
	if err := call.Result(*asJSON, result, "%d checks: %d warned, %d failed", len(p.findings), warned, failed); err != nil {
		return err
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d checks failed", failed, len(p.findings))
	}
	return nil
}

func (p *preflight) add(result, item, format string, args ...any) {
	f := Finding{item, result, fmt.Sprintf(format, args...)}
	p.counts[result]++
	p.findings = append(p.findings, f)
	fmt.Fprintf(p.lines, "%-5s %-14s %s\n", f.Result, f.Item, f.Detail)
}

// fails adds an error, if it is one, and reports whether it is.
func (p *preflight) fails(item string, err error) bool {
	if err != nil {
		p.add(ResultFail, item, "%v", err)
	}
	return err != nil
}

// run goes down the list, or as far as it comes before the end of ctx. What cannot
// be tested without an earlier item is left out.
func (p *preflight) run(ctx context.Context, path string) {
	var err error
	if p.config, err = config.Load(path); p.fails("configuration", err) {
		return
	}
	c := &p.config
	c.Broker.Dial = p.network.Dial
	p.add(ResultOK, "configuration", "fleet %s, mission %s, %d aircraft, %d slots of %g ms", c.Fleet, c.Mission, len(c.Aircraft), c.Slots,
		c.SlotMS)
	p.policy()
	p.stateDir()
	p.commandKeys()
	p.signing()
	p.clock()
	p.metrics()
	p.broker(ctx)
	if ctx.Err() == nil {
		p.workers(ctx)
	}
	if ctx.Err() == nil && (p.config.MAVLink.KeyFile == "" || p.mavlinkKey != nil) {
		p.autopilots(ctx) // nothing is sent unsigned where a key is configured
	}
}

// metrics tries the port of the metrics.
func (p *preflight) metrics() {
	if p.config.MetricsPort == 0 {
		return
	}
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", p.config.MetricsPort))
	if err != nil {
		p.add(ResultWarn, "metrics", "%v; a leader or another program may have it: without it there are no metrics", err)
		return
	}
	l.Close()
}

// policy loads the checkpoint, its hash with it, and times one step.
func (p *preflight) policy() {
	policy, frozen, err := leader.LoadPolicy(&p.config)
	if p.fails("checkpoint", err) || p.fails("checkpoint", frozen.Fits(len(p.config.Aircraft), p.config.Slots)) {
		return
	}
	p.fails("configuration", p.config.CheckStarts(frozen.Physics.AreaSideM))
	p.checkpoint = frozen
	k := &frozen.Physics
	p.add(ResultOK, "checkpoint", "%s loads and matches its manifest; it is for a square of %g m, %g m up, up to %g m/s, "+
		"and %.0f W in hover", p.config.Checkpoint, k.AreaSideM, k.AltitudeM, k.SpeedMaxMPS, k.Propulsion.PowerW(0))
	s := snapshotOfStarts(&p.config, frozen.Physics)
	g := goal.New(&frozen.GoalConstants, &frozen.Physics, p.config.Slots, len(p.config.Aircraft))
	var d slot.Decision
	const tries = 30 // the first ones fill the context
	took := make([]time.Duration, tries)
	for i := range took {
		began := time.Now()
		policy.Decide(s, g, &d)
		took[i] = time.Since(began)
	}
	slices.Sort(took)
	typical := took[tries*9/10] // an outlier is another program's doing
	room := p.config.DecideByMS - p.config.ReportByMS
	ms := float64(typical) / float64(time.Millisecond)
	switch {
	case ms > room:
		p.add(ResultFail, "decision", "takes %.1f ms, decide_by_ms leaves %g ms", ms, room)
	case ms > room/2:
		p.add(ResultWarn, "decision", "takes %.1f ms of the %g ms that decide_by_ms leaves", ms, room)
	default:
		p.add(ResultOK, "decision", "takes %.1f ms of %g ms", ms, room)
	}
}

// snapshotOfStarts is ten users below the fleet at its starts.
func snapshotOfStarts(c *config.Config, k physics.Constants) *slot.Snapshot {
	s := &slot.Snapshot{Slots: c.Slots}
	for i := range c.Aircraft {
		s.Aircraft = append(s.Aircraft, slot.Aircraft{Number: i + 1, Position: c.StartPosition(i+1, k.AreaSideM),
			RemainingJ: k.BatteryCapacityJ, CPUHz: k.EdgeCPUHz})
	}
	for u := range 10 {
		user := slot.User{
			ID: u, Position: physics.Position{EastM: k.AreaSideM * float64(u) / 10, NorthM: k.AreaSideM / 3}, CPUHz: 1e9,
			Task: physics.Task{Bits: 1e6, CyclesPerBit: 1000, DeadlineS: 0.9},
		}
		for i := range s.Aircraft {
			user.Gain = append(user.Gain, k.Channel.MeanGain(user.Position.Sub(s.Aircraft[i].Position).Norm(), k.AltitudeM))
		}
		s.Users = append(s.Users, user)
	}
	return s
}

// stateDir tries the state directory and looks into its ledger.
func (p *preflight) stateDir() {
	dir := p.config.StateDir
	if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
		defer os.Remove(dir) // the leader's own user makes it
	}
	if p.fails("state", os.MkdirAll(dir, 0o750)) {
		return
	}
	var disk syscall.Statfs_t
	took, err := tryWrite(dir)
	if err == nil {
		err = syscall.Statfs(dir, &disk)
	}
	if err != nil {
		p.add(ResultFail, "state", "%s: %v", dir, err)
		return
	}
	freeMB, slotWall := float64(disk.Bavail)*float64(disk.Bsize)/1e6, p.config.WallTime(1)
	switch need := 3 * p.config.LedgerMB; { // the ledger twice over, and the files of missions
	case freeMB < need:
		p.add(ResultFail, "state", "%s has %.0f MB free, want %.0f, three times ledger_mb", dir, freeMB, need)
	case took > slotWall/2:
		p.add(ResultWarn, "state", "%s: a write takes %v to reach the disk, a slot is %v", dir, took.Round(time.Millisecond), slotWall)
	default:
		p.add(ResultOK, "state", "%s is writable, %.0f MB free, a write reaches the disk in %v", dir, freeMB,
			took.Round(100*time.Microsecond))
	}
	path := ledger.Path(dir)
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		p.add(ResultOK, "ledger", "none yet; mission %s begins", p.config.Mission)
		return
	}
	l, err := ledger.OpenReadOnly(path)
	if p.fails("ledger", err) {
		return
	}
	defer l.Close()
	s, found, err := l.Load()
	p.saved = s.Fleet
	if p.fails("ledger", err) {
		return
	}
	if !found {
		p.add(ResultOK, "ledger", "empty; mission %s begins", p.config.Mission)
		return
	}
	if p.checkpoint == nil { // which gives the area
		return
	}
	continues, err := leader.Continues(&p.config, p.checkpoint.Physics.AreaSideM, l, &s, found, slog.New(slog.DiscardHandler))
	switch {
	case s.Mission != p.config.Mission && telemetry.UnderWay(s.Phase):
		p.add(ResultFail, "ledger", "mission %s is %s; finish it, or use another state_dir", s.Mission, s.Phase)
	case p.fails("ledger", err):
	case !continues:
		p.add(ResultOK, "ledger", "consistent; mission %s begins", p.config.Mission)
	case s.Phase == telemetry.StateDone || s.Phase == telemetry.StateStopped:
		p.add(ResultFail, "ledger", "mission %s is %s; set a new mission id", s.Mission, s.Phase)
	case s.Phase != telemetry.StateIdle:
		p.add(ResultWarn, "ledger", "mission %s is %s at slot %d, %.0f J spent; the leader would continue it", s.Mission, s.Phase,
			s.Schedule.Next, s.Account.Objective.SpentJ)
	case s.Mission != p.config.Mission:
		p.add(ResultOK, "ledger", "consistent; mission %s begins, since %s was used before", s.Mission, p.config.Mission)
	default:
		p.add(ResultOK, "ledger", "consistent; mission %s begins", s.Mission)
	}
}

// tryWrite has a small file written and synced, and removes it.
func tryWrite(dir string) (took time.Duration, err error) {
	f, err := os.CreateTemp(dir, ".check-*")
	if err != nil {
		return 0, err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	began := time.Now()
	if _, err := f.Write(make([]byte, 8192)); err != nil {
		return 0, err
	}
	err = f.Sync()
	return time.Since(began), err
}

// commandKeys reports whose commands are accepted, and checks the broker's secrets.
func (p *preflight) commandKeys() {
	keys, unsigned := p.config.Commands.Keys, p.config.AcceptsUnsigned()
	switch {
	case unsigned && p.config.Commands.Unsigned == "yes":
		p.add(ResultWarn, "commands", "commands of anyone who may publish on the broker are accepted: commands.unsigned is yes")
	case unsigned:
		p.add(ResultOK, "commands", "%d keys; unsigned commands are accepted too, as the broker is on this machine", len(keys))
	case len(keys) == 0:
		p.add(ResultFail, "commands", "%s", p.config.NoCommands())
	default:
		p.add(ResultOK, "commands", "%d keys, unsigned commands are refused", len(keys))
	}
	if path := p.config.LeaderKeyFile; path != "" {
		var err error
		if p.leaderKey, err = telemetry.ReadKey(path); !p.fails("leader key", err) {
			p.add(ResultOK, "leader key", "%s signs answers and statuses", path)
		}
	}
	b := p.config.Broker
	for _, f := range []struct{ item, path string }{{"key file", b.Key}, {"password file", b.PasswordFile}} {
		if f.path == "" {
			continue
		}
		_, err := os.Stat(f.path)
		p.fails(f.item, err)
		p.warnOfReaders(f.item, f.path)
	}
	if b.Cert == "" {
		return
	}
	pair, err := telemetry.LoadCertificate(b.Cert, b.Key)
	if !p.fails("certificate", err) {
		p.lasts("certificate", fmt.Sprintf("the certificate of %s, %s,", pair.Leaf.Subject.CommonName, b.Cert), pair.Leaf.NotBefore,
			pair.Leaf.NotAfter)
	}
}

// signing reads the MAVLink key: the links are then tried with it.
func (p *preflight) signing() {
	m := p.config.MAVLink
	if m.KeyFile == "" {
		if m.RealAircraft {
			p.add(ResultWarn, "signing", "mavlink.key_file is empty: anyone who reaches a link can command its autopilot; "+
				"where an autopilot cannot sign (docs/integrator.md), use a wire or a closed network")
		}
		return
	}
	var err error
	if p.mavlinkKey, err = fleet.ReadKey(m.KeyFile); err != nil {
		p.add(ResultFail, "signing", "mavlink.key_file: %v", err)
		return
	}
	if !p.warnOfReaders("signing", m.KeyFile) {
		p.add(ResultOK, "signing", "frames are signed with %s, and others refused", m.KeyFile)
	}
}

// warnOfReaders warns of a secret that every account of the machine can read.
func (p *preflight) warnOfReaders(item, path string) bool {
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm()&0o007 == 0 {
		return false
	}
	p.add(ResultWarn, item, "%s can be read by everyone; chmod 640", path)
	return true
}

func formatDate(t time.Time) string { return t.UTC().Format(time.DateOnly) }

// clock compares the wall clock, which certificates need and slots do not, with a
// time that is past, and the monotonic clock with a wait.
func (p *preflight) clock() {
	now := time.Now()
	if info, err := os.Stat(p.config.Checkpoint + "/manifest.json"); err == nil && now.Before(info.ModTime().Add(-24*time.Hour)) {
		p.add(ResultWarn, "clock", "the clock says %s, before the checkpoint was made, so TLS will fail; set it",
			now.UTC().Format(time.RFC3339))
		return
	}
	const requested = 20 * time.Millisecond
	time.Sleep(requested)
	if late := time.Since(now) - requested; late > p.config.WallTime(1)/10 {
		p.add(ResultWarn, "clock", "a wait of %v ended %v late; the machine is busy", requested, late.Round(time.Millisecond))
		return
	}
	p.add(ResultOK, "clock", "%s; slots go by the monotonic clock", now.UTC().Format(time.RFC3339))
}

// autopilots listens on the links until every aircraft has sent what a flight
// needs, or until p.wait is over.
func (p *preflight) autopilots(ctx context.Context) {
	c := &p.config
	k := physics.DefaultConstants()
	if p.checkpoint != nil {
		k = p.checkpoint.Physics
	}
	now := clock.New()
	f, err := leader.NewFleet(c, k, now, slog.New(slog.DiscardHandler))
	if p.fails("links", err) {
		return
	}
	f.Endpoint = p.network.Endpoint
	f.RestorePacks(p.saved)
	noDevice := make([]bool, len(c.Aircraft))
	for i := range c.Aircraft {
		noDevice[i] = p.fails(aircraftItem(i+1), fleet.CheckDevice(c.Aircraft[i].Endpoint))
	}
	if p.fails("links", f.Start()) {
		return
	}
	f.StartStreaming() // requests only: no aircraft is commanded
	defer f.Close()
	var views []fleet.View
	end := now.Now() + p.wait
	for { // two battery messages make an energy source; arming checks may pass with time
		views = f.Views()
		complete := true
		for i := range views {
			v := &views[i]
			complete = complete && (noDevice[i] || (v.CapacityKnown || v.Params.CapacityMAh != 0) && v.Fresh && v.Landed != nil &&
				v.Params.Complete() && v.Source != energy.Model && v.Ready() == nil)
		}
		if complete || now.Now() > end {
			break
		}
		select {
		case <-now.After(50 * time.Millisecond):
		case <-ctx.Done():
			return
		}
	}
	for i := range views {
		if noDevice[i] {
			continue
		}
		p.aircraft(&views[i], f.BatteryReading(i+1), k)
	}
	if i := highest(views); i >= 0 {
		p.add(ResultOK, "ground", "taken to be nowhere higher than where aircraft %d stands, %.0f m over the origin, and %.0f m below the "+
			"flight", views[i].Number, views[i].GroundUpM, height.AboveOrigin(k.AltitudeM).Over(views[i].GroundUpM))
	}
	if len(views) > 1 && !p.fails("separation", leader.CheckSeparation(c, &k, views)) {
		p.add(ResultOK, "separation", "%s", separated(views, k.SeparationM))
	}
	if meet, set := fleet.ReturnsApart(views, k.AltitudeM); len(meet) > 0 {
		p.add(ResultWarn, "returns", "without the leader aircraft %v can meet others on their ways home; set %s", meet,
			strings.Join(set, ", "))
	} else if len(views) > 1 {
		p.add(ResultOK, "returns", "without the leader no two meet on their ways home, but where one lands as another passes below it")
	}
	for reason, n := range f.RejectedFrames() {
		if strings.HasPrefix(reason, fleet.OtherComponentReason) {
			continue
		}
		p.add(ResultWarn, "links", "%d frames refused: %s", n, reason)
	}
}

// highest is the index of the aircraft that stands highest, of those that have a position; -1: none has.
func highest(views []fleet.View) (i int) {
	i = -1
	for k := range views {
		if views[k].Located && (i < 0 || views[k].GroundUpM > views[i].GroundUpM) {
			i = k
		}
	}
	return i
}

// separated says whose distance is kept: an aircraft without a position has none.
func separated(views []fleet.View, leastM float64) string {
	located := 0
	for i := range views {
		if views[i].Located {
			located++
		}
	}
	if located < len(views) {
		return fmt.Sprintf("starts are at least %g m apart; of %d aircraft %d have a position", leastM, len(views), located)
	}
	return fmt.Sprintf("aircraft, and their starts, are at least %g m apart", leastM)
}

func aircraftItem(number int) string { return fmt.Sprintf("aircraft %d", number) }

// aircraft checks what one autopilot has sent.
func (p *preflight) aircraft(v *fleet.View, b energy.Reading, k physics.Constants) {
	item := aircraftItem(v.Number)
	a := p.config.Aircraft[v.Number-1]
	if !v.Received {
		p.add(ResultFail, item, "nothing received from system %d on %s within %v: %s", a.SystemID, a.Endpoint, p.wait,
			cmp.Or(v.LinkTrouble, fleet.SilenceHint(a.Endpoint)))
		return
	}
	start := p.config.StartPosition(v.Number, k.AreaSideM)
	off := v.Position.Sub(start).Norm()
	err := v.Ready()
	if v.Foreign != "" { // its parameters have other names
		p.add(ResultFail, item, "%v", err)
		return
	}
	switch {
	case v.Twin, v.LinkTrouble != "":
		p.add(ResultFail, item, "%v", err)
	case !v.Located:
		p.add(ResultFail, item, "system %d has no position: is there a GPS fix?", a.SystemID)
	case err != nil && v.Params.Complete(): // of parameters see below
		p.add(ResultFail, item, "%v", err)
	case off > p.config.Flight.StartWithinM:
		p.add(ResultFail, item, "is %.0f m from its start, want at most flight.start_within_m, %g: is the origin right, and the "+
			"checkpoint's area of %g m?", off, p.config.Flight.StartWithinM, k.AreaSideM)
	default:
		p.add(ResultOK, item, "on the ground at %.1f m east, %.1f m north, %.1f m up, %.0f m from its start; pre-arm %s", v.Position.EastM,
			v.Position.NorthM, v.UpM, off, v.PreArm)
	}
	climbS, limitS := v.Params.ClimbS(height.AboveOrigin(k.AltitudeM).Over(v.GroundUpM))+off/v.TransitMPS, p.config.Flight.ClimbS
	if climbS > limitS {
		p.add(ResultWarn, item, "the climb to %g m and the way to its start take about %.0f s, flight.climb_s is %g", k.AltitudeM, climbS,
			limitS)
	} else {
		p.add(ResultOK, item, "the climb to %g m and the way to its start take about %.0f s of flight.climb_s, %g", k.AltitudeM, climbS,
			limitS)
	}
	unsafe, result := v.Params.UnsafeReasons(), ResultFail
	if v.Params.Complete() && p.config.Flight.Failsafe != "refuse" {
		result = ResultWarn
	}
	for _, reason := range unsafe {
		p.add(result, item, "%s", reason)
	}
	if len(unsafe) > 0 && v.Params.Complete() {
		p.add(ResultWarn, item, "all parameters that it needs are in %s", map[string]string{"px4": "docs/hardware.md",
			"ardupilot": "configs/ardupilot/leader.parm, in the package /usr/share/doc/prefdt/ardupilot.parm"}[v.Autopilot()])
	}
	if len(unsafe) == 0 {
		p.add(ResultOK, item, "%s: %s", v.Autopilot(), v.Params.Summary())
	}
	for _, reason := range v.Params.Warnings(v.CapacityJ) {
		p.add(ResultWarn, item, "%s", reason)
	}
	var fields []string
	for _, f := range []struct {
		name  string
		value float64
	}{{"energy_consumed", b.ConsumedHJ}, {"current", b.CurrentA}, {"voltage", b.VoltageV}, {"remaining", b.Charge}} {
		if !math.IsNaN(f.value) {
			fields = append(fields, f.name)
		}
	}
	has := cmp.Or(strings.Join(fields, ", "), "no battery field")
	leftJ, needJ := account.LeftJ(v, v.TotalJ), p.config.Flight.ReserveJ+account.TakeOffJ(&k, v, start, v.TransitMPS, &motion.Air{},
		v.WaitS)
	switch {
	case leftJ < needJ:
		p.add(ResultFail, item, "has %.0f J left of its pack's %.0f, less than the climb, the way home and the reserve take, %.0f", leftJ,
			v.CapacityJ, needJ)
	case v.Source == energy.Model:
		p.add(ResultWarn, item, "the battery reports %s; joules would come from the model alone", has)
	case v.Charge < 0.5:
		p.add(ResultWarn, item, "battery at %.0f %%; joules from %s (%s)", 100*v.Charge, v.Source, has)
	default:
		charge := "charge unknown"
		if !math.IsNaN(v.Charge) {
			charge = fmt.Sprintf("battery at %.0f %%", 100*v.Charge)
		}
		p.add(ResultOK, item, "joules from %s (%s), %s of %.0f J", v.Source, has, charge, v.CapacityJ)
	}
	if len(v.BatteryIDs) > 1 && len(v.UnmeteredBatteries) == 0 {
		p.add(ResultOK, item, "batteries with the ids %v count as one", v.BatteryIDs)
	}
	if !v.CapacityKnown {
		p.add(ResultWarn, item, "its autopilot does not say what its pack holds (%s): %.0f J are assumed; set pack_j",
			v.Params.CapacityParameter(), v.CapacityJ)
	}
}
