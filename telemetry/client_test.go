package telemetry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eclipse/paho.mqtt.golang/packets"

	"prefdt/simbridge/simnet"
)

// connectClient connects a client, which is closed at the end of the test. Its messages
// are sent on the channel.
func connectClient(t testing.TB, c *Client, filters ...string) <-chan Message {
	t.Helper()
	messages := make(chan Message, 10000)
	for _, f := range filters {
		c.Subscriptions = append(c.Subscriptions, Subscription{Filter: f, QoS: 1})
	}
	if c.Handle == nil {
		c.Handle = func(m Message) { messages <- m }
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Retry == 0 {
		c.Retry = 5 * time.Millisecond
	}
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	if err := c.Initialize(ctx); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	if len(filters) > 0 {
		// The broker has completed the subscription, retained messages included, once it
		// acknowledges a later publication.
		publish(t, c, Publication{Topic: "subscribed", QoS: 1})
	}
	return messages
}

func publish(t testing.TB, c *Client, p Publication) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	if err := c.PublishWait(ctx, p); err != nil {
		t.Fatal(err)
	}
}

func TestRetainedAndClientID(t *testing.T) {
	eachBroker(t, func(t *testing.T, p *place) {
		address, _ := p.start(t, brokerSetup{})
		a := &Client{Broker: p.broker(address), Name: "a-rather-long-program-name"}
		connectClient(t, a)
		b := &Client{Broker: p.broker(address), Name: "a-rather-long-program-name"}
		live := connectClient(t, b, "x")
		if x, y := a.session.Load().id, b.session.Load().id; x == y || len(x) > 23 {
			t.Errorf("client ids %q and %q", x, y)
		}
		publish(t, a, Publication{Topic: "x", QoS: 1, Retained: true, Payload: []byte("hello")})
		if m := nextEvent(t, "message", live); string(m.Payload) != "hello" || m.Retained || m.Received.IsZero() {
			t.Errorf("live: %+v", m)
		}
		late := connectClient(t, &Client{Broker: p.broker(address), Name: "c"}, "x")
		if m := nextEvent(t, "retained message", late); string(m.Payload) != "hello" || !m.Retained {
			t.Errorf("retained: %+v", m)
		}
	})
}

// Subscriptions and the publications of OnConnect are restored after a broker without
// persistence restarted; no message of the outage is delivered late.
func TestBrokerRestart(t *testing.T) {
	eachBroker(t, func(t *testing.T, p *place) {
		address, stop := p.start(t, brokerSetup{})
		wire := p.wire(address)
		leader := &Client{Broker: wire.broker(), Name: "leader"}
		down := make(chan error, 1)
		leader.OnDisconnect = func(err error) { down <- err }
		leader.OnConnect = func() {
			leader.Publish(Publication{"online", 1, true, EncodeOnline(true)})
			leader.Publish(Publication{"status", 0, true, []byte("s")})
		}
		commands := connectClient(t, leader, "command/+")
		watch := connectClient(t, &Client{Broker: wire.broker(), Name: "watch"}, "online", "status")
		seen := func() map[string]string {
			return collect(t, watch, "online", "status")
		}
		if s := seen(); s["online"] != "true" {
			t.Fatalf("first connection: %v", s)
		}
		wire.plug("")
		stop()
		if err := nextEvent(t, "loss", down); err == nil {
			t.Error("no reason for the loss")
		}
		if err := leader.Publish(Publication{"slot", 0, false, []byte("stale")}); !errors.Is(err, ErrNotConnected) {
			t.Errorf("publish without a broker: %v", err)
		}
		address, _ = p.start(t, brokerSetup{})
		wire.plug(address)
		if s := seen(); s["online"] != "true" || s["status"] != "s" {
			t.Fatalf("second connection: %v", s)
		}
		crew := &Client{Broker: wire.broker(), Name: "crew"}
		connectClient(t, crew)
		publish(t, crew, Publication{Topic: "command/budget", QoS: 1, Payload: []byte("b")})
		if m := nextEvent(t, "command after the restart", commands); m.Topic != "command/budget" {
			t.Errorf("got %+v", m)
		}
	})
}

// collect waits for one more message on each topic.
func collect(t testing.TB, messages <-chan Message, topics ...string) map[string]string {
	t.Helper()
	got := map[string]string{}
	for len(got) < len(topics) {
		m := nextEvent(t, fmt.Sprint(topics), messages)
		got[m.Topic] = string(m.Payload)
	}
	return got
}

