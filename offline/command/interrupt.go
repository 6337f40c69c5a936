package command

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"time"

	"prefdt/configs/cli"
)

// LimitFlag adds -limit, after which work ends as it does on a signal: a job that
// saves in time leaves a scheduler nothing to kill. The function that it returns is
// called after parsing.
func LimitFlag(f *flag.FlagSet) func(context.Context) (context.Context, context.CancelFunc) {
	limit := new(limitValue)
	f.Var(limit, "limit", "save and end with exit status 75 after this `TIME`, as in 55m; 0: no limit")
	return func(ctx context.Context) (context.Context, context.CancelFunc) {
		if *limit == 0 {
			return ctx, func() {}
		}
		return context.WithTimeout(ctx, time.Duration(*limit))
	}
}

// limitValue is -limit's. It implements flag.Value.
type limitValue time.Duration

func (l *limitValue) String() string { return time.Duration(*l).String() }

func (l *limitValue) Set(text string) error {
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return errors.New("want a time as 55m, or 0 for none")
	}
	*l = limitValue(d)
	return nil
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
