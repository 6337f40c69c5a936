package bench

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"prefdt/firmware/worker/function"
	"prefdt/firmware/worker/serve"
	"prefdt/firmware/worker/share"
	"prefdt/telemetry"
	"prefdt/telemetry/access"
	"prefdt/telemetry/task"
)

// Tasks is how a worker of one core serves so many users, whose grants sum to a multiple of it: each sends a task a slot that takes
// taskPart of the slot if all is as granted, through the worker's door on the loopback, and none while one is in flight.
type Tasks struct {
	Backend    string  `json:"backend"`
	Users      int     `json:"users"`
	Load       float64 `json:"load"`         // grants' sum over the capacity
	Goodput    float64 `json:"goodput"`      // work of tasks that were answered in time, over the capacity
	P50        float64 `json:"p50"`          // of completion, over the time granted
	P95        float64 `json:"p95"`          // likewise
	EdgeOver90 float64 `json:"edge_over_90"` // 90th percentile of the edge's time over the time granted, less 1
	Fairness   float64 `json:"fairness"`     // Jain's index of users' answered bytes
}

// Percent is EdgeOver90 in percent.
func (t Tasks) Percent() float64 { return 100 * t.EdgeOver90 }

// Loop is how late a loop of 10 Hz is, alone and beside a worker with three times its capacity, whose functions run by the unit's policy.
type Loop struct {
	AloneP99MS  float64 `json:"alone_p99_ms"`
	BesideP99MS float64 `json:"beside_p99_ms"`
}

const (
	taskSlot     = 500 * time.Millisecond
	taskSlots    = 6
	taskPart     = 0.8
	taskPatience = 3 * taskSlot // by then a grant has expired
	taskUnit     = 1024
	taskOutput   = 8 // bytes for a unit
	spins        = 200
)

var (
	taskUsers = []int{1, 8, 64}
	taskLoads = []float64{0.5, 0.9, 1.5, 3}
)

// measureTasks measures each backend whose program is there.
func (r *Report) measureTasks(ctx context.Context, bin, scratch string) error {
	service := httptest.NewServer(http.HandlerFunc(serveSpins))
	defer service.Close()
	module := filepath.Join(scratch, "spins.wasm")
	if err := os.WriteFile(module, spinning, 0o644); err != nil {
		return err
	}
	native := function.Config{ID: "native", Command: []string{filepath.Join(bin, "blobs")}}
	for _, f := range []function.Config{native, {ID: "http", HTTP: service.URL}, {ID: "wasm", WASM: module}} {
		for _, users := range taskUsers {
			for _, load := range taskLoads {
				if err := ctx.Err(); err != nil {
					return err
				}
				x, err := measureTask(ctx, f, bin, scratch, users, load)
				if err != nil {
					r.Missing["tasks "+f.ID] = err.Error()
					break
				}
				r.Tasks = append(r.Tasks, x)
			}
		}
	}
	chrt, err := exec.LookPath("chrt")
	if err != nil {
		r.Missing["tasks loop"] = err.Error()
		return nil
	}
	native.Command = append([]string{chrt, "--idle", "0"}, native.Command...)
	var loop Loop
	late := make(chan []float64, 1) // nobody waits for it where the worker cannot be measured
	measure := func() { late <- lateness(taskSlots * taskSlot) }
	go measure()
	loop.AloneP99MS = quantile(<-late, 0.99)
	go measure()
	if _, err := measureTask(ctx, native, bin, scratch, taskUsers[len(taskUsers)-1], taskLoads[len(taskLoads)-1]); err != nil {
		r.Missing["tasks loop"] = err.Error()
	} else {
		loop.BesideP99MS = quantile(<-late, 0.99)
		r.Loop = &loop
	}
	return nil
}

// lateness is by how many ms ten loops of 10 Hz, one after another, woke after they were due.
func lateness(during time.Duration) (lateMS []float64) {
	for due := time.Now(); during > 0; during -= 10 * time.Millisecond {
		due = due.Add(10 * time.Millisecond)
		time.Sleep(time.Until(due))
		lateMS = append(lateMS, time.Since(due).Seconds()*1e3)
	}
	return lateMS
}

