// Package executor runs functions in processes of their own, which can be stopped and
// killed whatever they do, behind a pipe.
//
// Inputs: a command line, and a function's input in chunks. Outputs: the output of each
// chunk, and the CPU time that it took by the process's own account. The frames are
// little-endian, on standard input and output:
//
//	to the process    u32 function, u32 n, n bytes of input
//	from the process  u64 cpu_ns, i32 n, n bytes of output; n < 0: the function failed
//
// A process serves one chunk after another until its input ends. The worker and the user's
// program keep processes warm; package sdk is the other end, in Go and in C.
package executor

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Errors of a chunk.
var (
	ErrFailed = errors.New("the function failed")               // the process goes on
	ErrBroken = errors.New("the executor broke its protocol")   // it is killed
	ErrOutput = errors.New("the executor's output is too long") // it is killed
	ErrAway   = errors.New("cannot be reached")                 // it was asked nothing
	ErrKilled = errors.New("the executor was killed")           // by its scheduler
)

// Program is a program that speaks the pipe.
type Program struct {
	Command     []string
	MemoryBytes uint64   // of data, at most; 0: no limit
	Reads       []string // folders and files that it needs beside its own and the system's
	Writes      []string
	Groups      *Groups // nil: its processes have no groups

	startNS atomic.Int64 // the most CPU time that a process took to start; 0: none has answered yet
}

// Process is one running program.
type Process struct {
	process *os.Process
	in, out *os.File
	answers *bufio.Reader // of out
	ended   chan struct{} // closed once the process has, by itself or killed
	killed  atomic.Bool
	program *Program
	group   *group // nil: there are none

	reportedNS atomic.Int64 // CPU time by its own account, of all chunks
	startNS    atomic.Int64 // by the kernel's, what it took to start, once it has answered; else -1
}

// Start starts a program. It ends with the process that started it.
func (p *Program) Start() (*Process, error) {
	x := &Process{ended: make(chan struct{}), program: p}
	x.startNS.Store(-1)
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // for good: the thread has the process's fences, and a process ends with the thread that started it
		started <- x.start()
		<-x.ended
	}()
	if err := <-started; err != nil {
		close(x.ended)
		x.in.Close()
		x.out.Close()
		x.group.remove()
		return nil, fmt.Errorf("start executor: %w", err)
	}
	go x.wait()
	x.answers = bufio.NewReaderSize(x.out, 1<<16)
	if p.MemoryBytes > 0 {
		limit := unix.Rlimit{Cur: p.MemoryBytes, Max: p.MemoryBytes}
		if err := unix.Prlimit(x.process.Pid, unix.RLIMIT_DATA, &limit, nil); err != nil {
			x.Kill()
			return nil, fmt.Errorf("limit the executor's memory: %w", err)
		}
	}
	return x, nil
}

// start starts the process from this thread, which is fenced from then on.
func (x *Process) start() (err error) {
	p := x.program
	c := exec.Command(p.Command[0], p.Command[1:]...)
	if c.Err != nil {
		return c.Err
	}
	c.Env = []string{} // nothing of the worker's is its to know
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if p.Groups != nil {
		if x.group, err = p.Groups.new(p.MemoryBytes); err != nil {
			return err
		}
		c.SysProcAttr.UseCgroupFD, c.SysProcAttr.CgroupFD = true, int(x.group.dir.Fd())
	}
	var its [2]*os.File
	defer func() { its[0].Close(); its[1].Close() }()
	if its[0], x.in, err = os.Pipe(); err != nil {
		return err
	}
	if x.out, its[1], err = os.Pipe(); err != nil {
		return err
	}
	c.Stdin, c.Stdout = its[0], its[1]
	if err := p.fence(ownFolders(c)); err != nil {
		return err
	}
	err = c.Start()
	x.process = c.Process
	return err
}

// wait waits for the process's end.
func (x *Process) wait() {
	for unix.Waitid(unix.P_PID, x.process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
	}
	x.signal(syscall.SIGKILL) // what it had started, while its id is nobody else's
	x.process.Wait()
	close(x.ended)
	x.group.remove()
}

// ownFolders are those of a program and of its arguments that are files, as an interpreter's script.
func ownFolders(c *exec.Cmd) (folders []string) {
	for i, path := range append([]string{c.Path}, c.Args[1:]...) {
		if info, err := os.Stat(path); i == 0 || err == nil && info.Mode().IsRegular() {
			folders = append(folders, filepath.Dir(path))
		}
	}
	return folders
}

// Run computes a chunk. After any error but [ErrFailed] the process is killed.
func (x *Process) Run(function uint32, input []byte, most int) (output []byte, cpu time.Duration, err error) {
	output, cpu, err = x.run(function, input, most)
	if err != nil && err != ErrFailed {
		x.Kill()
	}
	return output, cpu, err
}

