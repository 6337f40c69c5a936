package main

import (
	"crypto/ed25519"
	"time"

	"prefdt/telemetry"
)

// signer signs with a key file.
type signer struct {
	name, path string
	private    ed25519.PrivateKey
}

// loadSigner reads the key file of the configuration; nil without one.
func (t *tool) loadSigner() (*signer, error) {
	path := t.config.Key
	if path == "" {
		return nil, nil
	}
	private, err := telemetry.ReadKey(path)
	if err != nil {
		return nil, err
	}
	return &signer{keyName(path), path, private}, nil
}

// sign wraps a body for a topic, with a counter above every earlier one and above
// lastCounter, the last that the leader reported as accepted, 0 if unknown.
func (s *signer) sign(topic, challenge string, lastCounter uint64, body []byte) ([]byte, error) {
	counter, err := telemetry.NextCounter(s.path, time.Now(), lastCounter)
	if err != nil {
		return nil, err
	}
	return telemetry.Sign(s.name, s.private, counter, challenge, topic, body)
}
