package real

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"prefdt/simbridge/real/probe"
	"prefdt/telemetry/datagram"
)

// Probes is what is to be asked of which autopilots.
type Probes struct {
	Only   []string // names of probes; empty: all
	Kinds  []probe.Kind
	Out    string // folder of logs, and of measured.csv
	Builds string
}

// probed is what a process found that asked one autopilot, in its file.
type probed struct {
	Values  probe.Values `json:"values"`
	Problem string       `json:"problem,omitempty"`
}

// Probe asks the real autopilots, and the simulated ones, and returns what they did, beside each other. The error says what
// could not be found.
func Probe(ctx context.Context, c Probes, progress io.Writer) (rows []probe.Row, err error) {
	probes, err := probe.Select(c.Only)
	if err != nil {
		return nil, err
	}
	p, err := newPlace(&Config{Out: c.Out, Builds: c.Builds})
	if err != nil {
		return nil, err
	}
	all, problems := map[probe.Kind]probe.Values{}, []string{}
	var mutex sync.Mutex
	var jobs sync.WaitGroup
	for _, kind := range c.Kinds {
		jobs.Go(func() {
			var found [2]probed
			for i, isReal := range []bool{true, false} {
				f, err := p.ask(ctx, kind, isReal, c.Only, progress)
				if err != nil {
					f.Problem = strings.TrimSpace(f.Problem + "\n" + err.Error())
				}
				found[i] = f
			}
			mutex.Lock()
			defer mutex.Unlock()
			all[kind] = found[0].Values
			for i, side := range []string{"real", "simulated"} {
				if found[i].Problem != "" {
					problems = append(problems, side+" "+found[i].Problem)
				}
			}
			rows = append(rows, probe.Compare(kind, probes, found[0].Values, found[1].Values)...)
		})
	}
	jobs.Wait()
	slices.SortStableFunc(rows, func(a, b probe.Row) int {
		return slices.Index(c.Kinds, a.Autopilot) - slices.Index(c.Kinds, b.Autopilot)
	})
	file, err := os.Create(filepath.Join(p.out, "measured.csv"))
	if err != nil {
		return rows, err
	}
	defer file.Close()
	if err := probe.WriteMeasured(file, all); err != nil {
		return rows, err
	}
	if len(problems) > 0 {
		return rows, fmt.Errorf("probes: %s", strings.Join(problems, "; "))
	}
	return rows, nil
}

// ask has a process of its own ask one autopilot: the real one in a network of its own.
func (p *place) ask(ctx context.Context, kind probe.Kind, isReal bool, only []string, progress io.Writer) (f probed, err error) {
	runtime.LockOSThread() // with the thread that began it the process would end
	defer runtime.UnlockOSThread()
	folder := filepath.Join(p.out, map[bool]string{true: "real-", false: "simulated-"}[isReal]+string(kind))
	if err := os.RemoveAll(folder); err != nil {
		return f, err
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return f, err
	}
	arguments := []string{"real", "-probes", "-autopilot", string(kind), "-only", strings.Join(only, ","), "-asked", "simulated"}
	if isReal {
		if err := p.linkBuilds(folder+"/builds/px4", folder+"/builds/ardupilot"); err != nil {
			return f, err
		}
		arguments[len(arguments)-1] = "real"
		arguments = []string{"real", "-inside", "exec '" + p.self + "' '" + strings.Join(arguments, "' '") + "'"}
	}
	command := exec.CommandContext(ctx, p.self, arguments...)
	command.Dir, command.Stderr = folder, progress
	command.Env = append(os.Environ(), "PREFDT_CONFIGS="+filepath.Join(p.repository, "configs"))
	if isReal {
		command.SysProcAttr = isolation()
	}
	if err := command.Run(); err != nil {
		return f, fmt.Errorf("asking %s: %w", kind, err)
	}
	raw, err := os.ReadFile(filepath.Join(folder, foundFile))
	if err != nil {
		return f, err
	}
	return f, json.Unmarshal(raw, &f)
}

const foundFile = "found.json"

// Asked is the process that asks one autopilot, in the present folder: what it finds is in a file there.
func Asked(side string, kind probe.Kind, only []string) error {
	probes, err := probe.Select(only)
	if err != nil {
		return err
	}
	trace, err := os.Create("trace.csv")
	if err != nil {
		return err
	}
	defer trace.Close()
	var f probed
	if side == "simulated" {
		f.Values, err = probe.FlySimulatedInProgram(kind, probes, os.Stderr, trace)
	} else {
		s := &subject{kind: kind, configs: os.Getenv("PREFDT_CONFIGS")}
		f.Values, err = probe.Fly(kind, s, datagram.Endpoint(nil, "127.0.0.1:14540"), probes, os.Stderr, trace)
		s.end()
	}
	if err != nil {
		f.Problem = err.Error()
	}
	raw, err := json.Marshal(f)
	if err != nil {
		return err
	}
	return os.WriteFile(foundFile, raw, 0o644)
}

// subject is a real autopilot in a folder of its own.
type subject struct {
	kind    probe.Kind
	configs string
	process *exec.Cmd
	ended   chan struct{}
}

const subjectFolder = "autopilot" // its parameters and log

func (s *subject) PowerCycle(fresh bool) error {
	s.end()
	if fresh {
		if err := os.RemoveAll(subjectFolder); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(subjectFolder, 0o755); err != nil {
		return err
	}
	here, err := os.Getwd()
	if err != nil {
		return err
	}
	px4, copter, configs := here+"/builds/px4", here+"/builds/ardupilot", s.configs
	at := fmt.Sprintf("%.6f,%.6f,%.0f,0", probe.Home.LatDeg, probe.Home.LonDeg, probe.Home.AltM)
	line := map[probe.Kind][]string{
		probe.PX4: {px4 + "/bin/px4", "-i", "0", "-d", px4 + "/etc"},
		probe.ArduPilot: {copter + "/build/sitl/bin/arducopter", "--model", "quad", "--speedup", "1", "-I", "0", "--sysid", "1",
			"--home", at, "--serial0", "udpclient:127.0.0.1:14540", "--defaults", strings.Join([]string{
				copter + "/Tools/autotest/default_params/copter.parm", configs + "/ardupilot/leader.parm",
				configs + "/ardupilot/sitl.parm"}, ",")},
	}[s.kind]
	log, err := os.OpenFile("autopilot.log", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	s.process = exec.Command(line[0], line[1:]...)
	s.process.Dir, s.process.Stdout, s.process.Stderr = subjectFolder, log, log
	s.process.Env = append(os.Environ(), "PATH="+configs+"/px4:"+os.Getenv("PATH"), "PX4_SYS_AUTOSTART=10040",
		"PX4_SIM_MODEL=sihsim_quadx", fmt.Sprintf("PX4_HOME_LAT=%.6f", probe.Home.LatDeg),
		fmt.Sprintf("PX4_HOME_LON=%.6f", probe.Home.LonDeg),
		fmt.Sprintf("PX4_HOME_ALT=%.0f", probe.Home.AltM))
	if err := s.process.Start(); err != nil {
		return fmt.Errorf("start %s: %w", line[0], err)
	}
	s.ended = make(chan struct{})
	go func() { s.process.Wait(); close(s.ended) }()
	return nil
}

// end ends the process, and waits for that.
func (s *subject) end() {
	if s.process == nil {
		return
	}
	s.process.Process.Signal(syscall.SIGTERM)
	select {
	case <-s.ended:
	case <-time.After(5 * time.Second):
		s.process.Process.Kill()
		<-s.ended
	}
	s.process = nil
}
