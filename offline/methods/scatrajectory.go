package methods

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/optimize"

	"prefdt/inference/physics"
)

// The second block of SCA: where the aircraft fly, at a fixed association. Both parts of
// its cost are replaced by convex functions that equal them at the iterate, with equal
// gradients, and are nowhere below them, so that no step raises the cost:
//
//   - flight power, eq. (prop), by that of Zeng, Xu and Zhang (IEEE Trans. Wireless
//     Commun. 18(4), 2019): its induced part is the y of 1/y^2 = y^2 + v^2/v0^2, whose
//     right side is convex and is replaced by its tangent;
//   - a user's delay and edge energy at its best fraction, a smooth function of its
//     distance, by the parabola of its gradient and of a bound on its curvature.
//
// The separation C2 is linearised as by Wu, Zeng and Zhang (IEEE Trans. Wireless Commun.
// 17(3), 2018). It and C1 are penalties here; what is flown keeps them exactly.

// path is a fleet's positions, by slot and aircraft: T+1 rows, the first of which is where
// it is.
type path [][]physics.Position

func (p path) clone() path {
	q := make(path, len(p))
	for t := range p {
		q[t] = slices.Clone(p[t])
	}
	return q
}

// powerSurrogate returns the upper bound of flight power at the velocity v that touches
// it at v0, and its gradient.
func powerSurrogate(p *physics.Propulsion, v, v0 physics.Position) (w float64, dw physics.Position) {
	induced2 := p.InducedMPS * p.InducedMPS
	square := v0.Dot(v0) / (2 * induced2)
	y0 := math.Sqrt(1 / (math.Sqrt(1+square*square) + square))
	// y solves 1/y^2 - 2 y0 y = c, whose left side falls and is convex: Newton's method
	// from the left of the root does not pass it.
	c := (2*v0.Dot(v)-v0.Dot(v0))/induced2 - y0*y0
	y := y0
	if 1/(y*y)-2*y0*y < c {
		y = 1 / math.Sqrt(c+2*y0*y0)
	}
	for range 50 {
		step := (1/(y*y) - 2*y0*y - c) / (2/(y*y*y) + 2*y0)
		y += step
		if step < 1e-13*y {
			break
		}
	}
	dy := v0.Scale(-2 / induced2 / (2/(y*y*y) + 2*y0))
	speed := v.Norm()
	tip := p.BladeW * 3 / (p.TipMPS * p.TipMPS)
	w = p.BladeW + tip*speed*speed + p.InducedW*y + p.Parasite*speed*speed*speed
	return w, v.Scale(2*tip + 3*p.Parasite*speed).Add(dy.Scale(p.InducedW))
}

// link is the expected uplink time of a bit at a horizontal distance, tabulated, and
// bounds on its derivatives.
type link struct {
	stepM   float64
	bitS    []float64
	slope   float64 // greatest of |u'|
	curve   float64 // greatest second derivative, along the distance and across it
	concave float64 // greatest of the negative second derivative
}

// rate returns the expected uplink rate: that of typical shadowing and fading with line
// of sight and without it, in the mean.
func rate(c *physics.Constants, distanceM float64) float64 {
	free := c.Channel.FreeSpaceGain(distanceM, c.AltitudeM)
	los := c.Channel.LoSProbability(distanceM, c.AltitudeM)
	b := c.Channel.BandwidthHz
	return los*c.Channel.RateBPS(free*c.Channel.LoS.TypicalGain(), b) + (1-los)*c.Channel.RateBPS(free*c.Channel.NLoS.TypicalGain(), b)
}

