package energy

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"sort"
	"testing"
)

// datagram is a reading in transit.
type datagram struct {
	receivedS, sentS float64
	reading          Reading
}

// simulateMission is an autopilot's messages of a flight whose propulsion changes in
// steps, with bursts of edge computing: intervalS apart, with a counter of
// hectojoules and the mean current since the message before. A real reset of
// the counter is at resetS, 0: none.
func simulateMission(rng *rand.Rand, seconds, intervalS, resetS float64) (sent []datagram, trueJ float64) {
	p := &batteryPack{rng: rng, currentGain: 0.98 + 0.04*rng.Float64(), counterRoundingJ: 99 * rng.Float64(), counterWrapHJ: math.Inf(1),
		sendsConsumed: true, sendsCurrent: true}
	propulsionW, burstJ := 150.0, 0.0
	nextS := 0.0
	for now := 0.0; now <= seconds; now += 0.05 {
		if rng.IntN(200) == 0 {
			propulsionW = 130 + 120*rng.Float64()
		}
		if rng.IntN(20) == 0 { // a slot's computing, in a tenth of a second
			burstJ = 150 * rng.Float64()
		}
		if resetS > 0 && now >= resetS {
			p.counterZeroJ, p.counterStartHJ, resetS = p.drawnJ, 0, 0
		}
		p.drawnJ += propulsionW*0.05 + burstJ/2
		burstJ /= 2
		if burstJ < 1 {
			burstJ = 0
		}
		if now >= nextS {
			sent = append(sent, datagram{now, now, p.reading(now)})
			nextS += intervalS
		}
	}
	return sent, p.drawnJ
}

// delayAndDuplicate delays datagrams by up to 0.7 s with probability 0.3, and sends them
// twice with probability 0.05; not those of the first second, with which the meter
// begins, nor of the last 3 s, so that all are received at the end.
func delayAndDuplicate(rng *rand.Rand, sent []datagram) (received []datagram) {
	for _, d := range sent {
		for copies := 1 + max(0, rng.IntN(20)-18); copies > 0; copies-- {
			d.receivedS = d.sentS
			if rng.Float64() < 0.3 && d.sentS > 1 && d.sentS < sent[len(sent)-1].sentS-3 {
				d.receivedS += 0.7 * rng.Float64()
			}
			received = append(received, d)
		}
	}
	sort.SliceStable(received, func(i, k int) bool { return received[i].receivedS < received[k].receivedS })
	return received
}

// flights is n seeds, and a tenth of them under an emulator, which takes a minute.
func flights(n uint64) uint64 {
	if testing.Short() {
		n /= 10
	}
	return n
}

// replay returns a meter's total after the last of the datagrams.
func replay(received []datagram) (j float64) {
	m := newMeter()
	for _, d := range received {
		m.AddReading(d.receivedS, d.reading)
		j = m.DrawnJ(d.receivedS)
	}
	return j
}

// Datagrams out of order change the joules of a mission by no more than the counter's
// resolution: a counter that fell to its value of a moment ago was read a moment ago.
func TestOrderOfDatagrams(t *testing.T) {
	worst := 0.0
	for seed := range flights(60) {
		rng := rand.New(rand.NewPCG(seed, 14))
		intervalS := []float64{0.25, 0.3, 0.5}[seed%3]
		sent, trueJ := simulateMission(rng, 600, intervalS, 0)
		ordered := replay(sent)
		got := replay(delayAndDuplicate(rng, sent))
		if off := math.Abs(got - ordered); off > consumedUnitJ {
			t.Errorf("seed %d, every %v s: %.0f J out of order, %.0f J in order, truth %.0f J", seed, intervalS, got, ordered, trueJ)
		}
		worst = max(worst, math.Abs(got-ordered))
	}
	t.Logf("worst %.0f J", worst)
}

// A counter that was really reset, out of order or not, loses and adds no more than the
// current's error over a few messages.
func TestCounterResetBetweenDatagramsOutOfOrder(t *testing.T) {
	for seed := range flights(60) {
		rng := rand.New(rand.NewPCG(seed, 15))
		sent, trueJ := simulateMission(rng, 600, 0.25, 200+200*rng.Float64())
		for name, received := range map[string][]datagram{"in order": sent, "out of order": delayAndDuplicate(rng, sent)} {
			if got := replay(received); math.Abs(got-trueJ) > 4*consumedUnitJ {
				t.Errorf("seed %d, %s: %.0f J, truth %.0f J", seed, name, got, trueJ)
			}
		}
	}
}

