package telemetry

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	mochi "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/packets"

	"prefdt/configs/mosquitto/mosquittotest"
	"prefdt/simbridge/broker/mochiserver"
	"prefdt/simbridge/simnet"
)

// testTimeout is how long a test waits for an event before it gives up: long enough for a
// machine with other load.
const testTimeout = time.Minute

// brokerSetup is the configuration of a test's broker.
type brokerSetup struct {
	password     string            // of user "crew"; empty: anonymous
	certs        *testCertificates // nil: no TLS; else mutual TLS
	deniedFilter string            // a filter that no client may read
	maxPayload   int               // a client that publishes a longer one is disconnected; 0: none is
	noRetained   bool              // so is one that publishes a retained message
}

type dialer func(ctx context.Context, network, address string) (net.Conn, error)

// place is where a test's programs run: in virtual time with the embedded broker, or on loopback
// with mosquitto.
type place struct {
	*simnet.Network        // nil on loopback
	dial            dialer // of all clients
}

// eachBroker runs a test against every broker this machine has.
func eachBroker(t *testing.T, test func(t *testing.T, p *place)) {
	t.Run("mochi", func(t *testing.T) { inMemory(t, test) })
	t.Run("mosquitto", func(t *testing.T) {
		t.Parallel()
		test(t, &place{dial: (&net.Dialer{}).DialContext})
	})
}

// inMemory runs a test with the embedded broker, in virtual time.
func inMemory(t *testing.T, test func(t *testing.T, p *place)) {
	t.Helper()
	simnet.Test(t, func(t *testing.T) {
		n := simnet.New(1)
		test(t, &place{n, n.Program("clients").Dial})
	})
}

// broker is how to reach one.
func (p *place) broker(address string) Broker { return Broker{URL: "tcp://" + address, Dial: p.dial} }

// start starts a broker, and returns its host:port and how to stop it.
func (p *place) start(t testing.TB, b brokerSetup) (address string, stop func()) {
	if p.Network == nil {
		return startMosquitto(t, b)
	}
	return p.startMochi(t, "127.0.0.1:0", b)
}

func (p *place) startMochi(t testing.TB, at string, b brokerSetup) (address string, stop func()) {
	server := mochi.New(&mochi.Options{Logger: slog.New(slog.DiscardHandler)})
	if err := server.AddHook(&accessHook{setup: b}, nil); err != nil {
		t.Fatal(err)
	}
	l := p.listen(t, at)
	address = l.Addr().String()
	if b.certs != nil {
		l = tls.NewListener(l, b.certs.server)
	}
	served, err := mochiserver.Serve(server, l)
	if err != nil {
		t.Fatal(err)
	}
	stop = sync.OnceFunc(served.Close)
	t.Cleanup(stop)
	return address, stop
}

// listen is of the program of brokers.
func (p *place) listen(t testing.TB, address string) net.Listener {
	l, err := p.Program("broker").Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// accessHook is the embedded broker's access rules.
type accessHook struct {
	mochi.HookBase
	setup brokerSetup
}

func (g *accessHook) Provides(hook byte) bool {
	return hook == mochi.OnConnectAuthenticate || hook == mochi.OnACLCheck || hook == mochi.OnPacketRead
}

func (g *accessHook) OnPacketRead(c *mochi.Client, p packets.Packet) (packets.Packet, error) {
	if p.FixedHeader.Type == packets.Publish && (g.setup.maxPayload > 0 && len(p.Payload) > g.setup.maxPayload ||
		g.setup.noRetained && p.FixedHeader.Retain) {
		c.Stop(packets.ErrPacketTooLarge)
		return p, packets.ErrRejectPacket
	}
	return p, nil
}

func (g *accessHook) OnConnectAuthenticate(_ *mochi.Client, p packets.Packet) bool {
	return g.setup.password == "" || string(p.Connect.Username) == "crew" && string(p.Connect.Password) == g.setup.password
}

func (g *accessHook) OnACLCheck(_ *mochi.Client, topic string, write bool) bool {
	return write || topic != g.setup.deniedFilter || topic == ""
}

func startMosquitto(t testing.TB, b brokerSetup) (address string, stop func()) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	broker := mosquittotest.Start(t, dir, func(port func() string) string {
		number := port()
		address = "127.0.0.1:" + number
		conf := fmt.Sprintf("listener %s 127.0.0.1\nset_tcp_nodelay true\nuser root\nallow_anonymous %v\n", number, b.password == "")
		if b.password != "" {
			file := write("passwords", "")
			out, err := exec.Command(mosquittotest.Program(t, "mosquitto_passwd"), "-b", file, "crew", b.password).CombinedOutput()
			if err != nil {
				t.Fatalf("mosquitto_passwd: %v %s", err, out)
			}
			conf += "password_file " + file + "\n"
		}
		if b.deniedFilter != "" {
			conf += "acl_file " + write("acl", "topic readwrite #\ntopic deny "+b.deniedFilter+"\n") + "\n"
		}
		if b.certs != nil {
			conf += fmt.Sprintf("cafile %s\ncertfile %s\nkeyfile %s\nrequire_certificate true\n", b.certs.ca, b.certs.serverCert,
				b.certs.serverKey)
		}
		return conf
	})
	return address, broker.Stop
}

