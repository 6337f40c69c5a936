package main

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"prefdt/configs/built"
)

// How late a 10 Hz loop is beside workers that compute without end, four on a core: by the unit's
// scheduling policy, and at the loop's own priority. The ratios are of one run:
//
//	go test ./firmware/worker -run '^$' -bench LoopBesideWorkers -benchtime 1x
//
// Only the unit's CPUSchedulingPolicy is set, as its CPUWeight needs a group of its own.
func BenchmarkLoopBesideWorkers(b *testing.B) {
	folder := b.TempDir()
	programs := filepath.Join(folder, "bin")
	for _, of := range []string{"worker", "worker/blobs"} {
		if err := built.Program(filepath.Join(programs, filepath.Base(of)), "prefdt/firmware/"+of); err != nil {
			b.Fatal(err)
		}
	}
	text := fmt.Sprintf("calibration: %s/c.json\nfunctions: [{id: blobs, command: [%s/blobs], unit_bytes: 1024, output_bytes: 8}]\n",
		folder, programs)
	config := filepath.Join(folder, "worker.yaml")
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		b.Fatal(err)
	}
	unit, err := os.ReadFile("../../configs/systemd/prefdt-worker.service")
	if err != nil {
		b.Fatal(err)
	}
	policy, _, _ := strings.Cut(strings.SplitN(string(unit), "CPUSchedulingPolicy=", 2)[1], "\n")
	compute := []string{filepath.Join(programs, "worker"), "calibrate", "-config", config, "-tasks", "1000", "-every", "0s"}
	worst := map[string]time.Duration{}
	for _, beside := range []struct {
		name   string
		worker []string
	}{
		{"alone", nil},
		{"unit", append([]string{"chrt", "--" + policy, "0"}, compute...)},
		{"same", compute},
	} {
		b.Run(beside.name, func(b *testing.B) {
			end := func() {}
			if beside.worker != nil {
				end = startWorkers(b, beside.worker, 4*runtime.NumCPU())
			}
			var late []time.Duration
			for b.Loop() {
				late = append(late, lateness(3*time.Second)...)
			}
			end()
			slices.Sort(late)
			worst[beside.name] = late[len(late)*99/100]
			b.ReportMetric(float64(worst[beside.name])/1e6, "p99-ms")
			b.ReportMetric(float64(worst[beside.name])/float64(worst["alone"]), "of-alone")
		})
	}
	b.Logf("p99 of lateness beside workers: %.2f times as without them by the unit's policy, %.1f times at the loop's priority",
		float64(worst["unit"])/float64(worst["alone"]), float64(worst["same"])/float64(worst["alone"]))
}

// startWorkers starts workers that compute, and returns what ends them.
func startWorkers(b *testing.B, args []string, n int) (end func()) {
	b.Helper()
	var all []*exec.Cmd
	for range n {
		c := exec.Command(args[0], args[1:]...)
		c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // their executors end with them
		if err := c.Start(); err != nil {
			b.Fatal(err)
		}
		all = append(all, c)
	}
	time.Sleep(time.Second) // they have begun
	return sync.OnceFunc(func() {
		for _, c := range all {
			syscall.Kill(-c.Process.Pid, syscall.SIGKILL)
			c.Wait()
		}
	})
}

// lateness is when 10 Hz loops were through after they were due. Each computes for about a
// millisecond a turn, as a leader that decides. Ten of them side by side give as many figures in a
// tenth of the time.
func lateness(during time.Duration) (late []time.Duration) {
	const loops, period = 10, 100 * time.Millisecond
	var mutex sync.Mutex
	var running sync.WaitGroup
	began := time.Now()
	for k := range loops {
		running.Go(func() {
			for due := began.Add(time.Duration(k) * period / loops); due.Sub(began) < during; due = due.Add(period) {
				time.Sleep(time.Until(due))
				block := make([]byte, 1<<16)
				for range 16 {
					sum := sha256.Sum256(block)
					copy(block, sum[:])
				}
				mutex.Lock()
				late = append(late, time.Since(due))
				mutex.Unlock()
			}
		})
	}
	running.Wait()
	return late
}
