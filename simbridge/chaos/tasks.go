package chaos

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"prefdt/firmware/user/device"
	"prefdt/firmware/worker/executor"
	"prefdt/firmware/worker/serve"
	"prefdt/firmware/worker/share"
	"prefdt/inference/physics"
	"prefdt/simbridge/record"
	"prefdt/telemetry"
	"prefdt/telemetry/access"
	"prefdt/telemetry/task"
)

// Missions of kind [Tasks] have workers, devices, and a user who asks for what no worker may compute. Workers and devices are
// those of the programs, but for the executor: a child process enters no virtual time.

const (
	sums, rare          = "sums", "rare" // functions; the second is the first worker's alone
	sumsDigest          = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
	unitBytes, sumBytes = 1024, 4
	taskCyclesPerBit    = 1000
	workerCores         = 2
	deviceCPUHz         = 1e9
	strangerUser        = "i1" // who asks for what is wrong
	otherVersionUser    = "i2" // whose task names another version of the function
)

// illnesses of workers, by the kind of the fault that is recorded.
const (
	workerSilent = "worker_silent" // sends no heartbeats
	workerClaims = "worker_claims" // more CPU than any aircraft has
	workerSlow   = "worker_slow"   // takes 12 times as long as calibrated
	workerHangs  = "worker_hangs"  // computes for ever
	workerLies   = "worker_lies"   // one of its executors hides nine tenths of its CPU time
	workerLate   = "worker_late"   // beacons reach it 1.2 s late, and it is started again
)

// illness is of one worker, from 0, from a slot on.
type illness struct {
	kind   string
	worker int
	from   int
}

const illSlots, firstIllSlot = 6, 4

// late is so late that a worker that is started again has a status, which names the mission, before the beacon of its slot.
const late = 1200 * time.Millisecond

// drawTasks draws when which worker is ill.
func (p *plan) drawTasks(r *rand.Rand) {
	p.Speed, p.Listed = 1, false
	kinds := []string{workerSilent, workerClaims, workerSlow, workerHangs, workerLies, workerLate}
	r.Shuffle(len(kinds), func(i, j int) { kinds[i], kinds[j] = kinds[j], kinds[i] })
	for k, kind := range kinds {
		p.Ill = append(p.Ill, illness{kind, r.IntN(p.Aircraft), firstIllSlot + k*illSlots})
	}
}

// worker computes what users of one aircraft send it.
type worker struct {
	m         *mission
	i         int // from 0
	address   string
	keyFile   string
	key       *task.Key
	tls       *tls.Config
	client    *telemetry.Client
	scheduler *share.Scheduler
	functions []serve.Function
	server    atomic.Pointer[serve.Server]
	ill       atomic.Value // string
	liar      atomic.Pointer[computing]
	left      atomic.Pointer[leftTask]
}

// leftTask is a task whose user has closed the connection, and how much of it was computed all the same.
type leftTask struct {
	input    []byte
	computed atomic.Int64 // bytes
}

func (w *worker) coreHz() float64 { return w.m.world.Physics.EdgeCPUHz / workerCores }

func (w *worker) is(ill string) bool { return w.ill.Load() == ill }

// start starts it, as its program does.
func (w *worker) start() error {
	w.scheduler, w.functions = &share.Scheduler{Cores: workerCores, MaxTasks: 64}, nil
	w.scheduler.Start()
	for index, id := range []string{sums, rare} {
		if id == rare && w.i > 0 {
			break
		}
		f := &share.Function{Index: uint32(index), UnitBytes: unitBytes, MaxOutput: sumBytes, Start: func() (share.Executor, error) {
			return &computing{w: w, stops: make(chan struct{}, 1), goesOn: make(chan struct{}, 1), killed: make(chan struct{})}, nil
		}}
		w.scheduler.SetNSPerByte(f, 8*taskCyclesPerBit/w.coreHz()*1e9)
		w.functions = append(w.functions, serve.Function{ID: id, Digest: sumsDigest, Function: f, Scheduler: w.scheduler})
	}
	s := &serve.Server{Fleet: fleetName, Aircraft: w.i + 1, Key: w.key, TLS: w.tls, Functions: w.functions, OfferBytes: 256 << 10,
		Limits: serve.DefaultLimits(), Log: slog.New(slog.DiscardHandler)}
	l, err := w.m.network.Program(access.WorkerName(w.i+1)).Listen("tcp", w.address)
	if err != nil {
		return err
	}
	w.server.Store(s)
	return s.Start(l)
}

