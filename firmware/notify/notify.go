// Package notify reports the leader's state to systemd, over the datagram socket of a
// service of Type=notify: sd_notify(3), without its library.
//
// Inputs: NOTIFY_SOCKET and WATCHDOG_USEC from the environment, and calls of Ready and
// Alive. Outputs: datagrams to systemd. Called by package monitor after each iteration
// of the loop; nothing else feeds the watchdog. A loop that stalls, or a process that
// is stopped, therefore sends nothing, and systemd restarts it.
package notify

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"
)

// Notifier is a service's connection to its manager. A nil Notifier sends nothing, as
// is right for a leader that was started by hand.
type Notifier struct {
	conn     *net.UnixConn
	watchdog time.Duration
}

// Open reads the socket and the watchdog's time-out from the environment by getenv.
// Without NOTIFY_SOCKET there is no manager, and the Notifier is nil.
func Open(getenv func(string) string) (*Notifier, error) {
	path := getenv("NOTIFY_SOCKET")
	if path == "" {
		return nil, nil
	}
	if path[0] != '/' && path[0] != '@' { // Go takes @ for the abstract namespace, as systemd does
		return nil, fmt.Errorf("NOTIFY_SOCKET is %q, want a path or an @name", path)
	}
	n := &Notifier{}
	if text := getenv("WATCHDOG_USEC"); text != "" {
		us, err := strconv.ParseInt(text, 10, 64)
		if err != nil || us <= 0 || us > int64(24*time.Hour/time.Microsecond) {
			return nil, fmt.Errorf("WATCHDOG_USEC is %q, want microseconds above 0 and at most a day", text)
		}
		if pid := getenv("WATCHDOG_PID"); pid == "" || pid == strconv.Itoa(os.Getpid()) {
			n.watchdog = time.Duration(us) * time.Microsecond
		}
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		return nil, fmt.Errorf("open the service manager's socket: %w", err)
	}
	n.conn = conn
	return n, nil
}

// Watchdog is how long the manager waits for a notification; 0: for ever.
func (n *Notifier) Watchdog() time.Duration {
	if n == nil {
		return 0
	}
	return n.watchdog
}

// Starting reports what a leader waits for before its loop begins: a broker, which may
// take any time. A boot must not wait with it, so the service counts as started; and
// there is no loop yet to feed a watchdog. Nor is there one to hold, so it is tried for a second:
// a boot is busy, and what was lost would be sent only with the loop, after the broker.
func (n *Notifier) Starting(status string) {
	const tries = 200
	for i := 0; i < tries && !n.ready(0, status); i++ {
	}
}

// Ready reports that the mission's loop begins, from where on the watchdog counts, and
// returns whether the manager has it. systemd restarts a service whose READY=1 it never
// received, so Ready is called until it has.
func (n *Notifier) Ready(status string) bool { return n.ready(n.Watchdog(), status) }

// ready sets the watchdog's time-out too, 0 for none, where the manager has a watchdog.
func (n *Notifier) ready(timeout time.Duration, status string) bool {
	watchdog := ""
	if n.Watchdog() > 0 {
		watchdog = fmt.Sprintf("WATCHDOG_USEC=%d\n", timeout.Microseconds())
	}
	return n.send("READY=1\n" + watchdog + "STATUS=" + oneLine(status))
}

// Alive feeds the watchdog, with the loop's state in a line.
func (n *Notifier) Alive(status string) { n.send("WATCHDOG=1\nSTATUS=" + oneLine(status)) }

// Stopping reports that the leader ends on purpose, and closes the socket.
func (n *Notifier) Stopping() {
	if n != nil {
		n.send("STOPPING=1")
		n.conn.Close()
	}
}

// send waits at most five milliseconds for a manager that does not read, and returns
// whether the message was sent. A process that is preempted for as long sends none.
func (n *Notifier) send(message string) bool {
	if n == nil {
		return true
	}
	n.conn.SetWriteDeadline(time.Now().Add(5 * time.Millisecond))
	_, err := n.conn.Write([]byte(message))
	return err == nil
}

func oneLine(s string) string { return strings.ReplaceAll(s, "\n", " ") }
