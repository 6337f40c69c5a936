package device

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log/slog"
	"math"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"prefdt/firmware/worker/executor"
	"prefdt/firmware/worker/sdk"
	"prefdt/firmware/worker/serve"
	"prefdt/firmware/worker/share"
	"prefdt/inference/physics"
	"prefdt/simbridge/broker"
	"prefdt/telemetry"
	"prefdt/telemetry/access"
	"prefdt/telemetry/task"
)

// The test's own program is the executor.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == "executor" {
		sdk.Serve(func(input []byte) ([]byte, error) { return bytes.ToUpper(input), nil }, func([]byte) ([]byte, error) {
			for n := 0; ; n++ {
			}
		}, func(input []byte) ([]byte, error) {
			time.Sleep(time.Hour)
			return input, nil
		}, func([]byte) ([]byte, error) { return []byte("1"), nil })
		os.Exit(0)
	}
	os.Exit(m.Run())
}

const digest = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"

// fleet is a broker, a leader that decides as a test wants, and a real worker.
type fleet struct {
	t      *testing.T
	topics telemetry.Topics
	broker telemetry.Broker
	leader *telemetry.Client
	server *serve.Server

	scheduler      *share.Scheduler
	nothingOffered bool
	folder         string
	key            *task.Key

	mutex   sync.Mutex
	reports map[string]telemetry.Report
	results map[string]telemetry.Result
}

func newFleet(t *testing.T) *fleet {
	b := &broker.Broker{Address: "127.0.0.1:0"}
	if err := b.Initialize(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	f := &fleet{t: t, folder: t.TempDir(), key: &task.Key{1}, broker: telemetry.Broker{URL: b.URL()},
		reports: map[string]telemetry.Report{}, results: map[string]telemetry.Result{}}
	f.topics, _ = telemetry.NewTopics("demo")
	all := []access.Certificate{{Name: "worker-1", Role: access.RoleWorker, Hosts: []string{"127.0.0.1", "localhost"}},
		{Name: "u01", Role: access.RoleUser}}
	if _, err := access.Issue(f.folder, all, access.Validity{Authority: time.Hour, Others: time.Hour}, time.Now()); err != nil {
		t.Fatal(err)
	}
	f.leader = &telemetry.Client{Broker: f.broker, Name: "leader", Log: slog.New(slog.DiscardHandler),
		Subscriptions: []telemetry.Subscription{{Filter: f.topics.AllReports()}, {Filter: f.topics.AllResults(), QoS: 1}}}
	f.leader.Handle = func(m telemetry.Message) {
		kind, user, _ := f.topics.Parse(m.Topic)
		f.mutex.Lock()
		defer f.mutex.Unlock()
		if kind == telemetry.KindReport {
			f.reports[user], _ = telemetry.DecodeReport(m.Payload)
		} else {
			f.results[user], _ = telemetry.DecodeResult(m.Payload)
		}
	}
	if err := f.leader.Initialize(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.leader.Close)
	f.startWorker("127.0.0.1:0")
	return f
}

func (f *fleet) startWorker(address string) {
	f.t.Helper()
	scheduler := &share.Scheduler{Cores: 1, MaxTasks: 4}
	scheduler.Start()
	f.scheduler = scheduler
	f.t.Cleanup(scheduler.Close)
	pair, err := tls.LoadX509KeyPair(access.Files(f.folder, "worker-1"))
	if err != nil {
		f.t.Fatal(err)
	}
	f.server = &serve.Server{
		Fleet: "demo", Aircraft: 1, Key: f.key, OfferBytes: 1 << 20, Limits: serve.DefaultLimits(), Log: slog.New(slog.DiscardHandler),
		TLS: &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{pair}, ClientAuth: tls.VerifyClientCertIfGiven,
			ClientCAs: f.authority()},
	}
	p := executor.Program{Command: []string{os.Args[0], "executor"}}
	for i, id := range []string{"upper", "loop", "asleep", "short"} {
		function := &share.Function{Index: uint32(i), UnitBytes: 4, MaxOutput: 4,
			Start: func() (share.Executor, error) { return p.Start() }}
		scheduler.SetNSPerByte(function, 1)
		f.server.Functions = append(f.server.Functions, serve.Function{ID: id, Digest: digest, Function: function, Scheduler: scheduler})
	}
	// What a process takes to start is known from then on.
	if _, err := scheduler.Run(context.Background(), f.server.Functions[0].Function, 1, input); err != nil {
		f.t.Fatal(err)
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		f.t.Fatal(err)
	}
	if err := f.server.Start(l); err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(f.server.Close)
	f.server.SetMission("m1", false)
}

