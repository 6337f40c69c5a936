package account

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"prefdt/firmware/energy"
	"prefdt/firmware/fleet"
	"prefdt/inference/physics"
	"prefdt/inference/slot"
	"prefdt/telemetry"
)

// sensor is how the batteries of a fleet are measured, and what happens to it.
type sensor struct {
	name    string
	everyS  [2]float64 // between BATTERY_STATUS, at least and at most
	lateS   float64    // from a measurement to its receipt, and a twentieth of a second at most where it is above 0
	energy  bool       // the counter of energy is sent
	charge  bool       // the counter of charge is sent
	current bool       // the current is sent
	repeats bool       // sent at 4 Hz, with the last measurement

	frozen, silent [2]float64 // slots in which aircraft 1 repeats its last measurement, or sends no battery
	lostS          float64    // slot at which aircraft 1 is lost for good, 0: never
	offerEvery     int        // slots: then no report is received, and all users decide by the offer
	lateResults    bool       // of those users: after the settlement
	offerMostJ     float64    // that one of those users may take, 0: 60
	killEvery      int        // slots
	gapS           float64    // a kill's
	shockSlot      float64    // from then on flying takes half as much again, 0: never
	slots          int        // flown, 0: 200
}

var sensors = []sensor{
	{name: "4 Hz", everyS: [2]float64{0.25, 0.25}, energy: true, current: true},
	{name: "2 Hz", everyS: [2]float64{0.5, 0.5}, energy: true, current: true},
	{name: "1 s", everyS: [2]float64{1, 1}, energy: true, current: true},
	{name: "2.2 s", everyS: [2]float64{2.2, 2.2}, energy: true, current: true},
	{name: "2 to 5 s, a CAN monitor", everyS: [2]float64{2, 5}, lateS: 0.3, energy: true, current: true},
	{name: "5 s, no counter", everyS: [2]float64{5, 5}, current: true},
	{name: "6 s", everyS: [2]float64{6, 6}, lateS: 0.3, energy: true, current: true},
	{name: "6 s, real PX4's fields", everyS: [2]float64{6, 6}, charge: true, current: true},
	{name: "5 s, repeated at 4 Hz", everyS: [2]float64{5, 5}, energy: true, current: true, repeats: true},
	{name: "the counter alone", everyS: [2]float64{0.5, 0.5}, energy: true},
	{name: "frozen", everyS: [2]float64{0.25, 0.25}, energy: true, current: true, frozen: [2]float64{30, 60}},
	{name: "frozen, real PX4's fields", everyS: [2]float64{0.4, 0.4}, charge: true, current: true, frozen: [2]float64{30, 60}},
	{name: "frozen, 3 s", everyS: [2]float64{3, 3}, energy: true, current: true, frozen: [2]float64{30, 60}},
	{name: "users of the offer, real PX4", everyS: [2]float64{0.4, 0.4}, lateS: 0.5, charge: true, current: true, offerEvery: 7},
	{name: "users of the offer, late results", everyS: [2]float64{0.4, 0.4}, lateS: 0.5, energy: true, current: true, offerEvery: 7,
		lateResults: true},
	{name: "users of the offer, no counter", everyS: [2]float64{0.4, 0.4}, lateS: 0.5, current: true, offerEvery: 7, lateResults: true},
	{name: "the battery silent", everyS: [2]float64{0.25, 0.25}, energy: true, current: true, silent: [2]float64{40.7, 52}},
	{name: "the battery silent after users of the offer", everyS: [2]float64{0.4, 0.4}, current: true, offerEvery: 31,
		silent: [2]float64{66.1, 95}},
	{name: "an aircraft lost", everyS: [2]float64{0.25, 0.25}, energy: true, current: true, lostS: 60.2, offerEvery: 10},
	{name: "kills", everyS: [2]float64{0.25, 0.25}, energy: true, current: true, killEvery: 17, gapS: 3.2},
	{name: "kills, real PX4", everyS: [2]float64{0.4, 0.4}, lateS: 0.5, charge: true, current: true, killEvery: 40, gapS: 4.3,
		offerEvery: 13, lateResults: true},
	{name: "a shock", everyS: [2]float64{0.25, 0.25}, energy: true, current: true, shockSlot: 100},
	{name: "a shock, 5 s", everyS: [2]float64{5, 5}, energy: true, current: true, shockSlot: 100},
	{name: "a shock, real PX4", everyS: [2]float64{0.4, 0.4}, lateS: 0.4, charge: true, current: true, shockSlot: 100},
	{name: "kills, 5 s", everyS: [2]float64{5, 5}, energy: true, current: true, killEvery: 25, gapS: 3.2},
}

