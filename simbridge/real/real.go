// Package real flies the product with real autopilots: SITL builds of PX4 and of ArduCopter that are found on the machine.
//
// Inputs: the table of flights (flights.yaml), a folder of builds, and the recipe of docs/integrator.md, which is run as it
// stands there. Outputs: a folder for each flight with its record, a line of JSON for each in results.jsonl, and a table.
// Caller: the command simbridge real.
//
// A flight has a network, processes and a /tmp of its own, so that no port is another's, and nothing outlives it. A flight is
// judged by its record: by rules that hold on a busy machine, by the joules, by distance, and by the autopilots' failsafes.
package real

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/goccy/go-yaml"

	"prefdt/simbridge/fly"
)

//go:embed flights.yaml
var table []byte

// Flight is one of the table, which explains the fields.
type Flight struct {
	Name     string        `yaml:"name"`
	Pair     string        `yaml:"pair"`
	Recipe   bool          `yaml:"recipe"`
	Slots    int           `yaml:"slots"`
	Budget   []string      `yaml:"budget"`
	Packs    []float64     `yaml:"packs"`
	Fast     bool          `yaml:"fast"`
	Signed   bool          `yaml:"signed"`
	Relay    bool          `yaml:"relay"`
	Radio    bool          `yaml:"radio"`
	Commands []fly.Command `yaml:"commands"`
}

// Flights are those of the table.
func Flights() (all []Flight, err error) {
	if err := yaml.UnmarshalWithOptions(table, &all, yaml.Strict()); err != nil {
		return nil, fmt.Errorf("flights.yaml: %w", err)
	}
	return all, nil
}

// Config is what is to be flown, by the command's flags.
type Config struct {
	Only   []string // names; empty: all of Acts or not
	Acts   bool
	Repeat int
	Jobs   int
	Resume bool // do not fly again what results.jsonl has as kept, by this same program
	Out    string
	Builds string // of the autopilots
}

// NoBuilds is why nothing is flown.
type NoBuilds struct{ error }

// Run flies what is asked for, and prints a line for each, and the table. It returns an error if a flight failed or none was flown.
func Run(ctx context.Context, c Config, out io.Writer) error {
	all, err := Flights()
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(f Flight) bool {
		return len(c.Only) > 0 && !slices.Contains(c.Only, f.Name) || len(c.Only) == 0 && f.Recipe == c.Acts
	})
	if len(all) == 0 {
		return fmt.Errorf("no flight is named %s", strings.Join(c.Only, ", "))
	}
	p, err := newPlace(&c)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(p.out, 0o755); err != nil {
		return err
	}
	results := filepath.Join(p.out, "results.jsonl")
	var before []Result
	if c.Resume {
		before = readResults(results)
	}
	file, err := os.OpenFile(results, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer file.Close()

	began, printer := time.Now(), printer{out: out}
	var mutex sync.Mutex
	var flown []Result
	next := make(chan Result, len(all)*c.Repeat)
	for n := range c.Repeat {
		for _, f := range all {
			next <- Result{Name: f.Name, Repeat: n + 1, Program: p.program, flight: f}
		}
	}
	close(next)
	var jobs sync.WaitGroup
	for range c.Jobs {
		jobs.Go(func() {
			for r := range next {
				i := slices.IndexFunc(before, func(b Result) bool { return b.is(&r) && len(b.Broken) == 0 })
				switch {
				case ctx.Err() != nil:
					continue
				case i >= 0:
					r = before[i]
				default:
					p.fly(ctx, &r, &printer)
				}
				mutex.Lock()
				if line, err := json.Marshal(r); err == nil && i < 0 && ctx.Err() == nil {
					file.Write(append(line, '\n'))
				}
				flown = append(flown, r)
				mutex.Unlock()
			}
		})
	}
	jobs.Wait()
	if ctx.Err() != nil {
		return errors.New("interrupted; -resume goes on")
	}
	failed := printTable(out, flown)
	fmt.Fprintf(out, "%d real flights flown in %.0f s, %d failed\n", len(flown), time.Since(began).Seconds(), failed)
	if failed > 0 {
		return fmt.Errorf("%d of %d real flights failed, see %s", failed, len(flown), p.out)
	}
	return nil
}

// place is where flights are flown from.
type place struct {
	repository, out, builds string // absolute; builds as they are found
	self                    string // this program
	program                 string // digest of what flies
	recipe                  map[string]string
}

// programs are those that the recipe runs.
var programs = []string{"bin/simbridge", "bin/leader", "bin/ground"}

func newPlace(c *Config) (*place, error) {
	p := &place{}
	var err error
	if p.self, err = os.Executable(); err != nil {
		return nil, err
	}
	digest := sha256.New()
	for _, name := range programs {
		raw, err := os.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("%w: want `make build` first, and the repository's folder as the present one", err)
		}
		digest.Write(raw)
	}
	p.program = fmt.Sprintf("%x", digest.Sum(nil))[:16]
	if p.out, err = filepath.Abs(c.Out); err != nil {
		return nil, err
	}
	if p.builds, err = filepath.Abs(c.Builds); err != nil {
		return nil, err
	}
	for _, name := range []string{"px4/bin/px4", "px4/etc", "arducopter/arducopter", "arducopter/copter.parm"} {
		if _, err := os.Stat(filepath.Join(p.builds, name)); err != nil {
			return nil, NoBuilds{fmt.Errorf("no SITL builds: %w; PREFDT_SITL names their folder", err)}
		}
	}
	return p, p.locate()
}