func (f *fleet) authority() *x509.CertPool {
	ca, _ := os.ReadFile(filepath.Join(f.folder, "ca.crt"))
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	return pool
}

// open publishes a slot's beacon; users have so long for a decision.
func (f *fleet) open(n int, decideByMS float64) {
	beacon := telemetry.Slot{Slot: n, SlotMS: 60000, Speed: 1.0 / 60, ReportByMS: 1, DecideByMS: decideByMS,
		Offer: telemetry.Offer{Aircraft: []telemetry.OfferAircraft{
			{Number: 1, PositionM: [2]float64{500, 500}, CPUHz: 40e9, ExpectedUsers: 1, Worker: f.server.Address().String()},
		}}}
	if f.nothingOffered {
		beacon.Offer.Aircraft = []telemetry.OfferAircraft{}
	}
	f.server.OpenSlot(beacon)
	f.publish(f.topics.Slot(), 0, must(telemetry.Encode(beacon)))
}

func must(payload []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return payload
}

func (f *fleet) publish(topic string, qos byte, payload []byte) {
	f.leader.Publish(telemetry.Publication{Topic: topic, QoS: qos, Payload: payload})
}

// decide sends a user most of whose task is to be computed on aircraft 1.
func (f *fleet) decide(n int, user string, bytes uint32) {
	function, _ := task.FunctionHash(digest)
	g := task.Grant{Mission: task.MissionHash("demo", "m1"), User: task.UserHash(user), Function: function, Slot: uint32(n), Bytes: bytes,
		Aircraft: 1, Share: 60000}
	f.publish(f.topics.Decision(user), 1, must(telemetry.Encode(telemetry.Decision{Slot: n, Aircraft: 1, Offload: 0.75, CPUHz: 30e9,
		Grant: g.Text(f.key)})))
}

func (f *fleet) awaitReport(n int) {
	f.t.Helper()
	eventually(f.t, "a report", func() bool {
		f.mutex.Lock()
		defer f.mutex.Unlock()
		return f.reports["u01"].Slot == n
	})
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("never: " + what)
		}
	}
}

var input = []byte("forty bytes of a task that is cut at 30.")

