//go:build real

package docs

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"prefdt/configs/built"
	"prefdt/configs/freeport"
)

// runs reports whether the block's commands are run here, and not only checked.
func (b *block) runs() bool {
	if _, marked := b.mark("check"); marked {
		return false
	}
	if program, marked := b.mark("needs"); marked {
		_, err := exec.LookPath(program)
		return err == nil
	}
	return true
}

// TestMain has all pages that fly do so beside each other: they wait for the clock most of the time.
func TestMain(m *testing.M) {
	flag.Parse()
	if at := flag.Lookup("test.parallel"); at.Value.String() == at.DefValue {
		flag.Set("test.parallel", "6")
	}
	os.Exit(m.Run())
}

// Every command in the documents is run in a copy of the repository, one shell for
// each document; those that need hours, hardware, root or the like are checked for
// programs, flags and files that are not there. A document that flies waits for the clock
// most of the time: it has a copy and ports of its own, and the others run meanwhile.
func TestCommands(t *testing.T) {
	folder := t.TempDir()
	copyRepository(t, folder, freePorts(t))
	// Programs that other tests start, too. make finds them up to date, and builds the rest.
	for _, of := range []string{"firmware", "simbridge", "offline", "telemetry/ground", "firmware/worker", "firmware/user"} {
		name := filepath.Base(of)
		if of == "firmware" {
			name = "leader"
		}
		if err := built.Program(filepath.Join(folder, "bin", name), "prefdt/"+of); err != nil {
			t.Fatal(err)
		}
	}
	build := exec.Command("make", "build")
	build.Dir = folder
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("make build: %v\n%s", err, out)
	}
	run, checked := 0, 0
	type document struct{ name, script string }
	var flying, computing []document
	for _, path := range documents(t) {
		var script strings.Builder
		for _, b := range blocks(t, path) {
			if b.language != "sh" {
				continue
			}
			if !b.runs() {
				checkBlock(t, folder, &b)
				checked++
				continue
			}
			run++
			if _, marked := b.mark("terminal"); marked {
				fmt.Fprintf(&script, "{\n%s} >terminal-%d.log 2>&1 &\n", b.text, b.line)
			} else {
				fmt.Fprintf(&script, "echo '# %s:%d'\nset -x\n%s{ set +x; } 2>/dev/null\n", b.path, b.line,
					strings.ReplaceAll(b.text, "bin/simbridge fly ", "fly "))
			}
		}
		switch d := (document{filepath.Base(path), script.String()}); {
		case strings.Contains(d.script, "fly -config "):
			flying = append(flying, d)
		case d.script != "":
			computing = append(computing, d)
		}
	}
	t.Logf("%d blocks run, %d checked", run, checked)
	if run < 8 || checked < 8 || len(flying) < 2 {
		t.Errorf("%d blocks run, %d checked, %d documents fly: want all in plenty", run, checked, len(flying))
	}
	for _, d := range flying {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			own, ports := t.TempDir(), freePorts(t)
			copyRepository(t, own, ports)
			if err := os.Symlink(filepath.Join(folder, "bin"), filepath.Join(own, "bin")); err != nil {
				t.Fatal(err)
			}
			runScript(t, own, ports.Replace(d.script))
		})
	}
	t.Run("computing", func(t *testing.T) {
		t.Parallel()
		for _, d := range computing {
			t.Run(d.name, func(t *testing.T) { runScript(t, folder, d.script) })
		}
	})
}

// freePorts gives the ports of the shipped configurations free ones in their place.
func freePorts(t *testing.T) *strings.Replacer {
	var pairs []string
	for _, port := range []string{"18830", "14540", "14541", "14550", "14580", "14581", "17300"} {
		free, err := freeport.Port()
		if err != nil {
			t.Fatal(err)
		}
		pairs = append(pairs, port, strconv.Itoa(free))
	}
	return strings.NewReplacer(pairs...)
}

func copyRepository(t *testing.T, folder string, ports *strings.Replacer) {
	repositoryFiles(t, func(path string) {
		from := filepath.Join(root, path)
		info, err := os.Stat(from)
		if err != nil {
			t.Fatal(err)
		}
		text := read(t, path)
		if filepath.Dir(path) == "configs" && filepath.Ext(path) == ".yaml" {
			text = ports.Replace(text)
		}
		to := filepath.Join(folder, path)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to, []byte(text), info.Mode().Perm()); err != nil {
			t.Fatal(err)
		}
	})
}

// flyInRealTime is a flight that may end with an error where this machine was too busy for it: slots that were missed.
const flyInRealTime = `fly() {
	bin/simbridge fly "$@" >fly.log 2>&1 || { cat fly.log; grep -q 'slots were missed' fly.log; }
}
`

func runScript(t *testing.T, folder, script string) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	shell := exec.CommandContext(ctx, "bash", "-eu", "-c", flyInRealTime+script)
	shell.Dir = folder
	// With the flags of these tests nothing is compiled twice. `make lint` vets, once.
	shell.Env = append(os.Environ(), "PATH="+filepath.Join(folder, "bin")+":"+os.Getenv("PATH"),
		"GOFLAGS="+os.Getenv("GOFLAGS")+" -vet=off")
	shell.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // the shell's terminals end with it
	group := func() error { return syscall.Kill(-shell.Process.Pid, syscall.SIGTERM) }
	shell.Cancel, shell.WaitDelay = group, 10*time.Second
	var output bytes.Buffer
	shell.Stdout, shell.Stderr = &output, &output
	err := shell.Run()
	if shell.Process != nil {
		for range 300 { // until the last of the terminals has ended, and writes nothing more
			if group() != nil {
				break
			}
			time.Sleep(100 * time.Millisecond)
		}
	}
	if err != nil {
		logs, _ := filepath.Glob(filepath.Join(folder, "terminal-*.log"))
		for _, path := range logs {
			raw, _ := os.ReadFile(path)
			t.Logf("%s, its end:\n%s", filepath.Base(path), raw[max(0, len(raw)-2000):])
		}
		t.Errorf("%v\n%s", err, &output)
	}
}

