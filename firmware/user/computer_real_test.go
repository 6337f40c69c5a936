//go:build real

package main

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"

	"prefdt/firmware/worker/function"
	"prefdt/firmware/worker/sdk"
)

// The test's own program is the executor.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == "executor" {
		sdk.Serve(func(input []byte) ([]byte, error) {
			switch {
			case bytes.HasPrefix(input, []byte("crash")):
				os.Exit(1)
			case bytes.HasPrefix(input, []byte("hang")):
				time.Sleep(time.Hour)
			}
			return bytes.ToUpper(input), nil
		})
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func newTestComputer(t *testing.T) *computer {
	t.Helper()
	c, err := newComputer(&Function{Config: function.Config{ID: "upper", Command: []string{os.Args[0], "executor"}, UnitBytes: 1,
		OutputBytes: 1}, CyclesPerBit: 1}, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.close)
	return c
}

// A function that crashes or hangs costs its own task, and no later one.
func TestOwnFunctionThatFails(t *testing.T) {
	c := newTestComputer(t)
	for range 2 {
		if _, err := c.compute([]byte("crash")); err == nil {
			t.Error("a crash has an output")
		}
		if out, err := c.compute([]byte("good")); err != nil || string(out) != "GOOD" {
			t.Errorf("after a crash: %q, %v", out, err)
		}
	}
	began := time.Now()
	if _, err := c.compute([]byte("hang")); err == nil || !strings.Contains(err.Error(), "more than 10s") {
		t.Errorf("a hang after %v: %v", time.Since(began), err)
	}
	if out, err := c.compute([]byte("good")); err != nil || string(out) != "GOOD" {
		t.Errorf("after a hang: %q, %v", out, err)
	}
}

// The end of the program ends what it computes, however long it would have taken; that is no failure of the task.
func TestEndsWhileComputing(t *testing.T) {
	c := newTestComputer(t)
	ended := make(chan error)
	go func() { _, err := c.compute([]byte("hang")); ended <- err }()
	time.Sleep(50 * time.Millisecond)
	c.close()
	if err := <-ended; err != errEnds {
		t.Error(err)
	}
	if _, err := c.compute([]byte("good")); err != errEnds {
		t.Error(err)
	}
}
