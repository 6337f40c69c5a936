package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"prefdt/configs"
	"prefdt/configs/cli"
	"prefdt/firmware/worker/executor"
	"prefdt/firmware/worker/function"
	"prefdt/telemetry"
	"prefdt/telemetry/access"
)

// Every mistake is one line and a status.
func TestBadInput(t *testing.T) {
	dir := t.TempDir()
	good := "functions: [{id: f, command: [cat], unit_bytes: 1, output_bytes: 1}]\n"
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, c := range []struct {
		name string
		args []string
		code int
		want string
	}{
		{"nothing", nil, 2, "-config"},
		{"unknown key", []string{"-config", file("a", good+"speed: 1\n")}, 2, "speed"},
		{"no function", []string{"-config", file("b", "aircraft: 1\n")}, 2, "functions (how many) is 0"},
		{"a function twice", []string{"-config", file("c", strings.Replace(good, "}]", "}, {id: f, command: [cat], unit_bytes: 1, "+
			"output_bytes: 1}]", 1))}, 2, "function f stands twice"},
		{"aircraft 0", []string{"-config", file("d", good+"aircraft: 0\n")}, 2, "aircraft is 0, want 1 to 64"},
		{"no certificate", []string{"-config", file("e", good)}, 1, "cert"},
		{"calibrate nothing", []string{"calibrate", "-config", file("f", good), "-tasks", "0"}, 2, "-tasks 0"},
		{"calibrate a program that is none", []string{"calibrate", "-config",
			file("g", strings.Replace(good, "cat", "no-such-program", 1))}, 1, "no-such-program"},
	} {
		var stderr bytes.Buffer
		code := program.Run(t.Context(), c.args, io.Discard, &stderr)
		if code != c.code || !strings.Contains(stderr.String(), c.want) || strings.Count(stderr.String(), "\n") != 1 {
			t.Errorf("%s: status %d, %q; want %d and %q", c.name, code, &stderr, c.code, c.want)
		}
	}
}

// What ships is read, and its values are the defaults where there are some.
func TestShippedConfiguration(t *testing.T) {
	c, want := defaults(), defaults()
	if err := configs.Load("../../configs/worker.yaml", &c); err != nil {
		t.Fatal(err)
	}
	if err := c.Check(); err != nil {
		t.Error(err)
	}
	functions := c.Functions
	if c.Functions = nil; len(functions) != 1 || c.Fleet != want.Fleet || c.Listen != want.Listen || c.Cores != want.Cores ||
		c.CoreHz != want.CoreHz ||
		c.MaxTasks != want.MaxTasks || c.OfferBytes != want.OfferBytes || c.Calibration != want.Calibration || !reflect.DeepEqual(c.Broker,
		want.Broker) {
		t.Errorf("%+v, want %+v", c, want)
	}
}

// A user whose certificate was revoked is not let in any more, while the worker runs; a list
// that cannot be read lets nobody in.
func TestRevoked(t *testing.T) {
	folder := t.TempDir()
	all := []access.Certificate{{Name: "worker-1", Role: access.RoleWorker, Hosts: []string{"127.0.0.1"}},
		{Name: "u01", Role: access.RoleUser}, {Name: "u02", Role: access.RoleUser}}
	if _, err := access.Issue(folder, all, access.Validity{Authority: time.Hour, Others: time.Hour}, time.Now()); err != nil {
		t.Fatal(err)
	}
	c := Config{CA: filepath.Join(folder, "ca.crt"), Revoked: filepath.Join(folder, access.RevokedFile)}
	c.Cert, c.Key = access.Files(folder, "worker-1")
	config, err := c.tls()
	if err != nil {
		t.Fatal(err)
	}
	users := map[string]*x509.Certificate{}
	for _, user := range []string{"u01", "u02"} {
		found, err := access.Read(folder, user)
		if err != nil {
			t.Fatal(err)
		}
		users[user] = found.X509
	}
	enter := func(user string) error {
		return config.VerifyConnection(tls.ConnectionState{PeerCertificates: []*x509.Certificate{users[user]}})
	}
	if err := access.Revoke(folder, "u02", time.Now()); err != nil {
		t.Fatal(err)
	}
	if err := enter("u01"); err != nil {
		t.Errorf("u01: %v", err)
	}
	if err := access.Revoke(folder, "u01", time.Now()); err != nil {
		t.Fatal(err)
	}
	for _, user := range []string{"u01", "u02"} {
		if err := enter(user); err == nil || !strings.Contains(err.Error(), user+" is revoked") {
			t.Errorf("%s: %v", user, err)
		}
	}
	os.WriteFile(c.Revoked, []byte("no list"), 0o600)
	if err := config.VerifyConnection(tls.ConnectionState{}); err == nil {
		t.Error("a list that cannot be read is taken as empty")
	}
}

