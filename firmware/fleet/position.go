package fleet

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/bluenviron/gomavlib/v3/pkg/dialects/common"

	"prefdt/firmware/height"
	"prefdt/inference/physics"
)

// Origin is the fleet's geodetic origin, the area's south-west corner.
type Origin struct {
	LatitudeDeg  float64         `yaml:"latitude_deg" json:"latitude_deg"`
	LongitudeDeg float64         `yaml:"longitude_deg" json:"longitude_deg"`
	AltitudeM    height.AboveSea `yaml:"amsl_m" json:"amsl_m"`
}

// Check returns what is wrong with an origin. The tangent plane is not usable at a pole.
func (o Origin) Check() error {
	if !(math.Abs(o.LatitudeDeg) <= 85) || !(math.Abs(o.LongitudeDeg) <= 180) || !(math.Abs(float64(o.AltitudeM)) <= 9000) {
		return fmt.Errorf("origin is %v deg, %v deg, %v m, want -85 to 85, -180 to 180, -9000 to 9000",
			o.LatitudeDeg, o.LongitudeDeg, o.AltitudeM)
	}
	return nil
}

// WGS84.
const (
	semiMajorM          = 6378137.0
	flattening          = 1 / 298.257223563
	eccentricitySquared = flattening * (2 - flattening)
)

// Local returns a geodetic position in metres east and north in the WGS84
// tangent plane at the origin, and its altitude above the origin's. Altitudes
// above sea level stand for those above the ellipsoid: the geoid is level to
// millimetres over a fleet's area.
func (o Origin) Local(latitudeDeg, longitudeDeg float64, amslM height.AboveSea) (physics.Position, height.AboveOrigin) {
	east, north := o.eastNorth(latitudeDeg, longitudeDeg, amslM)
	return physics.Position{EastM: east, NorthM: north}, height.AboveOrigin(amslM - o.AltitudeM)
}

// aboveSea is a height above the origin, as MAVLink has it.
func (o Origin) aboveSea(upM height.AboveOrigin) height.AboveSea {
	return o.AltitudeM + height.AboveSea(upM)
}

// Geodetic inverts Local. Newton's steps with the ellipsoid's radii of
// curvature for a Jacobian gain three digits or more each over a few kilometres.
func (o Origin) Geodetic(p physics.Position, upM height.AboveOrigin) (latitudeDeg, longitudeDeg float64, amslM height.AboveSea) {
	lat, lon, amslM := o.LatitudeDeg, o.LongitudeDeg, o.aboveSea(upM)
	alt := float64(amslM)
	for range 5 {
		east, north := o.eastNorth(lat, lon, amslM)
		sin, cos := math.Sincos(lat * math.Pi / 180)
		w := 1 - eccentricitySquared*sin*sin
		prime := semiMajorM / math.Sqrt(w)
		meridian := prime * (1 - eccentricitySquared) / w
		lat += (p.NorthM - north) / (meridian + alt) * 180 / math.Pi
		lon += (p.EastM - east) / ((prime + alt) * cos) * 180 / math.Pi
	}
	return lat, math.Remainder(lon, 360), amslM // an area may lie across the 180th meridian
}

// eastNorth returns east and north of the origin by way of earth-centred coordinates.
func (o Origin) eastNorth(latitudeDeg, longitudeDeg float64, amslM height.AboveSea) (eastM, northM float64) {
	x0, y0, z0 := toECEF(o.LatitudeDeg, o.LongitudeDeg, float64(o.AltitudeM))
	x, y, z := toECEF(latitudeDeg, longitudeDeg, float64(amslM))
	dx, dy, dz := x-x0, y-y0, z-z0
	sinLat, cosLat := math.Sincos(o.LatitudeDeg * math.Pi / 180)
	sinLon, cosLon := math.Sincos(o.LongitudeDeg * math.Pi / 180)
	return -sinLon*dx + cosLon*dy, -sinLat*cosLon*dx - sinLat*sinLon*dy + cosLat*dz
}

