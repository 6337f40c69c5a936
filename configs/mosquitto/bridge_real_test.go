//go:build real

package mosquitto

import (
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"prefdt/configs/mosquitto/mosquittotest"
	"prefdt/telemetry"
	"prefdt/telemetry/access"
)

// radio is the link between the brokers, which can be cut.
type radio struct {
	net.Listener
	to string

	mutex sync.Mutex
	cut   bool
	conns []net.Conn
}

func newRadio(t *testing.T, to string) *radio {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &radio{Listener: l, to: to}
	t.Cleanup(func() { l.Close(); r.setCut(true) })
	go func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			r.carry(near)
		}
	}()
	return r
}

func (r *radio) carry(near net.Conn) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	far, err := net.Dial("tcp", r.to)
	if err != nil || r.cut {
		near.Close()
		if err == nil {
			far.Close()
		}
		return
	}
	r.conns = append(r.conns, near, far)
	for _, way := range [][2]net.Conn{{near, far}, {far, near}} {
		go func() {
			io.Copy(way[0], way[1])
			way[0].Close()
			way[1].Close()
		}()
	}
}

func (r *radio) setCut(cut bool) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if r.cut = cut; cut {
		for _, c := range r.conns {
			c.Close()
		}
		r.conns = nil
	}
}

// inbox is what a client received: the last payload of each topic, and how often.
type inbox struct {
	mutex sync.Mutex
	last  map[string]string
	all   []string // topic and payload
}

func (i *inbox) handle(m telemetry.Message) {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	if i.last == nil {
		i.last = map[string]string{}
	}
	i.last[m.Topic] = string(m.Payload)
	i.all = append(i.all, m.Topic+" "+string(m.Payload))
}

func (i *inbox) count(message string) (n int) {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	for _, x := range i.all {
		if x == message {
			n++
		}
	}
	return n
}

func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(testTimeout); !done(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not in time", what)
		}
	}
}

// mustConnect connects as soon as a broker listens.
func mustConnect(t *testing.T, b telemetry.Broker, handle func(telemetry.Message), filters ...string) (c *telemetry.Client) {
	t.Helper()
	eventually(t, "connection to "+b.URL, func() bool {
		var err error
		c, err = connect(t, b, handle, filters...)
		return err == nil
	})
	return c
}

