package seeds

import "testing"

func TestEachSeedHasAtMostOneUse(t *testing.T) {
	for _, c := range []struct {
		seed                              uint64
		training, calibration, evaluation bool
	}{
		{0, true, false, false}, {99_999, true, false, false},
		{100_000, false, true, false}, {109_999, false, true, false},
		{110_000, false, false, false}, {999_999, false, false, false},
		{1_000_000, false, false, true}, {1 << 63, false, false, true},
	} {
		if (CheckTraining(c.seed) == nil) != c.training || (CheckCalibration(c.seed) == nil) != c.calibration ||
			(CheckEvaluation(c.seed) == nil) != c.evaluation {
			t.Errorf("seed %d: training %v, calibration %v, evaluation %v", c.seed, CheckTraining(c.seed), CheckCalibration(c.seed),
				CheckEvaluation(c.seed))
		}
	}
}
