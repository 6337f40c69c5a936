package judge

import (
	"fmt"
	"math"
	"slices"

	"prefdt/inference"
	"prefdt/inference/goal"
	"prefdt/inference/physics"
	"prefdt/inference/record"
	"prefdt/inference/slot"
	"prefdt/offline/rollout"
	"prefdt/telemetry"
)

const besidePolicy = "a rollout of the same checkpoint, world, arrivals, orders and lost reports, from the true positions"

var policyRules = []Rule{
	{"reference delay", "true delays of the users' tasks",
		"10 %, 1.5 s, and 0.25 s a task without a decision, in the slots that a rollout has too, at a like price", besidePolicy,
		(*check).referenceDelay},
	{"reference energy", "true joules", "12 % and 300 J an aircraft, likewise, but where the policy asks for more speed than there is",
		besidePolicy, (*check).referenceEnergy},
	{"reference price", "the price of the next offer", "within a factor of 1.5, by a budget 2.5, in seven slots of ten, likewise",
		besidePolicy, (*check).referencePrice},
	{"reference way", "true positions",
		"75 % of the way goes where the policy decided, of ArduCopters 65 %, likewise, more than 40 m from others", besidePolicy,
		(*check).referenceWay},
}

// referenceSlots is the least number of slots that are compared.
const referenceSlots = 8

// reference is a flight beside a rollout of its policy, in its first slots.
type reference struct {
	slots                int
	delayS, rolloutS     float64
	undecided            float64 // tasks of them without a decision
	joules, rolloutJ     float64
	priced, otherPrice   float64 // slots, and those with another price than the rollout's
	anew                 float64 // slots of which the price is left out
	along, flown, endsAt float64 // metres squared: of the ways, along those that were decided, and in all
	nearS, turns         float64 // aircraft-seconds of which the way is left out
}

// bearable are faults that change nothing of what the policy knows, or of what it does.
var bearable = []string{"report_loss", "forged_result", "forged_status", "forged_beacon", "heartbeat_loss"}

// comparable is how many slots from the first on a rollout has too: each was opened with all aircraft, no order but budgets
// and preferences was given, nothing failed, and no pack had to be kept.
func (f *flight) comparable() int {
	if f.World == nil || f.World.HidesState() || f.bounded() || f.computes() {
		return 0
	}
	slots := 0
	for ; slots < len(f.beacons) && slots < f.Slots; slots++ {
		b, from := &f.beacons[slots], f.epochS+float64(slots)
		if b.Slot.Slot != slots || len(b.Offer.Aircraft) != len(f.aircraft) ||
			slices.ContainsFunc(f.faults, func(x faultSpan) bool { return x.fromS < from+1 && !slices.Contains(bearable, x.kind) }) ||
			slices.ContainsFunc(f.orders, func(o *order) bool {
				return o.accepted && o.answeredS < from+1 && (o.mission.Action != "" && o.answeredS > f.epochS || o.budget.Scope != "")
			}) ||
			slices.ContainsFunc(f.aircraft, func(a *aircraft) bool {
				return f.packSpent(a, from+1) || !a.led.contains(from) || !a.led.contains(from+1)
			}) {
			break
		}
	}
	return slots
}

// askedIn is what the crew asked of the slots from one on.
func (f *flight) askedIn(slot int) (events []record.Event) {
	for _, o := range f.orders {
		if !o.accepted || o.answer.EffectiveSlot == nil || max(*o.answer.EffectiveSlot, 0) != slot {
			continue
		}
		switch o.kind {
		case telemetry.KindBudget:
			events = append(events, record.Event{BudgetJ: &o.budget.EnergyJ, Mode: goal.Mode(o.budget.Mode)})
		case telemetry.KindPreference:
			events = append(events, record.Event{Setting: &o.preference.Setting})
		}
	}
	return events
}

// costsTheFormula reports whether flying costs what a rollout counts on.
func (f *flight) costsTheFormula() bool {
	return !slices.ContainsFunc(f.aircraft, func(a *aircraft) bool { return a.PowerMost > 0 })
}

