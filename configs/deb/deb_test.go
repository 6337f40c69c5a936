// Package deb has the configuration and scripts of the Debian package. The tests unpack
// and run a built one:
//
//	make deb && PREFDT_DEB=$PWD/bin/deb/prefdt_0.1.0_amd64.deb go test ./configs/deb
package deb

import (
	"bytes"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"prefdt/configs/freeport"
	"prefdt/inference/physics"
	"prefdt/simbridge/autopilot"
	"prefdt/simbridge/battery"
	"prefdt/simbridge/broker"
	"prefdt/simbridge/geo"
)

func packageFile(t *testing.T) string {
	t.Helper()
	path := os.Getenv("PREFDT_DEB")
	if path == "" {
		t.Skip("PREFDT_DEB names no package; make deb makes one")
	}
	if _, err := exec.LookPath("dpkg-deb"); err != nil {
		t.Skip("no dpkg-deb here")
	}
	return path
}

func runCommand(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %q: %v: %s", name, args, err, out)
	}
	return string(out)
}

func TestContents(t *testing.T) {
	path := packageFile(t)
	contents := runCommand(t, "dpkg-deb", "--contents", path)
	for _, want := range []string{
		"-rwxr-xr-x|./usr/bin/leader", "-rwxr-xr-x|./usr/bin/worker", "-rwxr-xr-x|./usr/bin/worker-module", "-rwxr-xr-x|./usr/bin/user",
		"-rw-r--r--|./lib/systemd/system/prefdt-worker.service", "-rwxr-xr-x|./usr/bin/ground",
		"-rw-r--r--|./lib/systemd/system/prefdt-leader.service",
		"-rw-r--r--|./usr/share/prefdt/checkpoint/policy.onnx", "-rw-r--r--|./usr/share/prefdt/checkpoint/manifest.json",
		"-rw-r-----|./etc/prefdt/leader.yaml", "-rw-r--r--|./usr/share/doc/prefdt/leader.yaml",
		"-rw-r--r--|./usr/share/doc/prefdt/copyright", "|./usr/share/doc/prefdt/mosquitto/acl",
	} {
		mode, file, _ := strings.Cut(want, "|")
		found := false
		for _, line := range strings.Split(contents, "\n") {
			found = found || strings.HasPrefix(line, mode) && strings.HasSuffix(line, " "+file)
		}
		if !found {
			t.Errorf("no %s %s in\n%s", mode, file, contents)
		}
	}
	dir := t.TempDir()
	runCommand(t, "dpkg-deb", "--control", path, dir)
	for want, file := range map[string]string{"/etc/prefdt/leader.yaml\n": "conffiles", "adduser --system": "postinst",
		"adduser --quiet prefdt dialout": "postinst", "Depends: adduser": "control"} {
		if text, err := os.ReadFile(filepath.Join(dir, file)); err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s: %v: %s", file, err, text)
		}
	}
}

// installation is the package unpacked, with a broker and an autopilot to start against.
type installation struct{ leader, config, state string }

