package chaos

import (
	"runtime"
	"testing"
	"time"
)

// What was measured counts by its part within the span that is asked for.
func TestDelaysBetween(t *testing.T) {
	at := time.Now()
	ms := func(n int) time.Time { return at.Add(time.Duration(n) * time.Millisecond) }
	var r record
	r.add(ms(10), 4*time.Millisecond) // from 6 to 10
	r.add(ms(30), 10*time.Millisecond)
	r.add(ms(40), -time.Millisecond) // a timer that was early
	for _, c := range []struct{ from, to, want int }{
		{0, 50, 14}, {0, 8, 2}, {8, 15, 2}, {22, 28, 6}, {11, 19, 0}, {40, 50, 0}, {9, 21, 2},
	} {
		if got := r.between(ms(c.from), ms(c.to)); got != time.Duration(c.want)*time.Millisecond {
			t.Errorf("from %d to %d: %v, want %d ms", c.from, c.to, got, c.want)
		}
	}
	if r.total != 14*time.Millisecond {
		t.Errorf("%v in all", r.total)
	}
}

// Threads that fight for the cores wait, and are seen to; what computes alone
// and takes long is not excused.
func TestThreadsWaitForCores(t *testing.T) {
	stop := make(chan struct{})
	defer close(stop)
	began := time.Now()
	own := &threads{pid: 1} // nobody's that we may not read, or idle
	own.sample()
	if d := own.between(began, time.Now()); d > time.Since(began) {
		t.Errorf("a process that sleeps waited for %v", d)
	}
	h := newHost()
	defer h.close()
	time.Sleep(50 * time.Millisecond)
	began = time.Now()
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
	for h.own.between(began, time.Now()) < time.Millisecond {
		if time.Since(began) > 20*time.Second {
			t.Fatal("no thread was seen to wait for a core")
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func TestPortsAreHandedOutOnce(t *testing.T) {
	var p ports
	seen := map[string]bool{}
	for range 50 {
		for _, network := range []string{"udp", "tcp"} {
			address, err := p.free(network)
			if err != nil || seen[address] {
				t.Fatalf("%s again, %v", address, err)
			}
			seen[address] = true
		}
	}
}
