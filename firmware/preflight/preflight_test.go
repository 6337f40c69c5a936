package preflight_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bluenviron/gomavlib/v3"
	"github.com/bluenviron/gomavlib/v3/pkg/dialects/common"

	"prefdt/configs/cli"
	"prefdt/firmware/account"
	"prefdt/firmware/energy"
	"prefdt/firmware/fleet"
	"prefdt/firmware/ledger"
	"prefdt/firmware/mission"
	"prefdt/firmware/preflight"
	"prefdt/simbridge/autopilot"
	"prefdt/simbridge/rig"
	"prefdt/simbridge/simnet"
	"prefdt/telemetry"
	"prefdt/telemetry/access"
)

// runCheck runs leader check and returns its findings by item, with the worst
// result of each.
func runCheck(t *testing.T, r *rig.Rig, path, wait string) (code int, results, details map[string]string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	call := cli.NewCall("leader check", []string{"-config", path, "-wait", wait, "-json"}, &stdout, &stderr)
	code = call.Exit(networkOf(r).Command(t.Context(), call))
	var list struct {
		Checks []preflight.Finding
		Failed int
	}
	if err := json.Unmarshal(stdout.Bytes(), &list); err != nil {
		t.Fatalf("%v: %s%s", err, &stdout, &stderr)
	}
	if (code != 0) != (list.Failed > 0) {
		t.Errorf("status %d with %d failed", code, list.Failed)
	}
	results, details = map[string]string{}, map[string]string{}
	for _, f := range list.Checks {
		if old := results[f.Item]; old != preflight.ResultFail && !(old == preflight.ResultWarn && f.Result == preflight.ResultOK) {
			results[f.Item] = f.Result
		}
		details[f.Item] += f.Detail + "\n"
	}
	return code, results, details
}

// networkOf is the rig's network.
func networkOf(r *rig.Rig) (n preflight.Network) {
	if r.Network != nil {
		p := r.Network.Program("check")
		n = preflight.Network{Dial: p.Dial, Endpoint: p.Endpoint}
	}
	return n
}

func TestCheckPasses(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		r := rig.New(t, 2, 100)
		code, results, details := runCheck(t, r, r.WriteConfig("decide_by_ms: 999"), "60s")
		for _, item := range []string{"configuration", "checkpoint", "state", "ledger", "commands", "broker", "other leader", "aircraft 1",
			"aircraft 2"} {
			if results[item] == "" || results[item] == preflight.ResultFail {
				t.Errorf("%s: %q %s", item, results[item], details[item])
			}
		}
		if code != 0 {
			t.Errorf("status %d: %v %v", code, results, details)
		}
		if d := details["aircraft 1"]; !strings.Contains(d, "joules from energy_consumed (energy_consumed, current, voltage, remaining)") ||
			!strings.Contains(d, "MPC_XY_VEL_MAX 30") {
			t.Errorf("aircraft 1: %s", d)
		}
		if _, err := os.Stat(ledger.Path(r.Config.StateDir)); err == nil {
			t.Error("the check made a ledger")
		}
		// As lines, for people.
		var stdout bytes.Buffer
		call := cli.NewCall("leader check", []string{"-config", r.WriteConfig("decide_by_ms: 999")}, &stdout, &stdout)
		if code := call.Exit(networkOf(r).Command(t.Context(), call)); code != 0 || !strings.Contains(stdout.String(), "ok    checkpoint") {
			t.Errorf("status %d: %s", code, &stdout)
		}
	})
}

