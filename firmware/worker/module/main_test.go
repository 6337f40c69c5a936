package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"prefdt/firmware/worker/executor"
	"prefdt/firmware/worker/share"
)

// The test's own program is the executor.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "-file" {
		main()
	}
	os.Exit(m.Run())
}

// module is a module whose run has this body, in WebAssembly's binary form; its input is at
// 1024, and so is its output.
func module(run ...byte) []byte { return moduleWith(nil, run...) }

// moduleWith also exports alloc by other names.
func moduleWith(also []string, run ...byte) []byte {
	section := func(id byte, body ...byte) []byte { return append([]byte{id, byte(len(body))}, body...) }
	name := func(n string, kind, index byte) []byte {
		return append(append([]byte{byte(len(n))}, n...), kind, index)
	}
	code := func(body ...byte) []byte {
		return append([]byte{byte(len(body) + 2), 0}, append(body, 0x0b)...)
	}
	at := []byte{0x41, 0x80, 0x08} // i32.const 1024
	exports := slices.Concat([]byte{byte(4 + len(also))}, name("memory", 2, 0), name("alloc", 0, 0), name("run", 0, 1),
		name("output", 0, 2))
	for _, n := range also {
		exports = append(exports, name(n, 0, 0)...)
	}
	return slices.Concat(
		[]byte("\x00asm\x01\x00\x00\x00"),
		section(1, 3, 0x60, 1, 0x7f, 1, 0x7f, 0x60, 2, 0x7f, 0x7f, 1, 0x7f, 0x60, 0, 1, 0x7f),
		section(3, 3, 0, 1, 2),
		section(5, 1, 0, 2),
		section(7, exports...),
		section(10, slices.Concat([]byte{3}, code(at...), code(run...), code(at...))...),
	)
}

var (
	echo     = []byte{0x20, 1}                                        // local.get 1: as many bytes as came in
	loop     = []byte{0x03, 0x40, 0x0c, 0, 0x0b, 0x41, 0}             // loop br 0 end
	recurse  = []byte{0x20, 0, 0x20, 1, 0x10, 1}                      // call itself
	trapping = []byte{0x00}                                           // unreachable
	growing  = []byte{0x41, 0x80, 0x80, 0x04, 0x40, 0, 0x1a, 0x41, 0} // memory.grow of 4 GiB is refused: 0 bytes out
	endless  = []byte{0x41, 0x80, 0x80, 0x80, 0x08}                   // 16 MiB of output, more than there is memory
	failing  = []byte{0x41, 0x7f}                                     // -1
)

func guestOf(t *testing.T, binary []byte) *share.Function {
	path := filepath.Join(t.TempDir(), "f.wasm")
	if err := os.WriteFile(path, binary, 0o600); err != nil {
		t.Fatal(err)
	}
	p := executor.Program{Command: []string{os.Args[0], "-file", path, "-memory", "4194304"}, MemoryBytes: 256 << 20}
	return &share.Function{UnitBytes: 1, MaxOutput: 1, Start: func() (share.Executor, error) { return p.Start() }}
}

// What a module does ends its task at most, and the next one is computed.
func TestModules(t *testing.T) {
	for _, c := range []struct {
		name string
		run  []byte
		want error
	}{
		{"echo", echo, nil}, {"a loop", loop, share.ErrStopped}, {"recursion", recurse, executor.ErrBroken},
		{"a trap", trapping, executor.ErrBroken},
		{"memory beyond its limit", growing, nil}, {"output beyond its memory", endless, executor.ErrFailed},
		{"an error", failing, executor.ErrFailed},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &share.Scheduler{Cores: 1, MaxTasks: 4}
			s.Start()
			defer s.Close()
			f := guestOf(t, module(c.run...))
			s.SetNSPerByte(f, 1e7)
			input := bytes.Repeat([]byte("unit"), 20)
			got, err := s.Run(context.Background(), f, 1, input)
			slow := c.name == "recursion" && errors.Is(err, share.ErrStopped) // its time ends before its stack
			if !errors.Is(err, c.want) && !slow || c.name == "echo" && !bytes.Equal(got, input) {
				t.Errorf("%q, %v; want %v", got, err, c.want)
			}
			next := guestOf(t, module(echo...))
			if got, err := s.Run(context.Background(), next, 1, input); err != nil || !bytes.Equal(got, input) {
				t.Errorf("the next task: %q, %v", got, err)
			}
		})
	}
}

func TestBadModules(t *testing.T) {
	for name, binary := range map[string][]byte{"not a module": []byte("elf"), "no exports": []byte("\x00asm\x01\x00\x00\x00")} {
		path := filepath.Join(t.TempDir(), "f.wasm")
		os.WriteFile(path, binary, 0o600)
		if _, err := load(path, "", 1<<20); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := load("none.wasm", "", 1<<20); err == nil {
		t.Error("a module that is not there was loaded")
	}
}

// A module that was built as a command sets its runtime up in _start, for one run: it is refused, with how to build it.
func TestModuleBuiltAsACommand(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f.wasm")
	os.WriteFile(path, moduleWith([]string{"_start"}, echo...), 0o600)
	if _, err := load(path, "", 4<<20); err == nil || !strings.Contains(err.Error(), "_start") {
		t.Errorf("a command: %v", err)
	}
}

// A module is compiled once; the next process takes it from the disk.
func TestCache(t *testing.T) {
	cache, path := t.TempDir(), filepath.Join(t.TempDir(), "f.wasm")
	os.WriteFile(path, module(echo...), 0o600)
	for range 2 {
		f, err := load(path, cache, 4<<20)
		if err != nil {
			t.Fatal(err)
		}
		if out, err := f([]byte("x")); err != nil || string(out) != "x" {
			t.Errorf("%q, %v", out, err)
		}
	}
	if files, _ := filepath.Glob(filepath.Join(cache, "*", "*")); len(files) == 0 {
		t.Error("nothing in the cache")
	}
}
