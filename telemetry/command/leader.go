package command

import (
	"bytes"
	"crypto/ed25519"
	"fmt"
	"sync"

	"prefdt/telemetry"
)

// Leader decides what is the leader's: who has the broker can publish anything. A nil one
// believes everything. It is safe for concurrent use, and several readers of
// one fleet's messages share one.
type Leader struct {
	Key ed25519.PublicKey

	mutex     sync.Mutex
	challenge string          // of the last status
	seq       int64           // likewise
	status    []byte          // its payload
	replaced  map[string]bool // challenges before that one, two a minute
}

// NewLeader returns a fleet's leader, by the public keys of a configuration. Without any keys it
// is nil; with keys each fleet must have one.
func NewLeader(keys map[string]string, fleet string) (*Leader, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	line, known := keys[fleet]
	if !known {
		return nil, fmt.Errorf("leader_keys: none of fleet %s", fleet)
	}
	key, err := telemetry.ParsePublicKey(line)
	if err != nil {
		return nil, fmt.Errorf("leader_keys: %s: %w", fleet, err)
	}
	return &Leader{Key: key}, nil
}

func (l *Leader) verify(m telemetry.Message) error {
	if l == nil {
		return nil
	}
	return telemetry.VerifyAnswer(m.Topic, m.Payload, l.Key)
}

// Decode is [telemetry.DecodePublished] of what is the leader's.
func (l *Leader) Decode(kind telemetry.Kind, m telemetry.Message) (any, error) {
	switch kind {
	case telemetry.KindStatus:
		return l.Status(m)
	case telemetry.KindAck:
		return l.Ack(m)
	}
	return telemetry.DecodePublished(kind, m)
}

// Ack reads an acknowledgement, or returns why it is none of the leader's.
func (l *Leader) Ack(m telemetry.Message) (telemetry.Ack, error) {
	if err := l.verify(m); err != nil {
		return telemetry.Ack{}, err
	}
	return telemetry.DecodeAck(m.Payload)
}

// Status reads a status, or returns why it is none of the leader's: not signed by it, or older
// than another that was read. The last one may be read again.
func (l *Leader) Status(m telemetry.Message) (telemetry.Status, error) {
	if err := l.verify(m); err != nil {
		return telemetry.Status{}, err
	}
	s, err := telemetry.DecodeStatus(m.Payload)
	if err != nil || l == nil {
		return s, err
	}
	l.mutex.Lock()
	defer l.mutex.Unlock()
	switch {
	case bytes.Equal(m.Payload, l.status):
		return s, nil
	case l.replaced[s.Challenge] || s.Challenge == l.challenge && s.Seq <= l.seq:
		return telemetry.Status{}, &telemetry.InvalidError{Kind: "status: old",
			Text: fmt.Sprintf("status: number %d, after %d of a later time", s.Seq, l.seq)}
	case s.Challenge != l.challenge && l.challenge != "":
		if l.replaced == nil {
			l.replaced = map[string]bool{}
		}
		l.replaced[l.challenge] = true
	}
	l.challenge, l.seq, l.status = s.Challenge, s.Seq, m.Payload
	return s, nil
}
