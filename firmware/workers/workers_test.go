package workers

import (
	"encoding/base64"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"prefdt/telemetry"
	"prefdt/telemetry/task"
)

const digest = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"

func two(t *testing.T) (*Workers, *task.Key) {
	path := filepath.Join(t.TempDir(), "worker-1.grant")
	if err := task.WriteKey(path); err != nil {
		t.Fatal(err)
	}
	w := &Workers{Fleet: "demo", MaxCPUHz: 40e9, Workers: []Worker{{Address: "uav1:7300", GrantKey: path}, {}}}
	if err := w.Initialize(); err != nil {
		t.Fatal(err)
	}
	key, err := task.ReadKey(path)
	if err != nil {
		t.Fatal(err)
	}
	return w, key
}

// Without a worker every aircraft has the checkpoint's CPU; with one in the fleet, those have
// theirs that were received in the last 3 s.
func TestCPUIsThatOfWorkersThatAreHeard(t *testing.T) {
	none := &Workers{MaxCPUHz: 40e9, Workers: make([]Worker, 2)}
	if err := none.Initialize(); err != nil || none.Configured() || none.CPUHz(2, time.Hour) != 40e9 || !none.Named(2) ||
		!none.Computes(2, "", "") || none.Status(1, 0) != nil {
		t.Errorf("no workers: %+v, %v", none, err)
	}
	if none.Grant("m", "u", "f", 1, 1, 1e6, 1e9, 0) != "" {
		t.Error("a grant without workers")
	}
	w, _ := two(t)
	functions := []telemetry.WorkerFunction{{ID: "blobs", Digest: digest, CyclesPerBit: 400}}
	for _, c := range []struct {
		name      string
		heartbeat *telemetry.Worker
		after     time.Duration
		hz        float64
		state     string
	}{
		{"nothing was received", nil, 0, 0, telemetry.WorkerSilent},
		{"received", &telemetry.Worker{CPUHz: 31e9, Functions: functions}, Silent, 31e9, telemetry.WorkerOK},
		{"received too long ago", &telemetry.Worker{CPUHz: 31e9, Functions: functions}, Silent + 1, 0, telemetry.WorkerSilent},
		{"its will", &telemetry.Worker{}, 0, 0, telemetry.WorkerSilent},
		{"claims too much", &telemetry.Worker{CPUHz: 1e15}, 0, 40e9, telemetry.WorkerOK},
	} {
		if c.heartbeat != nil {
			w.Receive(1, c.heartbeat, time.Minute)
		}
		if hz, s := w.CPUHz(1, time.Minute+c.after), w.Status(1, time.Minute+c.after); hz != c.hz || s.State != c.state ||
			(s.CPUHz != nil) != (hz > 0) {
			t.Errorf("%s: %v Hz, %+v", c.name, hz, s)
		}
	}
	w.Receive(2, &telemetry.Worker{CPUHz: 1e9}, time.Minute) // of an aircraft that is configured without one
	w.Receive(3, &telemetry.Worker{CPUHz: 1e9}, time.Minute) // of none
	if w.CPUHz(2, time.Minute) != 0 || w.Status(2, 0).State != telemetry.WorkerNone {
		t.Error("a worker that is not configured counts")
	}
}

// What a function takes is what workers measured that have it, in the version that a user named, and were received lately.
func TestCostsAreTheWorkers(t *testing.T) {
	w := &Workers{MaxCPUHz: 40e9, Workers: []Worker{{Address: "uav1:7300"}, {Address: "uav2:7300"}}}
	if err := w.Initialize(); err != nil {
		t.Fatal(err)
	}
	another := strings.Repeat("ab", 32)
	has := func(cost float64, digest string, more ...telemetry.WorkerCost) *telemetry.Worker {
		return &telemetry.Worker{CPUHz: 20e9, Costs: more,
			Functions: []telemetry.WorkerFunction{{ID: "blobs", Digest: digest, CyclesPerBit: cost}}}
	}
	w.Receive(1, has(400, digest), 0)
	w.Receive(2, has(70, another, telemetry.WorkerCost{Function: "blobs", Digest: another, CyclesPerBit: 500},
		telemetry.WorkerCost{Function: "blobs", Digest: digest, CyclesPerBit: 900}), time.Second)
	for _, c := range []struct {
		function, digest string
		now              time.Duration
		cost             float64
		refusal          string
	}{
		{"blobs", "", time.Second, 500, ""},
		{"blobs", digest, time.Second, 400, ""},
		{"blobs", another, time.Second, 500, ""},
		{"blobs", digest, Silent + time.Second, 0, telemetry.RefusedDigest},
		{"blobs", strings.Repeat("cd", 32), time.Second, 0, telemetry.RefusedDigest},
		{"other", "", time.Second, 0, telemetry.RefusedFunction},
		{"blobs", "", time.Minute, 0, telemetry.RefusedFunction},
		{"", "", time.Second, 0, ""},
	} {
		if cost, refusal := w.CyclesPerBit(c.function, c.digest, c.now), w.Refusal(c.function, c.digest, c.now); cost != c.cost ||
			refusal != c.refusal {
			t.Errorf("%s %.4s at %v: %v cycles a bit, refused for %q", c.function, c.digest, c.now, cost, refusal)
		}
	}
}

// A grant says what was decided, to the aircraft's key alone.
func TestGrant(t *testing.T) {
	w, key := two(t)
	w.Receive(1, &telemetry.Worker{CPUHz: 20e9, Functions: []telemetry.WorkerFunction{{ID: "blobs", Digest: digest, CyclesPerBit: 400}}}, 0)
	if !w.Computes(1, "blobs", "") || w.Computes(1, "other", "") || w.Computes(2, "blobs", "") {
		t.Error("which functions there are")
	}
	if before, at, after := w.Named(1), w.Name(1), w.Named(1); before || at != "uav1:7300" || !after || w.Named(2) {
		t.Errorf("named before its beacon %v, as %q, after it %v", before, at, after)
	}
	sealed, err := base64.StdEncoding.DecodeString(w.Grant("mission-1", "u01", "blobs", 1, 17, 1e6+1, 5e9, time.Second))
	if err != nil {
		t.Fatal(err)
	}
	got, err := task.Open(sealed, key)
	function, _ := task.FunctionHash(digest)
	want := task.Grant{Mission: task.MissionHash("demo", "mission-1"), User: task.UserHash("u01"), Function: function, Slot: 17,
		Bytes: 125001, Aircraft: 1, Share: 16384}
	if err != nil || got != want {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
	for name, text := range map[string]string{
		"without a key":     w.Grant("mission-1", "u01", "blobs", 2, 17, 1e6, 5e9, 0),
		"when it is silent": w.Grant("mission-1", "u01", "blobs", 1, 17, 1e6, 5e9, time.Minute),
		"of too much":       w.Grant("mission-1", "u01", "blobs", 1, 17, 1e12, 5e9, 0),
	} {
		if text != "" {
			t.Errorf("a grant %s", name)
		}
	}
	bad := &Workers{Workers: []Worker{{Address: "uav1:7300", GrantKey: "none"}}}
	if err := bad.Initialize(); err == nil || !strings.Contains(err.Error(), "aircraft 1") {
		t.Errorf("a key that is not there: %v", err)
	}
}