func TestWill(t *testing.T) {
	eachBroker(t, func(t *testing.T, p *place) {
		address, _ := p.start(t, brokerSetup{})
		online := connectClient(t, &Client{Broker: p.broker(address), Name: "watch"}, "online")
		wire := p.wire(address)

		// A client without a will leaves no retained message.
		listener := &Client{Broker: wire.broker(), Name: "leader"}
		connectClient(t, listener)
		listener.Close()

		leader := &Client{Broker: wire.broker(), Name: "leader", Will: &Publication{"online", 1, true, EncodeOnline(false)}}
		leader.OnConnect = func() { leader.Publish(Publication{"online", 1, true, EncodeOnline(true)}) }
		connectClient(t, leader)
		want := func(when, payload string) {
			t.Helper()
			if m := nextEvent(t, when, online); string(m.Payload) != payload {
				t.Fatalf("%s: online is %s", when, m.Payload)
			}
		}
		want("connected", "true")
		wire.plug("") // or the next connection's message could overtake the will of this one
		wire.cut()
		want("cable cut", "false")
		wire.plug(address)
		want("connected again", "true")
		leader.Close()
		want("closed", "false")
	})
}

// A broker detects late that a connection is lost: ending the old session then does not
// affect the new one.
func TestOldSessionEndsLate(t *testing.T) {
	eachBroker(t, func(t *testing.T, p *place) {
		address, _ := p.start(t, brokerSetup{})
		wire := p.wire(address)
		leader := &Client{Broker: wire.broker(), Name: "leader", Will: &Publication{"online", 1, true, EncodeOnline(false)}}
		ids, lost := make(chan string, 10), make(chan error, 10)
		leader.OnConnect = func() { ids <- leader.session.Load().id }
		leader.OnDisconnect = func(err error) { lost <- err }
		commands := connectClient(t, leader, "command")
		online := connectClient(t, &Client{Broker: p.broker(address), Name: "watch"}, "online")
		first := nextEvent(t, "connection", ids)
		endOld := wire.cutNear()
		nextEvent(t, "loss", lost)
		if second := nextEvent(t, "second connection", ids); second == first || second != leader.session.Load().id ||
			!strings.HasPrefix(second, "leader-") || len(second) > 23 {
			t.Errorf("client ids %q and %q", first, second)
		}
		endOld()
		if m := nextEvent(t, "the old session's will", online); string(m.Payload) != "false" {
			t.Errorf("online is %s", m.Payload)
		}
		publish(t, leader, Publication{Topic: "command", QoS: 1, Payload: []byte("still here")})
		nextEvent(t, "message through the new session", commands)
		if len(lost) > 0 {
			t.Errorf("the new session ended too: %v", <-lost)
		}
	})
}

// A broker that accepts each connection and then closes it is retried with back-off.
func TestBrokerThatHangsUp(t *testing.T) {
	inMemory(t, func(t *testing.T, p *place) {
		l := p.listen(t, "127.0.0.1:0")
		accepted := make(chan time.Time, 100)
		go func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				accepted <- time.Now()
				packets.ReadPacket(conn)
				packets.NewControlPacket(packets.Connack).Write(conn)
				conn.Close()
			}
		}()
		const retry = 100 * time.Millisecond
		c := &Client{Broker: p.broker(l.Addr().String()), Name: "c", Retry: retry}
		connectClient(t, c)
		first, last := nextEvent(t, "connection", accepted), time.Time{}
		for range 5 {
			last = nextEvent(t, "connection again", accepted)
		}
		if took, want := last.Sub(first), (1+2+4+8+8)*retry; took < want || took > want+retry/4 {
			t.Errorf("five more connections within %v, want %v", took, want)
		}
	})
}

