package fleet

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/bluenviron/gomavlib/v3/pkg/dialects/common"

	"prefdt/firmware/envelope"
	"prefdt/firmware/height"
)

// Parameters are an autopilot's parameters that the leader reads before it arms.
type Parameters struct {
	autopilot autopilot // whose they are; nil: no HEARTBEAT was received
	leader    leaderFacts

	SpeedMaxMPS    float64
	GainPerS       float64 // of its position loop
	CapacityMAh    float64 // of the pack; 0: not read, below: not configured
	DescentMPS     float64 // in the modes that land and return
	LandMPS        float64 // of the last metres
	LandSlowBelowM float64 // the height below which LandMPS applies
	ClimbMPS       float64
	ReturnUpM      float64 // how high above home it returns by itself, if it is not higher
	ReturnMPS      float64 // and how fast
	FenceAction    int     // beyond its own fence
	px4Parameters
	ardupilotParameters

	readMask         uint32 // one bit a parameter of the table
	optionalRequests int    // of missing ones
}

// leaderFacts are what parameters are compared with.
type leaderFacts struct {
	systemID int
	signs    bool               // messages are signed both ways
	heightM  height.AboveGround // the most that a mission flies at
}

func (f *Fleet) leaderFacts() leaderFacts {
	return leaderFacts{f.SystemID, f.Key != nil, f.highestM().Over(0)}
}

// kind is the autopilot's, or the one assumed before its first HEARTBEAT.
func (p *Parameters) kind() autopilot {
	if p.autopilot == nil {
		return assumed
	}
	return p.autopilot
}

// Complete reports whether all required parameters were read.
func (p *Parameters) Complete() bool {
	for i, x := range p.kind().traits().parameters {
		if x.required && p.readMask>>i&1 == 0 {
			return false
		}
	}
	return true
}

// optionalRequestsMax is how often optional parameters are requested: not every
// autopilot has them.
const optionalRequestsMax = 5

// missing are the names of parameters to request, by both of those that were renamed.
func (p *Parameters) missing() (names []string) {
	if p.Complete() && p.optionalRequests >= optionalRequestsMax {
		return nil
	}
	for i, x := range p.kind().traits().parameters {
		if p.readMask>>i&1 == 0 {
			names = append(names, x.name)
			if x.renamed != "" {
				names = append(names, x.renamed)
			}
		}
	}
	return names
}

// decimal is the shortest decimal that a float32 is: 0.2, where its plain conversion is 0.20000000298.
func decimal(x float32) float64 {
	d, _ := strconv.ParseFloat(strconv.FormatFloat(float64(x), 'g', -1, 32), 64)
	return d
}

func (p *Parameters) positionLoop() envelope.PositionLoop {
	kind := p.kind().traits()
	loop := envelope.PositionLoop{GainPerS: kind.gainPerS, SlowsMPSS: kind.slowsBy * p.AccelMPSS}
	if p.GainPerS > 0 && p.GainPerS <= 2 {
		loop.GainPerS = p.GainPerS
	}
	return loop
}

// ClimbS is how long a take-off to a height takes, spooling up and slowing down included: 40 s were measured to 100 m at 3 m/s.
func (p *Parameters) ClimbS(heightM height.AboveGround) float64 {
	const rampS = 7
	return math.Max(float64(heightM), 0)/p.climbMPS() + rampS
}

// DescentS is how long a landing takes from a height: at the speed of descent, and the last
// metres at that of landing.
func (p *Parameters) DescentS(heightM height.AboveGround) float64 {
	kind, m := p.kind().traits(), math.Max(float64(heightM), 0)
	down := kind.descentShare * positiveOr(p.LandHighMPS, positiveOr(p.DescentMPS, 1.5))
	land, slowM := kind.landShare*positiveOr(p.LandMPS, kind.landMPS), positiveOr(p.LandSlowBelowM, 10)
	return math.Max(m-slowM, 0)/down + math.Min(m, slowM)/math.Min(land, down)
}

// Voltages of a cell at rest, where no parameter says them.
const standardFullV, standardEmptyV = 4.05, 3.6

// packJ is what a full pack holds, by its charge, its cells in series, and the mean
// voltage of one; 0: not known.
func (p *Parameters) packJ(voltageV float64) float64 {
	const maxMAh = 1e5
	cells := cellCount(p.Cells, voltageV)
	if !(cells >= 1 && p.CapacityMAh > 0 && p.CapacityMAh <= maxMAh) {
		return 0
	}
	meanV := (positiveOr(p.CellFullV, standardFullV) + positiveOr(p.CellEmptyV, standardEmptyV)) / 2
	return math.Round(3.6 * p.CapacityMAh * cells * math.Min(meanV, maxCellV))
}

const maxCellV = 4.4

