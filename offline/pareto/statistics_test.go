package pareto

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/stat"
)

func TestSpearman(t *testing.T) {
	for name, c := range map[string]struct {
		x, y []float64
		want float64
	}{
		"same order": {[]float64{1, 2, 3}, []float64{10, 100, 1000}, 1},
		"reverse":    {[]float64{1, 2, 3}, []float64{3, 2, -1}, -1},
		// 1 - 6 sum d^2 / (n(n^2-1)) with d = 0, 1, 1, 0: 1 - 12/60.
		"one swap": {[]float64{1, 2, 3, 4}, []float64{1, 3, 2, 4}, 0.8},
		// Ranks 1, 2.5, 2.5, 4 against 1 to 4: covariance 4.5, variances 4.5 and 5.
		"tie": {[]float64{1, 2, 2, 3}, []float64{1, 2, 3, 4}, 4.5 / math.Sqrt(4.5*5)},
	} {
		if got := Spearman(c.x, c.y); !approxEqual(got, c.want) {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
	for _, x := range [][]float64{{}, {1}, {2, 2, 2}} {
		if got := Spearman(x, make([]float64, len(x))); !math.IsNaN(got) {
			t.Errorf("%v: got %v, want NaN", x, got)
		}
	}
}

func TestFidelity(t *testing.T) {
	settings := []float64{0, 0.3, 0.6, 1}
	if got := Fidelity(settings, []Point{{9, 0}, {5, 3}, {4, 2}, {1, 9}}); !approxEqual(got, 1) {
		t.Errorf("falling delay: %v", got)
	}
	if got := Fidelity(settings, make([]Point, 4)); got != 0 {
		t.Errorf("outcomes all alike: %v, want 0", got)
	}
}

// bruteWilcoxon goes through all 2^n signs of the ranks.
func bruteWilcoxon(d []float64) float64 {
	d = slices.DeleteFunc(slices.Clone(d), func(x float64) bool { return x == 0 })
	magnitude := make([]float64, len(d))
	for i := range d {
		magnitude[i] = math.Abs(d[i])
	}
	r := ranks(magnitude)
	observed, total := 0.0, 0.0
	for i := range d {
		total += r[i]
		if d[i] > 0 {
			observed += r[i]
		}
	}
	extreme := 0
	for signs := range 1 << len(d) {
		w := 0.0
		for i := range d {
			if signs>>i&1 == 1 {
				w += r[i]
			}
		}
		if math.Abs(w-total/2) >= math.Abs(observed-total/2) {
			extreme++
		}
	}
	return float64(extreme) / float64(int(1)<<len(d))
}

func TestWilcoxonAgainstEnumeration(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 0))
	for range 150 {
		d := make([]float64, rng.IntN(12))
		for i := range d {
			d[i] = float64(rng.IntN(9) - 3) // ties and zeros are common
		}
		p, _, err := Wilcoxon(d)
		if want := bruteWilcoxon(d); err != nil || !approxEqual(p, want) {
			t.Fatalf("%v: p %v (%v), enumerated %v", d, p, err, want)
		}
	}
}

func TestWilcoxon(t *testing.T) {
	hundred := make([]float64, 100)
	for i := range hundred {
		hundred[i] = float64(i + 1)
	}
	for name, c := range map[string]struct {
		d           []float64
		p, positive float64
	}{
		"nothing":   {nil, 1, 0},
		"all zero":  {[]float64{0, 0}, 1, 0},
		"five up":   {[]float64{1, 2, 3, 4, 5}, 2.0 / 32, 15},
		"five down": {[]float64{-1, -2, -3, -4, -5}, 2.0 / 32, 0},
		"balanced":  {[]float64{1, -1}, 1, 1.5},
		// Of 100 of one sign the p-value is 2 x 2^-100, far below a Monte-Carlo null.
		"hundred up": {hundred, math.Ldexp(1, -99), 5050},
	} {
		p, positive, err := Wilcoxon(c.d)
		if err != nil || math.Abs(p/c.p-1) > 1e-12 || positive != c.positive {
			t.Errorf("%s: p %v, positive %v (%v); want %v, %v", name, p, positive, err, c.p, c.positive)
		}
	}
	if _, _, err := Wilcoxon([]float64{1, math.NaN()}); err == nil {
		t.Error("a NaN was accepted")
	}
	if _, _, err := Wilcoxon(slices.Repeat([]float64{1}, wilcoxonMax+1)); err == nil {
		t.Error("more differences than the exact null takes were accepted")
	}
}

