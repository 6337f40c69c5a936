package evaluate

import (
	"context"
	"encoding/json"
	"flag"
	"io"
	"math"
	"os"
	"path/filepath"
	"testing"

	"prefdt/inference"
	"prefdt/inference/kernel"
	"prefdt/offline/offlinetest"
	"prefdt/simbridge/world"
)

var updateRecorded = flag.Bool("record", false, "write the recorded evaluation anew, after a new checkpoint")

// recordedEvaluation is an evaluation as it was when the checkpoint was shipped.
type recordedEvaluation struct {
	Kernel string `json:"kernel"` // sums follow its order of operations
	Report Report `json:"report"`
}

// The shipped checkpoint, reloaded, gives the evaluation recorded with it:
// exactly on the kernels it was recorded with, closely on others.
func TestRecordedEvaluation(t *testing.T) {
	path := filepath.Join("testdata", "recorded.json")
	ck := offlinetest.Shipped(t)
	name := offlinetest.Must(kernel.Selected())(t)
	c := Config{World: world.Standard(), Seeds: []uint64{1_000_000, 1_000_001}, Settings: 6,
		TeacherPrices: 7, Decoder: inference.DecoderDispatch, Workers: 2, Progress: io.Discard}
	report := offlinetest.Must(measureFront(context.Background(), ck, c))(t)
	got := recordedEvaluation{name, report}
	if *updateRecorded {
		raw, err := json.MarshalIndent(got, "", "  ")
		if err == nil {
			err = os.WriteFile(path, append(raw, '\n'), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	raw := offlinetest.Must(os.ReadFile(path))(t)
	var want recordedEvaluation
	offlinetest.NoError(t, json.Unmarshal(raw, &want))
	a, _ := json.Marshal(got.Report)
	b, _ := json.Marshal(want.Report)
	if want.Kernel == got.Kernel && string(a) != string(b) {
		t.Errorf("on %s the evaluation is\n%s\nrecorded was\n%s\n(go test ./offline/evaluate -run Recorded -record, if the checkpoint "+
			"is new)", name, a, b)
	}
	for what, pair := range map[string][2]float64{
		"hypervolume": {got.Report.Hypervolume.Mean, want.Report.Hypervolume.Mean},
		"fidelity":    {got.Report.Fidelity, want.Report.Fidelity},
		"reach":       {got.Report.ReachS, want.Report.ReachS},
	} {
		if math.Abs(pair[0]/pair[1]-1) > 1e-3 {
			t.Errorf("%s is %v, recorded %v", what, pair[0], pair[1])
		}
	}
}
