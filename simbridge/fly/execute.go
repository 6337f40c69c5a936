package fly

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/goccy/go-yaml"

	"prefdt/configs/freeport"
	"prefdt/inference/physics"
	"prefdt/simbridge/process"
	"prefdt/simbridge/report"
	"prefdt/telemetry"
	"prefdt/telemetry/access"
	"prefdt/telemetry/task"
)

// execution computes the tasks of a flight: a worker for each aircraft, a process for each
// user, and between them the simulated channel.
//
// Each task of the world is an image, dropped into its user's folder before the slot opens.
// Users are told from each other by the address that they connect from, and their uploads
// run at the rate of the world's gain.
type execution struct {
	*flight
	folder  string
	closers []func()
	stopped sync.Once
	ended   chan struct{}  // closed by stop
	staging sync.WaitGroup // what prepares slots beside the flight

	cyclesPerBit float64 // the world's, unless the function is too light for it

	mutex    sync.Mutex
	slot     int                 // open now
	rates    map[[3]int]float64  // bit/s by slot, user and aircraft
	outcomes map[string]*outcome // by the task's file
	// CPU of aircraft, summed over the beacons that offered it, and how many those were.
	offeredHz float64
	offered   int
}

// outcome is a line of a user's output.
type outcome struct {
	File        string   `json:"file"`
	Slot        int      `json:"slot"`
	By          string   `json:"by"`
	Aircraft    int      `json:"aircraft"`
	Chosen      int      `json:"chosen"`
	Bytes       int      `json:"bytes"`
	EdgeBytes   int      `json:"edge_bytes"`
	CPUHz       float64  `json:"cpu_hz"`
	CompletionS float64  `json:"completion_s"`
	LocalS      *float64 `json:"local_s"`
	UploadS     *float64 `json:"upload_s"`
	EdgeS       *float64 `json:"edge_s"`
	Problem     string   `json:"problem"`

	user int
	task physics.Task
}

// tileBytes and answerBytes are those of a unit of the function blobs.
const tileBytes, answerBytes = 1024, 8

// userAddress is from where a user connects to workers: the channel knows it by that.
func userAddress(user int) string { return fmt.Sprintf("127.0.1.%d", user+1) }

func userID(user int) string { return fmt.Sprintf("u%02d", user+1) }

func (e *execution) start(ctx context.Context) error {
	folder, err := filepath.Abs(filepath.Join(e.Out, "tasks"))
	if err != nil {
		return err
	}
	if err := os.RemoveAll(folder); err != nil {
		return fmt.Errorf("clear the tasks of the flight before: %w", err)
	}
	e.folder, e.slot, e.rates, e.outcomes = folder, -1, map[[3]int]float64{}, map[string]*outcome{}
	tls := filepath.Join(folder, "tls")
	var wanted []access.Certificate
	for m := range e.Aircraft {
		wanted = append(wanted, access.Certificate{Name: access.WorkerName(m + 1), Role: access.RoleWorker, Hosts: []string{"127.0.0.1"}})
	}
	for i := range e.World.Users {
		wanted = append(wanted, access.Certificate{Name: userID(i), Role: access.RoleUser})
	}
	const valid = 30 * 24 * time.Hour
	if _, err := access.Issue(tls, wanted, access.Validity{Authority: valid, Others: valid}, time.Now()); err != nil {
		return err
	}
	for m := range e.Aircraft {
		if err := task.WriteKey(access.GrantKeyFile(tls, m+1)); err != nil {
			return err
		}
	}
	sample, err := e.image(0)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(folder, "sample"), sample, 0o644); err != nil {
		return err
	}
	program, err := filepath.Abs(e.Blobs[0])
	if err != nil {
		return err
	}
	function := map[string]any{"id": "blobs", "command": append([]string{program}, e.Blobs[1:]...), "unit_bytes": tileBytes,
		"output_bytes": answerBytes}
	if err := e.startWorkers(ctx, tls, function); err != nil {
		return err
	}
	for slot := range staged {
		e.stage(slot)
	}
	e.prepare(0)
	return e.startUsers(tls, function)
}