// locate finds the repository, and reads the recipe in it.
func (p *place) locate() (err error) {
	if p.repository, err = os.Getwd(); err != nil {
		return err
	}
	text, err := os.ReadFile("docs/integrator.md")
	if err != nil {
		return err
	}
	p.recipe = map[string]string{}
	for _, name := range []string{"sitl", "px4", "ardupilot"} {
		_, after, found := strings.Cut(string(text), "```sh check="+name+"\n")
		if p.recipe[name], _, _ = strings.Cut(after, "```"); !found {
			return fmt.Errorf("docs/integrator.md has no block marked check=%s", name)
		}
	}
	return nil
}

// linkBuilds makes folders like those in which PX4 and ArduPilot are built. PX4's commands are links to its program, which
// find it by their own name; a copy of a folder may have lost that.
func (p *place) linkBuilds(px4, copter string) error {
	for _, dir := range []string{px4 + "/bin", copter + "/build/sitl/bin", copter + "/Tools/autotest/default_params"} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	links := map[string]string{px4 + "/etc": p.builds + "/px4/etc",
		copter + "/build/sitl/bin/arducopter":                 p.builds + "/arducopter/arducopter",
		copter + "/Tools/autotest/default_params/copter.parm": p.builds + "/arducopter/copter.parm"}
	commands, err := filepath.Glob(p.builds + "/px4/bin/px4-*")
	if err != nil {
		return err
	}
	for _, path := range commands {
		links[filepath.Join(px4, "bin", filepath.Base(path))] = "px4"
	}
	links[px4+"/bin/px4-alias.sh"] = p.builds + "/px4/bin/px4-alias.sh"
	for link, to := range links {
		if err := os.Symlink(to, link); err != nil {
			return err
		}
	}
	program, err := os.ReadFile(p.builds + "/px4/bin/px4")
	if err != nil {
		return err
	}
	return os.WriteFile(px4+"/bin/px4", program, 0o755)
}

// fly flies a flight and judges it.
func (p *place) fly(ctx context.Context, r *Result, out *printer) {
	runtime.LockOSThread() // with the thread that began it a flight would end
	defer runtime.UnlockOSThread()
	began := time.Now()
	folder := filepath.Join(p.out, fmt.Sprintf("%s-%d", r.Name, r.Repeat))
	script, err := p.prepare(folder, &r.flight)
	if err != nil {
		r.fail("%v", err)
		return
	}
	log, err := os.Create(filepath.Join(folder, logFile))
	if err != nil {
		r.fail("%v", err)
		return
	}
	defer log.Close()
	command := exec.CommandContext(ctx, p.self, "real", "-inside", script)
	command.SysProcAttr, command.Dir = isolation(), folder
	command.Stdout = io.MultiWriter(log, &progress{name: r.Name, out: out})
	command.Stderr = command.Stdout
	command.Env = append(os.Environ(), "PX4="+folder+"/builds/px4", "ARDUPILOT="+folder+"/builds/ardupilot")
	err = command.Run()
	r.Seconds = time.Since(began).Seconds()
	if s := command.ProcessState; s != nil {
		r.CPUS = (s.UserTime() + s.SystemTime()).Seconds()
	}
	if err != nil {
		r.Broken = append(r.Broken, fmt.Sprintf("the recipe: %v", err))
	}
	r.judge(folder)
	out.print(r.Name, r.verdict())
}

// prepare makes a flight's folder, with the programs and configurations as in the repository but for what the flight changes,
// and returns the recipe.
func (p *place) prepare(folder string, f *Flight) (script string, err error) {
	if err := os.RemoveAll(folder); err != nil {
		return "", err
	}
	if err := os.MkdirAll(filepath.Join(folder, "configs"), 0o755); err != nil {
		return "", err
	}
	files, err := os.ReadDir("configs")
	if err != nil {
		return "", err
	}
	for _, e := range files {
		if filepath.Ext(e.Name()) == ".go" { // `go test ./...` of the repository would take the folder for a package
			continue
		}
		if err := os.Symlink(filepath.Join(p.repository, "configs", e.Name()), filepath.Join(folder, "configs", e.Name())); err != nil {
			return "", err
		}
	}
	if err := os.Symlink(filepath.Join(p.repository, "bin"), filepath.Join(folder, "bin")); err != nil {
		return "", err
	}
	if err := p.linkBuilds(folder+"/builds/px4", folder+"/builds/ardupilot"); err != nil {
		return "", err
	}
	if err := f.configure(filepath.Join(folder, "configs")); err != nil {
		return "", err
	}
	script = p.recipe[f.Pair]
	if f.Pair == mixed { // the first instance of PX4's lines, the rest of ArduCopter's
		first, _, _ := strings.Cut(p.recipe["px4"], "\n")
		second := strings.Index(p.recipe["ardupilot"], "\n(cd out/sitl-2")
		if second < 0 {
			return "", errors.New("docs/integrator.md: no second ArduCopter")
		}
		script = first + p.recipe["ardupilot"][second:]
	}
	return p.recipe["sitl"] + script + "wait\n", nil
}

const (
	mixed   = "mixed"
	logFile = "flight.log" // all that a flight printed
)

// printer prints lines of several flights.
type printer struct {
	mutex sync.Mutex
	out   io.Writer
}

func (p *printer) print(name, line string) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	fmt.Fprintf(p.out, "%-16s %s\n", name, line)
}

// progress prints the lines of a flight as they come, until it ends and tells its figures.
type progress struct {
	name  string
	out   *printer
	line  []byte
	ended bool
}

func (p *progress) Write(b []byte) (int, error) {
	for _, c := range b {
		if c != '\n' {
			p.line = append(p.line, c)
			continue
		}
		text := strings.TrimSpace(string(p.line))
		p.line = p.line[:0]
		if p.ended = p.ended || strings.HasPrefix(text, "slots "); text != "" && !p.ended {
			p.out.print(p.name, text)
		}
	}
	return len(b), nil
}
