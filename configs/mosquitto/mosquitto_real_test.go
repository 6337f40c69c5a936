//go:build real

package mosquitto

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"prefdt/configs/mosquitto/mosquittotest"
	"prefdt/telemetry"
	"prefdt/telemetry/access"
)

// testTimeout is how long a test waits for an event: long enough for a machine with other
// load.
const testTimeout = time.Minute

// issue makes the certificates of a test in a folder.
func issue(t *testing.T, folder string) {
	t.Helper()
	wanted := []access.Certificate{
		{Name: access.NameBroker, Role: access.RoleBroker, Hosts: []string{"127.0.0.1"}},
		{Name: access.NameLeader, Role: access.RoleLeader}, {Name: "crew-1", Role: access.RoleCrew},
		{Name: "u1", Role: access.RoleUser}, {Name: "u2", Role: access.RoleUser}, {Name: "north", Role: access.RoleUser},
	}
	if _, err := access.Issue(folder, wanted, access.Validity{Authority: time.Hour, Others: time.Hour}, time.Now()); err != nil {
		t.Fatal(err)
	}
}

// testBroker is a running mosquitto with this folder's files in a directory of the test.
type testBroker struct {
	dir, tlsAddress, passwordAddress, localAddress string // listeners' host:port
}

func startMosquitto(t *testing.T) *testBroker {
	t.Helper()
	hash := mosquittotest.Program(t, "mosquitto_passwd")
	dir := mosquittotest.Dir(t)
	issue(t, dir)
	issue(t, filepath.Join(dir, "other"))
	if err := os.Chmod(filepath.Join(dir, "broker.key"), 0o644); err != nil { // for the user that mosquitto runs as
		t.Fatal(err)
	}
	os.WriteFile(filepath.Join(dir, "passwords"), []byte("u1:one\nu2:two\n"), 0o644)
	if out, err := exec.Command(hash, "-U", filepath.Join(dir, "passwords")).CombinedOutput(); err != nil {
		t.Fatalf("mosquitto_passwd: %v: %s", err, out)
	}
	os.Chmod(filepath.Join(dir, "passwords"), 0o644)
	s := &testBroker{dir: dir}
	text := ""
	for _, file := range []string{"mosquitto.conf", "password.conf"} {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		text += string(raw)
	}
	acl, err := os.ReadFile("acl")
	if err != nil {
		t.Fatal(err)
	}
	acl = append(acl, "\n# The leader of another fleet at the same broker.\nuser north\ntopic readwrite prefdt/north/#\n"...)
	os.WriteFile(filepath.Join(dir, "acl"), acl, 0o644)
	mosquittotest.Start(t, dir, func(port func() string) string {
		tls, passwords, local := port(), port(), port()
		s.tlsAddress, s.passwordAddress, s.localAddress = "127.0.0.1:"+tls, "127.0.0.1:"+passwords, "127.0.0.1:"+local
		return strings.NewReplacer("/etc/mosquitto/prefdt", dir, "listener 8883", "listener "+tls+" 127.0.0.1", "listener 8885",
			"listener "+local, "listener 8884", "listener "+passwords+" 127.0.0.1").Replace(text)
	})
	return s
}

// configWithCertificate is a broker's configuration with a certificate of a name.
func (s *testBroker) configWithCertificate(name string) telemetry.Broker {
	at := func(file string) string { return filepath.Join(s.dir, file) }
	return telemetry.Broker{URL: "tls://" + s.tlsAddress, CA: at("ca.crt"), Cert: at(name + ".crt"), Key: at(name + ".key")}
}

// onWrite is a log that calls a function with each line.
type onWrite func()

func (f onWrite) Write(p []byte) (int, error) {
	f()
	return len(p), nil
}

// connect returns after one attempt: the warning that it failed ends the next ones.
func connect(t *testing.T, b telemetry.Broker, handle func(telemetry.Message), filters ...string) (*telemetry.Client, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	log := slog.New(slog.NewTextHandler(onWrite(cancel), &slog.HandlerOptions{Level: slog.LevelWarn}))
	c := &telemetry.Client{Broker: b, Name: "test", Log: log, Handle: handle}
	for _, f := range filters {
		c.Subscriptions = append(c.Subscriptions, telemetry.Subscription{Filter: f, QoS: 1})
	}
	err := c.Initialize(ctx)
	if err == nil {
		t.Cleanup(c.Close)
	}
	return c, err
}

