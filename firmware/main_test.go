package main

import (
	"bytes"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"prefdt/simbridge/rig"
	"prefdt/telemetry"
)

func TestImports(t *testing.T) {
	for packages, others := range map[string][]string{
		"prefdt/firmware": {"prefdt/offline", "prefdt/simbridge", "prefdt/firmware/worker/", "prefdt/firmware/user/",
			"github.com/tetratelabs/wazero"},
		"prefdt/firmware/worker": {"prefdt/offline", "prefdt/simbridge", "prefdt/firmware/leader", "github.com/tetratelabs/wazero"},
		"prefdt/firmware/user":   {"prefdt/offline", "prefdt/simbridge", "prefdt/firmware/leader", "github.com/tetratelabs/wazero"},
		"prefdt/telemetry/...":   {"prefdt/firmware", "prefdt/inference", "prefdt/offline", "prefdt/simbridge"},
		"prefdt/inference/...":   {"prefdt/firmware", "prefdt/telemetry", "prefdt/offline", "prefdt/simbridge"},
		// It reads a flight's files: neither the simulator that flew it nor the leader is needed for that. A worker's tasks it measures.
		"prefdt/offline": {"prefdt/firmware/leader", "prefdt/firmware/fleet", "prefdt/firmware/account", "prefdt/simbridge/fly",
			"prefdt/simbridge/users", "github.com/bluenviron/gomavlib",
			"github.com/mochi-mqtt"},
	} {
		out, err := exec.Command("go", "list", "-deps", packages).Output()
		if err != nil {
			t.Fatal(err)
		}
		for _, dep := range strings.Fields(string(out)) {
			if slices.ContainsFunc(others, func(other string) bool { return strings.HasPrefix(dep, other) }) {
				t.Errorf("%s imports %s", packages, dep)
			}
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
		{"stray argument", []string{"-config", "x", "fly"}, 2, `unexpected "fly"`},
		{"unknown word", []string{"fly"}, 2, `no command "fly"; want one of check, log`},
		{"no such flag", []string{"-configuration", "x"}, 2, "-configuration"},
		{"a fraction of a slot", []string{"-config", file("k.yaml", good+"slots: 100.5\n")}, 2, `slots is "100.5", want an integer`},
		{"log without an action", []string{"log", "-file", "x"}, 2, "want check, commands, export or recover"},
		{"log of a bad configuration", []string{"log", "check", "-config", file("l.yaml", "slot_ms: 5\n")}, 2, "slot_ms is 5"},
		{"recover without a folder", []string{"log", "recover", "-file", "x"}, 2, "-out FOLDER"},
		// Its mount may not be there yet: systemd tries again.
		{"missing file", []string{"-config", dir + "/none.yaml"}, 1, "none.yaml"},
		{"unknown key", []string{"-config", file("a.yaml", good+"slot_length: 3\n")}, 2, "slot_length"},
		{"out of range", []string{"-config", file("b.yaml", good+"slot_ms: 5\n")}, 2, "slot_ms is 5, want 10 to 60000"},
		{"no aircraft", []string{"-config", file("c.yaml", "slots: 3\n")}, 2, "aircraft"},
		{"bad endpoint", []string{"-config", file("d.yaml", `aircraft: [{system_id: 1, endpoint: "tcp:1.2.3.4:5"}]`)}, 2,
			"udp-listen:host:port"},
		{"same aircraft twice", []string{"-config", file("e.yaml", `aircraft: [{system_id: 1, endpoint: "udp:a:5"}, {system_id: 1,`+
			` endpoint: "udp:a:5"}]`)}, 2, "both system 1"},
		{"real and fast", []string{"-config", file("f.yaml", good+"slot_ms: 500\nmavlink: {real: true}\n")}, 2, "real"},
		{"no checkpoint", []string{"-config", file("g.yaml", strings.Replace(good, "../configs/checkpoint", dir+"/nothing", 1))}, 1,
			"nothing"},
		{"bad key", []string{"-config", file("h.yaml", good+"commands: {keys: {me: abc}}\n")}, 2, "commands.keys.me"},
		{"bad broker", []string{"-config", file("i.yaml", good+"broker: {url: 'http://x'}\n")}, 2, "http://x"},
		{"damaged ledger", []string{"-config", file("j.yaml", strings.Replace(good, dir+"/state", dir+"/broken", 1))}, 1, "damaged"},
		{"help", []string{"-h"}, 0, ""},
	} {
		var stderr bytes.Buffer
		code := commands.Run(t.Context(), c.args, io.Discard, &stderr)
		text := strings.TrimSpace(stderr.String())
		if code != c.code || !strings.Contains(text, c.want) {
			t.Errorf("%s: status %d, %q; want %d and %q", c.name, code, text, c.code, c.want)
		}
		if strings.Contains(text, "\n") {
			t.Errorf("%s: more than a line: %q", c.name, text)
		}
	}
}

func TestHelp(t *testing.T) {
	for args, want := range map[string]string{"-h": "Exit status", "help": "-config file", "check -h": "-wait long",
		"log -h": "leader log -config FILE|-file LEDGER recover -out FOLDER", "-version": "leader "} {
		var stdout, stderr bytes.Buffer
		if code := commands.Run(t.Context(), strings.Fields(args), &stdout, &stderr); code != 0 || stderr.Len() > 0 ||
			!strings.Contains(stdout.String(), want) {
			t.Errorf("%s: status %d, %q, %q", args, code, &stdout, &stderr)
		}
	}
}

// One that finds another leader ends with a status of its own: a supervisor must not restart it.
func TestSecondLeaderEndsWithStatusThree(t *testing.T) {
	r := rig.NewRealTime(t, 1, 10, 20_000) // it listens for a minute, and beacons come all the time
	beacon, err := telemetry.Encode(telemetry.Slot{Slot: 5, SlotMS: 1000, Speed: 1, ReportByMS: 350, DecideByMS: 600,
		Offer: telemetry.Offer{Aircraft: []telemetry.OfferAircraft{}}})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	var beacons sync.WaitGroup
	beacons.Go(func() {
		for {
			select {
			case <-ended:
				return
			case <-time.After(100 * time.Millisecond):
				r.PublishRaw(r.Topics.Slot(), string(beacon))
			}
		}
	})
	var stderr bytes.Buffer
	code := commands.Run(t.Context(), []string{"-config", r.WriteConfig("log: error")}, io.Discard, &stderr)
	close(ended)
	beacons.Wait()
	if code != 3 || !strings.Contains(stderr.String(), "another leader is flying this fleet") {
		t.Errorf("status %d: %s", code, &stderr)
	}
}
