package leader_test

import (
	"encoding/base64"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"prefdt/simbridge/rig"
	"prefdt/simbridge/simnet"
	"prefdt/telemetry"
	"prefdt/telemetry/task"
)

// reporter is a user of each function, which reports a large task in every slot, and what
// was decided and offered.
type reporter struct {
	mutex     sync.Mutex
	beacon    telemetry.Slot
	decisions map[string]telemetry.Decision // the last of each user
}

func newReporter(t *testing.T, r *rig.Rig, tasks map[string]telemetry.Task) *reporter {
	x := &reporter{decisions: map[string]telemetry.Decision{}}
	c := &telemetry.Client{Broker: r.BrokerOf("users"), Name: "users", Subscriptions: []telemetry.Subscription{{Filter: r.Topics.Slot()},
		{Filter: r.Topics.AllDecisions(), QoS: 1}}}
	c.Handle = func(m telemetry.Message) {
		kind, user, _ := r.Topics.Parse(m.Topic)
		x.mutex.Lock()
		defer x.mutex.Unlock()
		switch kind {
		case telemetry.KindSlot:
			x.beacon, _ = telemetry.DecodeSlot(m.Payload)
			for user, task := range tasks {
				task.Bits, task.CyclesPerBit, task.DeadlineS = 1e6, 1000, 1
				publish(c, r.Topics.Report(user), telemetry.Report{
					Slot: x.beacon.Slot, PositionM: [2]float64{500, 500}, CPUHz: 1e9,
					Task: &task,
				})
			}
		case telemetry.KindDecision:
			x.decisions[user], _ = telemetry.DecodeDecision(m.Payload)
		}
	}
	if err := c.Initialize(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return x
}

func (x *reporter) offered() (all []telemetry.OfferAircraft) {
	x.mutex.Lock()
	defer x.mutex.Unlock()
	return x.beacon.Offer.Aircraft
}

func (x *reporter) decision(user string) telemetry.Decision {
	x.mutex.Lock()
	defer x.mutex.Unlock()
	return x.decisions[user]
}

// Users are sent to the aircraft whose worker is received and has their function, with a grant
// for it. Once it is silent they compute locally, and its aircraft flies on.
func TestUsersGoWhereAWorkerIsReceived(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		r := rig.New(t, 2, 4000)
		r.SetUsers(0, 0)
		keyFile := filepath.Join(t.TempDir(), "worker-2.grant")
		if err := task.WriteKey(keyFile); err != nil {
			t.Fatal(err)
		}
		r.Config.Aircraft[1].Worker, r.Config.Aircraft[1].GrantKey = "uav2.example:7300", keyFile
		users := newReporter(t, r, map[string]telemetry.Task{"with": {Function: "blobs"}, "other": {Function: "network"}, "without": {},
			"old": {Function: "blobs", Digest: strings.Repeat("ab", 32)}})
		worker, digest := r.Client("worker"), "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
		received := telemetry.Worker{CPUHz: 31e9, Functions: []telemetry.WorkerFunction{{ID: "blobs", Digest: digest, CyclesPerBit: 400}}}
		r.FlyToSlot(3)
		if s := r.LastStatus(); len(users.offered()) != 0 || s.Aircraft[0].Worker.State != telemetry.WorkerNone ||
			s.Aircraft[1].Worker.State != telemetry.WorkerSilent {
			t.Errorf("before a heartbeat %+v is offered, %+v, %+v", users.offered(), s.Aircraft[0].Worker, s.Aircraft[1].Worker)
		}
		if d := users.decision("with"); d.Aircraft != 0 {
			t.Errorf("before a heartbeat %+v is decided", d)
		}
		granted := r.Eventually(func() bool {
			publish(worker, r.Topics.Worker(2), received)
			time.Sleep(time.Second / 2)
			return users.decision("with").Grant != ""
		})
		if !granted {
			t.Fatalf("no grant: %+v", users.decision("with"))
		}
		d := users.decision("with")
		key, err := task.ReadKey(keyFile)
		if err != nil {
			t.Fatal(err)
		}
		sealed, _ := base64.StdEncoding.DecodeString(d.Grant)
		g, err := task.Open(sealed, key)
		if err != nil || d.Aircraft != 2 || g.Mission != task.MissionHash("test", r.Config.Mission) || g.User != task.UserHash("with") ||
			int(g.Slot) != d.Slot || g.Aircraft != 2 ||
			float64(g.Bytes) < d.Offload*1e6/8 || float64(g.Bytes) > d.Offload*1e6/8+1 || g.Share == 0 {
			t.Errorf("%+v is granted for %+v, %v", g, d, err)
		}
		for user, refused := range map[string]string{"other": telemetry.RefusedFunction, "without": "", "old": telemetry.RefusedDigest} {
			if d := users.decision(user); d.Aircraft != 0 || d.Grant != "" || d.Refused != refused {
				t.Errorf("%s: %+v", user, d)
			}
		}
		r.Eventually(func() bool { // a beacon sent since
			publish(worker, r.Topics.Worker(2), received)
			time.Sleep(time.Second / 2)
			return len(users.offered()) > 0
		})
		offer := users.offered()
		if len(offer) != 1 || offer[0].Number != 2 || offer[0].Worker != "uav2.example:7300" || offer[0].CPUHz != 31e9 {
			t.Errorf("%+v is offered", offer)
		}
		s := r.Await("its state", func(s telemetry.Status) bool { return s.Aircraft[1].Worker.State == telemetry.WorkerOK })
		if s.Mission != r.Config.Mission || *s.Aircraft[1].Worker.CPUHz != 31e9 {
			t.Errorf("%+v", s)
		}
		s = r.Await("its silence", func(s telemetry.Status) bool { return s.Aircraft[1].Worker.State == telemetry.WorkerSilent })
		s = r.Await("later slots", rig.SlotSettled(s.Slot+3))
		if d := users.decision("with"); d.Aircraft != 0 || len(users.offered()) != 0 || s.Aircraft[1].Mode != "OFFBOARD" {
			t.Errorf("once it is silent %+v is decided, %+v offered, aircraft 2 in %s", d, users.offered(), s.Aircraft[1].Mode)
		}
	})
}
