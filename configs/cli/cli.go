// Package cli is the command line of every program of the repository: -h,
// -version, exit status 2 and one line for bad input found before any work
// begins, a first signal that asks and a second that ends, and JSON.
//
// Inputs: a table of commands, and the words of the command line. Outputs: an
// exit status. Each program's main calls it.
package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"time"

	"prefdt/configs"
)

// Exit statuses. Programs add others with WithCode.
const (
	ExitOK     = 0
	ExitFailed = 1
	// ExitUsage is for a bad command line or configuration: nothing was begun, and
	// the same command fails again, so that systemd does not restart it.
	ExitUsage = 2
	// ExitResumable is EX_TEMPFAIL of sysexits.h, for work that was ended early and
	// saved: the same command continues it.
	ExitResumable = 75
)

// Command is one word after the program's name, or, with Name "", what the
// program does without one. Several rows of one name are one command, that of
// the first, with several forms to explain.
type Command struct {
	Name, Args, Summary string // "budget", "-energy JOULES [-mode MODE]", "request a total of joules"
	Run                 func(ctx context.Context, c *Call) error
}

// Program is a main. Usage goes above the list of commands in its help, Notes
// below it.
type Program struct {
	Name, Usage, Notes string
	Commands           []Command
	Was                map[string]string // today's names of commands by those of the version before, which are still understood
}

// Main runs the program on os.Args and exits. SIGINT and SIGTERM end the
// command's context. A second later the default action is back, so that another signal
// ends the process at once, unless the command has called signal.Notify. Until then
// others count as the first: a scheduler signals a job's processes all together, and the
// job's shell passes its own signal on.
func (p *Program) Main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, func() { time.AfterFunc(time.Second, stop) })
	os.Exit(p.Run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// Run is Main without the process, for tests.
func (p *Program) Run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	name := ""
	if len(args) > 0 {
		switch {
		case slices.Contains([]string{"-version", "--version"}, args[0]):
			fmt.Fprintln(stdout, p.Name, Version())
			return ExitOK
		case args[0] == "help":
			args = []string{"-h"}
		case !strings.HasPrefix(args[0], "-"):
			name, args = cmp.Or(p.Was[args[0]], args[0]), args[1:]
		}
	}
	rows := slices.DeleteFunc(slices.Clone(p.Commands), func(c Command) bool { return c.Name != name })
	if len(rows) == 0 {
		switch {
		case name != "":
			fmt.Fprintf(stderr, "%s: no command %q; %s (%[1]s -h)\n", p.Name, name, p.meant(name))
		case len(args) == 0:
			p.help(stderr)
		case slices.Contains([]string{"-h", "-help", "--help"}, args[0]):
			p.help(stdout)
			return ExitOK
		default:
			fmt.Fprintf(stderr, "%s: a command comes first, one of %s (%[1]s -h)\n", p.Name, p.names())
		}
		return ExitUsage
	}
	c := NewCall(strings.TrimSpace(p.Name+" "+name), args, stdout, stderr)
	c.help = func() {
		if name == "" {
			p.help(stdout)
		} else {
			p.rowsHelp(stdout, rows)
		}
	}
	return c.Exit(rows[0].Run(ctx, c))
}

// meant is the command of which a name is a word, as "mission stop" of "stop"; else all names.
func (p *Program) meant(name string) string {
	for _, c := range p.Commands {
		if words, _, _ := strings.Cut(c.Args, " "); slices.Contains(strings.Split(words, "|"), name) {
			return fmt.Sprintf("did you mean %s %s?", c.Name, name)
		}
	}
	return "want one of " + p.names()
}

func (p *Program) names() string {
	var names []string
	for _, c := range p.Commands {
		if c.Name != "" && !slices.Contains(names, c.Name) {
			names = append(names, c.Name)
		}
	}
	return strings.Join(names, ", ")
}

func (p *Program) help(w io.Writer) {
	fmt.Fprintln(w, p.Usage)
	p.rowsHelp(w, p.Commands)
	fmt.Fprintf(w, "%s COMMAND -h shows a command's flags, %[1]s -version what this program was built from.\n", p.Name)
	if p.Notes != "" {
		fmt.Fprintln(w, p.Notes)
	}
}

func (p *Program) rowsHelp(w io.Writer, rows []Command) {
	for _, c := range rows {
		fmt.Fprintf(w, "  %s\n        %s\n", strings.Join(strings.Fields(p.Name+" "+c.Name+" "+c.Args), " "), c.Summary)
	}
}

