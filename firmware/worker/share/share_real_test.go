//go:build real

package share

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"prefdt/firmware/worker/executor"
	"prefdt/firmware/worker/sdk"
)

// The test's own program is the executor: each function is one behaviour.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == "slow" { // to start, as a module is that a small board compiles
		for until := threadCPU() + slowStart; threadCPU() < until; {
		}
		os.Args[1] = "executor"
	}
	if len(os.Args) == 2 && os.Args[1] == "executor" {
		sdk.Serve(work, endless, grow, recurse, trap, flood, func(b []byte) ([]byte, error) { return nil, errors.New("bad input") }, asleep,
			interrupted)
		os.Exit(0)
	}
	if len(os.Args) == 2 && os.Args[1] == "liar" {
		lie()
	}
	os.Exit(m.Run())
}

const (
	fWork = iota
	fEndless
	fGrow
	fRecurse
	fTrap
	fFlood
	fRefuse
	fAsleep
	fInterrupted
)

func threadCPU() time.Duration {
	var t unix.Timespec
	unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &t)
	return time.Duration(t.Nano())
}

const slowStart = 4 * leastGranted

// unitNS is the CPU time of a unit of work, of 8 bytes.
const unitNS = 500 * time.Microsecond

// work takes unitNS of CPU time for a unit, and answers with its sum.
func work(input []byte) (out []byte, err error) {
	for len(input) > 0 {
		for until := threadCPU() + unitNS; threadCPU() < until; {
		}
		out = binary.LittleEndian.AppendUint32(out, binary.LittleEndian.Uint32(input)+binary.LittleEndian.Uint32(input[4:]))
		input = input[8:]
	}
	return out, nil
}

func endless([]byte) ([]byte, error) {
	for n := 0; ; n++ {
	}
}

// interrupted is work beside another program that has the core, between one unit and the
// next, for a hundred times as long.
func interrupted(input []byte) ([]byte, error) {
	if input[0]%2 == 1 {
		time.Sleep(100 * unitNS)
	}
	return work(input)
}

func asleep([]byte) ([]byte, error) {
	time.Sleep(time.Hour)
	return nil, nil
}

func grow([]byte) ([]byte, error) {
	var all []byte
	for {
		all = bytes.Repeat([]byte{1}, 2*len(all)+1<<22)
	}
}

func recurse(input []byte) ([]byte, error) {
	var deeper func(n int) int
	deeper = func(n int) int { return deeper(n+1) + 1 }
	return []byte{byte(deeper(0))}, nil
}

func trap([]byte) ([]byte, error) { panic("trap") }

func flood([]byte) ([]byte, error) {
	for {
		if _, err := os.Stdout.Write(bytes.Repeat([]byte{255}, 1<<16)); err != nil {
			os.Exit(1)
		}
	}
}

// lie computes and says that it took nothing.
func lie() {
	var head [8]byte
	for {
		if _, err := os.Stdin.Read(head[:]); err != nil {
			os.Exit(0)
		}
		input := make([]byte, binary.LittleEndian.Uint32(head[4:]))
		os.Stdin.Read(input)
		out, _ := work(input)
		answer := binary.LittleEndian.AppendUint64(nil, 1)
		os.Stdout.Write(append(binary.LittleEndian.AppendUint32(answer, uint32(len(out))), out...))
	}
}

func program(mode string, index uint32) *Function {
	p := executor.Program{Command: []string{os.Args[0], mode}, MemoryBytes: 160 << 20}
	return &Function{Index: index, UnitBytes: 8, MaxOutput: 4, Start: func() (Executor, error) { return p.Start() }}
}

func newScheduler(t *testing.T, cores int) *Scheduler {
	s := &Scheduler{Cores: cores, MaxTasks: 64}
	s.Start()
	t.Cleanup(s.Close)
	return s
}

func input(units int) (in, want []byte) {
	for i := range units {
		in = binary.LittleEndian.AppendUint32(in, uint32(i))
		in = binary.LittleEndian.AppendUint32(in, 7)
		want = binary.LittleEndian.AppendUint32(want, uint32(i)+7)
	}
	return in, want
}