// steadyMeter is a meter that reads 150 W at 4 Hz, with its counter modified by change.
type steadyMeter struct {
	meter    *Meter
	now      float64
	messages int
}

func newSteadyMeter(messages int) *steadyMeter {
	s := &steadyMeter{meter: newMeter()}
	s.meter.MaxPowerW = 6468 // the fleet's
	for range messages {
		s.addReading(nil)
	}
	return s
}

func (s *steadyMeter) reading() Reading {
	return Reading{ConsumedHJ: math.Floor((s.now*150 + 30) / 100), CurrentA: 10, VoltageV: 15,
		Charge: 1 - math.Floor((s.now*150+700)/1500)/100}
}

func (s *steadyMeter) addReading(change func(*Reading)) {
	r := s.reading()
	if change != nil {
		change(&r)
	}
	s.meter.AddReading(s.now, r)
	s.messages++
	s.now = float64(s.messages) / 4
}

// errorJ is the meter's total less the energy of 150 W, at the last message.
func (s *steadyMeter) errorJ() float64 { return s.meter.DrawnJ(s.now-0.25) - (s.now-0.25)*150 }

// One message that contradicts the current does not count, whatever it is; nor when
// another such message follows later.
func TestOutlierDoesNotCount(t *testing.T) {
	nan := math.NaN()
	for name, wild := range map[string]func(*Reading){
		"+4 kJ":                func(r *Reading) { r.ConsumedHJ += 40 },
		"+1 kJ":                func(r *Reading) { r.ConsumedHJ += 10 },
		"+300 J":               func(r *Reading) { r.ConsumedHJ += 3 },
		"+4 kJ, 327 A":         func(r *Reading) { r.ConsumedHJ += 40; r.CurrentA = 327 },
		"0":                    func(r *Reading) { r.ConsumedHJ = 0 },
		"half":                 func(r *Reading) { r.ConsumedHJ = math.Floor(r.ConsumedHJ / 2) },
		"-1 kJ":                func(r *Reading) { r.ConsumedHJ -= 10 },
		"-300 J":               func(r *Reading) { r.ConsumedHJ -= 3 },
		"negative":             func(r *Reading) { r.ConsumedHJ = -5 },
		"int32 max":            func(r *Reading) { r.ConsumedHJ = math.MaxInt32 },
		"infinite":             func(r *Reading) { r.ConsumedHJ = math.Inf(1) },
		"327 A":                func(r *Reading) { r.CurrentA = 327 },
		"infinite current":     func(r *Reading) { r.CurrentA = math.Inf(1) },
		"negative current":     func(r *Reading) { r.CurrentA = -1000 },
		"0 V":                  func(r *Reading) { r.VoltageV = 0 },
		"650 V":                func(r *Reading) { r.VoltageV = 650 },
		"-15 V":                func(r *Reading) { r.VoltageV = -15 },
		"0 %":                  func(r *Reading) { r.Charge = 0 },
		"100 %":                func(r *Reading) { r.Charge = 1 },
		"-300 %":               func(r *Reading) { r.Charge = -3 },
		"nothing":              func(r *Reading) { *r = Absent() },
		"BootS of hours":       func(r *Reading) { r.BootS = 40e3 },
		"BootS infinite":       func(r *Reading) { r.BootS = math.Inf(1) },
		"BootS of nothing":     func(r *Reading) { r.BootS = 0.1 },
		"rebooted, by one":     func(r *Reading) { r.BootS, r.ConsumedHJ = 0.2, 0 },
		"all at once":          func(r *Reading) { *r = Reading{math.MaxInt32, 327, 650, 0, 40e3} },
		"all at once, nothing": func(r *Reading) { *r = Reading{0, 0, 0, 0, 0.1} },
		"not a number":         func(r *Reading) { *r = Reading{nan, nan, nan, nan, nan} },
	} {
		for _, hasBootTime := range []bool{false, true} {
			for _, before := range []int{10, 80, 400} {
				s := newSteadyMeter(0)
				date := func(r *Reading) {
					if hasBootTime {
						r.BootS = 500 + s.now
					}
				}
				for range before {
					s.addReading(date)
				}
				apart := []int{1, 2, 3, 30}
				if name == "+300 J" { // the current does not contradict it at once
					apart = []int{12, 30}
				}
				for _, after := range apart {
					s.addReading(func(r *Reading) { date(r); wild(r) })
					for range after {
						s.addReading(date)
					}
				}
				for range 20 { // a counter that was ahead by an amount the current does not contradict has waited
					s.addReading(date)
				}
				if off := s.errorJ(); math.Abs(off) > consumedUnitJ {
					t.Errorf("%s, hasBootTime %v, after %d messages: %.0f J counted", name, hasBootTime, before, off)
				}
				if s.meter.Source(s.now) != Consumed {
					t.Errorf("%s, hasBootTime %v, after %d messages: source %s", name, hasBootTime, before, s.meter.Source(s.now))
				}
			}
		}
	}
}