// flyBeside flies the policy beside the flight; ok says whether there is enough to compare.
func (f *flight) flyBeside() (x reference, ok bool) {
	const decidedS = 0.6                         // of a slot: a decision is flown from then on
	const likePreferred, likeBudgeted = 1.5, 2.5 // prices by a budget follow some joules more or less that were spent
	x.slots = f.comparable()
	if f.frozen == nil || x.slots < referenceSlots {
		return x, false
	}
	x.endsAt = f.epochS + float64(x.slots)
	delayS, undecided := map[int]float64{}, map[int]float64{}
	followed, received := map[reportKey]bool{}, map[reportKey]bool{}
	for _, t := range f.tasks {
		delayS[t.Slot] += t.DelayS
		if followed[reportKey{t.User, t.Slot}] = t.By == telemetry.ByDecision; t.By != telemetry.ByDecision {
			undecided[t.Slot]++
		}
	}
	for key, r := range f.reports {
		if key.slot >= 0 && key.slot < x.slots {
			received[key] = f.inTime(&r, &f.beacons[key.slot])
		}
	}
	key := func(slot, user int) reportKey { return reportKey{fmt.Sprintf("u%02d", user+1), slot} }
	w := *f.World
	w.Slots = f.Slots // the leader's, which may have been told another number
	r, err := rollout.New(f.frozen, inference.DecoderDispatch, w, rollout.ReportLink{Fallback: rollout.FallbackOffer,
		Received: func(slot, user int) bool { return received[key(slot, user)] },
		Followed: func(slot, user int) bool { return followed[key(slot, user)] },
	})
	if err != nil { // a checkpoint of another fleet
		return x, false
	}
	r.Ordered = f.askedIn
	r.Measured = func(slot, m int) physics.Position {
		p := f.aircraft[m].at(f.epochS + float64(slot)).PositionM
		return physics.Position{EastM: p[0], NorthM: p[1]}
	}
	const nearM = 40 // what keeps clear of another flies elsewhere
	near := make([]spans, len(f.aircraft))
	for m, a := range f.aircraft {
		near[m] = f.near(a, nearM)
	}
	priceSPerJ, likePrice, tooFast := 0.0, 0.0, false // for an aircraft
	before := make([]physics.Position, len(f.aircraft))
	r.OnDecided = func(s *slot.Snapshot, o goal.Objective, d *slot.Decision) {
		priceSPerJ, likePrice, tooFast = d.PriceSPerJ, likePreferred, false
		if o.Budgeted() {
			likePrice = likeBudgeted
		}
		for m := range s.Aircraft {
			tooFast = tooFast || d.Move[m].Norm() > f.aircraft[m].speedMPS
			a, begin := f.aircraft[m], f.epochS+float64(s.Slot)+decidedS
			turns := d.Move[m].Dot(before[m]) < 0
			before[m] = d.Move[m]
			switch {
			case s.Slot >= x.slots:
			case turns: // of two ways that are worth the same, which is the better one hangs on some joules
				x.turns++
			case near[m].touches(begin, begin+1):
				x.nearS++
			default:
				way := sub(a.at(begin+1).PositionM, a.at(begin).PositionM)
				x.along += way[0]*d.Move[m].EastM + way[1]*d.Move[m].NorthM
				x.flown += horizontalM(way) * d.Move[m].Norm()
			}
		}
	}
	r.OnSettled = func(slot int, s, j float64) {
		if slot >= x.slots {
			return
		}
		spentJ := 0.0
		for _, a := range f.aircraft {
			spentJ += a.at(f.epochS+float64(slot+1)).SpentJ - a.at(f.epochS+float64(slot)).SpentJ
		}
		if !tooFast {
			x.joules, x.rolloutJ = x.joules+spentJ, x.rolloutJ+j
		}
		// Where a budget is all but spent, some joules more or less raise the price to many times as much: all dear ones are alike.
		told := f.beacons[min(slot+1, len(f.beacons)-1)].Offer.PriceSPerJ
		alike := math.Abs(math.Log(min(told, dearSPerJ)/min(priceSPerJ, dearSPerJ))) <= math.Log(likePrice)
		switch {
		case slot+1 >= x.slots:
		case f.costsAnew(slot):
			x.anew++
		default:
			if x.priced++; !alike {
				x.otherPrice++
			}
		}
		// Delays are compared where both paid alike. Before the first decision nobody is expected to come.
		if slot > 0 && alike && max(priceSPerJ, told) < dearSPerJ {
			x.delayS, x.rolloutS, x.undecided = x.delayS+delayS[slot], x.rolloutS+s, x.undecided+undecided[slot]
		}
	}
	r.Fly(f.Seed, rollout.Request{Mode: goal.Preference, Omega: f.frozen.GoalConstants.SettingMap.Omega(0.5)})
	return x, true
}

func (c *check) referenceDelay() {
	// How many an offer expects is drawn at random: who has no decision computes here, or there.
	const share, slackS, offerS = 0.1, 1.5, 0.25
	if x, ok := c.beside(); ok {
		c.atMost(x.endsAt, math.Abs(x.delayS-x.rolloutS), share*x.rolloutS+slackS+offerS*x.undecided,
			"tasks of %d slots took %.1f s, beside the rollout %.1f s", x.slots, x.delayS, x.rolloutS)
	}
}

func (c *check) referenceEnergy() {
	const share, slackJ = 0.12, 300
	if x, ok := c.beside(); ok && c.costsTheFormula() {
		c.atMost(x.endsAt, math.Abs(x.joules-x.rolloutJ), share*x.rolloutJ+slackJ*float64(len(c.aircraft)),
			"%d slots took %.0f J, beside the rollout %.0f J", x.slots, x.joules, x.rolloutJ)
	}
}

func (c *check) referenceWay() {
	const leastWay = 400
	mostAside := 0.25
	if slices.ContainsFunc(c.aircraft, (*aircraft).isCopter) { // it takes seconds to turn
		mostAside = 0.35
	}
	x, ok := c.beside()
	if x.nearS > 0 {
		c.finding.Assumed["another is near"] = x.nearS
	}
	if x.turns > 0 {
		c.finding.Assumed["the rollout turns about"] = x.turns
	}
	if ok && x.flown > leastWay {
		c.atMost(x.endsAt, 1-x.along/x.flown, mostAside, "of the way in %d slots %.0f %% goes where the policy decided", x.slots,
			100*x.along/x.flown)
	}
}

func (c *check) referencePrice() {
	const mostOther = 0.3
	x, ok := c.beside()
	if x.anew > 0 {
		c.finding.Assumed["what flying costs is not measured yet"] = x.anew
	}
	if ok && x.priced > 0 && c.costsTheFormula() {
		c.atMost(x.endsAt, x.otherPrice/x.priced, mostOther, "in %.0f of %.0f slots the price of energy is not that of the rollout",
			x.otherPrice, x.priced)
	}
}