func TestAuthentication(t *testing.T) {
	s := startMosquitto(t)
	ca := filepath.Join(s.dir, "ca.crt")
	password := func(text string) string {
		path := filepath.Join(t.TempDir(), "password")
		os.WriteFile(path, []byte(text+"\n"), 0o600)
		return path
	}
	for _, c := range []struct {
		name   string
		broker telemetry.Broker
		want   bool
	}{
		{"a certificate of the authority", s.configWithCertificate("u1"), true},
		{"no certificate", telemetry.Broker{URL: "tls://" + s.tlsAddress, CA: ca}, false},
		{"another authority's certificate", s.configWithCertificate("other/leader"), false},
		{"no TLS", telemetry.Broker{URL: "tcp://" + s.tlsAddress}, false},
		{"anonymous", telemetry.Broker{URL: "tls://" + s.passwordAddress, CA: ca}, false},
		{"a password", telemetry.Broker{URL: "tls://" + s.passwordAddress, CA: ca, Username: "u1", PasswordFile: password("one")}, true},
		{"a wrong password", telemetry.Broker{URL: "tls://" + s.passwordAddress, CA: ca, Username: "u1", PasswordFile: password("two")},
			false},
		{"an unknown user", telemetry.Broker{URL: "tls://" + s.passwordAddress, CA: ca, Username: "u9", PasswordFile: password("one")},
			false},
		{"a password without TLS", telemetry.Broker{URL: "tcp://" + s.passwordAddress, Username: "u1", PasswordFile: password("one")},
			false},
	} {
		if _, err := connect(t, c.broker, nil); (err == nil) != c.want {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// What one client may cost: two thousand connections that say nothing keep nobody out, the
// leader on the broker's machine least of all; and no payload longer than the leader reads is
// carried, nor does one that is much longer leave its sender connected.
func TestLimits(t *testing.T) {
	s := startMosquitto(t)
	for range 2000 {
		c, err := net.Dial("tcp", s.tlsAddress)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	received := make(chan int, 10)
	leaders := s.configWithCertificate("leader")
	leaders.URL = "tls://" + s.localAddress
	if _, err := connect(t, leaders, func(m telemetry.Message) { received <- len(m.Payload) }, "prefdt/demo/users/+/report"); err != nil {
		t.Fatal(err)
	}
	u1, err := connect(t, s.configWithCertificate("u1"), nil)
	if err != nil {
		t.Fatal(err)
	}
	u2, err := connect(t, s.configWithCertificate("u2"), nil)
	if err != nil {
		t.Fatal(err)
	}
	publish := func(c *telemetry.Client, user string, size int) error {
		ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
		defer cancel()
		return c.PublishWait(ctx, telemetry.Publication{Topic: "prefdt/demo/users/" + user + "/report", QoS: 1,
			Payload: make([]byte, size)})
	}
	if err := publish(u2, "u2", 60000); err == nil {
		t.Error("60 kB are acknowledged: their sender stays connected")
	}
	const limit = 16384 // of a payload: a status of twelve aircraft
	for _, size := range []int{limit + 1, limit} {
		if err := publish(u1, "u1", size); err != nil {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
	if got := <-received; got != limit {
		t.Errorf("the first that was delivered has %d bytes", got)
	}
}

// Whether a publication of a client is delivered to the leader, or of the leader to the
// crew.
func TestPublishRights(t *testing.T) {
	s := startMosquitto(t)
	received := make(chan string, 100)
	note := func(m telemetry.Message) { received <- m.Topic + " " + string(m.Payload) }
	leaderTopics := []string{"prefdt/demo/users/+/report", "prefdt/demo/users/+/result", "prefdt/demo/command/#", "prefdt/demo/online",
		"prefdt/demo/crew/+/heartbeat", "prefdt/demo/hello", "prefdt/demo/proof"}
	crewTopics := []string{"prefdt/demo/status", "prefdt/demo/slot", "prefdt/demo/ack/+", "prefdt/demo/users/+/decision"}
	leader, err := connect(t, s.configWithCertificate("leader"), note, leaderTopics...)
	if err != nil {
		t.Fatal(err)
	}
	crew, err := connect(t, s.configWithCertificate("crew-1"), note, crewTopics...)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := connect(t, s.configWithCertificate("north"), note, "prefdt/north/#"); err != nil {
		t.Fatal(err)
	}
	u1, err := connect(t, s.configWithCertificate("u1"), nil)
	if err != nil {
		t.Fatal(err)
	}
	u2, err := connect(t, s.configWithCertificate("u2"), nil)
	if err != nil {
		t.Fatal(err)
	}
	// publish says it, and then to the leader and to the crew something that surely comes
	// through after it: each has a connection of its own.
	publish := func(c *telemetry.Client, topic, text string) (delivered bool) {
		t.Helper()
		end := fmt.Sprintf("end of %s %s", topic, text)
		const toLeader, toCrew = "prefdt/demo/users/u1/result", "prefdt/demo/status"
		for _, p := range []struct {
			client      *telemetry.Client
			topic, text string
		}{{c, topic, text}, {u1, toLeader, end}, {leader, toCrew, end}} {
			ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
			if err := p.client.PublishWait(ctx, telemetry.Publication{Topic: p.topic, QoS: 1, Payload: []byte(p.text)}); err != nil {
				t.Fatal(err)
			}
			cancel()
		}
		for marks := 0; marks < 2; {
			select {
			case m := <-received:
				if m == toLeader+" "+end || m == toCrew+" "+end {
					marks++
				}
				delivered = delivered || m == topic+" "+text
			case <-time.After(testTimeout):
				t.Fatalf("the marks after %s were not delivered", topic)
			}
		}
		return delivered
	}
	for _, c := range []struct {
		name   string
		client *telemetry.Client
		topic  string
		want   bool
	}{
		{"u1", u1, "prefdt/demo/users/u1/report", true},
		{"u1", u1, "prefdt/demo/users/u1/result", true},
		{"u2", u2, "prefdt/demo/users/u2/report", true},
		{"u2 as u1", u2, "prefdt/demo/users/u1/report", false},
		{"u1 as u2", u1, "prefdt/demo/users/u2/report", false},
		{"u1 as u2", u1, "prefdt/demo/users/u2/result", false},
		{"u1", u1, "prefdt/demo/command/budget", false},
		{"u1", u1, "prefdt/demo/command/mission", false},
		{"u1", u1, "prefdt/demo/users/u1/decision", false},
		{"u1", u1, "prefdt/demo/online", false},
		{"u1", u1, "prefdt/demo/slot", false},
		{"u1", u1, "prefdt/demo/status", false},
		{"crew", crew, "prefdt/demo/command/budget", true},
		{"crew", crew, "prefdt/demo/command/mission", true},
		{"crew", crew, "prefdt/demo/crew/crew-1/heartbeat", true},
		{"crew as another station", crew, "prefdt/demo/crew/crew-2/heartbeat", false},
		{"crew", crew, "prefdt/demo/hello", false},
		{"crew", crew, "prefdt/demo/proof", false},
		{"u1", u1, "prefdt/demo/crew/u1/heartbeat", false},
		{"u1 as crew", u1, "prefdt/demo/crew/crew-1/heartbeat", false},
		{"u1", u1, "prefdt/demo/hello", false},
		{"u1", u1, "prefdt/demo/proof", false},
		{"crew", crew, "prefdt/demo/users/u1/report", false},
		{"crew", crew, "prefdt/demo/slot", false},
		{"crew", crew, "prefdt/demo/online", false},
		{"u1 in another fleet", u1, "prefdt/north/users/u1/report", false},
		{"u1 in another fleet", u1, "prefdt/north/users/u1/result", false},
		{"crew as a user", crew, "prefdt/demo/users/crew-1/report", false},
		{"crew as a user", crew, "prefdt/demo/users/crew-1/result", false},
		{"leader as a user", leader, "prefdt/demo/users/leader/report", false},
		{"leader as a user", leader, "prefdt/demo/users/leader/result", false},
		{"leader", leader, "prefdt/demo/slot", true},
		{"leader", leader, "prefdt/demo/users/u1/decision", true},
		{"leader", leader, "prefdt/demo/ack/b1", true},
		{"leader", leader, "prefdt/demo/status", true},
		{"leader", leader, "prefdt/demo/online", true},
		{"leader", leader, "prefdt/demo/hello", true},
		{"leader", leader, "prefdt/demo/proof", true},
		{"leader", leader, "prefdt/demo/crew/crew-1/heartbeat", false},
		{"leader", leader, "prefdt/demo/command/budget", false},
	} {
		if delivered := publish(c.client, c.topic, "hello"); delivered != c.want {
			t.Errorf("%s on %s: delivered %v, want %v", c.name, c.topic, delivered, c.want)
		}
	}
}

// A user receives its own decisions and the messages for all, and no others.
func TestSubscribeRights(t *testing.T) {
	s := startMosquitto(t)
	received := make(chan string, 100)
	all := []string{"prefdt/north/slot", "prefdt/north/users/+/decision", "prefdt/demo/slot", "prefdt/demo/status", "prefdt/demo/online",
		"prefdt/demo/users/+/decision", "prefdt/demo/ack/+"}
	if _, err := connect(t, s.configWithCertificate("u1"), func(m telemetry.Message) { received <- m.Topic }, all...); err != nil {
		t.Fatal(err)
	}
	leader, err := connect(t, s.configWithCertificate("leader"), nil)
	if err != nil {
		t.Fatal(err)
	}
	north, err := connect(t, s.configWithCertificate("north"), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		topic string
		want  bool
	}{
		{"prefdt/north/slot", false},
		{"prefdt/north/users/u1/decision", false},
		{"prefdt/demo/users/u2/decision", false},
		{"prefdt/demo/ack/b1", false},
		{"prefdt/demo/slot", true},
		{"prefdt/demo/status", true},
		{"prefdt/demo/online", true},
		{"prefdt/demo/users/u1/decision", true},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
		from := leader
		if strings.HasPrefix(c.topic, "prefdt/north/") {
			from = north
		}
		if err := from.PublishWait(ctx, telemetry.Publication{Topic: c.topic, QoS: 1, Payload: []byte("x")}); err != nil {
			t.Fatal(err)
		}
		cancel()
		if !c.want {
			continue // the next message received must not be this one
		}
		select {
		case topic := <-received:
			if topic != c.topic {
				t.Errorf("u1 received %s, want %s", topic, c.topic)
			}
		case <-time.After(testTimeout):
			t.Errorf("u1 did not receive %s", c.topic)
		}
	}
}
