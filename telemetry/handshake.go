package telemetry

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"strings"
	"time"
)

// Handshake opens a connection and secures it. A machine without a clock of its own starts at the time of its image, before the other
// side's certificate is valid: then the certificate's beginning is taken for the time, which is later and so nearer, and all else of
// it is verified as ever. clockBehind is that beginning; zero: the clock will do.
func Handshake(ctx context.Context, dial func() (net.Conn, error), config *tls.Config) (c *tls.Conn, clockBehind time.Time, err error) {
	c, err = handshake(ctx, dial, config)
	var invalid x509.CertificateInvalidError
	if !errors.As(err, &invalid) || invalid.Reason != x509.Expired || invalid.Cert == nil || !time.Now().Before(invalid.Cert.NotBefore) {
		return c, clockBehind, err
	}
	clockBehind = invalid.Cert.NotBefore
	later := config.Clone()
	later.Time = func() time.Time { return clockBehind }
	c, err = handshake(ctx, dial, later)
	return c, clockBehind, err
}

func handshake(ctx context.Context, dial func() (net.Conn, error), config *tls.Config) (*tls.Conn, error) {
	conn, err := dial()
	if err != nil {
		return nil, err
	}
	c := tls.Client(conn, config)
	if err := c.HandshakeContext(ctx); err != nil {
		conn.Close()
		return nil, err
	}
	return c, nil
}

// LaterOf is the time for a server whose clock may be behind: not before its own certificate.
func LaterOf(own *tls.Certificate) func() time.Time {
	return func() time.Time {
		if now := time.Now(); own.Leaf == nil || now.After(own.Leaf.NotBefore) {
			return now
		}
		return own.Leaf.NotBefore
	}
}

// ServerName is what a certificate has for a host: of a link-local address not the interface.
func ServerName(host string) string {
	host, _, _ = strings.Cut(host, "%")
	return host
}
