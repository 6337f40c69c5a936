package baseline

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"

	"prefdt/inference/belief"
	"prefdt/inference/goal"
	"prefdt/inference/motion"
	"prefdt/inference/physics"
	"prefdt/inference/slot"
	"prefdt/offline/offlinetest"
	"prefdt/offline/pareto"
	"prefdt/offline/teacher"
	"prefdt/simbridge/world"
)

// flyBelieving flies one estimator through a world at a price.
func flyBelieving(c *world.Config, e belief.Estimator, seed uint64, priceSPerJ float64) pareto.Point {
	w := world.New(*c, seed)
	b := NewBelieving(&c.Physics, e, priceSPerJ)
	b.Watch(w)
	b.Reset()
	var r teacher.Runner
	return r.Fly(w, func(s *slot.Snapshot, d *slot.Decision) { b.Decide(s, goal.Objective{}, d) }, nil)
}

func estimators(c *world.Config) map[string]belief.Estimator {
	return map[string]belief.Estimator{"memoryless": NewMemoryless(c), "filter": NewFilter(c), "hidden": &Truth{}}
}

// Where nothing is hidden every estimator believes the reports, and flies as the
// teacher does, to the bit.
func TestNothingHidden(t *testing.T) {
	for _, c := range []world.Config{world.Standard(), namedWorld(t, "crowd")} {
		for _, price := range []float64{0, 1e-3, 0.03} {
			var scheduler teacher.Scheduler
			want := scheduler.Fly(world.New(c, 7), teacher.ConstantPrice(price), nil)
			for name, e := range estimators(&c) {
				if got := flyBelieving(&c, e, 7, price); got != want {
					t.Errorf("%s at %v: %v, the teacher %v", name, price, got, want)
				}
			}
		}
	}
}

// In every world that hides something the filter is between memorylessness and truth.
func TestWorthOfMemory(t *testing.T) {
	for _, name := range []string{"gusts", "canyon", "phones", "field"} {
		c := namedWorld(t, name)
		_, tight := pareto.References(&c, nil)
		volume := map[string]float64{}
		for arm, e := range estimators(&c) {
			for seed := range uint64(2) {
				var front []pareto.Point
				for _, price := range teacher.PricesIn(&c, 4) {
					front = append(front, flyBelieving(&c, e, 40_000+seed, price))
				}
				volume[arm] += pareto.Hypervolume(front, tight)
			}
		}
		share := (volume["filter"] - volume["memoryless"]) / (volume["hidden"] - volume["memoryless"])
		t.Logf("%s: the filter has %.2f of what is hidden", name, share)
		if volume["hidden"] <= volume["memoryless"] || share < 0.4 || share > 1.05 {
			t.Errorf("%s: tight hypervolumes %v", name, volume)
		}
	}
}

// drawLink draws a link by the model: its horizontal length, 0 or 1 for line of sight or none, its gain without
// fading, and its fading.
func drawLink(r *rand.Rand, c *physics.Constants) (horizontalM float64, condition int, large, fading float64) {
	horizontalM = 500 * r.Float64()
	l := c.Channel.LoS
	if r.Float64() >= c.Channel.LoSProbability(horizontalM, c.AltitudeM) {
		condition, l = 1, c.Channel.NLoS
	}
	large = c.Channel.FreeSpaceGain(horizontalM, c.AltitudeM) * math.Pow(10, (l.ShadowDB*r.NormFloat64()-l.ExcessDB)/10)
	for range int(l.NakagamiM) { // Gamma, the sum of exponentials
		fading += r.ExpFloat64() / l.NakagamiM
	}
	return horizontalM, condition, large, fading
}

// The posterior of a sounding is calibrated: over links drawn from the model, the
// errors of the gain have the spread it states and line of sight the probability.
func TestSoundingIsCalibrated(t *testing.T) {
	r := rand.New(rand.NewPCG(41, 1))
	c := world.Standard()
	constants := &c.Physics
	links := belief.Conditions(&constants.Channel)
	var errors []float64
	var bins [4]struct{ n, los float64 }
	for range 20_000 {
		horizontalM, k, large, fading := drawLink(r, constants)
		logFree := math.Log(constants.Channel.FreeSpaceGain(horizontalM, constants.AltitudeM))
		los := constants.Channel.LoSProbability(horizontalM, constants.AltitudeM)
		got := soundLink(&links, logFree, large*fading, &linkPrior{los: los, zSD: 1})
		errors = append(errors, (got.logG-math.Log(large)-links[k].TypicalLog)/got.logSD)
		b := &bins[min(int(4*got.los), 3)]
		b.n++
		b.los += float64(1-k) - got.los
	}
	if mean, sd := stat.MeanStdDev(errors, nil); math.Abs(mean) > 0.03 || math.Abs(sd-1) > 0.05 {
		t.Errorf("errors in their stated standard deviations: mean %.3f, standard deviation %.3f", mean, sd)
	}
	for k, b := range bins {
		if off := b.los / b.n; math.Abs(off) > 0.02+2/math.Sqrt(b.n) {
			t.Errorf("in bin %d of %v links line of sight is off by %.3f", k, b.n, off)
		}
	}
}