// Each worker that is configured must be heard; one that is not, or has no key, is named.
func TestCheckOfWorkers(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		r := rig.New(t, 3, 100)
		r.Config.Aircraft[0].Worker, r.Config.Aircraft[1].Worker = "uav1:7300", "uav2:7300"
		ended := make(chan struct{})
		var heartbeats sync.WaitGroup
		heartbeats.Go(func() {
			for {
				select {
				case <-ended:
					return
				case <-time.After(50 * time.Millisecond):
					r.PublishRaw(r.Topics.Worker(1), `{"cpu_hz":3.1e10}`)
					r.PublishRaw(r.Topics.Worker(2), `{}`)
				}
			}
		})
		_, results, details := runCheck(t, r, r.WriteConfig("decide_by_ms: 999"), "6s")
		close(ended)
		heartbeats.Wait()
		for _, want := range []string{"aircraft 1: 3.1e+10 Hz", "aircraft 2: no heartbeat with capacity on prefdt/test/aircraft/2/worker",
			"aircraft 3 has none", "aircraft 1: no grant_key"} {
			if !strings.Contains(details["worker"], want) {
				t.Errorf("no %q in %s", want, details["worker"])
			}
		}
		if results["worker"] != preflight.ResultFail {
			t.Errorf("the worker of aircraft 2 is %s", results["worker"])
		}
	})
}

// Another leader is found while it is idle, and by its proof alone where leaders have a key.
func TestCheckFindsAnotherLeader(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		key := filepath.Join(t.TempDir(), "leader.key")
		if _, err := telemetry.NewKey(key); err != nil {
			t.Fatal(err)
		}
		for name, file := range map[string]string{"without a key": "", "with a key": key} {
			r := rig.New(t, 1, 100)
			r.Config.LeaderKeyFile = file
			r.StartLeader()
			r.Await("it is idle", rig.AnyStatus)
			r.Config.StateDir = t.TempDir()
			_, results, details := runCheck(t, r, r.WriteConfig("leader_key: "+strconv.Quote(file)), "60s")
			if results["other leader"] != preflight.ResultFail ||
				!strings.Contains(details["other leader"], "another leader is flying this fleet") {
				t.Errorf("%s: %q %s", name, results["other leader"], details["other leader"])
			}
		}
	})
}

// Over mutual TLS the broker knows the leader by its certificate, whose name is shown. The broker's own is named with its date when it
// soon ends, has ended, or is ahead of this machine's clock, which keeps nobody out.
func TestCheckOverTLS(t *testing.T) {
	for name, c := range map[string]struct {
		issued       time.Duration // from now
		result, says string
	}{
		"ends soon":       {0, preflight.ResultWarn, "the broker's certificate ends on "},
		"ended":           {-3 * time.Hour, preflight.ResultFail, "the broker's certificate ended on "},
		"clock is behind": {48 * time.Hour, preflight.ResultWarn, "the clock is behind; set it"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			broker, certificate := checkOverTLS(t, time.Now().Add(c.issued))
			if !strings.Contains(certificate, c.result+" ") || !strings.Contains(certificate, c.says) {
				t.Error(certificate)
			}
			if revoked := "the list of revoked ones, "; name == "ends soon" && !strings.Contains(certificate, revoked) {
				t.Error(certificate)
			}
			if connects := strings.Contains(broker, `connected over TLS with the certificate of "leader"`); connects == (c.issued < 0) {
				t.Error(broker)
			}
		})
	}
}

// checkOverTLS returns what is said of the broker, and of certificates that were issued at a time, for an hour.
func checkOverTLS(t *testing.T, issued time.Time) (broker, certificate string) {
	r := rig.NewRealTime(t, 1, 100, 100)
	folder := t.TempDir()
	wanted := []access.Certificate{{Name: access.NameBroker, Role: access.RoleBroker, Hosts: []string{"127.0.0.1"}},
		{Name: access.NameLeader, Role: access.RoleLeader}}
	if _, err := access.Issue(folder, wanted, access.Validity{Authority: time.Hour, Others: time.Hour}, issued); err != nil {
		t.Fatal(err)
	}
	pair, err := telemetry.LoadCertificate(access.Files(folder, access.NameBroker))
	if err != nil {
		t.Fatal(err)
	}
	authority, _ := access.Files(folder, access.NameAuthority)
	clients, err := telemetry.LoadAuthorities("ca", authority)
	if err != nil {
		t.Fatal(err)
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{*pair}, ClientCAs: clients,
		ClientAuth: tls.RequireAndVerifyClientCert})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			outer, err := l.Accept()
			if err != nil {
				return
			}
			inner, err := net.Dial("tcp", strings.TrimPrefix(r.Config.Broker.URL, "tcp://"))
			if err != nil {
				outer.Close()
				continue
			}
			go func() { io.Copy(inner, outer); inner.Close() }()
			go func() { io.Copy(outer, inner); outer.Close() }()
		}
	}()
	cert, key := access.Files(folder, access.NameLeader)
	conf := fmt.Sprintf("broker: {url: \"tls://%s\", ca: %q, cert: %q, key: %q}", l.Addr(), authority, cert, key)
	_, results, details := runCheck(t, r, r.WriteConfig(conf), "3s")
	return details["broker"], results["certificate"] + " " + details["certificate"]
}

