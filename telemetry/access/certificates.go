// Package access is who may connect to a fleet's broker, and who may publish and receive
// what: certificates with their files, the access rules, and a check of a broker in use.
//
// Inputs: a folder, the names of a fleet's broker, crew and users. Outputs: certificates
// and keys in that folder, an ACL for mosquitto, and what a broker refuses or permits
// against the rules. `ground certs` is its command line.
package access

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Roles of a certificate's name, its organizational unit.
const (
	RoleAuthority = "authority"
	RoleBroker    = "broker"
	RoleLeader    = "leader"
	RoleObserver  = "observer" // receives everything and publishes nothing
	RoleCrew      = "crew"
	RoleUser      = "user"
)

// Names of the certificates of which there is one.
const (
	NameAuthority = "ca"
	NameBroker    = "broker"
	NameLeader    = "leader"
	NameObserver  = "observer"
)

// Certificate is a certificate and its private key, in two files of a folder.
type Certificate struct {
	Name  string // its common name, by which the broker knows the client; also the files'
	Role  string
	Hosts []string // by which the broker is reached
	Made  bool     // now; otherwise it was there

	CertificateMode, KeyMode os.FileMode // of the files; only of what Issue returns

	X509 *x509.Certificate
	key  crypto.Signer
}

// Files are the paths of certificate and key in a folder.
func Files(folder, name string) (certificate, key string) {
	return filepath.Join(folder, name+".crt"), filepath.Join(folder, name+".key")
}

// Modes of the files when they are made: a certificate is public.
const (
	CertificateMode os.FileMode = 0o644
	KeyMode         os.FileMode = 0o600
)

// Validity is how long new certificates are valid from now on.
type Validity struct{ Authority, Others time.Duration }

