package evaluate

import (
	"math"
	"strings"
	"testing"

	"prefdt/offline/offlinetest"
)

// The range over worlds has each end's own standard error.
func TestWorldRange(t *testing.T) {
	row := func(name string, ratio, standardError float64) OperatingPoint {
		return OperatingPoint{Name: name, Ratio: HypervolumeRatio{Hypervolume: ratio},
			RatioError: &HypervolumeRatio{Hypervolume: standardError}}
	}
	x := summarizeWorlds([]OperatingPoint{row("a", 1, 0.1), row("b", 0.9, 0.2), row("c", 1.2, 0.3), row("d", 1.1, 0.4)}, 7)
	if x.Seeds != 7 || x.Ratio.N != 4 || math.Abs(x.Ratio.Mean-1.05) > 1e-12 || math.Abs(x.Ratio.Std-math.Sqrt(0.05/3)) > 1e-12 ||
		x.Least.Name != "b" || x.Least.RatioError.Hypervolume != 0.2 || x.Most.Name != "c" || x.Most.RatioError.Hypervolume != 0.3 {
		t.Errorf("%+v", x)
	}
}

// Random worlds are printed with their range, and differ by seed by what is stated.
func TestRandomWorlds(t *testing.T) {
	short := offlinetest.Write(t, "slots: 20\n", t.TempDir(), "world.yaml")
	args := []string{"-config", short, "-settings", "2", "-prices", "3", "-random-worlds", "2", "-seeds"}
	text := runEvaluate(t, append(args, "1000000:1000002")...)
	if !strings.Contains(text, "2 random worlds, 2 seeds in each") ||
		strings.Count(text, "world 0: ")+strings.Count(text, "world 1: ") != 4 || strings.Count(text, "±") != 2+2*2+2 {
		t.Errorf("%s", text)
	}
	first, second := evaluated(t, append(args, "1000000:1000001")...), evaluated(t, append(args, "1000001:1000002")...)
	r := evaluated(t, append(args, "1000000:1000002")...)
	for k, p := range r.OperatingPoints {
		a, b := first.OperatingPoints[k], second.OperatingPoints[k]
		x, y := a.Ratio.Hypervolume, b.Ratio.Hypervolume
		if a.RatioError != nil || math.Abs(p.Ratio.Hypervolume-(x+y)/2) > 1e-9 ||
			math.Abs(p.RatioError.Hypervolume-math.Abs(x-y)/2) > 1e-9 {
			t.Errorf("%s: %v ± %v of seeds with %v and %v", p.Name, p.Ratio, p.RatioError, x, y)
		}
	}
	if w := r.RandomWorlds; w == nil || w.Seeds != 2 || w.Ratio.N != 2 || w.Least.Ratio.Hypervolume > w.Most.Ratio.Hypervolume {
		t.Errorf("%+v", w)
	}
}