func (w *worker) stop() {
	w.server.Load().Close()
	w.scheduler.Close()
}

// handle takes what the leader tells its workers.
func (w *worker) handle(topics telemetry.Topics, m telemetry.Message) {
	switch kind, _, _ := topics.Parse(m.Topic); kind {
	case telemetry.KindSlot:
		b, err := telemetry.DecodeSlot(m.Payload)
		if err != nil || m.Retained {
			return
		}
		for _, x := range w.m.plan.Ill {
			if x.worker == w.i {
				w.fall(x.kind, b.Slot >= x.from && b.Slot < x.from+illSlots)
			}
		}
		if w.is(workerLate) {
			time.AfterFunc(late, func() { w.server.Load().OpenSlot(b) })
			return
		}
		w.server.Load().OpenSlot(b)
	case telemetry.KindStatus:
		if s, err := telemetry.DecodeStatus(m.Payload); err == nil && s.Mission != "" && !m.Retained {
			w.server.Load().SetMission(s.Mission, s.State != telemetry.StateIdle && s.State != telemetry.StateClimbing)
		}
	}
}

// fall has the worker fall ill, or be well again.
func (w *worker) fall(kind string, ill bool) {
	if w.is(kind) == ill {
		return
	}
	w.m.noteFault(kind, w.i+1, !ill, "")
	w.ill.Store(map[bool]string{true: kind}[ill])
}

