package serve

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"log/slog"
	"math"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"prefdt/firmware/worker/executor"
	"prefdt/firmware/worker/share"
	"prefdt/telemetry"
	"prefdt/telemetry/access"
	"prefdt/telemetry/task"
)

// computing is an executor in this process, so that these tests run on any processor: each function is one behaviour.
type computing struct {
	killed chan struct{}
	kill   sync.Once
}

func newComputing() (share.Executor, error) { return &computing{killed: make(chan struct{})}, nil }

func (x *computing) Run(function uint32, input []byte, _ int) ([]byte, time.Duration, error) {
	switch function {
	case 0: // upper
		return bytes.ToUpper(input), time.Microsecond, nil
	case 1: // loop
		<-x.killed
		return nil, 0, executor.ErrKilled
	case 2: // error
		return nil, 0, executor.ErrFailed
	}
	x.Kill() // trap
	return nil, 0, executor.ErrBroken
}

func (x *computing) Stop()                                        {}
func (x *computing) Continue()                                    {}
func (x *computing) Exceeds() bool                                { return false }
func (x *computing) CPU() (kernel, own time.Duration, known bool) { return 0, 0, false }
func (x *computing) Kill()                                        { x.kill.Do(func() { close(x.killed) }) }
func (x *computing) Ended() bool {
	select {
	case <-x.killed:
		return true
	default:
		return false
	}
}

const digest = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"

// bench is a server with certificates of a fleet, at slot 17 of mission m1.
type bench struct {
	t         *testing.T
	server    *Server
	key       *task.Key
	slot      int // of the last beacon
	folder    string
	authority *x509.CertPool
}

func newBench(t *testing.T, change func(*Server)) *bench {
	t.Helper()
	b := &bench{t: t, folder: t.TempDir(), key: &task.Key{1, 2, 3}, authority: x509.NewCertPool()}
	all := []access.Certificate{{Name: access.WorkerName(1), Role: access.RoleWorker, Hosts: []string{"127.0.0.1"}},
		{Name: "u01", Role: access.RoleUser}, {Name: "u02", Role: access.RoleUser}, {Name: "crew-1", Role: access.RoleCrew}}
	if _, err := access.Issue(b.folder, all, access.Validity{Authority: time.Hour, Others: time.Hour}, time.Now()); err != nil {
		t.Fatal(err)
	}
	ca, _ := os.ReadFile(filepath.Join(b.folder, "ca.crt"))
	b.authority.AppendCertsFromPEM(ca)
	scheduler := &share.Scheduler{Cores: 1, MaxTasks: 16}
	scheduler.Start()
	t.Cleanup(scheduler.Close)
	b.server = &Server{
		Fleet: "demo", Aircraft: 1, Key: b.key, OfferBytes: 100, Limits: DefaultLimits(), Log: slog.New(slog.DiscardHandler),
		TLS: &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{b.pair(access.WorkerName(1))},
			ClientAuth: tls.VerifyClientCertIfGiven, ClientCAs: b.authority},
	}
	for i, id := range []string{"upper", "loop", "error", "trap"} {
		f := &share.Function{Index: uint32(i), UnitBytes: 1, MaxOutput: 1, Start: newComputing}
		scheduler.SetNSPerByte(f, 1)
		b.server.Functions = append(b.server.Functions, Function{ID: id, Digest: digest, Function: f, Scheduler: scheduler})
	}
	if change != nil {
		change(b.server)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := b.server.Start(l); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.server.Close)
	b.server.SetMission("m1", false)
	b.openSlot(17)
	return b
}

func (b *bench) openSlot(n int) {
	b.slot = n
	b.server.OpenSlot(telemetry.Slot{Slot: n, Offer: telemetry.Offer{Aircraft: []telemetry.OfferAircraft{{Number: 1, CPUHz: 1e9,
		ExpectedUsers: 1}}}})
}

func (b *bench) pair(name string) tls.Certificate {
	pair, err := tls.LoadX509KeyPair(access.Files(b.folder, name))
	if err != nil {
		b.t.Fatal(err)
	}
	return pair
}

