package compare

import (
	"bytes"
	"image/png"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"prefdt/configs/cli"
	"prefdt/inference"
	"prefdt/inference/belief"
	"prefdt/inference/goal"
	"prefdt/inference/slot"
	"prefdt/offline/baseline"
	"prefdt/offline/belieftrain"
	"prefdt/offline/command"
	"prefdt/offline/offlinetest"
	"prefdt/offline/rollout"
	"prefdt/simbridge/report"
	"prefdt/simbridge/world"
	"prefdt/telemetry"
)

// logging is an estimator that logs what it is shown and believes.
type logging struct {
	belief.Estimator
	followed func(slot, user int) bool
	slots    []Slot
}

func (x *logging) Estimate(s *slot.Snapshot, b *belief.Belief) {
	x.Estimator.Estimate(s, b)
	l := &x.slots[s.Slot]
	l.Decided, l.Snapshot = true, *s
	l.Snapshot.Aircraft, l.Snapshot.Users = slices.Clone(s.Aircraft), slices.Clone(s.Users)
	for _, u := range slices.Concat(s.Users, s.IdleUsers) {
		l.Users = append(l.Users, u.ID)
		if x.followed(s.Slot, u.ID) {
			l.Followed = append(l.Followed, u.ID)
		}
	}
	mean := b.Air.MeanMPS()
	l.Believed.WindMPS, l.Believed.PowerMultiplier = &[2]float64{mean.EastM, mean.NorthM}, b.Air.Multiplier
	for i := range b.Users {
		l.Snapshot.Users[i].Gain = slices.Clone(l.Snapshot.Users[i].Gain)
		l.Believed.Gain = append(l.Believed.Gain, slices.Clone(b.Users[i].Gain))
	}
}

// flownRollout is a rollout, with lost reports and missed slots, as though it had been
// flown.
func flownRollout(t *testing.T) *Flight {
	t.Helper()
	c := offlinetest.FieldWorld(t, "field")
	c.Slots = 40
	f, frozen := newFlight(nil), offlinetest.Shipped(t)
	f.World, f.Request = c, rollout.Request{Mode: goal.Preference, Omega: 0.2}
	l := rollout.ReportLink{Fallback: rollout.FallbackOffer, Missed: func(n int) bool { return n == 20 || n == 21 }}
	l.Received = func(n, user int) bool { return (n+user)%7 > 0 }
	l.Followed = func(n, user int) bool { return (n+2*user)%5 > 0 }
	l.Measured = func(n, number int) bool { return n > 24 || n < 20 }
	r := offlinetest.Must(rollout.New(frozen, inference.DecoderDispatch, c, l))(t)
	r.Believe(&logging{frozen.NewEstimator(belieftrain.SurroundingsOf(&f.World)), l.Followed, f.Slots})
	flyAs(f, r, f.Request)
	for n := range f.Slots {
		f.Slots[n].Missed = l.Missed(n)
	}
	return f
}

// A rollout that is set beside its rollout is equal to it, by its log alone, and takes
// less delay than one without memory; the pictures are drawn.
func TestCompare(t *testing.T) {
	f := flownRollout(t)
	c := offlinetest.Must(Compare(f))(t)
	if c.MissedSlots != 2 || math.Abs(c.DelayError) > 1e-12 || math.Abs(c.EnergyError) > 1e-12 {
		t.Errorf("%+v", c)
	}
	if !(c.Memoryless.DelayS > c.Flight.DelayS) {
		t.Errorf("without memory the delay is %v s, with it %v s", c.Memoryless.DelayS, c.Flight.DelayS)
	}
	for _, believes := range []bool{true, false} {
		folder, want := t.TempDir(), []string{"memory.png"}
		if believes {
			want = []string{"links.png", "memory.png", "wind.png"}
		}
		for n := range f.Slots {
			if !believes {
				f.Slots[n].Believed = believed{}
			}
		}
		names := offlinetest.Must(draw(folder, f, &c))(t)
		found, _ := filepath.Glob(filepath.Join(folder, "*.png"))
		for i := range found {
			file := offlinetest.Must(os.Open(found[i]))(t)
			if image, err := png.Decode(file); err != nil || image.Bounds().Dx() < 500 {
				t.Errorf("%s: %v", found[i], err)
			}
			file.Close()
			found[i] = filepath.Base(found[i])
		}
		if slices.Sort(names); !slices.Equal(found, want) || !slices.Equal(names, want) {
			t.Errorf("drawn: %q, named %q, want %q", found, names, want)
		}
	}
}