// An interruption does not wait for a broker, nor for autopilots.
func TestCheckIsInterrupted(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		r := rig.New(t, 1, 100)
		ctx, cancel := context.WithCancel(t.Context())
		var out bytes.Buffer
		call := cli.NewCall("leader check", []string{"-config", r.WriteConfig("broker: {url: \"tcp://127.0.0.1:1\"}"), "-wait", "10m"},
			&out,
			&out)
		time.AfterFunc(200*time.Millisecond, cancel) // the test's own limit is shorter than 10 minutes
		if code := call.Exit(networkOf(r).Command(ctx, call)); code != 1 || !strings.Contains(out.String(), "leader check: interrupted") {
			t.Errorf("status %d: %s", code, &out)
		}
	})
}

// Each thing that is wrong on the ground is a line of its own.
func TestCheckFails(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		r := rig.New(t, 1, 100)
		readOnly := filepath.Join(t.TempDir(), "file")
		os.WriteFile(readOnly, nil, 0o400)
		damaged := t.TempDir()
		os.WriteFile(ledger.Path(damaged), bytes.Repeat([]byte("x"), 65536), 0o600)
		idle := func(id string, systems ...int) ledger.State {
			s := ledger.State{State: mission.State{Mission: id, Phase: telemetry.StateIdle}}
			s.Account.Objective.Slots, s.Account.Aircraft = r.Config.Slots, make([]account.AircraftAccount, len(systems))
			for i, system := range systems {
				s.Fleet = append(s.Fleet, fleet.SavedAircraft{Number: i + 1, SystemID: system})
			}
			return s
		}
		twoAircraft, later := t.TempDir(), t.TempDir()
		writeLedger(t, twoAircraft, idle("first", 1, 2))
		writeLedger(t, later, idle("first", 1), idle("m-later", 1))
		public := filepath.Join(t.TempDir(), "leader.pub")
		os.WriteFile(public, []byte(strings.Repeat("A", 43)+"=\n"), 0o600)
		taken, err := r.Network.Program("another").Socket("127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer taken.Close()
		for _, c := range []struct {
			name, more, item, result, detail string
		}{
			{"another fleet's mission", "mission: first\nstate_dir: " + twoAircraft, "ledger", preflight.ResultFail,
				"was begun with 2 aircraft, the configuration has 1; " +
					"restore that value, choose another state_dir or, once the mission is over or new, a mission id that was never used"},
			{"the next mission", "mission: first\nstate_dir: " + later, "ledger", preflight.ResultOK,
				"mission m-later begins, since first was used before"},
			{"configuration", "slot_ms: 3", "configuration", preflight.ResultFail, "slot_ms is 3"},
			{"checkpoint", "checkpoint: /nowhere", "checkpoint", preflight.ResultFail, "/nowhere"},
			{"state directory", "state_dir: " + readOnly + "/x", "state", preflight.ResultFail, readOnly},
			{"damaged ledger", "state_dir: " + damaged, "ledger", preflight.ResultFail, "damaged"},
			{"broker away", "broker: {url: \"tcp://127.0.0.1:1\"}", "broker", preflight.ResultFail, "tcp://127.0.0.1:1 unreachable"},
			{"no command accepted", "commands: {unsigned: \"no\"}", "commands", preflight.ResultFail, "no command is accepted"},
			{"a public key for the leader's, no broker", "leader_key: " + public + "\nbroker: {url: \"tcp://127.0.0.1:1\"}", "leader key",
				preflight.ResultFail, "it is the public key"},
			{"every command accepted", "commands: {unsigned: \"yes\"}", "commands", preflight.ResultWarn, "anyone"},
			{"autopilot away", "aircraft: [{system_id: 9, endpoint: \"udp-listen:" + r.FreeAddress() + "\"}]", "aircraft 1",
				preflight.ResultFail, "has to send to UDP port"},
			{"link's port in use", "aircraft: [{system_id: 9, endpoint: \"udp-listen:" + taken.LocalAddr().String() + "\"}]", "aircraft 1",
				preflight.ResultFail, "address already in use; a leader, a ground station or a MAVLink router may have it, `ss -ulpn`"},
			{"nobody received", "aircraft: [{system_id: 9, endpoint: \"udp-listen:" + r.FreeAddress() + "\"}, {system_id: 8, endpoint: " +
				"\"udp-listen:" + r.FreeAddress() + "\"}]", "separation", preflight.ResultOK,
				"starts are at least 10 m apart; of 2 aircraft 0 have a position\n"},
			{"the checkpoint's world", "slots: 100", "checkpoint", preflight.ResultOK,
				"; it is for a square of 1000 m, 100 m up, up to 30 m/s, and 168 W in hover\n"},
			{"disk full", "ledger_mb: 2048\nslot_ms: 1000", "state", preflight.ResultOK, "MB free"},
		} {
			_, results, details := runCheck(t, r, r.WriteConfig(c.more), "300ms")
			if results[c.item] != c.result || !strings.Contains(details[c.item], c.detail) {
				t.Errorf("%s: %s %q: %s", c.name, c.item, results[c.item], details[c.item])
			}
		}
	})
}

