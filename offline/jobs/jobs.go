// Package jobs shares independent work out among goroutines.
package jobs

import (
	"context"
	"sync"
	"sync/atomic"
)

// Do does jobs 0 to n-1 on several workers, each with a tool of its own. Who does
// a job, and when, must not change what comes of it. The first error ends the
// work, and so does the end of ctx. progress, if not nil, is told how many jobs
// are done, from one goroutine at a time.
func Do[Tool any](ctx context.Context, n, workers int, tool func() (Tool, error), job func(t Tool, i int) error, progress func(done int)) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var next atomic.Int64
	var wait sync.WaitGroup
	var telling sync.Mutex
	done := 0
	for range max(min(workers, n), 1) {
		wait.Go(func() {
			t, err := tool()
			if err != nil {
				stop(err)
			}
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				if err := job(t, i); err != nil {
					stop(err)
					return
				}
				telling.Lock()
				if done++; progress != nil {
					progress(done)
				}
				telling.Unlock()
			}
		})
	}
	wait.Wait()
	return context.Cause(ctx)
}

// Stateless is for jobs that need no tool.
func Stateless() (struct{}, error) { return struct{}{}, nil }