// What a person reads of a flight in a field world: what became of the budget, each rollout in plain words, and the
// pictures that were drawn.
func TestComparisonText(t *testing.T) {
	c := Comparison{Slots: 100, Flight: Cost{DelayS: 438.6, EnergyJ: 32979}, Rollout: Cost{DelayS: 433.0, EnergyJ: 32894},
		Memoryless: Cost{DelayS: 528.4, EnergyJ: 32980}, folder: "out/field", drawn: []string{windPicture, memoryPicture}}
	for name, x := range map[string]struct {
		budget *report.Energy
		want   string
	}{
		"a preference": {nil, "the same energy\npictures   out/field/wind.png, the wind as the leader believed and as it was; " +
			"memory.png, energy"},
		"kept": {&report.Energy{RevisedJ: 33000, Error: -0.0006},
			"\nkept 33.0 kJ in slots (-0.06 %); without memory: 528 s of delay, you: 439 s\npictures"},
		"passed": {&report.Energy{RevisedJ: 33000, Error: 0.012, Landed: true}, "\npassed 33.0 kJ to touchdown (+1.20 %); without memory"},
	} {
		c.budget = x.budget
		var out strings.Builder
		if err := command.PrintText(&out, text, &c); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{x.want,
			"computed without a leader: the flight took 1.3 % more delay, 0.3 % more energy\n",
			"by the reports of each slot alone: the flight took 17.0 % less delay, the same energy\n"} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%s: no %q in\n%s", name, want, out.String())
			}
		}
	}
}

// The even pacer beside a flight that was the even pacer's own, with lost reports and a missed
// slot, costs the same.
func TestCompareEven(t *testing.T) {
	f := newFlight([]report.Budget{{EnergyJ: 18000}, {Slot: 10, EnergyJ: 16500}})
	f.World.Shock = world.Shock{FromSlot: 20, Factor: 1.5}
	offlinetest.NoError(t, f.readBudgets())
	f.Slots[7].Missed = true
	frozen := offlinetest.Shipped(t)
	l := rollout.ReportLink{Fallback: rollout.FallbackOffer, Prior: frozen.UserPrior(), Missed: func(n int) bool { return n == 7 }}
	l.Received = func(n, user int) bool { return !world.ReportIsLost(3, n, user, 0.2) }
	r := offlinetest.Must(rollout.NewWithPolicy(baseline.NewEven(&f.World.Physics), &frozen.GoalConstants, f.World, l))(t)
	flyAs(f, r, rollout.Request{Mode: goal.Target, BudgetJ: 18000, ReviseSlot: 10, RevisedBudgetJ: 16500})
	got := offlinetest.Must(CompareEven(f))(t)
	if got.BudgetJ != 16500 || math.Abs(got.Even.DelayS-got.Flight.DelayS) > 1e-9 || math.Abs(got.Even.EnergyJ-got.Flight.EnergyJ) > 1e-6 {
		t.Errorf("%+v", got)
	}
	got.Error = 0.01
	if text := got.String(); !strings.HasPrefix(text, "passed 16.5 kJ in slots (+1.00 %); an even spender: ") {
		t.Error(text)
	}
}

// A budget to touchdown leaves the even pacer what the flight's own climb and ways home left, and its joules are told
// in its scope.
func TestCompareEvenLanded(t *testing.T) {
	f := newFlight([]report.Budget{{EnergyJ: 40e3, Landed: true}})
	if err := f.readBudgets(); err != nil || f.Request.BudgetJ != 20e3 {
		t.Fatalf("%+v, %v", f.Request, err)
	}
	for i := range f.Slots {
		f.Slots[i].EnergyJ = 500
	}
	c, err := CompareEven(f)
	if err != nil || c.Scope != "landed" || math.Abs(c.Error-0) > 1e-12 || !(c.Even.EnergyJ <= 1.0005*20e3) {
		t.Errorf("%+v, %v", c, err)
	}
	if text := c.String(); !strings.HasPrefix(text, "kept 40.0 kJ to touchdown (+0.00 %); an even spender: ") {
		t.Error(text)
	}
	f.Summary.Budgets = []report.Budget{{EnergyJ: 19e3, Landed: true}}
	if err := f.readBudgets(); err == nil || !strings.Contains(err.Error(), "took all of the budget") {
		t.Errorf("%v", err)
	}
}

