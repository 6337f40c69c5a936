//go:build real

package telemetry

import (
	"crypto/tls"
	"net"
	"testing"
)

// A link-local address is written with its interface, which no certificate has: it counts for the way there alone.
func TestAddressWithAnInterface(t *testing.T) {
	certs := newTestCertificates(t)
	l, err := tls.Listen("tcp", "[::1]:0", certs.server)
	if err != nil {
		t.Skip("no IPv6 here: ", err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.(*tls.Conn).Handshake()
		}
	}()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	b := Broker{URL: "tls://[::1%25lo]:" + port, CA: certs.ca, Cert: certs.clientCert, Key: certs.clientKey}
	address, config, err := b.endpoint()
	if err != nil {
		t.Fatal(err)
	}
	conn, _, err := b.dial(address, config)
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
}
