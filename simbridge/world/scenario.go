package world

import (
	"math"
	"math/rand/v2"
	"slices"

	"prefdt/inference/physics"
	"prefdt/inference/reuse"
)

// Scenario is all that the seed of an episode draws, and no decision changes: users,
// tasks, radio surroundings, wind, the power noise. Rollouts and the simulated users
// and autopilots of a flight share it. What lasts longer than a slot is drawn at
// Reset, for every slot; a slot outside the episode is like the nearest in it.
// Active uses working memory; all other methods may be called concurrently.
type Scenario struct {
	config *Config
	seed   uint64
	users  int

	windMPS       []physics.Position // by slot; none: calm
	payloadFactor float64

	// By row and user. Where users move a row is a slot, else there is one row.
	positions     []physics.Position // none: a trace has them
	positionRows  int
	sight, shadow azimuthField
	fieldRows     int // of both fields; a trace's users may move, too

	groupCentres []physics.Position // by slot and group
	hotGroups    []int              // by slot
	cpuHz        []float64          // by user, as reported
	throttled    []bool             // by slot and user; none: nobody ever is

	activeUsers []int // of the last slot asked for
	draws       draws
}

// draws are the draws of one purpose, of what persists. Its normal draws are Go's
// ziggurat, several times as fast as stream's; a walking world makes some 40,000.
type draws struct {
	stream
	normals *rand.Rand // over stream
}

// draw begins the draws of a purpose; they end where the next begin.
func (s *Scenario) draw(p purpose, user, index int) *draws {
	s.draws.stream = newStream(s.seed, p, 0, user, index)
	return &s.draws
}

// NewScenario draws the scenario of a seed. The configuration may not change while
// it is in use.
func NewScenario(c *Config, seed uint64) *Scenario {
	s := &Scenario{}
	s.Reset(c, seed)
	return s
}

// Reset draws another one in the same memory.
func (s *Scenario) Reset(c *Config, seed uint64) {
	s.config, s.seed, s.users = c, seed, c.UserCount()
	if s.draws.normals == nil {
		s.draws.normals = rand.New(&s.draws.stream)
	}
	s.drawWind()
	s.drawPayload()
	s.drawGroups()
	s.drawPositions()
	s.drawFields()
	s.drawCPUs()
}

func (s *Scenario) drawWind() {
	w := &s.config.Wind
	s.windMPS = s.windMPS[:0]
	if !w.blows() {
		return
	}
	d := s.draw(purposeWind, 0, 0)
	meanMPS, direction := d.between(w.MeanMinMPS, w.MeanMaxMPS), d.between(0, 2*math.Pi)
	turbulence := physics.Position{EastM: w.TurbulenceMPS * d.normals.NormFloat64(), NorthM: w.TurbulenceMPS * d.normals.NormFloat64()}
	for range s.config.Slots {
		sin, cos := math.Sincos(direction)
		s.windMPS = append(s.windMPS, physics.Position{EastM: meanMPS * cos, NorthM: meanMPS * sin}.Add(turbulence))
		direction += w.TurnRad * d.normals.NormFloat64()
		turbulence = gaussMarkov(turbulence, w.TurbulenceMemory, w.TurbulenceMPS, d)
	}
}

// gaussMarkov returns the next value of a first-order autoregressive process about
// zero, of that correlation between neighbours and stationary standard deviation per axis.
func gaussMarkov(x physics.Position, memory, deviation float64, d *draws) physics.Position {
	fresh := deviation * math.Sqrt(1-memory*memory)
	return physics.Position{EastM: memory*x.EastM + fresh*d.normals.NormFloat64(), NorthM: memory*x.NorthM + fresh*d.normals.NormFloat64()}
}

func (s *Scenario) drawPayload() {
	s.payloadFactor = 1
	if p := s.config.Payload; p.FactorMax > 0 {
		d := s.draw(purposePayload, 0, 0)
		s.payloadFactor = d.between(p.FactorMin, p.FactorMax)
	}
}