// newFlight is a flight of two aircraft with 8 and 12 kJ of climb and way home, of 40 slots, before it is flown.
func newFlight(budgets []report.Budget) *Flight {
	c := world.Standard()
	c.Slots = 40
	return &Flight{World: c, Slots: make([]Slot, c.Slots),
		Leader: LeaderFiles{Checkpoint: "../../configs/checkpoint", Decoder: string(inference.DecoderDispatch)},
		Summary: report.Summary{Seed: 3, ReportLoss: 0.2, Budgets: budgets, Aircraft: []report.AircraftSummary{
			{Number: 1, PackJ: 20e3, KeptJ: 4e3, LeftJ: 4.1e3, TransitJ: 8e3},
			{Number: 2, PackJ: 30e3, KeptJ: 6e3, LeftJ: 6.2e3, TransitJ: 12e3},
		}}}
}

// flyAs has the flight cost what a rollout does.
func flyAs(f *Flight, r *rollout.Runner, request rollout.Request) {
	r.OnSettled = func(n int, delayS, energyJ float64) { f.Slots[n].DelayS, f.Slots[n].EnergyJ = delayS, energyJ }
	r.Fly(f.Summary.Seed, request)
}

// Beside a flight of packs each aircraft stays in the air until its own is used, and no longer: no pack gives more.
func TestCompareAloft(t *testing.T) {
	packs := []telemetry.Pack{{Aircraft: 1, Reserve: new(0.2)}, {Aircraft: 2, Reserve: new(0.2)}}
	for name, c := range map[string]struct {
		budget      report.Budget
		change      func(f *Flight)
		packsJ      [2]float64 // in slots
		least, most int        // slots with aircraft
		want, also  string
	}{
		"they last": {report.Budget{OfPacks: true, EnergyJ: 40e3, Landed: true, Packs: packs}, func(*Flight) {}, [2]float64{8e3, 12e3},
			40, 40, "kept the packs' reserves (aircraft 1 landed with 4.1 kJ, its reserve is 4 kJ; aircraft 2 landed with 6.2 kJ, its " +
				"reserve is 6 kJ); each in the air until its pack is used: ",
			"40 of 40 slots served, you: 80 s and 0.0 kJ"},
		"neither does": {report.Budget{OfPacks: true, EnergyJ: 40e3, Landed: true, Packs: packs},
			func(f *Flight) { f.Summary.Aircraft[0].TransitJ, f.Summary.Aircraft[1].TransitJ = 13e3, 20.5e3 }, [2]float64{3e3, 3.5e3}, 18,
			26, "", " of 40 slots served"},
		"the weakest does not": {report.Budget{OfPacks: true, EnergyJ: 40e3, Landed: true, Packs: packs},
			func(f *Flight) { f.Summary.Aircraft[0].TransitJ = 13e3 }, [2]float64{3e3, 12e3}, 40, 40, "", " of 40 slots served"},
		"in slots, usable": {report.Budget{OfPacks: true, EnergyJ: 40e3, Packs: []telemetry.Pack{
			{Aircraft: 1, UsableJ: new(11e3), ReserveJ: new(4e3)}, {Aircraft: 2, Reserve: new(0.2)}}},
			func(*Flight) {}, [2]float64{7e3, 12e3}, 40, 40, "", ""},
		"passed": {report.Budget{OfPacks: true, EnergyJ: 40e3, Landed: true, Packs: packs},
			func(f *Flight) { f.Summary.Aircraft[1].LeftJ = 5e3 }, [2]float64{8e3, 12e3}, 40, 40, "passed the packs' reserves", ""},
	} {
		f := newFlight([]report.Budget{c.budget})
		c.change(f)
		for i := range f.Slots {
			f.Slots[i].DelayS = 2
		}
		if err := f.readBudgets(); err != nil || !slices.Equal(f.Request.Packs.EnergyJ, c.packsJ[:]) ||
			f.Request.BudgetJ != c.packsJ[0]+c.packsJ[1] {
			t.Fatalf("%s: %+v, %v", name, f.Request, err)
		}
		got, err := CompareAloft(f)
		if err != nil || got.AloftSlots < c.least || got.AloftSlots > c.most || !(got.Aloft.EnergyJ <= c.packsJ[0]+c.packsJ[1]+200) ||
			!(got.Aloft.DelayS > 10) || got.Flight.DelayS != 80 || len(got.Aloft.bySlot) != 40 {
			t.Errorf("%s: %d slots, %v J, %v s, %v", name, got.AloftSlots, got.Aloft.EnergyJ, got.Aloft.DelayS, err)
		}
		if text := got.String(); !strings.HasPrefix(text, c.want) || !strings.Contains(text, c.also) {
			t.Errorf("%s: %s", name, text)
		}
		if got.AloftSlots < 40 && got.Aloft.bySlot[39].EnergyJ != 0 {
			t.Errorf("%s: the last slot took %v J", name, got.Aloft.bySlot[39].EnergyJ)
		}
	}
	for name, change := range map[string]func(f *Flight){
		"an aircraft without a pack": func(f *Flight) { f.Summary.Budgets[0].Packs = packs[:1] },
		"a pack that is not known":   func(f *Flight) { f.Summary.Aircraft[1].PackJ = 0 },
		"nothing left for slots":     func(f *Flight) { f.Summary.Aircraft[1].TransitJ = 25e3 },
		"revised": func(f *Flight) {
			f.Summary.Budgets = append(f.Summary.Budgets, report.Budget{Slot: 3, EnergyJ: 9e3})
		},
	} {
		f := newFlight([]report.Budget{{OfPacks: true, EnergyJ: 40e3, Landed: true, Packs: packs}})
		change(f)
		if err := f.readBudgets(); err == nil || !strings.Contains(err.Error(), "nothing to compare") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A rollout whose workers had another CPU and another function is equal to its rollout, and one
// that knows neither is an error.
func TestCompareExecuted(t *testing.T) {
	x := report.Executed{Tasks: 100, CyclesPerBit: 400, EdgeCPUHz: 5e9}
	f := newFlight(nil)
	f.Summary.Executed, f.Request, f.Slots[7].Missed = &x, rollout.Request{Mode: goal.Preference, Omega: 0.2}, true
	w := f.World
	w.CyclesPerBit, w.Physics.EdgeCPUHz = x.CyclesPerBit, x.EdgeCPUHz
	r, err := rollout.New(offlinetest.Shipped(t), inference.DecoderDispatch, w,
		rollout.ReportLink{Fallback: rollout.FallbackOffer, Missed: func(n int) bool { return n == 7 }})
	if err != nil {
		t.Fatal(err)
	}
	flyAs(f, r, f.Request)
	for _, s := range f.Slots {
		x.MeasuredDelayS += s.DelayS
	}
	got := offlinetest.Must(CompareExecuted(f))(t)
	if got.MissedSlots != 1 || got.Flight.DelayS == 0 || math.Abs(got.DelayError) > 1e-12 || math.Abs(got.EnergyError) > 1e-12 {
		t.Errorf("%+v", got)
	}
	if text := got.String(); !strings.HasSuffix(text, "the flight took the same delay, the same energy") {
		t.Error(text)
	}
	x.EdgeCPUHz = 0
	if _, err := CompareExecuted(f); err == nil || !strings.Contains(err.Error(), "edge_cpu_hz is 0") {
		t.Errorf("%v", err)
	}
}

// What is no flight in a field is one clear line.
func TestReadFlightRefuses(t *testing.T) {
	const flown = `{"seed":1,"world":{"aircraft":1,"users":3,"slots":2,"sounding":true}}`
	const table = "slot,missed,delay_s,flight_j_1,edge_j_1\n0,0,1,130,5\n1,1,1,130,5\n"
	for _, c := range []struct{ summary, log, table, want string }{
		{"", "", "", "summary.json"},
		{`{"seed":1}`, "[]", table, "names no world"},
		{`{"seed":1,"world":{"aircraft":1,"users":3,"slots":2}}`, "", table, "want a budget from slot 0 on"},
		{`{"seed":1,"world":{"aircraft":1,"users":3,"slots":9},"budgets":[{"slot":0,"energy_j":9000}]}`, "", table, "ended after 2 of 9"},
		{flown, "", table, "leader.json"},
		{flown, `[{"rows":[]}]`, table, "logs no slot"},
		{flown, `[{"rows":[{"slot":0,"seen":{"names":["u1"]}}]}]`, table, "1 names for 0 users"},
		{flown, `[{"rows":[{"slot":0,"seen":{"snapshot":{"users":[{"id":0}]},"names":["u9"]}}]}]`, table, `user "u9"`},
		{flown, `[{"rows":[{"slot":0}]}]`, "slot,delay_s\n0,x\n", "line 2: delay_s"},
		{flown, `[{"rows":[{"slot":0}]}]`, "slot,delay_s\n0,1\n", "which slots were missed"},
		{flown, `[{"rows":[{"slot":0}]}]`, table, ""},
	} {
		folder := t.TempDir()
		const tasks = "slot,user,by_decision,delay_s\n0,1,1,0.5\n9,1,1,0.5\n"
		for name, text := range map[string]string{"tasks.csv": tasks, "summary.json": c.summary, "leader.json": c.log, "slots.csv": c.table,
			"leader.yaml": "checkpoint: x\n"} {
			if text != "" {
				offlinetest.Write(t, text, folder, name)
			}
		}
		f, err := ReadFlight(folder)
		if c.want == "" && (err != nil || len(f.Slots) != 2 ||
			f.Slots[0].Missed || !f.Slots[1].Missed) || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) ||
			strings.Contains(err.Error(), "\n")) {
			t.Errorf("%s, %s: %v, want %q", c.summary, c.log, err, c.want)
		}
	}
}

