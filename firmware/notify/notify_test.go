package notify

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// listenAsSystemd opens systemd's end of the socket.
func listenAsSystemd(t *testing.T, path string) *net.UnixConn {
	t.Helper()
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func readNotification(t *testing.T, c *net.UnixConn) string {
	t.Helper()
	b := make([]byte, 4096)
	c.SetReadDeadline(time.Now().Add(time.Minute))
	n, err := c.Read(b)
	if err != nil {
		t.Fatal(err)
	}
	return string(b[:n])
}

func environment(pairs ...string) func(string) string {
	return func(key string) string {
		for _, p := range pairs {
			if name, value, _ := strings.Cut(p, "="); name == key {
				return value
			}
		}
		return ""
	}
}

func TestProtocol(t *testing.T) {
	for _, path := range []string{filepath.Join(t.TempDir(), "notify"), fmt.Sprintf("@prefdt-test-%d", os.Getpid())} {
		c := listenAsSystemd(t, path)
		n, err := Open(environment("NOTIFY_SOCKET="+path, "WATCHDOG_USEC=3000000", fmt.Sprintf("WATCHDOG_PID=%d", os.Getpid())))
		if err != nil || n.Watchdog() != 3*time.Second {
			t.Fatalf("%s: %v, watchdog %v", path, err, n.Watchdog())
		}
		n.Starting("looking for\nthe broker")
		n.Ready("idle")
		n.Alive("flying, slot 3 of 100")
		n.Stopping()
		for _, want := range []string{
			"READY=1\nWATCHDOG_USEC=0\nSTATUS=looking for the broker", "READY=1\nWATCHDOG_USEC=3000000\nSTATUS=idle",
			"WATCHDOG=1\nSTATUS=flying, slot 3 of 100", "STOPPING=1",
		} {
			if got := readNotification(t, c); got != want {
				t.Errorf("%s: %q, want %q", path, got, want)
			}
		}
	}
}

func TestEnvironment(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notify")
	listenAsSystemd(t, path)
	for _, c := range []struct {
		name     string
		env      []string
		err      string
		watchdog time.Duration
	}{
		{"by hand", nil, "", 0},
		{"no watchdog", []string{"NOTIFY_SOCKET=" + path}, "", 0},
		{"another process's watchdog", []string{"NOTIFY_SOCKET=" + path, "WATCHDOG_USEC=5000000", "WATCHDOG_PID=1"}, "", 0},
		{"no pid", []string{"NOTIFY_SOCKET=" + path, "WATCHDOG_USEC=5000000"}, "", 5 * time.Second},
		{"no number", []string{"NOTIFY_SOCKET=" + path, "WATCHDOG_USEC=soon"}, "WATCHDOG_USEC", 0},
		{"zero", []string{"NOTIFY_SOCKET=" + path, "WATCHDOG_USEC=0"}, "WATCHDOG_USEC", 0},
		{"relative path", []string{"NOTIFY_SOCKET=notify"}, "NOTIFY_SOCKET", 0},
		{"no manager", []string{"NOTIFY_SOCKET=" + path + "x"}, "socket", 0},
	} {
		n, err := Open(environment(c.env...))
		switch {
		case (err != nil) != (c.err != "") || err != nil && !strings.Contains(err.Error(), c.err):
			t.Errorf("%s: %v", c.name, err)
		case err == nil && n.Watchdog() != c.watchdog:
			t.Errorf("%s: watchdog %v", c.name, n.Watchdog())
		}
		if c.env == nil && n != nil {
			t.Error("a leader started by hand has a manager")
		}
	}
	var none *Notifier
	none.Starting("")
	none.Ready("")
	none.Alive("")
	none.Stopping()
}

// A manager that does not read must not hold the loop.
func TestManagerThatDoesNotRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notify")
	listenAsSystemd(t, path)
	n, err := Open(environment("NOTIFY_SOCKET=" + path))
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	for range 50 {
		n.Alive(strings.Repeat("x", 1000))
	}
	if d := time.Since(began); d > 5*time.Second {
		t.Errorf("50 signs of life took %v", d)
	}
}

// A manager that does not read loses messages, and a READY=1 that was lost is known to be.
func TestReadyReportsWhetherItWasSent(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notify")
	c := listenAsSystemd(t, path)
	n, err := Open(environment("NOTIFY_SOCKET=" + path))
	if err != nil {
		t.Fatal(err)
	}
	for n.Ready("idle") { // until the queue is full
	}
	readNotification(t, c)
	if !n.Ready("idle") {
		t.Error("a manager with a place in its queue did not get READY=1")
	}
	var none *Notifier
	if !none.Ready("idle") {
		t.Error("without a manager there is nothing to repeat")
	}
}

// A manager that is busy at the start gets its READY=1 all the same: the next one comes with the
// loop, and that with the broker.
func TestStartingIsRepeated(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notify")
	c := listenAsSystemd(t, path)
	n, err := Open(environment("NOTIFY_SOCKET=" + path))
	if err != nil {
		t.Fatal(err)
	}
	waiting := 0
	for n.send("WATCHDOG=1") { // until the queue is full
		waiting++
	}
	var reader sync.WaitGroup
	reader.Go(func() {
		time.Sleep(20 * time.Millisecond)
		c.Read(make([]byte, 4096)) // a place is free
	})
	n.Starting("looking for the broker")
	reader.Wait()
	last := ""
	for range waiting {
		last = readNotification(t, c)
	}
	if !strings.HasPrefix(last, "READY=1") {
		t.Errorf("the last is %q", last)
	}
}
