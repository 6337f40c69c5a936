package share

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"prefdt/firmware/worker/executor"
)

// timed is an executor in virtual time: a byte takes a microsecond, and a chunk of zeros ends never.
type timed struct {
	stops, goesOn, killed chan struct{}
	kill                  sync.Once
}

func newTimed() (Executor, error) {
	return &timed{stops: make(chan struct{}, 1), goesOn: make(chan struct{}, 1), killed: make(chan struct{})}, nil
}

func (x *timed) Run(_ uint32, input []byte, _ int) ([]byte, time.Duration, error) {
	cpu, had := time.Duration(len(input))*time.Microsecond, time.Duration(0)
	if input[0] == 0 {
		cpu = time.Hour
	}
	for had < cpu {
		timer, began := time.NewTimer(cpu-had), time.Now()
		select {
		case <-timer.C:
			return nil, cpu, nil
		case <-x.stops:
			had += time.Since(began)
			select {
			case <-x.goesOn:
			case <-x.killed:
				return nil, had, executor.ErrKilled
			}
		case <-x.killed:
			return nil, had + time.Since(began), executor.ErrKilled
		}
	}
	return nil, cpu, nil
}

func (x *timed) Stop()                                     { x.stops <- struct{}{} }
func (x *timed) Continue()                                 { x.goesOn <- struct{}{} }
func (x *timed) Kill()                                     { x.kill.Do(func() { close(x.killed) }) }
func (x *timed) Exceeds() bool                             { return false }
func (x *timed) CPU() (kernel, own time.Duration, ok bool) { return 0, 0, false }
func (x *timed) Ended() bool {
	select {
	case <-x.killed:
		return true
	default:
		return false
	}
}

// A worker that has granted up to what it has keeps to its grants within 15 %, and is fair beside a user whose function loops too.
// Each user has a task a slot, of 0.8 slots as granted, none while one is in progress, and goes after three slots. With -v: docs/tasks.md.
func TestLoads(t *testing.T) {
	for _, loops := range []bool{false, true} {
		for _, users := range []int{1, 8, 64} {
			for _, load := range []float64{0.5, 0.9, 1.5, 3} {
				if loops && users == 1 {
					continue
				}
				synctest.Test(t, func(t *testing.T) { testLoad(t, users, load, loops) })
			}
		}
	}
}

func testLoad(t *testing.T, users int, load float64, loops bool) {
	const slots, unit = 20, 100 // bytes
	s := &Scheduler{Cores: 1, MaxTasks: 2 * users}
	s.Start()
	f := &Function{UnitBytes: unit, MaxOutput: 1, Start: newTimed}
	s.SetNSPerByte(f, 1000)
	share := min(load/float64(users), 1)
	input := slices.Repeat([]byte{1}, int(load/float64(users)*0.8e6)/unit*unit)
	granted := float64(len(input)) * 1e-6 / share
	var mutex sync.Mutex
	var over []float64
	answered := make([]float64, users)
	began := time.Now()
	var all sync.WaitGroup
	for u := range users {
		all.Go(func() {
			mine := input
			if loops && u == 0 {
				mine = make([]byte, len(input))
			}
			r := rand.New(rand.NewPCG(uint64(u), 1))
			for slot := range slots {
				if time.Since(began) > time.Duration(slot)*time.Second+time.Millisecond {
					continue // one is in progress
				}
				time.Sleep(time.Until(began.Add(time.Duration(slot)*time.Second + time.Duration(r.Int64N(int64(100*time.Millisecond))))))
				ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
				at := time.Now()
				_, err := s.Run(ctx, f, share, mine)
				cancel()
				if err == nil {
					mutex.Lock()
					over, answered[u] = append(over, time.Since(at).Seconds()/granted), answered[u]+float64(len(mine))
					mutex.Unlock()
				}
				time.Sleep(time.Until(began.Add(time.Duration(slot+1) * time.Second)))
			}
		})
	}
	all.Wait()
	took := time.Since(began).Seconds()
	s.Close()
	if loops {
		answered = answered[1:]
	}
	sum, squares := 0.0, 0.0
	for _, x := range answered {
		sum, squares = sum+x, squares+x*x
	}
	slices.Sort(over)
	at := func(q float64) float64 { return over[int(q*float64(len(over)))] }
	goodput, fairness := sum*1e-6/took, sum*sum/(float64(len(answered))*squares)
	t.Logf("%2d users, one loops: %-5v, granted %.1f: goodput %.2f, p50 %.2f, p90 %.2f, p95 %.2f of granted, Jain's index %.3f",
		users, loops, load, goodput, at(0.5), at(0.9), at(0.95), fairness)
	if load < 1 && at(0.9) > 1.15 {
		t.Errorf("p90 is %.2f times what was granted", at(0.9))
	}
	if fairness < 0.98 {
		t.Errorf("Jain's index is %.3f", fairness)
	}
	least := 0.78 * load
	if load > 1 { // a task of 1.2 slots comes every two slots
		least = 0.58
	}
	if !loops && goodput < least {
		t.Errorf("goodput %.2f, want %.2f", goodput, least)
	}
}
