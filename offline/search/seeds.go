package search

import (
	"fmt"
	"strconv"
	"strings"

	"prefdt/offline/seeds"
)

// Range is a half-open range of seeds.
type Range struct {
	First uint64 `json:"first"`
	End   uint64 `json:"end"` // excluded
}

// Len returns the number of seeds.
func (r Range) Len() int { return int(r.End - r.First) }

// parseRange reads A:B, or N for 0:N.
func parseRange(text string) (Range, error) {
	first, end, pair := strings.Cut(text, ":")
	if !pair {
		first, end = "0", text
	}
	a, errA := strconv.ParseUint(first, 10, 62)
	b, errB := strconv.ParseUint(end, 10, 62)
	if errA != nil || errB != nil || b <= a || b-a > 1e6 {
		return Range{}, fmt.Errorf("seeds %q, want A:B with A below B, or N for 0:N", text)
	}
	return Range{a, b}, nil
}

// trainingSeeds is parseRange for what a search may learn from.
func trainingSeeds(text string) (Range, error) {
	r, err := parseRange(text)
	if err != nil {
		return Range{}, err
	}
	return r, seeds.Training(r.End - 1)
}

// evaluationSeeds is parseRange for what nothing has learned from.
func evaluationSeeds(text string) (Range, error) {
	r, err := parseRange(text)
	if err != nil {
		return Range{}, err
	}
	return r, seeds.Evaluation(r.First)
}
