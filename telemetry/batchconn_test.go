package telemetry

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"prefdt/simbridge/simnet"
)

// What is written while the other side does not read comes in one piece, in order, also what
// still waits when the connection is closed.
func TestBatchConn(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		near, far := net.Pipe() // a write ends when it was read
		c := newBatchConn(near)
		c.flushTimeout = time.Hour
		var want []byte
		for i := range 1000 {
			message := fmt.Appendf(nil, "message %d\n", i)
			want = append(want, message...)
			if n, err := c.Write(message); n != len(message) || err != nil {
				t.Fatalf("message %d: %d, %v", i, n, err)
			}
		}
		closed := make(chan error, 1)
		go func() { closed <- c.Close() }()
		var got []byte
		pieces := 0
		for piece := make([]byte, 1<<20); ; pieces++ {
			n, err := far.Read(piece)
			got = append(got, piece[:n]...)
			if err == io.EOF {
				break
			} else if err != nil {
				t.Fatal(err)
			}
		}
		if !bytes.Equal(got, want) || pieces > 2 { // the first message may have gone alone
			t.Errorf("%d bytes in %d pieces, want %d in 2 at most", len(got), pieces, len(want))
		}
		if err := <-closed; err != nil {
			t.Error(err)
		}
		if _, err := c.Write([]byte("more")); err == nil {
			t.Error("a closed connection was written to")
		}
	})
}

// A writer waits for a side that does not read, and learns that it is gone; so does a reader.
func TestBatchConnLost(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		c := newBatchConn(near)
		ended := make(chan error, 1)
		written := make(chan int, 1000)
		go func() {
			for message := make([]byte, maxBatchBytes/4); ; {
				n, err := c.Write(message)
				if err != nil {
					ended <- err
					return
				}
				written <- n
			}
		}()
		for range 4 {
			<-written
		}
		far.Close()
		if err := <-ended; err == nil {
			t.Error("no error")
		}
		if n := 4 + len(written); n > 10 { // five wait and, at most, five are being sent
			t.Errorf("%d messages of a quarter of the most were accepted", n)
		}
		if _, err := c.Read(make([]byte, 1)); err == nil || strings.Contains(err.Error(), net.ErrClosed.Error()) {
			t.Errorf("a read: %v", err) // for paho a closed connection is none that was lost
		}
	})
}

// Closing does not wait for long for a side that does not read.
func TestBatchConnCloses(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		near, _ := net.Pipe()
		c := newBatchConn(near)
		if _, err := c.Write([]byte("unread")); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		c.Close()
		if took := time.Since(began); took != c.flushTimeout {
			t.Errorf("it took %v", took)
		}
	})
}

// Closing takes no more to send: it would last for as long as somebody writes before each
// batch has been read.
func TestBatchConnClosing(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		c := newBatchConn(near)
		c.flushTimeout = time.Hour
		if _, err := c.Write([]byte("before")); err != nil {
			t.Fatal(err)
		}
		closed := make(chan error, 1)
		go func() { closed <- c.Close() }()
		synctest.Wait() // it waits for the reader
		if n, err := c.Write([]byte("after")); n != 0 || err == nil {
			t.Errorf("%d bytes were accepted while it closes, %v", n, err)
		}
		if got, err := io.ReadAll(far); string(got) != "before" || err != nil {
			t.Errorf("%q was sent, %v", got, err)
		}
		if err := <-closed; err != nil {
			t.Error(err)
		}
	})
}