// drawGroups draws the centres of the groups, by slot and group, and the hot ones.
func (s *Scenario) drawGroups() {
	g, side := &s.config.Groups, s.config.Physics.AreaSideM
	s.groupCentres, s.hotGroups = s.groupCentres[:0], s.hotGroups[:0]
	if g.Count == 0 || s.config.Trace != nil {
		return
	}
	d := s.draw(purposeHotGroup, 0, 0)
	hot := d.intn(g.Count)
	for range s.config.Slots {
		s.hotGroups = append(s.hotGroups, hot)
		if d.uniform() < g.ChangeProbability && g.Count > 1 {
			hot = (hot + 1 + d.intn(g.Count-1)) % g.Count
		}
	}
	s.groupCentres = reuse.Slice(s.groupCentres, g.Count*s.config.Slots)
	for i := range g.Count {
		const margin = 0.1
		d := s.draw(purposeGroups, i, 0)
		at := physics.Position{EastM: d.between(margin*side, (1-margin)*side), NorthM: d.between(margin*side, (1-margin)*side)}
		sin, cos := math.Sincos(d.between(0, 2*math.Pi))
		mean, deviation := physics.Position{EastM: g.SpeedMPS * cos, NorthM: g.SpeedMPS * sin}, physics.Position{}
		for slot := range s.config.Slots {
			s.groupCentres[slot*g.Count+i] = at
			deviation = gaussMarkov(deviation, g.Memory, g.SpeedSDMPS, d)
			at = at.Add(mean).Add(deviation)
			reflectAtEdge(&at.EastM, &mean.EastM, &deviation.EastM, side)
			reflectAtEdge(&at.NorthM, &mean.NorthM, &deviation.NorthM, side)
		}
	}
}

// reflectAtEdge reflects a coordinate, and its velocity, at the edges of the area.
func reflectAtEdge(x, mean, deviation *float64, side float64) {
	switch {
	case *x < 0:
		*x = min(-*x, side)
	case *x > side:
		*x = max(2*side-*x, 0)
	default:
		return
	}
	*mean, *deviation = -*mean, -*deviation
}

// drawPositions draws where the users are. Those that walk hold at the area's edge.
func (s *Scenario) drawPositions() {
	c := s.config
	if s.positions = s.positions[:0]; c.Trace != nil {
		return
	}
	s.positionRows = 1
	if c.usersMove() {
		s.positionRows = c.Slots
	}
	s.positions = reuse.Slice(s.positions, s.positionRows*s.users)
	for u := range s.users {
		d := s.draw(purposePositions, u, 0)
		var at, velocity physics.Position // at: relative to the centre of its group, if there are groups
		if c.Groups.Count > 0 {
			at = physics.Position{EastM: c.Groups.SpreadM * d.normals.NormFloat64(), NorthM: c.Groups.SpreadM * d.normals.NormFloat64()}
		} else {
			at = physics.Position{EastM: d.between(0, c.Physics.AreaSideM), NorthM: d.between(0, c.Physics.AreaSideM)}
		}
		d = s.draw(purposeWalking, u, 0)
		for row := range s.positionRows {
			if c.Groups.Count > 0 {
				centre := s.groupCentres[row*c.Groups.Count+u%c.Groups.Count]
				s.positions[row*s.users+u] = centre.Add(at).ClampToArea(c.Physics.AreaSideM)
			} else {
				at = at.ClampToArea(c.Physics.AreaSideM)
				s.positions[row*s.users+u] = at
			}
			if c.Walking.SpeedSDMPS > 0 {
				velocity = gaussMarkov(velocity, c.Walking.Memory, c.Walking.SpeedSDMPS, d)
				at = at.Add(velocity)
			}
		}
	}
}

// drawFields draws the surroundings of the users, which change as they move.
func (s *Scenario) drawFields() {
	c := s.config
	s.sight.setAngle(c.SkylineDeg)
	s.shadow.setAngle(c.ShadowingDeg)
	s.fieldRows = 1
	if c.Trace != nil || c.usersMove() {
		s.fieldRows = c.Slots
	}
	for i, f := range []*azimuthField{&s.sight, &s.shadow} {
		if !f.on() {
			continue
		}
		f.coefficients = slices.Grow(f.coefficients[:0], s.fieldRows*s.users*f.size())[:s.fieldRows*s.users*f.size()]
		for u := range s.users {
			d := s.draw(purposeSurroundings, u, i)
			f.drawAt(u, nil, 0, d)
			for row := 1; row < s.fieldRows; row++ {
				metres := s.UserPosition(row, u).Sub(s.UserPosition(row-1, u)).Norm()
				f.drawAt(row*s.users+u, f.of((row-1)*s.users+u), metres, d)
			}
		}
	}
}