// cellCount is how many cells in series a pack has: as configured, or the fewest that can have its voltage; 0: not known.
func cellCount(configured, voltageV float64) float64 {
	const maxCells = 20
	cells := math.Round(configured)
	if !(cells >= 1 && cells <= maxCells) {
		cells = math.Ceil(voltageV / maxCellV)
	}
	if !(cells >= 1 && cells <= maxCells) {
		return 0
	}
	return cells
}

func positiveOr(x, standard float64) float64 {
	if x > 0 {
		return x
	}
	return standard
}

func (p *Parameters) handleParamValue(m *common.MessageParamValue) {
	x := p.kind().value(m)
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return
	}
	for i, row := range p.kind().traits().parameters {
		switch m.ParamId {
		case row.name:
		case row.renamed:
			x *= cmp.Or(row.rescaled, 1)
		default:
			continue
		}
		p.readMask |= 1 << i
		row.set(p, x)
		return
	}
}

// failsafes are the parameters that say what an autopilot does without its leader.
func (p *Parameters) failsafes() [8]float64 { return p.kind().failsafes(p) }

// handleParamValue reads a parameter. A failsafe that changes after the launch is an alarm:
// the checks before it looked at another one.
func (a *aircraft) handleParamValue(f *Fleet, m *common.MessageParamValue) {
	was := a.params
	a.params.handleParamValue(m)
	p := &a.params
	unsafe := p.UnsafeReason()
	changed := was.Complete() && (was.dataLinkRead == p.dataLinkRead && was.failsafes() != p.failsafes() || was.UnsafeReason() != unsafe)
	if p.Complete() && a.launchFailsafes == ([8]float64{}) { // of the leader process before
		a.launchFailsafes = p.failsafes()
	}
	if a.phase == PhaseIdle || !changed && (was.Complete() || !p.Complete() || unsafe == "") {
		return
	}
	a.failsafeAlarm = ""
	if p.failsafes() != a.launchFailsafes || unsafe != "" {
		a.failsafeAlarm = fmt.Sprintf("%s changed in flight to %v", m.ParamId, p.kind().value(m))
	}
	if unsafe != "" {
		a.failsafeAlarm += ": " + unsafe
	}
	f.Log.Error("failsafe parameter", "aircraft", a.number, "reason", cmp.Or(a.failsafeAlarm, m.ParamId+" is as it was at the launch"))
}

// Warnings returns which parameters are doubtful, and why.
func (p *Parameters) Warnings(capacityJ float64) []string { return p.kind().warnings(p, capacityJ) }

// Summary is the parameters that a person wants to see before a flight.
func (p *Parameters) Summary() string { return p.kind().summary(p) }

// CapacityParameter is the name of the one that says what its pack holds.
func (p *Parameters) CapacityParameter() string { return p.kind().traits().capacityParameter }

// UnsafeReason returns why an autopilot's failsafe is unsafe for an aircraft whose
// leader may fail at any time, or is empty.
func (p *Parameters) UnsafeReason() string { return strings.Join(p.UnsafeReasons(), "; ") }

// UnsafeReasons are all of its reasons: the parameters that were not read yet, and each that is unsafe.
func (p *Parameters) UnsafeReasons() (reasons []string) {
	if unread := p.unreadReason(); unread != "" {
		reasons = append(reasons, unread)
	}
	return append(reasons, p.kind().unsafeReasons(p)...)
}

// unreadReason names the required parameters that were not read yet, and what they need; empty: there is none.
func (p *Parameters) unreadReason() string {
	var names []string
	needs := ""
	for i, x := range p.kind().traits().parameters {
		if !x.required || p.readMask>>i&1 != 0 {
			continue
		}
		name := x.name
		if x.renamed != "" {
			name += " or " + x.renamed
		}
		names, needs = append(names, name), cmp.Or(needs, x.needs)
	}
	switch {
	case len(names) == 0:
		return ""
	case needs != "" && p.readMask != 0: // others came, so that it is not the link
		return fmt.Sprintf("parameters %s were not read yet; those of the battery need %s", strings.Join(names, ", "), needs)
	}
	return fmt.Sprintf("parameters %s were not read yet", strings.Join(names, ", "))
}

// check is one of the rules about parameters.
type check struct {
	wrong  bool
	of     []string // the required ones that it rests on, by the first names of the table
	reason string
}

// failed are the reasons of the checks that fail, of those whose parameters were read.
func (p *Parameters) failed(checks []check) (reasons []string) {
	read := func(name string) bool {
		i := slices.IndexFunc(p.kind().traits().parameters, func(x parameter) bool { return x.name == name })
		return p.readMask>>i&1 != 0
	}
	for _, c := range checks {
		if c.wrong && !slices.ContainsFunc(c.of, func(name string) bool { return !read(name) }) {
			reasons = append(reasons, c.reason)
		}
	}
	return reasons
}
