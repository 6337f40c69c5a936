package telemetry

import (
	"cmp"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"fmt"
	mathrand "math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

func TestSignedCommand(t *testing.T) {
	path := filepath.Join(t.TempDir(), "crew-1.key")
	line, err := NewKey(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := NewKey(path); err == nil {
		t.Error("a key was overwritten")
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode of the key file: %v, %v", info.Mode(), err)
	}
	private, err := ReadKey(path)
	if err != nil {
		t.Fatal(err)
	}
	public, err := ParsePublicKey(line)
	if err != nil || !public.Equal(private.Public()) {
		t.Fatalf("public key %s: %v", line, err)
	}
	keys := map[string]ed25519.PublicKey{"crew-1": public}
	topic := "prefdt/f1/command/budget"
	payload, err := Envelope{Key: "crew-1", Counter: 1732, Challenge: challengeExample, Body: budgetExample}.Sign(private, topic)
	if err != nil || !LooksSigned(payload) || LooksSigned([]byte(budgetExample)) {
		t.Fatalf("%s, %v", payload, err)
	}
	e, err := Verify(topic, payload, keys)
	if err != nil || e.Body != budgetExample || e.Counter != 1732 || e.Key != "crew-1" || e.Challenge != challengeExample {
		t.Fatalf("%+v, %v", e, err)
	}
	for name, c := range map[string]struct{ payload, kind string }{
		"unknown key": {strings.Replace(string(payload), "crew-1", "crew-2", 1), "envelope: unknown key"},
		"not base64":  {strings.Replace(string(payload), `"signature":"`, `"signature":"*`, 1), "envelope: bad signature"},
		"unsigned":    {budgetExample, "envelope.key: missing"},
		"version 1":   {strings.Replace(string(payload), `"challenge"`, `"chal"`, 1), "envelope.challenge: missing"},
	} {
		if e, err := Verify(topic, []byte(c.payload), keys); err == nil || err.(*InvalidError).Kind != c.kind || e != (Envelope{}) {
			t.Errorf("%s: %+v, %v", name, e, err)
		}
	}
	if _, err := (Envelope{Key: "crew-1", Counter: 1, Challenge: "short"}).Sign(private, topic); err == nil {
		t.Error("signed with an invalid challenge")
	}
}

// A signature holds for one topic, key, challenge, counter and body: an envelope
// in which any one part is another's, or in which text moves from one part to
// the next, is not signed. Version 1 covered neither key nor challenge.
func TestSignatureCoversEveryPart(t *testing.T) {
	_, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	public := private.Public().(ed25519.PublicKey)
	keys := map[string]ed25519.PublicKey{"crew-1": public, "crew-2": public} // one key under two names
	type parts struct {
		topic string
		Envelope
	}
	random := mathrand.New(mathrand.NewPCG(1, 2))
	changes := map[string]func(p *parts){
		"key renamed":       func(p *parts) { p.Key = "crew-2" },
		"another kind":      func(p *parts) { p.topic = "prefdt/f1/command/mission" },
		"another fleet":     func(p *parts) { p.topic = "prefdt/f2/command/budget" },
		"a heartbeat":       func(p *parts) { p.topic = "prefdt/f1/crew/crew-1/heartbeat" },
		"counter raised":    func(p *parts) { p.Counter++ },
		"counter cut short": func(p *parts) { p.Counter /= 10 },
		"another challenge": func(p *parts) { p.Challenge = NewChallenge() },
		"longer challenge":  func(p *parts) { p.Challenge += "A" },
		"another body":      func(p *parts) { p.Body = strings.Replace(p.Body, "36000", "96000", 1) },
		"body grown":        func(p *parts) { p.Body += " " },
		"counter moved into the body": func(p *parts) {
			text := fmt.Sprint(p.Counter)
			p.Counter, _ = strconv.ParseUint(text[:3], 10, 64)
			p.Body = text[3:] + "\n" + p.Body
		},
		"challenge and counter moved into the body": func(p *parts) {
			p.Body = fmt.Sprintf("%s\n%d\n%s", p.Challenge, p.Counter, p.Body)
		},
		"another station":  func(p *parts) { p.Station = "laptop-2" },
		"no station":       func(p *parts) { p.Station = "" },
		"station as a key": func(p *parts) { p.Key, p.Station = "crew-2", p.Key+"-and-more" },
		"station moved into the challenge": func(p *parts) {
			p.Station, p.Challenge = "", p.Station+p.Challenge
		},
		"one bit of the signature": func(p *parts) {
			raw, _ := base64.StdEncoding.DecodeString(p.Signature)
			raw[random.IntN(len(raw))] ^= 1 << random.IntN(8)
			p.Signature = base64.StdEncoding.EncodeToString(raw)
		},
	}
	for range 100 {
		counter := 1000 + random.Uint64N(1<<62)
		topic := "prefdt/f1/command/budget"
		payload, err := Envelope{Key: "crew-1", Station: "laptop-1", Counter: counter, Challenge: NewChallenge(),
			Body: budgetExample}.Sign(private, topic)
		if err != nil {
			t.Fatal(err)
		}
		good, err := Verify(topic, payload, keys)
		if err != nil {
			t.Fatal(err)
		}
		for name, change := range changes {
			p := parts{topic, good}
			change(&p)
			changed, err := Encode(p.Envelope)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := Verify(p.topic, changed, keys); err == nil || err.(*InvalidError).Kind != "envelope: bad signature" {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// testdata/signature.json has examples of the signatures, for clients in other languages:
// of version 2, without a station, of version 3, and of an answer. OpenSSL signed them:
// openssl pkeyutl -sign -rawin.
func TestSignatureIsTheContracts(t *testing.T) {
	raw, err := os.ReadFile("testdata/signature.json")
	if err != nil {
		t.Fatal(err)
	}
	type example struct {
		Envelope
		Topic, Text, Payload, Of string
	}
	var v struct {
		Seed, Public string // base64
		example
		Version3 example                               `json:"version_3"`
		Answer   struct{ Topic, Text, Payload string } // the leader's
	}
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatal(err)
	}
	seed, err := base64.StdEncoding.DecodeString(v.Seed)
	if err != nil {
		t.Fatal(err)
	}
	public, err := ParsePublicKey(v.Public)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []example{v.example, v.Version3} {
		payload, err := x.Envelope.Sign(ed25519.NewKeyFromSeed(seed), x.Topic)
		if err != nil || string(payload) != x.Payload || Digest(payload) != x.Of {
			t.Errorf("got %s, %v\nwant %s", payload, err, x.Payload)
		}
		if text := string(x.signedText(x.Topic)); text != x.Text {
			t.Errorf("signed %q\nwant %q", text, x.Text)
		}
		if e, err := Verify(x.Topic, []byte(x.Payload), map[string]ed25519.PublicKey{x.Key: public}); err != nil || e != x.Envelope {
			t.Errorf("%+v, %v", e, err)
		}
	}
	ack, _, _ := strings.Cut(v.Answer.Payload, answerField)
	if got := SignAnswer(ed25519.NewKeyFromSeed(seed), v.Answer.Topic, []byte(ack+"}")); string(got) != v.Answer.Payload ||
		string(answerText(v.Answer.Topic, []byte(ack))) != v.Answer.Text {
		t.Errorf("got %s\nwant %s", got, v.Answer.Payload)
	}
	if err := VerifyAnswer(v.Answer.Topic, []byte(v.Answer.Payload), public); err != nil {
		t.Error(err)
	}
	if _, err := DecodeAck([]byte(v.Answer.Payload)); err != nil {
		t.Error(err)
	}
}

func TestChallengesDiffer(t *testing.T) {
	seen := map[string]bool{}
	for range 1000 {
		c := NewChallenge()
		if len(c) != 22 || !textForms["challenge"].matches(c) || seen[c] {
			t.Fatalf("challenge %q", c)
		}
		seen[c] = true
	}
}

// A refusal needs the id of a command that cannot be verified.
func TestClaimedID(t *testing.T) {
	_, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := Envelope{Key: "crew-9", Counter: 1, Challenge: NewChallenge(), Body: missionExample}.Sign(private, "x")
	if err != nil {
		t.Fatal(err)
	}
	for payload, want := range map[string]string{
		string(signed): "m1", budgetExample: "b1", preferenceExample: "p1", missionExample: "m1", `{"id":"x"}`: "x",
		`{"id":"a b"}`: "", `{}`: "", `[]`: "", ``: "", envelopeExample: "b1",
		strings.Replace(envelopeExample, challengeExample, "", 1): "",
	} {
		if got := ClaimedID([]byte(payload)); got != want {
			t.Errorf("%s: %q, want %q", payload, got, want)
		}
	}
}

// A public key has the form of a private one, and everybody may know it.
func TestPublicKeySignsNothing(t *testing.T) {
	dir := t.TempDir()
	line, err := NewKey(filepath.Join(dir, "leader.key"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"leader.key", "leader.pub"} {
		path := filepath.Join(dir, name)
		if err := cmp.Or(os.WriteFile(path, []byte(line+"\n"), 0o600), os.Chmod(path, 0o600)); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadKey(path); err == nil || !strings.Contains(err.Error(), "it is the public key") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestBadKeyFiles(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"empty": "", "words": "not a key\n", "short": "AAAA\n", "long": strings.Repeat("A", 88)} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadKey(path); err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := ParsePublicKey(text); err == nil {
			t.Errorf("%s is not a public key", name)
		}
	}
	if _, err := NewKey(filepath.Join(dir, "noend")); err == nil {
		t.Error("a key file without .key")
	}
}