// dial connects as a user, or without a certificate.
func (b *bench) dial(name string) *tls.Conn {
	b.t.Helper()
	config := &tls.Config{RootCAs: b.authority, ServerName: "127.0.0.1"}
	if name != "" {
		config.Certificates = []tls.Certificate{b.pair(name)}
	}
	c, err := tls.Dial("tcp", b.server.Address().String(), config)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { c.Close() })
	return c
}

func hash(text string) (h [12]byte) { h, _ = task.FunctionHash(text); return h }

// grant is a good one of u01 for 100 bytes in slot 17.
func grant() task.Grant {
	return task.Grant{Mission: task.MissionHash("demo", "m1"), User: task.UserHash("u01"), Function: hash(digest), Slot: 17, Bytes: 100,
		Aircraft: 1, Share: 30000}
}

// ask sends a request with so much input, and returns the answer.
func ask(c *tls.Conn, r task.Request, input []byte) (task.Answer, error) {
	c.SetDeadline(time.Now().Add(30 * time.Second))
	if _, err := c.Write(append(r.Append(nil), input...)); err != nil {
		return task.Answer{}, err
	}
	return task.ReadAnswer(c, 1000)
}

var input = []byte("a task of a user")

// Every row is one request that must not be served, or must end so; after each a good one
// is served. Nothing that was not granted reaches an executor.
func TestHostileRequests(t *testing.T) {
	other := task.Key{9}
	sealed := func(g task.Grant, key *task.Key) []byte { return g.Seal(nil, key) }
	for _, c := range []struct {
		name   string
		as     string // certificate
		change func(g *task.Grant, r *task.Request)
		after  func(r *task.Request, key *task.Key) // the grant is sealed
		want   task.Status
	}{
		{"forged: another aircraft's key", "u01", nil, func(r *task.Request, _ *task.Key) { r.Grant = sealed(grant(), &other) },
			task.Forged},
		{"forged: a bit of the share", "u01", nil, func(r *task.Request, _ *task.Key) { r.Grant[39] ^= 128 }, task.Forged},
		{"forged: a bit of the proof", "u01", nil, func(r *task.Request, _ *task.Key) { r.Grant[55] ^= 1 }, task.Forged},
		{"forged: all zeros", "u01", nil, func(r *task.Request, _ *task.Key) { r.Grant = make([]byte, task.GrantSize) }, task.Forged},
		{"expired: three slots old", "u01", func(g *task.Grant, r *task.Request) { g.Slot, r.Slot = 14, 14 }, nil, task.Expired},
		{"expired: of slot 0", "u01", func(g *task.Grant, r *task.Request) { g.Slot, r.Slot = 0, 0 }, nil, task.Expired},
		{"of a slot far ahead", "u01", func(g *task.Grant, r *task.Request) { g.Slot, r.Slot = 19, 19 }, nil, task.Expired},
		{"of the last slot there can be", "u01", func(g *task.Grant, r *task.Request) { g.Slot, r.Slot = math.MaxInt32, math.MaxInt32 },
			nil, task.Expired},
		{"another slot than its grant's", "u01", func(g *task.Grant, r *task.Request) { r.Slot = 16 }, nil, task.Expired},
		{"foreign: another aircraft", "u01", func(g *task.Grant, _ *task.Request) { g.Aircraft = 2 }, nil, task.Foreign},
		{"foreign: another mission", "u01", func(g *task.Grant, _ *task.Request) { g.Mission = task.MissionHash("demo", "m0") }, nil,
			task.Foreign},
		{"foreign: another fleet", "u01", func(g *task.Grant, _ *task.Request) { g.Mission = task.MissionHash("other", "m1") }, nil,
			task.Foreign},
		{"foreign: another user's, stolen", "u02", nil, nil, task.Foreign},
		{"foreign: a user's, by the crew", "crew-1", nil, nil, task.Foreign},
		{"foreign: a user's, by somebody without a certificate", "", nil, nil, task.Foreign},
		{"another program's digest", "u01", func(g *task.Grant, _ *task.Request) { g.Function[0] ^= 1 }, nil, task.Function},
		{"no such function", "u01", func(_ *task.Grant, r *task.Request) { r.Function = "none" }, nil, task.Function},
		{"a byte more than granted", "u01", func(_ *task.Grant, r *task.Request) { r.Bytes = 101 }, nil, task.Oversize},
		{"2 GiB", "u01", func(g *task.Grant, r *task.Request) { g.Bytes, r.Bytes = math.MaxUint32, math.MinInt32 }, nil, task.Oversize},
		{"4 GiB", "u01", func(g *task.Grant, r *task.Request) { g.Bytes, r.Bytes = math.MaxUint32, -1 }, nil, task.Oversize},
		{"an offer without a certificate", "", nil, func(r *task.Request, _ *task.Key) { r.Grant = nil }, task.NoOffer},
		{"an offer with a certificate of the crew", "crew-1", nil, func(r *task.Request, _ *task.Key) { r.Grant = nil }, task.NoOffer},
		{"an offer of a slot without a beacon", "u01", nil, func(r *task.Request, _ *task.Key) { r.Grant, r.Slot = nil, 18 }, task.NoOffer},
		{"an offer of an old slot", "u01", nil, func(r *task.Request, _ *task.Key) { r.Grant, r.Slot = nil, 3 }, task.NoOffer},
		{"an offer for too many bytes", "u01", nil, func(r *task.Request, _ *task.Key) { r.Grant, r.Bytes = nil, 101 }, task.Oversize},
		{"a function that loops", "u01", func(_ *task.Grant, r *task.Request) { r.Function = "loop" }, nil, task.Stopped},
		{"a function that fails", "u01", func(_ *task.Grant, r *task.Request) { r.Function = "error" }, nil, task.Failed},
		{"a function that traps", "u01", func(_ *task.Grant, r *task.Request) { r.Function = "trap" }, nil, task.Failed},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, nil)
			g, r := grant(), task.Request{Slot: 17, Function: "upper", Bytes: len(input)}
			if c.change != nil {
				c.change(&g, &r)
			}
			r.Grant = sealed(g, b.key)
			if c.after != nil {
				c.after(&r, b.key)
			}
			a, err := ask(b.dial(c.as), r, input)
			if err != nil || a.Status != c.want || len(a.Output) != 0 {
				t.Errorf("%s %q, %v; want %s", a.Status, a.Output, err, c.want)
			}
			if refused := b.server.Refused(); (refused == 1) != (c.want >= task.Busy) {
				t.Errorf("%d refused", refused)
			}
			b.servesAnother()
		})
	}
}