func toECEF(latitudeDeg, longitudeDeg, altitudeM float64) (x, y, z float64) {
	sinLat, cosLat := math.Sincos(latitudeDeg * math.Pi / 180)
	sinLon, cosLon := math.Sincos(longitudeDeg * math.Pi / 180)
	prime := semiMajorM / math.Sqrt(1-eccentricitySquared*sinLat*sinLat)
	return (prime + altitudeM) * cosLat * cosLon, (prime + altitudeM) * cosLat * sinLon,
		(prime*(1-eccentricitySquared) + altitudeM) * sinLat
}

// Which positions are believed is decided here alone. One that does not follow from the
// last believed one is dropped and counted: late ones come over a second way, receivers
// without a fix send constants, and estimates jump for a second. What stays different is
// believed in the end, and shows a reboot if the autopilot's clock began again.

const (
	positionErrorM = 10.0    // a fix may jump by so much
	speedMarginMPS = 10.0    // an aircraft may have been faster in between than it reported
	impossibleMPS  = 100.0   // no aircraft here flies or falls so fast
	impossibleUpM  = 20000.0 // nor so high
	clockSlackMS   = 2000.0  // messages are delayed by times that differ by so much
	clockFastest   = 1.1     // an autopilot's clock runs no faster than this against mission time
	rebootConfirmS = 0.5     // a reboot is believed after so long, and
	rebootConfirmN = 3       // so many positions by the new clock
	twinN          = 20      // positions of each of two autopilots show them, unless their clocks and places are
	twinApartMS    = 5000.0  // nearer than this, and than positionErrorM: copies come late over a second way
	twinForgottenS = 3.0
	// Two that were switched on together are shown by their places alone: what one autopilot says of nearly the same moment, over
	// however many ways, differs by less than this while it stands.
	twinNearM   = 0.3
	twinSameMS  = 100.0
	stoodCount  = 128 // positions that are kept for that: two autopilots' of more than twinApartMS
	stoodMaxMPS = 1.0
	twinScatter = 3.0 // the two places are further apart than so many times the scatter of positions at each: a receiver errs
)

// positionSample is one position as it was received.
type positionSample struct {
	bootMS    uint32
	receivedS float64
	position  physics.Position
	upM       height.AboveOrigin
	velocity  physics.Position
	climbMPS  float64
}

// unconfirmed has the last of the positions that are not believed, and since when they follow
// from each other.
type unconfirmed struct {
	last   positionSample
	sinceS float64
	count  int
	reboot bool // they are of an autopilot that booted since the last believed one
}

// believedPosition reads a position, and counts it if it is not believed.
func (a *aircraft) believedPosition(f *Fleet, now float64, m *common.MessageGlobalPositionInt) (s positionSample, ok bool) {
	s = positionSample{bootMS: m.TimeBootMs, receivedS: now, climbMPS: -float64(m.Vz) / 100,
		velocity: physics.Position{EastM: float64(m.Vy) / 100, NorthM: float64(m.Vx) / 100}}
	s.position, s.upM = f.Origin.Local(float64(m.Lat)/1e7, float64(m.Lon)/1e7, height.AboveSea(m.Alt)/1000)
	why := ""
	switch {
	case m.Lat == 0 && m.Lon == 0, math.Abs(float64(m.Lat)) > 90e7, math.Abs(float64(m.Lon)) > 180e7: // INT32_MAX too
		why = "position without a fix"
	case s.speedMPS() > impossibleMPS, s.upM.Off(0) > impossibleUpM:
		why = "impossible speed or height"
	case !a.located && a.unconfirmed.count == 0: // it is believed with the second, and nothing is wrong with it
		a.unconfirmed = unconfirmed{last: s, sinceS: now, count: 1}
		return s, false
	default:
		a.heights.witness(f, a, &s)
		why = a.disbelief(f, &s)
	}
	a.noteTrack(&s)
	if why != "" {
		f.rejectFrame(why)
	}
	return s, why == ""
}

// track is positions that follow from each other.
type track struct {
	last  positionSample
	count int
}

