package baseline

import (
	"math"

	"prefdt/inference/belief"
	"prefdt/inference/motion"
	"prefdt/inference/physics"
	"prefdt/inference/slot"
	"prefdt/simbridge/world"
)

// Filter remembers with filters written by hand, tuned to the named worlds: two
// Gaussian processes over the azimuth around each user, of line of sight and of
// shadowing; a two-state filter for each phone; a grid over the wind. Of the
// configuration it takes what a deployment knows: constants, and which elements of the
// world are on, never how they turn out.
type Filter struct {
	world  *world.Config
	kernel azimuthKernel
	users  map[int]*userFilter // by ID
	wind   *windFilter

	conditions [2]belief.Condition
}

// userFilter is the memory of one user.
type userFilter struct {
	phone         phoneFilter
	sight, shadow azimuthFilter
	position      physics.Position
	walkedM       float64
}

// NewFilter returns the estimator for a world.
func NewFilter(c *world.Config) *Filter {
	x := &Filter{world: c, kernel: newAzimuthKernel(), wind: newWindFilter(c), conditions: belief.Conditions(&c.Physics.Channel)}
	x.Reset()
	return x
}

// Reset forgets everything, for another mission.
func (x *Filter) Reset() {
	x.users = map[int]*userFilter{}
	x.wind.reset()
}

// Estimate fills b for a slot and remembers what the slot shows.
func (x *Filter) Estimate(s *slot.Snapshot, b *belief.Belief) {
	x.estimateAir(s, b)
	for i := range s.Results {
		x.observeResult(&s.Results[i])
	}
	for i := range s.Users {
		u := &s.Users[i]
		f := x.observeUser(s, u, &b.Users[i])
		throttle(&b.Users[i], u, &x.world.Throttling, f.phone.at(s.Slot, &x.world.Throttling))
	}
	for i := range s.IdleUsers {
		x.observeUser(s, &s.IdleUsers[i], nil)
	}
}

func (x *Filter) estimateAir(s *slot.Snapshot, b *belief.Belief) {
	if !x.wind.windy && !x.wind.payload {
		return
	}
	x.wind.pass()
	for m := range s.Aircraft {
		if flown := &s.Aircraft[m].Flown; flown.FlightJ > 0 {
			x.wind.observe(flown)
		}
	}
	x.wind.air(&b.Air)
}

// logFree returns the logarithm of the gain of free space over a horizontal vector.
func (x *Filter) logFree(to physics.Position) float64 {
	return math.Log(x.world.Physics.Channel.FreeSpaceGain(to.Norm(), x.world.Physics.AltitudeM))
}

// user returns a user's memory, new for a new user.
func (x *Filter) user(id int) *userFilter {
	f := x.users[id]
	if f == nil {
		f = &userFilter{phone: phoneFilter{probability: x.world.Throttling.Duty()}}
		x.users[id] = f
	}
	return f
}

// observeResult remembers a timed local part and a timed upload.
func (x *Filter) observeResult(r *slot.Result) {
	f := x.user(r.User)
	f.phone.measure(r, &x.world.Throttling)
	up := &r.Upload
	if !x.world.Sounding || !(up.S > 0 && up.Bits > 0) {
		return
	}
	to := up.Aircraft.Sub(up.User)
	prior := f.prior(x, to)
	logG := math.Log(up.Gain(&x.world.Physics.Channel)) - x.logFree(to)
	los, z := x.conditions[0].Measure(logG, prior.zMean, prior.zSD)
	nlos, zBehind := x.conditions[1].Measure(logG, prior.zMean, prior.zSD)
	p := 1 / (1 + math.Exp(nlos-los)*(1-prior.los)/max(prior.los, 1e-12))
	if p < 0.5 {
		z = zBehind
	}
	f.remember(x, to, p, z, uploadVariance)
}