// However a task is cut, and whatever runs beside it, its output is that of the whole.
func TestOutputIsThatOfTheWhole(t *testing.T) {
	s := newScheduler(t, 2)
	f := program("executor", fWork)
	var all sync.WaitGroup
	for units := range 24 {
		all.Go(func() {
			in, want := input(units)
			if got, err := s.Run(context.Background(), f, 0.1, in); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%d units: %v, %v; want %v", units, got, err, want)
			}
		})
	}
	all.Wait()
	in, _ := input(2)
	if _, err := s.Run(context.Background(), f, 1, in[:13]); !errors.Is(err, executor.ErrFailed) {
		t.Errorf("half a unit: %v", err)
	}
}

// While n tasks compute, each has CPU time in proportion to its share; one that never ends
// takes nothing from the others. What is judged is CPU time, not the machine's speed.
func TestCPUTimeIsInProportionToShares(t *testing.T) {
	for _, c := range []struct {
		name    string
		weights []float64
		endless bool
	}{
		{"4 tasks", []float64{1, 1, 2, 4}, false},
		{"8 tasks", []float64{1, 1, 1, 1, 1, 1, 1, 1}, false}, {"4 tasks and an endless one", []float64{1, 1, 1, 1}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newScheduler(t, 1)
			f, hog := program("executor", fWork), program("executor", fEndless)
			s.SetNSPerByte(f, float64(unitNS)/8)
			s.SetNSPerByte(hog, 1e9) // it was granted much: it is not killed here
			in, _ := input(40000)    // none ends, nor is stopped, before it is judged
			for _, w := range c.weights {
				go s.Run(context.Background(), f, w/2, in) // more than there is
			}
			if c.endless {
				go s.Run(context.Background(), hog, 0.5, in[:8])
			}
			units := func() (done []float64, shares []float64) { // whole ones, each of which takes the same CPU time
				s.mutex.Lock()
				defer s.mutex.Unlock()
				for _, x := range s.tasks {
					if x.function == f {
						n := 0.0
						for _, o := range x.outputs {
							n += float64(len(o) / 4)
						}
						done, shares = append(done, n), append(shares, x.share)
					}
				}
				return done, shares
			}
			n := len(c.weights)
			var before []float64                       // once all compute: on a busy machine one begins long after another
			for ; ; time.Sleep(5 * time.Millisecond) { // however long that takes here
				used, shares := units()
				if len(used) == n && before == nil && slices.Min(used) > 0 {
					before = slices.Clone(used)
				}
				total := 0.0
				for i := range before {
					used[i] -= before[i]
					total += used[i] * float64(unitNS)
					used[i] /= shares[i]
				}
				if total > float64(n)*float64(800*time.Millisecond) {
					slices.Sort(used)
					median := used[n/2]
					var off []float64
					for _, x := range used {
						off = append(off, math.Abs(x/median-1))
					}
					slices.Sort(off)
					if off[n/2] > 0.08 { // a chunk is 1.5 % of the least share's part
						t.Errorf("CPU time over share differs by %.1f %% in the median: %v", 100*off[n/2], used)
					}
					t.Logf("in the median %.2f %%, at most %.2f %%", 100*off[n/2], 100*off[n-1])
					return
				}
			}
		})
	}
}

// A task alone is as fast as it was granted and no faster, on however many cores.
func TestNoTaskIsFasterThanGranted(t *testing.T) {
	for _, cores := range []int{1, 2} {
		s := newScheduler(t, cores)
		f := program("executor", fWork)
		s.SetNSPerByte(f, float64(unitNS)/8)
		in, _ := input(60)
		began := time.Now()
		if _, err := s.Run(context.Background(), f, 0.1, in); err != nil {
			t.Fatal(err)
		}
		granted := 60 * unitNS * 10 / time.Duration(cores)
		if took := time.Since(began); took < granted*8/10 { // its last chunk began a chunk earlier than it would end
			t.Errorf("%d cores: %v, granted %v", cores, took, granted)
		}
	}
}