// noteTrack finds out whether two autopilots send with one system id: their positions make two tracks, which go on beside
// each other. A command would reach both.
func (a *aircraft) noteTrack(s *positionSample) {
	k := slices.IndexFunc(a.tracks[:], func(t track) bool { return t.count > 0 && s.follows(&t.last) })
	if k < 0 {
		if k = 0; a.tracks[1].last.receivedS < a.tracks[0].last.receivedS {
			k = 1
		}
		a.tracks[k] = track{}
	}
	a.tracks[k].last, a.tracks[k].count = *s, a.tracks[k].count+1
	other := &a.tracks[1-k]
	apart := math.Abs(s.sinceMS(&other.last)) > twinApartMS || s.position.Sub(other.last.position).Norm() > positionErrorM
	if apart && min(a.tracks[k].count, other.count) >= twinN && s.receivedS-other.last.receivedS < staleAfterS {
		a.twinS = s.receivedS
	}
	if a.stood.contradicts(s) >= twinN && a.stood.inTwoPlaces(s) {
		a.twinS = s.receivedS
	}
}

// stood has the last positions of what stands still, the oldest of them at next, and the times of the last ones that others of
// nearly the same moment contradict: one autopilot stands at one place.
type stood struct {
	last         []positionSample
	next         int
	contradicted []float64
}

// inTwoPlaces is whether the positions of the last seconds are at two places, that of the last one and that of the one furthest from
// it, and not scattered about one.
func (x *stood) inTwoPlaces(s *positionSample) bool {
	apart := func(a, b *positionSample) float64 {
		return math.Hypot(a.position.Sub(b.position).Norm(), a.upM.Off(b.upM))
	}
	var recent []positionSample
	for _, o := range x.last {
		if s.receivedS-o.receivedS < twinForgottenS {
			recent = append(recent, o)
		}
	}
	far := slices.MaxFunc(recent, func(a, b positionSample) int { return cmp.Compare(apart(&a, s), apart(&b, s)) })
	places, counts := [2]positionSample{*s, far}, [2]int{}
	for range 3 { // the means of those nearest to each
		var sums [2]physics.Position
		var upM [2]float64
		counts = [2]int{}
		for i := range recent {
			k := 0
			if apart(&recent[i], &places[1]) < apart(&recent[i], &places[0]) {
				k = 1
			}
			sums[k], upM[k], counts[k] = sums[k].Add(recent[i].position), upM[k]+float64(recent[i].upM), counts[k]+1
		}
		for k, n := range counts {
			if n > 0 {
				places[k].position, places[k].upM = sums[k].Scale(1/float64(n)), height.AboveOrigin(upM[k]/float64(n))
			}
		}
	}
	square := 0.0
	for i := range recent {
		d := min(apart(&recent[i], &places[0]), apart(&recent[i], &places[1]))
		square += d * d / float64(len(recent))
	}
	return min(counts[0], counts[1]) >= twinN/2 && apart(&places[0], &places[1]) > max(twinNearM, twinScatter*math.Sqrt(square))
}

// contradicts adds a position, and returns how many, up to twinN, were contradicted in the last seconds.
func (x *stood) contradicts(s *positionSample) int {
	if s.bootMS == 0 || s.speedMPS() > stoodMaxMPS {
		return 0
	}
	other := func(o positionSample) bool {
		return s.receivedS-o.receivedS < 2*twinForgottenS && math.Abs(s.sinceMS(&o)) <= twinSameMS &&
			math.Hypot(s.position.Sub(o.position).Norm(), s.upM.Off(o.upM)) > twinNearM+stoodMaxMPS*twinSameMS/1000
	}
	if slices.ContainsFunc(x.last, other) {
		x.contradicted = append(x.contradicted[max(0, len(x.contradicted)+1-twinN):], s.receivedS)
	}
	x.contradicted = slices.DeleteFunc(x.contradicted, func(atS float64) bool { return s.receivedS-atS > twinForgottenS })
	if len(x.last) < stoodCount {
		x.last = append(x.last, *s)
		return len(x.contradicted)
	}
	x.last[x.next], x.next = *s, (x.next+1)%stoodCount
	return len(x.contradicted)
}