// A serial device that is not there is named, and not waited for.
func TestCheckOfAMissingDevice(t *testing.T) {
	t.Parallel()
	r := rig.NewRealTime(t, 1, 100, 100)
	_, results, details := runCheck(t, r, r.WriteConfig("aircraft: [{system_id: 9, endpoint: \"serial:/dev/ttyNONE0:921600\"}]"), "10m")
	if d := details["aircraft 1"]; results["aircraft 1"] != preflight.ResultFail || d != "/dev/ttyNONE0: no such file or directory\n" {
		t.Errorf("%q: %s", results["aircraft 1"], d)
	}
}

// An autopilot whose pre-arm checks fail is found by its health bit, which PX4 sets alone.
func TestCheckFindsFailingPreArmChecks(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		r := rig.New(t, 2, 100)
		r.Autopilots[1].DenyArming("Compass 0 missing")
		_, results, details := runCheck(t, r, r.WriteConfig("decide_by_ms: 999"), "15s")
		if results["aircraft 1"] != preflight.ResultOK || !strings.Contains(details["aircraft 1"], "pre-arm good") {
			t.Errorf("aircraft 1: %q: %s", results["aircraft 1"], details["aircraft 1"])
		}
		const want = "taken to be nowhere higher than where aircraft 1 stands, 0 m over the origin, and 100 m below the flight"
		if !strings.Contains(details["ground"], want) {
			t.Errorf("ground: %s", details["ground"])
		}
		if results["aircraft 2"] != preflight.ResultFail || !strings.Contains(details["aircraft 2"], "its pre-arm checks fail") {
			t.Errorf("aircraft 2: %q: %s", results["aircraft 2"], details["aircraft 2"])
		}
	})
}

