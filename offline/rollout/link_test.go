package rollout

import (
	"math"
	"sync"
	"testing"

	"prefdt/inference"
	"prefdt/inference/goal"
	"prefdt/inference/slot"
	"prefdt/offline/pareto"
	"prefdt/simbridge/world"
)

// settingPoints flies one seed with a few settings over a link.
func settingPoints(t *testing.T, l ReportLink) (p []pareto.Point) {
	t.Helper()
	ck := shippedCheckpoint(t)
	f := newRunner(t, world.Standard(), l)
	for _, setting := range Linspace(0, 1, 5) {
		p = append(p, f.Fly(testSeed, Request{Mode: goal.Preference, Omega: ck.GoalConstants.SettingMap.Omega(setting)}).Point)
	}
	return p
}

// perfectLinkPoints are those of a link that loses nothing.
func perfectLinkPoints(t *testing.T) []pareto.Point {
	t.Helper()
	perfectLink.Do(func() { perfectLink.points = settingPoints(t, ReportLink{}) })
	return perfectLink.points
}

var perfectLink struct {
	sync.Once
	points []pareto.Point
}

// What lost and delayed reports leave of a front, and that the standing offer
// leaves the most of it.
func TestLostReports(t *testing.T) {
	whole := pareto.Hypervolume(perfectLinkPoints(t), pareto.Reference)
	for _, c := range []struct {
		link  ReportLink
		least float64
	}{
		{ReportLink{LossRate: 0.05}, 0.985}, {ReportLink{LossRate: 0.4}, 0.975}, {ReportLink{LossRate: 1}, 0.965},
		{ReportLink{LateSlots: 1}, 0.97},
	} {
		kept := func(f Fallback) float64 {
			c.link.Fallback = f
			return pareto.Hypervolume(settingPoints(t, c.link), pareto.Reference) / whole
		}
		offer := kept(FallbackOffer)
		if offer < c.least {
			t.Errorf("%+v leaves %.4f of the front, want %v", c.link, offer, c.least)
		}
		if c.link.LossRate == 0.05 {
			continue // of so few lost reports hardly anything depends on who stands in for them
		}
		for _, other := range []Fallback{FallbackLocal, FallbackLastReport, FallbackSpeculative} {
			if x := kept(other); x > offer+0.003 {
				t.Errorf("%+v leaves %.4f of the front, the standing offer %.4f", c.link, x, offer)
			}
		}
	}
}

// Budgets are kept when users accept offers instead of receiving decisions, too.
func TestBudgetsWithoutReports(t *testing.T) {
	for _, l := range []ReportLink{{LossRate: 0.4, Fallback: FallbackOffer}, {LossRate: 1, Fallback: FallbackOffer},
		{LateSlots: 1, Fallback: FallbackOffer}} {
		f := newRunner(t, world.Standard(), l)
		for _, j := range []float64{29e3, 33e3, 36e3} {
			if r := f.Fly(testSeed, Request{Mode: goal.Target, BudgetJ: j}); r.EnergyJ/j-1 > 0.01 || r.EnergyJ/j-1 < -0.02 {
				t.Errorf("%+v: %v J requested, %.0f J spent", l, j, r.EnergyJ)
			}
		}
	}
}

// On a link that loses nothing the fallback has no effect.
func TestPerfectLink(t *testing.T) {
	want := perfectLinkPoints(t)
	for _, f := range []Fallback{FallbackLastReport, FallbackSpeculative, FallbackOffer} {
		for i, p := range settingPoints(t, ReportLink{Fallback: f}) {
			if p != want[i] {
				t.Errorf("%q: %+v, want %+v", f, p, want[i])
			}
		}
	}
}

// A checkpoint's prior of its users is that of the world it was trained in.
func TestUserPrior(t *testing.T) {
	prior, w := shippedCheckpoint(t).Statistics.UserPrior(), world.Standard()
	for _, x := range []struct {
		what      string
		got, want float64
	}{
		{"users", prior.ActiveUsers, w.TaskProbability * float64(w.ActiveMin+w.ActiveMax) / 2},
		{"bits", prior.TaskMean.Bits, (w.BitsMin + w.BitsMax) / 2},
		{"deviation of bits", prior.TaskStdDev.Bits, (w.BitsMax - w.BitsMin) / math.Sqrt(12)},
		{"cycles per bit", prior.TaskMean.CyclesPerBit, w.CyclesPerBit},
		{"deadline", prior.TaskMean.DeadlineS, (w.DeadlineMinS + w.DeadlineMaxS) / 2},
		{"deviation of deadlines", prior.TaskStdDev.DeadlineS, (w.DeadlineMaxS - w.DeadlineMinS) / math.Sqrt(12)},
		{"CPU", prior.CPUHz, w.UserCPUHz},
	} {
		if math.Abs(x.got/x.want-1) > 0.05 {
			t.Errorf("%s: %v, in the world %v", x.what, x.got, x.want)
		}
	}
}

// Until a report is so late, that of the first slot stands in: a flight with late reports begins with users.
func TestLateReportsBeginWithTheFirst(t *testing.T) {
	w := world.New(world.Standard(), 100_000)
	var first slot.Snapshot
	w.Snapshot(&first)
	l := linkState{ReportLink: ReportLink{LateSlots: 3}}
	l.reset()
	for range 3 {
		if got := l.snapshot(w); len(first.Users) == 0 || len(got.Users) != len(first.Users) {
			t.Errorf("slot %d has %d users, want the first slot's %d", w.Slot, len(got.Users), len(first.Users))
		}
	}
}

// A snapshot of the slot after costs about as much as one of the slot before: what is lost is
// who is active now, not that it is known late.
func TestSnapshotsOfOtherSlots(t *testing.T) {
	whole := pareto.Hypervolume(perfectLinkPoints(t), pareto.Reference)
	kept := func(late int) float64 {
		return pareto.Hypervolume(settingPoints(t, ReportLink{LateSlots: late}), pareto.Reference) / whole
	}
	for _, slots := range []int{1, 3} {
		if past, future := kept(slots), kept(-slots); math.Abs(past-future) > 0.06 || past > 0.8 || future > 0.8 {
			t.Errorf("%d slots: the past leaves %.3f of the front, the future %.3f", slots, past, future)
		}
	}
	for _, l := range []ReportLink{{LossRate: 2}, {LateSlots: -1, LossRate: 0.1}, {LateSlots: -1, Fallback: FallbackOffer}} {
		if _, err := New(shippedCheckpoint(t), inference.DecoderDispatch, world.Standard(), l); err == nil {
			t.Errorf("%+v was flown", l)
		}
	}
}
