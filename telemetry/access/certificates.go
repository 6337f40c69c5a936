// Package access is who may connect to a fleet's broker, and who may publish and receive
// what: certificates with their files, the access rules, and a check of a broker in use.
//
// Inputs: a folder, the names of a fleet's broker, crew and users. Outputs: certificates
// and keys in that folder, an ACL for mosquitto, and what a broker refuses or permits
// against the rules. `ground certs` is its command line.
package access

import (
	"cmp"
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
	"strconv"
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
	RoleWorker    = "worker" // computes on an aircraft; users connect to it
)

// Names of the certificates of which there is one.
const (
	NameAuthority = "ca"
	NameBroker    = "broker"
	NameLeader    = "leader"
	NameObserver  = "observer"
)

// WorkerName is the name of the worker of an aircraft.
func WorkerName(aircraft int) string { return "worker-" + strconv.Itoa(aircraft) }

// GrantKeyFile is the path of the key that an aircraft's worker shares with the leader.
func GrantKeyFile(folder string, aircraft int) string {
	return filepath.Join(folder, WorkerName(aircraft)+".grant")
}

// Certificate is a certificate and its private key, in two files of a folder.
type Certificate struct {
	Name  string // its common name, by which the broker knows the client; also the files'
	Role  string
	Hosts []string // by which it is reached; of an authority: what it may sign, networks (10.42.0.0/24) too
	State string   // made, renewed or kept

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

// MaxValidity is the longest that others accept: what is lost is not good for ever.
const MaxValidity = 825 * 24 * time.Hour

// renewBefore its end a certificate is signed anew, for the key that it has.
const renewBefore = 30 * 24 * time.Hour

// Issue makes what a folder lacks of an authority, the certificates it signs and the list of
// those that are revoked. What is there is kept, so that a name is added later by the same
// call, and renewed when it soon ends; it is an error if another authority signed it. A new
// authority is good for the hosts of wanted alone, and for more: hosts, domains and networks.
// Of another host nothing is made.
func Issue(folder string, wanted []Certificate, valid Validity, now time.Time, more ...string) ([]Certificate, error) {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return nil, fmt.Errorf("make the folder: %w", err)
	}
	authority := Certificate{Name: NameAuthority, Role: RoleAuthority, Hosts: slices.Clone(more)}
	for _, c := range wanted {
		authority.Hosts = append(authority.Hosts, c.Hosts...)
	}
	if err := authority.issue(folder, nil, valid.Authority, now); err != nil {
		return nil, err
	}
	for _, c := range append([]Certificate{{Name: "later hosts", Hosts: more}}, wanted...) {
		if err := authority.checkHosts(folder, c); err != nil {
			return nil, err
		}
	}
	if _, err := os.Stat(filepath.Join(folder, RevokedFile)); errors.Is(err, os.ErrNotExist) {
		if err := authority.writeRevoked(folder, nil, now); err != nil {
			return nil, err
		}
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
	case authority == nil && now.After(found.X509.NotAfter):
		return fmt.Errorf("%s expired on %s; use another folder to have all made anew", certFile, found.X509.NotAfter.Format(time.DateOnly))
	case authority != nil && found.X509.CheckSignatureFrom(authority.X509) != nil:
		return fmt.Errorf("%s was signed by another authority than this folder's; remove it and its key to have another made", certFile)
	case found.Role != c.Role:
		return fmt.Errorf("%s is of a %q, want a %s; remove it and its key to have another made", certFile, found.Role, c.Role)
	case authority != nil && !slices.Equal(slices.Sorted(slices.Values(found.Hosts)), slices.Sorted(slices.Values(c.Hosts))):
		return fmt.Errorf("%s is for %s, want %s; remove it and its key to have another made", certFile, strings.Join(found.Hosts, ", "),
			strings.Join(c.Hosts, ", "))
	case authority != nil && now.Add(renewBefore).After(found.X509.NotAfter) && found.X509.NotAfter.Before(authority.X509.NotAfter):
		return c.sign(folder, found.X509.PublicKey, authority, valid, now, "renewed")
	}
	*c = found
	c.State = "kept"
	return nil
}

// backdated is how far before now the certificate of a host is valid: others accept none of more than [MaxValidity].
const backdated = 24 * time.Hour

// begins is when all others are valid from: a broker without a clock of its own starts at the time of its image, and refuses what is
// not valid yet.
func begins(now time.Time) time.Time {
	begins := time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)
	if backdated := now.Add(-backdated); backdated.Before(begins) {
		return backdated
	}
	return begins
}