// Two brokers and the bridge between them: statuses out, commands in, and nothing else. When
// the link is cut, the cluster's broker still has `online: true`, and the bridge's topic
// shows it; what either side published meanwhile does not come later.
func TestBridge(t *testing.T) {
	mosquittotest.Program(t, "mosquitto")
	dir := mosquittotest.Dir(t)
	field, cluster := filepath.Join(dir, "field"), filepath.Join(dir, "cluster")
	certificates := map[string][]access.Certificate{
		field: {{Name: access.NameBroker, Role: access.RoleBroker, Hosts: []string{"127.0.0.1"}},
			{Name: access.NameLeader, Role: access.RoleLeader}, {Name: "u1", Role: access.RoleUser}},
		// As far as the cluster is concerned, a bridge is a client like a user.
		cluster: {{Name: access.NameBroker, Role: access.RoleBroker, Hosts: []string{"127.0.0.1"}}, {Name: "crew-1", Role: access.RoleCrew},
			{Name: "demo", Role: access.RoleUser}, {Name: "other", Role: access.RoleUser}},
	}
	for folder, wanted := range certificates {
		if _, err := access.Issue(folder, wanted, access.Validity{Authority: time.Hour, Others: time.Hour}, time.Now()); err != nil {
			t.Fatal(err)
		}
		os.Chmod(folder, 0o755)
		os.Chmod(filepath.Join(folder, "broker.key"), 0o644) // for the user that mosquitto runs as
	}
	copyFile := func(from, to string) {
		raw, err := os.ReadFile(from)
		if err == nil {
			err = os.WriteFile(to, raw, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	copyFile("acl", filepath.Join(field, "acl"))
	copyFile("acl-cluster", filepath.Join(cluster, "acl"))
	copyFile(filepath.Join(cluster, "ca.crt"), filepath.Join(field, "cluster-ca.crt"))
	copyFile(filepath.Join(cluster, "demo.crt"), filepath.Join(field, "bridge.crt"))
	copyFile(filepath.Join(cluster, "demo.key"), filepath.Join(field, "bridge.key"))
	read := func(name string) string {
		raw, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	// start runs a broker with the files that ship; far is where its bridge leads.
	start := func(folder, text, far string) (port string, b *mosquittotest.Broker) {
		b = mosquittotest.Start(t, folder, func(free func() string) string {
			port = free()
			return "log_type all\n" + strings.NewReplacer("/etc/mosquitto/prefdt", folder, "listener 8883", "listener "+port+" 127.0.0.1",
				"listener 8885", "listener "+free(), "cluster.example:8883", far).Replace(text)
		})
		return port, b
	}
	broker := func(folder, port, name string) telemetry.Broker {
		at := func(file string) string { return filepath.Join(folder, file) }
		return telemetry.Broker{URL: "tls://127.0.0.1:" + port, CA: at("ca.crt"), Cert: at(name + ".crt"), Key: at(name + ".key")}
	}
	publish := func(c *telemetry.Client, topic, payload string, retained bool) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
		defer cancel()
		if err := c.PublishWait(ctx, telemetry.Publication{Topic: topic, QoS: 1, Retained: retained, Payload: []byte(payload)}); err !=
			nil {
			t.Fatal(err)
		}
	}

	clusterPort, clusterBroker := start(cluster, read("mosquitto.conf"), "")
	link := newRadio(t, "127.0.0.1:"+clusterPort)
	var far, near inbox
	filters := []string{"prefdt/demo/status", "prefdt/demo/online", "prefdt/demo/ack/+", "prefdt/demo/bridge"}
	crew := mustConnect(t, broker(cluster, clusterPort, "crew-1"), far.handle, filters...)
	fieldPort, _ := start(field, read("mosquitto.conf")+read("bridge.conf"), link.Addr().String())
	leader := mustConnect(t, broker(field, fieldPort, "leader"), near.handle, "prefdt/demo/command/#", "prefdt/demo/crew/+/heartbeat",
		"prefdt/demo/users/+/report", "prefdt/demo/status")
	eventually(t, "the bridge", func() bool { return far.count("prefdt/demo/bridge 1") == 1 })

	publish(leader, "prefdt/demo/online", "true", true)
	publish(leader, "prefdt/demo/status", "status 1", true)
	publish(leader, "prefdt/demo/ack/b1", "answer", false)
	publish(leader, "prefdt/demo/slot", "beacon", false)
	publish(leader, "prefdt/demo/status", "status 2", true)
	eventually(t, "status at the cluster and in the field", func() bool {
		return far.count("prefdt/demo/status status 2") > 0 && near.count("prefdt/demo/status status 2") > 0
	})
	if far.count("prefdt/demo/status status 2") != 1 || far.count("prefdt/demo/status status 1") != 1 ||
		far.count("prefdt/demo/online true") != 1 || far.count("prefdt/demo/ack/b1 answer") != 1 ||
		near.count("prefdt/demo/status status 2") != 1 {
		t.Errorf("the cluster received %q, the field %q", far.all, near.all)
	}
	other := mustConnect(t, broker(cluster, clusterPort, "other"), nil)
	publish(other, "prefdt/demo/command/budget", "of another fleet's bridge", false)
	publish(other, "prefdt/demo/status", "forged", true)
	for topic, payload := range map[string]string{"prefdt/demo/status": "forged", "prefdt/demo/crew/crew-1/heartbeat": "beat",
		"prefdt/demo/users/u1/report": "report", "prefdt/demo/online": "false"} {
		publish(crew, topic, payload, true)
	}
	publish(crew, "prefdt/demo/command/budget", "command 1", false)
	eventually(t, "command in the field", func() bool { return near.count("prefdt/demo/command/budget command 1") == 1 })
	near.mutex.Lock()
	for _, x := range near.all {
		if !strings.HasPrefix(x, "prefdt/demo/status status ") && x != "prefdt/demo/command/budget command 1" {
			t.Errorf("into the field came %q", x)
		}
	}
	near.mutex.Unlock()

	link.setCut(true)
	eventually(t, "the bridge's will", func() bool { return far.count("prefdt/demo/bridge 0") == 1 })
	var late inbox
	mustConnect(t, broker(cluster, clusterPort, "crew-1"), late.handle, filters...)
	eventually(t, "what the cluster kept", func() bool {
		return late.count("prefdt/demo/bridge 0") > 0 && late.count("prefdt/demo/status status 2") > 0 &&
			late.count("prefdt/demo/online true") > 0
	})
	if late.count("prefdt/demo/bridge 0") != 1 || late.count("prefdt/demo/status status 2") != 1 ||
		late.count("prefdt/demo/online true") != 1 {
		t.Errorf("the cluster kept %q", late.all)
	}
	publish(crew, "prefdt/demo/command/mission", "late", false)
	publish(leader, "prefdt/demo/ack/b2", "late", false)
	publish(leader, "prefdt/demo/status", "status 3", true)

	link.setCut(false)
	eventually(t, "the bridge again", func() bool { return far.count("prefdt/demo/bridge 1") >= 2 })
	eventually(t, "the present status", func() bool { return far.count("prefdt/demo/status status 3") > 0 })
	eventually(t, "a command over the new link", func() bool {
		publish(crew, "prefdt/demo/command/budget", "command 2", false)
		return near.count("prefdt/demo/command/budget command 2") > 0
	})
	publish(leader, "prefdt/demo/ack/b3", "answer", false)
	eventually(t, "an answer over the new link", func() bool { return far.count("prefdt/demo/ack/b3 answer") > 0 })
	if near.count("prefdt/demo/command/mission late") > 0 || far.count("prefdt/demo/ack/b2 late") > 0 {
		t.Error("what waited for the link was delivered")
	}
	eventually(t, "a denial in the log of the cluster's broker", func() bool {
		raw, _ := os.ReadFile(clusterBroker.Log)
		return strings.Contains(string(raw), "Denied PUBLISH from")
	})
}
