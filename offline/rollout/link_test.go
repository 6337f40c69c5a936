package rollout

import (
	"math"
	"testing"

	"prefdt/inference"
	"prefdt/inference/goal"
	"prefdt/offline/front"
	"prefdt/simbridge/world"
)

// points flies one seed with a few settings over a link.
func points(t *testing.T, l Link) (p []front.Point) {
	t.Helper()
	ck := shipped(t)
	f, err := New(ck, inference.Dispatch, world.Standard(), l)
	if err != nil {
		t.Fatal(err)
	}
	for _, setting := range Grid(0, 1, 9) {
		p = append(p, f.Fly(seed, Request{Mode: goal.Preference, Omega: ck.Scales.Remap.Omega(setting)}).Point)
	}
	return p
}

// What is left of a front, and that the standing offer leaves the most of it.
func TestLostReports(t *testing.T) {
	whole := front.Hypervolume(points(t, Link{}), front.Reference)
	for _, c := range []struct {
		link  Link
		least float64
	}{
		{Link{Loss: 0.05}, 0.985}, {Link{Loss: 0.4}, 0.975}, {Link{Loss: 1}, 0.965}, {Link{Late: 1}, 0.97},
	} {
		kept := func(f Fallback) float64 {
			c.link.Unheard = f
			return front.Hypervolume(points(t, c.link), front.Reference) / whole
		}
		offer := kept(Offer)
		if offer < c.least {
			t.Errorf("%+v leaves %.4f of the front, want %v", c.link, offer, c.least)
		}
		for _, other := range []Fallback{Local, LastReport, Speculative} {
			if x := kept(other); x > offer+0.003 {
				t.Errorf("%+v leaves %.4f of the front, the standing offer %.4f", c.link, x, offer)
			}
		}
	}
}

// Budgets are held by users who decide for themselves, too.
func TestBudgetsWithoutReports(t *testing.T) {
	for _, l := range []Link{{Loss: 0.4, Unheard: Offer}, {Loss: 1, Unheard: Offer}, {Late: 1, Unheard: Offer}} {
		f, err := New(shipped(t), inference.Dispatch, world.Standard(), l)
		if err != nil {
			t.Fatal(err)
		}
		for _, j := range []float64{29e3, 33e3, 36e3} {
			if r := f.Fly(seed, Request{Mode: goal.Target, BudgetJ: j}); math.Abs(r.EnergyJ/j-1) > 0.01 {
				t.Errorf("%+v: %v J asked for, %.0f J spent", l, j, r.EnergyJ)
			}
		}
	}
}

// A link that loses nothing is no link at all, whatever stands by.
func TestPerfectLink(t *testing.T) {
	want := points(t, Link{})
	for _, f := range []Fallback{LastReport, Speculative, Offer} {
		for i, p := range points(t, Link{Unheard: f}) {
			if p != want[i] {
				t.Errorf("%q: %+v, want %+v", f, p, want[i])
			}
		}
	}
}

// What a checkpoint tells of users is the world it was trained in.
func TestUsualCrowd(t *testing.T) {
	crowd, w := shipped(t).Standard.Crowd(), world.Standard()
	for _, x := range []struct {
		what      string
		got, want float64
	}{
		{"users", crowd.Users, w.TaskProbability * float64(w.ActiveMin+w.ActiveMax) / 2},
		{"bits", crowd.Task.Bits, (w.BitsMin + w.BitsMax) / 2},
		{"deviation of bits", crowd.Spread.Bits, (w.BitsMax - w.BitsMin) / math.Sqrt(12)},
		{"cycles per bit", crowd.Task.CyclesPerBit, w.CyclesPerBit},
		{"deadline", crowd.Task.DeadlineS, (w.DeadlineMinS + w.DeadlineMaxS) / 2},
		{"deviation of deadlines", crowd.Spread.DeadlineS, (w.DeadlineMaxS - w.DeadlineMinS) / math.Sqrt(12)},
		{"CPU", crowd.CPUHz, w.UserCPUHz},
	} {
		if math.Abs(x.got/x.want-1) > 0.05 {
			t.Errorf("%s: %v, in the world %v", x.what, x.got, x.want)
		}
	}
}