// measureTask measures one backend with so many users, at so much load.
func measureTask(ctx context.Context, f function.Config, bin, scratch string, users int, load float64) (x Tasks, err error) {
	f.UnitBytes, f.OutputBytes = taskUnit, taskOutput
	run, err := f.New(filepath.Join(bin, "worker-module"), "", nil)
	if err != nil {
		return x, err
	}
	scheduler := &share.Scheduler{Cores: 1, MaxTasks: 2 * users}
	scheduler.Start()
	defer scheduler.Close()
	nsPerByte, err := calibrateTask(ctx, scheduler, run)
	if err != nil {
		return x, err
	}
	granted := min(load/float64(users), 1)
	units := max(1, int(load/float64(users)*taskPart*float64(taskSlot)/(nsPerByte*taskUnit)))
	grantedS := float64(units*taskUnit) * nsPerByte * 1e-9 / granted
	d, err := newDoor(scratch, users)
	if err != nil {
		return x, err
	}
	defer d.close()
	if err := d.start(serve.Function{ID: f.ID, Digest: taskDigest, Function: run, Scheduler: scheduler}); err != nil {
		return x, err
	}
	began, random := time.Now(), rand.New(rand.NewPCG(uint64(users), 7))
	var sent sync.WaitGroup
	var mutex sync.Mutex
	answered, last := make([]float64, users), began
	var tookMS, edgeMS []float64
	for slot := range taskSlots {
		time.Sleep(time.Until(began.Add(time.Duration(slot) * taskSlot)))
		d.server.OpenSlot(telemetry.Slot{Slot: slot})
		for u := range users {
			phase := time.Duration(random.Int64N(int64(taskSlot / 10)))
			if !d.users[u].busy.TryLock() {
				continue
			}
			sent.Go(func() {
				defer d.users[u].busy.Unlock()
				time.Sleep(phase)
				at := time.Now()
				a, err := d.ask(u, slot, f.ID, granted, units)
				mutex.Lock()
				defer mutex.Unlock()
				if last = time.Now(); err == nil && a.Status == task.OK && len(a.Output) == units*taskOutput {
					answered[u] += float64(units)
					tookMS, edgeMS = append(tookMS, last.Sub(at).Seconds()*1e3), append(edgeMS, float64(a.EdgeNS)*1e-6)
				}
			})
		}
	}
	sent.Wait()
	if len(tookMS) == 0 { // in time
		return Tasks{Backend: f.ID, Users: users, Load: load}, nil
	}
	sum, squares := 0.0, 0.0
	for _, b := range answered {
		sum, squares = sum+b, squares+b*b
	}
	return Tasks{Backend: f.ID, Users: users, Load: load, Goodput: sum * taskUnit * nsPerByte * 1e-9 / last.Sub(began).Seconds(),
		P50: quantile(tookMS, 0.5) * 1e-3 / grantedS, P95: quantile(tookMS, 0.95) * 1e-3 / grantedS,
		EdgeOver90: quantile(edgeMS, 0.9)*1e-3/grantedS - 1, Fairness: sum * sum / (float64(users) * squares)}, nil
}

// calibrateTask returns what a byte takes, in the median of tasks of about a tenth of a slot.
func calibrateTask(ctx context.Context, s *share.Scheduler, f *share.Function) (nsPerByte float64, err error) {
	input, before := make([]byte, 200*taskUnit), time.Duration(0)
	var measured []float64
	for range 8 {
		if _, err := s.Run(ctx, f, 1, input); err != nil {
			return 0, err
		}
		now := s.Stats().CPU
		measured, before = append(measured, float64(now-before)/float64(len(input))), now
	}
	slices.Sort(measured)
	s.SetNSPerByte(f, measured[len(measured)/2])
	return measured[len(measured)/2], nil
}

// door is a worker's, with its users.
type door struct {
	server *serve.Server
	key    task.Key
	users  []doorUser
}

type doorUser struct {
	busy sync.Mutex // while a task is in flight
	name string
	tls  *tls.Config
	conn *tls.Conn
}

const (
	taskDigest = "0000000000000000000000000000000000000000000000000000000000000000"
	taskFleet  = "bench"
)

