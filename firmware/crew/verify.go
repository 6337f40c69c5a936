package crew

import (
	"crypto/ed25519"
	"encoding/base64"

	"prefdt/telemetry"
)

// Keys says whose commands are obeyed.
type Keys struct {
	Public         map[string]ed25519.PublicKey // by name
	AcceptUnsigned bool                         // commands without a signature are obeyed too
}

// Command is one message of the crew's as it was received: a command with a
// usable id.
type Command struct {
	ID         string
	Budget     *telemetry.Budget // one of the three
	Preference *telemetry.Preference
	Mission    *telemetry.Mission

	Signer
	PayloadDigest string // of the payload: an acknowledgement's `of`
	BodyDigest    string // digest of the command alone, however it was signed
	DeniedReason  string // why it may not command; it is not to be applied
	InvalidReason string // which field is invalid; it is to be refused
}

// Signer is who signed a message, and what keeps it from being used twice.
type Signer struct {
	KeyName   string // its name; empty: unsigned
	PublicKey string // the key itself, base64
	Counter   uint64
	Challenge string
}

var errUnsigned = &telemetry.InvalidError{Kind: "command: unsigned", Text: "command: no signature; this leader obeys signed commands only"}

// verify verifies a message's signature, if it has or needs one, and returns what
// was signed.
func (k Keys) verify(m telemetry.Message) (body []byte, by Signer, err error) {
	if !telemetry.LooksSigned(m.Payload) {
		if !k.AcceptUnsigned {
			return nil, by, errUnsigned
		}
		return m.Payload, by, nil
	}
	e, err := telemetry.Verify(m.Topic, m.Payload, k.Public)
	if err != nil {
		return nil, by, err
	}
	return []byte(e.Body), Signer{e.Key, base64.StdEncoding.EncodeToString(k.Public[e.Key]), e.Counter, e.Challenge}, nil
}

// DecodeCommand reads a command. It is nil if it has no usable id, and so cannot be
// answered; the error says what was wrong with it, to be counted.
func (k Keys) DecodeCommand(kind telemetry.Kind, m telemetry.Message) (*Command, error) {
	if m.Retained {
		return nil, &telemetry.InvalidError{Kind: "command: retained", Text: "command: retained, so from the past"}
	}
	body, by, err := k.verify(m)
	if err != nil {
		id := telemetry.ClaimedID(m.Payload)
		if id == "" {
			return nil, err
		}
		return &Command{ID: id, PayloadDigest: telemetry.Digest(m.Payload), DeniedReason: err.Error()}, err
	}
	c := &Command{Signer: by, PayloadDigest: telemetry.Digest(m.Payload), BodyDigest: telemetry.Digest(body)}
	switch kind {
	case telemetry.KindBudget:
		var b telemetry.Budget
		b, err = telemetry.DecodeBudget(body)
		c.ID, c.Budget = b.ID, &b
	case telemetry.KindPreference:
		var p telemetry.Preference
		p, err = telemetry.DecodePreference(body)
		c.ID, c.Preference = p.ID, &p
	case telemetry.KindMission:
		var a telemetry.Mission
		a, err = telemetry.DecodeMission(body)
		c.ID, c.Mission = a.ID, &a
	}
	if c.ID == "" {
		return nil, err // it cannot be answered
	}
	if err != nil {
		c.InvalidReason = err.Error()
	}
	return c, err
}

// Heartbeat is a station's sign of life.
type Heartbeat struct {
	Station string
	telemetry.Heartbeat
	Signer
}

// DecodeHeartbeat reads one. Where keys are configured it must be signed.
func (k Keys) DecodeHeartbeat(station string, m telemetry.Message) (*Heartbeat, error) {
	if m.Retained {
		return nil, &telemetry.InvalidError{Kind: "heartbeat: retained", Text: "heartbeat: retained, so from the past"}
	}
	body, by, err := k.verify(m)
	if err != nil {
		return nil, err
	}
	h, err := telemetry.DecodeHeartbeat(body)
	if err != nil {
		return nil, err
	}
	return &Heartbeat{station, h, by}, nil
}
