package telemetry

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	mochi "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/packets"

	"prefdt/configs/freeport"
	"prefdt/configs/mosquitto/mosquittotest"
	"prefdt/simbridge/broker/mochiserver"
)

// testTimeout is how long a test waits for an event before it gives up: long enough for a
// machine with other load.
const testTimeout = time.Minute

// brokerSetup is the configuration of a test's broker on loopback.
type brokerSetup struct {
	password     string            // of user "crew"; empty: anonymous
	certs        *testCertificates // nil: no TLS; else mutual TLS
	deniedFilter string            // a filter that no client may read
}

// startBroker starts a real broker and returns its host:port and how to stop it.
type startBroker func(testing.TB, brokerSetup) (address string, stop func())

var brokers = map[string]startBroker{
	"mochi":     startMochi,
	"mosquitto": startMosquitto,
}

// eachBroker runs a test against every broker this machine has.
func eachBroker(t *testing.T, test func(t *testing.T, start startBroker)) {
	for name, start := range brokers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, start)
		})
	}
}

// freeAddress returns an address at which nothing listened a moment ago.
func freeAddress(t testing.TB) string {
	address, err := freeport.Address()
	if err != nil {
		t.Fatal(err)
	}
	return address
}

func startMochi(t testing.TB, b brokerSetup) (address string, stop func()) {
	server := mochi.New(&mochi.Options{Logger: slog.New(slog.DiscardHandler)})
	if err := server.AddHook(&accessHook{setup: b}, nil); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
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

// accessHook is the embedded broker's access rules.
type accessHook struct {
	mochi.HookBase
	setup brokerSetup
}

func (g *accessHook) Provides(hook byte) bool {
	return hook == mochi.OnConnectAuthenticate || hook == mochi.OnACLCheck
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

func newTestCertificates(t testing.TB) *testCertificates {
	dir := t.TempDir()
	now := time.Now()
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
			IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, KeyUsage: x509.KeyUsageDigitalSignature,
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
	c.server = &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert}
	return c
}

// tcpProxy is a TCP connection to a broker that a test can cut, hold or plug into
// another broker.
type tcpProxy struct {
	listener net.Listener

	mutex        sync.Mutex
	upstream     string // empty: nothing at the other end
	conns        []net.Conn
	keepsFarOpen bool // the far ends stay open when a near one closes
	paused       bool
	resumed      chan struct{} // closed when not held
}

func newTCPProxy(t testing.TB, upstream string) *tcpProxy {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &tcpProxy{listener: l, upstream: upstream, resumed: make(chan struct{})}
	close(c.resumed)
	go func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			c.mutex.Lock()
			far, err := net.Dial("tcp", c.upstream)
			if err != nil {
				near.Close()
			} else {
				c.conns = append(c.conns, near, far)
				go c.pump(near, far)
				go c.pump(far, near)
			}
			c.mutex.Unlock()
		}
	}()
	t.Cleanup(func() { l.Close(); c.resume(); c.cutAll() })
	return c
}

func (c *tcpProxy) setUpstream(upstream string) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.upstream = upstream
}

func (c *tcpProxy) url() string { return "tcp://" + c.listener.Addr().String() }

func (c *tcpProxy) pump(to, from net.Conn) {
	defer func() {
		c.mutex.Lock()
		defer c.mutex.Unlock()
		if !c.keepsFarOpen {
			to.Close()
		}
	}()
	buffer := make([]byte, 4096)
	for {
		c.mutex.Lock()
		free := c.resumed
		c.mutex.Unlock()
		<-free
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
	}
}

// cutAll breaks every connection without an MQTT DISCONNECT.
func (c *tcpProxy) cutAll() {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	for _, end := range c.conns {
		end.Close()
	}
	c.conns = nil
}

// cutNear breaks the near halves alone, and returns the far ones: the broker does
// not notice.
func (c *tcpProxy) cutNear() (far []net.Conn) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.keepsFarOpen = true
	for i, end := range c.conns {
		if i%2 == 0 {
			end.Close()
		} else {
			far = append(far, end)
		}
	}
	c.conns = nil
	return far
}

// pause stops reading, as a broker that hangs.
func (c *tcpProxy) pause() {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if !c.paused {
		c.paused, c.resumed = true, make(chan struct{})
	}
}

func (c *tcpProxy) resume() {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.paused {
		c.paused = false
		close(c.resumed)
	}
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
