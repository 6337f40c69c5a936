package program

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"
	"time"
)

// A log that is not read blocks no writer; the lines lost are counted.
func TestLogThatIsNotRead(t *testing.T) {
	out, in := io.Pipe()
	w := newLogWriter(in)
	began := time.Now()
	for i := range 3 * logQueueLines {
		fmt.Fprintln(w, i)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Fatalf("writing took %v", took)
	}
	go func() {
		w.close()
		in.Close()
	}()
	whole, lost, last := 0, 0, -1
	for lines := bufio.NewScanner(out); lines.Scan(); {
		text, of := strings.CutSuffix(lines.Text(), " lines lost: the log was not read")
		n, err := strconv.Atoi(text)
		switch {
		case err != nil || !of && n <= last:
			t.Fatalf("%q after line %d", lines.Text(), last)
		case of:
			lost += n
		default:
			whole, last = whole+1, n
		}
	}
	if whole < logQueueLines || lost == 0 || whole+lost != 3*logQueueLines {
		t.Errorf("%d lines came, %d are reported as lost, of %d", whole, lost, 3*logQueueLines)
	}
}
