package main

import (
	"crypto/tls"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"prefdt/configs/cli"
	"prefdt/telemetry"
	"prefdt/telemetry/access"
	"prefdt/telemetry/task"
)

// makeCerts runs ground certs.
func makeCerts(t *testing.T, folder string, args ...string) string {
	t.Helper()
	code, stdout, stderr := runGround(t, append([]string{"certs", "-out", folder}, args...)...)
	if code != 0 {
		t.Fatal(stderr)
	}
	return stdout
}

// The certificates as they are made, names, modes and validity as printed, and what is
// there is kept.
func TestCerts(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "tls")
	out := makeCerts(t, folder, "-host", "broker.example,10.0.0.7", "-crew", "anna,bo", "-fleet", "f7")
	until := time.Now().Add(825 * 24 * time.Hour).Format(time.DateOnly)
	for _, want := range []string{
		`with the modes of NAME\.crt and NAME\.key:`, `ca +authority +made +0644 0600 +valid until`,
		`broker +broker +made +0644 0600 +valid until ` + until + ` +broker\.example, 10\.0\.0\.7`,
		`leader +leader +made`, `observer +observer`, `anna +crew`, `bo +crew`, `u01 +user +made +0644 0600 +valid until ` + until,
		`u10 +user`, `(?m)^leader.yaml +broker: \{url: "tls://broker\.example:8883"`,
	} {
		if !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	out = makeCerts(t, t.TempDir(), "-workers", "10.0.0.1,-,10.0.0.3", "-users", "me,you")
	for _, want := range []string{`worker.yaml +broker: .*/worker-1\.crt"`, `worker.yaml +broker: .*/worker-3\.crt"`,
		`user.yaml +broker: .*/me\.crt"`} {
		if !regexp.MustCompile(`(?m)^` + want).MatchString(out) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	files, err := os.ReadDir(folder)
	if err != nil || len(files) != 2*16+2 {
		t.Errorf("%d files, %v", len(files), err)
	}
	before := map[string]string{}
	for _, f := range files {
		info, _ := f.Info()
		want := os.FileMode(0o644)
		if strings.HasSuffix(f.Name(), ".key") {
			want = 0o600
		}
		if info.Mode() != want {
			t.Errorf("%s has mode %v", f.Name(), info.Mode())
		}
		raw, _ := os.ReadFile(filepath.Join(folder, f.Name()))
		before[f.Name()] = string(raw)
	}
	if acl := before["acl"]; strings.Contains(acl, "crew-1") || strings.Contains(acl, "/demo/") ||
		!strings.Contains(acl, "user bo\ntopic deny prefdt/f7/users/bo/+\ntopic write prefdt/f7/command/#\ntopic write "+
			"prefdt/f7/crew/bo/heartbeat\n") {
		t.Errorf("the ACL:\n%s", acl)
	}
	os.Chmod(filepath.Join(folder, "u10.key"), 0o640)
	out = makeCerts(t, folder, "-crew", "carl", "-users", "11") // of the same fleet
	if !regexp.MustCompile(`u10 +user +kept +0644 0640`).MatchString(out) ||
		!regexp.MustCompile(`u11 +user +made +0644 0600`).MatchString(out) {
		t.Errorf("a second time:\n%s", out)
	}
	for name, text := range before {
		if raw, _ := os.ReadFile(filepath.Join(folder, name)); string(raw) != text && name != "acl" {
			t.Errorf("%s was changed", name)
		}
	}
	if raw, _ := os.ReadFile(filepath.Join(folder, "acl")); !strings.Contains(string(raw), "user anna\n") ||
		!strings.Contains(string(raw), "user carl\ntopic deny prefdt/f7/users/carl/+\ntopic write prefdt/f7/command/#\n") {
		t.Errorf("the ACL after that:\n%s", raw)
	}
	makeCerts(t, folder, "-fleet", "f8")
	if raw, _ := os.ReadFile(filepath.Join(folder, "acl")); strings.Contains(string(raw), "prefdt/f7/") ||
		!strings.Contains(string(raw), "topic write prefdt/f8/slot\n") {
		t.Errorf("the ACL of another fleet:\n%s", raw)
	}
	key := filepath.Join(folder, "u12.key")
	os.WriteFile(key, []byte("mine"), 0o600)
	os.Remove(filepath.Join(folder, "bo.key"))
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"-crew", "u01"}, 2, "name u01 is used for two certificates"},
		{[]string{"-crew", "ca"}, 2, "name ca is used for two certificates"},
		{[]string{"-crew", ""}, 2, `name "": want 1 to 64`},
		{[]string{"-users", "5000"}, 2, "-users 5000 is outside [0, 4096]"},
		{[]string{"-users", "a b"}, 2, `name "a b"`},
		{[]string{"-host", "a,,b"}, 2, "-host wants names"},
		{[]string{"-days", "0"}, 2, "-days 0 is outside"},
		{[]string{"-days", "826"}, 2, "-days 826 is outside [1, 825]"},
		{[]string{"-revoke", "nobody"}, 2, "nobody.crt: no such file"},
		{[]string{"-host", "10.0.0.7"}, 1, "broker.crt is for broker.example, 10.0.0.7, want 10.0.0.7; remove it"},
		{[]string{"-host", "other.example"}, 1, "ca.crt signs for broker.example, 10.0.0.7 alone"},
		{[]string{"-networks", "10.0.0.0/33"}, 2, `-networks "10.0.0.0/33": want a network`},
		{[]string{"-networks", "10.0.0.0/24"}, 1, "later hosts for 10.0.0.0/24: "},
		{[]string{"-users", "anna"}, 2, ""},
		{[]string{"-crew", "u11", "-users", "0"}, 1, `u11.crt is of a "user", want a crew`},
		{[]string{"-users", "12"}, 1, "u12.key: file exists"},
		{[]string{"-crew", "bo"}, 1, "bo.crt has no key: "},
		{[]string{"-check"}, 2, "-broker tcp://127.0.0.1:1883: want tls://host:port"},
		{[]string{"-check", "-broker", "tls://127.0.0.1:1", "-out", t.TempDir()}, 2, "no certificates in"},
	} {
		args := append([]string{"certs", "-out", folder, "-fleet", "f7"}, c.args...)
		if slices.Equal(c.args, []string{"-users", "anna"}) {
			args = append(args, "-crew", "anna")
		}
		code, _, stderr := runGround(t, args...)
		if code != c.code || !strings.Contains(stderr, c.want) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%q: %d %q, want %d %q", c.args, code, stderr, c.code, c.want)
		}
	}
	if raw, _ := os.ReadFile(key); string(raw) != "mine" {
		t.Error("a key was overwritten")
	}
}

