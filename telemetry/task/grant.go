// Package task is what goes over the wire when a task is computed: the grant by which
// a leader lets a user compute on an aircraft, and the request and the answer between the
// user and the aircraft's worker. docs/wire.md has the layouts.
//
// Inputs: decisions, and bytes that arrived. Outputs: grants with their proof, and frames.
// The leader makes grants, users pass them on unread, workers verify them.
package task

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"prefdt/telemetry"
)

// GrantSize is the number of bytes of a grant.
const GrantSize = 56

// macSize is that of its proof, the first half of an HMAC-SHA-256.
const macSize = 16

// GrantSlots is for how many slots after its own a grant is valid.
const GrantSlots = 2

// Grant lets one user compute a part of one task on one aircraft. Names stand in it as the
// first bytes of their SHA-256.
type Grant struct {
	Mission  [8]byte // [MissionHash]
	User     [8]byte // [UserHash]
	Function [12]byte
	Slot     uint32
	Bytes    uint32 // of input, at most
	Aircraft uint8
	Share    uint16 // of the aircraft's CPU, in 65535ths
}

// Key is what the leader and the worker of one aircraft share.
type Key [32]byte

// MissionHash stands for a mission of a fleet.
func MissionHash(fleet, mission string) (h [8]byte) { return hash8(fleet + "/" + mission) }

// UserHash stands for a user.
func UserHash(user string) (h [8]byte) { return hash8(user) }

func hash8(text string) (h [8]byte) {
	sum := sha256.Sum256([]byte(text))
	copy(h[:], sum[:])
	return h
}

// FunctionHash is the start of a function's digest in hexadecimal.
func FunctionHash(digest string) (h [12]byte, err error) {
	raw, err := hex.DecodeString(digest)
	if err != nil || len(raw) != sha256.Size {
		return h, fmt.Errorf("digest %q is not the SHA-256 of a function in hexadecimal", digest)
	}
	copy(h[:], raw)
	return h, nil
}

// Seal appends the grant and its proof by a key.
func (g *Grant) Seal(dst []byte, key *Key) []byte {
	start := len(dst)
	dst = append(dst, g.Mission[:]...)
	dst = append(dst, g.User[:]...)
	dst = append(dst, g.Function[:]...)
	dst = binary.LittleEndian.AppendUint32(dst, g.Slot)
	dst = binary.LittleEndian.AppendUint32(dst, g.Bytes)
	dst = append(dst, grantVersion, g.Aircraft)
	dst = binary.LittleEndian.AppendUint16(dst, g.Share)
	return append(dst, mac(dst[start:], key)...)
}

// grantVersion tells a later layout apart.
const grantVersion = 1

// ErrForged is the error of a grant that its key did not make.
var ErrForged = errors.New("the grant is not of this aircraft's key")

// Open reads a sealed grant, if the key made it.
func Open(sealed []byte, key *Key) (g Grant, err error) {
	if len(sealed) != GrantSize || !hmac.Equal(sealed[GrantSize-macSize:], mac(sealed[:GrantSize-macSize], key)) ||
		sealed[36] != grantVersion {
		return g, ErrForged
	}
	copy(g.Mission[:], sealed[0:])
	copy(g.User[:], sealed[8:])
	copy(g.Function[:], sealed[16:])
	g.Slot = binary.LittleEndian.Uint32(sealed[28:])
	g.Bytes = binary.LittleEndian.Uint32(sealed[32:])
	g.Aircraft = sealed[37]
	g.Share = binary.LittleEndian.Uint16(sealed[38:])
	return g, nil
}

func mac(body []byte, key *Key) []byte {
	h := hmac.New(sha256.New, key[:])
	h.Write([]byte("prefdt-grant-1\n"))
	h.Write(body)
	return h.Sum(nil)[:macSize]
}

// Text is a sealed grant as a decision carries it.
func (g *Grant) Text(key *Key) string {
	return base64.StdEncoding.EncodeToString(g.Seal(make([]byte, 0, GrantSize), key))
}

// ReadKey reads a key file: 64 hexadecimal digits.
func ReadKey(path string) (*Key, error) {
	text, err := telemetry.ReadPrivate(path)
	if err != nil {
		return nil, err
	}
	raw, err := hex.DecodeString(strings.TrimSpace(string(text)))
	if key := new(Key); err == nil && len(raw) == len(key) {
		copy(key[:], raw)
		return key, nil
	}
	return nil, fmt.Errorf("%s: want 64 hexadecimal digits", path)
}

// WriteKey writes a new random key, and never over a file.
func WriteKey(path string) error {
	var key Key
	rand.Read(key[:])
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.WriteString(f, hex.EncodeToString(key[:])+"\n")
	return errors.Join(err, f.Close())
}