// drawCPUs draws the users' nominal speeds and their spells of throttling.
func (s *Scenario) drawCPUs() {
	c, t := s.config, &s.config.Throttling
	s.cpuHz = s.cpuHz[:0]
	for u := range s.users {
		hz := c.UserCPUHz
		if c.UserCPUMaxHz > 0 {
			d := s.draw(purposeCPU, u, 0)
			hz = c.UserCPUMinHz * math.Exp(d.uniform()*math.Log(c.UserCPUMaxHz/c.UserCPUMinHz))
		}
		s.cpuHz = append(s.cpuHz, hz)
	}
	if s.throttled = s.throttled[:0]; t.Factor == 0 {
		return
	}
	s.throttled = reuse.Slice(s.throttled, c.Slots*s.users)
	for u := range s.users {
		d := s.draw(purposeThrottling, u, 0)
		on := d.uniform() < t.Duty()
		for slot := range c.Slots {
			s.throttled[slot*s.users+u] = on
			mean := t.MeanOffS
			if on {
				mean = t.MeanOnS
			}
			if d.uniform() < 1/mean {
				on = !on
			}
		}
	}
}

// nearest returns the nearest to a slot of so many.
func nearest(slot, slots int) int { return min(max(slot, 0), slots-1) }

// UserPosition returns where a user is in a slot.
func (s *Scenario) UserPosition(slot, user int) physics.Position {
	if s.config.Trace != nil {
		return s.config.Trace.Position(user, slot)
	}
	return s.positions[nearest(slot, s.positionRows)*s.users+user]
}

// ReportedCPUHz returns the speed that a user reports, which is the one its CPU has
// unless it is throttled.
func (s *Scenario) ReportedCPUHz(user int) float64 { return s.cpuHz[user] }

// Throttled reports whether a user's CPU is throttled in a slot.
func (s *Scenario) Throttled(slot, user int) bool {
	return len(s.throttled) > 0 && s.throttled[nearest(slot, s.config.Slots)*s.users+user]
}

// CPUHz returns the speed that a user's CPU has in a slot.
func (s *Scenario) CPUHz(slot, user int) float64 {
	if s.Throttled(slot, user) {
		return s.cpuHz[user] * s.config.Throttling.Factor
	}
	return s.cpuHz[user]
}

// WindMPS returns the wind of a slot, turbulence included: the velocity of the air
// over the ground, in m/s east and north.
func (s *Scenario) WindMPS(slot int) physics.Position {
	if len(s.windMPS) == 0 {
		return physics.Position{}
	}
	return s.windMPS[nearest(slot, len(s.windMPS))]
}

// PowerFactor returns flight power in a slot over eq. (prop) at the air speed: payload
// and shock, without the noise.
func (s *Scenario) PowerFactor(slot int) float64 {
	return s.payloadFactor * s.config.PropulsionFactor(slot)
}

// FlightPowerW returns the power that an aircraft draws in a slot at a velocity over
// the ground: eq. (prop) of its speed through the air, times PowerFactor and the
// slot's noise.
func (s *Scenario) FlightPowerW(slot, aircraft int, velocityMPS physics.Position) float64 {
	c := s.config
	power := c.Physics.Propulsion.PowerW(velocityMPS.Sub(s.WindMPS(slot)).Norm()) * s.PowerFactor(slot)
	if c.Gust > 0 {
		d := newStream(s.seed, purposeGust, slot, 0, aircraft)
		power *= max(0, 1+c.Gust*d.normal())
	}
	return power
}