// A worker and a device whose clocks are a year behind their certificates know each other; certificates that have ended are refused.
func TestClockAYearWrong(t *testing.T) {
	for _, behind := range []time.Duration{365 * 24 * time.Hour, -365 * 24 * time.Hour} {
		folder := t.TempDir()
		all := []access.Certificate{{Name: "worker-1", Role: access.RoleWorker, Hosts: []string{"127.0.0.1"}},
			{Name: "u01", Role: access.RoleUser}}
		valid := access.Validity{Authority: time.Hour, Others: time.Hour}
		if _, err := access.Issue(folder, all, valid, time.Now().Add(behind)); err != nil {
			t.Fatal(err)
		}
		c := Config{CA: filepath.Join(folder, "ca.crt")}
		c.Cert, c.Key = access.Files(folder, "worker-1")
		config, err := c.tls()
		if err != nil {
			t.Fatal(err)
		}
		l, err := tls.Listen("tcp", "127.0.0.1:0", config)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		go func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				go func() {
					defer conn.Close()
					if conn.(*tls.Conn).Handshake() == nil {
						conn.Write([]byte("served"))
					}
				}()
			}
		}()
		authorities, err := telemetry.LoadAuthorities("ca", c.CA)
		if err != nil {
			t.Fatal(err)
		}
		pair, err := telemetry.LoadCertificate(access.Files(folder, "u01"))
		if err != nil {
			t.Fatal(err)
		}
		conn, _, err := telemetry.Handshake(t.Context(), func() (net.Conn, error) { return net.Dial("tcp", l.Addr().String()) },
			&tls.Config{RootCAs: authorities, Certificates: []tls.Certificate{*pair}, ServerName: "127.0.0.1"})
		if behind < 0 {
			if err == nil || !strings.Contains(err.Error(), "expired") {
				t.Errorf("certificates that have ended: %v", err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if answer, err := io.ReadAll(conn); err != nil || string(answer) != "served" {
			t.Errorf("%q, %v", answer, err)
		}
	}
}

// The unit isolates: what flies comes first, no devices, no memory without end; and modules
// can be compiled in it.
func TestUnit(t *testing.T) {
	raw, err := os.ReadFile("../../configs/systemd/prefdt-worker.service")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(raw), "\n")
	for _, want := range []string{
		"CPUSchedulingPolicy=idle", "CPUWeight=2", "OOMScoreAdjust=500", "PrivateDevices=yes", "DevicePolicy=closed", "NoNewPrivileges=yes",
		"ProtectSystem=strict", "Delegate=memory pids", "RestrictAddressFamilies=AF_INET AF_INET6", "IPAddressDeny=any",
		"CapabilityBoundingSet=",
	} {
		if !slices.Contains(lines, want) {
			t.Errorf("no line %s", want)
		}
	}
	for _, want := range []string{`(?m)^MemoryMax=`, `(?m)^TasksMax=`} {
		if !regexp.MustCompile(want).Match(raw) {
			t.Errorf("no line %s", want)
		}
	}
	for what, why := range map[string]string{"MemoryDenyWriteExecute": "modules would be interpreted",
		"ProtectControlGroups": "no group could be made"} {
		if regexp.MustCompile(`(?m)^` + what).Match(raw) {
			t.Errorf("%s: %s", what, why)
		}
	}
}

