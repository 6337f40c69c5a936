package telemetry

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
)

// Envelope is a signed message: the message's JSON as a string, the name of the key,
// and a challenge and a counter against replay. The challenge is one that the leader
// published a short time ago; the counter exceeds every earlier one of that key.
type Envelope struct {
	Key       string `json:"key" match:"id"`
	Counter   uint64 `json:"counter" range:"[1, 9223372036854775807]"` // a clock's nanoseconds fit
	Challenge string `json:"challenge" match:"challenge"`
	Body      string `json:"body" max:"32768"`
	Signature string `json:"signature" max:"100"` // base64 of Ed25519 over signedText
}

// signedText is what is signed. Neither key, challenge, counter nor a topic of the
// fleet holds a newline, so two different envelopes never have the same text.
func signedText(topic, key, challenge string, counter uint64, body string) []byte {
	return []byte("prefdt-command-2\n" + topic + "\n" + key + "\n" + challenge + "\n" + strconv.FormatUint(counter, 10) + "\n" + body)
}

// Sign wraps a message's payload for its topic. The challenge is the one in the
// leader's status; the counter must never have been used with this key before,
// see [NextCounter].
func Sign(key string, private ed25519.PrivateKey, counter uint64, challenge, topic string, body []byte) ([]byte, error) {
	signature := ed25519.Sign(private, signedText(topic, key, challenge, counter, string(body)))
	return Encode(Envelope{key, counter, challenge, string(body), base64.StdEncoding.EncodeToString(signature)})
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
	if checkSyntax(payload) != nil {
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
	if err != nil || !ed25519.Verify(public, signedText(topic, e.Key, e.Challenge, e.Counter, e.Body), signature) {
		return Envelope{}, &InvalidError{"envelope: bad signature", fmt.Sprintf("envelope: the signature is not that of key %s on %s", quote(e.Key), topic)}
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
