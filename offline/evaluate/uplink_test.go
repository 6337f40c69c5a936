package evaluate

import (
	"encoding/json"
	"io"
	"strings"
	"testing"

	"prefdt/inference"
	"prefdt/offline/offlinetest"
	"prefdt/offline/pareto"
	"prefdt/offline/rollout"
	"prefdt/simbridge/world"
)

// What a link leaves is measured at both reference points; at the tight one, close to
// the front, a loss weighs more.
func TestUplinkAtBothReferences(t *testing.T) {
	defer func(all []rollout.ReportLink) { links = all }(links)
	links = []rollout.ReportLink{{LossRate: 0.4}}
	ck := offlinetest.Shipped(t)
	c := Config{World: world.Standard(), Seeds: []uint64{1_000_000, 1_000_001}, Settings: 5, TeacherPrices: 3,
		Decoder: inference.DecoderDispatch, Workers: 2, Progress: io.Discard}
	rows, err := measureUplink(t.Context(), ck, c)
	if err != nil || len(rows) != 1 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	u := rows[0]
	for name, x := range map[string][2]float64{
		"local": {u.Local, u.LocalTight}, "last report": {u.LastReport, u.LastReportTight},
		"speculative": {u.Speculative, u.SpeculativeTight},
		"offer":       {u.Offer, u.OfferTight}, "teacher": {u.OfferTeacher, u.OfferTeacherTight},
	} {
		if wide, tight := x[0], x[1]; !(tight > 0 && tight < wide && wide < 1) {
			t.Errorf("%s: %v retained, tight %v", name, wide, tight)
		}
	}
	// The tight figure, from the flights themselves.
	requests := rollout.PreferenceRequests(rollout.CalibratedOmegas(&ck.GoalConstants.SettingMap, c.Settings))
	fly := func(l rollout.ReportLink) [][]pareto.Point {
		x := offlinetest.Must(rollout.Sweep(t.Context(), ck, c.Decoder, c.World, l, c.Seeds, requests, 2, nil))(t)
		return rollout.Outcomes(x)
	}
	lossy, perfect := fly(rollout.ReportLink{LossRate: 0.4}), fly(rollout.ReportLink{})
	want := 0.0
	for s := range c.Seeds {
		want += pareto.Hypervolume(pareto.SeedPoints(lossy, s), pareto.TightReference) / pareto.Hypervolume(pareto.SeedPoints(perfect, s),
			pareto.TightReference) / 2
	}
	if u.LocalTight != want {
		t.Errorf("local: tight %v, want %v", u.LocalTight, want)
	}
	r := Report{Uplink: rows}
	raw := offlinetest.Must(json.Marshal(r))(t)
	for _, name := range []string{"offer", "offer_tight", "local_tight", "last_report_tight", "speculative_tight", "offer_teacher_tight"} {
		if !strings.Contains(string(raw), `"`+name+`":0.`) {
			t.Errorf("no %s in %s", name, raw)
		}
	}
}