// An outlier before a pause in which messages are lost does not count either, although
// the autopilot's time is behind after it, so that the pause seems too short for what was
// drawn in it.
func TestOutlierBeforeAPause(t *testing.T) {
	for _, wildHJ := range []float64{0, 10, 50, 5000} {
		for _, behindS := range []float64{0, 3, 6.5} {
			s := newSteadyMeter(0)
			atBoot := func(behindS float64) func(*Reading) {
				return func(r *Reading) { r.BootS = 500 + s.now - behindS }
			}
			for range 280 {
				s.addReading(atBoot(0))
			}
			s.addReading(func(r *Reading) { atBoot(0)(r); r.ConsumedHJ = wildHJ })
			s.messages += 7 * 4 // lost
			s.now = float64(s.messages) / 4
			for range 8 {
				s.addReading(atBoot(behindS))
			}
			for range 40 {
				s.addReading(atBoot(0))
			}
			if off := s.errorJ(); math.Abs(off) > 2*consumedUnitJ {
				t.Errorf("%v hJ, then 7 s that seem %v s: %.0f J counted", wildHJ, 7-behindS, off)
			}
		}
	}
}

// An outlier that the link delivers twice is still one message.
func TestOutlierDeliveredTwice(t *testing.T) {
	for _, byHJ := range []float64{40, 10, -30, 1e6} {
		s := newSteadyMeter(100)
		r := s.reading()
		r.ConsumedHJ += byHJ
		s.meter.AddReading(s.now, r)
		s.meter.AddReading(s.now+0.01, r)
		for range 20 {
			s.messages++
			s.now = float64(s.messages) / 4
			s.addReading(nil)
		}
		if off := s.errorJ(); math.Abs(off) > consumedUnitJ {
			t.Errorf("by %v hJ: %.0f J counted", byHJ, off)
		}
	}
}

// A counter that was replaced changes no joule, and is accepted with its second
// message.
func TestCounterReplacedForGood(t *testing.T) {
	for _, byHJ := range []float64{4000, -60} {
		s := newSteadyMeter(400)
		replaced := func(r *Reading) { r.ConsumedHJ += byHJ }
		s.addReading(replaced)
		s.addReading(replaced)
		if s.meter.Source(s.now-0.25) != Consumed || math.Abs(s.meter.consumed.Count-s.reading().ConsumedHJ-byHJ) > 1 {
			t.Errorf("by %v hJ: after its second message source %s, count %v", byHJ, s.meter.Source(s.now-0.25), s.meter.consumed.Count)
		}
		for range 100 {
			s.addReading(replaced)
		}
		if off := s.errorJ(); math.Abs(off) > consumedUnitJ {
			t.Errorf("by %v hJ: %.0f J counted", byHJ, off)
		}
	}
}

// A lasting step of 4 kJ that no current showed is no burst: it is more than can be
// drawn in a quarter of a second. A step that can be drawn is one.
func TestLastingStepIsABurstIfPossible(t *testing.T) {
	for _, c := range []struct{ stepHJ, wantJ float64 }{{40, 0}, {14, 1400}, {6, 600}} {
		s := newSteadyMeter(100)
		for range 100 {
			s.addReading(func(r *Reading) { r.ConsumedHJ += c.stepHJ })
		}
		if off := s.errorJ() - c.wantJ; math.Abs(off) > consumedUnitJ {
			t.Errorf("%v hJ that stay: %.0f J counted, want %v", c.stepHJ, s.errorJ(), c.wantJ)
		}
	}
}

// A burst of computing beyond the range of the current sensor (327 A) stands in the counter
// at once, and in the current of as many readings as it takes: it was drawn.
func TestBurstBeyondTheSensorsRange(t *testing.T) {
	for burstHJ := 10.0; burstHJ < 120; burstHJ++ {
		s := newSteadyMeter(100)
		leftJ := 100 * burstHJ
		for range 100 {
			s.addReading(func(r *Reading) {
				r.ConsumedHJ += burstHJ
				shownJ := math.Min(leftJ, (327.67-r.CurrentA)*r.VoltageV/4)
				r.CurrentA += 4 * shownJ / r.VoltageV
				leftJ -= shownJ
			})
		}
		if off := s.errorJ() - 100*burstHJ; math.Abs(off) > 1.5*consumedUnitJ {
			t.Errorf("%v hJ: %.0f J off", burstHJ, off)
		}
	}
}