// A task is computed where it was decided or, by the offer, chosen; in parts, or whole on the
// device; and the output is always the whole's.
func TestTasksAreComputed(t *testing.T) {
	for _, c := range []struct {
		name     string
		function string
		before   func(f *fleet)
		decided  func(f *fleet) // nil: no decision comes
		by       string
		aircraft int
		problem  string
	}{
		{"by decision", "upper", nil, func(f *fleet) { f.decide(17, "u01", 40) }, telemetry.ByDecision, 1, ""},
		{"by decision, though this slot offers nothing", "upper", nil, nil, telemetry.ByDecision, 1, ""},
		{"decided local", "upper", nil, func(f *fleet) {
			f.publish(f.topics.Decision("u01"), 1, must(telemetry.Encode(telemetry.Decision{Slot: 17})))
		}, telemetry.ByDecision, 0, ""},
		{"by the offer", "upper", nil, nil, telemetry.ByOffer, 1, ""},
		{"the worker refuses the grant", "upper", nil, func(f *fleet) { f.decide(17, "u01", 10) }, telemetry.ByLocal, 0,
			"more bytes than granted"},
		{"the worker is gone", "upper", func(f *fleet) { f.server.Close() }, func(f *fleet) { f.decide(17, "u01", 40) }, telemetry.ByLocal,
			0, "refused"},
		{"the worker ends in the middle", "loop", nil, func(f *fleet) {
			f.decide(17, "u01", 40)
			eventually(f.t, "a task at the worker", func() bool { return f.scheduler.Stats().CPU > 0 })
			f.server.Close()
		}, telemetry.ByLocal, 0, "e"}, // whatever the connection said
		{"the function hangs there", "asleep", nil, func(f *fleet) { f.decide(17, "u01", 40) }, telemetry.ByLocal, 0,
			"longer than the whole takes here"},
		{"its output is not that of its units", "short", nil, func(f *fleet) { f.decide(17, "u01", 40) }, telemetry.ByLocal, 0,
			"1 bytes of output, 28 are those of its part"},
		{"the function loops there", "loop", nil, func(f *fleet) { f.decide(17, "u01", 40) }, telemetry.ByLocal, 0, "stopped"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t)
			if c.before != nil {
				c.before(f)
			}
			cycles := 1e7 // all of it here takes three minutes of wall time: nothing is late
			if c.function == "asleep" {
				cycles = 1e4
			}
			done := make(chan Outcome, 2)
			pair, err := tls.LoadX509KeyPair(access.Files(f.folder, "u01"))
			if err != nil {
				t.Fatal(err)
			}
			d := &Device{
				ID: "u01", Fleet: "demo", Broker: f.broker, TLS: &tls.Config{RootCAs: f.authority(), Certificates: []tls.Certificate{pair}},
				Function: Function{ID: c.function, UnitBytes: 4, OutputBytes: 4, CyclesPerBit: cycles}, CPUHz: 1e9,
				Physics:  physics.DefaultConstants(),
				Position: func() [2]float64 { return [2]float64{500, 500} }, Next: func(int) (Task, bool) { return Task{input, 1}, true },
				Compute: func(b []byte) ([]byte, error) { return bytes.ToUpper(b), nil }, Done: func(o Outcome) { done <- o },
				Log: slog.New(slog.DiscardHandler),
			}
			if err := d.Initialize(context.Background()); err != nil {
				t.Fatal(err)
			}
			defer d.Close()
			decideByMS := 50000.0
			if c.decided == nil {
				decideByMS = 2
			}
			if strings.Contains(c.name, "offers nothing") { // the slot before named the worker
				f.open(16, 50000)
				f.awaitReport(16)
				f.nothingOffered, decideByMS, c.decided = true, 50000, func(f *fleet) {
					<-done // slot 16's: one request is in flight at a time
					f.decide(17, "u01", 40)
				}
			}
			f.open(17, decideByMS)
			if c.decided != nil {
				f.awaitReport(17)
				c.decided(f)
			}
			o := <-done
			for o.Slot != 17 {
				o = <-done
			}
			if o.By != c.by || o.Aircraft != c.aircraft || !strings.Contains(o.Problem, c.problem) ||
				(o.Problem == "") != (c.problem == "") || o.Err != nil || !bytes.Equal(o.Output, bytes.ToUpper(input)) {
				t.Errorf("%+v, output %q", o, o.Output)
			}
			if c.by == telemetry.ByDecision && c.aircraft > 0 && o.EdgeBytes != 28 { // 0.75 of ten units, whole ones
				t.Errorf("%d bytes went to the aircraft", o.EdgeBytes)
			}
			eventually(t, "a result", func() bool { f.mutex.Lock(); defer f.mutex.Unlock(); return f.results["u01"].By == c.by })
			f.mutex.Lock()
			defer f.mutex.Unlock()
			if r := f.reports["u01"]; r.Task.Function != c.function || r.Task.Bits != 320 {
				t.Errorf("reported %+v", r.Task)
			}
			if r := f.results["u01"]; (r.UploadS != nil) != (c.aircraft > 0) {
				t.Errorf("result %+v", r)
			}
		})
	}
}

