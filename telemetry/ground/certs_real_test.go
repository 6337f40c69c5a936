//go:build real

package main

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"prefdt/configs"
	"prefdt/configs/mosquitto/mosquittotest"
	"prefdt/telemetry"
)

// startMosquitto runs the real broker with the shipped configuration, a folder's
// certificates, and an ACL, and returns its URL.
func startMosquitto(t *testing.T, folder, acl string) (url string) {
	t.Helper()
	dir := mosquittotest.Dir(t)
	copyOf := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	read := func(path string) string {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	for _, name := range []string{"ca.crt", "ca.crl", "broker.crt", "broker.key"} { // as docs/broker.md installs them
		copyOf(name, read(filepath.Join(folder, name)))
	}
	copyOf("acl", acl)
	mosquittotest.Start(t, dir, func(port func() string) string {
		number := port()
		url = "tls://127.0.0.1:" + number
		return strings.NewReplacer("/etc/mosquitto/prefdt", dir, "listener 8883", "listener "+number+" 127.0.0.1", "listener 8885",
			"listener "+port()).Replace(read("../../configs/mosquitto/mosquitto.conf"))
	})
	return url
}

// The check finds nothing wrong with the shipped rules, and each rule that is wrong, by
// the name that it is about.
func TestCertsCheck(t *testing.T) {
	folder, ten := t.TempDir(), t.TempDir()
	makeCerts(t, folder, "-host", "127.0.0.1", "-crew", "crew-1,crew-2", "-users", "3", "-workers", "127.0.0.1,-,127.0.0.1")
	makeCerts(t, ten, "-host", "127.0.0.1", "-crew", "crew-1,crew-2", "-workers", "127.0.0.1")
	raw, err := os.ReadFile(filepath.Join(folder, "acl"))
	if err != nil {
		t.Fatal(err)
	}
	whole := string(raw)
	for name, c := range map[string]struct {
		old, new string
		want     []string // findings; none: all is well
	}{
		"as it ships, for ten users": {"", "", nil},
		"a user's report": {"pattern write prefdt/demo/users/%u/report\n", "",
			[]string{"u01 publishes prefdt/demo/users/u01/report: refused", "u03 publishes prefdt/demo/users/u03/report: refused"}},
		"users publish as others": {"users/%u/result", "users/+/result",
			[]string{"u03 publishes prefdt/demo/users/u01/result: PERMITTED", "crew-1 publishes prefdt/demo/users/u02/result: PERMITTED"}},
		"users receive others' decisions": {"pattern read prefdt/demo/users/%u/decision", "pattern read prefdt/demo/users/+/decision",
			[]string{"u02 receives prefdt/demo/users/u01/decision: PERMITTED"}},
		"the leader's status": {"topic write prefdt/demo/status\n", "",
			[]string{"leader publishes prefdt/demo/status: refused"}},
		"anybody commands": {"pattern read prefdt/demo/slot\n",
			"pattern read prefdt/demo/slot\npattern write prefdt/+/command/#\n",
			[]string{"u01 publishes prefdt/demo/command/budget: PERMITTED", "leader publishes prefdt/demo/command/mission: PERMITTED"}},
		"one of the crew is forgotten": {"user crew-2\n", "user crew-9\n",
			[]string{"crew-2 publishes prefdt/demo/command/mission: refused",
				"crew-2 receives prefdt/demo/ack/certs-check: refused, others received it"}},
		"observer reports as a user": {"topic deny prefdt/demo/users/observer/+\n", "",
			[]string{"observer publishes prefdt/demo/users/observer/report: PERMITTED"}},
		"the crew reports as users": {"topic deny prefdt/demo/users/crew-2/+\n", "",
			[]string{"crew-2 publishes prefdt/demo/users/crew-2/result: PERMITTED"}},
		"one of the workers is forgotten": {"user worker-3\n", "user worker-9\n",
			[]string{"worker-3 publishes prefdt/demo/aircraft/3/worker: refused"}},
		"anybody is a worker": {"pattern read prefdt/demo/slot\n",
			"pattern read prefdt/demo/slot\npattern write prefdt/+/aircraft/+/worker\n",
			[]string{"u01 publishes prefdt/demo/aircraft/1/worker: PERMITTED",
				"worker-3 publishes prefdt/demo/aircraft/1/worker: PERMITTED"}},
		"the leader receives no heartbeats": {"topic read prefdt/demo/crew/+/heartbeat\n", "",
			[]string{"leader receives prefdt/demo/crew/crew-1/heartbeat: refused"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			acl := strings.Replace(whole, c.old, c.new, 1)
			if c.old != "" && acl == whole {
				t.Fatalf("the ACL has no %q", c.old)
			}
			folder := folder
			if c.old == "" {
				folder = ten
			}
			url := startMosquitto(t, folder, acl)
			code, stdout, stderr := runGround(t, "certs", "-check", "-out", folder, "-broker", url)
			if (code == 0) != (len(c.want) == 0) || code == 0 && strings.Count(stdout, "ok ") != 15 {
				t.Errorf("%d %s%s", code, stdout, stderr)
			}
			for _, want := range c.want {
				if !strings.Contains(stdout, "FAIL  "+want) {
					t.Errorf("no %q in\n%s", want, stdout)
				}
			}
		})
	}
	t.Run("a certificate of another authority", func(t *testing.T) {
		t.Parallel()
		url := startMosquitto(t, folder, whole)
		other, mixed := t.TempDir(), t.TempDir()
		makeCerts(t, other)
		if err := os.CopyFS(mixed, os.DirFS(folder)); err != nil {
			t.Fatal(err)
		}
		keys, _ := filepath.Glob(filepath.Join(mixed, "*.key"))
		for _, path := range keys { // as they were
			os.Chmod(path, 0o600)
		}
		for _, file := range []string{"u02.crt", "u02.key"} {
			raw, _ := os.ReadFile(filepath.Join(other, file))
			os.WriteFile(filepath.Join(mixed, file), raw, 0o600)
		}
		code, stdout, _ := runGround(t, "certs", "-check", "-out", mixed, "-broker", url)
		if code != 1 || !strings.Contains(stdout, "FAIL  u02 cannot connect") || strings.Count(stdout, "FAIL") != 1 {
			t.Errorf("%d %s", code, stdout)
		}
	})
}

// The lines that are printed for the configurations work as they are, for the leader,
// for a command of the crew and, of every user, for simbridge.
func TestCertsLines(t *testing.T) {
	folder := t.TempDir()
	out := makeCerts(t, folder, "-host", "127.0.0.1")
	acl, err := os.ReadFile(filepath.Join(folder, "acl"))
	if err != nil {
		t.Fatal(err)
	}
	url := startMosquitto(t, folder, string(acl))
	line := func(program string) (c struct {
		Broker struct {
			Listen           string
			telemetry.Broker `yaml:",inline"`
		}
	}) {
		t.Helper()
		match := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(program) + ` +(broker: .*)$`).FindStringSubmatch(out)
		if match == nil {
			t.Fatalf("no line for %s in\n%s", program, out)
		}
		if err := configs.Decode([]byte(strings.Replace(match[1], "tls://127.0.0.1:8883", url, 1)), &c); err != nil {
			t.Fatal(err)
		}
		return c
	}
	connect := func(name string, b telemetry.Broker, received chan string, filter string) *telemetry.Client {
		t.Helper()
		if err := b.Check(); err != nil {
			t.Fatal(err)
		}
		c := &telemetry.Client{Broker: b, Name: name, Log: slog.New(slog.DiscardHandler),
			Subscriptions: []telemetry.Subscription{{Filter: filter, QoS: 1}}, Handle: func(m telemetry.Message) { received <- m.Topic }}
		if err := c.Initialize(t.Context()); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		t.Cleanup(c.Close)
		return c
	}
	received := make(chan string, 100)
	demo, err := telemetry.NewTopics("demo")
	if err != nil {
		t.Fatal(err)
	}
	connect("leader", line("leader.yaml").Broker.Broker, received, demo.AllReports())
	sim := line("simbridge").Broker
	for _, user := range []string{"u01", "u10"} {
		c := connect(user, sim.Broker.For(user), received, demo.Decision(user))
		if err := c.PublishWait(t.Context(), telemetry.Publication{Topic: demo.Report(user), QoS: 1, Payload: []byte("x")}); err != nil {
			t.Fatal(err)
		}
		select {
		case topic := <-received:
			if topic != demo.Report(user) {
				t.Errorf("the leader received %s", topic)
			}
		case <-time.After(testTimeout):
			t.Errorf("the leader received no report of %s", user)
		}
	}
	connect("observer", sim.Broker.For("observer"), received, demo.AllCommands())
	connect("ground", line("ground.yaml").Broker.Broker, received, demo.Status())
}