// beat sends a heartbeat a second.
func (w *worker) beat(ctx context.Context, topics telemetry.Topics) {
	for tick := time.NewTicker(time.Second); ; {
		x := telemetry.Worker{CPUHz: workerCores * w.coreHz(), Refused: w.server.Load().Refused()}
		if w.is(workerClaims) {
			x.CPUHz *= 10
		}
		for _, f := range w.functions {
			w.scheduler.Audit(f.Function)
			x.Functions = append(x.Functions, telemetry.WorkerFunction{ID: f.ID, Digest: f.Digest, CyclesPerBit: taskCyclesPerBit})
		}
		if payload, err := telemetry.Encode(x); err == nil && !w.is(workerSilent) {
			w.client.Publish(telemetry.Publication{Topic: topics.Worker(w.i + 1), Payload: payload})
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// computing is an executor in virtual time. Of one that is killed the chunk ends at that moment, unless it hangs, and no other begins.
type computing struct {
	w             *worker
	stops, goesOn chan struct{}
	killed        chan struct{}
	kill          sync.Once
	kernel, told  atomic.Int64 // ns
	lies          atomic.Bool  // most of what it had is hidden
}

func (x *computing) Run(_ uint32, input []byte, _ int) ([]byte, time.Duration, error) {
	const slow, burns, hides, hidden = 12, 5, 10, 200 * time.Millisecond
	select {
	case <-x.killed:
		return nil, 0, executor.ErrBroken
	default:
	}
	cpu, err := time.Duration(float64(len(input))*8*taskCyclesPerBit/x.w.coreHz()*1e9), error(nil)
	switch {
	case x.w.is(workerSlow):
		cpu *= slow
	case x.w.is(workerHangs):
		cpu, err = time.Hour, executor.ErrKilled
	case x.w.is(workerLies) && (x.w.liar.CompareAndSwap(nil, x) || x.w.liar.Load() == x):
		cpu *= burns
	}
	had := x.compute(cpu)
	told := had
	if x.w.is(workerLies) && x.w.liar.Load() == x {
		told /= hides
	}
	if left := x.w.left.Load(); left != nil && bytes.Contains(left.input, input) {
		left.computed.Add(int64(len(input)))
	}
	kernel, all := time.Duration(x.kernel.Add(int64(had))), time.Duration(x.told.Add(int64(told)))
	if kernel > hidden && all < kernel/2 && !x.lies.Swap(true) {
		x.w.m.noteFault(record.ExecutorLies, x.w.i+1, false, "")
	}
	return checksums(input), told, err
}

// compute takes so much CPU time, or less if it is killed.
func (x *computing) compute(cpu time.Duration) (had time.Duration) {
	for had < cpu {
		timer, began := time.NewTimer(cpu-had), time.Now()
		select {
		case <-timer.C:
			return cpu
		case <-x.stops:
			had += time.Since(began)
			select {
			case <-x.goesOn:
			case <-x.killed:
				return had
			}
		case <-x.killed:
			return had + time.Since(began)
		}
		timer.Stop()
	}
	return cpu
}

func (x *computing) Stop()         { x.stops <- struct{}{} }
func (x *computing) Continue()     { x.goesOn <- struct{}{} }
func (x *computing) Exceeds() bool { return false }

func (x *computing) Ended() bool {
	select {
	case <-x.killed:
		return true
	default:
		return false
	}
}

func (x *computing) Kill() {
	x.kill.Do(func() {
		close(x.killed)
		if x.lies.Load() {
			x.w.m.noteFault(record.ExecutorLies, x.w.i+1, true, "")
		}
	})
}

func (x *computing) CPU() (kernel, reported time.Duration, ok bool) {
	return time.Duration(x.kernel.Load()), time.Duration(x.told.Load()), true
}

// checksums is the function of all tasks: of each unit a checksum.
func checksums(input []byte) (output []byte) {
	for ; len(input) >= unitBytes; input = input[unitBytes:] {
		output = binary.LittleEndian.AppendUint32(output, crc32.ChecksumIEEE(input[:unitBytes]))
	}
	return output
}

// inputOf is a user's task of a slot.
func (m *mission) inputOf(user string, slot int) []byte {
	r := rand.NewChaCha8([32]byte{byte(m.plan.Seed), byte(slot), byte(slot >> 8), user[len(user)-1]})
	input := make([]byte, (40+r.Uint64()%80)*unitBytes)
	r.Read(input)
	return input
}

// startTasks starts workers, devices and the stranger, before the leader.
func (m *mission) startTasks(ctx context.Context) (err error) {
	folder := filepath.Join(m.folder, "tls")
	var wanted []access.Certificate
	for i := range m.Aircraft {
		wanted = append(wanted, access.Certificate{Name: access.WorkerName(i + 1), Role: access.RoleWorker, Hosts: []string{"127.0.0.1"}})
	}
	users := []string{strangerUser, "d1", "d2", "d3"}
	for _, user := range users {
		wanted = append(wanted, access.Certificate{Name: user, Role: access.RoleUser})
	}
	const valid = 24 * time.Hour
	if _, err := access.Issue(folder, wanted, access.Validity{Authority: valid, Others: valid}, time.Now()); err != nil {
		return err
	}
	authority := x509.NewCertPool()
	ca, err := os.ReadFile(filepath.Join(folder, access.NameAuthority+".crt"))
	if err != nil {
		return err
	}
	authority.AppendCertsFromPEM(ca)
	tlsOf := func(name string) *tls.Config {
		pair, e := tls.LoadX509KeyPair(access.Files(folder, name))
		if e != nil {
			err = e
		}
		return &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{pair}, ClientAuth: tls.VerifyClientCertIfGiven,
			ClientCAs: authority, RootCAs: authority}
	}
	topics, err := telemetry.NewTopics(fleetName)
	if err != nil {
		return err
	}
	for i := range m.Aircraft {
		w := &worker{m: m, i: i, address: m.network.FreeAddress(), keyFile: access.GrantKeyFile(folder, i+1),
			tls: tlsOf(access.WorkerName(i + 1))}
		w.ill.Store("")
		if err := task.WriteKey(w.keyFile); err != nil {
			return err
		}
		if w.key, err = task.ReadKey(w.keyFile); err != nil {
			return err
		}
		if err := w.start(); err != nil {
			return err
		}
		m.workers = append(m.workers, w)
		w.client = &telemetry.Client{Broker: m.brokerOf(access.WorkerName(i + 1)), Name: "worker", Log: slog.New(slog.DiscardHandler),
			Subscriptions: []telemetry.Subscription{{Filter: topics.Slot()}, {Filter: topics.Status()}},
			Handle:        func(x telemetry.Message) { w.handle(topics, x) }}
		if err := w.client.Initialize(ctx); err != nil {
			return err
		}
		beating, stop := context.WithCancel(context.Background())
		over := make(chan struct{})
		go func() { w.beat(beating, topics); close(over) }()
		m.closers = append(m.closers, func() { stop(); <-over; w.client.Close(); w.stop() })
	}
	for k, user := range users[1:] {
		d := m.newDevice(user, []string{sums, sums, rare}[k], tlsOf(user))
		if err := d.Initialize(ctx); err != nil {
			return err
		}
		m.closers = append(m.closers, d.Close)
	}
	s := &stranger{m: m, tls: tlsOf(strangerUser), topics: topics, others: map[int]telemetry.Decision{}}
	s.client = &telemetry.Client{Broker: m.brokerOf(strangerUser), Name: "user", Log: slog.New(slog.DiscardHandler), Handle: s.handle,
		Subscriptions: []telemetry.Subscription{{Filter: topics.Slot()}, {Filter: topics.AllDecisions(), QoS: 1}}}
	m.closers = append(m.closers, func() { s.client.Close(); s.asking.Wait() })
	return errors.Join(err, s.client.Initialize(ctx))
}

// newDevice is a user with tasks, near where the aircraft start.
func (m *mission) newDevice(id, function string, config *tls.Config) *device.Device {
	at := m.starts[0]
	d := &device.Device{ID: id, Fleet: fleetName, Broker: m.brokerOf(id), TLS: config, Dial: m.network.Program(id).Dial,
		Function: device.Function{ID: function, UnitBytes: unitBytes, OutputBytes: sumBytes, CyclesPerBit: taskCyclesPerBit},
		CPUHz:    deviceCPUHz, Physics: m.world.Physics, Log: slog.New(slog.DiscardHandler),
		Position: func() [2]float64 { return [2]float64{at.EastM, at.NorthM} },
	}
	inputs := sync.Map{}
	d.Next = func(slot int) (device.Task, bool) {
		input := m.inputOf(id, slot)
		inputs.Store(slot, input)
		return device.Task{Input: input, DeadlineS: 1}, true
	}
	d.Compute = func(input []byte) ([]byte, error) {
		time.Sleep(time.Duration(localS(len(input)) * 1e9))
		return checksums(input), nil
	}
	d.Done = func(o device.Outcome) {
		input, _ := inputs.LoadAndDelete(o.Slot)
		x := record.Computed{User: id, Slot: o.Slot, By: o.By, Problem: o.Problem, Bytes: o.EdgeBytes, CPUHz: o.CPUHz,
			TookS: o.CompletionS, WholeS: localS(o.Bytes), Garbled: o.Err != nil || !bytes.Equal(o.Output, checksums(input.([]byte)))}
		if o.EdgeS != nil {
			x.EdgeS = *o.EdgeS
		}
		m.noteComputed(o.Chosen, &x)
	}
	return d
}

// localS is how long a device takes for so many bytes.
func localS(n int) float64 { return 8 * float64(n) * taskCyclesPerBit / deviceCPUHz }

// noteComputed records how a task ended, and draws what it took of an aircraft's battery.
func (m *mission) noteComputed(aircraft int, x *record.Computed) {
	if aircraft > 0 && x.Problem == "" {
		t := physics.Task{Bits: 8 * float64(x.Bytes), CyclesPerBit: taskCyclesPerBit}
		m.autopilots[aircraft-1].AddEdgeJ(x.Slot, m.world.Physics.EdgeJ(t, physics.Share{CPUHz: x.CPUHz}, 1))
	}
	m.record.Write(record.Line{Aircraft: aircraft, Computed: x})
}

// stranger is a user who has tasks like others, and asks for what no worker may compute.
type stranger struct {
	m      *mission
	tls    *tls.Config
	client *telemetry.Client
	topics telemetry.Topics
	asking sync.WaitGroup
	late   sync.Mutex // held while a worker is started again

	mutex  sync.Mutex
	slot   int
	others map[int]telemetry.Decision // by slot: one with another user's grant
}

func (s *stranger) handle(m telemetry.Message) {
	kind, user, _ := s.topics.Parse(m.Topic)
	s.mutex.Lock()
	defer s.mutex.Unlock()
	switch kind {
	case telemetry.KindSlot:
		b, err := telemetry.DecodeSlot(m.Payload)
		if err != nil || m.Retained {
			return
		}
		s.slot = b.Slot
		at := s.m.starts[0]
		report := telemetry.Report{Slot: b.Slot, PositionM: [2]float64{at.EastM, at.NorthM}, CPUHz: deviceCPUHz, Task: &telemetry.Task{
			Bits: 8 * float64(len(s.m.inputOf(strangerUser, b.Slot))), CyclesPerBit: taskCyclesPerBit, DeadlineS: 1, Function: sums}}
		send := func(user string) {
			if payload, err := telemetry.Encode(report); err == nil {
				s.client.Publish(telemetry.Publication{Topic: s.topics.Report(user), Payload: payload})
			}
		}
		send(strangerUser)
		report.Task.Digest = sumsDigest[1:] + "0"
		send(otherVersionUser)
	case telemetry.KindDecision:
		d, err := telemetry.DecodeDecision(m.Payload)
		if err != nil || d.Grant == "" || d.ReportSlot != nil {
			return
		}
		if user == strangerUser {
			other := s.others[d.Aircraft]
			s.asking.Go(func() { s.try(d, other) })
		} else {
			s.others[d.Aircraft] = d
		}
	}
}

// try asks for one thing in a slot, by what was granted then.
func (s *stranger) try(d, other telemetry.Decision) {
	w := s.m.workers[d.Aircraft-1]
	sealed, _ := base64.StdEncoding.DecodeString(d.Grant)
	input := s.m.inputOf(strangerUser, d.Slot)
	input = input[:int(d.Offload*float64(len(input)/unitBytes))*unitBytes]
	ask := func(wrong string, grant []byte, input []byte) { s.ask(w, d, wrong, grant, input) }
	n := d.Slot % 6
	if w.is(workerLate) {
		if !s.late.TryLock() { // that of the slot before takes longer than a slot
			return
		}
		defer s.late.Unlock()
		ask("", sealed, input)
		w.stop()
		w.m.noteFault(record.WorkerStarts, w.i+1, false, "")
		if err := w.start(); err != nil {
			panic(err)
		}
		time.Sleep(late - time.Second/3) // its first beacon is then this slot's
		ask("used before the worker was started again", sealed, input)
		return
	} else if w.is(workerSlow) || w.is(workerHangs) {
		n = 0
	}
	switch n {
	case 0:
		ask("", sealed, input)
		ask("used", sealed, input)
	case 1:
		for s.now() < d.Slot+task.GrantSlots+2 {
			if time.Sleep(time.Second / 4); s.m.isEnding() {
				return
			}
		}
		ask("expired", sealed, input)
	case 2:
		if theirs, err := base64.StdEncoding.DecodeString(other.Grant); err == nil && other.Slot == d.Slot {
			ask("another user's", theirs, input[:min(len(input), unitBytes)])
		}
		s.leave(w, d, sealed, input)
	case 3:
		sealed[len(sealed)-1] ^= 1
		ask("forged", sealed, input)
	case 4:
		ask("for less", sealed, s.m.inputOf(strangerUser, d.Slot))
	case 5:
		g, _ := task.Open(sealed, w.key)
		g.Mission = task.MissionHash(fleetName, "m0")
		ask("another mission's", g.Seal(nil, w.key), input)
	}
}

// leave asks a worker and closes the connection before it can have computed all.
func (s *stranger) leave(w *worker, d telemetry.Decision, grant, input []byte) {
	const soon, least = 20 * time.Millisecond, 60 * time.Millisecond
	if needsS := 8 * float64(len(input)) * taskCyclesPerBit / d.CPUHz; needsS < least.Seconds() {
		return
	}
	for k := range input { // no device's
		input[k] ^= 0xff
	}
	left := &leftTask{input: input}
	w.left.Store(left)
	c, err := s.connect(w)
	if err != nil {
		return
	}
	r := task.Request{Slot: d.Slot, Function: sums, Grant: grant, Bytes: len(input)}
	c.Write(append(r.Append(nil), input...))
	time.Sleep(soon)
	c.Close()
	for s.now() < d.Slot+task.GrantSlots && !s.m.isEnding() {
		time.Sleep(time.Second / 4)
	}
	x := record.Computed{User: strangerUser, Slot: d.Slot, By: telemetry.ByDecision, Wrong: "one who has gone", Bytes: len(input)}
	if int(left.computed.Load()) < len(input) {
		x.Problem = "not all was computed"
	}
	s.m.record.Write(record.Line{Aircraft: d.Aircraft, Computed: &x})
}

// connect connects to a worker for ten seconds.
func (s *stranger) connect(w *worker) (*tls.Conn, error) {
	const mostS = 10 * time.Second
	ctx, cancel := context.WithTimeout(context.Background(), mostS)
	defer cancel()
	raw, err := s.m.network.Program(strangerUser).Dial(ctx, "tcp", w.address)
	if err != nil {
		return nil, err
	}
	config := s.tls.Clone()
	config.ServerName, _, _ = net.SplitHostPort(w.address)
	raw.SetDeadline(time.Now().Add(mostS))
	return tls.Client(raw, config), nil
}

func (s *stranger) now() int {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.slot
}

// ask asks a worker, and records what came of it.
func (s *stranger) ask(w *worker, d telemetry.Decision, wrong string, grant, input []byte) {
	began := time.Now()
	x := record.Computed{User: strangerUser, Slot: d.Slot, By: telemetry.ByDecision, Wrong: wrong, Bytes: len(input), CPUHz: d.CPUHz}
	a, err := func() (a task.Answer, err error) {
		c, err := s.connect(w)
		if err != nil {
			return a, err
		}
		defer c.NetConn().Close()
		r := task.Request{Slot: d.Slot, Function: sums, Grant: grant, Bytes: len(input)}
		if _, err := c.Write(append(r.Append(nil), input...)); err != nil {
			return a, err
		}
		return task.ReadAnswer(c, task.MaxBytes)
	}()
	x.TookS, x.EdgeS = time.Since(began).Seconds(), float64(a.EdgeNS)*1e-9
	if err != nil {
		x.Problem = err.Error()
	} else if a.Status != task.OK {
		x.Problem = a.Status.String()
	}
	x.Garbled = x.Problem == "" && !bytes.Equal(a.Output, checksums(input))
	s.m.noteComputed(d.Aircraft, &x)
}
