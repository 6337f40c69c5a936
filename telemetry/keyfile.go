package telemetry

import (
	"bytes"
	"cmp"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"os"
	"runtime"
	"strings"
)

// A crew member's key is two files: NAME.key, one line with the base64 of the
// 32-byte Ed25519 seed, readable by its owner only; and NAME.pub, one line with
// the base64 of the public key, which goes into the leader's configuration.

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
	_, err = f.WriteString(base64.StdEncoding.EncodeToString(private.Seed()) + "\n")
	public = base64.StdEncoding.EncodeToString(pub)
	if err = cmp.Or(err, f.Sync(), f.Close(), os.WriteFile(base+".pub", []byte(public+"\n"), 0o644)); err != nil {
		os.Remove(path)
		return "", fmt.Errorf("write key: %w", err)
	}
	return public, nil
}

// ReadKey reads a private key file. A public key has the same form: where its name or the file beside it shows one, it is refused.
func ReadKey(path string) (ed25519.PrivateKey, error) {
	text, err := ReadPrivate(path)
	if err != nil {
		return nil, fmt.Errorf("read key: %w", err)
	}
	public, err := os.ReadFile(strings.TrimSuffix(path, ".key") + ".pub")
	if strings.HasSuffix(path, ".pub") || err == nil && bytes.Equal(text, public) {
		return nil, fmt.Errorf("read key %s: it is the public key, which everybody may know; want its NAME.key", path)
	}
	seed, err := parseKey(strings.TrimSpace(string(text)))
	if err != nil {
		return nil, fmt.Errorf("read key %s: %w", path, err)
	}
	return ed25519.NewKeyFromSeed(seed), nil
}

// ReadPrivate reads a file that not everybody on this machine may read.
func ReadPrivate(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if mode := info.Mode().Perm(); mode&0o007 != 0 && runtime.GOOS != "windows" { // which has no such modes
		return nil, fmt.Errorf("%s: its mode %04o lets everybody here use it; chmod 600 it, or 640 for a group", path, mode)
	}
	return os.ReadFile(path)
}

// LoadCertificate reads a certificate and its private key, in PEM.
func LoadCertificate(certificate, key string) (*tls.Certificate, error) {
	public, err := os.ReadFile(certificate)
	if err != nil {
		return nil, err
	}
	private, err := ReadPrivate(key)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(public, private)
	return &pair, err
}

// LoadAuthorities reads the certificates that others are verified by, in PEM. Errors begin with
// what the file is.
func LoadAuthorities(what, path string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s %s: no PEM certificate in it", what, path)
	}
	return pool, nil
}
