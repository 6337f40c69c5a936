package belieftrain

import (
	"bytes"
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"prefdt/inference/belief/learned"
	"prefdt/inference/slot"
	"prefdt/offline/offlinetest"
	"prefdt/simbridge/world"
)

func small(first, refine int) Config {
	c := Default()
	c.SlotShare, c.Seeds = 0.1, "99970:99975"
	c.First.Batch, c.First.StudentsFrom, c.Refine.Batch = 2, 1, 2
	c.First.Schedule.Steps, c.First.Schedule.WarmUpSteps = first, 1
	c.Refine.Schedule.Steps, c.Refine.Schedule.WarmUpSteps = refine, 1
	return c
}

// A run that was interrupted, in either stage, ends with the parameters of one that was not.
func TestResume(t *testing.T) {
	c, whole, broken := small(3, 2), t.TempDir(), t.TempDir()
	want := offlinetest.Must(Run(t.Context(), c, nil, whole, 1, &bytes.Buffer{}))(t)
	for _, at := range []string{"stage first", "stage refine"} {
		ctx, cancel := context.WithCancel(t.Context())
		if _, err := Run(ctx, c, nil, broken, 1, &offlinetest.Log{Text: at, Stop: cancel}); err == nil ||
			!strings.Contains(err.Error(), at+": interrupted at step 0") {
			t.Errorf("interrupted as %q begins, it ends with %v", at, err)
		}
		if _, err := os.Stat(filepath.Join(broken, ParametersFile)); err == nil {
			t.Error("an interrupted run left parameters")
		}
	}
	offlinetest.Must(Run(t.Context(), c, nil, broken, 1, &bytes.Buffer{}))(t)
	got, record, err := Read(broken)
	if err != nil || got.Window != c.Window || !slices.Equal(got.Data, want.Data) {
		t.Errorf("the resumed run has other parameters than the whole one, %v", err)
	}
	if record.Training["flights"] != 10 || record.Seeds["train_first"] != 99_970 || record.Window != c.Window {
		t.Errorf("its record is %+v", record)
	}
	log, err := os.ReadFile(filepath.Join(broken, "first", "log.csv"))
	if header, _, _ := strings.Cut(string(log), "\n"); err != nil || header != "step,rate,norm,loss,links,cpus,gain_error,flights_per_s" ||
		bytes.Count(log, []byte("\n")) != 4 {
		t.Errorf("the log is %q, %v", log, err)
	}
	for name, change := range map[string]func(*Config){
		"window": func(c *Config) { c.Window = 5 }, "seeds": func(c *Config) { c.Seeds = "99970:99974" },
		"batch": func(c *Config) { c.First.Batch = 3 },
	} {
		other := c
		change(&other)
		if _, err := Run(t.Context(), other, nil, broken, 1, &bytes.Buffer{}); err == nil ||
			!strings.Contains(err.Error(), "it was trained with") {
			t.Errorf("%s: resumed with another one: %v", name, err)
		}
	}
}

// Parameters to begin with take the place of the first stage.
func TestFrom(t *testing.T) {
	c, r := small(0, 1), rand.New(rand.NewPCG(8, 8))
	c.Refine.Schedule.PeakRate = 1e-12
	from := &learned.Parameters{Window: c.Window}
	for range learned.ParameterCount() {
		from.Data = append(from.Data, float32(0.1*r.NormFloat64()))
	}
	dir := t.TempDir()
	got := offlinetest.Must(Run(t.Context(), c, from, dir, 1, &bytes.Buffer{}))(t)
	read, record, err := Read(dir)
	if err != nil || !slices.Equal(read.Data, got.Data) {
		t.Errorf("in the folder are others, %v", err)
	}
	c.FlightsBefore = record.Training["flights"]
	offlinetest.Must(Run(t.Context(), c, got, dir+"-again", 1, &bytes.Buffer{}))(t)
	_, again, err := Read(dir + "-again")
	if n := again.Training["flights"]; err != nil || c.FlightsBefore != float64(c.Refine.Batch) || n != 2*c.FlightsBefore {
		t.Errorf("a run of %v flights, gone on from, has %v", c.FlightsBefore, n) // what it goes on from counts
	}
	_, alone, err := Read(filepath.Join(dir, ParametersFile))
	if err != nil || alone.Training["flights"] != 0 {
		t.Errorf("of a file of parameters is recorded %+v, %v", alone, err)
	}
	shipped, record, err := Read("../../configs/checkpoint")
	if err != nil || len(shipped.Data) != learned.ParameterCount() || record.Training["flights"] == 0 {
		t.Errorf("the shipped checkpoint's estimator: %+v, %v", record, err)
	}
	if _, _, err := Read(t.TempDir()); err == nil {
		t.Error("an empty folder has parameters")
	}
	for i, x := range got.Data {
		if d := x - from.Data[i]; d > 1e-6 || d < -1e-6 {
			t.Fatalf("parameter %d is %v after a step of almost nothing, it began as %v", i, x, from.Data[i])
		}
	}
	if _, err := Run(t.Context(), c, &learned.Parameters{Window: 20}, t.TempDir(), 1, &bytes.Buffer{}); err == nil {
		t.Error("a run began with no parameters")
	}
}

