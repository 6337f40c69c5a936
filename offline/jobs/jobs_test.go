package jobs

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
)

// Every job is done once, whatever the number of workers, and told of in order.
func TestDo(t *testing.T) {
	for _, workers := range []int{0, 1, 3, 50} {
		var tools atomic.Int64
		times, told := make([]int, 20), []int{}
		err := Do(t.Context(), len(times), workers, func() (int64, error) { return tools.Add(1), nil },
			func(_ int64, i int) error { times[i]++; return nil }, func(done int) { told = append(told, done) })
		want := make([]int, 20)
		for i := range want {
			want[i] = i + 1
		}
		if err != nil || slices.Min(times) != 1 || slices.Max(times) != 1 || !slices.Equal(told, want) || tools.Load() != int64(max(min(workers, 20), 1)) {
			t.Errorf("%d workers: %v, done %v, told %v, %d tools", workers, err, times, told, tools.Load())
		}
	}
	if err := Do(t.Context(), 0, 2, Stateless, func(struct{}, int) error { t.Error("a job of none"); return nil }, nil); err != nil {
		t.Error(err)
	}
}

// An error of a tool, of a job, or the end of the context ends the work.
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
	if err := Do(t.Context(), 10, 2, func() (int, error) { return 0, wrong }, func(int, int) error { t.Error("without a tool"); return nil }, nil); err != wrong {
		t.Errorf("tool: %v", err)
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
