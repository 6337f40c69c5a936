// Package probe asks an autopilot what it does, by MAVLink alone: the same questions of a real one and of the simulated one.
//
// Inputs: a [Subject], which is PX4 or ArduCopter, and where its MAVLink arrives. Outputs: figures by name, compared with those
// that were measured on the real ones (measured.csv).
// Callers: simbridge/real, which flies builds of the real ones, and this package's test, which flies simbridge/autopilot.
//
// All times are by the autopilot's own clock, so that a busy machine changes none.
package probe

import (
	"cmp"
	_ "embed"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/bluenviron/gomavlib/v3"
)

// Kind is whose autopilot is asked.
type Kind string

const (
	PX4       Kind = "px4"
	ArduPilot Kind = "ardupilot"
)

// Kinds are all of them.
var Kinds = []Kind{PX4, ArduPilot}

// Subject is one autopilot with system id 1 and its home at [Home].
type Subject interface {
	// PowerCycle starts it, or ends it and starts it again; fresh is with the parameters that it is delivered with.
	PowerCycle(fresh bool) error
}

// start is the state in which a probe begins.
type start int

const (
	freshBoot start = iota // just powered, with fresh parameters
	stands                 // disarmed in its armable mode
	onGround               // the same, its checks good
	inAir                  // hovers in its commanded mode at hoverM
)

// Probe is one of the table.
type Probe struct {
	Name    string
	Does    string
	On      []Kind // empty: both
	from    start
	run     func(*station)
	Figures []Figure
}

// Figure is what a probe finds, and by how much the simulated autopilot may differ: the larger of both. A figure in words, as a
// mode or an answer, may not.
type Figure struct {
	Name, Unit string
	Abs, Rel   float64
	On         []Kind // empty: both
}

// Values are what was found, by [key]: numbers, or words.
type Values map[string]string

func key(probe, figure string) string { return probe + "/" + figure }

func onKind(on []Kind, k Kind) bool { return len(on) == 0 || slices.Contains(on, k) }

// Select are the probes of some names, all without any.
func Select(only []string) (all []Probe, err error) {
	for _, name := range only {
		if !slices.ContainsFunc(Table, func(p Probe) bool { return p.Name == name }) {
			return nil, fmt.Errorf("no probe is named %s", name)
		}
	}
	for _, p := range Table {
		if len(only) == 0 || slices.Contains(only, p.Name) {
			all = append(all, p)
		}
	}
	return all, nil
}

// Fly runs probes on a subject. It writes a line of progress for each, and a row of the trace for each position. The error says
// what could not be found.
func Fly(kind Kind, subject Subject, endpoint gomavlib.EndpointConf, probes []Probe, progress, trace io.Writer) (Values, error) {
	s := &station{kind: kind, subject: subject, values: Values{}, trace: csv.NewWriter(trace)}
	defer s.trace.Flush()
	s.trace.Write(traceHead)
	if err := s.initialize(endpoint); err != nil {
		return nil, err
	}
	defer s.close()
	var failed []error
	for _, p := range probes {
		if !onKind(p.On, kind) {
			continue
		}
		s.probe, s.problem = p.Name, nil
		beganS := s.nowS
		if s.prepare(p.from); s.problem == nil {
			p.run(s)
		}
		s.settle()
		fmt.Fprintf(progress, "%s %s: %.0f s %v\n", kind, p.Name, s.nowS-beganS, cmp.Or[any](s.problem, ""))
		if s.problem != nil {
			failed = append(failed, fmt.Errorf("%s %s: %w", kind, p.Name, s.problem))
		}
	}
	return s.values, errors.Join(failed...)
}

//go:embed measured.csv
var measured string

// Measured are the figures of the real autopilots.
func Measured() (map[Kind]Values, error) {
	rows, err := csv.NewReader(strings.NewReader(measured)).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("measured.csv: %w", err)
	}
	all := map[Kind]Values{}
	for _, k := range Kinds {
		all[k] = Values{}
	}
	for _, row := range rows[1:] {
		values := all[Kind(row[0])]
		if values == nil {
			return nil, fmt.Errorf("measured.csv: autopilot %s, want one of %v", row[0], Kinds)
		}
		values[row[1]] = row[2]
	}
	return all, nil
}

// WriteMeasured writes figures as measured.csv has them.
func WriteMeasured(w io.Writer, all map[Kind]Values) error {
	rows := [][]string{{"autopilot", "figure", "value"}}
	for _, k := range Kinds {
		for _, p := range Table {
			for _, f := range p.Figures {
				if value, ok := all[k][key(p.Name, f.Name)]; ok && onKind(f.On, k) {
					rows = append(rows, []string{string(k), key(p.Name, f.Name), value})
				}
			}
		}
	}
	return csv.NewWriter(w).WriteAll(rows)
}

// Row is one figure of a comparison.
type Row struct {
	Autopilot  Kind   `json:"autopilot"`
	Figure     string `json:"figure"`
	Unit       string `json:"unit,omitempty"`
	Real       string `json:"real"`
	Simulated  string `json:"simulated"`
	Difference string `json:"difference,omitempty"`
	Allowed    string `json:"allowed,omitempty"`
	Differs    bool   `json:"differs"`
}

// Compare compares what probes found. A figure that is missing on one side differs.
func Compare(kind Kind, probes []Probe, real, simulated Values) (rows []Row) {
	for _, p := range probes {
		for _, f := range p.Figures {
			if !onKind(p.On, kind) || !onKind(f.On, kind) {
				continue
			}
			k := key(p.Name, f.Name)
			r := Row{Autopilot: kind, Figure: k, Unit: f.Unit, Real: real[k], Simulated: simulated[k]}
			a, errA := strconv.ParseFloat(r.Real, 64)
			b, errB := strconv.ParseFloat(r.Simulated, 64)
			switch allowed := max(f.Abs, f.Rel*math.Abs(a)); {
			case f.Unit == "" || errA != nil || errB != nil:
				r.Differs = r.Real != r.Simulated || r.Real == ""
			default:
				r.Difference, r.Allowed = number(b-a), number(allowed)
				r.Differs = !(math.Abs(b-a) <= allowed)
			}
			rows = append(rows, r)
		}
	}
	return rows
}

// Print prints a comparison, and returns how many figures differ by more than is allowed.
func Print(w io.Writer, rows []Row) (differ int) {
	line := func(cells ...any) { fmt.Fprintf(w, "%-2s%-10s %-34s %-5s %-24s %-24s %10s %8s\n", cells...) }
	line("", "autopilot", "figure", "unit", "real", "simulated", "difference", "allowed")
	for _, r := range rows {
		mark := ""
		if r.Differs {
			mark = "!"
			differ++
		}
		line(mark, r.Autopilot, r.Figure, r.Unit, r.Real, r.Simulated, r.Difference, r.Allowed)
	}
	return differ
}

func number(x float64) string { return strconv.FormatFloat(math.Round(x*100)/100, 'f', -1, 64) }