// A worker has a certificate for its host and a key that it shares with the leader, which is
// made once.
func TestWorkersCerts(t *testing.T) {
	folder := t.TempDir()
	makeCerts(t, folder, "-users", "1", "-workers", "uav1.example,10.0.0.2,-")
	first, err := task.ReadKey(access.GrantKeyFile(folder, 1))
	if err != nil {
		t.Fatal(err)
	}
	makeCerts(t, folder, "-users", "1", "-workers", "uav1.example,10.0.0.2")
	again, err := task.ReadKey(access.GrantKeyFile(folder, 1))
	second, err2 := task.ReadKey(access.GrantKeyFile(folder, 2))
	if err != nil || err2 != nil || *again != *first || *second == *first {
		t.Errorf("keys of the grants: %v, %v", err, err2)
	}
	c, err := access.Read(folder, access.WorkerName(2))
	if err != nil || c.Role != access.RoleWorker || !slices.Equal(c.Hosts, []string{"10.0.0.2"}) {
		t.Errorf("%+v, %v", c, err)
	}
}

// What soon ends is renewed for the key that its owner has; what was edited is kept.
func TestCertsKeepAndRenew(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "tls")
	makeCerts(t, folder, "-host", "10.0.0.7", "-users", "u1", "-days", "29")
	before, err := tls.LoadX509KeyPair(filepath.Join(folder, "u1.crt"), filepath.Join(folder, "u1.key"))
	if err != nil {
		t.Fatal(err)
	}
	if out := makeCerts(t, folder, "-users", "u1", "-days", "29"); !regexp.MustCompile(`u1 +user +renewed`).MatchString(out) {
		t.Errorf("29 days before its end:\n%s", out)
	}
	if out := makeCerts(t, folder, "-users", "u1"); !regexp.MustCompile(`u1 +user +renewed`).MatchString(out) {
		t.Errorf("29 days before its end:\n%s", out)
	}
	after, err := tls.LoadX509KeyPair(filepath.Join(folder, "u1.crt"), filepath.Join(folder, "u1.key"))
	if err != nil || after.Leaf.SerialNumber.Cmp(before.Leaf.SerialNumber) == 0 || time.Until(after.Leaf.NotAfter) < 800*24*time.Hour {
		t.Errorf("%v until %v", err, after.Leaf.NotAfter)
	}
	if out := makeCerts(t, folder, "-users", "u1"); !regexp.MustCompile(`u1 +user +kept`).MatchString(out) {
		t.Errorf("825 days before its end:\n%s", out)
	}
	acl := filepath.Join(folder, "acl")
	raw, _ := os.ReadFile(acl)
	edited := "# ours\n" + string(raw)
	os.WriteFile(acl, []byte(edited), 0o644)
	if out := makeCerts(t, folder, "-crew", "bo", "-users", "u1"); !strings.Contains(out, "acl was edited and is kept") {
		t.Errorf("an ACL that was edited:\n%s", out)
	}
	if raw, _ := os.ReadFile(acl); string(raw) != edited {
		t.Error("an ACL that was edited was overwritten")
	}
	if raw, _ := os.ReadFile(acl + ".new"); !strings.Contains(string(raw), "user bo\n") {
		t.Errorf("beside it: %s", raw)
	}
}