// measuredPack is an aircraft's flight and what its battery reports of it.
type measuredPack struct {
	sensor      *sensor
	rng         *rand.Rand
	speedMPS    float64
	powerW      func(mps float64) float64
	trueJ       float64
	coulombs    float64
	edges       [][2]float64 // joules that wait, and their power
	reportedJ   float64      // at the last measurement, for its mean current
	reportedS   float64
	nextS       float64
	last        energy.Reading
	lastMAh     int32
	nextRepeatS float64
	waiting     []measuredReading
	meter       energy.Meter
	inAir       bool
}

type measuredReading struct {
	receivedS float64
	energy.Reading
	mAh int32
}

func (p *measuredPack) voltageV() float64 { return 16.2 - 1.8*p.trueJ/150e3 }

func (p *measuredPack) step(now, seconds, multiplier float64) {
	j := multiplier * p.powerW(p.speedMPS) * seconds
	for i := range p.edges {
		d := min(p.edges[i][0], p.edges[i][1]*seconds)
		p.edges[i][0] -= d
		j += d
	}
	p.trueJ += j
	p.coulombs += j / p.voltageV()
	slotNow := now
	if s := p.sensor; now >= p.nextS && !(slotNow >= s.frozen[0] && slotNow < s.frozen[1]) {
		p.nextS = now + s.everyS[0] + (s.everyS[1]-s.everyS[0])*p.rng.Float64()
		r := energy.Absent()
		r.VoltageV = math.Round(1000*p.voltageV()) / 1000
		if s.current {
			r.CurrentA = math.Round(100*(p.trueJ-p.reportedJ)/(now-p.reportedS)/r.VoltageV) / 100
		}
		if s.energy {
			r.ConsumedHJ = math.Floor(p.trueJ / 100)
		}
		p.lastMAh = -1
		if s.charge {
			p.lastMAh = int32(p.coulombs / 3.6)
		}
		p.reportedJ, p.reportedS, p.last = p.trueJ, now, r
		if !s.repeats {
			p.send(now)
		}
	}
	if frozen := now >= p.sensor.frozen[0] && now < p.sensor.frozen[1]; (p.sensor.repeats || frozen) && now >= p.nextRepeatS {
		p.nextRepeatS = now + 0.25
		p.send(now)
	}
}

func (p *measuredPack) send(now float64) {
	if s := p.sensor; !(now >= s.silent[0] && now < s.silent[1]) {
		at := now + s.lateS
		if s.lateS > 0 {
			at += 0.05 * p.rng.Float64()
		}
		if n := len(p.waiting); n > 0 {
			at = max(at, p.waiting[n-1].receivedS)
		}
		p.waiting = append(p.waiting, measuredReading{at, p.last, p.lastMAh})
	}
}

