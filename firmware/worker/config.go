package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"os"

	"prefdt/firmware/worker/function"
	"prefdt/telemetry"
	"prefdt/telemetry/access"
)

// Config is configs/worker.yaml, where each key is explained.
type Config struct {
	Fleet       string            `yaml:"fleet"`
	Aircraft    int               `yaml:"aircraft"`
	Broker      telemetry.Broker  `yaml:"broker"`
	Listen      string            `yaml:"listen"`
	Cert        string            `yaml:"cert"`
	Key         string            `yaml:"key"`
	CA          string            `yaml:"ca"`
	Revoked     string            `yaml:"revoked"`
	GrantKey    string            `yaml:"grant_key"`
	Cores       int               `yaml:"cores"`
	CoreHz      float64           `yaml:"core_hz"`
	MaxTasks    int               `yaml:"max_tasks"`
	OfferBytes  int               `yaml:"offer_bytes"`
	Calibration string            `yaml:"calibration"`
	Cache       string            `yaml:"cache"`
	Functions   []function.Config `yaml:"functions"`
}

func defaults() Config {
	return Config{
		Fleet: "demo", Aircraft: 1, Broker: telemetry.Broker{URL: "tcp://127.0.0.1:1883"}, Listen: "0.0.0.0:7300",
		Cores: 1, CoreHz: 2e9, MaxTasks: 64, OfferBytes: 256 << 10, Calibration: "calibration.json",
	}
}

// Check returns the first value that is wrong, in one line.
func (c *Config) Check() error {
	if !telemetry.ValidID(c.Fleet) {
		return fmt.Errorf("fleet is %q, want 1 to 64 of A-Z a-z 0-9 . _ -", c.Fleet)
	}
	for _, r := range []struct {
		key       string
		x, lo, hi float64
	}{
		{"aircraft", float64(c.Aircraft), 1, telemetry.MaxAircraft},
		{"cores", float64(c.Cores), 1, 256},
		{"core_hz", c.CoreHz, 1e6, 1e12},
		{"max_tasks", float64(c.MaxTasks), 1, 4096},
		{"offer_bytes", float64(c.OfferBytes), 0, 1 << 26},
		{"functions (how many)", float64(len(c.Functions)), 1, 64},
	} {
		if !(r.x >= r.lo && r.x <= r.hi) {
			return fmt.Errorf("%s is %v, want %v to %v", r.key, r.x, r.lo, r.hi)
		}
	}
	seen := map[string]bool{}
	for i := range c.Functions {
		f := &c.Functions[i]
		if err := f.Check(); err != nil {
			return err
		}
		if seen[f.ID] {
			return fmt.Errorf("function %s stands twice", f.ID)
		}
		seen[f.ID] = true
	}
	if c.GrantKey != "" && c.CA == "" {
		return fmt.Errorf("grant_key without ca: a grant is of the user whose certificate names it")
	}
	return c.Broker.Check()
}

// tls is the worker's side of users' connections. A user's certificate is its identity: without one it is granted nothing.
func (c *Config) tls() (*tls.Config, error) {
	pair, err := telemetry.LoadCertificate(c.Cert, c.Key)
	if err != nil {
		return nil, fmt.Errorf("cert %q and key %q: %w", c.Cert, c.Key, err)
	}
	config := &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{*pair}, Time: telemetry.LaterOf(pair)}
	if c.CA != "" {
		config.ClientAuth = tls.VerifyClientCertIfGiven
		if config.ClientCAs, err = telemetry.LoadAuthorities("ca", c.CA); err != nil {
			return nil, err
		}
	}
	if c.Revoked != "" {
		config.VerifyConnection = func(s tls.ConnectionState) error { return checkRevoked(c.Revoked, s.PeerCertificates) }
	}
	return config, nil
}

// checkRevoked is an error if a certificate is in a list, or the list cannot be read. It is
// read at each handshake: a lost phone is revoked while the worker runs.
func checkRevoked(path string, certificates []*x509.Certificate) error {
	list, err := access.ReadRevoked(path)
	if err != nil {
		return fmt.Errorf("revoked: %w", err)
	}
	for _, c := range certificates {
		for _, r := range list.RevokedCertificateEntries {
			if r.SerialNumber.Cmp(c.SerialNumber) == 0 {
				return fmt.Errorf("the certificate of %s is revoked", c.Subject.CommonName)
			}
		}
	}
	return nil
}

// calibrated is what `worker calibrate` measured of a function, by its id in the file.
type calibrated struct {
	Digest    string  `json:"digest"`
	NSPerByte float64 `json:"ns_per_byte"`
}

func (c *Config) readCalibration() (map[string]calibrated, error) {
	raw, err := os.ReadFile(c.Calibration)
	if err != nil {
		here, _ := os.Getwd() // a relative path counts from it
		return nil, fmt.Errorf("calibration: %w, in %s; `worker calibrate` makes it there", err, here)
	}
	all := map[string]calibrated{}
	if err := json.Unmarshal(raw, &all); err != nil {
		return nil, fmt.Errorf("calibration %s: %w", c.Calibration, err)
	}
	return all, nil
}
