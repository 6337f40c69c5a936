package command

import (
	"flag"
	"fmt"
	"io"
	"math"
	"strings"

	"prefdt/inference/physics"
	"prefdt/simbridge/world"
)

// WorldFlag adds -config, the file or the name of a world. The function that it returns
// is called after parsing: without the flag it returns the world given to it, with
// it that one; keys left out of a file are the standard world's.
func WorldFlag(f *flag.FlagSet) func(without world.Config) (world.Config, error) {
	path := f.String("config", "", "YAML `FILE` of the world, as configs/world.yaml, or the name of a field world")
	return func(without world.Config) (world.Config, error) {
		if *path == "" {
			return without, nil
		}
		c := world.Standard()
		if err := c.Load(*path); err != nil {
			return c, err
		}
		if err := c.Check(); err != nil {
			return c, fmt.Errorf("configuration %s: %w", *path, err)
		}
		return c, nil
	}
}

// WarnOfWorld prints a warning where a checkpoint was trained with other
// constants than those of the world it is used in, which may be any world.
func WarnOfWorld(w io.Writer, trained, here world.Config) {
	if list := trained.ConstantDifferences(here); len(list) > 0 {
		fmt.Fprintf(w, "warning: the checkpoint was trained in another world: %s\n", strings.Join(list, "; "))
	}
}

// CheckWorld returns an error where something, named by what, was made in
// another world than the one it is to be used in.
func CheckWorld(what string, made, here world.Config) error {
	if list := made.Differences(here); len(list) > 0 {
		return fmt.Errorf("%s made in another world: %s", what, strings.Join(list, "; "))
	}
	return nil
}

// PropulsionLine is the flight power of a world at hover, near its least and at V_max.
func PropulsionLine(c *physics.Constants) string {
	var at []string
	best := math.Round(10*c.Propulsion.BestSpeedMPS(c.SpeedMaxMPS)) / 10
	for _, speed := range []float64{0, best, c.SpeedMaxMPS} {
		at = append(at, fmt.Sprintf("%.1f W at %v m/s", c.Propulsion.PowerW(speed), speed))
	}
	return "propulsion: " + strings.Join(at, ", ")
}
