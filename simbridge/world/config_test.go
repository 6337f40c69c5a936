package world

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"prefdt/configs"
	"prefdt/inference/physics"
	"prefdt/simbridge/world/trace"
)

// The commented file is the standard world's documentation: it says the same,
// and it has every key.
func TestConfigurationFile(t *testing.T) {
	var c Config
	if err := configs.Load("../../configs/world.yaml", &c); err != nil {
		t.Fatal(err)
	}
	if list := c.Differences(Standard()); len(list) > 0 {
		t.Errorf("configs/world.yaml differs from the standard world: %s", strings.Join(list, "; "))
	}
	raw, err := os.ReadFile("../../configs/world.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for key := range flatten(c) {
		if name := key[strings.LastIndexByte(key, '.')+1:]; !strings.Contains(string(raw), name+":") {
			t.Errorf("configs/world.yaml lacks %s", key)
		}
	}
}

func TestDifferences(t *testing.T) {
	a, b := Standard(), Standard()
	if list := a.Differences(b); len(list) > 0 || !a.SameConstants(b) {
		t.Errorf("equal worlds differ in %q", list)
	}
	b.Physics.Propulsion.BladeW, b.Users = 40, 12
	if list := a.Differences(b); len(list) != 2 || list[0] != "physics.propulsion.blade_w 79.9, here 40" ||
		list[1] != "users 10, here 12" || a.SameConstants(b) {
		t.Errorf("differences %q", list)
	}
	b = Standard()
	if b.PathLossExponent = 2; len(a.Differences(b)) > 0 {
		t.Errorf("free space, left out or said: %q", a.Differences(b))
	}
	b.PathLossExponent = 2.3
	if list := a.Differences(b); len(list) != 1 || list[0] != "path_loss_exponent 2, here 2.3" {
		t.Errorf("another exponent: %q", list)
	}
	b = Standard() // of one mission
	b.Shock, b.Gust, b.DenseStart, b.Slots, b.Aircraft = Shock{3, 1.5}, 0.1, true, 7, 5
	b.EdgeFactor, b.Demand, b.SecondShock = 1.3, Shock{50, 3}, Shock{70, 2}
	b.Wind, b.Payload = Wind{MeanMaxMPS: 9}, Payload{FactorMin: 1, FactorMax: 1.2}
	b.AircraftLosses, b.Trace = []AircraftLoss{{0, 3}}, writeTrace(t, "0,a,1,1,1e6,1000,1\n")
	if !a.SameConstants(b) {
		t.Error("what happens in a mission counts as another world")
	}
	b.Users, b.BitsMax = 3, 2e6 // which the trace stands in place of
	if !a.SameConstants(b) || len(a.ConstantDifferences(b)) > 0 {
		t.Errorf("with a trace, what would be drawn counts: %q", a.ConstantDifferences(b))
	}
	b.UserCPUHz = 2e9
	if list := a.ConstantDifferences(b); len(list) != 1 || a.SameConstants(b) {
		t.Errorf("the users' CPU differs, named are %q", list)
	}
	b.Users, b.BitsMax, b.UserCPUHz = a.Users, a.BitsMax, a.UserCPUHz
	if list := a.Differences(b); len(list) != 16 {
		t.Errorf("sixteen keys differ, named are %q", list)
	}
}

