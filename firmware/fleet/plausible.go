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