func newLink(c *physics.Constants) *link {
	l := &link{stepM: 1}
	for d := 0.0; d <= 1.5*c.AreaSideM; d += l.stepM {
		l.bitS = append(l.bitS, 1/rate(c, d))
	}
	for i := 1; i+1 < len(l.bitS); i++ {
		slope := (l.bitS[i+1] - l.bitS[i-1]) / (2 * l.stepM)
		curve := (l.bitS[i+1] - 2*l.bitS[i] + l.bitS[i-1]) / (l.stepM * l.stepM)
		l.slope = max(l.slope, math.Abs(slope))
		l.curve = max(l.curve, curve, slope/(float64(i)*l.stepM))
		l.concave = max(l.concave, -curve)
	}
	return l
}

// at returns the time of a bit and its derivative by the distance.
func (l *link) at(distanceM float64) (bitS, slope float64) {
	x := min(distanceM/l.stepM, float64(len(l.bitS)-2)-1e-9)
	i := int(x)
	f := x - float64(i)
	d0, d1 := l.slopeAt(i), l.slopeAt(i+1)
	return l.bitS[i] + f*(l.bitS[i+1]-l.bitS[i]), d0 + f*(d1-d0)
}

func (l *link) slopeAt(i int) float64 {
	if i == 0 {
		return 0 // the rate is even in the distance
	}
	return (l.bitS[i+1] - l.bitS[i-1]) / (2 * l.stepM)
}

// served is a user that an aircraft serves in a slot of the path at its best fraction:
// both parts of its task then end together, after L O / (L + O), where L and O are the
// times of the whole task on its CPU and at the aircraft.
type served struct {
	slot, aircraft int
	position       physics.Position
	localS         float64
	bits           float64
	edgeS          float64 // on the aircraft's CPU
	delayWeight    float64 // of a second
	energyWeight   float64 // of offloading the whole task: its joules times the price
}

// cost returns the user's cost with the aircraft at q, and its gradient.
func (u *served) cost(l *link, q physics.Position) (y float64, dq physics.Position) {
	away := q.Sub(u.position)
	d := away.Norm()
	bitS, slope := l.at(d)
	offloadS := u.bits*bitS + u.edgeS
	sum := u.localS + offloadS
	y = (u.delayWeight*offloadS + u.energyWeight) * u.localS / sum
	dy := (u.delayWeight*u.localS - u.energyWeight) * u.localS / (sum * sum)
	if d == 0 {
		return y, physics.Position{}
	}
	return y, away.Scale(dy * u.bits * slope / d)
}

// curvature bounds the second derivatives of cost over the plane.
func (u *served) curvature(l *link) float64 {
	sum := u.localS + u.edgeS // the least of L + O
	delay := u.delayWeight * (u.localS / sum) * (u.localS / sum) * u.bits * l.curve
	energy := u.energyWeight * u.localS / (sum * sum) * (u.bits*l.concave + 2*u.bits*u.bits*l.slope*l.slope/sum)
	return delay + energy
}

// trajectoryProgram is the cost of a path at a fixed association.
type trajectoryProgram struct {
	constants    *physics.Constants
	link         *link
	users        []served
	energyWeight float64 // of a joule of flight

	positions []physics.Position // working memory
}

