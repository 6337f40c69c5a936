// Package process runs the programs of a flight beside the simulator.
//
// Inputs: a program with its arguments. Outputs: for the leader, which Start runs
// until it is stopped, a log file and how it ended; for the crew's tool, which
// Run runs to its end, the last line it printed. simbridge/fly and
// simbridge/chaos call it.
package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// Process is a program running on its own.
type Process struct {
	command *exec.Cmd
	tail    tail // of its standard error
	log     *os.File
	Done    chan struct{} // closed when it has ended
	err     error         // how, before Done is closed
}

// Start runs a program; what it prints goes to a file.
func Start(args []string, logPath string) (*Process, error) {
	log, err := os.Create(logPath)
	if err != nil {
		return nil, fmt.Errorf("log of %s: %w", args[0], err)
	}
	p := &Process{command: exec.Command(args[0], args[1:]...), log: log, Done: make(chan struct{})}
	p.command.Stdout = log
	p.command.Stderr = io.MultiWriter(&p.tail, log)
	if err := p.command.Start(); err != nil {
		log.Close()
		return nil, fmt.Errorf("start %s: %w", args[0], err)
	}
	go func() {
		p.err = p.command.Wait()
		log.Close()
		close(p.Done)
	}()
	return p, nil
}

// Ended reports whether the process has ended.
func (p *Process) Ended() bool {
	select {
	case <-p.Done:
		return true
	default:
		return false
	}
}

// Failure returns how a process ended, with the last line of its standard error.
func (p *Process) Failure() error {
	how := "ended before the mission did"
	if p.err != nil {
		how = p.err.Error()
	}
	if last := strings.TrimSpace(lastLine(p.tail)); last != "" {
		how += ": " + last
	}
	return fmt.Errorf("%s: %s (see %s)", p.command.Path, how, p.log.Name())
}

// Stop sends SIGTERM, and SIGKILL after five seconds.
func (p *Process) Stop() {
	p.Signal(syscall.SIGTERM)
	select {
	case <-p.Done:
	case <-time.After(5 * time.Second):
		p.command.Process.Kill()
		<-p.Done
	}
}

// Shutdown stops the process, and returns an error if it failed.
func (p *Process) Shutdown() error {
	p.Stop()
	if p.err != nil {
		return p.Failure()
	}
	return nil
}

// Kill ends the process at once, as a loss of power does, and waits for its end.
func (p *Process) Kill() error {
	p.command.Process.Kill() // in vain where it has ended
	<-p.Done
	return nil
}

// Over is closed when it has ended.
func (p *Process) Over() <-chan struct{} { return p.Done }

// Pause and Continue are SIGSTOP and SIGCONT.
func (p *Process) Pause()    { p.Signal(syscall.SIGSTOP) }
func (p *Process) Continue() { p.Signal(syscall.SIGCONT) }

// Signal sends a signal.
func (p *Process) Signal(s os.Signal) { p.command.Process.Signal(s) }

// PID is the process's number.
func (p *Process) PID() int { return p.command.Process.Pid }

// ExitCode returns that of a process that has ended.
func (p *Process) ExitCode() int { return p.command.ProcessState.ExitCode() }

// tail keeps the end of what is written to it.
type tail []byte

func (t *tail) Write(b []byte) (int, error) {
	*t = append(*t, b...)
	*t = (*t)[max(len(*t)-4096, 0):]
	return len(b), nil
}

// lastLine is the last line that is not blank.
func lastLine(text []byte) string {
	text = bytes.TrimSpace(text)
	return string(text[bytes.LastIndexByte(text, '\n')+1:])
}

// Run runs the crew's tool to its end.
func Run(ctx context.Context, args []string) (string, error) {
	command := exec.CommandContext(ctx, args[0], args[1:]...)
	command.Cancel = func() error { return command.Process.Signal(syscall.SIGTERM) }
	command.WaitDelay = 5 * time.Second
	out, err := command.CombinedOutput()
	last := lastLine(out)
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && last != "" {
		return "", fmt.Errorf("%s: %s", args[0], last)
	}
	if err != nil {
		return "", fmt.Errorf("run %s: %w", strings.Join(args, " "), err)
	}
	return last, nil
}