// startWorkers calibrates the function here and starts a worker for each aircraft, with the
// channel before it. A core's speed is such that the function has the world's cycles a bit.
func (e *execution) startWorkers(ctx context.Context, tls string, function map[string]any) error {
	calibration := filepath.Join(e.folder, "calibration.json")
	c := map[string]any{"fleet": e.Fleet, "functions": []any{withSample(function, filepath.Join(e.folder, "sample"))},
		"calibration": calibration, "broker": map[string]any{"url": e.url}}
	path, err := e.write("calibrate.yaml", c)
	if err != nil {
		return err
	}
	e.view.printLine("measuring what the function takes here, one task a second")
	args := append(slices.Clone(e.Worker), "calibrate", "-config", path)
	if e.calibrateTasks > 0 {
		args = append(args, "-tasks", fmt.Sprint(e.calibrateTasks))
	}
	line, err := process.Run(ctx, args)
	if err != nil {
		return err
	}
	e.view.printLine(line)
	raw, err := os.ReadFile(calibration)
	if err != nil {
		return err
	}
	var measured map[string]struct {
		NSPerByte float64 `json:"ns_per_byte"`
	}
	if err := json.Unmarshal(raw, &measured); err != nil {
		return fmt.Errorf("calibration: %w", err)
	}
	coreHz := min(8e9*e.World.CyclesPerBit/measured["blobs"].NSPerByte, e.World.Physics.EdgeCPUHz)
	e.cyclesPerBit = measured["blobs"].NSPerByte * coreHz / 8e9
	c["core_hz"] = coreHz
	for m := range e.Aircraft {
		address, err := freeport.Address()
		if err != nil {
			return err
		}
		name := access.WorkerName(m + 1)
		c["aircraft"], c["listen"], c["ca"] = m+1, address, filepath.Join(tls, "ca.crt")
		c["cert"], c["key"] = access.Files(tls, name)
		c["grant_key"] = access.GrantKeyFile(tls, m+1)
		if path, err = e.write(name+".yaml", c); err != nil {
			return err
		}
		worker, err := process.Start(append(slices.Clone(e.Worker), "-config", path), filepath.Join(e.folder, name+".log"))
		if err != nil {
			return err
		}
		e.closers = append(e.closers, worker.Stop)
		channel, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		e.closers = append(e.closers, func() { channel.Close() })
		go e.carry(channel, m, address)
		e.Leader.workers = append(e.Leader.workers, map[string]any{"worker": channel.Addr().String(), "grant_key": c["grant_key"]})
	}
	return nil
}

func withSample(function map[string]any, path string) map[string]any {
	out := map[string]any{"sample": path}
	for k, v := range function {
		out[k] = v
	}
	return out
}

func (e *execution) write(name string, c map[string]any) (path string, err error) {
	raw, err := yaml.Marshal(c)
	if err != nil {
		return "", err
	}
	path = filepath.Join(e.folder, name)
	return path, os.WriteFile(path, raw, 0o644)
}

// startUsers starts a process for each user of the world.
func (e *execution) startUsers(tls string, function map[string]any) error {
	function["cycles_per_bit"] = e.cyclesPerBit
	for i := range e.World.Users {
		id := userID(i)
		certificate, key := access.Files(tls, id)
		at := e.users.Positions()[i]
		path, err := e.write(id+".yaml", map[string]any{
			"id": id, "fleet": e.Fleet, "broker": map[string]any{"url": e.url}, "ca": filepath.Join(tls, "ca.crt"), "cert": certificate,
			"key":  key,
			"from": userAddress(i), "position_m": []float64{at.EastM, at.NorthM}, "deadline_s": e.World.DeadlineMinS,
			"cpu_hz":    e.World.UserCPUHz,
			"gain_file": filepath.Join(e.folder, id+".gain"), "functions": []any{function},
		})
		if err != nil {
			return err
		}
		log, err := os.Create(filepath.Join(e.folder, id+".log"))
		if err != nil {
			return err
		}
		args := append(slices.Clone(e.User), "-config", path, "-watch", filepath.Join(e.folder, id), "-function", "blobs")
		user := exec.Command(args[0], args[1:]...)
		user.Stderr = log
		lines, err := user.StdoutPipe()
		if err != nil {
			return err
		}
		if err := user.Start(); err != nil {
			return fmt.Errorf("start %s: %w", args[0], err)
		}
		printed, err := os.Create(filepath.Join(e.folder, id+".json"))
		if err != nil {
			return err
		}
		read := make(chan struct{})
		go func() {
			e.read(i, io.TeeReader(lines, printed))
			printed.Close()
			close(read)
		}()
		e.closers = append(e.closers, func() {
			user.Process.Signal(syscall.SIGTERM)
			<-read
			user.Wait()
			log.Close()
		})
	}
	return nil
}

// read takes a user's outcomes.
func (e *execution) read(user int, lines io.Reader) {
	for s := bufio.NewScanner(lines); s.Scan(); {
		o := &outcome{user: user}
		if err := json.Unmarshal(s.Bytes(), o); err != nil {
			e.log.Warn("user", "line", s.Text(), "reason", err)
			continue
		}
		if o.task = e.users.Task(o.Slot, user); o.task.Bits == 0 {
			e.log.Warn("a task of another slot", "user", user, "slot", o.Slot, "file", o.File)
			continue
		}
		e.mutex.Lock()
		e.outcomes[filepath.Join(userID(user), o.File)] = o
		e.mutex.Unlock()
		e.users.Finish(o.Slot, user, o.By, o.Aircraft-1, float64(o.EdgeBytes)/float64(o.Bytes), o.CPUHz, o.CompletionS)
	}
}

