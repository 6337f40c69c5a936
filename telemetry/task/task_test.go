package task

import (
	"bytes"
	"encoding/hex"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func example() Grant {
	f, _ := FunctionHash("9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08")
	return Grant{Mission: MissionHash("demo", "mission-1"), User: UserHash("u01"), Function: f, Slot: 17, Bytes: 65536, Aircraft: 2,
		Share: 32768}
}

// The example of docs/wire.md, by which a client in another language is checked.
func TestGrantOfTheDocument(t *testing.T) {
	raw, err := os.ReadFile("../../docs/wire.md")
	if err != nil {
		t.Fatal(err)
	}
	key := Key(bytes.Repeat([]byte{7}, 32))
	g := example()
	if text := hex.EncodeToString(g.Seal(nil, &key)); !strings.Contains(strings.Join(strings.Fields(string(raw)), ""), text) {
		t.Errorf("docs/wire.md does not have the example's grant %s", text)
	}
}

// Any bit that is changed makes a grant another's, and so does another key.
func TestGrantIsItsKeys(t *testing.T) {
	key := Key{1}
	g := example()
	sealed := g.Seal(nil, &key)
	if got, err := Open(sealed, &key); err != nil || got != g || len(sealed) != GrantSize {
		t.Fatalf("%+v, %v", got, err)
	}
	if _, err := Open(sealed, &Key{2}); err != ErrForged {
		t.Errorf("another key: %v", err)
	}
	for bit := range 8 * GrantSize {
		changed := bytes.Clone(sealed)
		changed[bit/8] ^= 1 << (bit % 8)
		if _, err := Open(changed, &key); err != ErrForged {
			t.Errorf("bit %d changed: %v", bit, err)
		}
	}
	for _, n := range []int{0, 1, GrantSize - 1} {
		if _, err := Open(sealed[:n], &key); err != ErrForged {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	if text := g.Text(&key); len(text) != 76 {
		t.Errorf("%d characters", len(text))
	}
}

func TestRequestAndAnswer(t *testing.T) {
	for _, r := range []Request{
		{Slot: 17, Function: "blobs", Bytes: 70000},
		{Slot: 0, Function: strings.Repeat("f", 64), Grant: bytes.Repeat([]byte{9}, GrantSize)},
	} {
		header := r.Append(nil)
		if got, err := ParseRequest((*[HeaderSize]byte)(header)); err != nil || !reflect.DeepEqual(got, r) {
			t.Errorf("%+v, %v; want %+v", got, err, r)
		}
	}
	a := Answer{Status: Stopped, EdgeNS: 1 << 40, Output: []byte("half")}
	if got, err := ReadAnswer(bytes.NewReader(a.Append(nil)), 4); err != nil || !reflect.DeepEqual(got, a) {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := ReadAnswer(bytes.NewReader(a.Append(nil)), 3); err == nil {
		t.Error("more output than allowed was read")
	}
	for s := OK; s <= NoOffer; s++ {
		if strings.HasPrefix(s.String(), "status") {
			t.Errorf("status %d has no text", uint32(s))
		}
	}
}

func FuzzParseRequest(f *testing.F) {
	r := Request{Slot: 17, Function: "blobs", Bytes: 70000}
	f.Add(r.Append(nil))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if len(raw) != HeaderSize {
			return
		}
		r, err := ParseRequest((*[HeaderSize]byte)(raw))
		if err != nil {
			return
		}
		again, err := ParseRequest((*[HeaderSize]byte)(r.Append(nil)))
		if err != nil || !reflect.DeepEqual(again, r) {
			t.Errorf("%+v became %+v, %v", r, again, err)
		}
	})
}

func TestKeyFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "worker-1.grant")
	if err := WriteKey(path); err != nil {
		t.Fatal(err)
	}
	if err := WriteKey(path); err == nil {
		t.Error("a key was overwritten")
	}
	if key, err := ReadKey(path); err != nil || *key == (Key{}) {
		t.Errorf("%v, %v", key, err)
	}
	os.WriteFile(path, []byte("abc\n"), 0o600)
	if _, err := ReadKey(path); err == nil || !strings.Contains(err.Error(), "64 hexadecimal digits") {
		t.Errorf("a short key: %v", err)
	}
}

// A key that everybody on the machine may read grants nothing.
func TestKeyOfEverybody(t *testing.T) {
	path := filepath.Join(t.TempDir(), "worker-1.grant")
	if err := WriteKey(path); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadKey(path); err != nil {
		t.Error(err)
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadKey(path); err == nil || !strings.Contains(err.Error(), "its mode 0644") {
		t.Errorf("mode 0644: %v", err)
	}
}
