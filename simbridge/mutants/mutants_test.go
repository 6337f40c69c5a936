package mutants

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/build"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"prefdt/simbridge/chaos"
)

// Every fault applies to the sources as they are, once, and has missions that fit it.
func TestFaultsApply(t *testing.T) {
	all, err := Load()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 80 {
		t.Errorf("%d faults, want 80 at least", len(all))
	}
	r := runner{Config: Config{Seed: 7, Most: 1}, plans: map[chaos.Kind]chaos.Plans{}}
	for _, kind := range chaos.Kinds {
		conf := r.missions(kind, "simbridge", "out")
		r.plans[kind] = chaos.NewPlans(&conf)
	}
	rooms := map[string]int{}
	for _, f := range all {
		mutated, err := f.apply("../..")
		if err != nil {
			t.Error(err)
			continue
		}
		if original, _ := os.ReadFile(filepath.Join("../..", f.File)); string(original) == string(mutated) {
			t.Errorf("fault %s changes nothing", f.ID)
		}
		if len(f.kinds()) > 0 && len(r.fitting(f)) == 0 {
			t.Errorf("no mission fits fault %s: %v", f.ID, f.Missions)
		}
		for _, room := range []string{"firmware", "telemetry", "inference/goal"} {
			if strings.HasPrefix(f.File, room+"/") {
				rooms[room]++
			}
		}
	}
	for _, room := range []string{"firmware", "telemetry", "inference/goal"} {
		if rooms[room] < 2 {
			t.Errorf("%d faults in %s", rooms[room], room)
		}
	}
}

// The leader compiles with every fault: types are checked here, which takes a hundredth of
// the time of building it.
func TestFaultsCompile(t *testing.T) {
	all, err := Load()
	if err != nil {
		t.Fatal(err)
	}
	c := newTypeChecker(t, "../..")
	for _, f := range all {
		if err := c.check(&f); err != nil {
			t.Errorf("fault %s: %v", f.ID, err)
		}
	}
}

// A fault that does not compile is seen, be it in a function or in what other files use.
func TestFaultsThatDoNotCompile(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"a.go": "package x\n\nimport \"strings\"\n\nfunc A() string { n := B(); return strings.Repeat(\"a\", n) }\n",
		"b.go": "package x\n\nimport \"strconv\"\n\nconst one = \"1\"\n\nfunc B() int { n, _ := strconv.Atoi(one); return n }\n",
		"c.go": "package x\n\nconst two = one + one\n",
	} {
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	c := newTypeChecker(t, root)
	for _, x := range []struct {
		file, before, after string
		compiles            bool
	}{
		{"a.go", "B()", "B() + 1", true}, {"a.go", "B()", "C()", false}, {"a.go", "n)", "1)", false},
		{"a.go", `strings.Repeat("a", n)`, "string(rune(n))", false}, {"a.go", "n := B();", "n := B(", false},
		{"b.go", `"1"`, `"2"`, true}, {"b.go", `"1"`, "1", false}, {"b.go", "B() int", "B() (int, error)", false},
		{"b.go", "func B() int {", "func B() int64 {", false}, {"b.go", "func B", "func b", false}, {"b.go", "n }", "n + 1 }", true},
		{"c.go", "two", "one", false},
	} {
		err := c.check(&Fault{ID: "planted", File: x.file, Before: x.before, After: x.after})
		if (err == nil) != x.compiles {
			t.Errorf("%s with %q in place of %q: %v", x.file, x.after, x.before, err)
		}
	}
}

// exports are the files of what the packages export that faults are planted in, and all that those import.
var exports = sync.OnceValues(func() (map[string]string, error) {
	command := exec.Command("go", "list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}", "./firmware/...", "./telemetry/...",
		"./inference/goal")
	command.Dir, command.Stderr = "../..", os.Stderr
	list, err := command.Output()
	files := map[string]string{}
	for line := range strings.Lines(string(list)) {
		path, file, _ := strings.Cut(strings.TrimSpace(line), " ")
		files[path] = file
	}
	return files, err
})