// measuredFlight flies two aircraft for some slots, and returns the ledger's error, what was
// drawn, and the multiplier's worst relative error. The process is killed and started again where that
// belongs to the sensor.
func measuredFlight(t *testing.T, s *sensor, seed uint64, multiplier float64, trace func(string)) (errorJ, truthJ, worst float64) {
	const stepS, bootS, decideS, learnedSlot, shockSlots = 0.02, 30, 0.45, 60, 20
	flownSlots := cmp.Or(s.slots, 200)
	rng := rand.New(rand.NewPCG(seed, 36))
	c := physics.DefaultConstants()
	var packs []*measuredPack
	for range 2 {
		p := &measuredPack{sensor: s, rng: rng, powerW: c.Propulsion.PowerW, inAir: true, speedMPS: 8, reportedS: -20,
			nextS: -10 - rng.Float64()}
		p.meter = energy.Meter{CapacityJ: c.BatteryCapacityJ, PowerW: p.powerW, MaxPowerW: 10 * p.powerW(c.SpeedMaxMPS)}
		packs = append(packs, p)
	}
	packs[1].sensor = &sensor{everyS: s.everyS, lateS: s.lateS, energy: s.energy, charge: s.charge, current: s.current, repeats: s.repeats}
	a := newAccount()
	views := func(now float64) (v []fleet.View) {
		for i, p := range packs {
			m := &p.meter
			lost := i == 0 && s.lostS > 0 && now > s.lostS+10
			v = append(v, fleet.View{Number: i + 1, AtS: now, InAir: !lost, Placed: true, Charge: math.NaN(), Source: m.Source(now),
				TotalJ: m.DrawnJ(now), ModelJ: m.ModelJ(now), UncertaintyJ: m.UncertaintyJ(now), Mark: m.LastReading()})
		}
		return v
	}
	offerJ := func(users int) (float64, float64) {
		return 30 * float64(users), cmp.Or(s.offerMostJ, 60) * float64(users)
	}
	var base [2]float64 // truth when slot 0 began
	began, next, decided := false, 0, -1
	resumeS, results, gusts := math.Inf(-1), 0, [2]float64{1, 1}
	var lateResults []func()
	var states [2]energy.State
	var account State
	killedS := 0.0
	for i := -600; ; i++ {
		now := float64(i) * stepS
		if i*2 == int(100*s.shockSlot) && s.shockSlot > 0 {
			multiplier *= 1.5
		}
		phase := now - math.Floor(now)
		down := now < resumeS
		if i%50 == 0 {
			for k, p := range packs {
				if p.speedMPS = 6 + 5*rng.Float64(); down && now-killedS > 1.5 {
					p.speedMPS = 0
				}
				gusts[k] = 1 + 0.03*rng.NormFloat64()
			}
		}
		for k, p := range packs {
			flightMultiplier := multiplier * gusts[k]
			lost := k == 0 && s.lostS > 0 && now >= s.lostS
			if lost { // it hovers until it is declared lost, as the contract counts
				p.speedMPS = 0
				if now > s.lostS+10 {
					flightMultiplier = 0
				}
			}
			p.step(now, stepS, flightMultiplier)
			if lost {
				p.waiting = nil
			}
			for len(p.waiting) > 0 && p.waiting[0].receivedS <= now {
				if r := p.waiting[0]; !down {
					r.BootS = now + bootS
					p.meter.AddReading(now, p.meter.WithCharge(r.Reading, r.mAh))
				}
				p.waiting = p.waiting[1:]
			}
			if i%5 == 0 && !lost && !down {
				p.meter.SetSpeed(now, p.speedMPS, true)
			}
		}
		if down {
			continue
		}
		if resumeS > killedS && killedS > 0 { // the next process
			for k, p := range packs {
				m := &p.meter
				*m = energy.Meter{CapacityJ: m.CapacityJ, PowerW: m.PowerW, MaxPowerW: m.MaxPowerW}
				m.Restore(now, states[k], now-killedS)
			}
			a = newAccount()
			a.Restore(account)
			killedS = 0
		}
		if !began && now >= 0 {
			began = true
			v := views(now)
			a.Begin(flownSlots, v)
			a.BeginSlots(v, 2)
			base = [2]float64{packs[0].trueJ, packs[1].trueJ}
		}
		if !began {
			continue
		}
		n := int(math.Floor(now + 1e-9))
		if phase >= decideS && decided < n {
			decided = n
			byOffer := s.offerEvery > 0 && n%s.offerEvery == 2
			decision := SlotDecision{Slot: n, MaxOfferUsers: 12, OfferedAircraft: true,
				Snapshot: &slot.Snapshot{Aircraft: []slot.Aircraft{{Number: 1, CPUHz: 4e10}, {Number: 2, CPUHz: 4e10}}},
				Decision: &slot.Decision{}}
			if s.lostS > 0 && now >= s.lostS+2 { // no users are sent to it any more
				decision.Snapshot.Aircraft = decision.Snapshot.Aircraft[1:]
			}
			for k, p := range packs {
				edgeJ := 100 * rng.Float64()
				if k == 0 && len(decision.Snapshot.Aircraft) == 1 {
					continue
				}
				if byOffer {
					p.edges = append(p.edges, [2]float64{150 + 50*rng.Float64(), 400})
					for range 6 {
						results++
						name := fmt.Sprintf("offer%d", results)
						lateResults = append(lateResults, func() {
							a.ApplyResult(name, &telemetry.Result{Slot: n, CompletionS: 0.7, By: telemetry.ByOffer}, true)
						})
					}
				} else {
					const cycles, offload = 1e9, 0.8
					task := physics.Task{Bits: 1e6, CyclesPerBit: 1000, DeadlineS: 0.9}
					hz := math.Sqrt(edgeJ / (c.SwitchedCapacitance * cycles * offload))
					decision.Users = append(decision.Users, fmt.Sprintf("u%d", k))
					decision.Snapshot.Users = append(decision.Snapshot.Users,
						slot.User{ID: k, CPUHz: 1e9, Task: task, Gain: []float64{1e-9, 1e-9}})
					decision.Decision.Users = append(decision.Decision.Users,
						slot.UserDecision{Server: k + 1 - (2 - len(decision.Snapshot.Aircraft)), Offload: offload, CPUHz: hz,
							CompletionS: 0.3})
					p.meter.AddEdge(now, edgeJ)
					p.edges = append(p.edges, [2]float64{edgeJ, 2 * edgeJ})
				}
				p.meter.SetFactor(now, a.Objective().PropulsionMultiplier())
			}
			a.AddDecision(decision)
		}
		if late := 0.95; s.lateResults && phase >= 0.2 && phase < 0.25 || !s.lateResults && phase >= late {
			for _, f := range lateResults {
				f()
			}
			lateResults = nil
		}
		if n > next { // slot n-1 is over
			v := views(now)
			a.Settle(n-1, v, offerJ)
			a.ExpireResults(n)
			next = n
			got := a.Objective().PropulsionMultiplier()
			off := math.Abs(got/multiplier - 1)
			truth := packs[0].trueJ - base[0] + packs[1].trueJ - base[1]
			if trace != nil {
				trace(fmt.Sprintf("slot %d: multiplier %.3f, %+.0f J off of %.0f, sources %s %s", n-1, got, a.Objective().SpentJ()-truth,
					truth, v[0].Source, v[1].Source))
			}
			if shocked := s.shockSlot > 0 && now > s.shockSlot-0.5 && now < s.shockSlot+shockSlots; n > learnedSlot && !shocked ||
				multiplier == 1 && off > 0.1 {
				worst = max(worst, off)
			}
			if n == flownSlots {
				return a.Objective().SpentJ() - truth, truth, worst
			}
			if s.killEvery > 0 && n%s.killEvery == 4 && n < flownSlots-8 {
				killedS = now + 0.3*rng.Float64()
			}
		}
		if killedS > 0 && now >= killedS && resumeS < killedS {
			raw, _ := json.Marshal(a.State())
			if err := json.Unmarshal(raw, &account); err != nil {
				t.Fatal(err)
			}
			for k, p := range packs {
				raw, _ := json.Marshal(p.meter.State(now))
				states[k] = energy.State{}
				if err := json.Unmarshal(raw, &states[k]); err != nil {
					t.Fatal(err)
				}
			}
			resumeS = killedS + s.gapS
			lateResults = nil
		}
	}
}