func TestTLSAndPassword(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	right, wrong := file("right", "s3cret pass\n"), file("wrong", "guess\n")
	eachBroker(t, func(t *testing.T, p *place) {
		certs, others := newTestCertificates(t), newTestCertificates(t)
		address, _ := p.start(t, brokerSetup{password: "s3cret pass", certs: certs})
		good := Broker{URL: "tls://" + address, Dial: p.dial, Username: "crew", PasswordFile: right, CA: certs.ca, Cert: certs.clientCert,
			Key: certs.clientKey}
		client := &Client{Broker: good, Name: "c"}
		messages := connectClient(t, client, "x")
		publish(t, client, Publication{Topic: "x", QoS: 1, Payload: []byte("1")})
		nextEvent(t, "message", messages)

		cases := []struct {
			name   string
			change func(*Broker)
			want   string
		}{
			{"wrong password", func(b *Broker) { b.PasswordFile = wrong }, "not Authorized"},
			{"no password", func(b *Broker) { b.Username, b.PasswordFile = "", "" }, "not Authorized"},
			{"another authority", func(b *Broker) { b.CA = others.ca }, "unknown authority"},
			{"no certificate", func(b *Broker) { b.Cert, b.Key = "", "" }, "unreachable"},
			{"certificate of another authority", func(b *Broker) { b.Cert, b.Key = others.clientCert, others.clientKey }, "unreachable"},
			{"no TLS", func(b *Broker) { b.URL, b.CA, b.Cert, b.Key = "tcp://"+address, "", "", "" }, "unreachable"},
		}
		for _, c := range cases {
			broker := good
			c.change(&broker)
			ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
			log, lines := logLines()
			go func() { // one attempt is enough
				select {
				case <-lines:
					cancel()
				case <-ctx.Done():
				}
			}()
			err := (&Client{Broker: broker, Name: "c", Retry: time.Minute, Log: log}).Initialize(ctx)
			cancel()
			if err == nil || !(strings.Contains(err.Error(), c.want) || c.want == "not Authorized" && strings.Contains(err.Error(),
				"bad user name or password")) {
				t.Errorf("%s: %v, want %s", c.name, err, c.want)
			}
		}
	})
}

// A machine whose clock is behind the broker's certificate, as one without a clock of its own where nothing sets it, connects, and says
// that its clock is wrong. A certificate that has ended is refused, with its date.
func TestClockBehindTheCertificates(t *testing.T) {
	for _, behind := range []time.Duration{12 * time.Hour, 400 * 24 * time.Hour, -3 * time.Hour} {
		t.Run(behind.String(), func(t *testing.T) {
			inMemory(t, func(t *testing.T, p *place) {
				certs := newTestCertificatesAt(t, time.Now().Add(behind))
				address, _ := p.start(t, brokerSetup{certs: certs})
				log, lines := logLines()
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				b := Broker{URL: "tls://" + address, Dial: p.dial, CA: certs.ca, Cert: certs.clientCert, Key: certs.clientKey}
				c := &Client{Broker: b, Name: "c", Log: log}
				err := c.Initialize(ctx)
				defer c.Close()
				said := nextEvent(t, "line", lines)
				switch want := "the certificate of server ended on " + formatDate(time.Now().Add(behind+time.Hour)); {
				case behind > 0 && (err != nil || !strings.Contains(said, "this machine's clock is behind")):
					t.Errorf("%v, %s", err, said)
				case behind < 0 && (err == nil || !strings.Contains(err.Error(), want)):
					t.Errorf("%v, want %s", err, want)
				}
			})
		})
	}
}

// What usually keeps a client from its broker is said, with the cure.
func TestHints(t *testing.T) {
	for _, c := range []struct {
		want string
		err  error
		will *Publication
	}{
		{want: "names that end in .local are found by avahi",
			err: &net.DNSError{Err: "no such host", Name: "Board.local.", IsNotFound: true}},
		{want: "EOF; the broker ends the connection at once: it may refuse the will", err: io.EOF,
			will: &Publication{Topic: "x", Retained: true}},
		{want: "no such host", err: &net.DNSError{Err: "no such host", Name: "board.example", IsNotFound: true}},
	} {
		t.Run(c.want, func(t *testing.T) {
			b := Broker{URL: "tcp://board:1883", Dial: func(context.Context, string, string) (net.Conn, error) { return nil, c.err }}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			err := (&Client{Broker: b, Will: c.will, Log: slog.New(slog.DiscardHandler)}).Initialize(ctx)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %s", err, c.want)
			}
		})
	}
}