// observeUser remembers a user's soundings of a slot and, if b is not nil, fills it
// with what they and the memory say.
func (x *Filter) observeUser(s *slot.Snapshot, u *slot.User, b *belief.User) *userFilter {
	f := x.user(u.ID)
	if f.phone.nominalHz == 0 {
		f.phone.slot = s.Slot
	}
	f.phone.nominalHz = u.CPUHz
	if f.position != (physics.Position{}) {
		f.walkedM += u.Position.Sub(f.position).Norm()
	}
	f.position = u.Position
	if !x.world.Sounding {
		return f
	}
	for m := range s.Aircraft {
		to := s.Aircraft[m].Position.Sub(u.Position)
		prior, logFree := f.prior(x, to), x.logFree(to)
		p := soundLink(&x.conditions, logFree, u.Gain[m], &prior)
		if b != nil {
			b.SetLink(m, p.logG, p.logSD)
		}
		likelier := 0
		if p.los < 0.5 {
			likelier = 1
		}
		l := &x.conditions[likelier]
		f.remember(x, to, p.los, l.Residual(math.Log(u.Gain[m])-logFree), l.FadingVariance/(l.SDLog*l.SDLog))
	}
	return f
}

// prior returns what the memory says of the link along a horizontal vector to an aircraft.
func (f *userFilter) prior(x *Filter, to physics.Position) linkPrior {
	p := linkPrior{los: x.world.Physics.Channel.LoSProbability(to.Norm(), x.world.Physics.AltitudeM), zSD: 1}
	azimuth := math.Atan2(to.NorthM, to.EastM)
	if x.world.ShadowingDeg > 0 {
		mean, variance := f.shadow.predict(&x.kernel, azimuth, f.walkedM)
		p.zMean, p.zSD = mean, math.Sqrt(variance)
	}
	if x.world.SkylineDeg > 0 {
		mean, variance := f.sight.predict(&x.kernel, azimuth, f.walkedM)
		p.los = normalCDF((probit(p.los) - mean) / math.Sqrt(variance))
	}
	return p
}

// remember adds one observation of a link: the probability of line of sight, and the
// shadowing with its variance.
func (f *userFilter) remember(x *Filter, to physics.Position, los, z, variance float64) {
	azimuth := math.Atan2(to.NorthM, to.EastM)
	if x.world.ShadowingDeg > 0 && (los > 0.8 || los < 0.2) {
		f.shadow.add(azimuthObservation{azimuth, f.walkedM, z, variance})
	}
	if x.world.SkylineDeg == 0 {
		return
	}
	// The field lies below the threshold with line of sight, and above it without: the
	// observation is the one that gives the moments of that mixture.
	threshold := probit(x.world.Physics.Channel.LoSProbability(to.Norm(), x.world.Physics.AltitudeM))
	mean, before := f.sight.predict(&x.kernel, azimuth, f.walkedM)
	sd := math.Sqrt(before)
	a := (threshold - mean) / sd
	density, below := math.Exp(-a*a/2)/math.Sqrt(2*math.Pi), normalCDF(a)
	lower, upper := -density/max(below, 1e-9), density/max(1-below, 1e-9) // means of the two parts
	first := los*lower + (1-los)*upper
	second := los*(1+a*lower) + (1-los)*(1+a*upper)
	after := before * max(second-first*first, 1e-3)
	if precision := 1/after - 1/before; precision > 1e-3 {
		value := ((mean+sd*first)/after - mean/before) / precision
		f.sight.add(azimuthObservation{azimuth, f.walkedM, value, 1 / precision})
	}
}

func normalCDF(x float64) float64 { return math.Erfc(-x/math.Sqrt2) / 2 }

func probit(p float64) float64 { return math.Sqrt2 * math.Erfinv(2*min(max(p, 1e-9), 1-1e-9)-1) }

// Truth believes what is hidden of the present slot. No aircraft can have it: it is
// what the other estimators are measured against.
type Truth struct {
	world  *world.World
	hidden world.Hidden
}

// Watch gives it the world it is in.
func (x *Truth) Watch(w *world.World) { x.world = w }

// Reset does nothing: it is never wrong.
func (x *Truth) Reset() {}

// Estimate fills b with the truth.
func (x *Truth) Estimate(s *slot.Snapshot, b *belief.Belief) {
	x.world.Hidden(&x.hidden)
	b.Air.Multiplier = x.hidden.PowerFactor
	if x.hidden.WindMPS != (physics.Position{}) {
		b.Air.Winds = append(b.Air.Winds, motion.Wind{MPS: x.hidden.WindMPS, Probability: 1})
	}
	for i := range s.Users {
		copy(b.Users[i].Gain, x.hidden.UploadGain[i])
		if id := s.Users[i].ID; x.hidden.Throttled[id] {
			b.Users[i].Uncertainty.SlowCPUHz, b.Users[i].Uncertainty.SlowProbability = x.hidden.CPUHz[id], 1
		}
	}
}