// Edge energy of a stall, reported by the first message after it, is drawn, though by
// the autopilot's clock that message follows the last one at once.
func TestStepAfterAStallIsDrawn(t *testing.T) {
	s := newSteadyMeter(100)
	date := func(r *Reading) { r.BootS = 500 + s.now }
	for range 20 {
		s.addReading(date)
	}
	const stallS, burstHJ = 5.0, 25
	clockS := stallS // the autopilot's is behind by it
	for range 60 {
		r := s.reading()
		date(&r)
		r.ConsumedHJ += burstHJ
		s.meter.AddReading(s.now+clockS, r)
		s.messages++
		s.now = float64(s.messages) / 4
	}
	if off := s.meter.DrawnJ(s.now-0.25+clockS) - (s.now-0.25)*150 - 100*burstHJ; math.Abs(off) > 1.5*consumedUnitJ {
		t.Errorf("%.0f J off", off)
	}
}

// Two messages of a burst that are received further apart than they were sent do not
// contradict a counter that rises with them.
func TestBurstStretchedByADelay(t *testing.T) {
	s := newSteadyMeter(100)
	date := func(r *Reading) { r.BootS = 500 + s.now }
	for range 20 {
		s.addReading(date)
	}
	burstHJ := 0.0
	for i := range 60 {
		s.addReading(func(r *Reading) {
			date(r)
			if i < 2 { // 500 J each, in a tenth of a second
				burstHJ += 5
				r.CurrentA = 5000 / 15
				r.BootS += 0.9 * float64(i)
			} else {
				r.BootS += 0.9
			}
			r.ConsumedHJ += burstHJ
		})
	}
	if off := s.errorJ() - 100*burstHJ; math.Abs(off) > 1.5*consumedUnitJ {
		t.Errorf("%.0f J off", off)
	}
}

// A burst during lost messages is in the counter of the next ones, and counts.
func TestBurstInLostMessagesCounts(t *testing.T) {
	for _, lost := range []int{1, 4, 12} {
		s := newSteadyMeter(100)
		s.messages += lost
		s.now = float64(s.messages) / 4
		burstHJ := 12 * float64(lost)
		for range 60 {
			s.addReading(func(r *Reading) { r.ConsumedHJ += burstHJ })
		}
		if off := s.errorJ() - 100*burstHJ; math.Abs(off) > 1.5*consumedUnitJ {
			t.Errorf("%d messages lost: %.0f J off", lost, off)
		}
	}
}

// Remaining charge alone: one outlier does not count, nor does a charge that goes up
// and down by one.
func TestChargeOutlierDoesNotCount(t *testing.T) {
	nan := math.NaN()
	for name, change := range map[string]func(i int, r *Reading){
		"0 % once":          func(i int, r *Reading) { r.Charge *= float64(min(1, max(i-400, 400-i))) },
		"20 points less":    func(i int, r *Reading) { r.Charge -= 0.2 * float64(1-min(1, max(i-400, 400-i))) },
		"100 % once":        func(i int, r *Reading) { r.Charge += float64(1-min(1, max(i-400, 400-i))) * (1 - r.Charge) },
		"up and down by 1":  func(i int, r *Reading) { r.Charge += 0.01 * float64(i/3%2) },
		"up and down twice": func(i int, r *Reading) { r.Charge += 0.01 * float64(i/7%2) },
	} {
		s := newSteadyMeter(0)
		s.meter.SetSpeed(0, 8.4, true)
		s.meter.SetFactor(0, 150/s.meter.PowerW(8.4))
		for i := range 1600 {
			s.meter.SetSpeed(s.now, 8.4, true)
			s.addReading(func(r *Reading) { r.ConsumedHJ, r.CurrentA = nan, nan; change(i, r) })
		}
		if off := s.errorJ(); math.Abs(off) > 1600 {
			t.Errorf("%s: %.0f J counted", name, off)
		}
	}
}