// servesAnother has a good task of another user computed.
func (b *bench) servesAnother() {
	b.t.Helper()
	g := grant()
	g.User, g.Slot = task.UserHash("u02"), uint32(b.slot)
	a, err := ask(b.dial("u02"), task.Request{Slot: b.slot, Function: "upper", Bytes: len(input), Grant: g.Seal(nil, b.key)}, input)
	if err != nil || a.Status != task.OK || !bytes.Equal(a.Output, bytes.ToUpper(input)) || a.EdgeNS == 0 {
		b.t.Errorf("a good task: %s %q, %v", a.Status, a.Output, err)
	}
}

// A grant is good once, by whatever connection, and so is an offer; over a restart too.
func TestReplay(t *testing.T) {
	b := newBench(t, nil)
	g := grant()
	r := task.Request{Slot: 17, Function: "upper", Bytes: len(input), Grant: g.Seal(nil, b.key)}
	c := b.dial("u01")
	for i, want := range []task.Status{task.OK, task.Replayed} {
		if a, err := ask(c, r, input); err != nil || a.Status != want {
			t.Errorf("time %d: %s, %v; want %s", i+1, a.Status, err, want)
		}
	}
	if a, err := ask(b.dial("u01"), r, input); err != nil || a.Status != task.Replayed {
		t.Errorf("another connection: %s, %v", a.Status, err)
	}
	r.Grant = nil
	if a, _ := ask(b.dial("u01"), r, input); a.Status != task.Replayed {
		t.Errorf("the offer of a slot in which a grant was used: %s", a.Status)
	}
	if a, _ := ask(b.dial("u02"), r, input); a.Status != task.OK {
		t.Errorf("another user by the offer: %s", a.Status)
	}
	if a, _ := ask(b.dial("u02"), r, input); a.Status != task.Replayed {
		t.Errorf("a second task by the offer: %s", a.Status)
	}
	b.openSlot(18) // a later one
	for slot, want := range map[int]task.Status{17: task.Replayed, 18: task.OK} {
		g.Slot = uint32(slot)
		if a, _ := ask(b.dial("u01"), task.Request{Slot: slot, Function: "upper", Bytes: len(input), Grant: g.Seal(nil, b.key)},
			input); a.Status != want {
			t.Errorf("slot %d: %s, want %s", slot, a.Status, want)
		}
	}
}

