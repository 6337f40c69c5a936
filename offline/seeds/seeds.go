// Package seeds keeps the episodes of training, of calibration and of evaluation
// apart. Inputs: seeds. Outputs: an error for one outside its range. Every search,
// training, calibration and evaluation checks its seeds here before it flies the
// first of them.
package seeds

import "fmt"

// The ranges, first to last.
const (
	TrainingLast     = 99_999
	CalibrationFirst = 100_000
	CalibrationLast  = 109_999
	EvaluationFirst  = 1_000_000
)

// CheckTraining refuses a seed that search and training may not use.
func CheckTraining(seed uint64) error {
	if seed > TrainingLast {
		return fmt.Errorf("seed %d is not for search or training, use 0 to %d", seed, TrainingLast)
	}
	return nil
}

// CheckCalibration refuses a seed that is not held out for calibration.
func CheckCalibration(seed uint64) error {
	if seed < CalibrationFirst || seed > CalibrationLast {
		return fmt.Errorf("seed %d is not for calibration, use %d to %d", seed, CalibrationFirst, CalibrationLast)
	}
	return nil
}

// CheckEvaluation refuses a seed that anything before evaluation may have used.
func CheckEvaluation(seed uint64) error {
	if seed < EvaluationFirst {
		return fmt.Errorf("seed %d is not for evaluation, use %d or more", seed, EvaluationFirst)
	}
	return nil
}

// CheckAll refuses a list by the first seed that one of the functions above refuses.
func CheckAll(list []uint64, check func(uint64) error) error {
	for _, seed := range list {
		if err := check(seed); err != nil {
			return err
		}
	}
	return nil
}

// List returns n consecutive seeds.
func List(first uint64, n int) []uint64 {
	list := make([]uint64, n)
	for i := range list {
		list[i] = first + uint64(i)
	}
	return list
}
