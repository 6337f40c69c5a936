package simnet

import (
	"errors"
	"io"
	"reflect"
	"testing"
	"time"
)

// RunAsTest calls a function as a test, once in a program: virtual time is of package testing, whose bubbles need one. It prints a
// line on the standard output.
func RunAsTest(f func(*testing.T)) error {
	if testing.MainStart(testDeps{}, []testing.InternalTest{{Name: "program", F: f}}, nil, nil, nil).Run() != 0 {
		return errors.New("what runs in virtual time failed, or its goroutines did not end")
	}
	return nil
}

// testDeps is what package testing asks of the program around a test.
type testDeps struct{}

func (testDeps) ImportPath() string                                       { return "" }
func (testDeps) ModulePath() string                                       { return "" }
func (testDeps) MatchString(string, string) (bool, error)                 { return true, nil }
func (testDeps) SetPanicOnExit0(bool)                                     {}
func (testDeps) StartCPUProfile(io.Writer) error                          { return nil }
func (testDeps) StopCPUProfile()                                          {}
func (testDeps) StartTestLog(io.Writer)                                   {}
func (testDeps) StopTestLog() error                                       { return nil }
func (testDeps) WriteProfileTo(string, io.Writer, int) error              { return nil }
func (testDeps) RunFuzzWorker(func(corpusEntry) error) error              { return nil }
func (testDeps) ReadCorpus(string, []reflect.Type) ([]corpusEntry, error) { return nil, nil }
func (testDeps) CheckCorpus([]any, []reflect.Type) error                  { return nil }
func (testDeps) ResetCoverage()                                           {}
func (testDeps) SnapshotCoverage()                                        {}
func (testDeps) CoordinateFuzzing(time.Duration, int64, time.Duration, int64, int, []corpusEntry, []reflect.Type, string, string) error {
	return nil
}
func (testDeps) InitRuntimeCoverage() (mode string, tearDown func(string, string) (string, error), snapshot func() float64) {
	return "", nil, nil
}

// corpusEntry is testing's own, of fuzzing.
type corpusEntry = struct {
	Parent     string
	Path       string
	Data       []byte
	Values     []any
	Generation int
	IsSeed     bool
}