func (s *positionSample) speedMPS() float64 { return math.Hypot(s.velocity.Norm(), s.climbMPS) }

// sinceMS is the time from an earlier sample by the autopilot's clock, which wraps.
func (s *positionSample) sinceMS(last *positionSample) float64 {
	return float64(int32(s.bootMS - last.bootMS))
}

// mostMS is how far an autopilot's clock may have run since an earlier sample.
func (s *positionSample) mostMS(last *positionSample) float64 {
	return clockFastest*1000*(s.receivedS-last.receivedS) + clockSlackMS
}

// inTime is whether a sample continues the clock of an earlier one.
func (s *positionSample) inTime(last *positionSample) bool {
	d := s.sinceMS(last)
	return d >= 0 && d <= s.mostMS(last)
}

// inReach is whether an aircraft can have flown from an earlier sample to this one.
func (s *positionSample) inReach(last *positionSample) bool {
	seconds := math.Max(s.sinceMS(last)/1000, s.receivedS-last.receivedS)
	way := math.Hypot(s.position.Sub(last.position).Norm(), s.upM.Off(last.upM))
	return way <= positionErrorM+(math.Max(s.speedMPS(), last.speedMPS())+speedMarginMPS)*seconds
}

// follows is whether the aircraft of an earlier sample can have sent this one.
func (s *positionSample) follows(last *positionSample) bool { return s.inTime(last) && s.inReach(last) }

// disbelief returns why a position is dropped, or is empty.
func (a *aircraft) disbelief(f *Fleet, s *positionSample) (why string) {
	last := positionSample{uint32(int64(a.bootMS)), a.positionS, a.position, a.upM, a.velocity, a.climbMPS}
	since := s.sinceMS(&last)
	inTime := a.located && since >= 0 && a.bootMS+since <= a.clockRate.mostMS(s.receivedS)
	if inTime && s.inReach(&last) {
		a.bootMS += since
		a.unconfirmed = unconfirmed{}
		return ""
	}
	switch {
	case inTime, !a.located:
		why = "position too far from the last"
	case s.bootMS == 0:
		return "position without a time"
	case since < 0:
		why = "position out of order"
	default:
		why = "position ahead of its time"
	}
	d := a.unconfirmed
	if d.count == 0 || !s.follows(&d.last) {
		d = unconfirmed{sinceS: s.receivedS}
	}
	d.last, d.count = *s, d.count+1
	// Since the last believed position was sent an autopilot cannot have run for longer than time has.
	last.receivedS = a.clockRate.sentS(a.bootMS, a.positionS)
	d.reboot = a.located && !inTime && float64(s.bootMS) <= s.mostMS(&last)
	a.unconfirmed = d
	ahead := a.located && !d.reboot && since > 0 && !inTime
	switch lastsS := s.receivedS - d.sinceS; {
	case d.reboot && d.count >= rebootConfirmN && lastsS >= rebootConfirmS:
	case ahead && lastsS > staleAfterS:
	case d.count > 1 && !a.located && a.continuesTrack(f, s): // there is nothing that contradicts it
	case lastsS > staleAfterS && !(a.located && s.receivedS-a.positionS <= LostAfterS): // nor anything else to believe
	default:
		return why
	}
	switch {
	case inTime:
		a.bootMS += since
	case a.located && !ahead:
		s.upM = a.heights.restarted(a.upM, s.upM)
		a.handleReboot(f, s.receivedS-float64(s.bootMS)/1000)
		a.clockRate, a.bootMS = clockRate{}, float64(s.bootMS)
	case a.located:
		a.clockRate, a.bootMS = clockRate{}, unwrapped(s.bootMS, a.bootMS)
	default:
		a.clockRate, a.bootMS = clockRate{}, unwrapped(s.bootMS, 1000*a.restoredBootS)
	}
	if a.located {
		f.Log.Warn("positions that did not follow are believed now", "aircraft", a.number, "reason",
			fmt.Sprintf("%s, for %.1f s", why, s.receivedS-d.sinceS))
	}
	a.unconfirmed = unconfirmed{}
	return ""
}

