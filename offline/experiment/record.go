package experiment

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"prefdt/configs/cli"
	"prefdt/inference/kernel"
	"prefdt/simbridge/world"
)

// Record is how a result was measured: what it takes to measure it again, and to tell whether that was the same.
type Record struct {
	Version  string            `json:"version"`               // of the program, with its commit: cli.Version; or Before
	Command  []string          `json:"command,omitempty"`     // its words and flags
	World    string            `json:"world,omitempty"`       // SHA-256 of the configuration that a sweep changes
	Seeds    map[string]string `json:"seeds,omitempty"`       // by sweep, as first:end
	Made     map[string]string `json:"made_with,omitempty"`   // SHA-256 of checkpoints, corpora and trained networks, by path
	CPU      string            `json:"cpu,omitempty"`         // its model
	Features []string          `json:"features,omitempty"`    // of it, those that kernels of arithmetic may use
	Kernel   string            `json:"kernel,omitempty"`      // in use
	Workers  int               `json:"workers,omitempty"`     // at a time
	Ended    string            `json:"ended,omitempty"`       // UTC
	WallS    float64           `json:"wall_s,omitempty"`      // of all sittings that ended with something to keep
	CPUS     float64           `json:"processor_s,omitempty"` // of all cores, what was trained on the way included
}

// Before is the version of results that were stored before there were records: no sentence rests on them.
const Before = "version before"

// By says what measured a result: the commit of the program, or else its version. Without a record it says nothing.
func (r *Result) By() string {
	if r.Record == nil {
		return ""
	}
	if _, commit, found := strings.Cut(r.Record.Version, ", commit "); found {
		return fmt.Sprintf("%.12s", commit)
	}
	return r.Record.Version
}

// String is a record in a line, for what is printed: hashes are cut to twelve digits. nil says nothing.
func (r *Record) String() string {
	if r == nil {
		return ""
	}
	parts := []string{r.Version, "offline " + strings.Join(r.Command, " "), fmt.Sprintf("world %.12s", r.World)}
	for _, name := range slices.Sorted(maps.Keys(r.Seeds)) {
		parts = append(parts, fmt.Sprintf("seeds %s", r.Seeds[name]))
	}
	for _, name := range slices.Sorted(maps.Keys(r.Made)) {
		parts = append(parts, fmt.Sprintf("%s %.12s", name, r.Made[name]))
	}
	return strings.Join(append(parts, strings.TrimSpace(r.CPU+" "+r.Kernel), fmt.Sprintf("%.0f s of a core", r.CPUS), r.Ended), "; ")
}

// Stamp is when a measurement began, on the clock and on the processors.
type Stamp struct {
	wall time.Time
	cpu  time.Duration
}

// Now is the stamp of a measurement that begins.
func Now() Stamp { return Stamp{time.Now(), cpuTime()} }

// SpentS is the processor time since, in seconds of one core.
func (s Stamp) SpentS() float64 { return (cpuTime() - s.cpu).Seconds() }

// cpuTime is what this process has spent on all cores.
func cpuTime() time.Duration {
	var u syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u) // cannot fail
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// NewRecord describes what this program measures in a world, before it does.
func NewRecord(c *world.Config, workers int) *Record {
	r := &Record{Version: cli.Version(), Command: os.Args[1:], World: Key(c), Workers: workers, Seeds: map[string]string{},
		Made: map[string]string{}}
	r.Kernel, _ = kernel.Selected()
	r.CPU, r.Features = processor()
	return r
}

// AddFiles adds the hash of a file as sha256sum has it, or of a list of the hashes and names of all files below a folder.
func (r *Record) AddFiles(name, path string) error {
	var list bytes.Buffer
	err := filepath.WalkDir(path, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		f, err := os.Open(file)
		if err != nil {
			return err
		}
		defer f.Close()
		sum := sha256.New()
		if _, err := io.Copy(sum, f); err != nil {
			return err
		}
		r.Made[name] = fmt.Sprintf("%x", sum.Sum(nil))
		below, err := filepath.Rel(path, file)
		fmt.Fprintf(&list, "%s  %s\n", r.Made[name], below)
		return err
	})
	if info, statErr := os.Stat(path); statErr == nil && info.IsDir() {
		r.Made[name] = fmt.Sprintf("%x", sha256.Sum256(list.Bytes()))
	}
	return err
}

// End adds what has been spent since a stamp.
func (r *Record) End(since Stamp) {
	tenth := func(s float64) float64 { return math.Round(10*s) / 10 }
	r.WallS = tenth(r.WallS + time.Since(since.wall).Seconds())
	r.CPUS = tenth(r.CPUS + since.SpentS())
	r.Ended = time.Now().UTC().Format(time.RFC3339)
}

// SeedRange writes seeds that follow each other.
func SeedRange(seeds []uint64) string { return fmt.Sprintf("%d:%d", seeds[0], seeds[len(seeds)-1]+1) }

var (
	modelPattern   = regexp.MustCompile(`(?m)^(?:model name|CPU part)\s*: (.*)$`)
	flagsPattern   = regexp.MustCompile(`(?m)^(?:flags|Features)\s*: (.*)$`)
	featurePattern = regexp.MustCompile(`^(sse4|avx|fma|f16c|asimd|neon|vfp|sve|fphp)`)
)

// processor is this machine's, as Linux describes it; nothing elsewhere.
func processor() (model string, features []string) {
	text, _ := os.ReadFile("/proc/cpuinfo")
	if m := modelPattern.FindSubmatch(text); m != nil {
		model = string(m[1])
	}
	if m := flagsPattern.FindSubmatch(text); m != nil {
		features = slices.DeleteFunc(strings.Fields(string(m[1])), func(f string) bool { return !featurePattern.MatchString(f) })
	}
	return model, features
}

// WithoutRecord returns a file of a result, or of an evaluation, without the record of how it was measured: what two
// measurements of the same have in common. Another file stays as it is.
func WithoutRecord(file []byte) []byte {
	var x map[string]any
	if json.Unmarshal(file, &x) != nil || x["record"] == nil {
		return file
	}
	delete(x, "record")
	rest, _ := json.Marshal(x) // of what was JSON
	return rest
}

// check returns what a record lacks.
func (r *Record) check() error {
	switch {
	case r == nil:
		return errors.New("it has no record of how it was measured")
	case r.Version == Before, r.Version != "" && r.World != "" && len(r.Seeds) > 0 && r.Ended != "":
		return nil
	}
	return errors.New("its record is without a version, world, seeds or time")
}
