package physics

import (
	"math"
	"strings"
	"testing"
)

func TestPropulsion(t *testing.T) {
	p := DefaultConstants().Propulsion
	// eq. (prop) for this airframe: hover 168.5 W, least 134.4 W at 8.4 m/s, 646.8 W at 30 m/s.
	for _, c := range []struct{ speed, want float64 }{{0, 168.5}, {8.4, 134.4}, {30, 646.8}} {
		if got := p.PowerW(c.speed); math.Abs(got-c.want) > 0.05 {
			t.Errorf("PowerW(%v) = %.3f, want %.1f", c.speed, got, c.want)
		}
	}
	if v := p.BestSpeedMPS(30); math.Abs(v-8.4) > 0.05 {
		t.Errorf("v* = %v, want 8.4", v)
	}
	for v := 0.0; v <= 30; v += 0.25 {
		best := p.BestSpeedMPS(30)
		if p.PowerW(v) < p.PowerW(best)-1e-9 {
			t.Fatalf("%v m/s costs less than v* = %v", v, best)
		}
		// The paper's form, to show that PowerW is the same function.
		x := v * v / (2 * p.InducedMPS * p.InducedMPS)
		want := p.BladeW*(1+3*v*v/(p.TipMPS*p.TipMPS)) + p.InducedW*math.Sqrt(math.Sqrt(1+x*x)-x) + p.Parasite*v*v*v
		if got := p.PowerW(v); math.Abs(got-want) > 1e-6*want {
			t.Fatalf("PowerW(%v) = %v, eq. (prop) gives %v", v, got, want)
		}
	}
}

// docs/worlds.md has this closed form of the parasite term for who knows the speed of least power.
func TestParasiteFromTheSpeedOfLeastPower(t *testing.T) {
	p := DefaultConstants().Propulsion
	for _, bestMPS := range []float64{6, 8.4, 11} {
		v2, v02 := bestMPS*bestMPS, p.InducedMPS*p.InducedMPS
		r := math.Sqrt(1 + v2*v2/(4*v02*v02))
		i := math.Sqrt(r - v2/(2*v02))
		p.Parasite = (i*p.InducedW/(2*r*v02) - 6*p.BladeW/(p.TipMPS*p.TipMPS)) / (3 * bestMPS)
		if got := p.BestSpeedMPS(30); math.Abs(got-bestMPS) > 1e-4 {
			t.Errorf("parasite %v: least power at %v m/s, want %v", p.Parasite, got, bestMPS)
		}
	}
}

func TestChannel(t *testing.T) {
	c := DefaultConstants().Channel
	if p := c.LoSProbability(0, 100); p < 0.9999 {
		t.Errorf("overhead LoS probability %v", p)
	}
	// 20 log10(4 pi 100 m / 0.15 m) = 78.5 dB.
	if db := -10 * math.Log10(c.FreeSpaceGain(0, 100)); math.Abs(db-78.46) > 0.05 {
		t.Errorf("free-space loss %v dB", db)
	}
	previous := math.Inf(1)
	for d := 0.0; d < 2000; d += 50 {
		g := c.MeanGain(d, 100)
		if g >= previous || g <= 0 {
			t.Fatalf("mean gain %v at %v m does not fall", g, d)
		}
		previous = g
	}
}

func TestLeastOffloadForDeadline(t *testing.T) {
	for _, c := range []struct {
		local, offload, deadline float64
		ok                       bool
	}{{0.9, 0.2, 1, false}, {1.2, 0.2, 1, true}, {1.2, 9, 0.5, false}, {1.5, 0.3, 0.5, true}} {
		rho, ok := LeastOffloadForDeadline(c.local, c.offload, c.deadline)
		if ok != c.ok {
			t.Errorf("%+v: ok = %v", c, ok)
		}
		if ok && CompletionS(c.local, c.offload, rho) > c.deadline {
			t.Errorf("%+v: rho %v misses the deadline", c, rho)
		}
	}
	if b := BalancedOffload(1.2, 0.3); math.Abs((1-b)*1.2-b*0.3) > 1e-12 {
		t.Errorf("at balance %v the parts do not finish together", b)
	}
}

