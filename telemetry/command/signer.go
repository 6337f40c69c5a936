package command

import (
	"crypto/ed25519"
	"path/filepath"
	"strings"
	"sync/atomic"

	"prefdt/telemetry"
)

// Signer signs with a key file. Several programs may use one key: each is a station of its
// own, with its own counter. A Signer is safe for concurrent use.
type Signer struct {
	Name    string // of the key, in the leader's configuration
	private ed25519.PrivateKey
	station string
	counter atomic.Uint64
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
	return &Signer{Name: KeyName(path), private: private, station: telemetry.NewChallenge()}, nil
}

// KeyName is the name of a key file in the leader's configuration.
func KeyName(path string) string { return strings.TrimSuffix(filepath.Base(path), ".key") }

// Sign wraps a body for a topic, with a counter above every earlier one.
func (s *Signer) Sign(topic, challenge string, body []byte) ([]byte, error) {
	e := telemetry.Envelope{Key: s.Name, Station: s.station, Counter: s.counter.Add(1), Challenge: challenge, Body: string(body)}
	return e.Sign(s.private, topic)
}
