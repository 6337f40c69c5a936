// Package sdk makes a Go program an executor: [Serve] speaks the pipe of package executor.
//
//	func main() {
//		sdk.Serve(func(input []byte) ([]byte, error) { return count(input), nil })
//	}
//
// A function maps each unit of its input by itself, so that the outputs of two parts, one
// after the other, are the output of the whole. executor.h is the same in C.
package sdk

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Function computes the output of whole units of input.
type Function func(input []byte) (output []byte, err error)

// Serve serves functions, which requests name by their place from 0, until the input ends.
func Serve(functions ...Function) error { return serve(os.Stdin, os.Stdout, functions) }

func serve(in io.Reader, out io.Writer, functions []Function) error {
	r, input := bufio.NewReaderSize(in, 1<<16), []byte(nil)
	for {
		var head [8]byte
		if _, err := io.ReadFull(r, head[:]); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		n := int(binary.LittleEndian.Uint32(head[4:]))
		if cap(input) < n {
			input = make([]byte, n)
		}
		if _, err := io.ReadFull(r, input[:n]); err != nil {
			return err
		}
		began := cpuTime()
		output, err := []byte(nil), errors.New("no such function")
		if f := int(binary.LittleEndian.Uint32(head[0:])); f < len(functions) {
			output, err = functions[f](input[:n])
		}
		size := int32(len(output))
		if err != nil {
			output, size = nil, -1
		}
		answer := binary.LittleEndian.AppendUint64(nil, uint64(cpuTime()-began))
		answer = binary.LittleEndian.AppendUint32(answer, uint32(size))
		if _, err := out.Write(append(answer, output...)); err != nil {
			return err
		}
	}
}

// cpuTime is the CPU time of this process, all its threads included.
func cpuTime() time.Duration {
	var t unix.Timespec
	unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &t)
	return time.Duration(t.Nano())
}