// The azimuth filter is the Gaussian process of its observations.
func TestAzimuthFilter(t *testing.T) {
	r := rand.New(rand.NewPCG(42, 1))
	k := newAzimuthKernel()
	var f azimuthFilter
	for i := range maxAzimuths {
		f.add(azimuthObservation{float64(i) / maxAzimuths * 2 * math.Pi, 10 * r.Float64(), r.NormFloat64(), 0.1 + r.Float64()})
	}
	if len(f.observed) != maxAzimuths {
		t.Fatalf("%d observations are left", len(f.observed))
	}
	n := len(f.observed)
	covariance, values, query := mat.NewSymDense(n, nil), mat.NewVecDense(n, nil), mat.NewVecDense(n, nil)
	azimuth, walked := 1.3, 4.0
	for i, a := range f.observed {
		for j, b := range f.observed[:i+1] {
			covariance.SetSym(i, j, k.at(a.azimuth, a.walkedM, b.azimuth, b.walkedM))
		}
		covariance.SetSym(i, i, 1+a.variance)
		values.SetVec(i, a.value)
		query.SetVec(i, k.at(azimuth, walked, a.azimuth, a.walkedM))
	}
	var chol mat.Cholesky
	if !chol.Factorize(covariance) {
		t.Fatal("not positive definite")
	}
	var x mat.VecDense
	offlinetest.NoError(t, chol.SolveVecTo(&x, query))
	mean, variance := f.predict(&k, azimuth, walked)
	if want := mat.Dot(&x, values); math.Abs(mean-want) > 1e-9 {
		t.Errorf("mean %v, want %v", mean, want)
	}
	if want := 1 - mat.Dot(&x, query); math.Abs(variance-want) > 1e-9 {
		t.Errorf("variance %v, want %v", variance, want)
	}
	f.add(azimuthObservation{f.observed[3].azimuth + 0.01, f.observed[3].walkedM, 2, 0.5})
	if len(f.observed) != n {
		t.Error("an observation at the same place is kept apart")
	}
}

// A timed local part tells the speed; then the probability relaxes to the duty.
func TestPhoneFilter(t *testing.T) {
	x := world.Throttling{Factor: 0.45, MeanOnS: 30, MeanOffS: 45}
	p := phoneFilter{nominalHz: 1e9, probability: x.Duty()}
	if got := p.at(1000, &x); math.Abs(got-x.Duty()) > 1e-9 {
		t.Errorf("without a result %v, want the duty", got)
	}
	p.measure(&slot.Result{Slot: 10, LocalS: 1, LocalCycles: 0.45e9}, &x)
	if got := p.at(11, &x); math.Abs(got-(1-1./30)) > 1e-9 {
		t.Errorf("a slot after it was slow %v", got)
	}
	p.measure(&slot.Result{Slot: 9, LocalS: 1, LocalCycles: 1e9}, &x) // late
	p.measure(&slot.Result{Slot: 12}, &x)                             // says nothing
	if got := p.at(10, &x); got != 1 {
		t.Errorf("in its slot %v", got)
	}
	p.measure(&slot.Result{Slot: 20, LocalS: 1, LocalCycles: 1e9}, &x)
	if got := p.at(500, &x); math.Abs(got-x.Duty()) > 1e-6 {
		t.Errorf("long after %v, want the duty", got)
	}
}

// The wind and the multiplier are found from the power at some velocities.
func TestWindFilter(t *testing.T) {
	r := rand.New(rand.NewPCG(43, 1))
	constants := physics.DefaultConstants()
	for _, wind := range []physics.Position{{EastM: 5}, {EastM: -3, NorthM: 4}, {NorthM: -8}} {
		f := newWindFilter(&world.Config{Physics: constants, Wind: world.Wind{MeanMaxMPS: 10}, Payload: world.Payload{FactorMax: 1.3}})
		for range 60 {
			f.pass()
			for range 2 {
				ground := physics.Position{EastM: 6 * r.NormFloat64(), NorthM: 6 * r.NormFloat64()}
				power := 1.2 * constants.Propulsion.PowerW(ground.Sub(wind).Norm()) * (1 + powerNoise*r.NormFloat64())
				f.observe(&slot.Flown{EastMPS: ground.EastM, NorthMPS: ground.NorthM, FlightJ: power})
			}
		}
		var a motion.Air
		f.air(&a)
		if off := a.MeanMPS().Sub(wind).Norm(); off > 1.2 || math.Abs(a.Multiplier-1.2) > 0.06 {
			t.Errorf("a wind of %v times 1.2 is taken for %v times %.3f", wind, a.MeanMPS(), a.Multiplier)
		}
		for range 3 { // readings that nothing explains must not end in NaN
			f.observe(&slot.Flown{FlightJ: 1e9})
		}
		a.Winds = nil
		f.air(&a)
		if m := a.MeanMPS(); math.IsNaN(m.EastM) || math.IsNaN(a.Multiplier) {
			t.Error("not a number")
		}
	}
}