// typeChecker checks the types of packages with a fault in one file. What is the same in all of them is parsed once.
type typeChecker struct {
	root     string
	files    *token.FileSet
	imports  types.Importer
	packages map[string]map[string]*parsedFile // by folder and name
}

// parsedFile is a file without a fault. A fault within one function of it changes nothing for the other files of its package: what they
// need is the declarations.
type parsedFile struct{ whole, declarations *ast.File }

func newTypeChecker(t *testing.T, root string) *typeChecker {
	t.Helper()
	exported, err := exports()
	if err != nil {
		t.Fatal(err)
	}
	files := token.NewFileSet()
	lookup := func(path string) (io.ReadCloser, error) { return os.Open(exported[path]) }
	return &typeChecker{root, files, importer.ForCompiler(files, "gc", lookup), map[string]map[string]*parsedFile{}}
}

func (c *typeChecker) parse(path string, source any) (*ast.File, error) {
	return parser.ParseFile(c.files, path, source, parser.SkipObjectResolution)
}

// parsed is the package of a folder.
func (c *typeChecker) parsed(folder string) (map[string]*parsedFile, error) {
	if have, ok := c.packages[folder]; ok {
		return have, nil
	}
	pkg, err := build.ImportDir(folder, 0)
	if err != nil {
		return nil, err
	}
	have := map[string]*parsedFile{}
	for _, name := range pkg.GoFiles {
		whole, err := c.parse(filepath.Join(folder, name), nil)
		if err != nil {
			return nil, err
		}
		declarations := *whole
		declarations.Decls = slices.Clone(whole.Decls)
		for i, d := range declarations.Decls {
			if function, ok := d.(*ast.FuncDecl); ok {
				without := *function
				without.Body = nil
				declarations.Decls[i] = &without
			}
		}
		have[name] = &parsedFile{whole, &declarations}
	}
	c.packages[folder] = have
	return have, nil
}

// isWithin is whether some bytes of a file lie within the body of one function.
func (c *typeChecker) isWithin(file *ast.File, begin, end int) bool {
	return slices.ContainsFunc(file.Decls, func(d ast.Decl) bool {
		function, ok := d.(*ast.FuncDecl)
		return ok && function.Body != nil && c.files.Position(function.Body.Lbrace).Offset < begin &&
			end <= c.files.Position(function.Body.Rbrace).Offset
	})
}

// check returns the first error of a package with the fault.
func (c *typeChecker) check(f *Fault) (first error) {
	mutated, err := f.apply(c.root)
	if err != nil {
		return err
	}
	path := filepath.Join(c.root, f.File)
	folder, name := filepath.Dir(path), filepath.Base(path)
	pkg, err := c.parsed(folder)
	if err != nil {
		return err
	}
	original, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	begin := bytes.Index(original, []byte(f.Before))
	within := c.isWithin(pkg[name].whole, begin, begin+len(f.Before))
	changed, err := c.parse(path, mutated)
	if err != nil {
		return err
	}
	files := []*ast.File{changed}
	for other, parsed := range pkg {
		switch {
		case other == name:
		case within:
			files = append(files, parsed.declarations)
		default:
			files = append(files, parsed.whole)
		}
	}
	config := types.Config{Importer: c.imports, GoVersion: "go1.26", Error: func(err error) {
		// What the others import is not used in declarations alone.
		if at, ok := errors.AsType[types.Error](err); first == nil && !(ok && within && c.files.Position(at.Pos).Filename != path) {
			first = err
		}
	}}
	config.Check(filepath.ToSlash(filepath.Join("prefdt", filepath.Dir(f.File))), c.files, files, nil)
	return first
}

