// Package mutants plants faults in the leader, one at a time, and finds out whether
// anything notices: the chaos missions first, which know the leader from outside alone,
// and its unit tests where those are silent.
//
// Inputs: the faults, which are data (faults/*.yaml), and the repository's sources.
// Outputs: for each fault what caught it, as a line of a CSV file.
// Caller: the command `simbridge mutants`.
//
// A fault is a small change of one file, as a programmer makes by mistake. It is built
// with go build -overlay: no source is touched.
package mutants

import (
	"bytes"
	"embed"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"prefdt/simbridge/chaos"
)

// Fault is one planted fault.
type Fault struct {
	ID       string   `yaml:"id"`
	File     string   `yaml:"file"` // from the repository's root
	What     string   `yaml:"what"` // in a sentence
	Before   string   `yaml:"before"`
	After    string   `yaml:"after"`    // in its place
	Missions []string `yaml:"missions"` // situations in which it can show, the most telling first
	Rules    []string `yaml:"rules"`    // of the judge that should see it
	Tests    []string `yaml:"tests"`    // packages whose tests should, and -run which
	// Kinds are those of the missions in which it can show; none: those of its area.
	Kinds []chaos.Kind `yaml:"kinds"`
	// Unseen is why no flight can show it, and it is not flown: its tests alone must see it. Empty: a flight can.
	Unseen string `yaml:"unseen"`

	Area string `yaml:"-"` // its file
}

// kinds are those of missions in which the faults of an area can show; in plain ones those of any other area.
var kinds = map[string][]chaos.Kind{
	"ardupilot": {chaos.ArduPilot, chaos.Mixed},
	"batteries": {chaos.Plain, chaos.Packs},
	"duty":      {chaos.Packs, chaos.Plain},
	"dutyplan":  {chaos.Packs},
	"envelope":  {chaos.Plain, chaos.Mixed, chaos.ArduPilot},
	"estimates": {chaos.Packs, chaos.Plain},
	"ground":    {chaos.Packs, chaos.Plain},
	"tasks":     {chaos.Tasks},
}

// kinds are those of the missions in which the fault can show.
func (f *Fault) kinds() []chaos.Kind {
	switch ofArea, ok := kinds[f.Area]; {
	case f.Unseen != "":
		return nil
	case len(f.Kinds) > 0:
		return f.Kinds
	case ok:
		return ofArea
	}
	return []chaos.Kind{chaos.Plain}
}

// wrong is what is wrong with the data of a fault; empty: nothing.
func (f *Fault) wrong() string {
	switch {
	case f.ID == "" || f.File == "" || f.What == "" || f.Before == "":
		return "lacks its id, file, what or before"
	case f.Unseen == "" && len(f.Missions) == 0:
		return "names no missions"
	case f.Unseen != "" && (len(f.Missions) > 0 || len(f.Kinds) > 0 || len(f.Tests) == 0):
		return "cannot be seen in flight: it has tests, and neither missions nor kinds"
	case slices.ContainsFunc(f.Kinds, func(k chaos.Kind) bool { return !slices.Contains(chaos.Kinds, k) }):
		return fmt.Sprintf("has the kinds %v, want some of %v", f.Kinds, chaos.Kinds)
	}
	return ""
}

//go:embed faults
var files embed.FS

// Load returns all faults. One whose data are wrong, or that has another's id, is an error.
func Load() (all []Fault, err error) {
	entries, err := files.ReadDir("faults")
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		raw, err := files.ReadFile("faults/" + e.Name())
		if err != nil {
			return nil, err
		}
		var faults []Fault
		if err := yaml.UnmarshalWithOptions(raw, &faults, yaml.Strict()); err != nil {
			return nil, fmt.Errorf("%s: %w", e.Name(), err)
		}
		for _, f := range faults {
			switch wrong := f.wrong(); {
			case wrong != "":
				return nil, fmt.Errorf("%s: fault %q %s", e.Name(), f.ID, wrong)
			case slices.ContainsFunc(all, func(g Fault) bool { return g.ID == f.ID }):
				return nil, fmt.Errorf("%s: there are two faults %s", e.Name(), f.ID)
			}
			f.Area = strings.TrimSuffix(e.Name(), ".yaml")
			all = append(all, f)
		}
	}
	return all, nil
}

// apply returns the file with the fault in it.
func (f *Fault) apply(root string) ([]byte, error) {
	text, err := os.ReadFile(filepath.Join(root, f.File))
	if err != nil {
		return nil, fmt.Errorf("fault %s: %w", f.ID, err)
	}
	if n := bytes.Count(text, []byte(f.Before)); n != 1 {
		return nil, fmt.Errorf("fault %s no longer applies: %s has its text %d times, want once", f.ID, f.File, n)
	}
	return bytes.Replace(text, []byte(f.Before), []byte(f.After), 1), nil
}
