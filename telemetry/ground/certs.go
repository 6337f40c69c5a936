package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"prefdt/configs/cli"
	"prefdt/configs/mosquitto"
	"prefdt/telemetry"
	"prefdt/telemetry/access"
	"prefdt/telemetry/task"
)

const (
	day = 24 * time.Hour

	maxUsers = 4096 // that a leader serves, docs/wire.md
)

// certs makes the certificates of a fleet's broker and its clients, or tries them.
func certs(t *tool) error {
	out := t.Flags.String("out", "tls", "`folder` of the certificates; what is there is kept, and renewed when it soon ends")
	hosts := t.Flags.String("host", "localhost,127.0.0.1", "`names` and addresses by which clients reach the broker")
	crew := t.Flags.String("crew", "crew-1", "`names` of the crew")
	users := t.Flags.String("users", "10", "`number` of users, u01 and so on; or their names, with commas between them")
	workers := t.Flags.String("workers", "", "`hosts` by which users reach the workers, of aircraft 1 and so on, with commas between "+
		"them; - for an aircraft without one")
	networks := t.Flags.String("networks", "", "`networks` (10.42.0.0/24), domains and hosts, with commas between them, that a new "+
		"authority may sign for later, besides the hosts of its first run")
	days := t.Flags.Int("days", 825, "`days` of validity")
	authorityDays := t.Flags.Int("ca-days", 3650, "`days` of validity of the authority")
	revoke := t.Flags.String("revoke", "", "revoke the certificate of a `name`, as of a lost phone; the broker is then given the "+
		"folder's ca.crl")
	check := t.Flags.Bool("check", false, "try every certificate at the broker, and name what it wrongly refuses or wrongly permits")
	t.Flags.Var((*seconds)(&t.config.TimeoutS), "timeout", "how `long` a check may take")
	if _, err := t.parse(0); err != nil {
		return err
	}
	if *check {
		return t.checkBroker(*out)
	}
	if *revoke != "" {
		if err := access.Revoke(*out, *revoke, time.Now()); err != nil {
			return cli.BadInput(err)
		}
		fmt.Fprintf(t.Stdout, "revoked %s in %s: install that at the broker and restart it\n", *revoke,
			filepath.Join(*out, access.RevokedFile))
		return nil
	}
	if c, err := access.Read(*out, access.NameBroker); err == nil && !t.Given("host") {
		*hosts = strings.Join(c.Hosts, ",")
	}
	if raw, err := os.ReadFile(filepath.Join(*out, aclFile)); err == nil && t.config.Fleet == defaults().Fleet && !t.Given("fleet") {
		t.config.Fleet = cmp.Or(access.FleetOf(string(raw)), t.config.Fleet)
	}
	wanted, err := wantedCertificates(splitList(*hosts), splitList(*crew), *users, splitList(*workers))
	if err != nil {
		return cli.BadInput(err)
	}
	var later []string
	if *networks != "" {
		later = splitList(*networks)
	}
	for _, x := range later {
		if _, _, err := net.ParseCIDR(x); x == "" || err != nil && strings.Contains(x, "/") {
			return cli.BadInputf("-networks %q: want a network like 10.42.0.0/24, a domain or a host", x)
		}
	}
	for _, x := range []struct {
		flag string
		days int
		most int
	}{{"days", *days, int(access.MaxValidity / day)}, {"ca-days", *authorityDays, 3650}} {
		if x.days < 1 || x.days > x.most {
			return cli.BadInputf("-%s %d is outside [1, %d]", x.flag, x.days, x.most)
		}
	}
	all, err := access.Issue(*out, wanted, access.Validity{Authority: time.Duration(*authorityDays) * day,
		Others: time.Duration(*days) * day}, time.Now(), later...)
	if err != nil {
		return err
	}
	for i := range splitList(*workers) {
		if slices.ContainsFunc(wanted, func(c access.Certificate) bool { return c.Name == access.WorkerName(i+1) }) {
			if err := task.WriteKey(access.GrantKeyFile(*out, i+1)); err != nil && !errors.Is(err, os.ErrExist) {
				return fmt.Errorf("write the grants' key: %w", err)
			}
		}
	}
	if err := t.writeACL(*out); err != nil {
		return err
	}
	return t.printCertificates(*out, splitList(*hosts)[0], splitList(*crew)[0], all)
}

// aclFile has the rights of a fleet, beside the certificates.
const aclFile = "acl"

// writeACL writes the rights of a fleet, with all of the crew that a folder has. One that was
// edited is kept, and the rights go beside it.
func (t *tool) writeACL(folder string) error {
	all, err := access.List(folder)
	if err != nil {
		return err
	}
	var crew, workers []string
	for _, c := range all {
		switch c.Role {
		case access.RoleCrew:
			crew = append(crew, c.Name)
		case access.RoleWorker:
			workers = append(workers, c.Name)
		}
	}
	path := filepath.Join(folder, aclFile)
	if raw, err := os.ReadFile(path); err == nil && access.Edited(string(raw)) {
		path += ".new"
		fmt.Fprintf(t.Stdout, "%s was edited and is kept; the rights are in %s\n", aclFile, path)
	}
	text := access.MosquittoACL(mosquitto.ACL, t.config.Fleet, crew, workers)
	if err := os.WriteFile(path, []byte(text), access.CertificateMode); err != nil {
		return fmt.Errorf("write the ACL: %w", err)
	}
	return nil
}

func splitList(text string) (list []string) {
	for part := range strings.SplitSeq(text, ",") {
		list = append(list, strings.TrimSpace(part))
	}
	return list
}

// withoutInterfaces are hosts as certificates have them.
func withoutInterfaces(hosts []string) (all []string) {
	for _, host := range hosts {
		all = append(all, telemetry.ServerName(host))
	}
	return all
}

