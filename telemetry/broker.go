package telemetry

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"
)

// Broker is how to reach the MQTT broker. It is part of every program's
// configuration.
type Broker struct {
	URL          string `yaml:"url"`           // tcp://host:port, or tls://host:port; default ports 1883 and 8883
	Username     string `yaml:"username"`      // empty: anonymous
	PasswordFile string `yaml:"password_file"` // file whose first line is the password
	CA           string `yaml:"ca"`            // PEM file of the authority that signed the broker's certificate; empty: the system's
	Cert         string `yaml:"cert"`          // PEM file of the client certificate, for brokers that require one
	Key          string `yaml:"key"`           // PEM file of its private key
	// start of the client id, to which each connection adds a random end; empty: the program's name
	ClientID string `yaml:"client_id"`
	// Dial opens the connection to host:port; nil: over TCP
	Dial func(ctx context.Context, network, address string) (net.Conn, error) `yaml:"-"`
}

// dialTimeout bounds one attempt to connect, name lookup and TLS included.
const dialTimeout = 5 * time.Second

// UserPlaceholder stands for a client's name in the configuration of several.
const UserPlaceholder = "{user}"

// For is the configuration of one client of several, with its name in the place of
// [UserPlaceholder].
func (b Broker) For(user string) Broker {
	for _, field := range []*string{&b.Username, &b.PasswordFile, &b.Cert, &b.Key} {
		*field = strings.ReplaceAll(*field, UserPlaceholder, user)
	}
	return b
}

// Check returns what is wrong with the configuration, without connecting.
func (b Broker) Check() error {
	_, _, err := b.endpoint()
	if err == nil {
		_, err = b.password()
	}
	return err
}

// endpoint returns the broker's host:port and, for TLS, its configuration.
func (b Broker) endpoint() (address string, config *tls.Config, err error) {
	bad := fmt.Errorf("broker url %s: want tcp://host:port or tls://host:port", quote(b.URL))
	u, err := url.Parse(b.URL)
	if err != nil || u.Hostname() == "" || u.User != nil || u.Path != "" && u.Path != "/" {
		return "", nil, bad
	}
	port := "1883"
	switch u.Scheme {
	case "tcp", "mqtt":
		if b.CA != "" || b.Cert != "" || b.Key != "" {
			return "", nil, fmt.Errorf("broker url %s: ca, cert and key need tls://", quote(b.URL))
		}
	case "tls", "ssl", "mqtts":
		if config, err = b.tls(u.Hostname()); err != nil {
			return "", nil, err
		}
		port = "8883"
	default:
		return "", nil, bad
	}
	return net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), port)), config, nil
}

func (b Broker) tls(host string) (config *tls.Config, err error) {
	config = &tls.Config{ServerName: ServerName(host), MinVersion: tls.VersionTLS12}
	if b.CA != "" {
		if config.RootCAs, err = LoadAuthorities("broker ca", b.CA); err != nil {
			return nil, err
		}
	}
	if b.Cert != "" || b.Key != "" {
		pair, err := LoadCertificate(b.Cert, b.Key)
		if err != nil {
			return nil, fmt.Errorf("broker cert %q and key %q: %w", b.Cert, b.Key, err)
		}
		config.Certificates = []tls.Certificate{*pair}
	}
	return config, nil
}

func (b Broker) password() (string, error) {
	if b.PasswordFile == "" {
		return "", nil
	}
	if b.Username == "" {
		return "", fmt.Errorf("broker password_file %s: set username too", b.PasswordFile)
	}
	text, err := ReadPrivate(b.PasswordFile)
	if err != nil {
		return "", fmt.Errorf("broker password: %w", err)
	}
	line, _, _ := strings.Cut(string(text), "\n")
	return strings.TrimRight(line, "\r"), nil
}

// dial opens the connection; clockBehind: see [Handshake]. Go sets TCP_NODELAY on every TCP connection it opens;
// the slot's deadlines depend on it, and a test reads the option back.
func (b Broker) dial(address string, config *tls.Config) (conn net.Conn, clockBehind time.Time, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), dialTimeout)
	defer cancel()
	open := func() (net.Conn, error) {
		if b.Dial != nil {
			return b.Dial(ctx, "tcp", address)
		}
		return (&net.Dialer{}).DialContext(ctx, "tcp", address)
	}
	if config == nil {
		conn, err = open()
		return conn, clockBehind, err
	}
	return Handshake(ctx, open, config)
}

// Certificates are those that the broker shows over TLS, its own first, verified or not; nil without TLS.
func (b Broker) Certificates() (shown []*x509.Certificate, err error) {
	address, config, err := b.endpoint()
	if err != nil || config == nil {
		return nil, err
	}
	config.InsecureSkipVerify = true // they are looked at, and nothing is said to the broker
	config.Certificates = nil
	config.VerifyConnection = func(s tls.ConnectionState) error {
		shown = s.PeerCertificates
		return errLooked
	}
	_, _, err = b.dial(address, config)
	if errors.Is(err, errLooked) {
		err = nil
	}
	return shown, err
}

var errLooked = errors.New("its certificates were looked at")
