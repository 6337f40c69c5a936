package bench

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/goccy/go-yaml"

	"prefdt/configs"
	"prefdt/configs/freeport"
)

// LeaderFootprint is the size of the leader's program and memory on one architecture.
// Resident memory is that of the real process, from /proc, at the end of a mission
// of Slots slots against simbridge. Under qemu the emulator's program, heap and
// translated code are counted apart; its stacks and the rest still count as the
// leader's.
type LeaderFootprint struct {
	BinaryBytes   *int64 `json:"binary_bytes"` // stripped
	ResidentBytes *int64 `json:"resident_bytes"`
	QemuBytes     *int64 `json:"qemu_bytes,omitempty"` // of the emulator, not in ResidentBytes
	Slots         int    `json:"slots"`
	Qemu          string `json:"qemu,omitempty"`
}

// leaderBuild is one architecture's leader: its folder of programs, and how a
// foreign one runs here.
type leaderBuild struct{ arch, folder, qemu string }

func leaderBuilds(bin string) []leaderBuild {
	return []leaderBuild{{"amd64", bin, ""}, {"arm64", filepath.Join(bin, "arm64"), "qemu-aarch64-static"}, {"armv7", filepath.Join(bin,
		"armv7"), "qemu-arm-static"}}
}

// measureLeader flies a mission. What could not be measured is nil, and the error is
// the reason.
func measureLeader(ctx context.Context, t leaderBuild, bin, scratch string, slots int) (LeaderFootprint, error) {
	l := LeaderFootprint{Slots: slots}
	program := filepath.Join(t.folder, "leader")
	info, err := os.Stat(program)
	if err != nil {
		return l, fmt.Errorf("no %s, build it first (make build arm64 armv7)", program)
	}
	l.BinaryBytes = new(info.Size())
	run := []string{program}
	if t.qemu != "" {
		if _, err := exec.LookPath(t.qemu); err != nil {
			return l, fmt.Errorf("no %s to run it", t.qemu)
		}
		l.Qemu = t.qemu
		run = []string{t.qemu, program}
	}
	simbridge := filepath.Join(bin, "simbridge")
	config, err := writeFlightConfig(filepath.Join(scratch, t.arch), bin, run, slots, t.qemu != "")
	if err != nil {
		return l, err
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, simbridge, "fly", "-config", config)
	command.Cancel = func() error { return command.Process.Signal(syscall.SIGTERM) }
	command.WaitDelay = 10 * time.Second
	var output bytes.Buffer
	command.Stdout, command.Stderr = &output, &output
	if err := command.Start(); err != nil {
		return l, fmt.Errorf("start %s: %w", simbridge, err)
	}
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if rss, emulator := residentMemory(command.Process.Pid, "leader", t.qemu); rss > 0 {
				if l.ResidentBytes = &rss; t.qemu != "" {
					l.QemuBytes = &emulator
				}
			}
		case err := <-ended:
			if err != nil {
				lines := strings.Split(strings.TrimSpace(output.String()), "\n")
				l.ResidentBytes, l.QemuBytes = nil, nil
				return l, fmt.Errorf("mission of the %s leader: %w: %s", t.arch, err, lines[len(lines)-1])
			}
			if l.ResidentBytes == nil {
				return l, errors.New("the leader was not found in /proc")
			}
			return l, nil
		}
	}
}

func writeFlightConfig(out, bin string, run []string, slots int, slow bool) (string, error) {
	slotMS := 20
	if slow {
		slotMS = 100
	}
	var fly, leader map[string]any
	if err := cmp.Or(configs.Load("configs/fly.yaml", &fly), configs.Load("configs/leader.yaml", &leader)); err != nil {
		return "", err
	}
	leader["slots"], leader["slot_ms"] = slots, slotMS
	leader["report_by_ms"], leader["decide_by_ms"] = 0.35*float64(slotMS), 0.9*float64(slotMS)
	// Ports of its own, so that another mission may fly meanwhile.
	var aircraft, endpoints []map[string]any
	for id := range benchAircraft {
		listen, err := freeport.Address()
		partner, failed := freeport.Address()
		if err := cmp.Or(err, failed); err != nil {
			return "", err
		}
		aircraft = append(aircraft, map[string]any{"system_id": id + 1, "listen": listen, "partner": partner})
		endpoints = append(endpoints, map[string]any{"system_id": id + 1, "endpoint": "udp-listen:" + partner})
	}
	fly["aircraft"], leader["aircraft"], fly["broker"] = aircraft, endpoints, map[string]any{"listen": "127.0.0.1:0"}
	fly["ground"] = []string{filepath.Join(bin, "ground")}
	// A battery holds 1,000 slots at v* and little more.
	leader["request"] = map[string]any{"setting": 0.95}
	limits, _ := leader["flight"].(map[string]any)
	if limits == nil {
		limits = map[string]any{}
	}
	limits["reserve_j"] = 1000
	leader["flight"] = limits
	fly["out"], fly["speed"], fly["timeout_s"] = out, 1000/slotMS, 280
	fly["world"] = map[string]any{"users": 10, "slots": slots}
	fly["leader"] = map[string]any{"run": run, "config": filepath.Join(out, "base.yaml")}
	fly["commands"] = []map[string]any{{"slot": -1, "run": []string{"mission", "start"}}}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return "", err
	}
	for name, values := range map[string]map[string]any{"base.yaml": leader, "fly.yaml": fly} {
		raw, err := yaml.Marshal(values)
		if err != nil {
			return "", err
		}
		if err := os.WriteFile(filepath.Join(out, name), raw, 0o644); err != nil {
			return "", err
		}
	}
	return filepath.Join(out, "fly.yaml"), nil
}

// residentMemory returns the memory of the child of a process whose command line has
// this program in it, and apart from it the emulator's own.
func residentMemory(parent int, program, qemu string) (rss, emulator int64) {
	children, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", parent))
	for _, path := range children {
		list, _ := os.ReadFile(path)
		for _, pid := range strings.Fields(string(list)) {
			line, _ := os.ReadFile("/proc/" + pid + "/cmdline")
			if strings.Contains(string(line), program+"\x00") {
				maps, _ := os.ReadFile("/proc/" + pid + "/smaps")
				return sumResident(string(maps), qemu)
			}
		}
	}
	return 0, 0
}

// sumResident sums the resident memory of a process and of its emulator over the
// mappings in /proc/PID/smaps.
func sumResident(smaps, qemu string) (rss, emulator int64) {
	own := false // the mapping is the emulator's
	for _, row := range strings.Split(smaps, "\n") {
		fields := strings.Fields(row)
		if len(fields) >= 5 && strings.Contains(fields[0], "-") { // from-to permissions offset device inode [path]
			path := strings.Join(fields[5:], " ")
			own = qemu != "" && (strings.Contains(path, qemu) || path == "[heap]" || strings.HasPrefix(fields[1], "rwx"))
		} else if len(fields) == 3 && fields[0] == "Rss:" {
			kb, _ := strconv.ParseInt(fields[1], 10, 64)
			if own {
				emulator += kb << 10
			} else {
				rss += kb << 10
			}
		}
	}
	return rss, emulator
}
