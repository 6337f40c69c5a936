//go:build real

package fly

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"prefdt/telemetry"
)

// nullModem is two serial ports with a cable between them: two ptys whose
// masters are joined. It returns the ports' devices. As on a cable, what nobody reads at one end is
// lost: the other end would block in a write for ever otherwise, and could not be closed.
func nullModem(t *testing.T) (a, b string) {
	t.Helper()
	var masters []int
	var cables sync.WaitGroup
	done := make(chan struct{})
	var slaves []string
	for range 2 {
		master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
		if err != nil {
			t.Skipf("no pseudo terminals here: %v", err)
		}
		fd := int(master.Fd())
		n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
		if err != nil {
			t.Fatal(err)
		}
		if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
			t.Fatal(err)
		}
		name := fmt.Sprintf("/dev/pts/%d", n)
		// Raw, and held open: without a reader a slave's line discipline echoes,
		// and a master whose slave is closed reads an error.
		slave, err := os.OpenFile(name, os.O_RDWR|unix.O_NOCTTY, 0)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := unix.IoctlGetTermios(int(slave.Fd()), unix.TCGETS)
		if err != nil {
			t.Fatal(err)
		}
		raw.Iflag, raw.Oflag, raw.Lflag = 0, 0, 0
		if err := unix.IoctlSetTermios(int(slave.Fd()), unix.TCSETS, raw); err != nil {
			t.Fatal(err)
		}
		if err := unix.SetNonblock(fd, true); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { slave.Close(); master.Close() })
		masters, slaves = append(masters, fd), append(slaves, name)
	}
	cable := func(from, to int) {
		buffer := make([]byte, 4096)
		for {
			select {
			case <-done:
				return
			default:
			}
			unix.Poll([]unix.PollFd{{Fd: int32(from), Events: unix.POLLIN}}, 100)
			if n, err := unix.Read(from, buffer); err == nil && n > 0 {
				unix.Write(to, buffer[:n])
			}
		}
	}
	cables.Go(func() { cable(masters[0], masters[1]) })
	cables.Go(func() { cable(masters[1], masters[0]) })
	t.Cleanup(func() { close(done); cables.Wait() }) // before the ports are closed
	return slaves[0], slaves[1]
}

// A port whose other end nobody reads takes all that is written to it, and is closed at once.
func TestNullModemLosesWhatNobodyReads(t *testing.T) {
	a, _ := nullModem(t)
	port, err := os.OpenFile(a, os.O_WRONLY|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer port.Close()
	if _, err := port.Write(make([]byte, 1<<20)); err != nil {
		t.Error(err)
	}
}

// The built programs fly a mission in real time, one aircraft on a serial port and one on UDP, the leader killed in the
// middle. A busy machine may have them miss slots, or every decision come late; they come home all the same.
func TestRealFlight(t *testing.T) {
	t.Parallel()
	const slots = 8
	c := realFlight(t, slots, 2, func(c *Config) []string {
		near, far := nullModem(t)
		c.Aircraft = append(c.Aircraft, AircraftConfig{SystemID: 1, Serial: near + ":921600"})
		return append([]string{"serial:" + far + ":921600"}, c.udpAircraft(t, 1)...)
	})
	c.Leader.KillSlots = []int{slots / 2}
	var out bytes.Buffer
	err := Run(t.Context(), c, &out)
	if t.Failed() || err != nil && !strings.Contains(err.Error(), "slots were missed") {
		t.Fatalf("%v\n%s", err, &out)
	}
	s := readSummary(t, c)
	if s.Failure != "" || s.State != telemetry.StateDone || !s.Landed || s.Slots+s.MissedSlots != slots {
		t.Errorf("%s, landed %v, %d slots and %d missed: %s", s.State, s.Landed, s.Slots, s.MissedSlots, s.Failure)
	}
	for _, a := range s.Aircraft {
		if a.Setpoints == 0 || a.FlightJ == 0 {
			t.Errorf("%+v", a)
		}
	}
}