// unwrapped is an autopilot's time since its boot, ms, which goes on from an earlier one: its 32 bits begin anew after 49.7 days. It
// does not where more than an hour had to pass for that: the autopilot has rebooted, then.
func unwrapped(ms uint32, beforeMS float64) float64 {
	const wrapMS, mostMS = 1 << 32, 3600e3
	if x := float64(ms) + wrapMS*math.Ceil((beforeMS-float64(ms))/wrapMS); x-beforeMS <= mostMS {
		return x
	}
	return float64(ms)
}

// continuesTrack is whether an aircraft can have come to a position since the previous leader
// process saved where it may be.
func (a *aircraft) continuesTrack(f *Fleet, s *positionSample) bool {
	sinceS := unwrapped(s.bootMS, 1000*a.restoredBootS)/1000 - a.restoredBootS
	if len(a.lastKnownTrack) == 0 || a.restoredBootS == 0 || sinceS < 0 {
		return true
	}
	reachM := positionErrorM + (math.Max(s.speedMPS(), f.Physics.SpeedMaxMPS)+speedMarginMPS)*(sinceS+clockSlackMS/1000)
	for i, corner := range a.lastKnownTrack {
		reachM += corner.Sub(a.lastKnownTrack[max(i-1, 0)]).Norm()
	}
	return s.position.Sub(a.lastKnownTrack[0]).Norm() <= reachM
}

// mayHaveRebooted is whether the last positions are of an autopilot that booted, or seem to
// be: nothing is sent that moves an aircraft, until they are believed or others come.
func (a *aircraft) mayHaveRebooted() bool { return a.unconfirmed.reboot && a.unconfirmed.count > 1 }

// rateWindowS is how long an autopilot's clock is compared with the leader's before its
// rate is known.
const rateWindowS = 5.0

// clockRate is how fast an autopilot's clock runs against mission time. A delayed
// message shows a smaller rate, so the least delayed one of each second counts.
type clockRate struct {
	first, last    clockSample // of the first second, and of the present one
	beganS         float64
	rateFromS      float64 // of first
	latest         clockSample
	presentSecondS float64
	measuredMSPerS float64     // ms per mission second; 0: not known
	prompt         clockSample // the one that took least to arrive, of the last minute or two
	nextPrompt     clockSample // the same since promptFromS, which takes its place a minute later
	promptFromS    float64
}

// clockSample is an autopilot's time since boot, and when it was received.
type clockSample struct{ bootMS, receivedS float64 }

// delayedMoreThan is whether a sample took longer to arrive than another.
func (a clockSample) delayedMoreThan(b clockSample) bool {
	return a.bootMS-1000*a.receivedS < b.bootMS-1000*b.receivedS
}

func (r *clockRate) add(ms, now float64) {
	s := clockSample{ms, now}
	if r.beganS == 0 {
		*r = clockRate{first: s, last: s, beganS: now, rateFromS: now, latest: s, presentSecondS: now, prompt: s, nextPrompt: s,
			promptFromS: now}
	}
	if now-r.promptFromS > promptForS { // s alone may be one of a full buffer
		r.prompt, r.nextPrompt, r.promptFromS = r.nextPrompt, s, now
	}
	for _, p := range [...]*clockSample{&r.prompt, &r.nextPrompt} {
		if p.delayedMoreThan(s) {
			*p = s
		}
	}
	// An autopilot that was rebooted soon after its boot shows no time that goes back: it was silent,
	// and its clock shows less than half of that. The rate is measured anew. So it is where one sample alone came
	// before a silence: it may have waited in a buffer, and would show a clock that is too fast for a minute.
	const silentS, interruptedS = 2, 1
	if silence := now - r.latest.receivedS; silence > silentS && ms-r.latest.bootMS < 500*silence ||
		silence > interruptedS && r.latest == r.first {
		r.first, r.last, r.rateFromS, r.presentSecondS, r.measuredMSPerS = s, s, now, now, 0
	}
	r.latest = s
	if now-r.rateFromS < 1 && r.first.delayedMoreThan(s) {
		r.first = s
	}
	if r.last.delayedMoreThan(s) || now-r.presentSecondS >= 1 {
		if now-r.presentSecondS >= 1 {
			if d := r.last.receivedS - r.first.receivedS; d > rateWindowS {
				r.measuredMSPerS = math.Max((r.last.bootMS-r.first.bootMS)/d, 0)
			}
			r.presentSecondS = now
		}
		r.last = s
	}
}