// A worker that is started in a mission does not know what was used: it begins with the slot
// after the first beacon. Another mission's numbers begin again.
func TestAdmissionOverRestartsAndMissions(t *testing.T) {
	key := &task.Key{1}
	a := newAdmission("demo", 1, key, 100)
	try := func(mission string, slot int) task.Status {
		g := grant()
		g.Mission, g.Slot = task.MissionHash("demo", mission), uint32(slot)
		_, s := a.admit(&task.Request{Slot: slot, Function: "upper", Bytes: 10, Grant: g.Seal(nil, key)}, hash(digest), "u01")
		return s
	}
	open := func(slot int) { a.openSlot(telemetry.Slot{Slot: slot}) }
	for _, c := range []struct {
		name    string
		before  func()
		mission string
		slot    int
		want    task.Status
	}{
		{"nothing is known", func() {}, "m1", 17, task.Foreign},
		{"no beacon yet", func() { a.setMission("m1", true) }, "m1", 17, task.Expired},
		{"the slot of the first beacon", func() { open(17) }, "m1", 17, task.Expired},
		{"the slot after it", func() {}, "m1", 18, task.OK},
		{"that again", func() { open(18) }, "m1", 18, task.Replayed},
		{"two slots later", func() { open(20) }, "m1", 18, task.Replayed},
		{"three slots later", func() { open(21) }, "m1", 18, task.Expired},
		{"a late beacon changes nothing", func() { open(5) }, "m1", 5, task.Expired},
		{"another mission's, not begun", func() {}, "m2", 0, task.Foreign},
		{"another mission's slot 0", func() { a.setMission("m2", true); open(0) }, "m2", 0, task.OK},
		{"the mission's before it", func() {}, "m1", 0, task.Foreign},
		{"the same status again", func() { a.setMission("m2", true) }, "m2", 0, task.Replayed},
	} {
		c.before()
		if got := try(c.mission, c.slot); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
	a = newAdmission("demo", 1, key, 100)
	a.setMission("m2", false) // before its slots
	open(0)
	if got := try("m2", 0); got != task.OK {
		t.Errorf("slot 0, by a worker that was there before: %s", got)
	}
	if n := len(a.used); n > 1 {
		t.Errorf("%d uses are remembered", n)
	}
	for n := range 1000 { // what is remembered has an end
		open(n)
		try("m2", n)
	}
	if len(a.used) > 4 || len(a.offers) > 4 {
		t.Errorf("%d uses and %d offers are remembered", len(a.used), len(a.offers))
	}
}

// shortened are the limits with times that a test can wait for.
func shortened(s *Server) {
	if s.Limits.Transfer = 300 * time.Millisecond; testing.Short() { // an emulated processor takes longer for a handshake
		s.Limits.Transfer = 5 * time.Second
	}
	s.Limits.Idle = 2 * s.Limits.Transfer
}

// Every row is a connection that takes time, and is ended; meanwhile another is served.
func TestHostileConnections(t *testing.T) {
	g := grant()
	r := task.Request{Slot: 17, Function: "upper", Bytes: len(input), Grant: nil}
	for _, c := range []struct {
		name string
		do   func(b *bench) net.Conn
	}{
		{"no handshake", func(b *bench) net.Conn { return b.raw(nil) }},
		{"garbage", func(b *bench) net.Conn { return b.raw(bytes.Repeat([]byte{0x16, 3, 1, 255}, 1000)) }},
		{"another protocol", func(b *bench) net.Conn { return b.raw([]byte("GET / HTTP/1.1\r\n\r\n")) }},
		{"a handshake begun", func(b *bench) net.Conn { return b.raw([]byte{0x16, 3, 1, 2, 0, 1, 0}) }},
		{"no request", func(b *bench) net.Conn { return b.dial("u01") }},
		{"half a header", func(b *bench) net.Conn { return b.sent(b.dial("u01"), r.Append(nil)[:50]) }},
		{"a header of another version", func(b *bench) net.Conn { return b.sent(b.dial("u01"), bytes.Repeat([]byte{7}, task.HeaderSize)) }},
		{"half an input", func(b *bench) net.Conn {
			whole := r
			whole.Grant = g.Seal(nil, b.key)
			return b.sent(b.dial("u01"), append(whole.Append(nil), input[:5]...))
		}},
		{"a slow sender", func(b *bench) net.Conn {
			whole := r
			whole.Grant = g.Seal(nil, b.key)
			c := b.dial("u01")
			go func() {
				for _, x := range append(whole.Append(nil), input...) {
					if _, err := c.Write([]byte{x}); err != nil {
						return
					}
					time.Sleep(20 * time.Millisecond)
				}
			}()
			return c
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, shortened)
			bad := c.do(b)
			b.servesAnother()
			bad.SetReadDeadline(time.Now().Add(30 * time.Second))
			rest := make([]byte, 4096)
			for {
				_, err := bad.Read(rest)
				if timeout := net.Error(nil); errors.As(err, &timeout) && timeout.Timeout() {
					t.Error("it is still open")
				}
				if err != nil {
					break
				}
			}
			b.servesAgain()
		})
	}
}