// For large n the exact null meets the normal approximation.
func TestWilcoxonAgainstNormal(t *testing.T) {
	d := make([]float64, 400)
	for i := range d {
		d[i] = float64(i + 1)
		if i%9 < 4 {
			d[i] = -d[i]
		}
	}
	p, positive, err := Wilcoxon(d)
	n := float64(len(d))
	z := math.Abs(positive-n*(n+1)/4) / math.Sqrt(n*(n+1)*(2*n+1)/24)
	if want := math.Erfc(z / math.Sqrt2); err != nil || math.Abs(p/want-1) > 0.01 {
		t.Errorf("p %v (%v), normal approximation %v at z %.2f", p, err, want, z)
	}
}

func TestBootstrap(t *testing.T) {
	mean := func(x []float64) float64 { return stat.Mean(x, nil) }
	if low, high := Bootstrap(rand.New(rand.NewPCG(4, 0)), []float64{7, 7, 7}, 100, 0.95, mean); low != 7 || high != 7 {
		t.Errorf("a constant: [%v, %v]", low, high)
	}
	// For 400 normal values the interval of the mean is close to +-1.96 s/sqrt n.
	rng := rand.New(rand.NewPCG(5, 0))
	x := make([]float64, 400)
	for i := range x {
		x[i] = 3 + rng.NormFloat64()
	}
	m, s := stat.MeanStdDev(x, nil)
	half := 1.96 * s / 20
	low, high := Bootstrap(rng, x, 4000, 0.95, mean)
	if math.Abs(low-(m-half)) > 0.1*half || math.Abs(high-(m+half)) > 0.1*half {
		t.Errorf("[%v, %v], want about [%v, %v]", low, high, m-half, m+half)
	}
}

func TestSummarise(t *testing.T) {
	if got := Summarise([]float64{1, 2, 3, 4}); got.N != 4 || got.Mean != 2.5 || !approxEqual(got.Std, math.Sqrt(5.0/3)) {
		t.Errorf("got %+v", got)
	}
	if got := Summarise([]float64{4}); got != (Summary{4, 0, 1}) {
		t.Errorf("one value: %+v", got)
	}
	if got := Summarise(nil); got != (Summary{}) {
		t.Errorf("no value: %+v", got)
	}
}

// Holm's correction by hand: 4 x 0.01, 3 x 0.015 raised to what the least has, 2 x 0.03, and 0.2 as it is.
func TestHolm(t *testing.T) {
	got := Holm([]float64{0.2, 0.01, math.NaN(), 0.03, 0.012})
	for i, want := range []float64{0.2, 0.04, math.NaN(), 0.06, 0.04} {
		if math.Abs(got[i]-want) > 1e-12 || math.IsNaN(got[i]) != math.IsNaN(want) {
			t.Errorf("p-value %d is %v, want %v", i, got[i], want)
		}
	}
}

// The criterion names the clause that fails, and has no verdict where a figure is missing: an arm is not out of reach because
// its teacher was not flown.
func TestOperable(t *testing.T) {
	none := math.NaN()
	for _, c := range []struct {
		rho, reach float64
		want       string
	}{{0.9, 0.8, "yes"}, {0.95, 0.79, "no (reach)"}, {0.895, 1, "no (order)"}, {0.5, 0.5, "no (both)"}, {0.95, none, "-"}, {none, 1, "-"}} {
		if got := Operable(c.rho, c.reach); got != c.want {
			t.Errorf("fidelity %v and reach %v: %q, want %q", c.rho, c.reach, got, c.want)
		}
	}
}

// Quantiles of Student's t at 0.975 for one, two and four degrees of freedom: 12.7062, 4.302653, 2.776445.
func TestStudentInterval(t *testing.T) {
	for _, c := range []struct {
		x          []float64
		mean, half float64
	}{
		{[]float64{1, 3}, 2, 12.706205},
		{[]float64{1, 2, 3}, 2, 4.302653 / math.Sqrt(3)},
		{[]float64{5, 5, 5}, 5, 0},
		{[]float64{0, 1, 2, 3, 4}, 2, 2.776445 * math.Sqrt(2.5/5)},
	} {
		if mean, half := StudentInterval(c.x); math.Abs(mean-c.mean) > 1e-12 || math.Abs(half-c.half) > 1e-5 {
			t.Errorf("%v: %v ± %v, want %v ± %v", c.x, mean, half, c.mean, c.half)
		}
	}
	if mean, half := StudentInterval([]float64{7}); mean != 7 || !math.IsNaN(half) {
		t.Errorf("one run: %v ± %v", mean, half)
	}
}
