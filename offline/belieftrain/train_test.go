package belieftrain

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"prefdt/inference/belief/learned"
	"prefdt/inference/slot"
	"prefdt/offline/seeds"
	"prefdt/simbridge/world"
)

func small(steps int) Config {
	c := Default()
	c.Batch, c.SlotShare, c.StudentFromStep, c.Seeds = 2, 0.1, 1, seeds.List(99_970, 5)
	c.Schedule.Steps, c.Schedule.WarmUpSteps = steps, 1
	return c
}

// A run that was interrupted ends with the parameters of one that was not.
func TestResume(t *testing.T) {
	c := small(4)
	whole, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for range c.Schedule.Steps {
		if whole.Step == 2 {
			if err := whole.Save(filepath.Join(dir, "state.bin")); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := whole.Next(); err != nil {
			t.Fatal(err)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	var out bytes.Buffer
	if err := Run(ended, c, dir, &out); err == nil || !strings.Contains(err.Error(), "interrupted at step 2 of 4") {
		t.Errorf("an interrupted run ends with %v", err)
	}
	if err := Run(t.Context(), c, dir, &out); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(filepath.Join(dir, ParametersFile))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	p, err := learned.Read(f)
	if err != nil || p.Window != c.Window || !slices.Equal(p.Data, whole.Params.Data) {
		t.Errorf("the resumed run has other parameters than the whole one, %v", err)
	}
	c.Window = 5
	if err := Run(t.Context(), c, dir, &out); err == nil {
		t.Error("a run was resumed with another memory")
	}
}

// A few steps make what is believed of links and CPUs on other flights likelier. Those of
// the wind start from a likelihood that is too good to show it so soon.
func TestLearns(t *testing.T) {
	if testing.Short() {
		t.Skip("flies a hundred flights")
	}
	c := small(30)
	c.Batch, c.Schedule.FinalFraction = 4, 0.5
	run, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	flown := slices.Clone(run.Params.Data) // the student that flies to measure stays the same
	measure := func() (sum Losses) {
		n := newNetwork(slices.Clone(run.Params.Data), make([]float32, len(flown)))
		f := source{config: &c, params: flown}
		for i := range 10 {
			f.fly(0, 1000+i, func(m *learned.Memory, s *slot.Snapshot, h *world.Hidden) { n.addSlot(m, s, h, Weights{}, &sum) })
		}
		return sum
	}
	before := measure()
	for range c.Schedule.Steps {
		if _, err := run.Next(); err != nil {
			t.Fatal(err)
		}
	}
	after := measure()
	for _, x := range []struct {
		name          string
		before, after float64
		n             int
	}{
		{"links", before.Link, after.Link, after.Links},
		{"phones", before.Phone, after.Phone, after.Phones},
	} {
		if gain := (x.before - x.after) / float64(x.n); !(gain > 0.008) {
			t.Errorf("%s: the mean negative log-likelihood falls by %.3f", x.name, gain)
		}
	}
}

func TestCheck(t *testing.T) {
	for name, spoil := range map[string]func(*Config){
		"window": func(c *Config) { c.Window = 0 },
		"share":  func(c *Config) { c.SlotShare = 0 },
		"from":   func(c *Config) { c.From = &learned.Parameters{Window: 20} },
		"seeds":  func(c *Config) { c.Seeds = nil },
		"seed":   func(c *Config) { c.Seeds = []uint64{100_000} },
		"steps":  func(c *Config) { c.Schedule.Steps = 0 },
		"batch":  func(c *Config) { c.Batch = 1 },
	} {
		c := small(1)
		spoil(&c)
		if _, err := New(c); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
