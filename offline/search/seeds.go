package search

import (
	"prefdt/offline/command"
	"prefdt/offline/seeds"
)

// SeedRange is a half-open range of seeds.
type SeedRange struct {
	First uint64 `json:"first"`
	End   uint64 `json:"end"` // excluded
}

// Len returns the number of seeds.
func (r SeedRange) Len() int { return int(r.End - r.First) }

// trainingSeeds parses A:B, or N for 0:N, of training seeds.
func trainingSeeds(text string) (SeedRange, error) { return parseSeedRange(text, seeds.CheckTraining) }

// evaluationSeeds parses a range of evaluation seeds.
func evaluationSeeds(text string) (SeedRange, error) {
	return parseSeedRange(text, seeds.CheckEvaluation)
}

func parseSeedRange(text string, allowed func(uint64) error) (SeedRange, error) {
	list, err := command.ParseSeeds(text, allowed)
	if err != nil {
		return SeedRange{}, err
	}
	return SeedRange{list[0], list[len(list)-1] + 1}, nil
}
