package telemetry

import (
	"crypto/ed25519"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
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
	last := func(string) uint64 { return 1731 }
	topic := "prefdt/f1/command/budget"
	payload, err := Sign("crew-1", private, 1732, topic, []byte(budgetExample))
	if err != nil || !Signed(payload) || Signed([]byte(budgetExample)) {
		t.Fatalf("%s, %v", payload, err)
	}
	e, err := Verify(topic, payload, keys, last)
	if err != nil || e.Body != budgetExample || e.Counter != 1732 || e.Key != "crew-1" {
		t.Fatalf("%+v, %v", e, err)
	}

	swap := func(old, new string) []byte {
		if !strings.Contains(string(payload), old) {
			t.Fatalf("no %s in %s", old, payload)
		}
		return []byte(strings.Replace(string(payload), old, new, 1))
	}
	cases := []struct {
		name, topic string
		payload     []byte
		kind        string
	}{
		{"another topic", "prefdt/f2/command/budget", payload, "envelope: bad signature"},
		{"another body", topic, swap("36000", "96000"), "envelope: bad signature"},
		{"another counter", topic, swap("1732", "1733"), "envelope: bad signature"},
		{"counter and body moved into each other", topic, swap(`"counter":1732,"body":"`, `"counter":173,"body":"2\n`), "envelope: bad signature"},
		{"unknown key", topic, swap("crew-1", "crew-2"), "envelope: unknown key"},
		{"not base64", topic, swap(`"signature":"`, `"signature":"*`), "envelope: bad signature"},
		{"unsigned", topic, []byte(budgetExample), "envelope.key: missing"},
	}
	for _, c := range cases {
		if _, err := Verify(c.topic, c.payload, keys, last); err == nil || err.(*Invalid).Kind != c.kind {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if _, err := Verify(topic, payload, keys, func(string) uint64 { return 1732 }); err == nil || err.(*Invalid).Kind != "envelope: old counter" {
		t.Errorf("played back: %v", err)
	}
}

// What is signed is CONTRACT's text, so that a client in another language agrees.
func TestSignedTextIsTheContracts(t *testing.T) {
	private := ed25519.NewKeyFromSeed(make([]byte, 32))
	payload, err := Sign("k", private, 7, "a/b", []byte("{}"))
	want := `{"key":"k","counter":7,"body":"{}","signature":"` + base64.StdEncoding.EncodeToString(ed25519.Sign(private, []byte("a/b\n7\n{}"))) + `"}`
	if err != nil || string(payload) != want {
		t.Fatalf("got %s, %v\nwant %s", payload, err, want)
	}
}

// A clock's nanoseconds, which a float64 does not hold, do as counters.
func TestCounterIsExact(t *testing.T) {
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	const counter = 1763712345678901235
	text := fmt.Sprintf("a/b\n%d\n{}", counter)
	payload := fmt.Sprintf(`{"key":"k","counter":%d,"body":"{}","signature":%q}`, counter, base64.StdEncoding.EncodeToString(ed25519.Sign(private, []byte(text))))
	keys := map[string]ed25519.PublicKey{"k": public}
	e, err := Verify("a/b", []byte(payload), keys, func(string) uint64 { return counter - 1 })
	if err != nil || e.Counter != counter {
		t.Errorf("%d, %v", e.Counter, err)
	}
	if _, err := Verify("a/b", []byte(payload), keys, func(string) uint64 { return counter }); err == nil {
		t.Error("played back")
	}
}

func TestCountersAreNeverReused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "crew.key")
	seen := make(chan uint64, 100)
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for range 5 {
				n, err := NextCounter(path)
				if err != nil {
					t.Error(err)
				}
				seen <- n
			}
		})
	}
	group.Wait()
	close(seen)
	used := map[uint64]bool{}
	for n := range seen {
		if used[n] || n < 1 || n > 20 {
			t.Errorf("counter %d", n)
		}
		used[n] = true
	}
	if err := os.WriteFile(path+".counter", []byte("-3\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := NextCounter(path); err == nil || !strings.Contains(err.Error(), "is not a count") {
		t.Errorf("got %v", err)
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
