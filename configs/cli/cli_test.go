package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"
)

var errRefused = errors.New("refused")

func testProgram() *Program {
	return &Program{Name: "prog", Usage: "prog tests.", Notes: "The end.", Commands: []Command{
		{"count", "-n N [-json]", "count to N", func(_ context.Context, c *Call) error {
			n := c.Flags.Int("n", 1, "how `many`")
			asJSON := c.JSONFlag()
			words, err := c.Parse("Counting.\n", 2)
			if err != nil {
				return err
			}
			if *n < 0 {
				return BadInputf("-n is %d, want 0 or more", *n)
			}
			return c.Result(*asJSON, map[string]any{"n": *n, "words": words}, "%d %q %v", *n, words, c.Given("n"))
		}},
		{"count", "-n -1", "no count", nil},
		{"fail", "", "fail", func(_ context.Context, c *Call) error {
			if _, err := c.Parse("", 0); err != nil {
				return err
			}
			return fmt.Errorf("disk: %w", os.ErrClosed)
		}},
		{"refuse", "", "fail otherwise", func(context.Context,
			*Call) error {
			return WithCode(3, fmt.Errorf("by the leader: %w", errRefused))
		}},
	}}
}

func TestProgram(t *testing.T) {
	for _, c := range []struct {
		args           string
		code           int
		stdout, stderr string // parts of a line; "": nothing
	}{
		{"count", 0, `1 [] false`, ""},
		{"count a -n 3 b", 0, `3 ["a" "b"] true`, ""},
		{"count -json -n 3 a", 0, `"n": 3`, ""},
		{"count a b c", 2, "", `prog count: unexpected "c" (prog count -h shows the flags)`},
		{"count -n x", 2, "", `prog count: invalid value "x" for flag -n: parse error (prog count -h shows the flags)`},
		{"count -m 3", 2, "", `prog count: flag provided but not defined: -m`},
		{"count -n -1", 2, "", `prog count: -n is -1, want 0 or more`},
		{"count -h", 0, "Counting.\n  -json", ""},
		{"count --help", 0, "  -n many", ""},
		{"fail -h", 0, "  prog fail\n        fail\n", ""},
		{"fail", 1, "", "prog fail: disk: file already closed"},
		{"refuse", 3, "", "prog refuse: by the leader: refused"},
		{"", 2, "", "prog tests.\n  prog count -n N [-json]\n        count to N\n"},
		{"-h", 0, "The end.", ""},
		{"help", 0, "prog count -n N [-json]", ""},
		{"dance", 2, "", `prog: no command "dance"; want one of count, fail, refuse (prog -h)`},
		{"-n 3", 2, "", `prog: a command comes first, one of count, fail, refuse`},
		{"-version", 0, "prog ", ""},
		{"--version", 0, "go1.", ""},
	} {
		t.Run(c.args, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			code := testProgram().Run(t.Context(), strings.Fields(c.args), &stdout, &stderr)
			if code != c.code || (stdout.Len() > 0) != (c.stdout != "") || (stderr.Len() > 0) != (c.stderr != "") ||
				!strings.Contains(stdout.String(), c.stdout) || !strings.Contains(stderr.String(), c.stderr) {
				t.Errorf("status %d, %q, %q", code, &stdout, &stderr)
			}
			if c.args != "" && strings.Count(stderr.String(), "\n") > 1 {
				t.Errorf("more than a line: %q", &stderr)
			}
		})
	}
}

// A program that does something without a word has its flags in its help.
func TestProgramWithoutAWord(t *testing.T) {
	p := testProgram()
	p.Commands = append(p.Commands, Command{"", "-config FILE", "do it", func(_ context.Context, c *Call) error {
		c.Flags.String("config", "", "`file`")
		_, err := c.Parse("", 0)
		return err
	}})
	for args, want := range map[string]struct {
		code int
		text string
	}{
		"":            {0, ""},
		"-config x":   {0, ""},
		"-confi x":    {2, "prog: flag provided but not defined: -confi"},
		"-config x y": {2, `prog: unexpected "y"`},
		"y":           {2, `prog: no command "y"`},
		"-h":          {0, "  prog count -n N"},
		"help":        {0, "  -config file"},
	} {
		var out bytes.Buffer
		if code := p.Run(t.Context(), strings.Fields(args), &out, &out); code != want.code || !strings.Contains(out.String(), want.text) {
			t.Errorf("%q: status %d, %q", args, code, &out)
		}
	}
}

