package search

import (
	"prefdt/offline/command"
	"prefdt/offline/seeds"
)

// Range is a half-open range of seeds.
type Range struct {
	First uint64 `json:"first"`
	End   uint64 `json:"end"` // excluded
}

// Len returns the number of seeds.
func (r Range) Len() int { return int(r.End - r.First) }

// trainingSeeds reads A:B, or N for 0:N, of what a search may learn from.
func trainingSeeds(text string) (Range, error) { return parseRange(text, seeds.Training) }

// evaluationSeeds reads a range of what nothing has learned from.
func evaluationSeeds(text string) (Range, error) { return parseRange(text, seeds.Evaluation) }

func parseRange(text string, allowed func(uint64) error) (Range, error) {
	list, err := command.Range(text, allowed)
	if err != nil {
		return Range{}, err
	}
	return Range{list[0], list[len(list)-1] + 1}, nil
}
