// Package commandtest is for the tests of commands.
package commandtest

import "bytes"

// Log keeps what a command prints, and calls Stop when a text is printed: what is interrupted there
// is so on every machine.
type Log struct {
	bytes.Buffer
	Text string // "": none
	Stop func()
}

func (l *Log) Write(p []byte) (int, error) {
	if l.Text != "" && bytes.Contains(p, []byte(l.Text)) {
		l.Stop()
	}
	return l.Buffer.Write(p)
}