// An autopilot that is not flown is named, whatever else it sends.
func TestCheckNamesAnotherAutopilot(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		r := rig.New(t, 1, 100)
		address := r.FreeAddress()
		n := &gomavlib.Node{
			Endpoints: []gomavlib.EndpointConf{r.Endpoint("another", "udp:"+address)}, Dialect: common.Dialect, OutVersion: gomavlib.V2,
			OutSystemID:            9,
			HeartbeatAutopilotType: int(common.MAV_AUTOPILOT_GENERIC), HeartbeatSystemType: int(common.MAV_TYPE_QUADROTOR),
			HeartbeatPeriod: 50 * time.Millisecond,
		}
		if err := n.Initialize(); err != nil {
			t.Fatal(err)
		}
		defer n.Close()
		go func() {
			for range n.Events() {
			}
		}()
		// the client tries again every 2 s
		_, results, details := runCheck(t, r, r.WriteConfig("aircraft: [{system_id: 9, endpoint: \"udp-listen:"+address+"\"}]"), "5s")
		if results["aircraft 1"] != preflight.ResultFail ||
			!strings.Contains(details["aircraft 1"], "is GENERIC (0), and only copters of PX4 (12) and ArduCopter (3) are flown") {
			t.Errorf("%q: %s", results["aircraft 1"], details["aircraft 1"])
		}
	})
}

func TestCheckFindsUnsafeAutopilots(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		r := rig.New(t, 3, 100)
		for i, p := range []map[string]float64{{"COM_OBL_RC_ACT": 0, "COM_OF_LOSS_T": 60}, {"COM_OF_LOSS_T": 60}, {"NAV_DLL_ACT": 2}} {
			r.ReplaceParameters(i, p)
		}
		_, results, details := runCheck(t, r, r.WriteConfig("decide_by_ms: 999"), "60s")
		for item, want := range map[string][]string{
			"aircraft 1": {"COM_OBL_RC_ACT is 0, want 5 (Hold), 3 (Return) or 4 (Land)\n", "COM_OF_LOSS_T is 60 s, want 0.3 to 10\n",
				"all parameters that it needs are in docs/hardware.md\n"},
			"aircraft 2": {"COM_OF_LOSS_T is 60"},
		} {
			for _, text := range want {
				if results[item] != preflight.ResultFail || !strings.Contains(details[item], text) {
					t.Errorf("%s: %q, want %q: %s", item, results[item], text, details[item])
				}
			}
		}
		if results["aircraft 3"] != preflight.ResultWarn || !strings.Contains(details["aircraft 3"], "NAV_DLL_ACT is 2") {
			t.Errorf("aircraft 3: %q: %s", results["aircraft 3"], details["aircraft 3"])
		}
	})
}

// An ArduCopter beside a PX4 is checked by its own parameters, and what is unsafe is named by its own names.
func TestCheckOfArduCopters(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		r := rig.New(t, 4, 100)
		for i, p := range map[int]map[string]float64{1: {}, 2: {"FS_GCS_ENABLE": 0}, 3: {"WPNAV_ACCEL": 250}} {
			r.ReplaceAutopilot(i, func(c *autopilot.Config) { c.Copter, c.Parameters = true, p })
		}
		_, results, details := runCheck(t, r, r.WriteConfig("decide_by_ms: 999"), "60s")
		for item, want := range map[string][2]string{
			"aircraft 1": {preflight.ResultOK, "px4: COM_OF_LOSS_T"},
			"aircraft 2": {preflight.ResultOK, "ardupilot: GUID_TIMEOUT 1 s, FS_GCS_ENABLE 1, speed limit 10 m/s"},
			"aircraft 3": {preflight.ResultFail, "FS_GCS_ENABLE is 0, want 1, 3, 4, 5 or 7"},
			"aircraft 4": {preflight.ResultWarn, "WPNAV_ACCEL (WP_ACC) is 2.5 m/s/s"},
		} {
			if results[item] != want[0] || !strings.Contains(details[item], want[1]) {
				t.Errorf("%s: %q, want %q with %q: %s", item, results[item], want[0], want[1], details[item])
			}
		}
	})
}

