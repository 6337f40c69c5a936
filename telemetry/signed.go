package telemetry

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Envelope is a signed message: the message's JSON as a string, the names of the key and
// of the station, and a challenge and a counter against replay. The challenge is one that
// the leader published a short time ago; the counter exceeds every earlier one of that key
// and station.
type Envelope struct {
	Key       string `json:"key" match:"id"`
	Station   string `json:"station,omitempty" match:"station"` // new at each start of a client; absent: a client of version 2
	Counter   uint64 `json:"counter" range:"[1, 9223372036854775807]"`
	Challenge string `json:"challenge" match:"challenge"`
	Body      string `json:"body" max:"8192"`
	Signature string `json:"signature" max:"100"` // base64 of Ed25519 over signedText
}

// signedText is what is signed. Neither key, station, challenge, counter nor a topic of the
// fleet holds a newline, so two different envelopes never have the same text.
func (e *Envelope) signedText(topic string) []byte {
	head := []string{"prefdt-command-2", topic, e.Key}
	if e.Station != "" {
		head = []string{"prefdt-command-3", topic, e.Key, e.Station}
	}
	return []byte(strings.Join(append(head, e.Challenge, strconv.FormatUint(e.Counter, 10), e.Body), "\n"))
}

// Sign completes an envelope for a topic with its signature, and encodes it. The challenge
// is the one in the leader's status.
func (e Envelope) Sign(private ed25519.PrivateKey, topic string) ([]byte, error) {
	e.Signature = base64.StdEncoding.EncodeToString(ed25519.Sign(private, e.signedText(topic)))
	return Encode(e)
}

// answerField begins the last field of a signed acknowledgement or status.
const answerField = `,"signature":"`

func answerText(topic string, payload []byte) []byte {
	return append([]byte("prefdt-answer-3\n"+topic+"\n"), payload...)
}

// SignAnswer completes the payload of an acknowledgement or a status with the leader's
// signature over the topic and all bytes before that field.
func SignAnswer(private ed25519.PrivateKey, topic string, payload []byte) []byte {
	payload = payload[:len(payload)-1] // without the last brace
	signature := ed25519.Sign(private, answerText(topic, payload))
	return append(append(payload, answerField...), base64.StdEncoding.EncodeToString(signature)+`"}`...)
}

// VerifyAnswer returns why a payload on topic is not what the leader with that key signed.
func VerifyAnswer(topic string, payload []byte, leader ed25519.PublicKey) error {
	at := bytes.LastIndex(payload, []byte(answerField))
	if at < 0 {
		return &InvalidError{"answer: unsigned", "answer: no signature of the leader"}
	}
	text, closed := strings.CutSuffix(string(payload[at+len(answerField):]), `"}`)
	signature, err := base64.StdEncoding.Strict().DecodeString(text)
	if !closed || err != nil || !ed25519.Verify(leader, answerText(topic, payload[:at]), signature) {
		return &InvalidError{"answer: bad signature", "answer: the signature is not that of leader_keys on " + quote(topic)}
	}
	return nil
}

// NewChallenge returns an unpredictable challenge: 16 random bytes.
func NewChallenge() string {
	var raw [16]byte
	rand.Read(raw[:]) // never fails
	return base64.RawURLEncoding.EncodeToString(raw[:])
}

// Digest identifies a payload in the acknowledgement that answers it: SHA-256 in
// lower-case hexadecimal.
func Digest(payload []byte) string {
	return fmt.Sprintf("%x", sha256.Sum256(payload))
}

// LooksSigned reports whether a payload is meant as a signed command: a JSON object
// with a signature field.
func LooksSigned(payload []byte) bool {
	if checkSyntax(payload, smallLimit) != nil {
		return false
	}
	s := scanner{input: payload}
	if s.peek() != '{' {
		return false
	}
	for s.pos++; s.peek() != '}'; s.skip() {
		if string(s.stringValue()) == "signature" {
			return true
		}
	}
	return false
}

// Verify opens a signed message that was received on topic, one that [Topics.Parse]
// accepts. It checks form, key and signature, and neither challenge nor counter:
// the receiver looks up the command's id first, since a repeat of an answered
// command is answered again whatever they are.
func Verify(topic string, payload []byte, keys map[string]ed25519.PublicKey) (Envelope, error) {
	e, err := decode[Envelope](payload)
	if err != nil {
		return Envelope{}, err
	}
	public, known := keys[e.Key]
	if !known {
		return Envelope{}, &InvalidError{"envelope: unknown key", fmt.Sprintf("envelope: key %s is not known", quote(e.Key))}
	}
	signature, err := base64.StdEncoding.Strict().DecodeString(e.Signature)
	if err != nil || !ed25519.Verify(public, e.signedText(topic), signature) {
		return Envelope{}, &InvalidError{"envelope: bad signature", fmt.Sprintf("envelope: the signature is not that of key %s on %s",
			quote(e.Key), topic)}
	}
	return e, nil
}

// ClaimedID returns the id of the command in a payload, signed or not, without
// any verification, and empty if there is no valid one. It serves to answer with a
// refusal, and never to act on the command.
func ClaimedID(payload []byte) string {
	if LooksSigned(payload) {
		e, err := decode[Envelope](payload)
		if err != nil {
			return ""
		}
		payload = []byte(e.Body)
	}
	c, _ := DecodeBudget(payload) // the id is the same field in every command
	return c.ID
}

func parseKey(text string) ([]byte, error) {
	if strings.HasPrefix(text, "-----BEGIN ") {
		return nil, errors.New("this is a TLS key or certificate; want the line of base64 that `ground keygen` writes")
	}
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(raw) != 32 {
		return nil, errors.New("want one line of base64 of 32 bytes, as `ground keygen` writes it")
	}
	return raw, nil
}

// ParsePublicKey reads a public key as `ground keygen` prints it and the
// leader's configuration carries it: base64 of its 32 bytes.
func ParsePublicKey(text string) (ed25519.PublicKey, error) {
	raw, err := parseKey(text)
	if err != nil {
		return nil, fmt.Errorf("public key %s: %w", quote(text), err)
	}
	return ed25519.PublicKey(raw), nil
}
