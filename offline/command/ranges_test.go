package command

import "testing"

func TestCheckRanges(t *testing.T) {
	type settings struct {
		Steps int     `yaml:"steps" range:"1,2e9"`
		Rate  float64 `yaml:"rate" range:"1e-9,1"`
		Seed  uint64  `yaml:"seed"`
	}
	nan := 0.0
	nan /= nan
	for _, c := range []struct {
		settings
		want string
	}{
		{settings{1, 1, 0}, ""}, {settings{2e9, 1e-9, 1 << 63}, ""},
		{settings{0, 1, 0}, "steps is 0, want 1 to 2e9"}, {settings{1, 1.5, 0}, "rate is 1.5, want 1e-9 to 1"},
		{settings{1, nan, 0}, "rate is NaN, want 1e-9 to 1"},
	} {
		got := ""
		if err := CheckRanges(&c.settings); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%+v: %q, want %q", c.settings, got, c.want)
		}
	}
}