// What functions are held to is said before a worker serves; one that would not be served is an error.
func TestCheck(t *testing.T) {
	folder := t.TempDir()
	all := []access.Certificate{{Name: "worker-1", Role: access.RoleWorker, Hosts: []string{"127.0.0.1"}}}
	if _, err := access.Issue(folder, all, access.Validity{Authority: time.Hour, Others: time.Hour}, time.Now()); err != nil {
		t.Fatal(err)
	}
	certificate, key := access.Files(folder, "worker-1")
	path, calibration := filepath.Join(folder, "worker.yaml"), filepath.Join(folder, "c.json")
	f := function.Config{Command: []string{"cat"}}
	digest, err := f.Digest()
	if err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf("cert: %s\nkey: %s\ncalibration: %s\nfunctions: [{id: f, command: [cat], unit_bytes: 1, output_bytes: 1, "+
		"reads: [%s]}]\n", certificate, key, calibration, folder)
	for _, c := range []struct{ text, digest, want string }{
		{text, digest, "^functions have (no files|this program's rights).*\n" +
			"(groups in|no groups, what a function starts may outlive it).*\n$"},
		{text, strings.Repeat("0", 64), "not calibrated as it is now"},
		{strings.Replace(text, "["+folder, "["+folder+"/none", 1), digest,
			"function f: start executor: allow a function .*/none: no such file"},
	} {
		os.WriteFile(path, []byte(c.text), 0o600)
		os.WriteFile(calibration, []byte(`{"f": {"digest": "`+c.digest+`", "ns_per_byte": 1}}`), 0o600)
		var out bytes.Buffer
		if program.Run(t.Context(), []string{"check", "-config", path}, &out, &out); !regexp.MustCompile(c.want).Match(out.Bytes()) &&
			!(strings.Contains(c.want, "none") && strings.HasPrefix(executor.Fence(), "functions have this program's rights")) {
			t.Errorf("%s, want %s", &out, c.want)
		}
	}
}

// A calibration is what was measured, of the program as it is; the program refuses another.
func TestCalibrate(t *testing.T) {
	executor := filepath.Join(t.TempDir(), "upper.sh")
	// It answers any chunk as if it took 1 ms of CPU time for its 64 bytes.
	script := "#!/bin/sh\nwhile head -c 8 >/dev/null && head -c 64 >/dev/null; do printf " +
		"'\\100\\102\\017\\000\\000\\000\\000\\000\\001\\000\\000\\000x'; done\n"
	if err := os.WriteFile(executor, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Dir(executor)
	path, sampleFile := filepath.Join(dir, "worker.yaml"), filepath.Join(dir, "sample")
	os.WriteFile(sampleFile, make([]byte, 64), 0o600)
	text := "core_hz: 2e9\ncalibration: " + filepath.Join(dir, "state", "c.json") + "\nfunctions: [{id: f, command: [" + executor +
		"], unit_bytes: 64, output_bytes: 1, sample: " + sampleFile + "}]\n"
	away := strings.Replace(text, "functions: [", "functions: [{id: away, http: \"http://127.0.0.1:1/\", unit_bytes: 1, output_bytes: 1, "+
		"cpu_hz: 1e9, concurrency: 1}, ", 1)
	os.WriteFile(path, []byte(text), 0o600)
	var out bytes.Buffer
	if code := program.Run(t.Context(), []string{"calibrate", "-config", path, "-tasks", "3", "-every", "0s"}, &out,
		&out); code != cli.ExitOK {
		t.Skipf("no shell here that reads so few bytes: %s", &out)
	}
	if !strings.Contains(out.String(), "f: 15625.0 ns a byte in the median of 3 tasks, 15625.0 to 15625.0: 3906 cycles a bit, digest ") {
		t.Errorf("%s", &out)
	}
	c := defaults()
	if err := configs.Load(path, &c); err != nil {
		t.Fatal(err)
	}
	// A function that fails is named, and costs the others nothing.
	withAway := filepath.Join(dir, "away.yaml")
	os.WriteFile(withAway, []byte(away), 0o600)
	os.Remove(c.Calibration)
	out.Reset()
	args := []string{"calibrate", "-config", withAway, "-tasks", "3", "-every", "0s"}
	if code := program.Run(t.Context(), args, io.Discard, &out); code != 1 ||
		!strings.Contains(out.String(), "function away: the service at http://127.0.0.1:1/ cannot be reached") {
		t.Errorf("status %d, %s", code, &out)
	}
	all, err := c.readCalibration()
	digest, _ := c.Functions[0].Digest()
	if err != nil || all["f"] != (calibrated{digest, 15625}) {
		t.Errorf("%+v, %v", all, err)
	}
	x, err := newComputers(&c)
	if err != nil {
		t.Fatal(err)
	}
	defer x.close()
	f := &x.functions[0]
	f.Scheduler.SetNSPerByte(f.Function, 15625)
	w := x.heartbeat(3)
	if w.CPUHz != 2e9 || w.Refused != 3 || len(w.Functions) != 1 || w.Functions[0].Digest != digest || w.Functions[0].CyclesPerBit < 3906 ||
		w.Functions[0].CyclesPerBit > 3907 {
		t.Errorf("%+v", w)
	}
}
