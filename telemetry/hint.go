package telemetry

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"
)

// explained adds to a failure to connect what it usually comes from, and the cure.
func explained(err error, retainedWill bool) error {
	hint := hintOf(err)
	if hint == "" && retainedWill && strings.HasSuffix(err.Error(), "EOF") {
		hint = "the broker ends the connection at once: it may refuse the will, which is retained (mosquitto: retain_available true)"
	}
	if hint == "" {
		return err
	}
	return fmt.Errorf("%w; %s", err, hint)
}

func hintOf(err error) string {
	var unknown *net.DNSError
	var invalid x509.CertificateInvalidError
	switch {
	case errors.As(err, &unknown) && LocalName(unknown.Name):
		return LocalNameHint
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired && invalid.Cert != nil && time.Now().After(invalid.Cert.NotAfter):
		return fmt.Sprintf("the certificate of %s ended on %s: have `ground certs` renew it, or set this machine's clock, which says %s",
			invalid.Cert.Subject.CommonName, formatDate(invalid.Cert.NotAfter), formatDate(time.Now()))
	}
	return ""
}

// LocalName is whether a host's name is one of mDNS.
func LocalName(host string) bool {
	return strings.HasSuffix(strings.ToLower(strings.TrimSuffix(host, ".")), ".local")
}

// LocalNameHint is what to do about such a name.
const LocalNameHint = "names that end in .local are found by avahi and the like, which this program does not ask: give the address, or " +
	"put the name into /etc/hosts"

func formatDate(t time.Time) string { return t.UTC().Format(time.DateOnly) }