// A lost phone's certificate is refused by the broker once it is revoked; others are not, a name with a dot
// among them, and the name's next certificate neither.
func TestCertsRevoke(t *testing.T) {
	folder, lost := t.TempDir(), t.TempDir()
	args := []string{"-host", "127.0.0.1", "-users", "u1,tent.2"}
	makeCerts(t, folder, args...)
	for _, name := range []string{"ca.crt", "u1.crt", "u1.key"} {
		raw, _ := os.ReadFile(filepath.Join(folder, name))
		os.WriteFile(filepath.Join(lost, name), raw, 0o600)
	}
	if code, stdout, stderr := runGround(t, "certs", "-out", folder, "-revoke", "u1"); code != 0 ||
		!strings.Contains(stdout, "ca.crl: install that at the broker and restart it") {
		t.Fatal(stdout, stderr)
	}
	makeCerts(t, folder, args...)
	acl, err := os.ReadFile(filepath.Join(folder, "acl"))
	if err != nil {
		t.Fatal(err)
	}
	url := startMosquitto(t, folder, string(acl))
	for _, x := range []struct {
		folder, name string
		want         bool
	}{{lost, "u1", false}, {folder, "u1", true}, {folder, "tent.2", true}} {
		at := func(file string) string { return filepath.Join(x.folder, file) }
		b := telemetry.Broker{URL: url, CA: at("ca.crt"), Cert: at(x.name + ".crt"), Key: at(x.name + ".key")}
		ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
		refused := writerFunc(func() { cancel() })
		c := &telemetry.Client{Broker: b, Name: "test",
			Log: slog.New(slog.NewTextHandler(refused, &slog.HandlerOptions{Level: slog.LevelWarn}))}
		if err := c.Initialize(ctx); (err == nil) != x.want {
			t.Errorf("%s of %s: %v", x.name, x.folder, err)
		} else if err == nil {
			c.Close()
		}
		cancel()
	}
}

// writerFunc is a log that calls a function with each line.
type writerFunc func()

func (f writerFunc) Write(p []byte) (int, error) { f(); return len(p), nil }
