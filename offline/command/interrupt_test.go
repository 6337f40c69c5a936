package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"prefdt/configs/cli"
)

// What a signal or -limit ended may be continued; what failed besides may not.
func TestInterrupted(t *testing.T) {
	stopped, stop := context.WithCancel(t.Context())
	stop()
	expired, release := context.WithTimeout(t.Context(), 0)
	defer release()
	full := errors.New("no space left on device")
	for _, c := range []struct {
		name   string
		ctx    context.Context
		err    error
		ended  bool
		status int
		text   string
	}{
		{"signal", stopped, fmt.Errorf("arm base: %w", context.Canceled), true, 75, "interrupted at step 3"},
		{"limit", expired, fmt.Errorf("arm base: %w", context.DeadlineExceeded), true, 75, "-limit is reached at step 3"},
		{"full disk while saving", stopped, full, false, 75, "interrupted at step 3"},
		{"no end", t.Context(), context.Canceled, false, 75, "interrupted at step 3"},
	} {
		if got := Ended(c.ctx, c.err); got != c.ended {
			t.Errorf("%s: ended %v", c.name, got)
		}
		err := fmt.Errorf("train: %w", Interrupted(c.ctx, " at step %d", 3))
		call := cli.NewCall("offline", nil, io.Discard, io.Discard)
		if status := call.Exit(err); status != c.status || err.Error() != "train: "+c.text || c.ctx.Err() != nil && !Ended(c.ctx, err) {
			t.Errorf("%s: status %d, %v", c.name, status, err)
		}
	}
}

func TestLimitFlag(t *testing.T) {
	for _, c := range []struct {
		args    []string
		status  int
		bounded bool
	}{
		{nil, 0, false},
		{[]string{"-limit", "0"}, 0, false},
		{[]string{"-limit", "55m"}, 0, true},
		{[]string{"-limit", "-1s"}, 2, false},
		{[]string{"-limit", "55"}, 2, false},
	} {
		call := cli.NewCall("offline", c.args, io.Discard, io.Discard)
		limit := LimitFlag(call.Flags)
		_, err := call.Parse("", 0)
		ctx, stop := t.Context(), context.CancelFunc(func() {})
		if err == nil {
			ctx, stop = limit(ctx)
		}
		at, bounded := ctx.Deadline()
		if status := call.Exit(err); status != c.status || bounded != c.bounded || bounded && time.Until(at) < 50*time.Minute {
			t.Errorf("%v: status %d (%v), deadline %v", c.args, status, err, at)
		}
		stop()
	}
}