// stop ends what start started, the last first.
func (e *execution) stop() {
	e.stopped.Do(func() {
		e.mutex.Lock()
		close(e.ended)
		e.mutex.Unlock()
		e.staging.Wait()
		for _, c := range slices.Backward(e.closers) {
			c()
		}
	})
}

// openSlot has the tasks of the next slot dropped once this one's were taken.
func (e *execution) openSlot(b *telemetry.Slot) {
	slot := b.Slot
	e.mutex.Lock()
	defer e.mutex.Unlock()
	select {
	case <-e.ended:
		return
	default:
	}
	e.slot = slot
	for _, a := range b.Offer.Aircraft {
		e.offeredHz, e.offered = e.offeredHz+a.CPUHz, e.offered+1
	}
	e.staging.Go(func() {
		select {
		case <-time.After(600 * time.Millisecond):
			e.prepare(slot + 1)
			e.stage(slot + staged)
		case <-e.ended:
		}
	})
}

// staged is for how many slots ahead images are made: that takes a while on a busy machine.
const staged = 8

// stage makes the images of a slot.
func (e *execution) stage(slot int) {
	for i := range e.World.Users {
		folder := filepath.Join(e.folder, userID(i))
		if err := os.MkdirAll(folder, 0o755); err != nil {
			e.log.Error("tasks", "reason", err)
		}
		if t := e.users.Task(slot, i); t.Bits > 0 {
			image, err := e.imageOf(t, uint64(slot)*1000+uint64(i))
			if err == nil {
				err = os.WriteFile(filepath.Join(folder, fmt.Sprintf(".%04d", slot)), image, 0o644)
			}
			if err != nil {
				e.log.Error("tasks", "reason", err)
			}
		}
	}
}

// prepare drops a slot's images and measured gains.
func (e *execution) prepare(slot int) {
	for i := range e.World.Users {
		gains := map[int]float64{}
		for m := range e.Aircraft {
			gains[m+1] = e.users.Upload(slot, i, m)
		}
		raw, _ := json.Marshal(gains)
		e.replace(filepath.Join(e.folder, userID(i)+".gain"), raw)
		name := fmt.Sprintf("%04d", slot)
		os.Rename(filepath.Join(e.folder, userID(i), "."+name), filepath.Join(e.folder, userID(i), name)) // if it has a task
	}
}

func (e *execution) replace(path string, raw []byte) {
	temporary := filepath.Join(filepath.Dir(path), "."+filepath.Base(path))
	if err := os.WriteFile(temporary, raw, 0o644); err != nil {
		e.log.Error("tasks", "reason", err)
		return
	}
	os.Rename(temporary, path)
}

func (e *execution) image(seed uint64) ([]byte, error) {
	return e.imageOf(physics.Task{Bits: (e.World.BitsMin + e.World.BitsMax) / 2}, seed)
}

// imageOf is an image of a task's size, of the generator that the function ships with.
func (e *execution) imageOf(t physics.Task, seed uint64) ([]byte, error) {
	tiles := max(1, int(math.Round(t.Bits/8/tileBytes)))
	args := append(slices.Clone(e.Blobs), "generate", "-tiles", fmt.Sprint(tiles), "-seed", fmt.Sprint(seed))
	out, err := exec.Command(args[0], args[1:]...).Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", args[0], err)
	}
	return out, nil
}

// carry is the channel to aircraft m: what users send runs at their rate.
func (e *execution) carry(l net.Listener, m int, worker string) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			host, _, _ := net.SplitHostPort(c.RemoteAddr().String())
			user := -1
			for i := range e.World.Users {
				if userAddress(i) == host {
					user = i
				}
			}
			w, err := net.Dial("tcp", worker)
			if err != nil || user < 0 {
				return
			}
			defer w.Close()
			go func() {
				io.Copy(c, w)
				c.Close()
			}()
			e.shape(w, c, user, m)
		}()
	}
}

// idle is how long a connection is quiet before an upload is another one. What a sleep takes
// too long within one is made up for.
const idle = 100 * time.Millisecond