// What a core has left for tasks is CPU time over time, of all chunks together: the mean of each
// chunk's would be above a half here.
func TestAvailability(t *testing.T) {
	s := newScheduler(t, 1)
	f := program("executor", fInterrupted)
	s.SetNSPerByte(f, 1e9) // chunks of one unit, and no limit
	in, _ := input(40)
	if _, err := s.Run(context.Background(), f, 1, in); err != nil {
		t.Fatal(err)
	}
	if a := s.Stats().Availability; a > 0.1 {
		t.Errorf("%v of a core is left, want 0.02", a)
	}
}

// Where no chunk comes, nobody measures what a core has left: it is believed to be free again.
func TestAvailabilityComesBack(t *testing.T) {
	s := newScheduler(t, 1)
	f := program("executor", fInterrupted)
	s.SetNSPerByte(f, 1e9)
	in, _ := input(2) // one of them waits
	if _, err := s.Run(context.Background(), f, 1, in); err != nil {
		t.Fatal(err)
	}
	before := s.Stats().Availability
	s.measured = s.measured.Add(-3 * forgetting)
	if after := s.Stats().Availability; before > 0.1 || after < 0.9 {
		t.Errorf("%v of a core is left, and %v after %v without a task", before, after, 3*forgetting)
	}
}

// What a task may take counts from the calibration: cheap tasks before it take nothing from it. Tasks that were stopped teach nothing,
// and the CPU time that is reported never falls.
func TestLimitIsTheCalibrations(t *testing.T) {
	s := newScheduler(t, 1)
	f := program("executor", fWork)
	s.SetNSPerByte(f, float64(unitNS)/8)
	s.mutex.Lock()
	f.nsPerByte /= 100 // as if very cheap ones had come
	s.mutex.Unlock()
	in, _ := input(400)
	if _, err := s.Run(context.Background(), f, 1, in); err != nil {
		t.Errorf("an honest task after cheap ones: %v", err)
	}
	before := s.NSPerByte(f)
	endless := program("executor", fEndless)
	s.SetNSPerByte(endless, 1)
	last := s.Stats().CPU
	for range 3 {
		s.Run(context.Background(), endless, 1, in)
		if now := s.Stats().CPU; now < last {
			t.Errorf("CPU time fell from %v to %v", last, now)
		} else {
			last = now
		}
	}
	if s.NSPerByte(f) != before || s.NSPerByte(endless) != 1 {
		t.Errorf("stopped tasks taught %v ns a byte", s.NSPerByte(endless))
	}
}

// An executor that ended while it was idle costs no task.
func TestIdleExecutorThatEnded(t *testing.T) {
	s := newScheduler(t, 1)
	f := program("executor", fWork)
	s.SetNSPerByte(f, float64(unitNS)/8)
	in, _ := input(3)
	if _, err := s.Run(context.Background(), f, 1, in); err != nil {
		t.Fatal(err)
	}
	process := f.idle[0].(*executor.Process)
	process.Kill()
	if _, err := s.Run(context.Background(), f, 1, in); err != nil {
		t.Error(err)
	}
}

// Whatever a function does, its task ends with an error, and the next one is computed.
func TestHostileFunctions(t *testing.T) {
	for _, c := range []struct {
		name    string
		index   uint32
		granted float64 // ns a byte
		want    error
	}{
		{"a loop", fEndless, 1, ErrStopped},
		{"memory without end", fGrow, 1e9, nil},
		{"recursion", fRecurse, 1e9, nil},
		{"a trap", fTrap, 1, executor.ErrBroken},
		{"output without end", fFlood, 1e9, executor.ErrBroken},
		{"an error", fRefuse, 1, executor.ErrFailed},
		{"a wait without end", fAsleep, 1, ErrStopped},
		{"no such function", 99, 1, executor.ErrFailed},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newScheduler(t, 1)
			in, want := input(3)
			f := program("executor", c.index)
			s.SetNSPerByte(f, c.granted)
			_, err := s.Run(context.Background(), f, 0.5, in)
			if c.want == nil { // by the kernel or the scheduler; on a slow machine its time ends first
				if !errors.Is(err, executor.ErrBroken) && !errors.Is(err, ErrMemory) && !errors.Is(err, ErrStopped) {
					t.Errorf("%v, want the memory limit", err)
				}
			} else if !errors.Is(err, c.want) {
				t.Errorf("%v, want %v", err, c.want)
			}
			if got, err := s.Run(context.Background(), program("executor", fWork), 0.5, in); err != nil || !bytes.Equal(got, want) {
				t.Errorf("the next task: %v, %v", got, err)
			}
		})
	}
}