// Issue makes what a folder lacks of an authority and the certificates it signs. What is
// there is kept, so that a name is added later by the same call; it is an error if that
// was signed by another authority or has expired.
func Issue(folder string, wanted []Certificate, valid Validity, now time.Time) ([]Certificate, error) {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return nil, fmt.Errorf("make the folder: %w", err)
	}
	authority := Certificate{Name: NameAuthority, Role: RoleAuthority}
	if err := authority.issue(folder, nil, valid.Authority, now); err != nil {
		return nil, err
	}
	all := []Certificate{authority}
	for _, c := range wanted {
		if err := c.issue(folder, &authority, valid.Others, now); err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	for i := range all {
		if err := all[i].readModes(folder); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func (c *Certificate) readModes(folder string) error {
	certFile, keyFile := Files(folder, c.Name)
	certificate, err := os.Stat(certFile)
	if err != nil {
		return err
	}
	key, err := os.Stat(keyFile)
	if err != nil {
		return fmt.Errorf("%s has no key: %w; remove it to have both made", certFile, err)
	}
	c.CertificateMode, c.KeyMode = certificate.Mode().Perm(), key.Mode().Perm()
	return nil
}

func (c *Certificate) issue(folder string, authority *Certificate, valid time.Duration, now time.Time) error {
	found, err := Read(folder, c.Name)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return c.make(folder, authority, valid, now)
	case err != nil:
		return err
	}
	certFile, _ := Files(folder, c.Name)
	switch {
	case now.After(found.X509.NotAfter):
		return fmt.Errorf("%s expired on %s; remove it and its key to have another made", certFile, found.X509.NotAfter.Format(time.DateOnly))
	case authority != nil && found.X509.CheckSignatureFrom(authority.X509) != nil:
		return fmt.Errorf("%s was signed by another authority than this folder's; remove it and its key to have another made", certFile)
	case found.Role != c.Role:
		return fmt.Errorf("%s is of a %q, want a %s; remove it and its key to have another made", certFile, found.Role, c.Role)
	case !slices.Equal(slices.Sorted(slices.Values(found.Hosts)), slices.Sorted(slices.Values(c.Hosts))):
		return fmt.Errorf("%s is for %s, want %s; remove it and its key to have another made", certFile, strings.Join(found.Hosts, ", "), strings.Join(c.Hosts, ", "))
	}
	*c = found
	return nil
}

// backdated is how far before now a certificate is valid: not every machine's clock is set.
const backdated = 24 * time.Hour

// make makes key and certificate; without an authority it signs itself, as one.
func (c *Certificate) make(folder string, authority *Certificate, valid time.Duration, now time.Time) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("make a key: %w", err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return fmt.Errorf("make a serial number: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: serial.Add(serial, big.NewInt(1)), Subject: pkix.Name{CommonName: c.Name, OrganizationalUnit: []string{c.Role}},
		NotBefore: now.Add(-backdated), NotAfter: now.Add(valid), BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature,
	}
	for _, host := range c.Hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	parent, signer := template, crypto.Signer(key)
	switch c.Role {
	case RoleAuthority:
		template.IsCA, template.MaxPathLenZero, template.KeyUsage = true, true, x509.KeyUsageCertSign|x509.KeyUsageCRLSign
	case RoleBroker:
		template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	default:
		template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	}
	if authority != nil {
		parent, signer = authority.X509, authority.key
		if end := authority.X509.NotAfter; template.NotAfter.After(end) { // nobody would accept it for longer
			template.NotAfter = end
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		return fmt.Errorf("sign the certificate of %s: %w", c.Name, err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return fmt.Errorf("encode the key of %s: %w", c.Name, err)
	}
	certFile, keyFile := Files(folder, c.Name)
	if err := writeNew(keyFile, "PRIVATE KEY", private, KeyMode); err != nil {
		return err
	}
	if err := writeNew(certFile, "CERTIFICATE", der, CertificateMode); err != nil {
		return err
	}
	*c, err = Read(folder, c.Name)
	c.Made = true
	return err
}

// writeNew never overwrites a file.
func writeNew(path, kind string, raw []byte, mode os.FileMode) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return fmt.Errorf("write: %w; remove it to have another made", err)
	}
	if err = errors.Join(pem.Encode(f, &pem.Block{Type: kind, Bytes: raw}), f.Chmod(mode), f.Close()); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// List reads every certificate of a folder that has a role.
func List(folder string) (all []Certificate, err error) {
	paths, err := filepath.Glob(filepath.Join(folder, "*.crt"))
	if err != nil {
		return nil, err
	}
	for _, path := range paths {
		c, err := Read(folder, strings.TrimSuffix(filepath.Base(path), ".crt"))
		if err != nil {
			return nil, err
		}
		if c.Role != "" {
			all = append(all, c)
		}
	}
	return all, nil
}

// Read reads a certificate, and of the authority its key too. The error
// is [os.ErrNotExist] if there is no certificate.
func Read(folder, name string) (c Certificate, err error) {
	certFile, keyFile := Files(folder, name)
	raw, err := os.ReadFile(certFile)
	if err != nil {
		return c, err
	}
	block, _ := pem.Decode(raw)
	if block == nil {
		return c, fmt.Errorf("%s is not a certificate in PEM", certFile)
	}
	parsed, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return c, fmt.Errorf("%s: %w", certFile, err)
	}
	c = Certificate{Name: parsed.Subject.CommonName, Role: strings.Join(parsed.Subject.OrganizationalUnit, ""), X509: parsed, Hosts: slices.Clone(parsed.DNSNames)}
	for _, ip := range parsed.IPAddresses {
		c.Hosts = append(c.Hosts, ip.String())
	}
	if name != NameAuthority {
		return c, nil
	}
	raw, err = os.ReadFile(keyFile)
	if err != nil {
		return c, fmt.Errorf("the authority's key, which signs the others: %v", err)
	}
	if block, _ = pem.Decode(raw); block == nil {
		return c, fmt.Errorf("%s is not a key in PEM", keyFile)
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return c, fmt.Errorf("%s: %w", keyFile, err)
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return c, fmt.Errorf("%s is not a key that signs", keyFile)
	}
	c.key = signer
	return c, nil
}
