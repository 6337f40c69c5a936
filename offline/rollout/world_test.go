package rollout

import (
	"os"
	"path/filepath"
	"testing"

	"prefdt/inference"
	"prefdt/inference/goal"
	"prefdt/offline/offlinetest"
	"prefdt/simbridge/world"
	"prefdt/simbridge/world/trace"
)

// The world a checkpoint was trained in is the one in which its preferences
// stand for returns; in any other they stand for prices.
func TestOnlyAnotherWorldIsOutOfDistribution(t *testing.T) {
	other := world.Standard()
	other.Users, other.UserCPUHz, other.Physics.AltitudeM = 12, 2e9, 80
	gusty := other
	gusty.Gust, gusty.Slots, gusty.Aircraft, gusty.DenseStart = 0.1, 50, 3, true
	trained := shippedCheckpoint(t)
	trained.World, trained.Physics = other.Record(), other.Physics
	for _, c := range []struct {
		name    string
		world   world.Config
		shipped bool // trained in the standard world, else in the other
		out     bool
	}{
		{"the standard world's in the standard world", world.Standard(), true, false},
		{"the standard world's in another", other, true, true},
		{"another world's in that one", other, false, false},
		{"another world's in that one, in gusts", gusty, false, false},
		{"another world's in the standard world", world.Standard(), false, true},
	} {
		ck := trained
		if c.shipped {
			ck = shippedCheckpoint(t)
		}
		f := offlinetest.Must(New(ck, inference.DecoderDispatch, c.world, ReportLink{}))(t)
		if f.outOfDistribution != c.out {
			t.Errorf("%s: out of distribution is %v", c.name, f.outOfDistribution)
		}
	}
	trained.World = []byte(`{"wings":2}`)
	if _, err := New(trained, inference.DecoderDispatch, other, ReportLink{}); err == nil {
		t.Error("a record of no world was accepted")
	}
}

// A trace flies like any other workload: over a good link and a lossy one, and
// with nothing to do once it is over.
func TestTraceFlies(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tasks.csv")
	text := "time_s,user,east_m,north_m,bits,cycles_per_bit,deadline_s\n0,a,300,400,1e6,1000,1\n0,b,700,400,1.2e6,1000,0.6\n1,a,310,400," +
		"1e6,1000,1\n2,c,500,500,0,0,0\n3,b,700,400,1.2e6,1000,0.6\n"
	offlinetest.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	c := world.Standard()
	c.Slots = 20
	var err error
	if c.Trace, err = trace.Read(path); err != nil {
		t.Fatal(err)
	}
	r := flyShipped(t, c, Request{Mode: goal.Preference, Omega: 0})
	// Four tasks take 4.4 s on the users' CPUs; two of them then miss their deadline, 0.65 s each.
	if !(r.DelayS > 0 && r.DelayS < 4.4+4*0.65) {
		t.Errorf("four tasks took %v s", r.DelayS)
	}
	f := newRunner(t, c, ReportLink{LossRate: 1, Fallback: FallbackOffer})
	if lost := f.Fly(testSeed, Request{Mode: goal.Preference, Omega: 0}); !(lost.DelayS > 0 && lost.DelayS < 4.4+4*0.65) {
		t.Errorf("with every report lost, four tasks took %v s", lost.DelayS)
	}
}