func unpack(t *testing.T) *installation {
	t.Helper()
	path, root := packageFile(t), t.TempDir()
	runCommand(t, "dpkg", "-x", path, root)
	b := &broker.Broker{Address: "127.0.0.1:0"}
	if err := b.Initialize(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	link, err := freeport.Address()
	if err != nil {
		t.Fatal(err)
	}
	k := physics.DefaultConstants()
	a := &autopilot.Autopilot{Config: autopilot.Config{
		SystemID: 1, Listen: "127.0.0.1:0", Partner: link, Speed: 10, CapacityJ: k.BatteryCapacityJ,
		Origin: geo.Point{LatDeg: 47.3977, LonDeg: 8.5456, AltM: 488}, Start: geo.Local{EastM: 500, NorthM: 500},
		Battery: battery.Fields{Current: true, Energy: true, Remaining: true},
		PowerW:  func(_ int, v geo.Local) float64 { return k.Propulsion.PowerW(v.HorizontalM()) },
		// A parameter unlike PX4's stock value, which leader check refuses.
		Parameters: map[string]float64{"COM_OBL_RC_ACT": 5}, Log: slog.New(slog.DiscardHandler),
	}}
	if err := a.Initialize(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	text, err := os.ReadFile(filepath.Join(root, "etc/prefdt/leader.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	state := filepath.Join(root, "var/lib/prefdt")
	yaml := strings.NewReplacer(
		"/var/lib/prefdt", state, "/usr/share/prefdt", root+"/usr/share/prefdt", "tcp://127.0.0.1:1883", b.URL(),
		"udp-listen:0.0.0.0:14540", "udp-listen:"+link, "metrics_port: 9480", "metrics_port: 0",
		"slots: 100", "slots: 100\nslot_ms: 100\nreport_by_ms: 30\ndecide_by_ms: 60", "real: true", "real: false",
	).Replace(string(text))
	config := filepath.Join(root, "etc/prefdt/test.yaml")
	if err := os.WriteFile(config, []byte(yaml), 0o600); err != nil {
		t.Fatal(err)
	}
	return &installation{filepath.Join(root, "usr/bin/leader"), config, state}
}

func TestCheckFromThePackage(t *testing.T) {
	b := unpack(t)
	text := runCommand(t, b.leader, "check", "-config", b.config)
	if !strings.Contains(text, " 0 failed") {
		t.Error(text)
	}
	t.Log("\n" + text)
}

// serviceManager is the part of systemd that a Type=notify service with a watchdog uses.
type serviceManager struct {
	socket *net.UnixConn
	path   string
}

func newServiceManager(t *testing.T) *serviceManager {
	t.Helper()
	path := filepath.Join(t.TempDir(), "notify")
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return &serviceManager{c, path}
}

// watchdog is how long the service manager waits for a notification; they come twice in it.
// Other programs on the machine may take the leader's turn for a second.
const watchdog = 3 * time.Second

// testTimeout is how long a test waits for an event that has no time of its own.
const testTimeout = time.Minute

func (m *serviceManager) start(t *testing.T, b *installation) *exec.Cmd {
	t.Helper()
	c := exec.Command(b.leader, "-config", b.config)
	c.Env = append(os.Environ(), "NOTIFY_SOCKET="+m.path, fmt.Sprintf("WATCHDOG_USEC=%d", watchdog/time.Microsecond))
	var stderr bytes.Buffer
	c.Stderr = &stderr
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Process.Kill()
		c.Wait()
		if t.Failed() {
			t.Log(stderr.String())
		}
	})
	return c
}

// awaitLine reads notifications until one has a line, for at most a given time.
func (m *serviceManager) awaitLine(line string, timeout time.Duration) bool {
	b := make([]byte, 4096)
	m.socket.SetReadDeadline(time.Now().Add(timeout))
	for {
		n, err := m.socket.Read(b)
		if err != nil {
			return false
		}
		for _, l := range strings.Split(string(b[:n]), "\n") {
			if l == line {
				return true
			}
		}
	}
}

func TestServiceAndWatchdog(t *testing.T) {
	b, m := unpack(t), newServiceManager(t)
	c := m.start(t, b)
	if !m.awaitLine("READY=1", testTimeout) {
		t.Fatal("not ready")
	}
	if !m.awaitLine("WATCHDOG=1", testTimeout) { // once no other leader was found
		t.Fatal("the loop does not begin")
	}
	for i := range 3 {
		if !m.awaitLine("WATCHDOG=1", watchdog) {
			t.Fatalf("no watchdog notification %d", i)
		}
	}
	// Stopped on purpose: without notifications the service manager restarts it.
	c.Process.Signal(syscall.SIGSTOP)
	for m.awaitLine("WATCHDOG=1", watchdog/5) { // what was sent before
	}
	if m.awaitLine("WATCHDOG=1", watchdog) {
		t.Error("a stopped process sent a watchdog notification")
	}
	c.Process.Kill()
	c.Wait()
	c = m.start(t, b)
	if !m.awaitLine("READY=1", testTimeout) || !m.awaitLine("WATCHDOG=1", testTimeout) {
		t.Fatal("not ready after the watchdog's restart")
	}
	c.Process.Signal(syscall.SIGTERM)
	if !m.awaitLine("STOPPING=1", testTimeout) {
		t.Error("it did not notify that it stops")
	}
	if err := c.Wait(); err != nil {
		t.Errorf("after SIGTERM: %v", err)
	}
}

// An administrator may remove a configuration: the package's upgrade succeeds without it.
func TestUpgradeWithoutAConfiguration(t *testing.T) {
	if _, err := os.Stat("/etc/prefdt/leader.yaml"); err == nil {
		t.Skip("the package is installed here")
	}
	bin := t.TempDir()
	for name, script := range map[string]string{"getent": "exit 0", "adduser": "exit 0", "install": "exit 0", "systemctl": "exit 0",
		"chown": `test -e "$2"`} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	c := exec.Command("sh", "postinst", "configure", "0.0.9")
	c.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"))
	if out, err := c.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