// A user chooses its deadline and its task: no such pair may delay a slot. For this
// one the fraction needed is 1e-8, and steps of that fraction once took 0.1 s.
func TestLeastOffloadForDeadlineIsPrompt(t *testing.T) {
	const localS, deadlineS = 2.000000006558725, 1.9999999727038826
	for range 1000 {
		if rho, ok := LeastOffloadForDeadline(localS, 0.1, deadlineS); !ok || CompletionS(localS, 0.1, rho) > deadlineS || rho > 2e-8 {
			t.Fatalf("rho %v, %v", rho, ok)
		}
	}
}

func FuzzLeastOffloadForDeadline(f *testing.F) {
	f.Add(2.000000006558725, 0.1, 1.9999999727038826)
	f.Add(math.Inf(1), 1e300, 5e-324)
	f.Fuzz(func(t *testing.T, localS, offloadS, deadlineS float64) {
		if !(localS >= 0 && offloadS >= 0 && deadlineS > 0) {
			return
		}
		rho, ok := LeastOffloadForDeadline(localS, offloadS, deadlineS)
		if ok && !(rho > 0 && rho <= 1 && (1-rho)*localS <= deadlineS && rho*offloadS <= deadlineS) && !math.IsInf(localS, 1) {
			t.Errorf("LeastOffloadForDeadline(%v, %v, %v) = %v", localS, offloadS, deadlineS, rho)
		}
	})
}

func TestCheck(t *testing.T) {
	if err := DefaultConstants().Check(); err != nil {
		t.Fatal(err)
	}
	for key, corrupt := range map[string]func(*Constants){
		"edge_cpu_hz":            func(c *Constants) { c.EdgeCPUHz = 0 },
		"channel.los.nakagami":   func(c *Constants) { c.Channel.LoS.NakagamiM = -1 },
		"propulsion.induced_mps": func(c *Constants) { c.Propulsion.InducedMPS = math.NaN() },
		"channel.noise_dbm":      func(c *Constants) { c.Channel.NoiseDBm = math.Inf(-1) },

		"channel.noise_dbm of nothing":           func(c *Constants) { c.Channel.NoiseDBm = -1e5 },
		"channel.nlos.nakagami that never ends":  func(c *Constants) { c.Channel.NLoS.NakagamiM = 1e17 },
		"channel.los.nakagami that is no number": func(c *Constants) { c.Channel.LoS.NakagamiM = 0.5 },
		"channel.nlos.shadow_db beyond bounds":   func(c *Constants) { c.Channel.NLoS.ShadowDB = 1e6 },
		"kappa of a furnace":                     func(c *Constants) { c.SwitchedCapacitance = 1e-10 },
		"kappa beyond any number":                func(c *Constants) { c.SwitchedCapacitance = 1e300 },
		"channel.transmit_w beyond any number":   func(c *Constants) { c.Channel.TransmitW = 1e300 },
	} {
		c := DefaultConstants()
		corrupt(&c)
		key, _, _ = strings.Cut(key, " ")
		if err := c.Check(); err == nil || !strings.Contains(err.Error(), "constant "+key+" is") {
			t.Errorf("invalid %s: %v", key, err)
		}
	}
}

func TestClampToArea(t *testing.T) {
	for _, c := range []struct{ p, want Position }{
		{Position{-3, 5}, Position{0, 5}}, {Position{3, 1005}, Position{3, 1000}}, {Position{3, 5}, Position{3, 5}},
	} {
		if got := c.p.ClampToArea(1000); got != c.want {
			t.Errorf("%v is clamped to %v", c.p, got)
		}
		if got := c.p.ClampToArea(0); got != c.p {
			t.Errorf("without a side %v is %v", c.p, got)
		}
	}
	for _, p := range []Position{{math.NaN(), 0}, {0, math.Inf(1)}, {math.Inf(1), math.Inf(-1)}, {1e8, 0}} {
		if p.Valid() {
			t.Errorf("%v is a valid position", p)
		}
	}
}