// A flight whose leader named no checkpoint, as that of practice, had the shipped one, and as many slots as the leader
// flew; where a checkpoint is not, the error says where to run this.
func TestCheckpointOfTheFlight(t *testing.T) {
	folder := t.TempDir()
	for name, text := range map[string]string{
		"summary.json": `{"seed":1,"planned_slots":2,"world":{"aircraft":1,"users":3,"slots":1},"budgets":[{"slot":0,"energy_j":9000}]}`,
		"slots.csv":    "slot,missed,delay_s,flight_j_1,edge_j_1\n0,0,1,130,5\n1,1,1,130,5\n",
		"leader.yaml":  "fleet: demo\nslots: 2\n",
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir("../..")
	f, err := ReadFlight(folder)
	if err != nil {
		t.Fatal(err)
	}
	r, err := f.evenRunner()
	if err != nil {
		t.Fatalf("the shipped checkpoint: %v", err)
	}
	flown := 0
	r.OnSettled = func(int, float64, float64) { flown++ }
	if r.Fly(f.Summary.Seed, f.Request); flown != 2 {
		t.Errorf("%d slots beside a flight of 2", flown)
	}
	t.Chdir(folder)
	const want = "had its checkpoint in configs/checkpoint, which is not here"
	if _, err := CompareEven(f); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("elsewhere: %v", err)
	}
}