func newDoor(scratch string, users int) (*door, error) {
	d := &door{users: make([]doorUser, users)}
	folder, err := os.MkdirTemp(scratch, "tls")
	if err != nil {
		return nil, err
	}
	all := []access.Certificate{{Name: access.WorkerName(1), Role: access.RoleWorker, Hosts: []string{"127.0.0.1"}}}
	for i := range d.users {
		d.users[i].name = fmt.Sprintf("u%02d", i)
		all = append(all, access.Certificate{Name: d.users[i].name, Role: access.RoleUser})
	}
	if _, err := access.Issue(folder, all, access.Validity{Authority: time.Hour, Others: time.Hour}, time.Now()); err != nil {
		return nil, err
	}
	authority, err := telemetry.LoadAuthorities("authority", filepath.Join(folder, access.NameAuthority+".crt"))
	if err != nil {
		return nil, err
	}
	for i, c := range all {
		pair, err := telemetry.LoadCertificate(access.Files(folder, c.Name))
		if err != nil {
			return nil, err
		}
		config := &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{*pair}, RootCAs: authority,
			ClientCAs: authority, ClientAuth: tls.VerifyClientCertIfGiven}
		if i > 0 {
			d.users[i-1].tls = config
			continue
		}
		limits := serve.DefaultLimits()
		limits.ConnectionsPerAddress, limits.NewPerAddress = limits.Connections, float64(limits.Connections) // all come from one
		d.server = &serve.Server{Fleet: taskFleet, Aircraft: 1, Key: &d.key, TLS: config, Limits: limits,
			Log: slog.New(slog.DiscardHandler)}
	}
	return d, nil
}

func (d *door) start(f serve.Function) error {
	d.server.Functions = []serve.Function{f}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	if err := d.server.Start(l); err != nil {
		return err
	}
	d.server.SetMission(taskFleet, false)
	d.server.OpenSlot(telemetry.Slot{})
	for i := range d.users {
		if err := d.users[i].connect(l.Addr().String()); err != nil {
			return err
		}
	}
	return nil
}

func (d *door) close() {
	for i := range d.users {
		if c := d.users[i].conn; c != nil {
			c.Close()
		}
	}
	d.server.Close()
}

func (u *doorUser) connect(address string) (err error) {
	u.conn, err = tls.Dial("tcp", address, u.tls)
	return err
}

// ask has a user's task of a slot computed.
func (d *door) ask(user, slot int, id string, granted float64, units int) (a task.Answer, err error) {
	u, bytes := &d.users[user], units*taskUnit
	if u.conn == nil {
		if err := u.connect(d.server.Address().String()); err != nil {
			return a, err
		}
	}
	function, _ := task.FunctionHash(taskDigest)
	g := task.Grant{Mission: task.MissionHash(taskFleet, taskFleet), User: task.UserHash(u.name), Function: function, Slot: uint32(slot),
		Bytes: uint32(bytes), Aircraft: 1, Share: uint16(65535 * granted)}
	r := task.Request{Slot: slot, Function: id, Bytes: bytes, Grant: g.Seal(nil, &d.key)}
	u.conn.SetDeadline(time.Now().Add(taskPatience))
	if _, err = u.conn.Write(append(r.Append(nil), make([]byte, bytes)...)); err == nil {
		a, err = task.ReadAnswer(u.conn, units*taskOutput)
	}
	if err != nil || a.Status >= task.Refused {
		u.conn.NetConn().Close()
		u.conn = nil
	}
	return a, err
}

// serveSpins is a service of the same work as spinning.
func serveSpins(w http.ResponseWriter, r *http.Request) {
	input, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	sum := uint32(0)
	for range spins * len(input) {
		sum = sum*1664525 + 1013904223
	}
	output := make([]byte, len(input)/taskUnit*taskOutput)
	output[0] = byte(sum)
	w.Write(output)
}

// spinning is a module that computes spins steps of a generator for each byte, in WebAssembly's binary form: its input and its output are
// at 1024.
var spinning = []byte("\x00asm\x01\x00\x00\x00" +
	"\x01\x10\x03\x60\x01\x7f\x01\x7f\x60\x02\x7f\x7f\x01\x7f\x60\x00\x01\x7f" + // types: alloc, run, output
	"\x03\x04\x03\x00\x01\x02\x05\x03\x01\x00\x20" + // functions; 2 MiB of memory
	"\x07\x21\x04\x06memory\x02\x00\x05alloc\x00\x00\x03run\x00\x01\x06output\x00\x02" +
	"\x0a\x44\x03\x05\x00\x41\x80\x08\x0b" + // alloc: 1024
	"\x36\x01\x02\x7f" + // run, with two variables
	"\x20\x01\x41\xc8\x01\x6c\x21\x02" + // spins * n
	"\x03\x40\x20\x03\x41\x8d\xcc\xe5\x00\x6c\x41\xdf\xe6\xbb\xe3\x03\x6a\x21\x03" + // sum*1664525 + 1013904223
	"\x20\x02\x41\x01\x6b\x22\x02\x0d\x00\x0b" +
	"\x41\x80\x08\x20\x03\x36\x02\x00\x20\x01\x41\x07\x76\x0b" + // n*8/1024 bytes
	"\x05\x00\x41\x80\x08\x0b") // output: 1024
