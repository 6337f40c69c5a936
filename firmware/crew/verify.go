package crew

import (
	"crypto/ed25519"
	"encoding/base64"
	"errors"

	"prefdt/telemetry"
)

// Keys are the public keys whose commands are accepted.
type Keys struct {
	Public         map[string]ed25519.PublicKey // by name
	AcceptUnsigned bool                         // commands without a signature are accepted too
}

// Command is a received command with a usable id.
type Command struct {
	ID         string
	Budget     *telemetry.Budget // one of the three is set
	Preference *telemetry.Preference
	Mission    *telemetry.Mission

	Signer
	PayloadDigest string // an acknowledgement's `of`
	BodyDigest    string // digest of the command alone, however it was signed
	DeniedReason  string // why its signature does not permit it; refused without the ledger
	InvalidReason string // which field is invalid; refused, and the ledger keeps the answer

	admitted bool // by Handler.Admit
}

// Signer is a message's key, and what prevents using the message twice.
type Signer struct {
	KeyName   string // in the configuration; empty: unsigned
	PublicKey string // base64
	Station   string // empty: of version 2
	Counter   uint64
	Challenge string
}

// advice is what to do about a message that does not verify, by its kind.
var advice = map[string]string{
	"envelope: unknown key":   "put the line of its .pub file into the leader's commands.keys, or sign with another",
	"envelope: bad signature": "another key has this name in the leader's commands.keys",
}

// verify verifies a message's signature, if it has or needs one, and returns the
// signed body.
func (k Keys) verify(m telemetry.Message) (body []byte, signer Signer, err error) {
	if !telemetry.LooksSigned(m.Payload) {
		if !k.AcceptUnsigned {
			return nil, signer, &telemetry.InvalidError{Kind: "command: unsigned",
				Text: "command: no signature; this leader accepts signed commands only: sign with a key whose line is in its commands.keys"}
		}
		return m.Payload, signer, nil
	}
	e, err := telemetry.Verify(m.Topic, m.Payload, k.Public)
	if invalid, ok := errors.AsType[*telemetry.InvalidError](err); ok && advice[invalid.Kind] != "" {
		err = &telemetry.InvalidError{Kind: invalid.Kind, Text: invalid.Text + "; " + advice[invalid.Kind]}
	}
	if err != nil {
		return nil, signer, err
	}
	return []byte(e.Body), Signer{e.Key, base64.StdEncoding.EncodeToString(k.Public[e.Key]), e.Station, e.Counter, e.Challenge}, nil
}

// DecodeCommand decodes a command. It is nil if it has no usable id, and so cannot be
// answered; the error is what was wrong with it, to be counted.
func (k Keys) DecodeCommand(kind telemetry.Kind, m telemetry.Message) (*Command, error) {
	if m.Retained {
		return nil, &telemetry.InvalidError{Kind: "command: retained", Text: "command: retained, so from the past"}
	}
	body, signer, err := k.verify(m)
	if err != nil {
		id := telemetry.ClaimedID(m.Payload)
		if id == "" {
			return nil, err
		}
		return &Command{ID: id, PayloadDigest: telemetry.Digest(m.Payload), DeniedReason: err.Error()}, err
	}
	c := &Command{Signer: signer, PayloadDigest: telemetry.Digest(m.Payload), BodyDigest: telemetry.Digest(body)}
	switch kind {
	case telemetry.KindBudget:
		b, e := telemetry.DecodeBudget(body)
		c.ID, c.Budget, err = b.ID, &b, e
	case telemetry.KindPreference:
		p, e := telemetry.DecodePreference(body)
		c.ID, c.Preference, err = p.ID, &p, e
	case telemetry.KindMission:
		a, e := telemetry.DecodeMission(body)
		c.ID, c.Mission, err = a.ID, &a, e
	}
	if c.ID == "" {
		return nil, err
	}
	if err != nil {
		c.InvalidReason = err.Error()
	}
	return c, err
}

// Heartbeat is a crew station's heartbeat.
type Heartbeat struct {
	Station string
	telemetry.Heartbeat
	Signer
}

// DecodeHeartbeat decodes one. Where keys are configured it must be signed.
func (k Keys) DecodeHeartbeat(station string, m telemetry.Message) (*Heartbeat, error) {
	if m.Retained {
		return nil, &telemetry.InvalidError{Kind: "heartbeat: retained", Text: "heartbeat: retained, so from the past"}
	}
	body, signer, err := k.verify(m)
	if err != nil {
		return nil, err
	}
	h, err := telemetry.DecodeHeartbeat(body)
	if err != nil {
		return nil, err
	}
	return &Heartbeat{station, h, signer}, nil
}
