package telemetry

import (
	"cmp"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// A crew member's key is two files: NAME.key, one line with the base64 of the
// 32-byte Ed25519 seed, readable by its owner only; and NAME.pub, one line with
// the base64 of the public key, which goes into the leader's configuration.
// NAME.key.counter holds the last counter that was signed with it.

// NewKey writes a new key pair to path (NAME.key) and NAME.pub, and returns the
// public line. It never overwrites a key.
func NewKey(path string) (public string, err error) {
	base, ok := strings.CutSuffix(path, ".key")
	if !ok {
		return "", fmt.Errorf("key file %s: want a name that ends in .key", path)
	}
	pub, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return "", fmt.Errorf("make a key: %w", err)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) // fails for an existing key
	if err != nil {
		return "", fmt.Errorf("write key: %w", err)
	}
	f.Close()
	if err := writeDurably(path, base64.StdEncoding.EncodeToString(private.Seed())+"\n", 0o600); err != nil {
		return "", err
	}
	public = base64.StdEncoding.EncodeToString(pub)
	if err := writeDurably(base+".pub", public+"\n", 0o644); err != nil {
		return "", err
	}
	return public, nil
}

// ReadKey reads a private key file.
func ReadKey(path string) (ed25519.PrivateKey, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read key: %w", err)
	}
	seed, err := parseKey(strings.TrimSpace(string(text)))
	if err != nil {
		return nil, fmt.Errorf("read key %s: %w", path, err)
	}
	return ed25519.NewKeyFromSeed(seed), nil
}

// maxCounter is the largest counter that an envelope carries. maxReportedCounter, the
// nanoseconds of a clock in 2116, is the largest that an acknowledgement raises the
// station's counter to: above it a forged one could use up a key.
const (
	maxCounter         = 1<<63 - 1
	maxReportedCounter = 1 << 62
)

// NextCounter returns a counter that was never used with the key file at path,
// and stores it on disk before it returns. Several programs may share the key; those
// on different machines get different counters by their clocks, now. The counter
// exceeds above, the last one that the leader reported as accepted, 0 if unknown.
func NextCounter(path string, now time.Time, above uint64) (uint64, error) {
	path += ".counter"
	if above > maxReportedCounter {
		return 0, fmt.Errorf("command counter: the acknowledgement reports %d as accepted, want at most %d; make a new key if that is true", above, uint64(maxReportedCounter))
	}
	unlock, err := lockFile(path + ".lock")
	if err != nil {
		return 0, fmt.Errorf("command counter: %w", err)
	}
	defer unlock()
	var last uint64
	text, err := os.ReadFile(path)
	switch {
	case err == nil:
		if last, err = strconv.ParseUint(strings.TrimSpace(string(text)), 10, 63); err != nil {
			return 0, fmt.Errorf("command counter %s: %s is not a counter; write a number above the last one that the leader accepted", path, quote(string(text)))
		}
	case !os.IsNotExist(err):
		return 0, fmt.Errorf("command counter: %w", err)
	}
	if last == maxCounter {
		return 0, fmt.Errorf("command counter %s: %d is the largest counter; make a new key", path, last)
	}
	next := max(last, above) + 1
	if clock := now.UnixNano(); clock > 0 { // not of a clock before 1970
		next = max(next, uint64(clock))
	}
	return next, writeDurably(path, strconv.FormatUint(next, 10)+"\n", 0o600)
}

// writeDurably replaces a file atomically: a power cut leaves the old or the new one.
func writeDurably(path, text string, mode os.FileMode) error {
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	defer os.Remove(f.Name()) // fails once it is renamed, as intended
	_, err = f.WriteString(text)
	if err = cmp.Or(err, f.Chmod(mode), f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if d, err := os.Open(dir); err == nil { // for the name; not every system can sync a directory
		d.Sync()
		d.Close()
	}
	return nil
}