// A world goes by its name, over what is there already, or by its file.
func TestLoad(t *testing.T) {
	c := Standard()
	c.Aircraft, c.Shock = 3, Shock{FromSlot: 5, Factor: 1.5}
	if err := c.Load("phones"); err != nil {
		t.Fatal(err)
	}
	if c.Throttling.Factor != 0.45 || !c.Physics.Contention || c.Aircraft != 3 || c.Shock.FromSlot != 5 {
		t.Errorf("loaded %+v", c)
	}
	path := filepath.Join(t.TempDir(), "world.yaml")
	if err := os.WriteFile(path, []byte("skyline_deg: 20\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := c.Load(path); err != nil || c.SkylineDeg != 20 || c.Throttling.Factor != 0.45 {
		t.Errorf("loaded %+v, %v", c, err)
	}
	if err := c.Load("fone"); err == nil || strings.ContainsAny(err.Error(), "\n") ||
		!strings.Contains(err.Error(), "want one of standard, gusts") {
		t.Errorf("an unknown name: %v", err)
	}
}

// A checkpoint's record of its world is nothing for the standard one, gives the
// users and tasks back for another, and refuses what it cannot hold.
func TestRecord(t *testing.T) {
	c := Standard()
	if raw := c.Record(); raw != nil {
		t.Errorf("the standard world is recorded as %s", raw)
	}
	c.Physics.AltitudeM, c.Gust, c.Slots, c.Trace = 80, 0.1, 50, writeTrace(t, "0,a,1,1,1e6,1000,1\n")
	if raw := c.Record(); raw != nil {
		t.Errorf("what a manifest holds elsewhere, or not at all, is recorded: %s", raw)
	}
	c.Users, c.UserCPUHz = 12, 2e9
	again, err := FromRecord(c.Record())
	if err != nil {
		t.Fatal(err)
	}
	if want := Standard(); again.Users != 12 || again.UserCPUHz != 2e9 || again.Physics != want.Physics || again.Gust != 0 ||
		again.Slots != 100 || again.Trace != nil {
		t.Errorf("recorded %s, read %+v", c.Record(), again)
	}
	for _, raw := range []string{`{"user":1}`, `{"physics":{}}`, `{"trace":{"file":"x","sha256":""}}`, `{"users":-1}`, `[]`, `{"users":`} {
		if _, err := FromRecord([]byte(raw)); err == nil {
			t.Errorf("%s was taken for a world", raw)
		}
	}
}

func TestScales(t *testing.T) {
	c := Standard()
	if s := c.PriceScale(); s != 1 {
		t.Errorf("the standard world's prices are scaled by %v, want exactly 1", s)
	}
	if s := c.EnergyScale(); s != 1 {
		t.Errorf("the standard world's scale is %v, want exactly 1", s)
	}
	c.Aircraft, c.Slots = 3, 50
	c.Physics.EdgeCPUHz /= 2 // a cycle costs a quarter
	if s := c.PriceScale(); s != 4 {
		t.Errorf("computers of half the speed: prices are scaled by %v, want 4", s)
	}
	if s := c.EnergyScale(); s != 0.75 {
		t.Errorf("one and a half times the fleet for half as long: %v, want 0.75", s)
	}
}

// writeTrace reads a trace of those rows.
func writeTrace(t *testing.T, rows string) *trace.Trace {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tasks.csv")
	if err := os.WriteFile(path, []byte("time_s,user,east_m,north_m,bits,cycles_per_bit,deadline_s\n"+rows), 0o644); err != nil {
		t.Fatal(err)
	}
	var c Config
	if err := configs.Decode([]byte("trace: "+path+"\n"), &c); err != nil {
		t.Fatal(err)
	}
	return c.Trace
}

// Under a trace an episode has its users, where they are, and its tasks; the
// seed draws the channel alone.
func TestTraceReplays(t *testing.T) {
	c := Standard()
	c.Slots = 4
	c.Trace = writeTrace(t, "0,b,100,100,1e6,1000,1\n0,a,300,300,5e5,800,0.7\n1,a,310,300,0,0,0\n2,a,320,300,6e5,800,0.8\n")
	if err := c.Check(); err != nil {
		t.Fatal(err)
	}
	var gains [2]float64
	for seed := range uint64(2) {
		w := New(c, seed)
		for !w.Done() {
			var got []string
			for _, a := range w.Arrivals {
				got = append(got, fmt.Sprint(a.User, a.Task))
				gains[seed] += a.Gain[0]
			}
			want := [][]string{{"0 {1e+06 1000 1}", "1 {500000 800 0.7}"}, nil, {"1 {600000 800 0.8}"}, nil}[w.Slot]
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("slot %d has %v, want %v", w.Slot, got, want)
			}
			if at := (physics.Position{EastM: []float64{300, 310, 320, 320}[w.Slot], NorthM: 300}); len(w.Users) != 2 || w.Users[1] != at {
				t.Errorf("slot %d: users at %v, want a at %v", w.Slot, w.Users, at)
			}
			w.Step(localAction(w, 8))
		}
	}
	if gains[0] == gains[1] {
		t.Error("two seeds drew the same channel")
	}
	if active := NewScenario(&c, 0).Active(1, nil); len(active) != 1 || active[0].User != 1 || active[0].Task.Bits != 0 {
		t.Errorf("active in slot 1: %+v, want user 1 without a task", active)
	}
	c.Physics.AreaSideM = 305
	if err := c.Check(); err == nil || !strings.Contains(err.Error(), "want 0 to 305, the side of the area") {
		t.Errorf("a user outside: %v", err)
	}
}

// FuzzConfig reads any text as a world: a mistake is one line, and in a world
// that passes the first slot can be flown.
func FuzzConfig(f *testing.F) {
	for _, text := range []string{"", "task_probability: .nan\n", "shock: {from_slot: 1, factor: .inf}\n", "physics: {kappa: .inf}\n",
		"gust: .nan\nusers: 1e9\n", "wind: {mean_max_mps: 9}\nskyline_deg: 20\nwalking: {speed_sd_mps: 2}\ngroups: {count: 3, " +
			"change_probability: 1}\nthrottling: {factor: 0.5, mean_on_s: 2, mean_off_s: 1}\n",
		"physics: {propulsion: {blade_w: 20}}\nlosses: [{aircraft: 1, slot: 2}]\n", "trace: /\n"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		c := Standard()
		err := configs.Decode(raw, &c)
		if err == nil {
			err = c.Check()
		}
		if err != nil {
			if strings.ContainsAny(err.Error(), "\n\r") {
				t.Fatalf("%q is more than a line", err)
			}
			return
		}
		w := New(c, 1)
		w.Step(localAction(w, 1))
	})
}