// mostMS is the most that the autopilot's clock can show now: messages are late, never
// early, and what waited in a buffer may be followed by a message that did not. What comes
// first may all have waited: for a while nothing is too much.
func (r *clockRate) mostMS(now float64) float64 {
	if now-r.beganS < clockSlackMS/1000 {
		return math.Inf(1)
	}
	return r.prompt.bootMS + clockFastest*1000*(now-r.prompt.receivedS) + clockSlackMS
}

// sentS is when a message was sent that was received later: no message is known to have
// been faster than the promptest.
func (r *clockRate) sentS(bootMS, receivedS float64) float64 {
	return math.Min(r.prompt.receivedS+(bootMS-r.prompt.bootMS)/r.msPerS(), receivedS)
}

// promptForS is for how long the promptest sample is looked for. Clocks drift.
const promptForS = 60

// msPerS is the rate, or the nominal one where it is not known.
func (r *clockRate) msPerS() float64 {
	if r.measuredMSPerS > 0 {
		return r.measuredMSPerS
	}
	return 1000
}

// ratio is the rate in seconds per mission second, NaN while it is not known.
func (r *clockRate) ratio() float64 {
	if r.measuredMSPerS == 0 {
		return math.NaN()
	}
	return r.measuredMSPerS / 1000
}

// lateness is by how much messages of the last seconds came later than the promptest. A battery's
// messages do not say when they were sent; positions, which come the same way, do.
type lateness struct{ mostS, receivedS float64 }

// add enters that of a message, be it out of order. One that seems later than staleAfterS has another clock.
func (l *lateness) add(lateS, now float64) {
	if lateS < staleAfterS && lateS >= l.at(now) {
		*l = lateness{lateS, now}
	}
}

// at is the most of the last seconds: the longer ago, the less it counts.
func (l *lateness) at(now float64) float64 {
	const forgottenS = 4
	return l.mostS * math.Exp((l.receivedS-now)/forgottenS)
}

// An aircraft's reported height can jump although it does not climb: its estimator took another source, as a receiver for the
// barometer. Setpoints are heights above sea level, so that it would sink or climb by as much, down to the ground. Its climb rate is
// a second witness: a step that it contradicts is no motion. In flight heights are those that follow without the steps, and what is
// commanded is moved by them. What changes slowly is no step: a climb rate may be wrong, too.

const (
	heightJumpM    = 10.0 // steps that add up to more are a jump, once they have for
	heightConfirmS = 1.0
	heightStepM    = 2.0  // between two positions heights may differ by so much from what was climbed,
	heightGapMPS   = 10.0 // and by as much more as it may have climbed meanwhile,
	heightGapS     = 0.2  // where they are further apart than this
	heightForgetS  = 20.0 // steps that are no jump are forgotten in about so long
)

// heightWitness compares an aircraft's reported heights with its climb rates.
type heightWitness struct {
	jumpedM float64        // the jumps of this flight that were believed, together
	last    positionSample // as reported; no time: none
	stepsM  float64        // the steps since
	jumpsS  float64        // they are a jump since; 0: they are not
	jumpsMS uint32         // likewise, by its autopilot's clock
}