// The client in Python, which was written from docs/wire.md, does the same.
func TestPythonClient(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("python3 is not installed")
	}
	f := newFleet(t)
	path := filepath.Join(t.TempDir(), "task")
	if err := os.WriteFile(path, input, 0o600); err != nil {
		t.Fatal(err)
	}
	certificate, key := access.Files(f.folder, "u01")
	c := exec.Command(python, "../example/client.py", strings.TrimPrefix(f.broker.URL, "tcp://"), "demo", "u01",
		filepath.Join(f.folder, "ca.crt"), certificate, key, path)
	var stdout, stderr bytes.Buffer
	c.Stdout, c.Stderr = &stdout, &stderr
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	slot := 17
	eventually(t, "a report", func() bool {
		f.open(slot, 50000)
		time.Sleep(50 * time.Millisecond)
		f.mutex.Lock()
		defer f.mutex.Unlock()
		if r, ok := f.reports["u01"]; ok && r.Slot == slot {
			return true
		}
		slot++
		return false
	})
	f.decide(slot, "u01", 40)
	if err := c.Wait(); err != nil || stderr.Len() > 0 || stdout.String() != string(bytes.ToUpper(input)) {
		t.Errorf("%q, %v, %s", stdout.String(), err, &stderr)
	}
	eventually(t, "a result", func() bool {
		f.mutex.Lock()
		defer f.mutex.Unlock()
		return f.results["u01"].By == telemetry.ByDecision
	})
	if r := f.results["u01"]; r.Slot != slot || r.UploadS == nil {
		t.Errorf("%+v", r)
	}
}

// An aircraft that does not answer has one request, and the others are refused at once. A time that cannot be is that of the whole
// request.
func TestWorkerThatAnswersBadly(t *testing.T) {
	f := newFleet(t)
	pair, err := tls.LoadX509KeyPair(access.Files(f.folder, "worker-1"))
	if err != nil {
		t.Fatal(err)
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{pair}})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	received, answers := make(chan struct{}), make(chan task.Answer)
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		for range 2 {
			if _, err := io.ReadFull(c, make([]byte, task.HeaderSize+len(input))); err != nil {
				return
			}
			received <- struct{}{}
			a := <-answers
			c.Write(a.Append(nil))
		}
	}()
	k := &link{address: l.Addr().String(), tls: &tls.Config{RootCAs: f.authority()}, dial: (&net.Dialer{}).DialContext,
		busy: make(chan struct{}, 1)}
	request := func() answer {
		return k.compute(t.Context(), &task.Request{Slot: 17, Function: "upper", Bytes: len(input)}, input, len(input))
	}
	for _, edge := range []uint64{1 << 63, math.MaxUint64} {
		first := make(chan answer)
		go func() { first <- request() }()
		<-received
		if a := request(); a.err != errInFlight {
			t.Errorf("beside one that is not answered: %v", a.err)
		}
		answers <- task.Answer{EdgeNS: edge, Output: input}
		if a := <-first; a.err != nil || a.edge < 0 || a.upload != 0 {
			t.Errorf("%d ns: edge %v, upload %v, %v", edge, a.edge, a.upload, a.err)
		}
	}
}

// A device that was stopped for some slots opens the newest of the beacons that waited, and none of the others; one
// that is in time opens its slot at once.
func TestDeviceThatWasStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var opened []int
		d := &Device{Next: func(slot int) (none Task, ok bool) {
			opened = append(opened, slot)
			return none, false
		}}
		d.slot, d.ctx = -1, t.Context()
		receive := func(n int) {
			d.handleBeacon(beacon{telemetry.Slot{Slot: n, SlotMS: 1000, ReportByMS: 300}, time.Now()})
		}
		for n := range 3 {
			if receive(n); !slices.Contains(opened, n) {
				t.Errorf("slot %d is not opened at once", n)
			}
			time.Sleep(time.Second)
		}
		time.Sleep(5 * time.Second)
		for n := 3; n < 8; n++ {
			receive(n)
			time.Sleep(time.Millisecond)
		}
		time.Sleep(900 * time.Millisecond)
		receive(8)
		time.Sleep(3 * time.Second)
		receive(11) // some were lost
		time.Sleep(time.Second)
		d.mutex.Lock() // which Next is called under
		defer d.mutex.Unlock()
		if want := []int{0, 1, 2, 7, 8, 11}; !slices.Equal(opened, want) {
			t.Errorf("opened %v, want %v", opened, want)
		}
	})
}
