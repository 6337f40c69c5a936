package main

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"prefdt/firmware/rig"
)

func TestImports(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "prefdt/firmware").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, dep := range strings.Fields(string(out)) {
		if strings.HasPrefix(dep, "prefdt/offline") || strings.HasPrefix(dep, "prefdt/simbridge") {
			t.Errorf("the leader imports %s", dep)
		}
	}
}

// Every mistake of a user is one line on standard error and an exit status that is not
// zero.
func TestBadInput(t *testing.T) {
	dir := t.TempDir()
	taken, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	good := `
state_dir: ` + dir + `/state
checkpoint: ../configs/checkpoint
aircraft: [{system_id: 1, endpoint: "udp-listen:` + taken.LocalAddr().String() + `"}]
`
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	broken := filepath.Join(dir, "broken", "ledger.db")
	os.MkdirAll(filepath.Dir(broken), 0o700)
	os.WriteFile(broken, bytes.Repeat([]byte("x"), 65536), 0o600)
	for _, c := range []struct {
		name string
		args []string
		code int
		want string
	}{
		{"no flags", nil, 2, "-config"},
		{"stray argument", []string{"-config", "x", "fly"}, 2, "-config"},
		{"missing file", []string{"-config", dir + "/none.yaml"}, 1, "none.yaml"},
		{"unknown key", []string{"-config", file("a.yaml", good+"slot_length: 3\n")}, 1, "slot_length"},
		{"out of range", []string{"-config", file("b.yaml", good+"slot_ms: 5\n")}, 1, "slot_ms is 5, want 10 to 60000"},
		{"no aircraft", []string{"-config", file("c.yaml", "slots: 3\n")}, 1, "aircraft"},
		{"bad endpoint", []string{"-config", file("d.yaml", `aircraft: [{system_id: 1, endpoint: "tcp:1.2.3.4:5"}]`)}, 1, "udp-listen:host:port"},
		{"same aircraft twice", []string{"-config", file("e.yaml", `aircraft: [{system_id: 1, endpoint: "udp:a:5"}, {system_id: 1, endpoint: "udp:a:5"}]`)}, 1, "both system 1"},
		{"real and fast", []string{"-config", file("f.yaml", good+"slot_ms: 500\nmavlink: {real: true}\n")}, 1, "real"},
		{"no checkpoint", []string{"-config", file("g.yaml", strings.Replace(good, "../configs/checkpoint", dir+"/nothing", 1))}, 1, "nothing"},
		{"bad key", []string{"-config", file("h.yaml", good+"commands: {keys: {me: abc}}\n")}, 1, "commands.keys.me"},
		{"bad broker", []string{"-config", file("i.yaml", good+"broker: {url: 'http://x'}\n")}, 1, "http://x"},
		{"damaged ledger", []string{"-config", file("j.yaml", strings.Replace(good, dir+"/state", dir+"/broken", 1))}, 1, "damaged"},
		{"help", []string{"-h"}, 0, "Exit status"},
	} {
		var stderr bytes.Buffer
		code := run(c.args, &stderr)
		text := strings.TrimSpace(stderr.String())
		if code != c.code || !strings.Contains(text, c.want) {
			t.Errorf("%s: status %d, %q; want %d and %q", c.name, code, text, c.code, c.want)
		}
		if code == 1 && strings.Contains(text, "\n") {
			t.Errorf("%s: more than a line: %q", c.name, text)
		}
	}
}

func TestPortInUse(t *testing.T) {
	r := rig.New(t, 1, 10)
	taken, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	r.Config.Aircraft[0].Endpoint = "udp-listen:" + taken.LocalAddr().String()
	f := r.StartLeader()
	if err := <-f.Done; err == nil || !strings.Contains(err.Error(), "aircraft 1") || !strings.Contains(err.Error(), "in use") {
		t.Errorf("a port in use: %v", err)
	}
}