// raw sends bytes without TLS.
func (b *bench) raw(bytes []byte) net.Conn {
	c, err := net.Dial("tcp", b.server.Address().String())
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { c.Close() })
	return b.sent(c, bytes)
}

func (b *bench) sent(c net.Conn, bytes []byte) net.Conn {
	c.Write(bytes)
	return c
}

// servesAgain has a good task computed in the next slot.
func (b *bench) servesAgain() {
	b.t.Helper()
	b.openSlot(18)
	g := grant()
	g.Slot = 18
	a, err := ask(b.dial("u01"), task.Request{Slot: 18, Function: "upper", Bytes: len(input), Grant: g.Seal(nil, b.key)}, input)
	if err != nil || a.Status != task.OK {
		b.t.Errorf("a good task afterwards: %s, %v", a.Status, err)
	}
}

// However many connections there are, one address has its part of them, and users with
// a connection are served.
func TestFloodOfConnections(t *testing.T) {
	b := newBench(t, func(s *Server) { s.Limits.ConnectionsPerAddress, s.Limits.NewPerAddress = 8, 5 })
	warm := b.dial("u02")
	var flood sync.WaitGroup
	for range 8 {
		flood.Go(func() {
			for range 250 {
				if c, err := net.Dial("tcp", b.server.Address().String()); err == nil {
					c.Write([]byte("garbage that is no TLS"))
					c.Close()
				}
			}
		})
	}
	g := grant()
	g.User = task.UserHash("u02")
	a, err := ask(warm, task.Request{Slot: 17, Function: "upper", Bytes: len(input), Grant: g.Seal(nil, b.key)}, input)
	if err != nil || a.Status != task.OK {
		t.Errorf("in the flood: %s, %v", a.Status, err)
	}
	flood.Wait()
	// The kernel still holds connections that the server has not accepted.
	for until := time.Now().Add(time.Minute); b.server.Refused() < 1900; time.Sleep(time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("%d of 2000 connections were refused", b.server.Refused())
		}
	}
}

// However many connect and then wait, in whatever step of their handshake, a user's is as fast as without them.
func TestSilentHandshakes(t *testing.T) {
	b := newBench(t, nil)
	for range 19 {
		b.raw(nil)
		b.raw([]byte{0x16, 3, 1, 2, 0, 1, 0})
	}
	began := time.Now()
	b.servesAnother()
	if took := time.Since(began); took > b.server.Limits.Transfer/2 {
		t.Errorf("beside 38 silent connections a task took %v", took)
	}
}

// What goes wrong in one connection ends that connection alone.
func TestPanicEndsOneConnection(t *testing.T) {
	b := newBench(t, nil)
	broken := b.server.functions["error"]
	broken.Scheduler = nil
	g := grant()
	r := task.Request{Slot: 17, Function: "error", Bytes: len(input), Grant: g.Seal(nil, b.key)}
	if a, err := ask(b.dial("u01"), r, input); err == nil {
		t.Errorf("a panic was answered: %s", a.Status)
	}
	b.servesAnother()
}