// What a checked block may call: programs of this repository, whose flags are
// checked, and commands of the shell and the system, which are not.
var (
	programs       = []string{"leader", "simbridge", "offline", "ground", "worker"}
	systemCommands = strings.Fields("apt-get cd exec export install journalctl kill mkdir mosquitto mosquitto_pub mosquitto_sub python3 " +
		"rm sbatch sed sudoedit systemctl")
)

// checkBlock checks the commands of a block without running them.
func checkBlock(t *testing.T, folder string, b *block) {
	where := fmt.Sprintf("%s:%d", b.path, b.line)
	reason, _ := b.mark("check")
	text := regexp.MustCompile(`(?m)\s*#.*$`).ReplaceAllString(strings.ReplaceAll(b.text, "\\\n", " "), "")
	for _, line := range regexp.MustCompile(`[\n;|&()]+`).Split(text, -1) {
		words := strings.Fields(line)
		for len(words) > 0 && (words[0] == "sudo" || words[0] == "-u" || words[0] == "prefdt" || words[0] == "prefdt-worker" ||
			regexp.MustCompile(`^[A-Z_0-9]+=`).MatchString(words[0])) {
			words = words[1:]
		}
		if len(words) == 0 {
			continue
		}
		for _, word := range words {
			if strings.HasPrefix(word, "configs/") && !exists(word) {
				t.Errorf("%s: no file %s", where, word)
			}
		}
		checkCommand(t, folder, where, words)
		if reason == "test" {
			checkTests(t, where, words)
		}
		if reason == "ci" && !runInCI(t, line) {
			t.Errorf("%s: .ci/run does not run %q", where, strings.TrimSpace(line))
		}
	}
}

// checkCommand checks one command: that there is its program, with its flags, its
// target, its package.
func checkCommand(t *testing.T, folder, where string, words []string) {
	switch program := strings.TrimPrefix(words[0], "bin/"); {
	case slices.Contains(programs, program):
		checkFlags(t, folder, where, program, words[1:])
	case program == "make":
		for _, target := range words[1:] {
			if !strings.Contains(target, "=") && !strings.Contains(read(t, "Makefile"), "\n"+target+":") {
				t.Errorf("%s: no target %s", where, target)
			}
		}
	case program == "go":
		for _, word := range words[1:] {
			if strings.HasPrefix(word, "./") && !exists(strings.TrimSuffix(word, "/...")) {
				t.Errorf("%s: no package %s", where, word)
			}
		}
	case !slices.Contains(systemCommands, program) && !strings.HasPrefix(program, "$"):
		t.Errorf("%s: what is %q?", where, program)
	}
}

// checkTests checks that a command is `go test` of packages, with a test in them where it names one: `make test` runs them.
func checkTests(t *testing.T, where string, words []string) {
	t.Helper()
	if len(words) < 3 || words[0] != "go" || words[1] != "test" {
		t.Errorf("%s: %q is not `go test` of packages", where, words)
		return
	}
	name := "func Test"
	var sources strings.Builder
	for i, word := range words[2:] {
		switch {
		case words[i+1] == "-run":
			name = "func " + word + "("
		case strings.HasPrefix(word, "./"):
			paths, _ := filepath.Glob(filepath.Join(root, word, "*_test.go"))
			for _, path := range paths {
				text, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				sources.Write(text)
			}
		}
	}
	if !strings.Contains(sources.String(), name) {
		t.Errorf("%s: the packages of %q have no %s", where, words, name)
	}
}

// runInCI reports whether .ci/run has a command, as it stands or, for make, with
// all its targets.
func runInCI(t *testing.T, line string) bool {
	ci := read(t, ".ci/run")
	words := strings.Fields(line)
	if words[0] != "make" {
		return strings.Contains(ci, strings.Join(words, " "))
	}
	return !slices.ContainsFunc(words[1:], func(target string) bool {
		return !regexp.MustCompile(`(?m)^\s*make( .*)? ` + target + `\b|^\s*make ` + target + `\b`).MatchString(ci)
	})
}

// helps are what programs said of their commands: the documents call most of them more than once.
var helps = map[string]string{}

// checkFlags looks for each flag of a command in the program's help.
func checkFlags(t *testing.T, folder, where, program string, words []string) {
	args := []string{"-h"}
	if len(words) > 0 && !strings.HasPrefix(words[0], "-") {
		args = []string{words[0], "-h"}
	}
	called := program + " " + strings.Join(args, " ")
	help, known := helps[called]
	if !known {
		text, err := exec.Command(filepath.Join(folder, "bin", program), args...).CombinedOutput()
		if err != nil {
			t.Errorf("%s: %s: %v\n%s", where, called, err, text)
			return
		}
		help = string(text)
		helps[called] = help
	}
	for _, word := range words {
		name, _, _ := strings.Cut(word, "=")
		if strings.HasPrefix(name, "-") && !regexp.MustCompile(regexp.QuoteMeta(name)+`\b`).MatchString(help) {
			t.Errorf("%s: %s lists no flag %s", where, called, name)
		}
	}
}