// What a process takes to start is no task's: neither the first process of a program, of which nothing is
// known yet, nor a later one is stopped for it. A loop in a later one is.
func TestStartIsNoTasks(t *testing.T) {
	s := newScheduler(t, 1)
	in, want := input(3)
	p := executor.Program{Command: []string{os.Args[0], "slow"}}
	start := func() (Executor, error) { return p.Start() }
	for i := range 2 {
		f := &Function{Index: fWork, UnitBytes: 8, MaxOutput: 4, Start: start} // each has processes of its own
		s.SetNSPerByte(f, 1)
		if got, err := s.Run(context.Background(), f, 1, in); err != nil || !bytes.Equal(got, want) {
			t.Errorf("process %d: %v, %v", i+1, got, err)
		}
	}
	loop := &Function{Index: fEndless, UnitBytes: 8, MaxOutput: 4, Start: start}
	s.SetNSPerByte(loop, 1)
	before := s.Stats().CPU
	if _, err := s.Run(context.Background(), loop, 1, in); !errors.Is(err, ErrStopped) {
		t.Errorf("%v, want %v", err, ErrStopped)
	}
	if used := s.Stats().CPU - before; used > 5*slowStart {
		t.Errorf("a loop had %v of CPU time", used)
	}
}

// An executor that hides its CPU time is found out by the kernel's account.
func TestLyingExecutorIsKilled(t *testing.T) {
	s := newScheduler(t, 1)
	liar, honest := program("liar", 0), program("executor", fWork)
	in, _ := input(300)
	for _, f := range []*Function{liar, honest} {
		for range 2 { // the first answer of a process ends its start
			s.SetNSPerByte(f, float64(unitNS)/8)
			if _, err := s.Run(context.Background(), f, 1, in); err != nil {
				t.Fatal(err)
			}
		}
	}
	if n := s.Audit(honest); n != 0 {
		t.Errorf("%d honest executors were killed", n)
	}
	if n := s.Audit(liar); n != 1 {
		t.Errorf("%d lying executors were killed, want 1", n)
	}
}

// What a scheduler has accepted ends when it is closed, and it takes no more.
func TestClose(t *testing.T) {
	s := &Scheduler{Cores: 2, MaxTasks: 3}
	s.Start()
	f := program("executor", fEndless)
	s.SetNSPerByte(f, 1e9)
	in, _ := input(2)
	errs := make(chan error)
	for range 3 {
		go func() { _, err := s.Run(context.Background(), f, 1, in); errs <- err }()
	}
	for s.inProgress() < 3 {
		time.Sleep(time.Millisecond)
	}
	if _, err := s.Run(context.Background(), f, 1, in); err != ErrBusy {
		t.Errorf("a fourth task: %v", err)
	}
	s.Close()
	for range 3 {
		if err := <-errs; err != ErrClosed {
			t.Error(err)
		}
	}
	if _, err := s.Run(context.Background(), f, 1, in); err != ErrBusy {
		t.Errorf("after Close: %v", err)
	}
}

func (s *Scheduler) inProgress() int {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return len(s.tasks)
}

func ExampleScheduler() {
	p := executor.Program{Command: []string{os.Args[0], "executor"}}
	s := &Scheduler{Cores: 1, MaxTasks: 4}
	s.Start()
	defer s.Close()
	f := &Function{UnitBytes: 8, MaxOutput: 4, Start: func() (Executor, error) { return p.Start() }}
	output, err := s.Run(context.Background(), f, 0.5, []byte{1, 0, 0, 0, 2, 0, 0, 0})
	fmt.Println(output, err)
	// Output: [3 0 0 0] <nil>
}
