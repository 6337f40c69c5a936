// Package jobs distributes independent work over goroutines. Inputs: a number of
// jobs and a function that does one. Outputs: what the function writes, and the
// first error. Search, corpus, rollout, calibration and the teacher's sweep call
// it.
package jobs

import (
	"context"
	"sync"
	"sync/atomic"
)

// Do does jobs 0 to n-1 on several workers, each with a state of its own. Which
// worker runs a job, and when, must not change the job's result. The first error
// ends the work, and so does the end of ctx. progress, if not nil, is called with
// how many jobs are done, from one goroutine at a time.
func Do[State any](ctx context.Context, n, workers int, newState func() (State, error), job func(s State, i int) error,
	progress func(done int)) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var next atomic.Int64
	var wait sync.WaitGroup
	var progressMu sync.Mutex
	done := 0
	for range max(min(workers, n), 1) {
		wait.Go(func() {
			state, err := newState()
			if err != nil {
				stop(err)
			}
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				if err := job(state, i); err != nil {
					stop(err)
					return
				}
				progressMu.Lock()
				if done++; progress != nil {
					progress(done)
				}
				progressMu.Unlock()
			}
		})
	}
	wait.Wait()
	return context.Cause(ctx)
}

// Stateless is for jobs that need no state.
func Stateless() (struct{}, error) { return struct{}{}, nil }