// An authority is good for the hosts of its first run and for what -networks adds. Another host is refused before anything
// is made, with what it costs.
func TestCertsHosts(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "tls")
	makeCerts(t, folder, "-host", "broker.example,10.0.0.7", "-users", "1", "-workers", "fd00::1",
		"-networks", "10.42.0.0/24, Field.Example, fd00:1::/64")
	for _, c := range []struct {
		name string
		args []string // none may be made
	}{
		{"the broker's next address", []string{"-host", "10.0.0.8"}},
		{"a subdomain's parent", []string{"-host", "example"}},
		{"a name that ends alike", []string{"-host", "notbroker.example"}},
		{"a worker outside the networks", []string{"-workers", "fd00::1,10.42.1.1"}},
		{"one of two workers", []string{"-workers", "fd00::1,10.42.0.1,fd00::2"}},
	} {
		before, _ := os.ReadDir(folder)
		code, _, stderr := runGround(t, append([]string{"certs", "-out", folder, "-users", "2"}, c.args...)...)
		if code != 1 || !strings.Contains(stderr, "ca.crt signs for Field.Example, broker.example, 10.42.0.0/24, fd00:1::/64, "+
			"10.0.0.7, fd00::1 alone, as in its first run; another host needs another folder, with all hosts named: every "+
			"certificate of the fleet anew") || strings.Contains(stderr, "remove") {
			t.Errorf("%s: %d %s", c.name, code, stderr)
		}
		if after, _ := os.ReadDir(folder); len(after) != len(before) {
			t.Errorf("%s: %d files, %d before", c.name, len(after), len(before))
		}
	}
	later := []string{"-users", "2", "-workers", "fd00::1,10.42.0.1,uav3.field.example,fd00:1::3", "-networks", "10.42.0.128/25"}
	if out := makeCerts(t, folder, later...); strings.Count(out, " worker  ") != 4 ||
		!regexp.MustCompile(`u02 +user +made`).MatchString(out) {
		t.Errorf("hosts within the networks:\n%s", out)
	}
}

// A station is named after its certificate, by which the broker knows whose heartbeats to take.
func TestStationName(t *testing.T) {
	folder := t.TempDir()
	makeCerts(t, folder, "-host", "127.0.0.1")
	var warned strings.Builder
	x := host{}.newTool(t.Context(), cli.NewCall("ground watch", nil, io.Discard, &warned))
	x.config.Key, x.config.Broker.Cert, x.config.Broker.Key = "anna.key", filepath.Join(folder, "crew-1.crt"),
		filepath.Join(folder, "crew-1.key")
	if name, err := x.stationName(); name != "crew-1" || err != nil || warned.Len() > 0 {
		t.Errorf("%q, %v, %s", name, err, warned.String())
	}
	x.config.Name = "tent"
	if name, err := x.stationName(); name != "tent" || err != nil ||
		!strings.Contains(warned.String(), `"tent" is not its certificate's, "crew-1"`) {
		t.Errorf("with -name: %q, %v, %s", name, err, warned.String())
	}
}

// A key that everybody on the machine may read signs nothing, and opens no connection.
func TestKeysOfEverybody(t *testing.T) {
	folder := t.TempDir()
	makeCerts(t, folder, "-host", "127.0.0.1")
	key := filepath.Join(t.TempDir(), "crew-1.key")
	if _, err := telemetry.NewKey(key); err != nil {
		t.Fatal(err)
	}
	at := func(name string) string { return filepath.Join(folder, name) }
	config := filepath.Join(t.TempDir(), "ground.yaml")
	os.WriteFile(config, fmt.Appendf(nil, "broker: {url: \"tls://127.0.0.1:1\", ca: %q, cert: %q, key: %q}\n", at("ca.crt"),
		at("crew-1.crt"), at("crew-1.key")), 0o600)
	for _, path := range []string{key, at("crew-1.key"), at("broker.key")} {
		os.Chmod(path, 0o644)
	}
	for _, args := range [][]string{
		{"mission", "stop", "-key", key}, {"mission", "stop", "-config", config},
		{"serve", "-tls-cert", at("broker.crt"), "-tls-key", at("broker.key"), "-listen", ":8480"},
	} {
		if code, _, stderr := runGround(t, args...); code != 2 ||
			!strings.Contains(stderr, "its mode 0644 lets everybody here use it; chmod 600 it") {
			t.Errorf("%v: %d %s", args, code, stderr)
		}
	}
	os.Chmod(key, 0o640) // a group's
	if _, err := telemetry.ReadKey(key); err != nil {
		t.Error(err)
	}
}
