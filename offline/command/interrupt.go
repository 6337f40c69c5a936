package command

import (
	"context"
	"errors"
	"flag"
	"fmt"

	"prefdt/configs/cli"
)

// LimitFlag adds -limit, after which work ends as it does on a signal: a job that
// saves in time leaves a scheduler nothing to kill. The function that it returns is
// called after parsing; its error is bad input.
func LimitFlag(f *flag.FlagSet) func(context.Context) (context.Context, context.CancelFunc, error) {
	limit := f.Duration("limit", 0, "save and end with exit status 75 after this `TIME`, as in 55m; 0: no limit")
	return func(ctx context.Context) (context.Context, context.CancelFunc, error) {
		switch {
		case *limit < 0:
			return ctx, func() {}, cli.BadInputf("-limit is %v, want a time as 55m, or 0 for none", *limit)
		case *limit == 0:
			return ctx, func() {}, nil
		}
		ctx, stop := context.WithTimeout(ctx, *limit)
		return ctx, stop, nil
	}
}

// Ended reports whether err is but the end of ctx. What else fails, such as a disk
// that is full while the work is saved, fails again, and is not to be continued.
func Ended(ctx context.Context, err error) bool {
	return ctx.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded))
}

// Interrupted is the error of work that ended with ctx and can be continued: exit status
// 75. The text says where it ended and what continues it.
func Interrupted(ctx context.Context, format string, args ...any) error {
	why := "interrupted"
	if errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
		why = "-limit is reached"
	}
	return cli.WithCode(cli.ExitResumable, &interrupted{why + fmt.Sprintf(format, args...), context.Cause(ctx)})
}

type interrupted struct {
	text  string
	cause error
}

func (i *interrupted) Error() string { return i.text }
func (i *interrupted) Unwrap() error { return i.cause }
