package main

import (
	"bytes"
	"fmt"
	"io"
	"sync/atomic"
	"time"
)

// logQueueLines is how many lines wait for whoever reads the log.
const logQueueLines = 1024

// logWriter is a log that never holds up who writes to it: a reader that does
// not read costs lines, which are counted, and no slot and no setpoint.
type logWriter struct {
	lines        chan []byte
	droppedLines atomic.Uint64
	stop         chan struct{}
	done         chan struct{}
}

func newLogWriter(to io.Writer) *logWriter {
	w := &logWriter{lines: make(chan []byte, logQueueLines), stop: make(chan struct{}), done: make(chan struct{})}
	go w.run(to)
	return w
}

// Write takes one line.
func (w *logWriter) Write(line []byte) (int, error) {
	select {
	case w.lines <- bytes.Clone(line):
	default:
		w.droppedLines.Add(1)
	}
	return len(line), nil
}

func (w *logWriter) run(to io.Writer) {
	defer close(w.done)
	write := func(line []byte) {
		to.Write(line) // a log that cannot be written has nowhere to say so
		if n := w.droppedLines.Swap(0); n > 0 {
			fmt.Fprintf(to, "%d lines lost: nobody read the log\n", n)
		}
	}
	for {
		select {
		case line := <-w.lines:
			write(line)
			continue
		case <-w.stop:
		}
		for len(w.lines) > 0 {
			write(<-w.lines)
		}
		return
	}
}

// close writes what waits, if it is read within a second. Later lines are lost.
func (w *logWriter) close() {
	close(w.stop)
	select {
	case <-w.done:
	case <-time.After(time.Second):
	}
}
