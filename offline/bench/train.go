package bench

import (
	"math"
	"math/rand/v2"
	"time"

	"prefdt/inference/model"
	"prefdt/offline/corpus"
	"prefdt/offline/train"
)

// TrainingStep is a whole training step, forward, backward and AdamW, over flights
// that lie in memory, as the least of a few.
type TrainingStep struct {
	Arch       model.Arch `json:"arch"`
	Batch      int        `json:"batch"` // flights
	Slots      int        `json:"slots"` // of each, three tokens a slot
	Workers    int        `json:"workers"`
	StepS      float64    `json:"step_s"`
	TokensPerS float64    `json:"tokens_per_s"`
	// GoMLXRatio compares tokens per second with those of GoMLX's better
	// figure in FIELD_NOTES, for the 3-layer, 4-head, width-256 stack alone.
	GoMLXRatio *float64 `json:"gomlx_ratio"`
}

// gomlxTokensPerS: batch 64 x 60 tokens in 1.6 s.
const gomlxTokensPerS = 64 * 60 / 1.6

func measureTrain(a model.Arch, batch, slots, workers, steps int) (TrainingStep, error) {
	c := train.Default()
	c.Arch, c.Batch, c.Workers = a, batch, workers
	r := rand.New(rand.NewPCG(5, 6))
	flights := make([]*corpus.Example, min(batch, 16))
	for i := range flights {
		flights[i] = randomFlight(r, slots)
	}
	t, err := train.New(c, func(_, i int, ep *corpus.Example) error {
		*ep = *flights[i%len(flights)]
		return nil
	})
	if err != nil {
		return TrainingStep{}, err
	}
	result := TrainingStep{Arch: a, Batch: batch, Slots: slots, Workers: workers, StepS: math.Inf(1)}
	for i := range 1 + steps { // the first makes its buffers
		start := time.Now()
		if _, err := t.Next(); err != nil {
			return TrainingStep{}, err
		}
		if i > 0 {
			result.StepS = min(result.StepS, time.Since(start).Seconds())
		}
	}
	result.TokensPerS = float64(batch*slots*model.TokensPerSlot) / result.StepS
	if a == PaperArch {
		ratio := result.TokensPerS / gomlxTokensPerS
		result.GoMLXRatio = &ratio
	}
	return result, nil
}

// randomFlight has the standard world's sizes: two aircraft, 3 to 8 users with a task.
func randomFlight(r *rand.Rand, slots int) *corpus.Example {
	const aircraft = 2
	e := &corpus.Example{Slots: slots}
	for range slots {
		users := 3 + r.IntN(6)
		in := randomInputs(r, aircraft, users)
		e.AircraftPerSlot, e.UsersPerSlot = append(e.AircraftPerSlot, aircraft), append(e.UsersPerSlot, users)
		e.Aircraft, e.Pairs = append(e.Aircraft, in.Aircraft...), append(e.Pairs, in.Pairs...)
		e.State, e.Return, e.Action = append(e.State, in.State...), append(e.Return, in.Return...), append(e.Action, in.Action...)
		t := &e.Labels
		t.SlotWeight, t.PricePosition, t.Move = append(t.SlotWeight, 1), append(t.PricePosition, r.Float32()), append(t.Move, randomNormal(r, 2*aircraft)...)
		for range users {
			t.Server = append(t.Server, r.IntN(aircraft+1))
			t.Offload, t.MeetsDeadline = append(t.Offload, r.Float32()), append(t.MeetsDeadline, float32(r.IntN(2)))
		}
	}
	e.Labels.MoveScale = 3.6
	return e
}