// A broker that ends the connection for a message, which a client that connects again publishes again, is told as that, once.
func TestRefusedPublication(t *testing.T) {
	for name, c := range map[string]struct {
		setup    brokerSetup
		retained bool
		want     string
	}{
		"too long": {brokerSetup{maxPayload: 600}, false, "within a second of a message of 700 bytes: it may not accept so many"},
		"retained": {brokerSetup{noRetained: true}, true, "or no retained messages"},
		"fine":     {brokerSetup{}, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			inMemory(t, func(t *testing.T, p *place) {
				address, _ := p.start(t, c.setup)
				log, lines := logLines()
				client := &Client{Broker: p.broker(address), Name: "c", Log: log}
				client.OnConnect = func() {
					client.Publish(Publication{Topic: "x", Payload: []byte("true"), QoS: 1})
					client.Publish(Publication{Topic: "y", Payload: make([]byte, 700), Retained: c.retained})
				}
				if err := client.Initialize(t.Context()); err != nil {
					t.Fatal(err)
				}
				time.Sleep(20 * time.Second)
				client.Close()
				said := 0
				for range len(lines) {
					if line := <-lines; c.want != "" && strings.Contains(line, c.want) {
						said++
					}
				}
				if want := min(len(c.want), 1); said != want {
					t.Errorf("said %d times, want %d", said, want)
				}
			})
		})
	}
}

func TestSubscriptionRefused(t *testing.T) {
	eachBroker(t, func(t *testing.T, p *place) {
		if strings.Contains(t.Name(), "mosquitto") {
			t.Skip("mosquitto 2.0 grants a subscription whose messages its ACL then withholds")
		}
		address, _ := p.start(t, brokerSetup{deniedFilter: "secret"})
		c := &Client{Broker: p.broker(address), Subscriptions: []Subscription{{Filter: "secret", QoS: 0}},
			Handle: func(Message) {}, Log: slog.New(slog.DiscardHandler)}
		err := c.Initialize(t.Context())
		if !errors.Is(err, errRefused) || !strings.Contains(err.Error(), "secret") {
			t.Errorf("got %v", err)
		}
	})
}

func TestUnreachableAtStart(t *testing.T) {
	inMemory(t, func(t *testing.T, p *place) {
		address := p.FreeAddress()
		log, lines := logLines()
		ctx, cancel := context.WithCancel(t.Context())
		failed := make(chan error, 1)
		everyAttempt := outage{interval: time.Nanosecond}
		c := &Client{Broker: p.broker(address), Retry: time.Millisecond, Log: log, outage: everyAttempt}
		go func() { failed <- c.Initialize(ctx) }()
		for _, wait := range []string{"1ms", "2ms", "4ms", "8ms", "8ms"} {
			line := nextEvent(t, "line for each attempt", lines)
			if !strings.Contains(line, "broker tcp://"+address+" unreachable: ") ||
				!strings.Contains(line, "connection refused; retrying in "+wait+`"`) {
				t.Fatalf("line: %s, want %s", line, wait)
			}
		}
		cancel()
		if err := nextEvent(t, "end", failed); err == nil || !strings.Contains(err.Error(), "unreachable") ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("got %v", err)
		}
		// Initialize succeeds once the broker is reachable.
		c = &Client{Broker: p.broker(address), Retry: time.Second, Log: slog.New(slog.DiscardHandler)}
		time.AfterFunc(time.Second/2, func() { p.startMochi(t, address, brokerSetup{}) })
		began := time.Now()
		if err := c.Initialize(t.Context()); err != nil || time.Since(began) < time.Second || time.Since(began) > 1100*time.Millisecond {
			t.Fatalf("%v after %v", err, time.Since(began))
		}
		c.Close()
	})
}

// However often the client tries again, an outage is logged once in an interval: at
// the start, and after the loss of a connection.
func TestOutageIsLoggedOnce(t *testing.T) {
	inMemory(t, func(t *testing.T, p *place) {
		l := p.listen(t, "127.0.0.1:0")
		accept := func() net.Conn {
			conn, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			return conn
		}
		log, lines := logLines()
		expect := func(want ...string) {
			t.Helper()
			if len(lines) != len(want) {
				t.Errorf("%d lines, want %d", len(lines), len(want))
			}
			for _, text := range want {
				if line := nextEvent(t, text, lines); !strings.Contains(line, text) {
					t.Errorf("line %s, want %s", line, text)
				}
			}
		}
		c := &Client{Broker: p.broker(l.Addr().String()), Retry: time.Millisecond, Log: log}
		connected := make(chan error, 1)
		go func() { connected <- c.Initialize(t.Context()) }()
		for range 5 {
			accept().Close()
		}
		conn := accept() // five attempts have failed by now
		expect("unreachable")
		packets.ReadPacket(conn)
		packets.NewControlPacket(packets.Connack).Write(conn)
		if err := nextEvent(t, "connection", connected); err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		time.Sleep(2 * maxRetryFactor * c.Retry) // the connection counts as the end of the outage
		conn.Close()
		for range 5 {
			accept().Close()
		}
		accept().Close()
		expect("broker connected", "broker lost")
	})
}