// The links are tried with the signing key, and not at all with one that is
// unusable.
func TestCheckOfTheSigningKey(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		r := rig.New(t, 1, 100)
		file := func(text string, mode os.FileMode) string {
			path := filepath.Join(t.TempDir(), "mavlink.key")
			os.WriteFile(path, []byte(text), 0o600)
			os.Chmod(path, mode)
			return path
		}
		good := strings.Repeat("a5", 32)
		for _, c := range []struct {
			name, line, result, detail, aircraft string
		}{
			{"none", "slots: 100", "", "", preflight.ResultOK},
			{"none, and real aircraft", "mavlink: {real: true}\nslot_ms: 1000", preflight.ResultWarn,
				"anyone who reaches a link can command its autopilot; where an autopilot cannot sign (docs/integrator.md), " +
					"use a wire", "any"},
			{"unusable", "mavlink: {key_file: " + file("abcd\n", 0o600) + "}", preflight.ResultFail, "64 hexadecimal digits", ""},
			{"missing", "mavlink: {key_file: /nowhere/key}", preflight.ResultFail, "/nowhere/key", ""},
			{"for all to read", "mavlink: {key_file: " + file(good, 0o604) + "}", preflight.ResultWarn, "chmod 640", preflight.ResultFail},
			// This autopilot does not sign: its frames are refused.
			{"good", "mavlink: {key_file: " + file(good, 0o640) + "}", preflight.ResultOK, "signed", preflight.ResultFail},
		} {
			wait := "500ms" // for what does not come
			if c.aircraft == preflight.ResultOK {
				wait = "60s"
			}
			_, results, details := runCheck(t, r, r.WriteConfig(c.line), wait)
			if results["signing"] != c.result || !strings.Contains(details["signing"], c.detail) {
				t.Errorf("%s: %q %s", c.name, results["signing"], details["signing"])
			}
			if results["aircraft 1"] != c.aircraft && c.aircraft != "any" {
				t.Errorf("%s: the aircraft: %q %s", c.name, results["aircraft 1"], details["aircraft 1"])
			}
			if c.name == "good" && !strings.Contains(details["aircraft 1"], "not signed: its link has frames without a signature") {
				t.Errorf("%s: the aircraft: %s", c.name, details["aircraft 1"])
			}
		}
	})
}

// writeLedger writes a ledger with these states, one after the other.
func writeLedger(t *testing.T, folder string, states ...ledger.State) {
	t.Helper()
	l, err := ledger.Open(folder)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, s := range states {
		if err := l.WriteCommands(s, nil); err != nil {
			t.Fatal(err)
		}
	}
}

// The check before a flight takes a pack for what its autopilot or the configuration says,
// less what the ledger has drawn from it, and needs as much as `start` does.
func TestCheckOfPacks(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		r := rig.New(t, 3, 100)
		r.ReplaceAutopilot(0, func(c *autopilot.Config) { c.CapacityJ = 20e3 })
		r.ReplaceParameters(2, map[string]float64{"BAT1_CAPACITY": 0})
		path := r.WriteConfig("decide_by_ms: 999")
		code, results, details := runCheck(t, r, path, "60s")
		if code == 0 || results["aircraft 1"] != preflight.ResultFail ||
			!strings.Contains(details["aircraft 1"], "J left of its pack's 20000, less than") {
			t.Errorf("a full pack of 20 kJ: %s", details["aircraft 1"])
		}
		if results["aircraft 2"] == preflight.ResultFail || !strings.Contains(details["aircraft 2"], "battery at 100 % of 150000 J") {
			t.Errorf("one of 150 kJ: %s", details["aircraft 2"])
		}
		if results["aircraft 3"] != preflight.ResultWarn || !strings.Contains(details["aircraft 3"], "150000 J are assumed; set pack_j") {
			t.Errorf("an unknown one: %s", details["aircraft 3"])
		}
		saved := ledger.State{State: mission.State{Mission: "m0", Phase: telemetry.StateDone},
			Fleet: []fleet.SavedAircraft{{Number: 2, SystemID: 2, Pack: fleet.Pack{FittedJ: 1e3}, Meter: energy.State{SpentJ: 131e3}}}}
		writeLedger(t, r.Config.StateDir, saved)
		if _, _, details := runCheck(t, r, path, "60s"); !strings.Contains(details["aircraft 2"],
			"has 20000 J left of its pack's 150000, less than") {
			t.Errorf("130 kJ were drawn from it: %s", details["aircraft 2"])
		}
	})
}
