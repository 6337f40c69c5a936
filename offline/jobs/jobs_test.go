package jobs

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
)

// Every job is done once, whatever the number of workers, and reported in order.
func TestDo(t *testing.T) {
	for _, workers := range []int{0, 1, 3, 50} {
		var states atomic.Int64
		times, reported := make([]int, 20), []int{}
		err := Do(t.Context(), len(times), workers, func() (int64, error) { return states.Add(1), nil },
			func(_ int64, i int) error { times[i]++; return nil }, func(done int) { reported = append(reported, done) })
		want := make([]int, 20)
		for i := range want {
			want[i] = i + 1
		}
		if err != nil || slices.Min(times) != 1 || slices.Max(times) != 1 || !slices.Equal(reported, want) ||
			states.Load() != int64(max(min(workers, 20), 1)) {
			t.Errorf("%d workers: %v, done %v, reported %v, %d states", workers, err, times, reported, states.Load())
		}
	}
	if err := Do(t.Context(), 0, 2, Stateless, func(struct{}, int) error { t.Error("a job of none"); return nil }, nil); err != nil {
		t.Error(err)
	}
}

// An error of a state, of a job, or the end of the context ends the work.
func TestDoEnds(t *testing.T) {
	wrong := errors.New("wrong")
	did := 0
	if err := Do(t.Context(), 10, 1, Stateless, func(_ struct{}, i int) error {
		if did++; i == 3 {
			return wrong
		}
		return nil
	}, nil); err != wrong || did != 4 {
		t.Errorf("job: %v after %d", err, did)
	}
	if err := Do(t.Context(), 10, 2, func() (int, error) { return 0, wrong },
		func(int, int) error { t.Error("a job ran without a state"); return nil }, nil); err != wrong {
		t.Errorf("state: %v", err)
	}
	ctx, stop := context.WithCancel(t.Context())
	did = 0
	if err := Do(ctx, 10, 1, Stateless, func(_ struct{}, i int) error {
		if did++; i == 2 {
			stop()
		}
		return nil
	}, nil); !errors.Is(err, context.Canceled) || did != 3 {
		t.Errorf("context: %v after %d", err, did)
	}
}