func (x *Process) run(function uint32, input []byte, most int) ([]byte, time.Duration, error) {
	if x.answers.Buffered() > 0 || x.waiting() > 0 {
		return nil, 0, ErrBroken // more than one answer to the chunk before
	}
	head := binary.LittleEndian.AppendUint32(nil, function)
	head = binary.LittleEndian.AppendUint32(head, uint32(len(input)))
	if _, err := x.in.Write(append(head, input...)); err != nil {
		return nil, 0, fmt.Errorf("%w: %w", ErrBroken, err)
	}
	var answer [12]byte
	if _, err := io.ReadFull(x.answers, answer[:]); err != nil {
		if x.startNS.Load() < 0 {
			err = fmt.Errorf("%w before its first answer; it has no files but its folder's, the system's and those of reads", err)
		}
		return nil, 0, fmt.Errorf("%w: %w", ErrBroken, err)
	}
	ns, n := binary.LittleEndian.Uint64(answer[0:]), int32(binary.LittleEndian.Uint32(answer[8:]))
	if ns > uint64(time.Hour) {
		return nil, 0, fmt.Errorf("%w: %d ns of CPU time for a chunk", ErrBroken, ns)
	}
	cpu := time.Duration(ns)
	x.reportedNS.Add(int64(cpu))
	if x.startNS.Load() < 0 {
		if kernel, ok := x.kernelCPU(); ok {
			start := int64(max(kernel-cpu, 0))
			x.startNS.Store(start)
			x.program.startNS.Store(max(start, x.program.startNS.Load(), 1))
		}
	}
	if n < 0 {
		return nil, cpu, ErrFailed
	}
	if int(n) > most {
		return nil, cpu, ErrOutput
	}
	output := make([]byte, n)
	if _, err := io.ReadFull(x.answers, output); err != nil {
		return nil, cpu, fmt.Errorf("%w: %w", ErrBroken, err)
	}
	return output, cpu, nil
}

// waiting is how many bytes the process has written that were not read.
func (x *Process) waiting() (n int) {
	raw, err := x.out.SyscallConn()
	if err == nil {
		raw.Control(func(fd uintptr) { n, _ = unix.IoctlGetInt(int(fd), unix.TIOCINQ) })
	}
	return n
}

// Stop stops the process, and what it started, until Continue.
func (x *Process) Stop() { x.freeze("1", syscall.SIGSTOP) }

// Continue continues a stopped process.
func (x *Process) Continue() { x.freeze("0", syscall.SIGCONT) }

func (x *Process) freeze(frozen string, s syscall.Signal) {
	if x.group == nil || x.group.write("cgroup.freeze", frozen) != nil {
		x.signal(s)
	}
}

// signal is for all that the process started: without a group those of them that did not leave its process group.
func (x *Process) signal(s syscall.Signal) {
	if x.group == nil || s != syscall.SIGKILL || x.group.write("cgroup.kill", "1") != nil {
		syscall.Kill(-x.process.Pid, s)
	}
}

// Kill ends the process, whatever it does. A chunk in progress ends with an error.
func (x *Process) Kill() {
	if !x.killed.Swap(true) {
		if !x.Ended() {
			x.signal(syscall.SIGKILL)
		}
		x.in.Close()
		x.out.Close()
	}
	<-x.ended
}

// Ended is whether the process has ended, by itself or killed.
func (x *Process) Ended() bool {
	select {
	case <-x.ended:
		return true
	default:
		return false
	}
}

// Exceeds is whether the process has more memory than its limit. Where the kernel holds it to
// the limit, it ends by itself before; not every kernel does.
func (x *Process) Exceeds() bool {
	statm, err := os.ReadFile("/proc/" + strconv.Itoa(x.process.Pid) + "/statm")
	if err != nil || x.program.MemoryBytes == 0 {
		return false
	}
	fields := strings.Fields(string(statm))
	pages, _ := strconv.ParseUint(fields[1], 10, 64)
	return pages*uint64(os.Getpagesize()) > x.program.MemoryBytes
}

// CPU is the CPU time that the process has had for its chunks, by the kernel's account in steps of 10 ms, and by
// its own. What it took to start is no chunk's. Until its first answer twice the most that a process of its
// program took stands for that; before there is one, all is the start's. Reading the kernel's costs more than a
// chunk: it is for what is suspect.
func (x *Process) CPU() (kernel, reported time.Duration, ok bool) {
	kernel, ok = x.kernelCPU()
	reported = time.Duration(x.reportedNS.Load())
	start := time.Duration(x.startNS.Load())
	if start < 0 {
		if start = 2 * time.Duration(x.program.startNS.Load()); start == 0 {
			start = kernel
		}
	}
	return max(kernel-start, reported), reported, ok
}

// kernelCPU is the CPU time of the process, its start included; in a group also of what it started.
func (x *Process) kernelCPU() (time.Duration, bool) {
	if x.group != nil {
		return x.group.cpu()
	}
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(x.process.Pid) + "/stat")
	if err != nil {
		return 0, false
	}
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	if len(fields) < 13 {
		return 0, false
	}
	user, _ := strconv.ParseInt(fields[11], 10, 64)
	system, _ := strconv.ParseInt(fields[12], 10, 64)
	const tick = 10 * time.Millisecond // USER_HZ is 100 on every Linux that Go knows
	return time.Duration(user+system) * tick, true
}
