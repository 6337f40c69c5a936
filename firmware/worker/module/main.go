// Worker-module is an executor of a WebAssembly module, by wazero's compiler: worker starts it.
//
// Inputs: a module that exports memory and
//
//	alloc(n i32) i32          where n bytes of input go
//	run(at i32, n i32) i32    bytes of output; below 0: it failed
//	output() i32              where they are
//
// Outputs: the chunks of the pipe of package executor. The module has no imports but WASI's,
// with nothing behind them: no files, no clock, no network. A guest in the worker itself would
// stop it for seconds at a garbage collection.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"

	"prefdt/configs/cli"
	"prefdt/firmware/worker/sdk"
)

var program = cli.Program{
	Name:  "worker-module",
	Usage: "worker-module runs a WebAssembly module as an executor; worker starts it.",
	Commands: []cli.Command{
		{Args: "-file FILE [-memory BYTES] [-cache FOLDER]", Summary: "serve the pipe with a module", Run: serve},
	},
}

func main() { program.Main() }

func serve(_ context.Context, call *cli.Call) error {
	file := call.Flags.String("file", "", "the module's `file`")
	most := call.Flags.Uint64("memory", 64<<20, "its memory in `bytes`, at most")
	cache := call.Flags.String("cache", "", "`folder` of compiled modules; empty: none")
	if _, err := call.Parse("", 0); err != nil {
		return err
	}
	if *file == "" {
		return cli.BadInputf("want -file FILE; worker-module -h explains")
	}
	f, err := load(*file, *cache, *most)
	if err != nil {
		return err
	}
	return sdk.Serve(f)
}

// pageBytes is the size of a page of a module's memory.
const pageBytes = 1 << 16

// load compiles a module and returns its function. Where the compiler does not run, it is an
// error: the interpreter is 90 times slower. cache is a folder for compiled modules, or empty.
func load(path, cache string, memoryBytes uint64) (f sdk.Function, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("module %s: no compiler for this machine, or no memory that may be executed (MemoryDenyWriteExecute): %v",
				path, p)
		}
	}()
	ctx := context.Background()
	binary, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	config := wazero.NewRuntimeConfigCompiler().WithMemoryLimitPages(uint32(min(memoryBytes/pageBytes, 1<<16)))
	if cache != "" {
		compiled, err := wazero.NewCompilationCacheWithDir(cache)
		if err != nil {
			return nil, fmt.Errorf("module %s: %w", path, err)
		}
		config = config.WithCompilationCache(compiled)
	}
	runtime := wazero.NewRuntimeWithConfig(ctx, config)
	wasi_snapshot_preview1.MustInstantiate(ctx, runtime)
	module, err := runtime.InstantiateWithConfig(ctx, binary, wazero.NewModuleConfig().WithStartFunctions("_initialize"))
	if err != nil {
		return nil, fmt.Errorf("module %s: %w", path, err)
	}
	m := &guest{module, module.ExportedFunction("alloc"), module.ExportedFunction("run"), module.ExportedFunction("output")}
	if m.alloc == nil || m.run == nil || m.output == nil || module.Memory() == nil {
		return nil, fmt.Errorf("module %s: want exports memory, alloc, run and output", path)
	}
	if module.ExportedFunction("_start") != nil && module.ExportedFunction("_initialize") == nil {
		return nil, fmt.Errorf("module %s: it was built as a command, whose runtime is set up in _start for one run: build it as a "+
			"library (TinyGo: -buildmode=c-shared; clang: -mexec-model=reactor)", path)
	}
	return m.compute, nil
}

type guest struct {
	api.Module
	alloc, run, output api.Function
}

// compute copies the input in and the output out. After a trap the module is of no use, and
// its process ends.
func (m *guest) compute(input []byte) ([]byte, error) {
	ctx := context.Background()
	at, err := m.call(ctx, m.alloc, uint64(len(input)))
	if err != nil {
		trap(err)
	}
	if !m.Memory().Write(at, input) {
		return nil, errors.New("alloc returned no place for the input")
	}
	n, err := m.call(ctx, m.run, uint64(at), uint64(len(input)))
	if err != nil {
		trap(err)
	}
	if int32(n) < 0 {
		return nil, errors.New("the function failed")
	}
	from, err := m.call(ctx, m.output)
	if err != nil {
		trap(err)
	}
	output, ok := m.Memory().Read(from, n)
	if !ok {
		return nil, errors.New("the output is not in the module's memory")
	}
	return output, nil
}

func (m *guest) call(ctx context.Context, f api.Function, args ...uint64) (uint32, error) {
	results, err := f.Call(ctx, args...)
	if err != nil || len(results) != 1 {
		return 0, errors.Join(err, errors.New("not one result"))
	}
	return uint32(results[0]), nil
}

func trap(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
