package command

import (
	"crypto/ed25519"
	"path/filepath"
	"strings"
	"time"

	"prefdt/telemetry"
)

// Signer signs with a key file, and keeps its counter in a file beside it. Several
// programs, and goroutines, may use one key.
type Signer struct {
	Name    string // of the key, in the leader's configuration
	path    string
	private ed25519.PrivateKey
}

// NewSigner reads a key file; it is nil, without an error, for an empty path.
func NewSigner(path string) (*Signer, error) {
	if path == "" {
		return nil, nil
	}
	private, err := telemetry.ReadKey(path)
	if err != nil {
		return nil, err
	}
	return &Signer{KeyName(path), path, private}, nil
}

// KeyName is the name of a key file in the leader's configuration.
func KeyName(path string) string { return strings.TrimSuffix(filepath.Base(path), ".key") }

// Sign wraps a body for a topic, with a counter above every earlier one and above
// lastCounter, the last that the leader reported as accepted, 0 if unknown.
func (s *Signer) Sign(topic, challenge string, lastCounter uint64, body []byte) ([]byte, error) {
	counter, err := telemetry.NextCounter(s.path, time.Now(), lastCounter)
	if err != nil {
		return nil, err
	}
	return telemetry.Sign(s.Name, s.private, counter, challenge, topic, body)
}
