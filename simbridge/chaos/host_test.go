package chaos

import (
	"fmt"
	"os"
	"runtime"
	"syscall"
	"testing"
	"time"
)

// A delay counts by its part within the span, and the overlap of two delays once.
func TestDelays(t *testing.T) {
	at := time.Now()
	ms := func(n int) time.Time { return at.Add(time.Duration(n) * time.Millisecond) }
	h, leader := &hostMonitor{}, &threadDelays{}
	h.canary.add(ms(10), 4*time.Millisecond) // from 6 to 10
	h.canary.add(ms(30), 10*time.Millisecond)
	h.canary.add(ms(40), -time.Millisecond) // a timer that was early
	leader.delays.add(ms(25), 10*time.Millisecond)
	for _, c := range []struct{ from, to, want int }{
		{0, 50, 4 + 15}, {0, 8, 2}, {8, 14, 2}, {22, 28, 6}, {11, 15, 0}, {40, 50, 0}, {9, 21, 1 + 6},
	} {
		if got := h.delayBetween(leader, ms(c.from), ms(c.to)); got != time.Duration(c.want)*time.Millisecond {
			t.Errorf("from %d to %d: %v, want %d ms", c.from, c.to, got, c.want)
		}
	}
	if h.canary.total() != 14*time.Millisecond || leader.delays.total() != 10*time.Millisecond {
		t.Errorf("%v and %v in all", h.canary.total(), leader.delays.total())
	}
	if got := h.delayBetween(&threadDelays{}, ms(0), ms(50)); got != 14*time.Millisecond {
		t.Errorf("without a leader %v", got)
	}
}

// A mission flies the slower the more the machine holds programs up.
func TestSlowdown(t *testing.T) {
	for delayed, want := range map[time.Duration]float64{100 * time.Millisecond: 1, 800 * time.Millisecond: 2, 1500 * time.Millisecond: 4} {
		h := &hostMonitor{}
		h.canary.add(time.Now(), delayed)
		if got := h.slowdown(); got != want {
			t.Errorf("held up for %v of 2 s: %v times slower, want %v", delayed, got, want)
		}
	}
}

// Threads that compete for the cores wait, and the waits are measured.
func TestThreadsWaitForCores(t *testing.T) {
	stop := make(chan struct{})
	defer close(stop)
	for range 4 * runtime.NumCPU() {
		go func() {
			runtime.LockOSThread()
			for stopped := false; !stopped; {
				select {
				case <-stop:
					stopped = true
				default:
				}
			}
		}()
	}
	own := &threadDelays{pid: os.Getpid()}
	for began := time.Now(); own.delays.total() < time.Millisecond; own.sample() {
		if time.Since(began) > 20*time.Second {
			t.Fatal("no wait for a core was measured")
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// The computing of a thread is no delay: only the time in which it did not compute can be
// a wait.
func TestComputingIsNoDelay(t *testing.T) {
	name := func() string { return fmt.Sprintf("/proc/%d/task/%d/schedstat", os.Getpid(), syscall.Gettid()) }
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	file, err := os.Open(name())
	if err != nil {
		t.Skip("no schedstat on this kernel")
	}
	defer file.Close()
	before, _ := runDelayNS(file)
	var began, now syscall.Rusage
	syscall.Getrusage(1, &began) // of this thread
	computed := func() time.Duration {
		syscall.Getrusage(1, &now)
		return time.Duration(now.Utime.Nano() - began.Utime.Nano())
	}
	start := time.Now()
	for computed() < 200*time.Millisecond {
	}
	after, _ := runDelayNS(file)
	waited, took := time.Duration(after-before), time.Since(start)
	if waited > took-150*time.Millisecond {
		t.Errorf("computed for 200 ms of %v, and is excused for %v", took, waited)
	}
}

// Neither a run nor another one beside it gets a port twice, though none is open yet.
func TestPortsAreAllocatedOnce(t *testing.T) {
	seen := map[string]bool{}
	for range 2 {
		var p ports
		defer p.close()
		for range 50 {
			for _, network := range []string{"udp", "tcp"} {
				address, err := p.allocate(network)
				if err != nil || seen[address] {
					t.Fatalf("%s again, %v", address, err)
				}
				seen[address] = true
			}
		}
	}
}