// A flight that the machine disturbed is set beside nothing, and the picture of an earlier flight does not stay.
func TestDisturbedIsNotCompared(t *testing.T) {
	folder := t.TempDir()
	for name, text := range map[string]string{
		"summary.json": `{"seed":1,"speed":10,"slots":2,"planned_slots":2,"decisions":9,"latency":{"late_decisions":1},` +
			`"world":{"aircraft":1,"users":3,"slots":2},"budgets":[{"slot":0,"energy_j":9000}]}`,
		"slots.csv":   "slot,missed,delay_s,flight_j_1,edge_j_1\n0,0,1,130,5\n1,0,1,130,5\n",
		"leader.yaml": "fleet: demo\n",
		evenPicture:   "of an earlier flight",
	} {
		offlinetest.Write(t, text, folder, name)
	}
	for _, c := range []struct{ flag, want string }{
		{"-json=false", "not compared: this machine was too busy for speed 10 (1 of 9 decisions late)"},
		{"-json", `"disturbed": "1 of 9 decisions late"`},
	} {
		var out bytes.Buffer
		offlinetest.NoError(t, Command(t.Context(), cli.NewCall("offline compare", []string{"-flight", folder, c.flag}, &out, io.Discard)))
		if !strings.Contains(out.String(), c.want) {
			t.Errorf("%s: %s", c.flag, out.String())
		}
		if _, err := os.Stat(filepath.Join(folder, evenPicture)); err == nil {
			t.Error("the picture is still there")
		}
	}
}
