package main

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/cookiejar"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"prefdt/telemetry"
)

// stopWithin is how soon a STOP must be answered. The default does not depend on the machine's speed.
var stopWithin = flag.Duration("stop-within", testTimeout, "how soon a STOP must be answered in TestStopAlways")

// lossyLink is a relay in which a segment is lost with a probability of 5 %, as TCP shows it: what was lost comes a
// retransmission timeout later, 200 ms and twice as much each time, and all behind it waits.
func lossyLink(t *testing.T, to string) (address string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	carry := func(to, from net.Conn, dice *rand.Rand) {
		defer to.Close()
		segment := make([]byte, 1448)
		for {
			n, err := from.Read(segment)
			for wait := 200 * time.Millisecond; dice.Float64() < .05; wait *= 2 {
				time.Sleep(wait)
			}
			if _, e := to.Write(segment[:n]); err != nil || e != nil {
				return
			}
		}
	}
	go func() {
		for n := uint64(0); ; n += 2 {
			near, err := l.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", to)
			if err != nil {
				near.Close()
				continue
			}
			go carry(far, near, rand.New(rand.NewPCG(1, n)))
			go carry(near, far, rand.New(rand.NewPCG(1, n+1)))
		}
	}()
	return l.Addr().String()
}

// flood has one user report as fast as it can, until the test is over.
func flood(t *testing.T, url string) {
	c := &telemetry.Client{Broker: telemetry.Broker{URL: url}, Name: "flood"}
	if err := c.Initialize(t.Context()); err != nil {
		t.Fatal(err)
	}
	quit := make(chan struct{})
	var done sync.WaitGroup
	payload := []byte(`{"slot":17,"position_m":[1,2],"cpu_hz":1e9,"ignored":[` + strings.Repeat("1e9,", 1900) + `1]}`)
	done.Go(func() {
		for {
			select {
			case <-quit:
				return
			default:
			}
			c.Publish(telemetry.Publication{Topic: topics.Report("evil"), Payload: payload})
			time.Sleep(200 * time.Microsecond) // some 37 MB/s
		}
	})
	t.Cleanup(func() { close(quit); done.Wait(); c.Close() })
}

// STOP is answered from the page and from the command line, whatever else goes wrong at the crew's: its disk is full,
// another program holds locks on what lies there, its other commands wait for answers, eight pages are open, a user
// floods the broker, the link loses one segment in twenty.
func TestStopAlways(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "ground")
	if out, err := exec.Command("go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	for _, situation := range []string{"as always", "a full disk", "locks held", "four commands without an answer", "eight pages",
		"a flood", "5 % loss", "all at once"} {
		t.Run(situation, func(t *testing.T) {
			is := func(name string) bool { return situation == name || situation == "all at once" }
			url, _ := startBroker(t)
			path, keys := newCrewKey(t)
			l := startFakeLeader(t, url, maps.Clone(keys), func(l *fakeLeader) { l.mute = is("four commands without an answer") })
			s := exampleStatus(17)
			s.Challenge = l.challenge
			l.fly(t, s)
			station := url
			if is("5 % loss") {
				station = "tcp://" + lossyLink(t, strings.TrimPrefix(url, "tcp://"))
			}
			args := []string{"-fleet", "f1", "-broker", station, "-key", path, "-timeout", "60s"}
			limit := ""
			if is("a full disk") { // no file may grow at all
				limit = "ulimit -f 0; "
			}
			run := func(words string) *exec.Cmd {
				c := exec.CommandContext(t.Context(), "sh",
					append([]string{"-c", limit + `exec "$0" "$@"`, binary}, append(strings.Fields(words), args...)...)...)
				c.Cancel = func() error { return c.Process.Signal(os.Interrupt) }
				return c
			}
			if is("locks held") {
				for _, name := range []string{path, path + ".counter.lock"} {
					f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
					if err == nil {
						err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
					}
					if err != nil {
						t.Fatal(err)
					}
					defer f.Close()
				}
			}
			serve := run("serve -listen 127.0.0.1:0")
			out := make(lineWriter, 1000)
			serve.Stdout, serve.Stderr = out, out
			if err := serve.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() { serve.Cancel(); serve.Wait() }()
			var pages []*console
			for len(pages) == 0 {
				if m := linkPattern.FindStringSubmatch(<-out); m != nil && m[1] != "watch" {
					jar, _ := cookiejar.New(nil)
					pages = append(pages, &console{&http.Client{Jar: jar, Timeout: testTimeout}, t, m[2], ""})
					pages[0].login(m[3])
				}
			}
			n := 1
			if is("eight pages") {
				n = 8
			}
			var await func(string) string
			for range n { // the newest has its place
				await = pages[0].events("")
			}
			page, now := pages[0], func() int64 {
				var e struct{ T int64 }
				_, data, _ := strings.Cut(await(`"t":`), `"t":`)
				fmt.Sscan(data, &e.T)
				return e.T
			}
			await(`"floor_j":`)
			if is("four commands without an answer") {
				for i := range 4 {
					if code, text := page.post("command", fmt.Sprintf(`{"id":"p%d","at":%d,"kind":"preference","setting":0.5,`+
						`"replaces_j":42000}`, i, now())); code != http.StatusAccepted {
						t.Fatalf("%d %s", code, text)
					}
				}
			}
			if is("a flood") {
				flood(t, url)
			}
			before, err := os.ReadDir(filepath.Dir(path))
			if err != nil {
				t.Fatal(err)
			}
			at := now()
			began := time.Now()
			if code, text := page.post("command", fmt.Sprintf(`{"id":"s-page","at":%d,"kind":"mission","action":"stop"}`,
				at)); code != http.StatusAccepted {
				t.Errorf("page: %d %s", code, text)
			}
			if answer := await(`"id":"s-page"`); !strings.Contains(answer, "mission stop accepted from slot 31") {
				t.Errorf("page: %s", answer)
			}
			fromPage := time.Since(began)
			began = time.Now()
			text, err := run("mission stop -id s-cli").CombinedOutput()
			fromCLI := time.Since(began)
			if err != nil || !strings.Contains(string(text), "mission stop accepted from slot 31") {
				t.Errorf("command line: %v %s", err, text)
			}
			if after, _ := os.ReadDir(filepath.Dir(path)); len(after) != len(before) {
				t.Errorf("%d files beside the key, before %d", len(after), len(before))
			}
			t.Logf("answered after %v from the page, %v from the command line", fromPage.Round(time.Millisecond),
				fromCLI.Round(time.Millisecond))
			if max(fromPage, fromCLI) > *stopWithin {
				t.Errorf("want within %v", *stopWithin)
			}
		})
	}
}