// A fault whose text the sources no longer have is an error that names it.
func TestFaultThatNoLongerApplies(t *testing.T) {
	root := t.TempDir()
	for text, applies := range map[string]bool{"a := 1\n": true, "a := 2\n": false, "a := 1\na := 1\n": false} {
		if err := os.WriteFile(filepath.Join(root, "x.go"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		f := Fault{ID: "one-off", File: "x.go", Before: "a := 1", After: "a := 0"}
		switch _, err := f.apply(root); {
		case (err == nil) != applies:
			t.Errorf("%q: %v", text, err)
		case err != nil && !strings.Contains(err.Error(), "one-off"):
			t.Errorf("%v names no fault", err)
		}
	}
}

// Results are read as they were written, and those that are kept in the repository are of
// faults that exist.
func TestCaught(t *testing.T) {
	path := filepath.Join(t.TempDir(), "caught.csv")
	want := []Caught{{ID: "a", Rule: "home", Kind: "plain", Mission: 3, Flown: 1},
		{ID: "b", Mission: -1, Flown: 12, Test: "./firmware/fleet TestX"}}
	if err := WriteCaught(path, want); err != nil {
		t.Fatal(err)
	}
	if got, err := ReadCaught(path); err != nil || !slices.Equal(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	if err := os.WriteFile(path, []byte("x,y\n1,2\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadCaught(path); err == nil {
		t.Error("another table was read")
	}
	all, err := Load()
	if err != nil {
		t.Fatal(err)
	}
	committed, err := Committed()
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range committed {
		if !slices.ContainsFunc(all, func(f Fault) bool { return f.ID == x.ID }) {
			t.Errorf("a result of %s, which is no fault", x.ID)
		}
	}
}

// A rule that a fault breaks, and that the leader without it keeps, shows it: in one flight, and one
// of that leader for all faults.
func TestShown(t *testing.T) {
	folder := t.TempDir()
	flyer := func(name string, broken ...string) string {
		flown, err := json.Marshal(chaos.Flown{Broken: broken, Failure: strings.Join(broken, "; ")})
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(folder, name)
		text := fmt.Sprintf("#!/bin/sh\necho >>%s.flights\necho '%s' >$2/flown.json\n", path, flown)
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
		return path
	}
	flights := func(name string) int {
		raw, _ := os.ReadFile(filepath.Join(folder, name+".flights")) // none: it flew nothing
		return len(raw)
	}
	c := Config{Checkpoint: "../../configs/checkpoint", Out: t.TempDir(), Seed: 7}
	r := runner{Config: c, baseline: baseline{config: c, leader: flyer("usual", "home"), flown: map[flight]func() ([]string, error){}}}
	for _, x := range []struct {
		name, want string
		usual      int // flights of the leader without a fault until then
		broken     []string
	}{
		{"sound", "", 0, nil},
		{"as usual", "", 1, []string{"home"}},
		{"faulty", "fence", 1, []string{"home", "fence"}},
	} {
		name := strings.ReplaceAll(x.name, " ", "-")
		got, err := r.shown(t.Context(), c.missions(chaos.Plain, flyer(name, x.broken...), filepath.Join(c.Out, name)),
			flight{chaos.Plain, 3})
		if err != nil || got != x.want || flights(name) != 1 || flights("usual") != x.usual {
			t.Errorf("%s: %q, %v, want %q; it flew %d times, the usual one %d times", x.name, got, err, x.want, flights(name),
				flights("usual"))
		}
	}
}

// Unit tests that run are ended with a run that is interrupted: their program, too, which
// the go command starts.
func TestTestsInterrupted(t *testing.T) {
	folder := t.TempDir()
	begun := filepath.Join(folder, "begun")
	if err := os.WriteFile(filepath.Join(folder, "go"), []byte("#!/bin/sh\nsleep 1000 & >"+begun+"; sleep 1000\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", folder+string(os.PathListSeparator)+os.Getenv("PATH"))
	all, err := Load()
	if err != nil {
		t.Fatal(err)
	}
	r := runner{Config: Config{Root: "../.."}}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		for ; ctx.Err() == nil; time.Sleep(10 * time.Millisecond) {
			if _, err := os.Stat(begun); err == nil {
				cancel()
			}
		}
	}()
	if _, err := r.runTests(ctx, all[0]); !errors.Is(err, context.Canceled) {
		t.Errorf("it ends with %v", err)
	}
}
