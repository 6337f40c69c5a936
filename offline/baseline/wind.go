package baseline

import (
	"cmp"
	"math"
	"slices"

	"prefdt/inference/motion"
	"prefdt/inference/physics"
	"prefdt/inference/slot"
	"prefdt/simbridge/world"
)

// windFilter estimates the wind and the multiplier of flight power from what the
// aircraft took at their velocities over the ground. The wind is on a grid; at each of
// its cells the multiplier has a normal distribution, for power is linear in it.
type windFilter struct {
	windy, payload bool        // what there may be
	powerW         [64]float64 // by airspeed, at powerStepMPS
	cells          []windCell
	scratch        []windCell
}

// windCell is the weight of one wind, and the multiplier if that is the wind.
type windCell struct{ weight, mean, variance float64 }

const (
	windStepMPS    = 1.0
	windCells      = 33 // along each side: up to 16 m/s each way
	powerStepMPS   = 1.0
	windDiffusion  = 0.09 // m2/s2 a slot and axis, of turbulence and of the mean wind's turning
	powerNoise     = 0.05 // relative, of one reading
	payloadMean    = 1.05 // of the multiplier, before any reading
	payloadSD      = 0.15
	windMeanMPS    = 6.5 // of the wind's speed, before any reading
	windSD         = 2.3
	powerNoiseWind = 0.35 // m/s, of the wind within a cell
)

func newWindFilter(c *world.Config) *windFilter {
	f := &windFilter{windy: c.Wind.MeanMaxMPS > 0, payload: c.Payload.FactorMax > 0}
	for k := range f.powerW {
		f.powerW[k] = c.Physics.Propulsion.PowerW(float64(k) * powerStepMPS)
	}
	f.reset()
	return f
}

func (f *windFilter) reset() {
	f.cells = f.cells[:0]
	for i := range windCells * windCells {
		c := windCell{1, payloadMean, payloadSD * payloadSD}
		if !f.payload {
			c.mean, c.variance = 1, 1e-6
		}
		r := cellWind(i).Norm()
		x := (r - windMeanMPS) / windSD
		if c.weight = math.Exp(-x*x/2) / max(r, 1); !f.windy {
			c.weight = 0
			if r == 0 {
				c.weight = 1
			}
		}
		f.cells = append(f.cells, c)
	}
	f.normalise()
}

func cellWind(i int) physics.Position {
	const middle = windCells / 2
	return physics.Position{EastM: windStepMPS * float64(i%windCells-middle), NorthM: windStepMPS * float64(i/windCells-middle)}
}

// power returns the model's power at an airspeed, and its slope.
func (f *windFilter) power(airMPS float64) (watt, slope float64) {
	x := airMPS / powerStepMPS
	k := min(int(x), len(f.powerW)-2)
	slope = (f.powerW[k+1] - f.powerW[k]) / powerStepMPS
	return f.powerW[k] + slope*(airMPS-float64(k)*powerStepMPS), slope
}

// observe takes one aircraft's reading.
func (f *windFilter) observe(flown *slot.Flown) {
	ground := physics.Position{EastM: flown.EastMPS, NorthM: flown.NorthMPS}
	for i := range f.cells {
		c := &f.cells[i]
		if c.weight == 0 {
			continue
		}
		p, slope := f.power(ground.Sub(cellWind(i)).Norm())
		noise := c.mean * math.Hypot(powerNoise*p, powerNoiseWind*slope)
		variance := p*p*c.variance + noise*noise
		residual := flown.FlightJ - p*c.mean
		c.weight *= math.Exp(-residual*residual/(2*variance)) / math.Sqrt(variance)
		gain := p * c.variance / variance
		c.mean += gain * residual
		c.variance *= 1 - gain*p
	}
	f.normalise()
}

func (f *windFilter) normalise() {
	sum := 0.0
	for i := range f.cells {
		sum += f.cells[i].weight
	}
	if !(sum > 0) { // nothing explains the readings
		f.reset()
		return
	}
	for i := range f.cells {
		if f.cells[i].weight /= sum; f.cells[i].weight < 1e-9 {
			f.cells[i].weight = 0
		}
	}
}

// pass moves the wind on by a slot: each cell gives to its neighbours.
func (f *windFilter) pass() {
	if !f.windy {
		return
	}
	const give = windDiffusion / (2 * windStepMPS * windStepMPS) // to each of four
	f.scratch = append(f.scratch[:0], f.cells...)
	for i := range f.scratch {
		var w, mean, square float64
		take := func(c *windCell, share float64) {
			w += share * c.weight
			mean += share * c.weight * c.mean
			square += share * c.weight * (c.variance + c.mean*c.mean)
		}
		take(&f.scratch[i], 1-4*give)
		x, y := i%windCells, i/windCells
		for _, n := range [...]struct{ x, y int }{{x + 1, y}, {x - 1, y}, {x, y + 1}, {x, y - 1}} {
			if n.x >= 0 && n.x < windCells && n.y >= 0 && n.y < windCells {
				take(&f.scratch[n.y*windCells+n.x], give)
			}
		}
		if f.cells[i].weight = w; w > 0 {
			f.cells[i].mean = mean / w
			f.cells[i].variance = max(square/w-f.cells[i].mean*f.cells[i].mean, 1e-6)
		}
	}
}

// maxWinds is how many winds a belief has at most.
const maxWinds = 8

// air fills a with the likeliest winds, blocks of nine cells, and the mean multiplier.
func (f *windFilter) air(a *motion.Air) {
	const side = windCells / 3
	var blocks [side * side]motion.Wind
	for i := range f.cells {
		c := &f.cells[i]
		a.Multiplier += c.weight * c.mean
		b := &blocks[i/windCells/3*side+i%windCells/3]
		b.Probability += c.weight
		b.MPS = b.MPS.Add(cellWind(i).Scale(c.weight))
	}
	if !f.windy {
		return
	}
	slices.SortStableFunc(blocks[:], func(a, b motion.Wind) int { return cmp.Compare(b.Probability, a.Probability) })
	sum := 0.0
	for _, b := range blocks[:maxWinds] {
		sum += b.Probability
	}
	for _, b := range blocks[:maxWinds] {
		if b.Probability > 0.01 {
			a.Winds = append(a.Winds, motion.Wind{MPS: b.MPS.Scale(1 / b.Probability), Probability: b.Probability / sum})
		}
	}
}
