package energy

import (
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

var randomFlights = flag.Int("flights", 400, "random flights of TestNeverFurtherOffThanItSays")

// batteryPack is a battery and an autopilot that measures it: as well as the meter
// assumes, and no better.
type batteryPack struct {
	rng    *rand.Rand
	drawnJ float64 // J, all of it

	currentGain                 float64 // of the current sensor
	counterRoundingJ            float64 // what the counter adds before it truncates
	counterZeroJ                float64 // truth at which it was 0
	counterStartHJ              float64 // where it began
	counterWrapHJ               float64
	fullAtJ, chargeRoundingJ    float64 // truth at which the pack was full; its rounding
	bootS                       float64 // when the autopilot booted
	reportedJ                   float64 // truth at the last message, for its mean current
	reportedS                   float64
	sendsConsumed, sendsCurrent bool
	sendsCharge, sendsBootTime  bool
}

const packVolts = 15.0

func (p *batteryPack) reading(now float64) Reading {
	r := Absent()
	if p.sendsConsumed {
		r.ConsumedHJ = p.count()
	}
	if p.sendsCurrent && now > p.reportedS {
		r.CurrentA, r.VoltageV = p.currentGain*(p.drawnJ-p.reportedJ)/(now-p.reportedS)/packVolts, packVolts
	}
	if p.sendsCharge {
		r.Charge = math.Max(0, 1-math.Floor((p.drawnJ-p.fullAtJ+p.chargeRoundingJ)/1500)/100)
	}
	if p.sendsBootTime {
		r.BootS = now - p.bootS
	}
	p.reportedJ, p.reportedS = p.drawnJ, now
	return r
}

func (p *batteryPack) count() float64 {
	return math.Mod(p.counterStartHJ+math.Floor((p.drawnJ-p.counterZeroJ+p.counterRoundingJ)/100), p.counterWrapHJ)
}

// resetDetectable is whether a reset of its counters would be detected: they are sent,
// and fall.
func (m *Meter) resetDetectable() bool {
	for _, a := range []counterReference{m.consumed, m.charge} {
		if a.readingNumber != m.readingCount || a.Count < 2 {
			return false
		}
	}
	return true
}

// changeFields changes which fields the autopilot sends.
func (p *batteryPack) changeFields() {
	p.sendsConsumed, p.sendsCurrent, p.sendsCharge = p.rng.IntN(3) > 0, p.rng.IntN(2) == 0, p.rng.IntN(2) == 0
}

// queuedMessage is a message in transit.
type queuedMessage struct {
	reading   Reading
	speed     float64
	flying    bool
	isBattery bool // a battery message
}

// Whatever happens to the sources in a flight, the total's error is never more than the
// meter states: fields that come and go, silences, delayed messages, reboots, full
// again on disarm, swapped packs, counters that wrap, and restarts of the leader.
func TestErrorIsWithinUncertainty(t *testing.T) {
	happened := map[string]int{}
	sumJ, worstJ, statedJ, n := 0.0, 0.0, 0.0, 0.0
	if testing.Short() {
		*randomFlights /= 10
	}
	for seed := range *randomFlights {
		rng := rand.New(rand.NewPCG(uint64(seed), 7))
		p := &batteryPack{
			rng: rng, currentGain: 0.97 + 0.06*rng.Float64(), counterRoundingJ: []float64{0, 50, 99}[rng.IntN(3)],
			counterWrapHJ:   math.Inf(1),
			chargeRoundingJ: 1500 * rng.Float64(), bootS: -10, sendsBootTime: rng.IntN(3) > 0, sendsConsumed: true, sendsCurrent: true,
			sendsCharge: true,
		}
		if rng.IntN(4) == 0 {
			p.counterStartHJ, p.counterWrapHJ = 65500, 65536
		}
		m, clockS := newMeter(), 0.0 // the leader's clock is clockS behind
		m.SetSpeed(0, 0, true)
		reportedFactor, wind, speed, edge := 1.0, 1.0, 0.0, 0.0
		flying, silentS, stallS, awayS, groundS := true, -1.0, -1.0, -1.0, -1.0
		var waiting []queuedMessage
		var state State
		var leftS float64
		history := ""
		for i := range 3000 {
			now := float64(i) / 10
			event := func(name string) {
				happened[name]++
				history += fmt.Sprintf(" %s@%.1f", name, now)
			}
			if i%10 == 0 {
				speed, edge = 12*rng.Float64(), 0
				if i%300 == 0 {
					wind = reportedFactor * (0.87 + 0.26*rng.Float64())
				}
				if now < silentS || awayS >= 0 || !flying {
					speed = 0 // it holds
				} else {
					edge = 60 * rng.Float64()
					m.AddEdge(now-clockS, edge)
				}
				if i%600 == 0 && awayS < 0 {
					reportedFactor = wind * (0.9 + 0.2*rng.Float64())
					m.SetFactor(now-clockS, reportedFactor)
				}
				quiet := i > 100 && now > silentS && now > stallS && awayS < 0 && flying
				switch k := rng.IntN(200); {
				case k < 8 && quiet:
					event("fields")
					p.changeFields()
				case k < 11 && quiet:
					event("silence")
					silentS = now + 1 + 14*rng.Float64()
				case k < 14 && quiet && p.sendsBootTime:
					event("stall")
					stallS = now + 1 + 8*rng.Float64()
				case k < 16 && quiet && (p.sendsBootTime || p.sendsConsumed && p.count() > 20): // it could not be detected otherwise
					event("reboot")
					p.counterZeroJ, p.counterStartHJ, p.bootS, silentS = p.drawnJ, 0, now, now+5
					if rng.IntN(2) == 0 { // it falls
						flying, groundS = false, now+20
					}
				case k < 18 && quiet && m.resetDetectable():
					event("swap")
					p.counterZeroJ, p.counterStartHJ, p.fullAtJ = p.drawnJ, 0, p.drawnJ
				case k < 20 && quiet && m.resetDetectable():
					event("disarm")
					flying, groundS, p.fullAtJ = false, now+20, p.drawnJ
				case k < 23 && quiet:
					event("restart")
					state, leftS, awayS = m.State(now-clockS), now, now+0.3+15*rng.Float64()
				}
			}
			if !flying && now >= groundS {
				flying = true
			}
			if flying {
				p.drawnJ += wind*m.PowerW(speed)/10 + edge/10
			}
			now += 0.1 // what was drawn until now is measured now
			if awayS >= 0 && now >= awayS {
				raw, err := json.Marshal(state)
				if err != nil {
					t.Fatal(err)
				}
				var again State
				if err := json.Unmarshal(raw, &again); err != nil {
					t.Fatal(err)
				}
				m, clockS, awayS = newMeter(), now-3, -1
				m.Restore(now-clockS, again, now-leftS)
			}
			if now > silentS {
				waiting = append(waiting, queuedMessage{speed: speed, flying: flying})
				if i%3 == 0 {
					waiting = append(waiting, queuedMessage{reading: p.reading(now), isBattery: true})
				}
			}
			if awayS >= 0 {
				waiting = nil
				continue
			}
			if now < stallS {
				continue
			}
			for k, s := range waiting {
				if len(waiting) > 60 && k > 15 && k < 40 {
					continue // the buffer is full
				}
				if s.isBattery {
					m.AddReading(now-clockS, s.reading)
				} else {
					m.SetSpeed(now-clockS, s.speed, s.flying)
				}
			}
			waiting = waiting[:0]
			off, stated := m.DrawnJ(now-clockS)-p.drawnJ, m.UncertaintyJ(now-clockS)
			if math.Abs(off) > stated+5 { // speeds are known a tenth of a second late
				t.Fatalf("seed %d, %.1f s: %.0f J off, stated %.0f J, from %s;%s", seed, now, off, stated, m.Source(now-clockS), history)
			}
			if m.Source(now-clockS) == Consumed {
				sumJ, statedJ, n, worstJ = sumJ+math.Abs(off), statedJ+stated, n+1, max(worstJ, math.Abs(off))
			}
		}
	}
	t.Logf("%v; from the counter: %.0f J off on average, stated %.0f J", happened, sumJ/n, statedJ/n)
	for _, name := range []string{"fields", "silence", "stall", "reboot", "swap", "disarm", "restart"} {
		if happened[name] < *randomFlights/4 {
			t.Errorf("%s happened only %d times", name, happened[name])
		}
	}
}