// make makes key and certificate; without an authority it signs itself, as one.
func (c *Certificate) make(folder string, authority *Certificate, valid time.Duration, now time.Time) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("make a key: %w", err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return fmt.Errorf("encode the key of %s: %w", c.Name, err)
	}
	_, keyFile := Files(folder, c.Name)
	if err := write(keyFile, os.O_EXCL, "PRIVATE KEY", private, KeyMode); err != nil { // never in the place of another
		return err
	}
	c.key = key
	return c.sign(folder, &key.PublicKey, authority, valid, now, "made")
}

// sign makes the certificate of a key, in the place of an earlier one.
func (c *Certificate) sign(folder string, public crypto.PublicKey, authority *Certificate, valid time.Duration, now time.Time,
	state string) error {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return fmt.Errorf("make a serial number: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: serial.Add(serial, big.NewInt(1)), Subject: pkix.Name{CommonName: c.Name, OrganizationalUnit: []string{c.Role}},
		NotBefore: begins(now), NotAfter: now.Add(valid), BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature,
	}
	var names []string
	var addresses []net.IP
	for _, host := range c.Hosts {
		if ip := net.ParseIP(host); ip != nil {
			addresses = append(addresses, ip)
		} else {
			names = append(names, host)
		}
	}
	parent, signer := template, c.key
	switch c.Role {
	case RoleAuthority:
		constrain(template, c.Hosts)
		template.IsCA, template.MaxPathLenZero, template.KeyUsage = true, true, x509.KeyUsageCertSign|x509.KeyUsageCRLSign
	case RoleBroker:
		template.NotBefore = now.Add(-backdated)
		template.DNSNames, template.IPAddresses = names, addresses
		template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	case RoleWorker:
		template.NotBefore = now.Add(-backdated)
		template.DNSNames, template.IPAddresses = names, addresses
		template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	default:
		template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
		// Without a name of its kind OpenSSL takes a CN with a dot for a host, and refuses it.
		template.DNSNames = []string{"client." + noHost}
	}
	if authority != nil {
		parent, signer = authority.X509, authority.key
		if end := authority.X509.NotAfter; template.NotAfter.After(end) { // nobody would accept it for longer
			template.NotAfter = end
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, signer)
	if err != nil {
		return fmt.Errorf("sign the certificate of %s: %w", c.Name, err)
	}
	if made, e := x509.ParseCertificate(der); e == nil && authority != nil {
		roots := x509.NewCertPool()
		roots.AddCert(authority.X509)
		if _, err := made.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: now, KeyUsages: template.ExtKeyUsage}); err != nil {
			return fmt.Errorf("%s for %s: nobody would accept it, %w; use another folder", c.Name, strings.Join(c.Hosts, ", "), err)
		}
	}
	certFile, _ := Files(folder, c.Name)
	if err := write(certFile, os.O_TRUNC, "CERTIFICATE", der, CertificateMode); err != nil {
		return err
	}
	*c, err = Read(folder, c.Name)
	c.State = state
	return err
}

// noHost is a domain that cannot be, RFC 2606.
const noHost = "invalid"

// constrain has an authority's certificates count for some hosts and no others, whoever
// trusts it.
func constrain(template *x509.Certificate, hosts []string) {
	template.PermittedDNSDomainsCritical, template.PermittedDNSDomains = true, []string{noHost}
	for _, host := range hosts {
		if network := networkOf(host); network != nil {
			template.PermittedIPRanges = append(template.PermittedIPRanges, network)
		} else {
			template.PermittedDNSDomains = append(template.PermittedDNSDomains, host)
		}
	}
	if len(template.PermittedIPRanges) == 0 { // without any, all would be permitted
		template.PermittedIPRanges = []*net.IPNet{networkOf("0.0.0.0")}
	}
}

// networkOf is a network, or that of one address; of a name it is nil.
func networkOf(host string) *net.IPNet {
	if _, network, err := net.ParseCIDR(host); err == nil {
		return network
	}
	ip := net.ParseIP(host)
	if ip == nil {
		return nil
	}
	if v4 := ip.To4(); v4 != nil {
		ip = v4
	}
	return &net.IPNet{IP: ip, Mask: net.CIDRMask(8*len(ip), 8*len(ip))}
}

