package bench

import (
	"math"
	"runtime"
	"time"

	"prefdt/inference"
	"prefdt/inference/belief/learned"
	"prefdt/inference/checkpoint"
	"prefdt/inference/goal"
	"prefdt/inference/slot"
	"prefdt/offline/rollout"
	"prefdt/offline/seeds"
	"prefdt/simbridge/world"
)

// Scale is what one decision costs, under the dispatch decoder, at a number of users and
// aircraft. All users have a task, and each slot is a new snapshot.
type Scale struct {
	Users    int     `json:"users"`
	Aircraft int     `json:"aircraft"`
	Request  string  `json:"request"` // preference, budget, or a budget with an estimator of beliefs
	P50MS    float64 `json:"p50_ms"`
	Allocs   float64 `json:"allocs"` // of a decision, once it has seen as many users
	// Exponent is that of the growth with the users, from 100 up; null for fewer than 300.
	Exponent *float64 `json:"exponent"`
}

var (
	scaleUsers    = []int{10, 50, 100, 300, 1000, 4000}
	scaleAircraft = []int{2, 8}
)

const (
	scaleSlots   = 15
	scaleWarmUp  = 4 // slots in which memory grows
	exponentFrom = 100
)

// measureScale measures all sizes up to so many users.
func measureScale(ck *checkpoint.Checkpoint, mostUsers int) (all []Scale, err error) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	for _, aircraft := range scaleAircraft {
		for _, request := range []string{"preference", "budget", "estimator"} {
			fromMS := 0.0 // at exponentFrom
			for _, users := range scaleUsers {
				if users > mostUsers {
					break
				}
				x, err := measureSize(ck, users, aircraft, request)
				if err != nil {
					return nil, err
				}
				if users == exponentFrom {
					fromMS = x.P50MS
				}
				if users > exponentFrom {
					x.Exponent = new(math.Log(x.P50MS/fromMS) / math.Log(float64(users)/exponentFrom))
				}
				all = append(all, x)
			}
		}
	}
	return all, nil
}

// decisionMeter measures each decision of a policy.
type decisionMeter struct {
	rollout.Policy
	timesMS []float64
	allocs  []float64
}

func (m *decisionMeter) Decide(s *slot.Snapshot, o goal.Objective, d *slot.Decision) goal.Observation {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := time.Now()
	observed := m.Policy.Decide(s, o, d)
	ms := time.Since(start).Seconds() * 1e3
	runtime.ReadMemStats(&after)
	m.timesMS, m.allocs = append(m.timesMS, ms), append(m.allocs, float64(after.Mallocs-before.Mallocs))
	return observed
}

func measureSize(ck *checkpoint.Checkpoint, users, aircraft int, request string) (x Scale, err error) {
	c := world.Standard()
	c.Physics, c.Aircraft, c.Slots = ck.Physics, aircraft, scaleSlots
	c.Users, c.ActiveMin, c.ActiveMax, c.TaskProbability = users, users, users, 1
	policy, err := inference.New(ck, inference.DecoderDispatch)
	if err != nil {
		return x, err
	}
	if request == "estimator" {
		policy.Estimator = ck.NewEstimator(learned.Surroundings{Physics: &c.Physics, Sounding: true, Wind: true, Payload: true, Slow: 0.45})
	}
	meter := &decisionMeter{Policy: policy}
	runner, err := rollout.NewWithPolicy(meter, &ck.GoalConstants, c, rollout.ReportLink{})
	if err != nil {
		return x, err
	}
	r := rollout.Request{Mode: goal.Preference, Omega: 0.5}
	if request != "preference" {
		const aboveFloor = 1.2
		o := goal.New(&ck.GoalConstants, &c.Physics, c.Slots, c.Aircraft)
		r = rollout.Request{Mode: goal.Target, BudgetJ: aboveFloor * o.FloorJ()}
	}
	runner.Fly(seeds.EvaluationFirst, r)
	steady := meter.allocs[scaleWarmUp:]
	return Scale{Users: users, Aircraft: aircraft, Request: request, P50MS: quantile(meter.timesMS[scaleWarmUp:], 0.5),
		Allocs: quantile(steady, 0.5)}, nil
}