// wantedCertificates are those of a fleet, or an error about a name.
func wantedCertificates(hosts, crew []string, users string, workers []string) ([]access.Certificate, error) {
	names := splitList(users)
	if n, err := strconv.Atoi(users); err == nil {
		if n < 0 || n > maxUsers {
			return nil, fmt.Errorf("-users %d is outside [0, %d]", n, maxUsers)
		}
		names = nil
		for i := range n {
			names = append(names, fmt.Sprintf("u%02d", i+1)) // as simbridge names them
		}
	}
	wanted := []access.Certificate{
		{Name: access.NameBroker, Role: access.RoleBroker, Hosts: withoutInterfaces(hosts)},
		{Name: access.NameLeader, Role: access.RoleLeader},
		{Name: access.NameObserver, Role: access.RoleObserver},
	}
	for _, name := range crew {
		wanted = append(wanted, access.Certificate{Name: name, Role: access.RoleCrew})
	}
	for _, name := range names {
		wanted = append(wanted, access.Certificate{Name: name, Role: access.RoleUser})
	}
	for i, host := range workers {
		if host != "" && host != "-" {
			wanted = append(wanted, access.Certificate{Name: access.WorkerName(i + 1), Role: access.RoleWorker,
				Hosts: withoutInterfaces([]string{host})})
		}
	}
	seen := map[string]bool{access.NameAuthority: true}
	for _, c := range wanted {
		if !telemetry.ValidID(c.Name) {
			return nil, fmt.Errorf("name %q: want 1 to 64 of A-Z a-z 0-9 . _ -", c.Name)
		}
		if seen[c.Name] {
			return nil, fmt.Errorf("name %s is used for two certificates; the broker tells clients apart by their names", c.Name)
		}
		seen[c.Name] = true
	}
	if slices.Contains(hosts, "") {
		return nil, fmt.Errorf("-host wants names or addresses, with commas between them")
	}
	return wanted, nil
}

// printCertificates lists what there is, and the lines of each program's configuration.
func (t *tool) printCertificates(folder, host, crew string, all []access.Certificate) error {
	fmt.Fprintf(t.Stdout, "In %s, with the modes of NAME.crt and NAME.key:\n", folder)
	table := tabwriter.NewWriter(t.Stdout, 0, 0, 2, ' ', 0)
	for _, c := range all {
		fmt.Fprintf(table, "  %s\t%s\t%s\t%04o %04o\tvalid until %s\t%s\n", c.Name, c.Role, c.State, c.CertificateMode, c.KeyMode,
			c.X509.NotAfter.Format(time.DateOnly), strings.Join(c.Hosts, ", "))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	clients := "" // only where tasks are computed
	for _, c := range all {
		if c.Role == access.RoleWorker {
			clients += fmt.Sprintf("worker.yaml     %s\n", brokerLine(folder, host, c.Name, ""))
		}
	}
	if i := slices.IndexFunc(all, func(c access.Certificate) bool { return c.Role == access.RoleUser }); i >= 0 && clients != "" {
		clients += fmt.Sprintf("user.yaml       %s\n", brokerLine(folder, host, all[i].Name, ""))
	}
	fmt.Fprintf(t.Stdout, `ca.key signs all others: keep it on no machine that flies. acl has the rights of fleet %s for mosquitto.
leader.yaml     %s
ground.yaml     %s
simbridge       %s
%sTry them, with the broker running: ground certs -check -out %s -fleet %s -broker %s
`,
		t.config.Fleet, brokerLine(folder, host, access.NameLeader, ""), brokerLine(folder, host, crew, ""),
		brokerLine(folder, host, "{user}", `listen: "", `), clients, folder, t.config.Fleet, brokerURL(host))
	return nil
}

func brokerURL(host string) string {
	if strings.Contains(host, ":") { // IPv6
		host = "[" + host + "]"
	}
	return "tls://" + host + ":8883"
}

// brokerLine is a client's configuration of the broker.
func brokerLine(folder, host, name, more string) string {
	authority, _ := access.Files(folder, access.NameAuthority)
	certificate, key := access.Files(folder, name)
	return fmt.Sprintf("broker: {%surl: %q, ca: %q, cert: %q, key: %q}", more, brokerURL(host), authority, certificate, key)
}

// checkBroker tries every certificate of a folder at the broker.
func (t *tool) checkBroker(folder string) error {
	if !strings.HasPrefix(t.config.Broker.URL, "tls://") {
		return cli.BadInputf("-broker %s: want tls://host:port", t.config.Broker.URL)
	}
	all, err := access.List(folder)
	if err != nil {
		return cli.BadInput(err)
	}
	all = slices.DeleteFunc(all, func(c access.Certificate) bool { return c.Role == access.RoleAuthority || c.Role == access.RoleBroker })
	if len(all) == 0 {
		return cli.BadInputf("no certificates in %s; `ground certs -out %[1]s` makes them", folder)
	}
	ctx, cancel := context.WithTimeout(t.ctx, max(t.timeout(), time.Minute))
	defer cancel()
	findings, err := access.Check(ctx, folder, t.config.Broker, t.topics, all)
	if err != nil {
		return err
	}
	failed := map[string]bool{}
	for _, f := range findings {
		failed[f.Name] = true
		fmt.Fprintf(t.Stdout, "FAIL  %s %s\n", f.Name, telemetry.Printable(f.Problem))
	}
	for _, c := range all {
		if !failed[c.Name] {
			fmt.Fprintf(t.Stdout, "ok    %s publishes and receives what a name with the role %s may, and nothing else\n", c.Name, c.Role)
		}
	}
	if len(findings) > 0 {
		return fmt.Errorf("%d findings at broker %s", len(findings), t.config.Broker.URL)
	}
	return nil
}
