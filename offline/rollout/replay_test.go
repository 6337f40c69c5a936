package rollout

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"prefdt/inference"
	"prefdt/inference/checkpoint"
	"prefdt/inference/duty"
	"prefdt/inference/goal"
	"prefdt/inference/record"
	"prefdt/inference/slot"
	"prefdt/offline/offlinetest"
	"prefdt/offline/ort"
	"prefdt/simbridge/world"
)

// recordFlight flies one flight and returns its record, after changes to the policy and to what the record says of it.
func recordFlight(t *testing.T, ck *checkpoint.Checkpoint, decoder inference.Decoder, c world.Config, l ReportLink, r Request,
	changes ...func(*inference.Policy, *record.Header)) []byte {
	t.Helper()
	f := offlinetest.Must(New(ck, decoder, c, l))(t)
	h := record.Header{GraphSHA256: ck.GraphSHA256, Decoder: string(decoder), Physics: c.Physics, OutOfDistribution: f.outOfDistribution}
	for _, change := range changes {
		change(f.policy.(*inference.Policy), &h)
	}
	var out bytes.Buffer
	f.newRecord = func(start goal.State) *record.Writer {
		h.Objective = start
		return record.NewWriter(&out, h)
	}
	f.Fly(parityFirstSeed, r)
	offlinetest.NoError(t, f.recorder.Close())
	return out.Bytes()
}

// A record has each plan of who is in the air, and what was planned otherwise is found.
func TestReplayPlansAgain(t *testing.T) {
	ck := shippedCheckpoint(t)
	c := world.Standard()
	c.Physics = ck.Physics
	flight := recordFlight(t, ck, inference.DecoderDispatch, c, ReportLink{}, Request{Mode: goal.Preference, Omega: 0.02})
	in := duty.Input{Slots: 40, FleetJ: math.Inf(1), FlightW: 140, Multiplier: 1, Aircraft: []duty.Aircraft{
		{Number: 1, LeftJ: 9e3, ReturnJ: 500, DescentJ: 2e3, CPUHz: ck.Physics.EdgeCPUHz},
		{Number: 2, LeftJ: math.Inf(1), CPUHz: ck.Physics.EdgeCPUHz}}}
	var out bytes.Buffer
	w := record.NewWriter(&out, record.Header{})
	w.BeginPlanner(duty.State{})
	w.WritePlan(&in, duty.New(&ck.Physics, ck.UserPrior(), ck.PriceCurve.PriceSPerJ(1)).Plan(&in))
	w.WriteDecision(&slot.Snapshot{}, goal.Objective{}, &slot.Decision{})
	offlinetest.NoError(t, w.Close())
	_, line, _ := strings.Cut(out.String(), "\n")
	plans, _, _ := strings.Cut(line, `"snapshot"`)
	planned := strings.Replace(string(flight), `{"snapshot"`, plans+`"snapshot"`, 1)
	if _, err := Replay(t.Context(), strings.NewReader(planned), ck, nil); err != nil {
		t.Error(err)
	}
	otherwise := strings.Replace(planned, "FliesUntil:", "FliesUntil:1", 1)
	if _, err := Replay(t.Context(), strings.NewReader(otherwise), ck, nil); err == nil || !strings.Contains(err.Error(), "was planned") {
		t.Errorf("a plan that differs: %v", err)
	}
}

// A recorded flight holds all that its decisions were made on.
func TestReplayDecidesAsRecorded(t *testing.T) {
	ck := shippedCheckpoint(t)
	standard := world.Standard()
	standard.Physics = ck.Physics
	larger := standard
	larger.Aircraft, larger.Shock, larger.Gust = 3, world.Shock{FromSlot: 40, Factor: 1.3}, 0.1
	lossy := ReportLink{LossRate: 0.3, Fallback: FallbackOffer}
	for _, c := range []struct {
		name    string
		decoder inference.Decoder
		world   world.Config
		link    ReportLink
		request Request
	}{
		{"preference", inference.DecoderDispatch, standard, ReportLink{}, Request{Mode: goal.Preference, Omega: 0.02}},
		{"target", inference.DecoderDispatch, standard, ReportLink{},
			Request{Mode: goal.Target, BudgetJ: 33e3, ReviseSlot: 50, RevisedBudgetJ: 31e3}},
		{"ceiling", inference.DecoderDispatch, standard, ReportLink{}, Request{Mode: goal.Ceiling, BudgetJ: 33e3, ReviseSlot: 50,
			RevisedBudgetJ: 36e3}},
		{"heads", inference.DecoderHeads, standard, ReportLink{}, Request{Mode: goal.Target, BudgetJ: 33e3}},
		{"lost reports", inference.DecoderDispatch, standard, lossy, Request{Mode: goal.Ceiling, BudgetJ: 33e3}},
		{"three in gusts, no report", inference.DecoderDispatch, larger, ReportLink{LossRate: 1, Fallback: FallbackOffer},
			Request{Mode: goal.Target, BudgetJ: 60e3}},
	} {
		t.Run(c.name, func(t *testing.T) {
			flight := recordFlight(t, ck, c.decoder, c.world, c.link, c.request)
			if slots, err := Replay(t.Context(), bytes.NewReader(flight), ck, nil); err != nil || slots != c.world.Slots {
				t.Errorf("%d of %d slots are decided as recorded: %v", slots, c.world.Slots, err)
			}
			if lines := bytes.Count(flight, []byte("\n")); lines != 1+c.world.Slots {
				t.Errorf("%d slots have %d lines, want one each and the header", c.world.Slots, lines)
			}
		})
	}
}