// Version is what a program was built from: its version, commit, compiler and target.
func Version() string {
	text, dirty := "(devel)", ""
	if info, ok := debug.ReadBuildInfo(); ok {
		text = info.Main.Version
		for _, s := range info.Settings {
			switch {
			case s.Key == "vcs.revision":
				text += ", commit " + s.Value
			case s.Key == "vcs.time":
				text += " of " + s.Value
			case s.Key == "vcs.modified" && s.Value == "true":
				dirty = ", modified since"
			}
		}
	}
	return fmt.Sprintf("%s%s, %s %s/%s", text, dirty, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// Call is one run of a command: it declares its flags on Flags, calls Parse,
// checks what it was given, and only then begins to work.
type Call struct {
	Flags          *flag.FlagSet
	Stdout, Stderr io.Writer
	args           []string
	help           func()
}

// NewCall returns a call outside a Program, for tests.
func NewCall(name string, args []string, stdout, stderr io.Writer) *Call {
	c := &Call{Flags: flag.NewFlagSet(name, flag.ContinueOnError), Stdout: stdout, Stderr: stderr, args: args, help: func() {}}
	c.Flags.SetOutput(io.Discard) // a mistake is one line, the error
	return c
}

// Parse reads flags and at most so many words, anywhere among them. With -h it
// prints usage (empty: the command's row of the program) and the flags, and returns
// flag.ErrHelp, which is no failure. Every other error is bad input.
func (c *Call) Parse(usage string, most int) (words []string, err error) {
	for rest := c.args; ; rest = rest[1:] {
		err := c.Flags.Parse(rest)
		if errors.Is(err, flag.ErrHelp) {
			if usage == "" {
				c.help()
			}
			fmt.Fprint(c.Stdout, usage)
			c.Flags.SetOutput(c.Stdout)
			c.Flags.PrintDefaults()
			return nil, err
		} else if err != nil {
			return nil, BadInputf("%w (%s -h shows the flags)", err, c.Flags.Name())
		}
		if rest = c.Flags.Args(); len(rest) == 0 {
			return words, nil
		}
		if len(words) == most {
			return nil, BadInputf("unexpected %q (%s -h shows the flags)", rest[0], c.Flags.Name())
		}
		words = append(words, rest[0])
	}
}

// Config reads the YAML file at path, if there is one, over the defaults in v,
// and calls v's Check, if it has one. It comes after Parse; flags that are bound
// to fields of v win over the file. Every error is bad input.
func (c *Call) Config(path string, v any) error {
	if path != "" {
		given := map[string]string{}
		c.Flags.Visit(func(f *flag.Flag) { given[f.Name] = f.Value.String() })
		if err := configs.Load(path, v); err != nil {
			return BadInput(err)
		}
		for name, value := range given {
			c.Flags.Set(name, value) // it was valid before
		}
	}
	if x, ok := v.(interface{ Check() error }); ok {
		return BadInput(x.Check())
	}
	return nil
}

// Given reports whether a flag stands on the command line.
func (c *Call) Given(name string) (given bool) {
	c.Flags.Visit(func(f *flag.Flag) { given = given || f.Name == name })
	return given
}

// Exit prints an error on one line, and returns the exit status that it means.
func (c *Call) Exit(err error) int {
	if err == nil || errors.Is(err, flag.ErrHelp) {
		return ExitOK
	}
	fmt.Fprintf(c.Stderr, "%s: %v\n", c.Flags.Name(), err)
	if x, ok := errors.AsType[exitError](err); ok {
		return x.code
	}
	return ExitFailed
}

// Result prints what a command made: v as JSON, or else a line (without a
// newline at its end) for people.
func (c *Call) Result(asJSON bool, v any, format string, args ...any) (err error) {
	if asJSON {
		return c.PrintJSON(v)
	}
	_, err = fmt.Fprintf(c.Stdout, format+"\n", args...)
	return err
}

// PrintJSON prints v, indented.
func (c *Call) PrintJSON(v any) error {
	out := json.NewEncoder(c.Stdout)
	out.SetIndent("", "  ")
	return out.Encode(v)
}

// JSONFlag declares -json.
func (c *Call) JSONFlag() *bool {
	return c.Flags.Bool("json", false, "print one JSON object, and everything else to standard error")
}

type exitError struct {
	error
	code int
}

func (e exitError) Unwrap() error { return e.error }

// WithCode gives an error an exit status of its own.
func WithCode(code int, err error) error { return exitError{err, code} }

// BadInput marks an error as found before any work: exit status 2. No error
// stays none.
func BadInput(err error) error {
	if err == nil {
		return nil
	}
	return WithCode(ExitUsage, err)
}

// BadInputf makes such an error.
func BadInputf(format string, args ...any) error { return BadInput(fmt.Errorf(format, args...)) }
