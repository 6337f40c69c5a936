package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"prefdt/configs/cli"
	"prefdt/inference/budget"
	"prefdt/inference/checkpoint"
	"prefdt/offline/command"
	"prefdt/offline/evaluate"
)

// parseReserves reads the sizes of the reserve that -probabilities and -shares span.
func parseReserves(probabilities, shares string) (sizes []budget.Reserve, err error) {
	p, err := parseShares("-probabilities", probabilities)
	if err != nil {
		return nil, err
	}
	s, err := parseShares("-shares", shares)
	for _, probability := range p {
		for _, share := range s {
			sizes = append(sizes, budget.Reserve{Probability: probability, MaxPriceShare: share})
		}
	}
	return sizes, err
}

// parseShares reads a list of numbers from 0 to 1.
func parseShares(name, text string) (list []float64, err error) {
	for part := range strings.SplitSeq(text, ",") {
		x, err := strconv.ParseFloat(part, 64)
		if err != nil || !(x >= 0 && x <= 1) {
			return nil, fmt.Errorf("%s has %q, want numbers from 0 to 1, as in 0,0.1", name, part)
		}
		list = append(list, x)
	}
	return list, nil
}

// measureReserves measures sizes of the reserve and prints a line for each. It writes no
// file.
func measureReserves(ctx context.Context, call *cli.Call, asJSON bool, ck *checkpoint.Checkpoint, c evaluate.Config,
	sizes []budget.Reserve) error {
	rows, err := evaluate.MeasureReserves(ctx, ck, c, sizes)
	switch {
	case ctx.Err() != nil:
		return errors.New("interrupted before all cells were measured")
	case err != nil:
		return err
	}
	return command.PrintReport(call, asJSON, evaluate.ReserveText, rows)
}
