package telemetry

import (
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
)

// Envelope is a signed command: the command's JSON as a string, who signed it,
// and a counter that rises, so that a recording cannot be played back.
type Envelope struct {
	Key       string `json:"key" match:"id"`
	Counter   uint64 `json:"counter" range:"[1, 9223372036854775807]"` // a clock's nanoseconds fit
	Body      string `json:"body" max:"32768"`
	Signature string `json:"signature" max:"100"` // base64 of Ed25519 over signedText
}

func signedText(topic string, counter uint64, body string) []byte {
	return []byte(topic + "\n" + strconv.FormatUint(counter, 10) + "\n" + body)
}

// Sign wraps a command's payload for its topic. The counter must never have
// been used with this key before, see [NextCounter].
func Sign(key string, private ed25519.PrivateKey, counter uint64, topic string, command []byte) ([]byte, error) {
	signature := ed25519.Sign(private, signedText(topic, counter, string(command)))
	return Encode(Envelope{key, counter, string(command), base64.StdEncoding.EncodeToString(signature)})
}

// Signed tells whether a payload means to be a signed command: a JSON object
// with a signature field.
func Signed(payload []byte) bool {
	if checkSyntax(payload) != nil {
		return false
	}
	s := scanner{b: payload}
	if s.peek() != '{' {
		return false
	}
	for s.i++; s.peek() != '}'; s.skip() {
		if s.str() == "signature" {
			return true
		}
	}
	return false
}

// Verify opens a signed command that arrived on topic. The key must be known
// and the counter above the last one accepted from that key; the caller stores
// the new counter durably before it acts on the body. An error is counted, not
// acknowledged.
func Verify(topic string, payload []byte, keys map[string]ed25519.PublicKey, lastCounter func(key string) uint64) (Envelope, error) {
	e, err := decode[Envelope]("envelope", payload)
	if err != nil {
		return Envelope{}, err
	}
	public, known := keys[e.Key]
	signature, err := base64.StdEncoding.Strict().DecodeString(e.Signature)
	switch {
	case !known:
		return Envelope{}, &Invalid{"envelope: unknown key", fmt.Sprintf("envelope: key %s is not known", quote(e.Key))}
	case err != nil, !ed25519.Verify(public, signedText(topic, e.Counter, e.Body), signature):
		return Envelope{}, &Invalid{"envelope: bad signature", fmt.Sprintf("envelope: the signature is not that of key %s on %s", quote(e.Key), topic)}
	case e.Counter <= lastCounter(e.Key):
		return Envelope{}, &Invalid{"envelope: old counter", fmt.Sprintf("envelope: counter %d of key %s is not above %d", e.Counter, quote(e.Key), lastCounter(e.Key))}
	}
	return e, nil
}

var errKey = errors.New("want one line of base64 of 32 bytes, as `ground keygen` writes it")

func parseKey(text string) ([]byte, error) {
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(raw) != 32 {
		return nil, errKey
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
