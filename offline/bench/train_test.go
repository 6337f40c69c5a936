package bench

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"

	"prefdt/inference/model"
	"prefdt/offline/corpus"
	"prefdt/offline/nn"
	"prefdt/offline/train"
)

// BenchmarkTrainingStep times a whole training step, forward, backward and AdamW,
// over flights that lie in memory: at the shipped network's size with whole
// flights, and at the paper's with its windows of 20 slots.
func BenchmarkTrainingStep(b *testing.B) {
	for _, c := range []struct {
		arch         model.Arch
		batch, slots int
	}{{train.Default().Arch, 16, 100}, {PaperArch, 64, 20}} {
		b.Run(fmt.Sprintf("width=%d/flights=%d/slots=%d", c.arch.Width, c.batch, c.slots), func(b *testing.B) {
			t, err := newTrainer(c.arch, c.batch, c.slots, min(2, runtime.GOMAXPROCS(0)))
			if err == nil {
				_, err = t.Next() // makes its buffers
			}
			for err == nil && b.Loop() {
				_, err = t.Next()
			}
			if err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(c.batch*c.slots*model.TokensPerSlot*b.N)/b.Elapsed().Seconds(), "tokens/s")
		})
	}
}

func newTrainer(a model.Arch, batch, slots, workers int) (*nn.Trainer, error) {
	c := train.Default()
	c.Arch, c.Batch, c.Workers = a, batch, workers
	r := rand.New(rand.NewPCG(5, 6))
	flights := make([]*corpus.Example, min(batch, 16))
	for i := range flights {
		flights[i] = randomFlight(r, slots)
	}
	return train.New(c, func(_, i int, ep *corpus.Example) error {
		*ep = *flights[i%len(flights)]
		return nil
	})
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
		t.SlotWeight, t.PricePosition, t.Move = append(t.SlotWeight, 1), append(t.PricePosition, r.Float32()),
			append(t.Move, randomNormal(r, 2*aircraft)...)
		for range users {
			t.Server = append(t.Server, r.IntN(aircraft+1))
			t.Offload, t.MeetsDeadline = append(t.Offload, r.Float32()), append(t.MeetsDeadline, float32(r.IntN(2)))
		}
	}
	e.Labels.MoveScale = 3.6
	return e
}