// A user that closes its connection is not computed for any longer, whatever it has sent after its task.
func TestClosedWhileComputing(t *testing.T) {
	for _, more := range []int{0, 1, 500} {
		b := newBench(t, nil)
		loop := b.server.functions["loop"]
		loop.Scheduler.SetNSPerByte(loop.Function.Function, 1e9) // for hours
		g := grant()
		r := task.Request{Slot: 17, Function: "loop", Bytes: len(input), Grant: g.Seal(nil, b.key)}
		c := b.sent(b.dial("u01"), append(append(r.Append(nil), input...), make([]byte, more)...))
		for loop.Scheduler.Stats().QueuedNS == 0 {
			time.Sleep(time.Millisecond)
		}
		c.Close()
		for until := time.Now().Add(2 * time.Second); loop.Scheduler.Stats().Killed == 0; time.Sleep(time.Millisecond) {
			if time.Now().After(until) {
				t.Fatalf("it is still computed, %d bytes after its task", more)
			}
		}
		b.servesAnother()
	}
}

// One user has one task at a time, however many connections it opens: what loops takes no more than its share.
func TestOneTaskAtATime(t *testing.T) {
	b := newBench(t, nil)
	loop := b.server.functions["loop"]
	loop.Scheduler.SetNSPerByte(loop.Function.Function, 1e9) // for hours
	g := grant()
	r := task.Request{Slot: 17, Function: "loop", Bytes: len(input), Grant: g.Seal(nil, b.key)}
	c := b.sent(b.dial("u01"), append(r.Append(nil), input...))
	for loop.Scheduler.Stats().QueuedNS == 0 {
		time.Sleep(time.Millisecond)
	}
	again := b.dial("u01")
	for slot, want := range []task.Status{task.Busy, task.OK} {
		b.openSlot(18 + slot)
		g.Slot = uint32(18 + slot)
		a, err := ask(again, task.Request{Slot: 18 + slot, Function: "upper", Bytes: len(input), Grant: g.Seal(nil, b.key)}, input)
		if err != nil || a.Status != want {
			t.Errorf("%s, %v, want %s", a.Status, err, want)
		}
		b.servesAnother() // of another user
		c.Close()
		for loop.Scheduler.Stats().QueuedNS > 0 {
			time.Sleep(time.Millisecond)
		}
	}
}

// An address has so many connections at once and new ones a second, and is forgotten once
// it would be as if new.
func TestAddresses(t *testing.T) {
	now := time.Unix(0, 0)
	a := addresses{most: 3, perSecond: 2, of: map[string]*address{}}
	var got []bool
	for range 4 {
		got = append(got, a.enter("x", now))
	}
	if !slices.Equal(got, []bool{true, true, true, false}) {
		t.Errorf("four at once: %v", got)
	}
	a.leave("x")
	if !a.enter("x", now) || a.enter("y", now) != true {
		t.Error("the fourth token of x, or the first of y, was refused")
	}
	a.leave("x")
	if a.enter("x", now) || !a.enter("x", now.Add(time.Second)) {
		t.Error("more new ones than a second has, or none after it")
	}
	for i := range maxAddresses + 10 {
		host := string(binary.LittleEndian.AppendUint32(nil, uint32(i)))
		if a.enter(host, now.Add(time.Duration(i)*time.Second)) {
			a.leave(host)
		}
	}
	if len(a.of) > maxAddresses {
		t.Errorf("%d addresses are remembered", len(a.of))
	}
}

// A certificate of another authority is refused at the handshake; a version before TLS 1.3 too.
func TestHandshake(t *testing.T) {
	b := newBench(t, nil)
	stranger := newBench(t, nil)
	for name, config := range map[string]*tls.Config{
		"another authority's certificate": {RootCAs: b.authority, Certificates: []tls.Certificate{stranger.pair("u01")}},
		"TLS 1.2":                         {RootCAs: b.authority, MaxVersion: tls.VersionTLS12},
	} {
		config.ServerName = "127.0.0.1"
		c, err := tls.Dial("tcp", b.server.Address().String(), config)
		if err == nil { // with TLS 1.3 a client hears of it when it reads
			g := grant()
			_, err = ask(c, task.Request{Slot: 17, Function: "upper", Bytes: len(input), Grant: g.Seal(nil, b.key)}, input)
		}
		if err == nil {
			t.Errorf("%s was served", name)
		}
	}
	b.servesAnother()
}