func TestBadInputOfNothingIsNothing(t *testing.T) {
	if err := BadInput(nil); err != nil {
		t.Error(err)
	}
	if err := BadInput(errRefused); !errors.Is(err, errRefused) {
		t.Error(err)
	}
}

func TestResultIsJSON(t *testing.T) {
	var out bytes.Buffer
	c := NewCall("prog", []string{"-json"}, &out, io.Discard)
	asJSON := c.JSONFlag()
	if _, err := c.Parse("", 0); err != nil {
		t.Fatal(err)
	}
	c.Result(*asJSON, map[string]int{"n": 3}, "text")
	var got map[string]int
	if err := json.Unmarshal(out.Bytes(), &got); err != nil || got["n"] != 3 {
		t.Errorf("%v: %q", err, &out)
	}
}

// childVariable makes this test binary a program that does not end when asked:
// its value is the signals that it says it received, but goes on.
const childVariable = "PREFDT_TEST_CHILD"

func TestMain(m *testing.M) {
	if kind := os.Getenv(childVariable); kind != "" {
		os.Args = []string{"child", "run"}
		p := Program{Name: "child", Commands: []Command{{Name: "run", Run: func(ctx context.Context, c *Call) error {
			if kind == "patient" {
				signal.Notify(make(chan os.Signal, 1), syscall.SIGTERM)
			}
			fmt.Fprintln(c.Stdout, "begun")
			<-ctx.Done()
			fmt.Fprintln(c.Stdout, "asked")
			if kind == "obedient" || kind == "saving" {
				time.Sleep(map[string]time.Duration{"saving": 300 * time.Millisecond}[kind])
				return WithCode(ExitResumable, errors.New("interrupted"))
			}
			io.Copy(io.Discard, os.Stdin) // until the test lets it end
			return nil
		}}}}
		p.Main()
	}
	os.Exit(m.Run())
}

// The first signal ends the context; one that comes at once with it changes nothing; a
// later one ends the process, unless the command takes signals itself.
func TestSignals(t *testing.T) {
	for _, c := range []struct {
		kind   string
		signal syscall.Signal
		second bool
		want   string
	}{
		{"obedient", syscall.SIGINT, false, "exit status 75"},
		{"obedient", syscall.SIGTERM, false, "exit status 75"},
		{"saving", syscall.SIGTERM, true, "exit status 75"},
		{"deaf", syscall.SIGINT, true, "signal: interrupt"},
		{"deaf", syscall.SIGTERM, true, "signal: terminated"},
		{"patient", syscall.SIGTERM, true, "<nil>"},
	} {
		t.Run(c.kind+" "+c.signal.String(), func(t *testing.T) {
			child := exec.Command(os.Args[0])
			child.Env = append(os.Environ(), childVariable+"="+c.kind)
			stdin, _ := child.StdinPipe()
			stdout, _ := child.StdoutPipe()
			if err := child.Start(); err != nil {
				t.Fatal(err)
			}
			guard := time.AfterFunc(time.Minute, func() { child.Process.Kill() })
			defer guard.Stop()
			lines := bufio.NewScanner(stdout)
			for _, want := range []string{"begun", "asked"} {
				if !lines.Scan() || lines.Text() != want {
					t.Fatalf("%q, want %q", lines.Text(), want)
				}
				if want == "begun" || c.second {
					child.Process.Signal(c.signal)
				}
			}
			if c.kind == "deaf" { // the default action is back a second after the context has ended
				ended := make(chan struct{})
				defer close(ended)
				go func() {
					for {
						select {
						case <-ended:
							return
						case <-time.After(10 * time.Millisecond):
							child.Process.Signal(c.signal)
						}
					}
				}()
			} else {
				stdin.Close()
			}
			if err := child.Wait(); fmt.Sprint(err) != c.want {
				t.Errorf("ended with %v, want %s", err, c.want)
			}
		})
	}
}