// surrogate returns the upper bound of the cost that touches it at an iterate, at the
// path of the velocities x, and writes its gradient into grad, if that is not nil.
// Velocities make a better conditioned program than positions: to move the rest of a
// path is a change of one of them.
func (p *trajectoryProgram) surrogate(iterate path, x, grad []float64) float64 {
	fleet := len(iterate[0])
	p.positions = append(p.positions[:0], iterate[0]...)
	for i := 0; i < len(x); i += 2 {
		p.positions = append(p.positions, p.positions[len(p.positions)-fleet].Add(physics.Position{EastM: x[i], NorthM: x[i+1]}))
	}
	position := func(t, m int) physics.Position { return p.positions[t*fleet+m] }
	add := func(t, m int, d physics.Position) { // to the gradient by a position
		if t > 0 && grad != nil {
			i := 2 * ((t-1)*fleet + m)
			grad[i] += d.EastM
			grad[i+1] += d.NorthM
		}
	}
	clear(grad)
	sum := 0.0
	for i := range p.users {
		u := &p.users[i]
		y, dy := u.cost(p.link, iterate[u.slot][u.aircraft])
		k, step := u.curvature(p.link), position(u.slot, u.aircraft).Sub(iterate[u.slot][u.aircraft])
		sum += y + dy.Dot(step) + k/2*step.Dot(step)
		add(u.slot, u.aircraft, dy.Add(step.Scale(k)))
	}
	limit := p.constants.SpeedMaxMPS * p.constants.SpeedMaxMPS
	for t := 1; t < len(iterate); t++ {
		for m := range fleet {
			v := position(t, m).Sub(position(t-1, m))
			w, dw := powerSurrogate(&p.constants.Propulsion, v, iterate[t][m].Sub(iterate[t-1][m]))
			sum += p.energyWeight * w
			dw = dw.Scale(p.energyWeight)
			if over := v.Dot(v) - limit; over > 0 { // C1
				sum += violation * over * over
				dw = dw.Add(v.Scale(4 * violation * over))
			}
			add(t, m, dw)
			add(t-1, m, dw.Scale(-1))
			outside := position(t, m).Sub(position(t, m).ClampToArea(p.constants.AreaSideM))
			sum += violation * outside.Dot(outside)
			add(t, m, outside.Scale(2*violation))
			for other := range m { // C2: 2 d0.d - d0.d0 >= D^2
				d0, d := iterate[t][m].Sub(iterate[t][other]), position(t, m).Sub(position(t, other))
				if short := p.constants.SeparationM*p.constants.SeparationM + d0.Dot(d0) - 2*d0.Dot(d); short > 0 {
					sum += violation * short * short
					add(t, m, d0.Scale(-4*violation*short))
					add(t, other, d0.Scale(4*violation*short))
				}
			}
		}
	}
	for i := len(grad) - 2*fleet - 1; i >= 0; i-- { // a velocity moves all later positions
		grad[i] += grad[i+2*fleet]
	}
	return sum
}

// violation is the weight of the squared violation of a constraint, in units of the
// cost over (m/s)^4 or m^2.
const violation = 1e-6

// velocities returns the steps of a path, as coordinates.
func (p path) velocities() (x []float64) {
	for t := 1; t < len(p); t++ {
		for m := range p[t] {
			v := p[t][m].Sub(p[t-1][m])
			x = append(x, v.EastM, v.NorthM)
		}
	}
	return x
}

// step minimises the surrogate at an iterate by L-BFGS, and goes towards the minimum until
// a position has moved by trustM. The surrogate is convex, so every part of the way
// lowers it.
func (p *trajectoryProgram) step(iterate path, iterations int, trustM float64) path {
	fleet := len(iterate[0])
	result, err := optimize.Minimize(optimize.Problem{
		Func: func(x []float64) float64 { return p.surrogate(iterate, x, nil) },
		Grad: func(grad, x []float64) { p.surrogate(iterate, x, grad) },
	}, iterate.velocities(), &optimize.Settings{MajorIterations: iterations}, &optimize.LBFGS{})
	if result == nil || err != nil && result.F > p.surrogate(iterate, iterate.velocities(), nil) {
		return iterate
	}
	minimum, longest := iterate.clone(), 0.0
	for t := 1; t < len(minimum); t++ {
		for m := range fleet {
			i := 2 * ((t-1)*fleet + m)
			minimum[t][m] = minimum[t-1][m].Add(physics.Position{EastM: result.X[i], NorthM: result.X[i+1]})
			longest = max(longest, minimum[t][m].Sub(iterate[t][m]).Norm())
		}
	}
	part := min(1, trustM/max(longest, 1e-9))
	for t := range minimum {
		for m := range fleet {
			way := minimum[t][m].Sub(iterate[t][m])
			minimum[t][m] = iterate[t][m].Add(way.Scale(part)).ClampToArea(p.constants.AreaSideM)
		}
	}
	return minimum
}