// add adds a position as it was reported, and returns by how much heights jumped since a time of its autopilot's clock, once that is
// believed.
func (w *heightWitness) add(s *positionSample) (jumpedM float64, sinceMS uint32) {
	last := w.last
	seconds := s.sinceMS(&last) / 1000
	if last.bootMS != 0 && (seconds <= 0 || !s.inTime(&last)) && s.receivedS-last.receivedS <= staleAfterS {
		return 0, 0 // it is late, or may be of another boot
	}
	w.last = *s
	if last.bootMS == 0 || seconds <= 0 || !s.inTime(&last) {
		return 0, 0
	}
	offM := float64(s.upM-last.upM) - (s.climbMPS+last.climbMPS)/2*seconds
	if math.Abs(offM) <= heightStepM+heightGapMPS*max(seconds-heightGapS, 0) {
		offM = 0
	}
	if w.jumpsS == 0 {
		w.stepsM *= math.Exp(-seconds / heightForgetS)
	}
	w.stepsM += offM
	switch {
	case math.Abs(w.stepsM) <= heightJumpM:
		w.jumpsS = 0
	case w.jumpsS == 0:
		w.jumpsS, w.jumpsMS = s.receivedS, s.bootMS
	case s.receivedS-w.jumpsS >= heightConfirmS:
		jumpedM = w.stepsM
		w.jumpedM, w.stepsM, w.jumpsS = w.jumpedM+w.stepsM, 0, 0
		return jumpedM, w.jumpsMS
	}
	return 0, 0
}

// witness reads a position's height: what the reported one jumped in this flight does not count. On the ground there is nothing to
// fall: estimators settle, and arming sets them. One that was disarmed in the air says that it has landed, and falls.
func (w *heightWitness) witness(f *Fleet, a *aircraft, s *positionSample) {
	switch {
	case a.inAir():
		jumpedM, sinceMS := w.add(s)
		// What waited in a buffer was received later than it was sent, and the next may follow by all of that.
		lastMS := a.bootMS + float64(int32(w.last.bootMS-uint32(int64(a.bootMS))))
		w.last.receivedS = a.clockRate.sentS(lastMS, w.last.receivedS)
		if jumpedM == 0 {
			break
		}
		f.Log.Error("its reported height jumped, and by its climb rate it did not climb: it flies on at the height that it had",
			"aircraft", a.number, "jumped_m", jumpedM, "reported_m", s.upM)
		if int32(uint32(int64(a.bootMS))-sinceMS) >= 0 { // the last believed one had it; others may have been received together with it
			a.upM -= height.AboveOrigin(jumpedM)
		}
	case a.armed || !a.located || !a.onGround() || a.falling():
		*w = heightWitness{jumpedM: w.jumpedM}
	default:
		*w = heightWitness{}
	}
	s.upM -= height.AboveOrigin(w.jumpedM)
}

// restarted has its estimator begin anew, with the source that it had or with another: heights go on off by what they jumped, or are
// right again, whichever is nearer to where it was.
func (w *heightWitness) restarted(wasM, upM height.AboveOrigin) height.AboveOrigin {
	jumpedM := w.jumpedM
	*w = heightWitness{}
	if reportedM := upM + height.AboveOrigin(jumpedM); reportedM.Off(wasM) < upM.Off(wasM) {
		return reportedM
	}
	w.jumpedM = jumpedM
	return upM
}

// reportedM is a height as its autopilot measures it.
func (a *aircraft) reportedM(upM height.AboveOrigin) height.AboveOrigin {
	return upM + height.AboveOrigin(a.heights.jumpedM)
}

// SavedHeight is what a restart needs of an aircraft's height in flight: as it was last reported, and what that jumped before.
type SavedHeight struct {
	BootMS   uint32  `json:"boot_ms"`
	UpM      float64 `json:"up_m"`
	ClimbMPS float64 `json:"climb_mps"`
	JumpedM  float64 `json:"jumped_m,omitempty"`
}

// saved is nil unless it flies.
func (w *heightWitness) saved() *SavedHeight {
	if w.last.bootMS == 0 && w.jumpedM == 0 {
		return nil
	}
	return &SavedHeight{w.last.bootMS, float64(w.last.upM), w.last.climbMPS, w.jumpedM}
}

// restored goes on from what was saved: of the time between its autopilot's clock alone tells.
func (s *SavedHeight) restored() (w heightWitness) {
	if s != nil {
		w.jumpedM = s.JumpedM
		w.last = positionSample{bootMS: s.BootMS, receivedS: math.Inf(-1), upM: height.AboveOrigin(s.UpM), climbMPS: s.ClimbMPS}
	}
	return w
}