// permits tells whether an authority may sign for a host, or for all of a domain or network.
func permits(authority *x509.Certificate, host string) bool {
	network := networkOf(host)
	if network == nil {
		host = strings.ToLower(host)
		return len(authority.PermittedDNSDomains) == 0 || slices.ContainsFunc(authority.PermittedDNSDomains, func(domain string) bool {
			return strings.HasSuffix("."+host, "."+strings.ToLower(domain))
		})
	}
	ones, bits := network.Mask.Size()
	return len(authority.PermittedIPRanges) == 0 || slices.ContainsFunc(authority.PermittedIPRanges, func(r *net.IPNet) bool {
		permittedOnes, permittedBits := r.Mask.Size()
		return permittedBits == bits && permittedOnes <= ones && r.Contains(network.IP)
	})
}

// checkHosts refuses a certificate for hosts that an authority may not sign, before anything of it is made.
func (c *Certificate) checkHosts(folder string, wanted Certificate) error {
	i := slices.IndexFunc(wanted.Hosts, func(host string) bool { return !permits(c.X509, host) })
	if i < 0 {
		return nil
	}
	var signs []string
	for _, name := range c.X509.PermittedDNSDomains {
		if name != noHost {
			signs = append(signs, name)
		}
	}
	for _, r := range c.X509.PermittedIPRanges {
		if !r.IP.IsUnspecified() {
			signs = append(signs, strings.TrimSuffix(strings.TrimSuffix(r.String(), "/32"), "/128"))
		}
	}
	authorityFile, _ := Files(folder, NameAuthority)
	return fmt.Errorf("%s for %s: %s signs for %s alone, as in its first run; another host needs another folder, with all hosts named: "+
		"every certificate of the fleet anew", wanted.Name, wanted.Hosts[i], authorityFile, cmp.Or(strings.Join(signs, ", "), "no host"))
}

// RevokedFile has the certificates of a folder's authority that are good no more, for the broker.
const RevokedFile = "ca.crl"

// ReadRevoked reads a list of revoked certificates.
func ReadRevoked(path string) (*x509.RevocationList, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(raw)
	if block == nil {
		return nil, fmt.Errorf("%s: no list in PEM", path)
	}
	list, err := x509.ParseRevocationList(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return list, nil
}

// Revoke adds a name's certificate to the revoked ones, and removes it with its key, so that
// Issue makes another.
func Revoke(folder, name string, now time.Time) error {
	c, err := Read(folder, name)
	if err != nil {
		return err
	}
	authority, err := Read(folder, NameAuthority)
	if err == nil {
		err = c.X509.CheckSignatureFrom(authority.X509)
	}
	if err == nil {
		err = authority.writeRevoked(folder, c.X509, now)
	}
	if err != nil {
		return fmt.Errorf("revoke %s: %w", name, err)
	}
	certFile, keyFile := Files(folder, name)
	if err := os.Remove(keyFile); err != nil && !errors.Is(err, os.ErrNotExist) { // it may be on its machine alone
		return err
	}
	return os.Remove(certFile)
}

// writeRevoked writes the list anew, with one more certificate if there is one. The list is good as
// long as the authority: a broker refuses everybody when it has ended.
func (c *Certificate) writeRevoked(folder string, more *x509.Certificate, now time.Time) error {
	path := filepath.Join(folder, RevokedFile)
	list := &x509.RevocationList{Number: big.NewInt(1), ThisUpdate: begins(now), NextUpdate: c.X509.NotAfter}
	before, err := ReadRevoked(path)
	switch {
	case err == nil:
		list.Number.Add(before.Number, list.Number)
		list.RevokedCertificateEntries = before.RevokedCertificateEntries
	case !errors.Is(err, os.ErrNotExist): // a list that cannot be read is not begun anew
		return err
	}
	if more != nil {
		list.RevokedCertificateEntries = append(list.RevokedCertificateEntries, x509.RevocationListEntry{SerialNumber: more.SerialNumber,
			RevocationTime: now})
	}
	der, err := x509.CreateRevocationList(rand.Reader, list, c.X509, c.key)
	if err != nil {
		return err
	}
	return write(path, os.O_TRUNC, "X509 CRL", der, CertificateMode)
}

func write(path string, flags int, kind string, raw []byte, mode os.FileMode) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|flags, mode)
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
	c = Certificate{Name: parsed.Subject.CommonName, Role: strings.Join(parsed.Subject.OrganizationalUnit, ""), X509: parsed}
	if c.Role == RoleBroker || c.Role == RoleWorker {
		c.Hosts = slices.Clone(parsed.DNSNames)
		for _, ip := range parsed.IPAddresses {
			c.Hosts = append(c.Hosts, ip.String())
		}
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
