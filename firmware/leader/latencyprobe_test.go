package leader_test

import (
	"bufio"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// latencyProbe is another process on the same machine: it wakes as often as a leader
// does, computes for a moment, and counts the slots in which it was late itself.
type latencyProbe struct {
	t       *testing.T
	command *exec.Cmd
	out     *bufio.Scanner
	close   func() error
}

const (
	probeEnv  = "PREFDT_WITNESS_SLOT"
	probeWork = 200 * time.Microsecond
)

func startLatencyProbe(t *testing.T, slot time.Duration) *latencyProbe {
	t.Helper()
	c := exec.Command(os.Args[0], "-test.run=^TestLatencyProbe$")
	c.Env = append(os.Environ(), probeEnv+"="+slot.String(), "GOMAXPROCS=1")
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	w := &latencyProbe{t, c, bufio.NewScanner(out), in.Close}
	t.Cleanup(func() { c.Process.Kill(); c.Wait() })
	if !w.out.Scan() { // it is running
		t.Fatal("the latency probe did not start")
	}
	return w
}

// stop returns in how many slots the probe was late, of how many.
func (w *latencyProbe) stop() (late, slots int) {
	w.t.Helper()
	w.close()
	if !w.out.Scan() {
		w.t.Fatal("the latency probe printed nothing")
	}
	if _, err := fmt.Sscan(w.out.Text(), &late, &slots); err != nil {
		w.t.Fatalf("the latency probe printed %q", w.out.Text())
	}
	return late, slots
}

// TestLatencyProbe is the probe, when it is started as one.
func TestLatencyProbe(t *testing.T) {
	text := os.Getenv(probeEnv)
	if text == "" {
		return
	}
	slot, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	end := make(chan struct{})
	go func() {
		defer close(end)
		os.Stdin.Read(make([]byte, 1))
	}()
	fmt.Println("watching")
	began, worst := time.Now(), map[int]time.Duration{}
	hung := watchDisk(t, began, slot)
	for next := began; ; next = next.Add(slot / 40) {
		select {
		case <-end:
			late := 0
			for _, d := range worst {
				// A leader that is held up for this long, at each of the things that it
				// waits for in a slot, may miss it.
				if d > slot/20 {
					late++
				}
			}
			for n := range hung() {
				if worst[n] <= slot/20 {
					late++
				}
			}
			fmt.Println(strings.Join([]string{strconv.Itoa(late), strconv.Itoa(int(time.Since(began)/slot) + 1)}, " "))
			return
		case <-time.After(time.Until(next)):
		}
		for start := time.Now(); time.Since(start) < probeWork; {
		}
		n := int(next.Sub(began) / slot)
		worst[n] = max(worst[n], time.Since(next))
	}
}

// watchDisk writes to the disk in each slot, as a leader does before it decides, and returns the slots in
// which a write took longer than half of one.
func watchDisk(t *testing.T, began time.Time, slot time.Duration) (hung func() map[int]bool) {
	file, err := os.CreateTemp("", "latency-probe")
	if err != nil {
		t.Fatal(err)
	}
	os.Remove(file.Name()) // it lasts as long as this process
	var mutex sync.Mutex
	late := map[int]bool{}
	go func() {
		for n := 0; ; n++ {
			time.Sleep(time.Until(began.Add(time.Duration(n) * slot)))
			start := time.Now()
			if _, err := file.WriteAt(make([]byte, 4096), 0); err != nil {
				return
			}
			if file.Sync() != nil || time.Since(start) <= slot/2 {
				continue
			}
			mutex.Lock()
			for k := int(start.Sub(began) / slot); k <= int(time.Since(began)/slot); k++ {
				late[k] = true
			}
			mutex.Unlock()
		}
	}()
	return func() map[int]bool {
		mutex.Lock()
		defer mutex.Unlock()
		return maps.Clone(late)
	}
}