// With any one message modified, the total rises by no more than can be drawn in the
// time, falls below that of the others by no more than a step that the current does not
// contradict, and is the same in the end as without that message.
func TestAnyOneMessage(t *testing.T) {
	const notContradictedJ = (1+gapError)*350*(0.25+reorderMaxS) + consumedUnitJ // it draws up to 350 W
	wild := func(rng *rand.Rand, r Reading) Reading {
		extreme := func(v *float64, other ...float64) {
			switch k := rng.IntN(len(other) + 4); {
			case k < len(other):
				*v = other[k]
			case k == len(other):
				*v *= 2 * rng.Float64()
			case k == len(other)+1:
				*v += 60 * (rng.Float64() - 0.5)
			}
		}
		inf, nan := math.Inf(1), math.NaN()
		extreme(&r.ConsumedHJ, 0, 1, -1, inf, -inf, nan, math.MaxInt32, math.MinInt32, 1e300)
		extreme(&r.CurrentA, 0, 327.67, -327.68, inf, nan)
		extreme(&r.VoltageV, 0, 655, -1, inf, nan)
		extreme(&r.Charge, 0, 1, -1, 2, inf, nan)
		extreme(&r.BootS, 0, 0.1, 1e7, -1, inf, nan)
		return r
	}
	for seed := range flights(600) {
		rng := rand.New(rand.NewPCG(seed, 16))
		sent, _ := simulateMission(rng, 60, 0.25, 0)
		hasBootTime := seed%2 == 0
		hit := 1 + rng.IntN(len(sent)-30)
		var at [2][]float64
		for with := range 2 {
			m := newMeter()
			m.MaxPowerW = 6468
			last, lastS, lowest := 0.0, 0.0, 0.0
			for i, d := range sent {
				r := d.reading
				if hasBootTime {
					r.BootS = 100 + d.sentS
				}
				if i == hit && with == 1 {
					r = wild(rng, r)
				}
				m.SetSpeed(d.sentS, 8.4, true)
				m.AddReading(d.sentS, r)
				got := m.DrawnJ(d.sentS)
				if rose, most := got-last, m.MaxPowerW*(d.sentS-lastS)+consumedUnitJ; !(rose <= most) {
					t.Fatalf("seed %d, %.2f s, %+v: rose by %.0f J, at most %.0f J can be drawn", seed, d.sentS, r, rose, most)
				}
				if !(got >= lowest-notContradictedJ) {
					t.Fatalf("seed %d, %.2f s, %+v: fell by %.0f J", seed, d.sentS, r, lowest-got)
				}
				last, lastS = got, d.sentS
				if with == 0 || i != hit && m.pending == nil { // its own effect is corrected by the next reading that counts
					lowest = max(lowest, got)
				}
				at[with] = append(at[with], got)
			}
		}
		end := len(sent) - 1
		if off := at[1][end] - at[0][end]; !(math.Abs(off) <= consumedUnitJ) {
			t.Errorf("seed %d: %.0f J by one message", seed, off)
		}
	}
}

// A speed that cannot be flown does not count in the model.
func TestSpeedOutlier(t *testing.T) {
	for _, mps := range []float64{327, math.NaN(), math.Inf(1), -5} {
		m := newMeter()
		for i := range 100 {
			speed := 8.4
			if i == 50 {
				speed = mps
			}
			m.SetSpeed(float64(i)/10, speed, true)
		}
		want := m.PowerW(8.4) * 9.9
		if got := m.ModelJ(9.9); !(math.Abs(got-want) <= 0.1*m.MaxPowerW) {
			t.Errorf("%v m/s for a tenth of a second: %.0f J, want %.0f J", mps, got, want)
		}
		if got := m.DrawnJ(9.9); !(math.Abs(got-want) <= 0.1*m.MaxPowerW) {
			t.Errorf("%v m/s for a tenth of a second: %.0f J drawn, want %.0f J", mps, got, want)
		}
	}
}

// No reading makes the meter panic, or rise by more than can be drawn.
func FuzzBattery(f *testing.F) {
	f.Add(10.0, 5.0, 15.0, 0.5, 20.0, 0.25)
	f.Add(math.Inf(1), math.NaN(), -1.0, 2.0, -3.0, 100.0)
	f.Fuzz(func(t *testing.T, consumed, current, volts, charge, bootS, afterS float64) {
		if !(afterS >= 0 && afterS < 1e6) {
			return
		}
		s := newSteadyMeter(40)
		before, fromS := s.meter.DrawnJ(s.now), s.now
		s.meter.AddReading(s.now+afterS, Reading{consumed, current, volts, charge, bootS})
		got := s.meter.DrawnJ(s.now + afterS)
		if rose := got - before; !(rose >= -3*consumedUnitJ && rose <= s.meter.MaxPowerW*(s.now+afterS-fromS+0.25)+consumedUnitJ) {
			t.Fatalf("rose by %v J in %v s", rose, afterS)
		}
		if _, err := json.Marshal(s.meter.State(s.now + afterS)); err != nil {
			t.Fatal(err)
		}
	})
}