// Whatever measures the batteries, as often as it may and with what happens to it, the
// ledger is within 0.3 % of what was drawn and the multiplier within 5 %.
func TestSensors(t *testing.T) {
	flights := uint64(6)
	if testing.Short() { // an emulator takes a minute
		flights = 1
	}
	for i := range sensors {
		s := &sensors[i]
		for _, multiplier := range []float64{1, 1.3} {
			worstLedger, worst := 0.0, 0.0
			for seed := range flights {
				errorJ, truthJ, off := measuredFlight(t, s, seed, multiplier, nil)
				ledger := errorJ / truthJ
				if math.Abs(ledger) > math.Abs(worstLedger) {
					worstLedger = ledger
				}
				worst = max(worst, off)
			}
			t.Logf("%s, %v: ledger %+.2f %%, multiplier %.1f %%", s.name, multiplier, 100*worstLedger, 100*worst)
			if math.Abs(worstLedger) > 0.003 || worst > 0.05 {
				t.Errorf("%s, at %v: the ledger is %+.2f %% off, the multiplier up to %.1f %%", s.name, multiplier, 100*worstLedger,
					100*worst)
			}
		}
	}
}

// A restart books what was drawn meanwhile, as the counters show it: neither hover for all
// of it, nor computing of the slot before as if it had lasted.
func TestRestartBooksWhatWasMeasured(t *testing.T) {
	for _, s := range []sensor{
		{name: "a counter of energy", everyS: [2]float64{0.25, 0.25}, energy: true, current: true},
		{name: "a counter of charge", everyS: [2]float64{0.4, 0.4}, lateS: 0.1, charge: true, current: true},
		{name: "after users of the offer", everyS: [2]float64{0.4, 0.4}, lateS: 0.4, charge: true, current: true, offerEvery: 3,
			lateResults: true},
	} {
		s.slots, s.gapS = 16, 4.3
		var mean, worst [2]float64 // without and with a kill in slot 4
		const flights = 27
		for k, killEvery := range []int{0, 50} {
			s.killEvery = killEvery
			for seed := range uint64(flights) {
				errorJ, _, _ := measuredFlight(t, &s, seed, 1, nil)
				mean[k], worst[k] = mean[k]+errorJ/flights, max(worst[k], math.Abs(errorJ))
			}
		}
		t.Logf("%s: %+.0f J on average and at most %.0f J off, without a restart %+.0f and %.0f J", s.name, mean[1], worst[1], mean[0],
			worst[0])
		if math.Abs(mean[1]-mean[0]) > 20 || worst[1] > worst[0]+60 {
			t.Errorf("%s: a restart adds %+.0f J on average, and %.0f J at most to an error of %.0f", s.name, mean[1]-mean[0],
				worst[1]-worst[0], worst[0])
		}
	}
}