func TestWarningInterval(t *testing.T) {
	o, start := outage{interval: warningInterval}, time.Unix(1000, 0)
	for _, c := range []struct {
		after time.Duration
		want  bool
	}{{0, true}, {time.Second, false}, {29 * time.Second, false}, {30 * time.Second, true}, {59 * time.Second, false},
		{61 * time.Second, true}} {
		if got := o.warningDue(start.Add(c.after)); got != c.want {
			t.Errorf("after %v: %v, want %v", c.after, got, c.want)
		}
	}
}

// A slot must not wait for a broker that hangs.
func TestPublishNeverWaits(t *testing.T) {
	inMemory(t, func(t *testing.T, p *place) {
		address, _ := p.start(t, brokerSetup{})
		c := &Client{Broker: p.broker(address), Name: "leader"}
		connectClient(t, c)
		p.Program("broker").Stop()
		defer p.Program("broker").Continue()
		payload := make([]byte, 32<<10)
		start, full := time.Now(), 0
		for range 2 * queueLength {
			if errors.Is(c.Publish(Publication{Topic: "x", QoS: 0, Payload: payload}), ErrQueueFull) {
				full++
			}
		}
		if out := c.Dropped().Publications; full == 0 || out != uint64(full) {
			t.Errorf("%d dropped, %d counted", full, out)
		}
		if took := time.Since(start); took != 0 {
			t.Errorf("%d publications took %v", 2*queueLength, took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		if err := c.PublishWait(ctx, Publication{Topic: "x", QoS: 1}); err == nil {
			t.Error("a publication that was not read was reported as delivered")
		}
		// Nor does the end of the program.
		start = time.Now()
		c.Close()
		if took := time.Since(start); took > writeTimeout+time.Second {
			t.Errorf("Close took %v", took)
		}
	})
}

// A host that accepts the connection and then sends nothing does not delay Initialize
// beyond the caller's deadline.
func TestSilentBroker(t *testing.T) {
	inMemory(t, func(t *testing.T, p *place) {
		l := p.listen(t, "127.0.0.1:0") // never accepts
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		start := time.Now()
		err := (&Client{Broker: p.broker(l.Addr().String()), Log: slog.New(slog.DiscardHandler)}).Initialize(ctx)
		if err == nil || !strings.HasSuffix(err.Error(), "unreachable: no answer") || time.Since(start) != 50*time.Millisecond {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
	})
}

// A network that carries nothing is noticed within a ping's interval and its timeout, and the
// client is connected again a retry after it carries again.
func TestNetworkCut(t *testing.T) {
	inMemory(t, func(t *testing.T, p *place) {
		address, _ := p.start(t, brokerSetup{})
		events := make(chan string, 100)
		c := &Client{Broker: p.broker(address), Name: "leader", Retry: 250 * time.Millisecond}
		c.OnConnect, c.OnDisconnect = func() { events <- "connected" }, func(error) { events <- "lost" }
		connectClient(t, c)
		nextEvent(t, "connection", events)
		for _, direction := range [][2]string{{"clients", "broker"}, {"broker", "clients"}} {
			time.Sleep(time.Minute)
			p.Set(direction[0], direction[1], &simnet.Conditions{Cut: true})
			began := time.Now()
			if e := nextEvent(t, "loss", events); e != "lost" || time.Since(began) > 9*time.Second || c.Connected() {
				t.Errorf("%v: %s after %v", direction, e, time.Since(began))
			}
			time.Sleep(time.Minute)
			p.Set(direction[0], direction[1], nil)
			began = time.Now()
			if e := nextEvent(t, "connection", events); e != "connected" || time.Since(began) > 2*maxRetryFactor*c.Retry ||
				len(events) > 0 {
				t.Errorf("%v: %s after %v, and %d more", direction, e, time.Since(began), len(events))
			}
		}
	})
}

// A broker that takes nothing for a write's timeout is lost then, though nothing more is sent.
func TestWriteTimeout(t *testing.T) {
	inMemory(t, func(t *testing.T, p *place) {
		address, _ := p.start(t, brokerSetup{})
		lost := make(chan error, 10)
		c := &Client{Broker: p.broker(address), Name: "c", OnDisconnect: func(err error) { lost <- err }}
		connectClient(t, c)
		p.Program("broker").Stop()
		defer p.Program("broker").Continue()
		began := time.Now()
		if err := c.Publish(Publication{Topic: "x", Payload: make([]byte, 8<<20)}); err != nil {
			t.Fatal(err)
		}
		if err := nextEvent(t, "loss", lost); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(began) != writeTimeout {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

// Neither the client nor the broker leaves a goroutine behind, however the connection ended.
func TestCloseEndsEverything(t *testing.T) {
	for name, end := range map[string]func(p *place, c *Client, stopBroker func()){
		"client first": func(_ *place, c *Client, stopBroker func()) { c.Close(); stopBroker() },
		"broker first": func(_ *place, c *Client, stopBroker func()) { stopBroker(); time.Sleep(time.Second); c.Close() },
		"at once":      func(_ *place, c *Client, stopBroker func()) { go stopBroker(); c.Close() },
		"a broker that hangs": func(p *place, c *Client, stopBroker func()) {
			p.Program("broker").Stop()
			c.Close()
			p.Program("broker").Continue()
			stopBroker()
		},
		"a cut": func(p *place, c *Client, stopBroker func()) {
			p.Set(simnet.Any, simnet.Any, &simnet.Conditions{Cut: true})
			c.Close()
			stopBroker()
		},
		"a power cut": func(p *place, c *Client, stopBroker func()) { p.Program("broker").LosePower(); c.Close(); stopBroker() },
	} {
		t.Run(name, func(t *testing.T) {
			inMemory(t, func(t *testing.T, p *place) {
				address, stop := p.start(t, brokerSetup{})
				c := &Client{Broker: p.broker(address), Name: "c"}
				connectClient(t, c, "x")
				for range 10 {
					c.Publish(Publication{Topic: "x", QoS: 1})
				}
				if len(startedHere()) == 0 {
					t.Error("nothing runs")
				}
				end(p, c, stop)
				time.Sleep(dialTimeout) // of an attempt to connect
				if list := startedHere(); len(list) > 0 {
					t.Errorf("still there:\n%s", strings.Join(list, "\n\n"))
				}
			})
		})
	}
}

// startedHere are the stacks of the goroutines that this test started.
func startedHere() (list []string) {
	own, stacks := make([]byte, 1<<12), make([]byte, 1<<22)
	bubble := regexp.MustCompile(`synctest bubble \d+\]`).FindString(string(own[:runtime.Stack(own, false)]))
	for stack := range strings.SplitSeq(string(stacks[:runtime.Stack(stacks, true)]), "\n\n") {
		if strings.Contains(stack, bubble) && !strings.Contains(stack, "testing/synctest.") {
			list = append(list, stack)
		}
	}
	return list
}

// A callback that blocks, even on the broker itself, delays no acknowledgement.
func TestCallbackMayWait(t *testing.T) {
	inMemory(t, func(t *testing.T, p *place) {
		address, _ := p.start(t, brokerSetup{})
		c := &Client{Broker: p.broker(address), Name: "c"}
		answered := make(chan error, 1)
		c.Handle = func(Message) {
			ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
			defer cancel()
			answered <- c.PublishWait(ctx, Publication{Topic: "answer", QoS: 1})
		}
		connectClient(t, c, "question")
		publish(t, c, Publication{Topic: "question", QoS: 1})
		if err := nextEvent(t, "answer", answered); err != nil {
			t.Error(err)
		}
	})
}

// Invalid messages of an untrusted client do not affect valid ones; each kind of
// fault is logged once and counted.
func TestStormOfMalformedPayloads(t *testing.T) {
	eachBroker(t, func(t *testing.T, p *place) {
		address, _ := p.start(t, brokerSetup{})
		topics, err := NewTopics("f1")
		if err != nil {
			t.Fatal(err)
		}
		log, lines := logLines()
		rejects := &RejectCounter{Log: log}
		reports := make(chan Report, 10000)
		var handled atomic.Int64
		leader := &Client{Broker: p.broker(address), Name: "leader"}
		leader.Handle = func(m Message) {
			defer handled.Add(1)
			if _, _, ok := topics.Parse(m.Topic); !ok {
				rejects.Add(m.Topic, &InvalidError{"topic", "not a topic of this fleet"})
				return
			}
			r, err := DecodeReport(m.Payload)
			if err != nil {
				rejects.Add(m.Topic, err)
				return
			}
			reports <- r
		}
		connectClient(t, leader, topics.AllReports())
		untrusted := &Client{Broker: p.broker(address), Name: "untrusted"}
		connectClient(t, untrusted)
		random := rand.New(rand.NewPCG(1, 2))
		const storm = 2000
		const most = 500 // on their way: mosquitto drops what a client has not read once there are 1,000
		valid := 0
		for i := range storm {
			for until := time.Now().Add(testTimeout); handled.Load() < int64(i-most); time.Sleep(time.Millisecond) {
				if time.Now().After(until) {
					t.Fatalf("%d of %d messages were handled", handled.Load(), i)
				}
			}
			payload := []byte(reportExample)
			switch i % 4 {
			case 0: // flipped bytes
				for range 1 + random.IntN(4) {
					payload[random.IntN(len(payload))] = byte(random.IntN(256))
				}
			case 1: // cut short
				payload = payload[:random.IntN(len(payload))]
			case 2: // an invalid user id
				publish(t, untrusted, Publication{Topic: topics.Report("$ u"), Payload: payload})
				continue
			case 3:
				payload = []byte(strings.Replace(reportExample, `"bits":1.1e6`, fmt.Sprintf(`"bits":%d`, -random.IntN(1e6)), 1))
			}
			if _, err := DecodeReport(payload); err == nil {
				valid++ // in spite of the flipped bytes
			}
			publish(t, untrusted, Publication{Topic: topics.Report("u1"), Payload: payload})
		}
		publish(t, untrusted, Publication{Topic: topics.Report("u1"), QoS: 1,
			Payload: []byte(`{"slot":99,"position_m":[1,2],"queue_bits":0,"cpu_hz":1}`)})
		for n := 0; ; n++ {
			if r := nextEvent(t, "valid report", reports); r.Slot == 99 && r.CPUHz == 1 {
				if n != valid || rejects.Total() != uint64(storm-valid) {
					t.Errorf("%d accepted, want %d; %d rejected, want %d", n, valid, rejects.Total(), storm-valid)
				}
				break
			}
		}
		if counts := rejects.Counts(); counts["topic"] != storm/4 || counts["report.task.bits: range"] < storm/4 ||
			len(counts) != len(lines) {
			t.Errorf("%d lines for %v", len(lines), counts)
		}
	})
}

func TestBrokerCheck(t *testing.T) {
	dir := t.TempDir()
	junk := filepath.Join(dir, "junk")
	if err := os.WriteFile(junk, []byte("junk"), 0o600); err != nil {
		t.Fatal(err)
	}
	cases := []struct {
		name   string
		broker Broker
		want   string
	}{
		{"good", Broker{URL: "tcp://localhost:1883"}, ""},
		{"default port", Broker{URL: "mqtt://[::1]"}, ""},
		{"empty", Broker{}, `broker url "": want tcp://host:port or tls://host:port`},
		{"no scheme", Broker{URL: "localhost:1883"}, "want tcp://"},
		{"other scheme", Broker{URL: "http://localhost"}, "want tcp://"},
		{"password in the url", Broker{URL: "tcp://u:p@localhost"}, "want tcp://"},
		{"certificates without TLS", Broker{URL: "tcp://h", CA: junk}, "need tls://"},
		{"no such ca", Broker{URL: "tls://h", CA: filepath.Join(dir, "none")}, "no such file"},
		{"not a ca", Broker{URL: "tls://h", CA: junk}, "no PEM certificate"},
		{"cert without key", Broker{URL: "tls://h", Cert: junk}, "and key"},
		{"password without user", Broker{URL: "tcp://h", PasswordFile: junk}, "set username too"},
		{"no such password", Broker{URL: "tcp://h", Username: "u", PasswordFile: filepath.Join(dir, "none")}, "no such file"},
	}
	for _, c := range cases {
		err := c.broker.Check()
		if (err == nil) != (c.want == "") || err != nil && (!strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n")) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}
