package program

import (
	"bytes"
	"fmt"
	"io"
	"sync/atomic"
	"time"
)

// logQueueLines is how many lines wait for the reader of the log.
const logQueueLines = 1024

// logWriter is a log that never blocks its writer: if standard error is not read, lines
// are dropped and counted, and no slot or setpoint is delayed.
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

// Write queues one line.
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
		to.Write(line) // a failure cannot be reported anywhere
		if n := w.droppedLines.Swap(0); n > 0 {
			fmt.Fprintf(to, "%d lines lost: the log was not read\n", n)
		}
	}
	for {
		select {
		case line := <-w.lines:
			write(line)
		case <-w.stop:
			for len(w.lines) > 0 {
				write(<-w.lines)
			}
			return
		}
	}
}

// close writes the queued lines, if they are read within a second.
func (w *logWriter) close() {
	close(w.stop)
	select {
	case <-w.done:
	case <-time.After(time.Second):
	}
}