// A few steps make what is believed of links and CPUs on other flights likelier.
func TestLearns(t *testing.T) {
	if testing.Short() {
		t.Skip("flies a hundred flights")
	}
	c := small(20, 0)
	c.First.Batch, c.First.Schedule.FinalFraction = 4, 0.5
	run := offlinetest.Must(c.newTrainer(c.stages()[0], nil))(t)
	flown := slices.Clone(run.Params.Data) // the student that flies to measure stays the same
	measure := func() (sum Losses) {
		n := newNetwork(slices.Clone(run.Params.Data), make([]float32, len(flown)))
		f := source{window: c.Window, slotShare: c.SlotShare, seeds: []uint64{99_970, 99_971}, params: flown}
		for i := range 6 {
			f.fly(0, 1000+i, func(m *learned.Memory, s *slot.Snapshot, h *world.Hidden) { n.addSlot(m, s, h, Weights{}, &sum) })
		}
		return sum
	}
	before := measure()
	for range c.First.Schedule.Steps {
		offlinetest.Must(run.Next())(t)
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
		"window":   func(c *Config) { c.Window = 0 },
		"share":    func(c *Config) { c.SlotShare = 0 },
		"no seeds": func(c *Config) { c.Seeds = "" },
		"seeds":    func(c *Config) { c.Seeds = "99990:100001" },
		"steps":    func(c *Config) { c.First.Schedule.Steps, c.Refine.Schedule.Steps = 0, 0 },
		"backward": func(c *Config) { c.Refine.Schedule.Steps = -1 },
		"batch":    func(c *Config) { c.First.Batch = 1 },
	} {
		c := small(1, 1)
		offlinetest.NoError(t, c.Check())
		spoil(&c)
		if err := c.Check(); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// Training draws no world of those that what was learned is tried in.
func TestUnseenWorlds(t *testing.T) {
	for i := range 20_000 {
		c := Draw(flightRand(i))
		for name, x := range map[string]struct{ value, low, high float64 }{
			"mean wind":    {c.Wind.MeanMaxMPS, 2, 11},
			"turbulence":   {c.Wind.TurbulenceMPS, 0.6, 1.4},
			"skyline":      {c.SkylineDeg, 20, 60},
			"shadowing":    {c.ShadowingDeg, 20, 60},
			"spells":       {c.Throttling.MeanOnS, 20, 45},
			"between them": {c.Throttling.MeanOffS, 30, 60},
		} {
			if x.value != 0 && !(x.value >= x.low && x.value <= x.high) {
				t.Fatalf("flight %d: %s of %v, want %v to %v", i, name, x.value, x.low, x.high)
			}
		}
		if a := c.Physics.Channel.UrbanA; c.Sounding && a == 12.08 {
			t.Fatalf("flight %d: in a dense urban area", i)
		}
	}
	for _, name := range world.UnseenNames() {
		c := offlinetest.Must(world.Named(name))(t)
		drawn := c.Wind.TurbulenceMPS <= 1.4 && c.Wind.MeanMaxMPS <= 11 && c.SkylineDeg >= 20 && c.SkylineDeg <= 60 &&
			c.Throttling.MeanOnS >= 20 && c.Throttling.MeanOnS <= 45 && c.Physics.Channel.UrbanA == 27.23
		if drawn {
			t.Errorf("%s is within what training draws", name)
		}
	}
}
