package fleet

import (
	"math"

	"prefdt/firmware/height"
)

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