// What was decided otherwise, on something else or by something else is found.
func TestReplayFindsDifferences(t *testing.T) {
	ck := shippedCheckpoint(t)
	c := world.Standard()
	c.Physics = ck.Physics
	flight := string(recordFlight(t, ck, inference.DecoderDispatch, c, ReportLink{}, Request{Mode: goal.Target, BudgetJ: 33e3}))
	lines := strings.SplitAfter(flight, "\n")
	const at = 40
	edited := func(was, is string) string {
		x := strings.Replace(lines[1+at], was, is, 1)
		if x == lines[1+at] {
			t.Fatalf("slot %d has no %s: %s", at, was, x)
		}
		return strings.Join(lines[:1+at], "") + x + strings.Join(lines[2+at:], "")
	}
	for _, x := range []struct {
		name, flight string
		slots        int
		want         string
	}{
		{"another price", edited(`"price_s_per_j":0`, `"price_s_per_j":1`), at, fmt.Sprintf("slot %d was decided", at)},
		{"another settlement", edited(`"settle":{"delay_s":`, `"settle":{"delay_s":1`), at + 1,
			fmt.Sprintf("slot %d was decided for the objective", at+1)},
		// As if the objective had not observed what the decision saw.
		{"capacity never learned", edited(`"edge_demand_slots":40`, `"edge_demand_slots":0`), at,
			fmt.Sprintf("slot %d was decided for the objective", at)},
		{"an event that says nothing", edited(`"then":[`, `"then":[{},`), at + 1, "no field set"},
		{"an unknown field", edited(`{"snapshot":{`, `{"snapshot":{"wind":3,`), at, "wind"},
		{"cut off", flight[:len(flight)-100], 99, "unexpected EOF"},
		{"another checkpoint", strings.Replace(flight, ck.GraphSHA256, "1234", 1), 0, "give its folder with -checkpoint"},
		{"another version", strings.Replace(flight, `"version":1`, `"version":2`, 1), 0, "version is 2, want 1"},
	} {
		slots, err := Replay(t.Context(), strings.NewReader(x.flight), ck, nil)
		if err == nil || slots != x.slots || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%s: %d slots, %v; want %d and %q", x.name, slots, err, x.slots, x.want)
		}
	}
}

// A record says how much a report weighed.
func TestReplayWeighsAsRecorded(t *testing.T) {
	ck := shippedCheckpoint(t)
	c := world.Standard()
	c.Physics = ck.Physics
	claims := ck.Claims().Times(0.5) // less than many tasks
	for _, told := range []slot.Claims{claims, {}} {
		flight := recordFlight(t, ck, inference.DecoderDispatch, c, ReportLink{}, Request{Mode: goal.Preference, Omega: 0.5},
			func(p *inference.Policy, h *record.Header) { p.Claims, h.Claims = claims, told })
		if _, err := Replay(t.Context(), bytes.NewReader(flight), ck, nil); (err == nil) != (told == claims) {
			t.Errorf("told %+v: %v", told, err)
		}
	}
}

// What -inputs writes has a line for each slot, and ONNX Runtime, called from Python, makes of it
// what the network made in flight.
func TestStepsInPython(t *testing.T) {
	const folder = "../../configs/checkpoint"
	ck := offlinetest.Must(checkpoint.Load(folder))(t)
	c := world.Standard()
	c.Physics = ck.Physics
	flight := recordFlight(t, ck, inference.DecoderDispatch, c, ReportLink{LossRate: 0.3, Fallback: FallbackOffer},
		Request{Mode: goal.Target, BudgetJ: 33e3})
	var steps bytes.Buffer
	offlinetest.Must(Replay(t.Context(), bytes.NewReader(flight), ck, stepWriter(&steps, ck)))(t)
	if lines := bytes.Count(steps.Bytes(), []byte("\n")); lines != c.Slots {
		t.Fatalf("%d lines for %d slots", lines, c.Slots)
	}
	if ort.Folder() == "" {
		t.Skip("PREFDT_ORT names no folder with onnxruntime-node")
	}
	path := filepath.Join(t.TempDir(), "steps.jsonl")
	offlinetest.NoError(t, os.WriteFile(path, steps.Bytes(), 0o600))
	out, err := exec.Command("python3", "../python/step.py", folder, path).CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), fmt.Sprintf("%d slots, largest difference ", c.Slots)) {
		t.Errorf("%v: %s", err, out)
	}
}