// shape copies at the rate of the world's gain in the slot that is open.
func (e *execution) shape(dst io.Writer, src io.Reader, user, m int) {
	buffer, free := make([]byte, 2048), time.Time{}
	for {
		n, err := src.Read(buffer)
		if n > 0 {
			if now := time.Now(); now.Sub(free) > idle {
				free = now
			}
			free = free.Add(time.Duration(8 * float64(n) / e.rate(user, m) * float64(time.Second)))
			time.Sleep(time.Until(free))
			if _, err := dst.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// rate is that of a user's upload to aircraft m in the slot that is open, bit/s.
func (e *execution) rate(user, m int) float64 {
	e.mutex.Lock()
	slot := max(e.slot, 0)
	rate, ok := e.rates[[3]int{slot, user, m}]
	e.mutex.Unlock()
	if ok {
		return rate
	}
	c := &e.World.Physics.Channel
	rate = max(c.RateBPS(e.users.Upload(slot, user, m), c.BandwidthHz), 1e3)
	e.mutex.Lock()
	e.rates[[3]int{slot, user, m}] = rate
	e.mutex.Unlock()
	return rate
}

// summarize ends the users, compares every output with the whole's, and the times with
// those of the model.
func (e *execution) summarize() *report.Executed {
	e.stop()
	x := &report.Executed{Problems: map[string]int{}, CyclesPerBit: e.cyclesPerBit}
	var upload, local, edge []float64
	c := &e.World.Physics
	for file, o := range e.outcomes {
		x.Tasks++
		if same, blobs := e.check(filepath.Join(e.folder, file)); same {
			x.Identical++
			x.Found += blobs
		}
		if o.Problem != "" {
			x.Problems[o.Problem]++
		}
		if o.Chosen > 0 && o.By == telemetry.ByOffer {
			x.ByOffer++
		} else if o.Chosen > 0 {
			x.Decided++
		}
		bits := 8 * float64(o.Bytes)
		t := physics.Task{Bits: bits, CyclesPerBit: e.cyclesPerBit, DeadlineS: o.task.DeadlineS}
		rho := float64(o.EdgeBytes) / float64(o.Bytes)
		partS, modelledS := (1-rho)*t.LocalTimeS(e.World.UserCPUHz), t.LocalTimeS(e.World.UserCPUHz)
		if o.LocalS != nil && partS > 0.01 {
			local = append(local, *o.LocalS/partS-1)
		}
		if o.Chosen > 0 && o.EdgeBytes > 0 {
			share := physics.Share{CPUHz: o.CPUHz, RateBPS: e.rates[[3]int{o.Slot, o.user, o.Chosen - 1}]}
			modelledS = physics.CompletionS(modelledS, t.OffloadTimeS(share), rho)
			if o.Aircraft > 0 {
				x.Done++
				upload = append(upload, *o.UploadS/(rho*bits/share.RateBPS)-1)
				edge = append(edge, *o.EdgeS/(rho*t.Cycles()/share.CPUHz)-1)
			}
		}
		if !math.IsInf(modelledS, 0) && !math.IsNaN(modelledS) {
			x.MeasuredDelayS += c.PenalizedDelayS(t, o.CompletionS)
			x.ModelledDelayS += c.PenalizedDelayS(t, modelledS)
		}
	}
	x.UploadError, x.UploadP90 = medianAndP90(upload)
	x.LocalError, x.LocalP90 = medianAndP90(local)
	x.EdgeError, x.EdgeP90 = medianAndP90(edge)
	if e.offered > 0 {
		x.EdgeCPUHz = e.offeredHz / float64(e.offered)
	}
	e.log.Info("executed", slog.Any("summary", x))
	return x
}

// check computes a file again, whole, and returns whether its output is the same, and how
// many blobs there are.
func (e *execution) check(path string) (same bool, blobs int) {
	input, err1 := os.ReadFile(path)
	joined, err2 := os.ReadFile(path + ".out")
	head := binary.LittleEndian.AppendUint32(make([]byte, 4), uint32(len(input)))
	whole := exec.Command(e.Blobs[0], e.Blobs[1:]...)
	whole.Stdin = bytes.NewReader(append(head, input...))
	out, err3 := whole.Output()
	if err1 != nil || err2 != nil || err3 != nil || len(out) < 12 {
		return false, 0
	}
	for i := 0; i+answerBytes <= len(joined); i += answerBytes {
		blobs += int(binary.LittleEndian.Uint16(joined[i:]))
	}
	return bytes.Equal(out[12:], joined), blobs
}

func medianAndP90(errors []float64) (median, p90 float64) {
	if len(errors) == 0 {
		return 0, 0
	}
	sizes := make([]float64, len(errors))
	for i, x := range errors {
		sizes[i] = math.Abs(x)
	}
	slices.Sort(errors)
	slices.Sort(sizes)
	return errors[len(errors)/2], sizes[len(sizes)*9/10]
}