// Gain returns the power gains between a user and an aircraft in a slot: the one that
// the user's report has, and the one that an upload in that slot runs at. They are
// the same unless the report is a sounding. toAircraft is the horizontal vector from
// the user to the aircraft.
func (s *Scenario) Gain(slot, user, aircraft int, toAircraft physics.Position) (reported, upload float64) {
	c := s.config
	channel := &c.Physics.Channel
	d := newStream(s.seed, purposeChannel, slot, user, aircraft)
	sight, shadow, horizontalM := d.uniform(), d.normal(), toAircraft.Norm()
	if s.sight.on() || s.shadow.on() {
		sin, cos := 0.0, 1.0
		if horizontalM > 0 {
			sin, cos = toAircraft.NorthM/horizontalM, toAircraft.EastM/horizontalM
		}
		index := nearest(slot, s.fieldRows)*s.users + user
		if s.sight.on() { // uniform, so that line of sight keeps its probability
			sight = math.Erfc(-s.sight.at(index, sin, cos)/math.Sqrt2) / 2
		}
		if s.shadow.on() {
			shadow = s.shadow.at(index, sin, cos)
		}
	}
	link := channel.NLoS
	if sight < channel.LoSProbability(horizontalM, c.Physics.AltitudeM) {
		link = channel.LoS
	}
	db := link.ShadowDB*shadow - link.ExcessDB
	if c.PathLossExponent > 0 {
		db -= 10 * (c.PathLossExponent - 2) * math.Log10(math.Hypot(horizontalM, c.Physics.AltitudeM))
	}
	largeScale := channel.FreeSpaceGain(horizontalM, c.Physics.AltitudeM) * math.Exp(db*math.Ln10/10)
	reported = largeScale * d.gamma(int(link.NakagamiM))
	if c.Sounding {
		return reported, largeScale * link.TypicalFading()
	}
	return reported, reported
}

// Active appends the users that are active in a slot to dst, in their order and without
// gains. One whose task has no bits is idle: it reports, and has nothing to compute.
func (s *Scenario) Active(slot int, dst []Arrival) []Arrival {
	c := s.config
	if c.Trace != nil {
		for _, r := range c.Trace.Rows(slot) {
			dst = append(dst, Arrival{User: r.User, Task: r.Task})
		}
		return dst
	}
	s.drawActive(slot)
	for _, u := range s.activeUsers {
		a := Arrival{User: u}
		t := newStream(s.seed, purposeTask, slot, u, 0)
		if t.uniform() < s.taskProbability(slot, u) {
			a.Task = physics.Task{
				Bits:         t.between(c.BitsMin, c.BitsMax),
				CyclesPerBit: c.CyclesPerBit,
				DeadlineS:    t.between(c.DeadlineMinS, c.DeadlineMaxS),
			}
		}
		dst = append(dst, a)
	}
	return dst
}

// taskProbability returns the probability that an active user has a task.
func (s *Scenario) taskProbability(slot, user int) float64 {
	g := &s.config.Groups
	switch {
	case g.Count == 0:
		return s.config.TaskProbability
	case user%g.Count == s.hotGroups[nearest(slot, len(s.hotGroups))]:
		return g.HotTaskProbability
	}
	return g.OtherTaskProbability
}

// drawActive draws which users are active in a slot. In groups all are.
func (s *Scenario) drawActive(slot int) {
	c := s.config
	for c.ActiveMemory > 0 && slot > 0 {
		kept := newStream(s.seed, purposeActiveMemory, slot, 0, 0)
		if kept.uniform() >= c.ActiveMemory {
			break
		}
		slot--
	}
	d := newStream(s.seed, purposeActive, slot, 0, 0)
	high := min(c.ActiveMax, c.Users)
	low := min(c.ActiveMin, high)
	n, users := low+d.intn(high-low+1), c.Users
	if c.Groups.Count > 0 {
		n = c.Users
	}
	if f := c.Demand.at(slot); f != 1 {
		n, users = int(math.Round(f*float64(n))), s.users
	}
	members := s.activeUsers[:0]
	for u := range users {
		members = append(members, u)
	}
	for i := range n { // the first n of a Fisher-Yates shuffle
		j := i + d.intn(len(members)-i)
		members[i], members[j] = members[j], members[i]
	}
	s.activeUsers = members[:n]
	slices.Sort(s.activeUsers)
}

// ReportLost draws whether a user's report of a slot is lost, at a loss rate.
func (c *Config) ReportLost(seed uint64, slot, user int, rate float64) bool {
	d := newStream(seed, purposeReport, slot, user, 0)
	return d.uniform() < rate
}

// UserCount returns the number of users, the trace's if there is one.
func (c *Config) UserCount() int {
	if c.Trace != nil {
		return len(c.Trace.Users)
	}
	return int(math.Ceil(float64(c.Users) * max(c.Demand.Factor, 1)))
}