// testCertificates is an authority and what it signed, made for one test.
type testCertificates struct {
	ca, serverCert, serverKey, clientCert, clientKey string // PEM files
	server                                           *tls.Config
}

func newTestCertificates(t testing.TB) *testCertificates { return newTestCertificatesAt(t, time.Now()) }

// newTestCertificatesAt are valid for the hour before a time and the hour after it; that is the broker's clock.
func newTestCertificatesAt(t testing.TB, now time.Time) *testCertificates {
	dir := t.TempDir()
	write := func(name, kind string, der []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	serial := int64(0)
	issue := func(name string, parent *x509.Certificate, signer *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey, string, string) {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		serial++
		template := &x509.Certificate{SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: name},
			NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour),
			IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}, KeyUsage: x509.KeyUsageDigitalSignature,
			ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
		if parent == nil {
			parent, signer = template, key
			template.IsCA, template.BasicConstraintsValid, template.KeyUsage = true, true, x509.KeyUsageCertSign
		}
		der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
		if err != nil {
			t.Fatal(err)
		}
		cert, err := x509.ParseCertificate(der)
		if err != nil {
			t.Fatal(err)
		}
		pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
		if err != nil {
			t.Fatal(err)
		}
		keyFile := write(name+".key", "PRIVATE KEY", pkcs8)
		if name == "client" { // the broker's is for the user that mosquitto runs as
			os.Chmod(keyFile, 0o600)
		}
		return cert, key, write(name+".pem", "CERTIFICATE", der), keyFile
	}
	c := &testCertificates{}
	ca, caKey, caFile, _ := issue("ca", nil, nil)
	c.ca = caFile
	_, _, c.serverCert, c.serverKey = issue("server", ca, caKey)
	_, _, c.clientCert, c.clientKey = issue("client", ca, caKey)
	pair, err := tls.LoadX509KeyPair(c.serverCert, c.serverKey)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(ca)
	c.server = &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert,
		Time: func() time.Time { return now }}
	return c
}

// wire is how clients reach a broker. A test can cut it, or plug it into another broker.
type wire struct {
	dialFar dialer

	mutex    sync.Mutex
	upstream string // empty: nothing at the other end
	conns    []*wiredConn
}

func (p *place) wire(upstream string) *wire { return &wire{dialFar: p.dial, upstream: upstream} }

func (w *wire) broker() Broker { return Broker{URL: "tcp://wire:1883", Dial: w.dial} }

func (w *wire) plug(upstream string) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.upstream = upstream
}

func (w *wire) dial(ctx context.Context, network, _ string) (net.Conn, error) {
	w.mutex.Lock()
	upstream := w.upstream
	w.mutex.Unlock()
	if upstream == "" {
		return nil, errors.New("not plugged in")
	}
	conn, err := w.dialFar(ctx, network, upstream)
	if err != nil {
		return nil, err
	}
	c := &wiredConn{Conn: conn}
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.conns = append(w.conns, c)
	return c, nil
}

func (w *wire) take() (conns []*wiredConn) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	conns, w.conns = w.conns, nil
	return conns
}

// cut breaks every connection without an MQTT DISCONNECT.
func (w *wire) cut() { w.cutNear()() }

// cutNear breaks the clients' ends alone: the broker does not notice until end.
func (w *wire) cutNear() (end func()) {
	conns := w.take()
	for _, c := range conns {
		c.isCut.Store(true)
		c.SetReadDeadline(time.Unix(1, 0)) // paho takes net.ErrClosed for its own doing
	}
	return func() {
		for _, c := range conns {
			c.Conn.Close()
		}
	}
}

type wiredConn struct {
	net.Conn
	isCut atomic.Bool // the far end alone is open
}

func (c *wiredConn) Write(b []byte) (int, error) {
	if c.isCut.Load() {
		return 0, net.ErrClosed
	}
	return c.Conn.Write(b)
}

func (c *wiredConn) Close() error {
	if c.isCut.Load() {
		return nil
	}
	return c.Conn.Close()
}

// logLines is a logger whose lines a test reads.
func logLines() (*slog.Logger, <-chan string) {
	lines := make(chan string, 1000)
	return slog.New(slog.NewTextHandler(lineWriter(lines), nil)), lines
}

type lineWriter chan string

func (w lineWriter) Write(p []byte) (int, error) {
	select {
	case w <- string(p):
	default:
	}
	return len(p), nil
}

// nextEvent waits for the next event of a test.
func nextEvent[T any](t testing.TB, what string, events <-chan T) T {
	t.Helper()
	select {
	case e := <-events:
		return e
	case <-time.After(testTimeout):
		t.Fatalf("no %s within %v", what, testTimeout)
		panic("unreachable")
	}
}
