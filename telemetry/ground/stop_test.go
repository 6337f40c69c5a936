package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"prefdt/simbridge/simnet"
	"prefdt/telemetry"
)

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
func flood(t *testing.T, site *testSite) {
	c := &telemetry.Client{Broker: site.brokerOf("evil"), Name: "flood"}
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

// crew is at a running ground serve, with a page that may command.
type crew struct {
	*console
	key     string                   // its file
	await   func(text string) string // reads the newest of its event streams
	command func(words ...string) (text string, err error)
}

// join opens pages by the link that the server shows.
func (c *crew) join(t *testing.T, links lineWriter, dial func(context.Context, string, string) (net.Conn, error), pages int) {
	t.Helper()
	for c.console == nil {
		if m := linkPattern.FindStringSubmatch(<-links); m != nil && m[1] != "watch" {
			c.console = newConsole(t, dial, m[2], m[3])
		}
	}
	for range pages { // the newest has its place
		c.await = c.events("")
	}
	c.await(`"floor_j":`)
}

// now is the server's time.
func (c *crew) now() (t int64) {
	c.t.Helper()
	_, data, _ := strings.Cut(c.await(`"t":`), `"t":`)
	fmt.Sscan(data, &t)
	return t
}

// leaveUnanswered gives four commands that the leader does not answer.
func (c *crew) leaveUnanswered() {
	c.t.Helper()
	for i := range 4 {
		if code, text := c.post("command", fmt.Sprintf(`{"id":"p%d","at":%d,"kind":"preference","setting":0.5,"replaces_j":42000}`, i,
			c.now())); code != http.StatusAccepted {
			c.t.Fatalf("%d %s", code, text)
		}
	}
}

// stop stops the mission from the page and from the command line, which leave nothing beside the key, and returns how
// long the answers took.
func (c *crew) stop() (fromPage, fromCLI time.Duration) {
	c.t.Helper()
	before, err := os.ReadDir(filepath.Dir(c.key))
	if err != nil {
		c.t.Fatal(err)
	}
	at, began := c.now(), time.Now()
	if code, text := c.post("command", fmt.Sprintf(`{"id":"s-page","at":%d,"kind":"mission","action":"stop"}`,
		at)); code != http.StatusAccepted {
		c.t.Errorf("page: %d %s", code, text)
	}
	if answer := c.await(`"id":"s-page"`); !strings.Contains(answer, "mission stop accepted from slot 31") {
		c.t.Errorf("page: %s", answer)
	}
	fromPage, began = time.Since(began), time.Now()
	if text, err := c.command("mission", "stop", "-id", "s-cli"); err != nil ||
		!strings.Contains(text, "mission stop accepted from slot 31") {
		c.t.Errorf("command line: %v %s", err, text)
	}
	fromCLI = time.Since(began)
	if after, _ := os.ReadDir(filepath.Dir(c.key)); len(after) != len(before) {
		c.t.Errorf("%d files beside the key, before %d", len(after), len(before))
	}
	return fromPage, fromCLI
}

// startFlight has a leader that flies, whose commands are signed with the key of a file.
func startFlight(t *testing.T, site *testSite, mute bool) (key string) {
	t.Helper()
	key, keys := newCrewKey(t)
	l := startFakeLeader(t, site, maps.Clone(keys), func(l *fakeLeader) { l.mute = mute })
	s := exampleStatus(17)
	s.Challenge = l.challenge
	l.fly(t, s)
	return key
}

// STOP is answered from the page and from the command line, whatever else goes wrong at the crew's: its other commands
// wait for answers, eight pages are open, a user floods the broker, the link loses one segment in twenty.
func TestStopAlways(t *testing.T) {
	const quick = 250 * time.Millisecond // a page has an event each 200 ms
	for situation, within := range map[string]time.Duration{"as always": quick, "four commands without an answer": quick,
		"eight pages": quick, "a flood": quick, "5 % loss": 10 * time.Second} {
		t.Run(situation, func(t *testing.T) {
			simnet.Test(t, func(t *testing.T) {
				site := newSite(t)
				mute, pages := false, 1
				switch situation {
				case "four commands without an answer":
					mute = true
				case "eight pages":
					pages = 8
				case "a flood":
					flood(t, site)
				case "5 % loss":
					for _, direction := range [][2]string{{"ground", "broker"}, {"broker", "ground"}} {
						site.Set(direction[0], direction[1], &simnet.Conditions{Latency: time.Millisecond, Loss: 0.05})
					}
				}
				key := startFlight(t, site, mute)
				args := []string{"-fleet", "f1", "-broker", site.url, "-key", key, "-timeout", "60s"}
				c := &crew{key: key, command: func(words ...string) (string, error) {
					code, stdout, stderr := site.run(t, append(words, args...)...)
					if code != 0 {
						return "", errors.New(stderr)
					}
					return stdout, nil
				}}
				ctx, cancel := context.WithCancel(t.Context())
				ended, out := make(chan int, 1), make(lineWriter, 1000)
				go func() {
					ended <- site.ground().Run(ctx, append([]string{"serve", "-listen", "127.0.0.1:0"}, args...), out, out)
				}()
				defer func() { cancel(); <-ended }()
				c.join(t, out, site.Program("browser").Dial, pages)
				if mute {
					c.leaveUnanswered()
				}
				fromPage, fromCLI := c.stop()
				t.Logf("answered after %v from the page, %v from the command line", fromPage, fromCLI)
				if max(fromPage, fromCLI) > within {
					t.Errorf("want within %v", within)
				}
			})
		})
	}
}
