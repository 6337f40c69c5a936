package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"prefdt/firmware/worker/executor"
	"prefdt/firmware/worker/share"
)

// computer computes on this device, with an executor that is started again once it has ended.
type computer struct {
	start     func() (share.Executor, error)
	function  *Function
	cpuHz     float64
	nsPerByte float64 // as measured, for the size of chunks
	paced     bool    // to cpuHz, which is less than it could

	computing sync.Mutex // one input at a time

	mutex    sync.Mutex
	executor share.Executor // nil: none has been started
	ended    bool
}

// errEnds is the error of what is computed while the program ends: it is left for its next start.
var errEnds = errors.New("the program ends")

const (
	measureBytes = 1 << 16              // that the device computes to know its speed
	chunk        = 5 * time.Millisecond // that it computes before it waits, where it is paced
	patience     = 10                   // times the time that an input should take, and as many seconds, after which its executor is killed
)

func newComputer(f *Function, cpuHz float64) (*computer, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	run, err := f.New(filepath.Join(filepath.Dir(self), "worker-module"), "", nil)
	if err != nil {
		return nil, err
	}
	c := &computer{start: run.Start, function: f, cpuHz: cpuHz, paced: cpuHz > 0}
	sample := make([]byte, max(measureBytes/f.UnitBytes, 1)*f.UnitBytes)
	for range 2 { // the first one starts it
		began := time.Now()
		if _, err := c.run(sample); err != nil {
			c.close()
			return nil, fmt.Errorf("function %s: %w", f.ID, err)
		}
		c.nsPerByte = float64(time.Since(began)) / float64(len(sample))
	}
	if !c.paced {
		c.cpuHz = 8 * f.CyclesPerBit / (c.nsPerByte * 1e-9)
	}
	return c, nil
}

// compute computes whole units.
func (c *computer) compute(input []byte) (output []byte, err error) {
	c.computing.Lock()
	defer c.computing.Unlock()
	f := c.function
	began, done := time.Now(), 0
	units := max(1, int(float64(chunk)/(c.nsPerByte*float64(f.UnitBytes))))
	if !c.paced {
		units = max(1, len(input)/f.UnitBytes)
	}
	for done < len(input) {
		n := min(units*f.UnitBytes, len(input)-done)
		part, err := c.run(input[done : done+n])
		if err != nil {
			return nil, err
		}
		output, done = append(output, part...), done+n
		if c.paced {
			took := float64(done) * 8 * f.CyclesPerBit / c.cpuHz
			time.Sleep(time.Until(began.Add(time.Duration(took * float64(time.Second)))))
		}
	}
	return output, nil
}

// run has the executor compute a chunk. One that fails it costs no later one: another is started then.
func (c *computer) run(input []byte) ([]byte, error) {
	x, err := c.running()
	if err != nil {
		return nil, err
	}
	limit := patience * (time.Second + time.Duration(c.nsPerByte*float64(len(input))))
	late := time.AfterFunc(limit, x.Kill)
	output, _, err := x.Run(uint32(c.function.Index), input, len(input)/c.function.UnitBytes*c.function.OutputBytes)
	inTime := late.Stop()
	c.mutex.Lock()
	defer c.mutex.Unlock()
	switch {
	case err == nil || err == executor.ErrFailed:
		return output, err
	case c.ended:
		return nil, errEnds
	case !inTime:
		return nil, fmt.Errorf("it took more than %v", limit.Round(time.Second))
	}
	return nil, err
}

func (c *computer) running() (x share.Executor, err error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.ended {
		return nil, errEnds
	}
	if c.executor == nil || c.executor.Ended() {
		if x, err = c.start(); err != nil {
			return nil, err
		}
		c.executor = x
	}
	return c.executor, nil
}

// close ends what is computed.
func (c *computer) close() {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.ended = true; c.executor != nil {
		c.executor.Kill()
	}
}
